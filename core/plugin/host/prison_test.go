package host_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestMaxRestarts checks that MaxRestarts limits the restarts of a process.
func TestMaxRestarts(t *testing.T) {
	t.Parallel()
	for limit, starts := range map[int]int{-1: 1, 2: 3} {
		h := newHost(t, host.Options{MaxRestarts: limit})
		m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
		var err error
		for range 4 {
			_, err = get(t.Context(), m, "die")
		}
		if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "plugins.max_restarts") {
			t.Errorf("limit %d: want a refusal, got %v", limit, err)
		}
		if got := h.Plugins()[0].Restarts + 1; got != starts {
			t.Errorf("limit %d: want %d starts, got %d", limit, starts, got)
		}
	}
}

// TestDeaths checks that Deaths reports deaths with their reasons, and omits processes
// killed by Kill. A new process must serve the next call.
func TestDeaths(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	spec := driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create}
	running := func() (pids []int) {
		for _, p := range h.Plugins() {
			if p.PID != 0 {
				pids = append(pids, p.PID)
			}
		}
		return pids
	}
	open(t, h, "trouble", spec)
	before := running()
	if err := h.Kill(t.Context()); err != nil || len(h.Deaths()) != 0 {
		t.Errorf("killed: %v, deaths %v", err, h.Deaths())
	}
	if after := running(); len(before) != 1 || len(after) != 0 {
		t.Errorf("want one process before Kill and none after it, got %v and %v", before, after)
	}
	m := open(t, h, "trouble", spec)
	_, _ = get(t.Context(), m, "die")
	if list := h.Deaths(); len(list) == 0 || !strings.Contains(list[0].Error(), "died (") {
		t.Errorf("deaths %v", list)
	}
	open(t, h, "trouble", spec)
	host.BreakAll(h)
	if err := h.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	list := h.Deaths()
	if last := list[len(list)-1]; !strings.Contains(last.Error(), "was killed: requested by a test") {
		t.Errorf("want the reason for the kill, got %v", last)
	}
}

// TestKillAfterTermination checks that the host kills a plugin that does not exit on
// request. newHost checks that no process is left after Close.
func TestKillAfterTermination(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	opts := zooOptions(t, "stubborn", "nczarr-driver-zoo")
	opts.StopTimeout, opts.Logger = 100*time.Millisecond, textLog(log)
	t.Cleanup(func() { // runs after newHost's cleanup
		if strings.Contains(log.String(), "cannot be killed") {
			t.Error("the host could not kill the plugin")
		}
	})
	h := newHost(t, opts)
	open(t, h, "zoo", driver.OpenSpec{Path: "x"})
	if h.Plugins()[0].PID == 0 {
		t.Error("the plugin does not run")
	}
}

// TestAttach checks that hosts can attach to a plugin that its author started.
func TestAttach(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), zooEnv+"=good", handshake.EnvDebug+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var where string
	for lines := bufio.NewScanner(out); where == "" && lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), handshake.EnvReattach+"='"); ok {
			where, _, _ = strings.Cut(rest, "'")
		}
	}
	getenv := func(name string) string {
		if name == handshake.EnvReattach {
			return where
		}
		return ""
	}
	for range 30 { // one host after the other
		log := &logBuffer{}
		h := newHost(t, host.Options{Getenv: getenv, Logger: textLog(log)})
		m := open(t, h, "good", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
		if _, err := m.Put(t.Context(), "k", driver.Bytes("v"), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := get(t.Context(), m, "k"); err != nil || got != "v" {
			t.Errorf("got %q, %v", got, err)
		}
		if !strings.Contains(log.String(), "neither pinned nor confined") {
			t.Errorf("want a warning, got %q", log)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := host.New(&host.Options{Self: self, Getenv: getenv, Sandbox: host.SandboxRequire}); !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), handshake.EnvReattach) {
		t.Errorf("with a required sandbox: want a refusal, got %v", err)
	}
	if !running(cmd.Process.Pid) {
		t.Error("a host killed a process that it did not start")
	}
	for _, text := range []string{"{", `[{"name":"x","network":"tcp","address":"192.0.2.1:7","pid":1}]`, `[{"name":"x","network":"tcp","address":"elsewhere:7","pid":1}]`} {
		if _, err := host.New(&host.Options{Getenv: func(string) string { return text }}); !errors.Is(err, ncerr.ErrInvalid) {
			t.Errorf("%s: want ErrInvalid, got %v", text, err)
		}
	}
}

// TestTrace checks that each call is logged.
func TestTrace(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	h := newHost(t, host.Options{Logger: debugLog(log)})
	m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	_, _ = m.Put(t.Context(), "k", driver.Bytes("v"), &driver.PutOptions{})
	_, _ = m.Stat(t.Context(), "absent")
	text := log.String()
	for _, want := range []string{"Driver/Open", "Put", "Driver/Stat", "plugin=nczarr", "serves=driver:trouble/write", "took=", "err="} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in %s", want, text)
		}
	}
}

// TestNoForkBomb checks that a program that a host started as a plugin cannot start
// itself again.
func TestNoForkBomb(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, depth := range []string{"", "1"} {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), zooEnv+"=host", "ZOO_DIR="+plugins(t, "nczarr-driver-good"), "ZOO_TMP="+t.TempDir(), "ZOO_SANDBOX=off", handshake.EnvDepth+"="+depth)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if refused := strings.Contains(line, "cannot execute itself"); refused != (depth != "") {
			t.Errorf("depth %q: got %q", depth, line)
		}
	}
}
