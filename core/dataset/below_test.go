package dataset_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Tests of datasets that are created below a location where another one is being
// created or replaced.

const (
	belowURL  = "s3://bkt/dir/a.zarr"
	belowRest = "&aws.endpoint=http://127.0.0.1:9000"
)

// inBuckets returns a set of buckets and the options to use them.
func inBuckets() (*buckets, *dataset.Options) {
	b := newBuckets()
	return b, &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true, Workers: 1}
}

// putBelow puts a dataset inside another one, as other software might.
func putBelow(t *testing.T, url string, o *dataset.Options) {
	t.Helper()
	ds, err := several(t, url, o, true, 1, "both", "old")
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
}

// RemoveUnfinished removes only objects of nodes that the dead process has listed in
// its claim. It keeps other datasets, and files that look like chunks.
func TestRemoveUnfinishedKeepsOthers(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr"} {
		for _, flushed := range []bool{false, true} { // whether the process died in its first Flush rather than before it
			b, o := inBuckets()
			url := belowURL + mode + belowRest
			ds := create(t, url, o)
			x := dim(t, ds.Root(), "x", 2, false)
			g, err := ds.Root().DefineGroup("g")
			if err != nil {
				t.Fatal(err)
			}
			for name, in := range map[string]*dataset.Group{"v": g, "w": ds.Root(), "taken": ds.Root()} {
				v := define(t, in, name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x, x}, Chunks: []int64{1, 1}, Separator: '/'})
				if name != "taken" {
					write(t, v, v.All(), []int32{1, 2, 3, 4})
				}
			}
			if flushed {
				b.beforeChange = func(op, key string) error {
					if op == "put" && strings.HasSuffix(key, "/a.zarr/.zgroup") {
						return errKilled
					}
					return nil
				}
				if err := ds.Flush(t.Context()); err == nil {
					t.Fatal("the Flush of the killed process succeeded")
				}
				b.beforeChange = nil
				for _, key := range []string{".zarray", ".zattrs"} {
					_ = b.bucket("bkt").Delete(t.Context(), "dir/a.zarr/taken/"+key, nil)
				}
			}
			ours := b.names("bkt")
			putBelow(t, belowURL+"/inner#mode=nczarr"+belowRest, o)
			putBelow(t, belowURL+"/g/pure#mode=zarr"+belowRest, o)
			for _, key := range []string{"v3/zarr.json", "v3/x/zarr.json", "v3/x/c/0/0", "taken/.zgroup", "taken/0/0", "logs/2026/11", "g/v/2026", "w/0.0", "3"} {
				putObject(t, b, "dir/a.zarr/"+key)
			}
			var want []string
			for _, key := range b.names("bkt") {
				if !slices.Contains(ours, key) {
					want = append(want, key)
				}
			}
			others, err := dataset.RemoveUnfinished(t.Context(), locate(url), o)
			for i := range others {
				others[i] = "dir/a.zarr/" + others[i]
			}
			if got := b.names("bkt"); err != nil || !slices.Equal(got, want) || !slices.Equal(others, want) {
				t.Errorf("%s, flushed %t: left %q, returned %q, %v; want %q", mode, flushed, got, others, err, want)
			}
		}
	}
}

// Any root document shows that a dataset at the location is complete. RemoveUnfinished
// then removes only the claim.
func TestUnfinishedIsFinished(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".zgroup", ".zarray", "zarr.json", ".zmetadata"} {
		b, o := inBuckets()
		if _, err := several(t, belowURL+"#mode=nczarr"+belowRest, o, false, 1, "both"); err != nil {
			t.Fatal(err)
		}
		putObject(t, b, "dir/a.zarr/"+name)
		want := slices.DeleteFunc(b.names("bkt"), func(key string) bool { return key == "dir/a.zarr/.nczreplacing" })
		others, err := dataset.RemoveUnfinished(t.Context(), locate(belowURL+"#mode=nczarr"+belowRest), o)
		if got := b.names("bkt"); err != nil || len(others) > 0 || !slices.Equal(got, want) {
			t.Errorf("%s: want only the claim removed, got %q, returned %q, %v", name, got, others, err)
		}
	}
}

