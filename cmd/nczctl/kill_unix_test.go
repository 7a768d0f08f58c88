//go:build unix

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// newSource creates src.zarr, a dataset of 200 chunks, in a new directory. It returns a
// function that creates nczctl commands. They run in that directory with the temporary
// directory tmp.
func newSource(t *testing.T, env ...string) (nczctl func(args ...string) *exec.Cmd, dir, tmp string) {
	t.Helper()
	dir, tmp = t.TempDir(), t.TempDir()
	home := t.TempDir()
	if err := patientHome(home); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("netcdf b { dimensions: x=200; y=500; variables: int a(x,y); a:_FillValue=-1; a:_ChunkSizes=10,50; a:_DeflateLevel=1; data: a = 0")
	for i := range 99_999 {
		text.WriteString("," + strconv.Itoa(i%997))
	}
	text.WriteString("; }")
	if err := os.WriteFile(filepath.Join(dir, "b.cdl"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	nczctl = func(args ...string) *exec.Cmd {
		c := exec.Command("nczctl", args...)
		c.Dir, c.Env = dir, append(append(os.Environ(), env...), "TMPDIR="+tmp, "HOME="+home, "XDG_CONFIG_HOME=")
		return c
	}
	if code, _ := runCommand(t, nczctl("gen", "-o", "src.zarr", "b.cdl")); code != 0 {
		t.Fatalf("gen: exit code %d", code)
	}
	return nczctl, dir, tmp
}

// runCommand runs a command and returns its exit code and standard output.
func runCommand(t *testing.T, c *exec.Cmd) (int, string) {
	t.Helper()
	var out strings.Builder
	c.Stdout = &out
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String()
}

// TestInterruptedCopy checks that an interrupted copy whose source no longer responds
// cleans up and exits with 130.
func TestInterruptedCopy(t *testing.T) {
	t.Parallel()
	nczctl, dir, _ := newSource(t)
	var chunks atomic.Int64
	stuck := make(chan struct{})
	files := http.FileServer(http.Dir(dir))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/src.zarr/a/1") && chunks.Add(1) == 100 {
			close(stuck)
			<-r.Context().Done()
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	c := nczctl("copy", "--memory", "64KiB", front.URL+"/src.zarr#mode=nczarr", "cut.zarr")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case <-stuck:
	case err := <-done:
		t.Fatalf("the copy ended after %d chunks: %v", chunks.Load(), err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	<-done
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Errorf("want exit code 130, got %d", code)
	}
	if code, _ := runCommand(t, nczctl("info", "cut.zarr")); code != ncerr.Exit(ncerr.ErrNotFound) {
		t.Errorf("info after the interrupt: exit code %d", code)
	}
}
