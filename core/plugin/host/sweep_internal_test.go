//go:build unix

package host

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestSweepSparesTheLiving: hosts that start at the same time do not take each
// other's private directory for that of a dead one.
func TestSweepSparesTheLiving(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dead := filepath.Join(parent, dirPrefix+"dead")
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, ownerFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				sweep(parent)
				dir, err := os.MkdirTemp(parent, dirPrefix) //nolint:usetesting // it must lie in parent
				if err != nil {
					t.Error(err)
					return
				}
				f, err := ownDir(dir)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(filepath.Join(dir, ownerFile)); err != nil {
					t.Error(err)
				}
				_ = f.Close()
			}
		})
	}
	wg.Wait()
	if _, err := os.Stat(dead); err == nil {
		t.Error("the directory of a dead host is still there")
	}
}
