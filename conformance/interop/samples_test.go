package interop_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// samples holds the datasets that peers wrote, by the arguments of the tool. Tests that only
// read a dataset share it, because writing it takes longer than most tests.
var samples sync.Map

// written is a dataset of a peer. doc is what the tool printed, or nil if it failed.
type written struct {
	once sync.Once
	path string
	doc  []byte
}

// sample returns the dataset that a tool writes if its last argument is a path, and the
// document that it prints. The test must not change either.
func sample(t *testing.T, args ...string) (path string, doc []byte) {
	t.Helper()
	found, _ := samples.LoadOrStore(strings.Join(args, " "), new(written))
	w := found.(*written)
	w.once.Do(func() {
		dir, err := os.MkdirTemp(filepath.Dir(nczctl), "sample") //nolint:usetesting // the dataset outlives this test
		if err != nil {
			t.Fatal(err)
		}
		w.path = filepath.Join(dir, "x.zarr")
		w.doc = must(t, args[0], slices.Concat(args[1:], []string{w.path})...)
	})
	if w.doc == nil {
		t.Fatalf("another test failed to write %s", strings.Join(args, " "))
	}
	return w.path, w.doc
}

// ownSample is like sample, but returns a copy that the test may change.
func ownSample(t *testing.T, args ...string) (path string, doc []byte) {
	t.Helper()
	shared, doc := sample(t, args...)
	path = filepath.Join(t.TempDir(), "x.zarr")
	if err := os.CopyFS(path, os.DirFS(shared)); err != nil {
		t.Fatal(err)
	}
	return path, doc
}
