//go:build unix

package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr/core/place"
)

// TestSweep checks that a starting host removes the directories of dead hosts, including
// empty ones, but not those of running hosts or directories whose names only share the
// prefix. A host removes no directories on systems that cannot lock directories.
func TestSweep(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if len(parent) > maxParent {
		t.Skip("the path of the temporary directory is too long for sockets")
	}
	var err error
	hosts := make([]*Host, 3)
	dirs := make([]string, len(hosts))
	start := func(i int) {
		if hosts[i], err = New(&Options{TempDir: parent}); err != nil {
			t.Fatal(err)
		}
		if dirs[i], err = hosts[i].dir(); err != nil {
			t.Fatal(err)
		}
	}
	start(0)
	start(1)
	if err := hosts[1].private.Keep(); err != nil { // as if the process had ended
		t.Fatal(err)
	}
	results := filepath.Join(parent, dirPrefix+"2024-results")
	for _, dir := range []string{results, filepath.Join(parent, dirPrefix+"ABCDEFGHIJ")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	start(2)
	for dir, want := range map[string]bool{dirs[0]: true, dirs[1]: false, dirs[2]: true, results: true, filepath.Join(parent, dirPrefix+"ABCDEFGHIJ"): false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s exists: want %t, got %v", filepath.Base(dir), want, err)
		}
	}
	if found, err := place.Find(parent, dirPrefix); err != nil || len(found) != 2 || !found[0].InUse || !found[1].InUse {
		t.Errorf("want 2 directories in use, got %+v, %v", found, err)
	}
	for _, i := range []int{0, 2} {
		if err := hosts[i].Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
