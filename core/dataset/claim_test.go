package dataset_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// freeLocations returns URLs at which datasets can be created, with the options for them.
func freeLocations(t *testing.T) map[string]*dataset.Options {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	b := &dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()}), SingleWriter: true}
	empty := inMemory()
	opener, err := empty.Registry.Driver("mem")
	if err == nil {
		_, err = opener.Open(t.Context(), driver.OpenSpec{Path: "empty", Mode: driver.Create})
	}
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*dataset.Options{
		"s3://bkt/dir/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000": b,
		"s3://bkt/dir/b.zarr#mode=v3&aws.endpoint=http://127.0.0.1:9000":     b,
		"mem:new": inMemory(), "mem:empty": empty,
		filepath.Join(dir, "new"): localOptions(), filepath.Join(dir, "empty"): localOptions(),
	}
}

// If two processes create a dataset at one location, the second one fails until the
// first has made its dataset visible or has aborted. After that, the second one treats the
// dataset of the first like any other existing dataset.
func TestConcurrentCreate(t *testing.T) {
	t.Parallel()
	for url, o := range freeLocations(t) {
		for _, aborts := range []bool{true, false} {
			first, err := several(t, url, o, false, 1, "both", "old")
			if err != nil {
				t.Fatal(err)
			}
			for _, noClobber := range []bool{false, true} {
				_, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, NoClobber: noClobber})
				if kind := ncerr.KindOf(err); kind != ncerr.ErrConflict && !(noClobber && kind == ncerr.ErrExists) && !strings.Contains(fmt.Sprint(err), "something other than a dataset") {
					t.Errorf("%s: the second Create with NoClobber %t: want ErrConflict or ErrExists, got %v", url, noClobber, err)
				}
			}
			if aborts {
				if err := first.Abort(t.Context()); err != nil {
					t.Errorf("%s: abort: %v", url, err)
				}
				continue
			}
			closeDataset(t, first)
			if got := stateOf(t, url, o); got != "old" {
				t.Errorf("%s: want the old dataset, got: %s", url, got)
			}
			if slices.Contains(keysOf(t, open(t, url, o)), ".nczreplacing") {
				t.Errorf("%s: the claim still exists", url)
			}
			second, err := several(t, url, o, strings.HasPrefix(url, "mem:"), 2, "both", "new")
			if err != nil {
				t.Errorf("%s: replace the first dataset: %v", url, err)
				continue
			}
			closeDataset(t, second)
			if got := stateOf(t, url, o); got != "new" {
				t.Errorf("%s: want the new dataset, got: %s", url, got)
			}
		}
	}
}

// A process that finds a location empty, and claims it only after another process has
// claimed it, written a dataset and released it, writes nothing.
func TestClaimedAfterAnother(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
	url := "s3://bkt/dir/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	b.beforeChange = func(string, string) error {
		b.beforeChange = nil // do not intercept the calls of the other process
		ds, err := several(t, url, o, false, 1, "both", "old")
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		return nil
	}
	if _, err := several(t, url, o, false, 2, "both", "new"); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	if got := stateOf(t, url, o); got != "old" || slices.Contains(b.names("bkt"), "dir/a.zarr/.nczreplacing") {
		t.Errorf("want the old dataset and no claim, got %s, %q", got, b.names("bkt"))
	}
}

// The objects of an unfinished dataset of a dead process are reported and can be
// removed. If the process is in fact alive, its Flush and Abort fail, and it does not
// change newer objects.
func TestUnfinishedDataset(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "v3"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			leaveUnfinished(t, "s3://bkt/dir/a.zarr#mode="+mode+"&aws.endpoint=http://127.0.0.1:9000")
		})
	}
}

func leaveUnfinished(t *testing.T, url string) {
	t.Helper()
	b := newBuckets()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
	if _, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); ncerr.KindOf(err) != ncerr.ErrNotFound {
		t.Errorf("an empty location: want ErrNotFound, got %v", err)
	}
	for _, taken := range []bool{false, true} { // whether another process creates a dataset before the first one continues
		late, err := several(t, url, o, false, 1, "both", "old")
		if err != nil {
			t.Fatal(err)
		}
		putObject(t, b, "dir/a.zarr/notes.txt")
		if _, err := openURL(t.Context(), url, o); ncerr.KindOf(err) != ncerr.ErrNotZarr || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) || !strings.Contains(err.Error(), "nczctl clean --remove '") {
			t.Errorf("open: want ErrNotZarr, got %v", err)
		}
		if c, err := dataset.FindClaim(t.Context(), locate(url), o); err != nil || c == nil || !c.Creates || c.PID != os.Getpid() || !strings.HasPrefix(c.Remedy(), "nczctl clean --remove '") {
			t.Errorf("want a claim of this process, got %+v, %v", c, err)
		}
		if others, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); err != nil || !slices.Equal(others, []string{"notes.txt"}) {
			t.Errorf("want notes.txt kept, got %q, %v", others, err)
		}
		if got := b.names("bkt"); !slices.Equal(got, []string{"dir/a.zarr/notes.txt"}) {
			t.Errorf("want only notes.txt, got %q", got)
		}
		if err := b.bucket("bkt").Delete(t.Context(), "dir/a.zarr/notes.txt", nil); err != nil {
			t.Fatal(err)
		}
		if taken {
			ds, err := several(t, url, o, false, 2, "both", "new")
			if err != nil {
				t.Fatal(err)
			}
			closeDataset(t, ds)
		}
		before := b.names("bkt")
		if err := late.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("the first process continues: want ErrConflict, got %v", err)
		}
		if err := late.Abort(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("the first process aborts: want ErrConflict, got %v", err)
		}
		if after := b.names("bkt"); !slices.Equal(after, before) {
			t.Errorf("the keys changed from %q to %q", before, after)
		}
	}
	if got := stateOf(t, url, o); got != "new" {
		t.Errorf("want the new dataset, got: %s", got)
	}
}

