//go:build unix

package layer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// TestCacheInSharedDirectory checks that Cache rejects a directory in which other users
// can create files.
func TestCacheInSharedDirectory(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir string) error{
		"open to all": func(dir string) error { return os.Chmod(dir, 0o777) },
		"a link": func(dir string) error {
			if err := os.Rename(dir, dir+".real"); err != nil {
				return err
			}
			return os.Symlink(dir+".real", dir)
		},
		"another owner": func(dir string) error { return os.Chown(dir, 12345, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := layer.CacheOptions{Dir: t.TempDir()}
			for range 2 {
				if _, err := layer.Cache(memmap.New(), o); err != nil {
					t.Fatal(err)
				}
			}
			if err := spoil(filepath.Join(o.Dir, "v1")); os.IsPermission(err) {
				t.Log("only root can change the owner of a file")
				return
			} else if err != nil {
				t.Fatal(err)
			}
			_, err := layer.Cache(memmap.New(), o)
			if ncerr.KindOf(err) != ncerr.ErrPermission {
				t.Errorf("want ErrPermission, got %v", err)
			}
		})
	}
}
