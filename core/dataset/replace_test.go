package dataset_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// localOptions returns options with the drivers for local files.
func localOptions() *dataset.Options {
	return &dataset.Options{Registry: registry.New([]driver.Opener{file.New(), zip.New()}), SingleWriter: true}
}

// one creates a dataset with one value and does not close it.
func one(t *testing.T, url string, o *dataset.Options, value int32) *dataset.Dataset {
	t.Helper()
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "x", 1, false)
	write(t, define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}}), slab(0, 1), []int32{value})
	return ds
}

// names returns the names in a directory.
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

// Two processes that create a dataset at an empty location without NoClobber do not
// write into the same directory. Files that appear between the check and the
// creation are kept.
func TestConcurrentCreateAtEmptyLocation(t *testing.T) {
	t.Parallel()
	url := filepath.Join(t.TempDir(), "d.zarr")
	o := localOptions()
	o.Registry = registry.New([]driver.Opener{beforeOpen{file.New(), func() {
		if err := errors.Join(os.Mkdir(url, 0o777), os.WriteFile(filepath.Join(url, "notes"), []byte("mine"), 0o666)); err != nil {
			t.Error(err)
		}
	}}})
	if _, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o}); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	if got := names(t, url); got != "notes" {
		t.Errorf("want only notes, got %q", got)
	}
}

// beforeOpen is a driver that calls f before it opens a store.
type beforeOpen struct {
	driver.Opener
	f func()
}

func (b beforeOpen) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	b.f()
	return b.Opener.Open(ctx, spec)
}

// A dataset that is being replaced exists until the new one is closed, and is kept if
// the new one is aborted.
func TestReplaceKeepsOldUntilClose(t *testing.T) {
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
			t.Errorf("after Abort: want only the dataset, got %s", got)
		}
		closeDataset(t, one(t, url, o, 3))
		expect(t, open(t, url, o), "v", []int32{3})
		if got := names(t, dir); got != name {
			t.Errorf("after Close: want only the dataset, got %s", got)
		}
	}
}

// A file that is added to a dataset while it is being replaced is not deleted.
func TestReplaceKeepsAddedFiles(t *testing.T) {
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
		t.Errorf("the note was changed to %q, %v", text, err)
	}
	expect(t, open(t, url, o), "v", []int32{1})
	if got := names(t, dir); got != "d.zarr" {
		t.Errorf("want only d.zarr, got %s", got)
	}
}

// If two processes replace one dataset at the same time, the second one to finish
// fails, and neither removes anything of the other.
func TestReplaceTwice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"d.zarr", "d.zip"} {
		o := localOptions()
		url := filepath.Join(t.TempDir(), name)
		closeDataset(t, one(t, url, o, 1))
		first, second := one(t, url, o, 2), one(t, url, o, 3)
		closeDataset(t, second)
		if err := first.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "another process") {
			t.Errorf("%s: the first to begin and last to finish: want ErrConflict, got %v", name, err)
		}
		expect(t, open(t, url, o), "v", []int32{3})
	}
}

// Abort of a new dataset removes what it has written, and nothing else.
func TestAbortKeepsForeignFiles(t *testing.T) {
	t.Parallel()
	o, url := localOptions(), filepath.Join(t.TempDir(), "d.zarr")
	ds := one(t, url, o, 1)
	if err := os.WriteFile(filepath.Join(url, "note"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ds.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if got := names(t, url); got != "note" {
		t.Errorf("want only note, got %s", got)
	}
	if err := os.Remove(filepath.Join(url, "note")); err != nil {
		t.Fatal(err)
	}
	if err := one(t, url, o, 1).Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(url); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory still exists: %v", err)
	}
}

// exchanger is a store that calls exchange before it deletes an object.
type exchanger struct {
	driver.Map
	exchange func()
}

func (e exchanger) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	e.exchange()
	return e.Map.Delete(ctx, key, o)
}

