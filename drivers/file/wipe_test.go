package file_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// endsAfter is a context that is canceled after n calls to Err.
type endsAfter struct {
	context.Context
	n atomic.Int64
}

func (c *endsAfter) Err() error {
	if c.n.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestCanceledCreate cancels Create at various points. The old store must be either
// complete or completely removed.
func TestCanceledCreate(t *testing.T) {
	t.Parallel()
	for n := range int64(6) {
		dir := t.TempDir()
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ctx := &endsAfter{Context: t.Context()}
		ctx.n.Store(n)
		m, err := file.New().Open(ctx, driver.OpenSpec{Path: dir, Mode: driver.Create})
		if err == nil {
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		left, e := os.ReadDir(dir)
		if e != nil {
			t.Fatal(e)
		}
		if want := 2; err == nil && len(left) != 0 || err != nil && len(left) != want {
			t.Errorf("canceled after %d checks of the context, %v: %d files are left", n, err, len(left))
		}
	}
}

// TestForeignFilesAreKept checks that Create and Remove delete nothing if the directory
// contains something that cannot be an object.
func TestForeignFilesAreKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o777); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "a/b", "donn\xe9es.csv")
	for _, name := range []string{theirs, filepath.Join(dir, "k"), filepath.Join(dir, ".nczarr.tmp.0123456789abcdef")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Skip(err) // the system requires UTF-8 names
		}
	}
	spec := driver.OpenSpec{Path: dir, Mode: driver.Create}
	_, err := file.New().Open(t.Context(), spec)
	wantKind(t, "create", err, ncerr.ErrUnsupported)
	wantKind(t, "remove", file.New().Remove(t.Context(), spec), ncerr.ErrUnsupported)
	for _, name := range []string{theirs, filepath.Join(dir, "k")} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	must(t, os.Remove(theirs))
	must(t, file.New().Remove(t.Context(), spec))
}
