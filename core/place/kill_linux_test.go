package place_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/core/place"
)

// workVar is an environment variable. If it is set to a directory, the test binary
// creates a temporary directory there, writes files to it and removes it.
const workVar = "NCZARR_TEST_TEMP"

func TestMain(m *testing.M) {
	killpoint.Main()
	if parent := os.Getenv(workVar); parent != "" {
		work(parent)
	}
	os.Exit(m.Run())
}

func work(parent string) {
	temp, err := place.NewTemp(parent, "temp-", "")
	if err == nil {
		err = os.MkdirAll(filepath.Join(temp.Dir, "d/e"), 0o777)
	}
	for _, name := range []string{"a", "d/b", "d/e/c", "z"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(temp.Dir, name), []byte("x"), 0o666)
		}
	}
	if err == nil {
		err = temp.Remove()
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestKilledAtEveryCall kills a process at each system call while it creates, fills or
// removes a temporary directory. Sweep must then be able to remove everything that is
// left.
func TestKilledAtEveryCall(t *testing.T) { //nolint:paralleltest // between fork and exec, a child holds the locks of other tests
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for at := 1; ; at++ {
		parent := t.TempDir()
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), workVar+"="+parent)
		out, err := killpoint.Run(cmd, killpoint.Plan{At: at})
		if err != nil {
			t.Fatal(err)
		}
		if out.Point == "" {
			if out.Code != 0 || at < 15 {
				t.Errorf("the process ended normally after %d calls with exit code %d", out.Calls, out.Code)
			}
			return
		}
		place.Sweep(parent, "temp-", func(f place.Found) {
			if _, err := place.Clean(f); err != nil {
				t.Errorf("killed at call %d, %s: Clean: %v", at, out.Point, err)
			}
		})
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("killed at call %d, %s: %v was left, %v", at, out.Point, left, err)
		}
	}
}
