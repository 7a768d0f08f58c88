//go:build unix

package host

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestSweepSparesTheLiving: hosts that start at the same time do not take each
// other's private directory for that of a dead one.
func TestSweepSparesTheLiving(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dead := filepath.Join(parent, dirPrefix+"dead")
	if err := os.MkdirAll(filepath.Join(dead, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				sweep(parent)
				dir, f, err := makeOwn(parent)
				if err != nil {
					t.Error(err)
					return
				}
				sweep(parent)
				if _, err := os.Stat(dir); err != nil {
					t.Error(err)
				}
				_ = f.Close() // as if the host were killed
			}
		})
	}
	wg.Wait()
	sweep(parent)
	if left, _ := filepath.Glob(filepath.Join(parent, "*")); len(left) > 0 {
		t.Errorf("directories of dead hosts are still there: %q", left)
	}
}

// TestSweepUnmarked: a host that was killed as soon as it had made its
// directory leaves it empty and unlocked.
func TestSweepUnmarked(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.Mkdir(filepath.Join(parent, dirPrefix+"1"), 0o700); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(parent, "kept")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(parent, dirPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	sweep(parent)
	left, _ := filepath.Glob(filepath.Join(parent, "*"))
	if want := []string{other, filepath.Join(parent, dirPrefix+"link")}; !slices.Equal(left, want) {
		t.Errorf("want %q left, got %q", want, left)
	}
}
