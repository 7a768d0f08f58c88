package killpoint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
)

// TestMain lets the test binary also run as "worker", a program that creates five
// files, the last two in a child process.
func TestMain(m *testing.M) {
	killpoint.Main()
	testscript.Main(m, map[string]func(){"worker": worker})
}

func worker() {
	if len(os.Args) > 1 {
		touch("d", "e")
		return
	}
	touch("a", "b", "c")
	cmd := exec.Command("worker", "child")
	cmd.Stdout = os.Stdout
	if cmd.Run() != nil {
		os.Exit(3) // the child was killed
	}
}

func touch(names ...string) {
	for _, name := range names {
		f, err := os.Create(name)
		if err != nil {
			panic(err)
		}
		_ = f.Close()
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		plan  killpoint.Plan
		files string
		code  int
	}{
		"count":          {killpoint.Plan{}, "a b c d e", 0},
		"first":          {killpoint.Plan{At: 1}, "", -1},
		"third":          {killpoint.Plan{At: 3}, "a b", -1},
		"child":          {killpoint.Plan{At: 5, Victim: killpoint.Caller}, "a b c d", 3},
		"root of child":  {killpoint.Plan{At: 4, Victim: killpoint.Root}, "a b c d e", -1},
		"both":           {killpoint.Plan{At: 5, Victim: killpoint.Both}, "a b c d", -1},
		"after the last": {killpoint.Plan{At: 6}, "a b c d e", 0},
		"other signal":   {killpoint.Plan{At: 2, Signal: syscall.SIGTERM}, "a", -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.Command("worker")
			cmd.Dir = dir
			out, err := killpoint.Run(cmd, tt.plan)
			if err != nil {
				t.Fatal(err)
			}
			if out.Code != tt.code {
				t.Errorf("exit code: want %d, got %d", tt.code, out.Code)
			}
			list, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				list[i] = filepath.Base(list[i])
			}
			if got := strings.Join(list, " "); got != tt.files && tt.plan.Signal == 0 { // Run does not wait for the effect of other signals
				t.Errorf("files: want %q, got %q", tt.files, got)
			}
			if reached := tt.plan.At > 0 && tt.plan.At < 6; reached != (out.Point != "") || reached && !strings.HasPrefix(out.Point, "openat by ") {
				t.Errorf("unexpected point %q", out.Point)
			}
		})
	}
}