// RemoveUnfinished continues a removal whose process died.
func TestUnfinishedTwice(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	url := belowURL + "#mode=nczarr" + belowRest
	if _, err := several(t, url, o, false, 1, "both"); err != nil {
		t.Fatal(err)
	}
	b.beforeChange = func(op, _ string) error {
		if op == "delete" {
			return errKilled
		}
		return nil
	}
	if _, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); err == nil {
		t.Fatal("the removal by the killed process succeeded")
	}
	b.beforeChange = nil
	if others, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); err != nil || len(others) > 0 || len(b.names("bkt")) > 0 {
		t.Errorf("want no keys, returned %q, %v; left %q", others, err, b.names("bkt"))
	}
}

// No dataset can be created below a location where one is being created or replaced,
// except with Force.
func TestCreateBelowClaim(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	first, err := several(t, belowURL+"#mode=zarr"+belowRest, o, false, 1, "both")
	if err != nil {
		t.Fatal(err)
	}
	before := b.names("bkt")
	for _, at := range []string{"/in", "/x/y/in"} {
		_, err := createURL(t.Context(), belowURL+at+"#mode=zarr"+belowRest, &dataset.CreateOptions{Options: *o})
		if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), `inside "bkt/dir/a.zarr"`) || !strings.Contains(err.Error(), "nczctl clean --remove '") {
			t.Errorf("%s: want ErrConflict, got %v", at, err)
		}
	}
	if got := b.names("bkt"); !slices.Equal(got, before) {
		t.Errorf("the keys changed from %q to %q", before, got)
	}
	putBelow(t, belowURL+"/in#mode=zarr"+belowRest, o)
	if err := first.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := stateOf(t, belowURL+"/in#mode=zarr"+belowRest, o); got != "old" {
		t.Errorf("want the old dataset, got: %s", got)
	}
}

// If two processes claim a location and one below it at the same time, the one below
// writes nothing.
func TestConcurrentClaimBelow(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	var before []string
	b.beforeChange = func(string, string) error { // before the claim below is put
		b.beforeChange = nil
		ds := create(t, "s3://bkt/dir#mode=nczarr"+belowRest, o)
		t.Cleanup(func() { _ = ds.Abort(t.Context()) })
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
		write(t, v, v.All(), []int32{1}) // after this process has looked for others
		before = b.names("bkt")
		return nil
	}
	ds := create(t, belowURL+"#mode=nczarr"+belowRest, o)
	if err := ds.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict || !slices.Equal(b.names("bkt"), before) {
		t.Errorf("want ErrConflict and only %q, got %v, %q", before, err, b.names("bkt"))
	}
}

// A process whose claim was removed before its first chunk writes nothing.
func TestClaimRemovedBeforeWriting(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	url := belowURL + "#mode=nczarr" + belowRest
	ds := create(t, url, o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
	if _, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); err != nil {
		t.Fatal(err)
	}
	if err := v.Write(t.Context(), v.All(), []int32{1}); ncerr.KindOf(err) != ncerr.ErrConflict || len(b.names("bkt")) > 0 {
		t.Errorf("want ErrConflict and no objects, got %v, %q", err, b.names("bkt"))
	}
}

// A dataset created inside one that is being replaced is preserved, even if another
// process finishes the replacement.
func TestReplaceKeepsNestedDataset(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		for _, mode := range []string{"#mode=zarr", "#mode=nczarr"} {
			b, o := inBuckets()
			url, inner := belowURL+"#mode=zarr"+belowRest, belowURL+"/inner"+mode+belowRest
			putBelow(t, url, o)
			ds, err := several(t, url, o, false, 2, "both", "new")
			if err != nil {
				t.Fatal(err)
			}
			var began atomic.Bool // objects are deleted concurrently
			b.beforeChange = func(op, _ string) error {
				if op != "delete" || !began.CompareAndSwap(false, true) {
					return nil
				}
				putBelow(t, inner, o)
				if killed {
					return errKilled
				}
				return nil
			}
			if err := ds.Close(t.Context()); (err != nil) != killed {
				t.Fatal(err)
			}
			if killed {
				if _, err := dataset.ResumeReplacement(t.Context(), locate(url), o); err != nil {
					t.Error(err)
				}
			}
			if got := stateOf(t, inner, o); got != "old" {
				t.Errorf("killed %t, %s: want the inner dataset unchanged, got: %s", killed, mode, got)
			}
			if got := stateOf(t, url, o); got != "new" || slices.Contains(b.names("bkt"), "dir/a.zarr/old/.zarray") {
				t.Errorf("killed %t, %s: want the new dataset, got %s, keys %q", killed, mode, got, b.names("bkt"))
			}
		}
	}
}