// A process that dies after any number of changes while it creates a dataset leaves a
// complete dataset or nothing that looks like one. After RemoveUnfinished, nothing
// prevents others from creating a dataset there.
func TestKilledWhileCreating(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "v3", "zarr,consolidated"} {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprint(mode, workers), func(t *testing.T) {
				t.Parallel()
				killWhileCreating(t, mode, workers)
			})
		}
	}
}

func killWhileCreating(t *testing.T, mode string, workers int) {
	t.Helper()
	b := newBuckets()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true, Workers: workers}
	o = hook(o, func(string, string) error { return nil })
	for n, finished := 0, false; !finished; n++ {
		url := fmt.Sprintf("s3://bkt/dir/%d.zarr#mode=%s&aws.endpoint=http://127.0.0.1:9000", n, mode)
		var left atomic.Int64 // objects are deleted concurrently
		left.Store(int64(n))
		b.beforeChange = func(string, string) error {
			if left.Add(-1) < 0 {
				return errKilled
			}
			return nil
		}
		ds, err := several(t, url, o, false, 1, "both", "old")
		if err == nil {
			err = ds.Close(t.Context())
		}
		finished, b.beforeChange = err == nil, nil
		claim, err := dataset.FindClaim(t.Context(), locate(url), o)
		if err != nil || finished && claim != nil {
			t.Fatalf("claim %v, error %v", claim, err)
		}
		ds, err = openURL(t.Context(), url, o)
		if err == nil {
			closeDataset(t, ds)
			if got := stateOf(t, url, o); got != "old" {
				t.Errorf("after %d changes: want the old dataset, got: %s", n, got)
			}
		} else if kind := ncerr.KindOf(err); finished || kind != ncerr.ErrNotZarr && kind != ncerr.ErrNoDataset {
			t.Errorf("after %d changes: open: %v", n, err)
		}
		complete := err == nil
		if claim != nil {
			if others, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); err != nil || len(others) > 0 {
				t.Errorf("after %d changes: want no other keys, got %q, %v", n, others, err)
			}
		}
		if ds, err = several(t, url, o, false, 2, "both", "new"); err != nil {
			t.Errorf("after %d changes, complete %t: create a new dataset: %v", n, complete, err)
			continue
		}
		closeDataset(t, ds)
		if got := stateOf(t, url, o); got != "new" {
			t.Errorf("after %d changes: want the new dataset, got: %s", n, got)
		}
	}
}

// refusing is a store that refuses some calls.
type refusing struct {
	driver.Map
	putErr, deleteErr error // putErr is for conditional puts
}

func (r refusing) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if o.IfAbsent && r.putErr != nil {
		return driver.Info{}, r.putErr
	}
	return r.Map.Put(ctx, key, body, o)
}

func (r refusing) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	if r.deleteErr != nil {
		return r.deleteErr
	}
	return r.Map.Delete(ctx, key, o)
}

// Datasets can be created on a server without conditional writes, and on one that does
// not allow deletion.
func TestCreateWithoutConditions(t *testing.T) {
	t.Parallel()
	for _, r := range []refusing{{putErr: ncerr.ErrUnsupported}, {deleteErr: ncerr.ErrPermission}} {
		o := &dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()}), SingleWriter: true}
		o.Wrap = func(m driver.Map) driver.Map { return refusing{m, r.putErr, r.deleteErr} }
		url := "s3://bkt/dir/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
		ds, err := several(t, url, o, false, 1, "both", "old")
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		if got := stateOf(t, url, o); got != "old" {
			t.Errorf("%+v: want the old dataset, got: %s", r, got)
		}
	}
}

// A dataset cannot be created at a symbolic link to a missing file.
func TestCreateAtDanglingLink(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	symlink(t, "nowhere", link)
	_, err := createURL(t.Context(), link, &dataset.CreateOptions{Options: *localOptions()})
	if ncerr.KindOf(err) != ncerr.ErrExists || !strings.Contains(err.Error(), "symbolic link to a missing file") {
		t.Error(err)
	}
}

// lateDelete is a store in which the first deletion of a claim succeeds but returns an
// error.
type lateDelete struct {
	driver.Map
	failed *bool
}

func (l lateDelete) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	err := l.Map.Delete(ctx, key, o)
	if err == nil && key == ".nczreplacing" && !*l.failed {
		*l.failed = true
		err = ncerr.ErrIO
	}
	return err
}

// If the deletion of a claim succeeds but returns an error, the process can flush
// again, because no other process has claimed the location.
func TestClaimDeletedUnseen(t *testing.T) {
	t.Parallel()
	o, failed := inMemory(), false
	o.Wrap = func(m driver.Map) driver.Map { return lateDelete{m, &failed} }
	ds := create(t, "mem:late", o)
	if err := ds.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrIO {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	closeDataset(t, open(t, "mem:late", o))
}
