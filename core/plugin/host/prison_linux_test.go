package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestUnpinnedNeverRuns checks that the host does not execute an unpinned plugin unless
// unpinned plugins are allowed.
func TestUnpinnedNeverRuns(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		dir := t.TempDir()
		mark := filepath.Join(dir, "mark")
		for _, name := range []string{"nczarr-driver-evil", "nczarr-filter-evil"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o700); err != nil { // the file must be executable
				t.Fatal(err)
			}
		}
		h := newHost(t, host.Options{Dirs: []string{dir}, AllowUnpinned: allowed, Sandbox: host.SandboxOff, StartTimeout: 2 * time.Minute})
		if err := h.Discover(t.Context()); err == nil {
			t.Error("want an error from Discover")
		}
		if o, err := h.Driver("evil"); err == nil {
			o.Describe()
			if _, err = o.Open(t.Context(), driver.OpenSpec{Path: dir}); !errors.Is(err, ncerr.ErrPlugin) {
				t.Errorf("want ErrPlugin, got %v", err)
			}
		}
		if p, err := h.Filter("evil"); err == nil {
			p.Describe()
			_, _, _ = p.Open("evil", nil, codecdriver.Spec{MaxBytes: 1})
		}
		_, _ = h.Driver("unknown")
		_, _ = h.Filter("unknown")
		if _, err := os.Stat(mark); (err == nil) != allowed {
			t.Errorf("allowed %t: the plugin was executed: %t", allowed, err == nil)
		}
	}
}

// TestChildren checks that the host kills the child processes of an unconfined plugin.
func TestChildren(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{Sandbox: host.SandboxOff})
	pl, _ := pipeline(t, h, 100, codecdriver.Step{ID: "trouble", Params: []byte(`{"mode":"child"}`)})
	var text string
	if err := pl.DecodeMany(t.Context(), []codecdriver.Job{{Src: []byte("x"), Limit: 100}}, func(_ int, out []byte, _ error) { text = string(out) }); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(text)
	if err != nil || !running(pid) {
		t.Fatalf("want the id of a running child process, got %q, %v", text, err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Minute); inState(pid, "RSD"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("the child process %d still runs after its plugin", pid)
		}
	}
}

// inState reports whether a process is in one of the given states, which are letters of
// proc(5). It returns false for a process that does not exist.
func inState(pid int, states string) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest != "" && strings.Contains(states, rest[:1])
}

// TestOrphanIsKilled checks that the kernel kills a plugin that ignores its
// lifeline when the host dies.
func TestOrphanIsKilled(t *testing.T) {
	t.Parallel()
	for _, mode := range []host.Sandbox{host.SandboxAuto, host.SandboxOff} { //nolint:paralleltest // the subtests run in sequence
		t.Run(string(mode), func(t *testing.T) { testNoOrphan(t, mode, "stubborn") })
	}
}

// TestReplaced replaces the file of a plugin after the host has checked it. The host
// must execute the checked copy.
func TestReplaced(t *testing.T) {
	t.Parallel()
	opts := zooOptions(t, "good", "nczarr-driver-good")
	h := newHost(t, opts)
	m := open(t, h, "good", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	path := filepath.Join(opts.Dirs[0], "nczarr-driver-good")
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("#!/bin/false\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t.Context(), m, "die-once"); err != nil {
		t.Errorf("want a restart with the checked copy, got %v", err)
	}
}

// TestPluginsOf removes the executable of a plugin that one host has checked. A second
// host, whose PluginsOf is the first, must execute the checked copy in a new process.
// Closing the second host must not close the copy.
func TestPluginsOf(t *testing.T) {
	t.Parallel()
	opts := zooOptions(t, "good", "nczarr-driver-good")
	first := newHost(t, opts)
	if err := first.Start(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(opts.Dirs[0], "nczarr-driver-good")); err != nil {
		t.Fatal(err)
	}
	opts.PluginsOf = first
	for range 2 {
		h, err := host.New(&opts)
		if err != nil {
			t.Fatal(err)
		}
		open(t, h, "good", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
		if a, b := first.Plugins()[0], h.Plugins()[0]; b.PID == 0 || a.PID == b.PID || a.SHA256 != b.SHA256 {
			t.Errorf("want another process of the same program, got %+v and %+v", a, b)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
