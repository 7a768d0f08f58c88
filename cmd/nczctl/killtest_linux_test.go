package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killsDefault is how often the kill test kills; $NCZARR_KILLS says otherwise.
const killsDefault = 40

// arena is where the kill test takes place.
type arena struct {
	t        *testing.T
	dir, tmp string
	run      func(sig syscall.Signal, after time.Duration, args ...string) (int, string)
	want     string // dump of a whole copy
	took     time.Duration
}

// TestKills kills nczctl, or one of its plugin processes, at random points of
// copies: what is there afterwards is whole or no dataset, what was there
// before is not lost, no process outlives the host, and nothing is left once
// nczctl has run again.
func TestKills(t *testing.T) {
	t.Parallel()
	n := killsDefault
	if text := os.Getenv("NCZARR_KILLS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	a := newArena(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, n)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	killed := map[string]int{}
	for i := range n {
		killed[a.kill(r, i)]++
	}
	t.Logf("killed: %v", killed)
	if killed["host"] == 0 || killed["plugin"] == 0 {
		t.Errorf("want hosts and plugins killed, got %v", killed)
	}
	a.clean()
}

func newArena(t *testing.T) *arena {
	t.Helper()
	a := &arena{t: t}
	a.run, a.dir, a.tmp = killedIn(t)
	_, a.want = a.run(0, 0, "dump", "-n", "x", "src.zarr")
	began := time.Now()
	for _, dst := range []string{"old.zarr", "old.zip"} {
		if code, _ := a.run(0, 0, "copy", "src.zarr", dst); code != 0 {
			t.Fatalf("copy to %s: exit code %d", dst, code)
		}
	}
	a.took = time.Since(began) / 2
	return a
}

// kill makes one copy and kills something in it; it says what it killed.
func (a *arena) kill(r *rand.Rand, i int) string {
	old, dst := r.IntN(2) == 0, "old"
	args := []string{"copy", "--memory", "64KiB"}
	if old {
		args = append(args, "--overwrite")
	} else {
		dst = "new" + strconv.Itoa(i)
	}
	dst += []string{".zarr", ".zip"}[r.IntN(2)]
	c := exec.Command("nczctl", append(args, "src.zarr", dst)...)
	var stderr bytes.Buffer
	c.Dir, c.Stderr, c.Env = a.dir, &stderr, append(os.Environ(), "TMPDIR="+a.tmp)
	if err := c.Start(); err != nil {
		a.t.Fatal(err)
	}
	time.Sleep(time.Duration(r.Int64N(int64(a.took))))
	what := "host"
	if list := a.plugins(); r.IntN(2) == 0 && len(list) > 0 {
		what = "plugin"
		_ = syscall.Kill(list[r.IntN(len(list))], syscall.SIGKILL) // it may have ended
	} else {
		_ = c.Process.Kill()
	}
	err := c.Wait()
	if left := a.outlived(); len(left) > 0 {
		a.t.Errorf("%d: processes %d outlive nczctl after the %s was killed", i, left, what)
	}
	code, got := a.run(0, 0, "dump", "-n", "x", dst)
	switch {
	case code == 0 && got == a.want:
	case old:
		a.t.Errorf("%d: %s, which was there before, is lost: dump exits with %d and %d bytes; %s killed, %v, %s", i, dst, code, len(got), what, err, stderr.String())
	case code == 0 || got != "":
		a.t.Errorf("%d: %s is neither whole nor visibly incomplete: dump exits with %d and %d bytes; %s killed, %v, %s", i, dst, code, len(got), what, err, stderr.String())
	case err == nil:
		a.t.Errorf("%d: nczctl says that %s is whole, and it is not: dump exits with %d; %s", i, dst, code, stderr.String())
	}
	if !old {
		_ = os.RemoveAll(filepath.Join(a.dir, dst))
	}
	return what
}

// plugins gives the plugin processes of this test: their temporary directory
// is in ours.
func (a *arena) plugins() []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if bytes.Contains(env, []byte("\x00TMPDIR="+a.tmp+"/")) || bytes.HasPrefix(env, []byte("TMPDIR="+a.tmp+"/")) {
			out = append(out, pid)
		}
	}
	return out
}

// outlived gives the plugin processes that do not end.
func (a *arena) outlived() []int {
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := a.plugins()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// clean runs nczctl once more for each place, and looks for leftovers.
func (a *arena) clean() {
	a.t.Helper()
	for _, dst := range []string{"old.zarr", "old.zip"} {
		if code, _ := a.run(0, 0, "copy", "--overwrite", "src.zarr", dst); code != 0 {
			a.t.Errorf("copy to %s: exit code %d", dst, code)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(a.tmp, "*")); len(left) > 0 {
		a.t.Errorf("left in the temporary directory: %q", left)
	}
	entries, _ := os.ReadDir(a.dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "b.cdl old.zarr old.zip src.zarr" {
		a.t.Errorf("left beside the datasets: %q", got)
	}
}
