package nczarr_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// localOptions are those of the drivers of local places.
func localOptions() *nczarr.Options {
	return &nczarr.Options{Registry: nczarr.NewRegistry([]driver.Opener{file.New(), zip.New()}), SingleWriter: true}
}

// one makes a dataset of one value, and does not close it.
func one(t *testing.T, url string, o *nczarr.Options, value int32) *nczarr.Dataset {
	t.Helper()
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "x", 1, false)
	write(t, define(t, ds.Root(), "v", &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{x}}), slab(0, 1), []int32{value})
	return ds
}

// names gives the names in a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

// A dataset that is replaced is there until the new one is closed, and for ever
// if that is not to be.
func TestReplaceKeepsTheOld(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"d.zarr", "d.zip"} {
		o, dir := localOptions(), t.TempDir()
		url := filepath.Join(dir, name)
		closeDataset(t, one(t, url, o, 1))
		ds := one(t, url, o, 2)
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, open(t, url, o), "v", []int32{1})
		if err := ds.Abort(t.Context()); err != nil {
			t.Error(err)
		}
		expect(t, open(t, url, o), "v", []int32{1})
		if got := names(t, dir); got != name {
			t.Errorf("left after Abort: %s", got)
		}
		closeDataset(t, one(t, url, o, 3))
		expect(t, open(t, url, o), "v", []int32{3})
		if got := names(t, dir); got != name {
			t.Errorf("left after Close: %s", got)
		}
	}
}

// What somebody puts into a dataset while it is being replaced is not deleted.
func TestReplaceSparesWhatCame(t *testing.T) {
	t.Parallel()
	o, dir := localOptions(), t.TempDir()
	url := filepath.Join(dir, "d.zarr")
	closeDataset(t, one(t, url, o, 1))
	ds := one(t, url, o, 2)
	note := filepath.Join(url, "note")
	if err := os.WriteFile(note, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ds.Close(t.Context()); !errors.Is(err, ncerr.ErrExists) || !strings.Contains(err.Error(), `"note"`) {
		t.Errorf("want an error that names the note, got %v", err)
	}
	if text, err := os.ReadFile(note); err != nil || string(text) != "mine" {
		t.Errorf("the note: %q, %v", text, err)
	}
	expect(t, open(t, url, o), "v", []int32{1})
	if got := names(t, dir); got != "d.zarr" {
		t.Errorf("left: %s", got)
	}
}

// Of two that replace one dataset at once, the second to finish is told so, and
// each takes nothing from the other.
func TestReplaceTwice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"d.zarr", "d.zip"} {
		o := localOptions()
		url := filepath.Join(t.TempDir(), name)
		closeDataset(t, one(t, url, o, 1))
		first, second := one(t, url, o, 2), one(t, url, o, 3)
		closeDataset(t, second)
		if err := first.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "somebody else") {
			t.Errorf("%s: the first to begin, and the last to finish: %v", name, err)
		}
		expect(t, open(t, url, o), "v", []int32{3})
	}
}
