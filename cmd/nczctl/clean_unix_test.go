//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	places "github.com/seed-695719ce/nczarr/core/place"
)

// TestLiveStage: a second command takes nothing from one that is at work on the
// same place, whatever its process id says; it clears up after one that died.
// "nczctl clean" tells the two apart.
func TestLiveStage(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	if err := patientHome(home); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.cdl"), []byte("netcdf a { dimensions: x = 1 ; variables: int v(x) ; data: v = 1 ; }"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command("nczctl", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("nczctl %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("gen", "-o", "a.zarr", "a.cdl")
	stage := func() *places.Stage {
		s, err := places.NewStage(filepath.Join(dir, "a.zarr"), places.StageOptions{Directory: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Path, "f"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		return s
	}
	live := stage() // like that of a command in another container, whose process we cannot see
	run("gen", "--overwrite", "-o", "a.zarr", "a.cdl")
	if _, err := os.Stat(filepath.Join(live.Path, "f")); err != nil {
		t.Errorf("what a living command has staged: %v", err)
	}
	if out := run("clean", "--remove", "."); !strings.Contains(out, "in use") || strings.Contains(out, "removed") {
		t.Errorf("clean, with a living command: %s", out)
	}
	if err := live.Commit(); err == nil {
		t.Error("the first command takes the place of what the second has put there")
	}
	dead := stage()
	if err := dead.Die(); err != nil {
		t.Fatal(err)
	}
	if out := run("clean", "."); !strings.Contains(out, "left over") {
		t.Errorf("clean, with a dead command: %s", out)
	}
	if out := run("clean", "--remove", "."); !strings.Contains(out, "removed") {
		t.Errorf("clean --remove: %s", out)
	}
	dead = stage()
	if err := dead.Die(); err != nil {
		t.Fatal(err)
	}
	run("gen", "--overwrite", "-o", "a.zarr", "a.cdl")
	if out := run("clean", "."); out != "" {
		t.Errorf("the next command did not clear up: %s", out)
	}
}
