//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestOpenPath checks that a granted path is opened once, and that a link created after
// the host resolved the path is not followed.
func TestOpenPath(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store, secret := filepath.Join(dir, "parent", "store"), filepath.Join(dir, "secret")
	for _, d := range []string{store, filepath.Join(secret, "store")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openResolved(store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	want, err := os.Stat(store)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "parent"), filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "parent")); err != nil {
		t.Fatal(err)
	}
	got, err := os.Stat("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil || !os.SameFile(want, got) {
		t.Errorf("the descriptor refers to another file: %v", err)
	}
	if g, err := openResolved(store); err == nil {
		_ = g.Close()
		t.Error("openResolved followed a new link in the path")
	}
	g, err := openPath(store)
	if err != nil {
		t.Fatalf("the link is broken, so the test proves nothing: %v", err)
	}
	_ = g.Close()
}
