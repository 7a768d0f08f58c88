//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestOpenPath checks that an open descriptor still refers to the granted path after a
// directory of the path was replaced with a link, and that openResolved does not follow
// the link.
func TestOpenPath(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(string) (*os.File, error){"openResolved": openResolved, "openCompared": openCompared} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkOpen(t, open)
		})
	}
}

func checkOpen(t *testing.T, open func(path string) (*os.File, error)) {
	t.Helper()
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
	f, err := open(store)
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
	if g, err := open(store); err == nil {
		_ = g.Close()
		t.Error("a new link in the path was followed")
	}
	g, err := openPath(store)
	if err != nil {
		t.Fatalf("the link is broken, so the test proves nothing: %v", err)
	}
	_ = g.Close()
}