// Aborting a new dataset preserves datasets that other processes have created inside
// it.
func TestAbortKeepsNestedDataset(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	dir := filepath.ToSlash(t.TempDir())
	for _, mode := range []string{"#mode=zarr", "#mode=nczarr"} {
		for url, o := range map[string]*dataset.Options{belowURL: o, dir + "/a.zarr": localOptions()} {
			rest := belowRest
			if url != belowURL {
				rest = ""
			}
			ds, err := several(t, url+"#mode=zarr"+rest, o, false, 1, "both")
			if err != nil {
				t.Fatal(err)
			}
			putBelow(t, url+"/inner"+mode+rest, o)
			if err := ds.Abort(t.Context()); err != nil {
				t.Errorf("%s, %s: abort: %v", url, mode, err)
			}
			if got := stateOf(t, url+"/inner"+mode+rest, o); got != "old" {
				t.Errorf("%s, %s: want the old dataset, got: %s", url, mode, got)
			}
			if url != belowURL {
				if err := os.RemoveAll(url); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, key := range b.names("bkt") {
			if !strings.HasPrefix(key, "dir/a.zarr/inner/") {
				t.Errorf("%s: %q still exists", mode, key)
			}
			if err := b.bucket("bkt").Delete(t.Context(), key, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// No dataset can be created below a locked directory in which another one is being
// created.
func TestCreateBelowLockedDirectory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("directories are not locked on Windows")
	}
	dir := filepath.Join(t.TempDir(), "a.zarr")
	o := localOptions()
	first := create(t, dir, o)
	for _, at := range []string{"in", "x/in", "in.zip"} {
		_, err := createURL(t.Context(), filepath.Join(dir, at), &dataset.CreateOptions{Options: *o})
		if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "another process is creating a dataset") {
			t.Errorf("%s: want ErrConflict, got %v", at, err)
		}
	}
	if err := first.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, create(t, filepath.Join(dir, "in"), o))
}

// With Force and NoClobber, Create deletes existing contents unless they are a dataset.
// It keeps a dataset that appears while the new one is created.
func TestForceKeepsADataset(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	dir := filepath.ToSlash(t.TempDir())
	for url, o := range map[string]*dataset.Options{belowURL + "#mode=zarr" + belowRest: o, dir + "/a.zarr": localOptions()} {
		force := &dataset.CreateOptions{Options: *o, NoClobber: true, Force: true}
		putNote := func() {
			if url == dir+"/a.zarr" {
				if err := errors.Join(os.MkdirAll(url, 0o777), os.WriteFile(filepath.Join(url, "note"), nil, 0o666)); err != nil {
					t.Fatal(err)
				}
				return
			}
			putObject(t, b, "dir/a.zarr/note")
		}
		putNote()
		late, err := createURL(t.Context(), url, force)
		if err != nil {
			t.Fatal(err)
		}
		ds, err := createURL(t.Context(), url, force)
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		putBelow(t, url, o)
		putNote()
		if err := late.Close(t.Context()); !errors.Is(err, ncerr.ErrExists) && !errors.Is(err, ncerr.ErrConflict) {
			t.Errorf("%s: a dataset created in the meantime: want ErrExists or ErrConflict, got %v", url, err)
		}
		if _, err := createURL(t.Context(), url, force); ncerr.KindOf(err) != ncerr.ErrExists {
			t.Errorf("%s: an existing dataset: want ErrExists, got %v", url, err)
		}
		putNote()
		if got := stateOf(t, url, o); got != "old" {
			t.Errorf("%s: want the old dataset, got: %s", url, got)
		}
	}
	ds, err := several(t, belowURL+"#mode=zarr"+belowRest, o, true, 2, "both", "new")
	if err != nil {
		t.Fatal(err)
	}
	b.beforeChange = func(op, _ string) error {
		if op == "delete" {
			return errKilled
		}
		return nil
	}
	if err := ds.Close(t.Context()); err == nil {
		t.Fatal("the replacement by the killed process succeeded")
	}
	b.beforeChange = nil
	if _, err := createURL(t.Context(), belowURL+"#mode=zarr"+belowRest, &dataset.CreateOptions{Options: *o, NoClobber: true, Force: true}); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("a dataset that is being replaced: want ErrConflict, got %v", err)
	}
}
