//go:build unix

package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// TestLinkReplacesNewRoot checks that the driver does not follow a link that replaces a
// newly created directory, because otherwise it would write into another store.
func TestLinkReplacesNewRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made, link := filepath.Join(dir, "made"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(made, 0o777), os.Symlink("made", link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{made: true, link: false} {
		m, err := openRoot(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.checkNewRoot(); (err == nil) != want || err != nil && ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("%s: %v", path, err)
		}
		if err := m.release(); err != nil {
			t.Error(err)
		}
	}
}
