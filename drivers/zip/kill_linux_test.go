package zip_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestKilledWriter repeatedly kills a process that writes. The archive must contain one
// complete generation each time.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zip")
	m := openZip(t, path, driver.Create, "")
	for i := range killObjects {
		put(t, m, fmt.Sprint("v/", i), generation("0", i))
	}
	flush(t, m)
	seen := map[string]bool{}
	for round := range 12 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+path)
		out, err := killpoint.Run(cmd, killpoint.Plan{At: 9 + round})
		if err != nil || out.Code != -1 {
			t.Fatalf("round %d: want a killed program, got %+v, %v", round, out, err)
		}
		all := content(t, openZip(t, path, driver.Read, ""))
		n, _, _ := strings.Cut(all["v/0"], " ")
		seen[n] = true
		for i := range killObjects {
			if all[fmt.Sprint("v/", i)] != generation(n, i) {
				t.Fatalf("round %d: object %d is not of generation %s", round, i, n)
			}
		}
		if len(all) != killObjects {
			t.Fatalf("round %d, killed at %s: want all objects, got %d", round, out.Point, len(all))
		}
		if len(stdContent(t, path)) != killObjects {
			t.Fatal("the standard library finds another number of members")
		}
	}
	t.Logf("generations found: %v", seen)
}

// TestKilledOpener kills a process at each call that changes files, from opening a new
// archive until it has content in the spill file. No file may be left.
func TestKilledOpener(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err != nil {
		t.Skip("the file system has no files without a name")
	}
	_ = unix.Close(fd)
	for at := 1; ; at++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), spillEnv+"="+filepath.Join(dir, "x.zip"))
		out, err := killpoint.Run(cmd, killpoint.Plan{At: at})
		if err != nil || out.Code > 0 {
			t.Fatalf("killed at call %d: want exit code 0 or a kill, got %+v, %v", at, out, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Fatalf("killed at call %d, %s: %v is left, %v", at, out.Point, left, err)
		}
		if out.Code == 0 { // the program was not killed
			if at < 3 {
				t.Fatalf("want at least 2 calls, got %d", at-1)
			}
			return
		}
	}
}
