package session_test

import (
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr"
	"github.com/seed-695719ce/nczarr/core/session"
)

// TestPublicPackage checks that the public package can create a dataset with the options
// of a session.
func TestPublicPackage(t *testing.T) {
	t.Parallel()
	s, err := session.New(&session.Options{Isolation: "inproc"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := filepath.Join(t.TempDir(), "x.zarr")
	ds, err := nczarr.Create(t.Context(), path, nczarr.WithOptions(s.Options()))
	if err != nil {
		t.Fatal(err)
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
