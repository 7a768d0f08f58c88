//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killed makes a dataset and gives a function that runs nczctl in its
// directory; sig is sent after a while, 0 is never sent.
func killed(t *testing.T) func(sig syscall.Signal, after time.Duration, args ...string) (code int, out string) {
	t.Helper()
	run, _, _ := killedIn(t)
	return run
}

// killedIn is killed which tells its directory and that of temporary files,
// and takes variables of the environment.
func killedIn(t *testing.T, env ...string) (run func(sig syscall.Signal, after time.Duration, args ...string) (code int, out string), dir, tmp string) {
	t.Helper()
	dir, tmp = t.TempDir(), t.TempDir()
	var text strings.Builder
	text.WriteString("netcdf b { dimensions: x=200; y=500; variables: int a(x,y); a:_ChunkSizes=10,50; a:_DeflateLevel=1; data: a = 0")
	for i := range 99_999 {
		text.WriteString("," + strconv.Itoa(i%997))
	}
	text.WriteString("; }")
	if err := os.WriteFile(filepath.Join(dir, "b.cdl"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run = func(sig syscall.Signal, after time.Duration, args ...string) (int, string) {
		c := exec.Command("nczctl", args...)
		var out strings.Builder
		c.Dir, c.Stdout, c.Env = dir, &out, append(append(os.Environ(), env...), "TMPDIR="+tmp)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if sig != 0 {
			time.Sleep(after)
			_ = c.Process.Signal(sig) // it may have ended
		}
		err := c.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), out.String()
	}
	if code, _ := run(0, 0, "gen", "-o", "src.zarr", "b.cdl"); code != 0 {
		t.Fatalf("gen: exit code %d", code)
	}
	return run, dir, tmp
}

// TestKilledCopies kills nczctl in the middle of copies: what is there
// afterwards is whole or no dataset, and what was there before is not lost.
func TestKilledCopies(t *testing.T) {
	t.Parallel()
	run := killed(t)
	_, want := run(0, 0, "dump", "-n", "x", "src.zarr")
	began := time.Now()
	for _, dst := range []string{"old.zarr", "old.zip"} {
		if code, _ := run(0, 0, "copy", "src.zarr", dst); code != 0 {
			t.Fatalf("copy to %s: exit code %d", dst, code)
		}
	}
	took := time.Since(began) / 2
	for i := range 12 {
		after := took * time.Duration(i%6) / 6
		old, fresh := "old.zarr", "new"+strconv.Itoa(i)+".zarr"
		if i >= 6 {
			old, fresh = "old.zip", "new"+strconv.Itoa(i)+".zip"
		}
		run(syscall.SIGKILL, after, "copy", "--overwrite", "src.zarr", old)
		if code, got := run(0, 0, "dump", "-n", "x", old); code != 0 || got != want {
			t.Errorf("%s, killed after %v while it was replaced: dump exits with %d and %d bytes, want %d", old, after, code, len(got), len(want))
		}
		run(syscall.SIGKILL, after, "copy", "src.zarr", fresh)
		if code, got := run(0, 0, "dump", "-n", "x", fresh); code == 0 && got != want || code != 0 && got != "" {
			t.Errorf("%s, killed after %v: dump exits with %d and %d bytes", fresh, after, code, len(got))
		}
	}
}

// TestInterruptedCopy interrupts a copy: it cleans up and says 130.
func TestInterruptedCopy(t *testing.T) {
	t.Parallel()
	run := killed(t)
	var dst string
	after := 50 * time.Millisecond
	for try := 0; ; try++ {
		dst = "cut" + strconv.Itoa(try) + ".zarr"
		code, _ := run(syscall.SIGINT, after, "copy", "--memory", "1KiB", "src.zarr", dst)
		if code == 130 {
			break
		}
		if try == 100 {
			t.Skipf("no signal came in time; the last exit code is %d", code)
		}
		if code == -1 { // it had not begun to listen
			after += after / 3
		} else {
			after /= 2
		}
		after = max(after, time.Millisecond)
	}
	// Nothing is there, or an empty directory when the signal came while the
	// driver made it: no dataset in either case.
	if code, _ := run(0, 0, "info", dst); code != 10 && code != 13 {
		t.Errorf("info after the interrupt: want exit code 10 or 13, got %d", code)
	}
}