// Abort of a new dataset does not change a directory that another process has put in
// place of the dataset's directory, before or during the Abort.
func TestAbortKeepsExchangedDirectory(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{false, true} {
		dir := t.TempDir()
		url, moved, link := filepath.Join(dir, "d.zarr"), filepath.Join(dir, "moved"), filepath.Join(dir, "link.zarr")
		if err := os.Mkdir(url, 0o700); err != nil {
			t.Fatal(err)
		}
		symlink(t, url, link)
		exchange := sync.OnceFunc(func() {
			if err := os.Rename(url, moved); err != nil {
				t.Error(err)
			}
			if err := os.MkdirAll(filepath.Join(url, "v"), 0o700); err != nil {
				t.Error(err)
			}
			for _, name := range []string{"v/0", "v/1", "v/.zarray"} {
				if err := os.WriteFile(filepath.Join(url, name), []byte("theirs"), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
		o := localOptions()
		o.Wrap = func(m driver.Map) driver.Map { return exchanger{m, exchange} }
		ds := one(t, link, o, 1)
		if !during {
			exchange()
		}
		if err := ds.Abort(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "replaced the directory") {
			t.Errorf("during %v: want ErrConflict, got %v", during, err)
		}
		if got := names(t, url) + ": " + names(t, filepath.Join(url, "v")); got != "v: .zarray 0 1" {
			t.Errorf("during %v: the other dataset has changed to %s", during, got)
		}
		if _, err := os.Lstat(link); err != nil {
			t.Errorf("during %v: the link: %v", during, err)
		}
		if got := names(t, moved); during && got != "" {
			t.Errorf("want no files in the directory that was moved away, got %s", got)
		}
	}
	dir := t.TempDir()
	url, link := filepath.Join(dir, "d.zarr"), filepath.Join(dir, "link.zarr")
	if err := os.Mkdir(url, 0o700); err != nil {
		t.Fatal(err)
	}
	symlink(t, url, link)
	if err := one(t, link, localOptions(), 1).Abort(t.Context()); err != nil || names(t, dir) != "" {
		t.Errorf("a directory and the link to it: want no files, got %q, %v", names(t, dir), err)
	}
}

// An unknown driver option is reported as such and not as a problem of the location.
func TestCreateWithWrongOption(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*dataset.Options{"mem": inMemory(), "file": localOptions()} {
		o.DriverOptions = map[string][]byte{name: []byte(`{"durabilit": "x"}`)}
		url := map[string]string{"mem": "mem:o", "file": filepath.Join(t.TempDir(), "o")}[name]
		if _, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o}); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("%s: want ErrInvalid, got %v", name, err)
		}
	}
}

// If a dead process has moved a dataset away during a replacement that takes two steps,
// Open reports this instead of a missing dataset.
func TestOpenInterrupted(t *testing.T) {
	t.Parallel()
	o, dir := localOptions(), t.TempDir()
	url := filepath.Join(dir, "d.zarr")
	closeDataset(t, one(t, url, o, 1))
	s, err := place.NewStage(url, place.StageOptions{Directory: true})
	if err == nil {
		err = os.Rename(url, filepath.Join(filepath.Dir(s.Path), ".nczarr-old"))
	}
	if err == nil {
		err = s.AbandonForTest()
	}
	if err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"open": func() error { _, err := openURL(t.Context(), url, o); return err },
		"create": func() error {
			_, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o})
			return err
		},
	} {
		if err := try(); ncerr.KindOf(err) != ncerr.ErrNoDataset || !strings.Contains(err.Error(), "nczctl clean --remove") {
			t.Errorf("%s: want ErrNoDataset with a command, got %v", what, err)
		}
	}
	found, err := place.Find(dir, place.StagePrefix)
	if err != nil || len(found) != 1 {
		t.Fatalf("want one leftover, got %v, %v", found, err)
	}
	if restored, err := place.Clean(found[0]); !restored || err != nil {
		t.Errorf("clean: restored %v, error %v", restored, err)
	}
	expect(t, open(t, url, o), "v", []int32{1})
}
