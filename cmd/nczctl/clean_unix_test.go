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

// TestLiveStage checks that a command does not touch the stage of a running command for
// the same dataset, and that it removes the stage of a dead command. It also checks that
// "nczctl clean" distinguishes the two stages.
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
	live := stage() // the test process acts as the running command
	run("gen", "--overwrite", "-o", "a.zarr", "a.cdl")
	if _, err := os.Stat(filepath.Join(live.Path, "f")); err != nil {
		t.Errorf("the stage of a running command is damaged: %v", err)
	}
	if out := run("clean", "--remove", "."); !strings.Contains(out, "in use") || strings.Contains(out, "removed") {
		t.Errorf("clean with a running command: want its stage in use, got %s", out)
	}
	if err := live.Commit(); err == nil {
		t.Error("the first command replaced the dataset that the second command wrote")
	}
	dead := stage()
	if err := dead.AbandonForTest(); err != nil {
		t.Fatal(err)
	}
	if out := run("clean", "."); !strings.Contains(out, "left over") {
		t.Errorf("clean with a dead command: want its stage left over, got %s", out)
	}
	if out := run("clean", "--remove", "."); !strings.Contains(out, "removed") {
		t.Errorf("clean --remove: want the stage removed, got %s", out)
	}
	dead = stage()
	if err := dead.AbandonForTest(); err != nil {
		t.Fatal(err)
	}
	run("gen", "--overwrite", "-o", "a.zarr", "a.cdl")
	if out := run("clean", "."); out != "" {
		t.Errorf("the next command left the stage of the dead one: %s", out)
	}
}
