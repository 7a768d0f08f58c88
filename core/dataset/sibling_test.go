package dataset_test

import (
	"errors"
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

// several creates a dataset with the named variables, which have three elements with the
// given value each. It does not close the dataset.
func several(t *testing.T, url string, o *dataset.Options, force bool, value int32, names ...string) (*dataset.Dataset, error) {
	t.Helper()
	ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Force: force})
	if err != nil {
		return nil, err
	}
	if err := ds.Root().SetAttr(dataset.Attr{Name: "value", Type: dtype.NCInt, Value: []int32{value}}); err != nil {
		t.Fatal(err)
	}
	x := dim(t, ds.Root(), "x", 3, false)
	for _, name := range names {
		v := define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
		if err := v.Write(t.Context(), v.All(), []int32{value, value, value}); err != nil {
			_ = ds.Abort(t.Context())
			return nil, err
		}
	}
	return ds, nil
}

var errKilled = errors.New("killed")

// A process that dies after any number of changes to an object store while it replaces a
// dataset leaves the old dataset, the new one, or a dataset that Open refuses with an
// error that explains how to finish the replacement. ResumeReplacement finishes it, even
// if an earlier call has died as well. Objects of other programs are never changed, and
// Stages can remove the stage.
func TestKilledWhileReplacing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr", "#mode=nczarr,consolidated", "#mode=v3"} {
		b := newBuckets()
		o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
		url := "s3://bkt/dir/a.zarr" + mode + "&aws.endpoint=http://127.0.0.1:9000"
		other := []string{"dir/a.zarr2/v/0", "dir/b", "dir/a.zarr.nczstage-mine/note"}
		finished := false
		for n := int64(0); !finished; n++ {
			b.beforeChange = nil
			for _, key := range b.names("bkt") {
				if err := b.bucket("bkt").Delete(t.Context(), key, nil); err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range other {
				putObject(t, b, key)
			}
			ds, err := several(t, url, o, false, 1, "both", "old")
			if err != nil {
				t.Fatal(err)
			}
			closeDataset(t, ds)
			var left atomic.Int64
			left.Store(n)
			b.beforeChange = func(string, string) error {
				if left.Add(-1) < 0 {
					return errKilled
				}
				return nil
			}
			if ds, err = several(t, url, o, false, 2, "both", "new"); err == nil {
				err = ds.Close(t.Context())
			}
			finished = err == nil
			b.beforeChange = nil
			afterDeath(t, b, url, o, n, finished)
			for _, key := range other {
				if !slices.Contains(b.names("bkt"), key) {
					t.Errorf("%s: after %d changes: %q no longer exists", mode, n, key)
				}
			}
		}
	}
}

// afterDeath examines the objects that a replacement has left after n changes, and
// finishes the replacement.
func afterDeath(t *testing.T, b *buckets, url string, o *dataset.Options, n int64, finished bool) {
	t.Helper()
	for try := int64(0); ; try++ {
		state := stateOf(t, url, o)
		switch {
		case state == "new", state == "old" && !finished:
			if _, err := dataset.Stages(t.Context(), locate(url), o, true); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(b.names("bkt"), "dir/a.zarr/.nczreplacing") {
				if left := b.names("bkt"); slices.ContainsFunc(left, func(key string) bool { return strings.Contains(key, "nczstage-") && !strings.Contains(key, "mine") }) {
					t.Errorf("after %d changes: the stage still exists: %q", n, left)
				}
				return
			}
		case state != "resume":
			t.Fatalf("after %d changes: %s", n, state)
		}
		var left atomic.Int64
		left.Store(try)
		b.beforeChange = func(string, string) error {
			if left.Add(-1) < 0 {
				return errKilled
			}
			return nil
		}
		_, err := dataset.ResumeReplacement(t.Context(), locate(url), o)
		b.beforeChange = nil
		if err != nil && !strings.Contains(err.Error(), errKilled.Error()) {
			t.Fatalf("after %d changes: resume: %v", n, err)
		}
	}
}

// stateOf opens the dataset at url. It returns "old" or "new" if that version of the
// dataset is complete, "resume" if the error explains how to finish the replacement, or
// the text of any other error.
func stateOf(t *testing.T, url string, o *dataset.Options) string {
	t.Helper()
	ds, err := openURL(t.Context(), url, o)
	if err != nil {
		if strings.Contains(err.Error(), "copy --resume-replace") {
			return "resume"
		}
		return err.Error()
	}
	defer ds.Close(t.Context())
	state, want := "new", int32(2)
	if _, err := ds.Root().Var("new"); err != nil {
		state, want = "old", 1
	}
	if a, err := ds.Root().Attr("value"); err != nil || !slices.Equal(a.Value.([]int32), []int32{want}) {
		t.Errorf("the global attribute of the %s dataset: %v, %v", state, a.Value, err)
	}
	for _, name := range []string{"both", state} {
		got, err := dataset.Get[int32](t.Context(), variable(t, ds, name), variable(t, ds, name).All())
		if err != nil || !slices.Equal(got, []int32{want, want, want}) {
			t.Errorf("%s of the %s dataset: %v, %v", name, state, got, err)
		}
	}
	return state
}

// A replacement fails and changes nothing if another process has claimed the location.
func TestClaimedPlace(t *testing.T) {
	t.Parallel()
	b, o, url := oldInBucket(t)
	second, err := several(t, url, o, false, 2, "both", "new")
	if err != nil {
		t.Fatal(err)
	}
	b.beforeChange = nil
	putObject(t, b, "dir/a.zarr/.nczreplacing")
	if err := second.Close(t.Context()); err == nil {
		t.Error("a location claimed by another process was replaced")
	}
	if got := stateOf(t, url, o); got != "old" {
		t.Errorf("a claimed location: want the old dataset, got: %s", got)
	}
}

// Aborting a new dataset does not remove one that another process has created at the
// same location in the meantime.
func TestAbortKeepsOtherDataset(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
	url := "s3://bkt/dir/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	first, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, NoClobber: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range b.names("bkt") { // other software ignores claims
		if err := b.bucket("bkt").Delete(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	other, err := several(t, url, o, false, 1, "both", "old")
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, other)
	if err := first.Abort(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	if got := stateOf(t, url, o); got != "old" {
		t.Errorf("want the dataset of the other process, got: %s", got)
	}
}

// A stage that nczctl clean has removed while its process was alive does not replace the
// dataset, because it lacks chunks.
func TestCleanedStage(t *testing.T) {
	t.Parallel()
	b, o, url := oldInBucket(t)
	for _, killed := range []bool{false, true} { // whether the process that cleans is killed before it has finished
		late, err := several(t, url, o, false, 2, "both", "new")
		if err != nil {
			t.Fatal(err)
		}
		if killed {
			b.beforeChange = func(op, key string) error {
				if op == "delete" && strings.HasSuffix(key, "/.nczstage") {
					return errKilled
				}
				return nil
			}
		}
		if _, err := dataset.Stages(t.Context(), locate(url), o, true); (err != nil) != killed {
			t.Fatal(err)
		}
		b.beforeChange = nil
		if err := late.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("killed %t: want ErrConflict, got %v", killed, err)
		}
		if got := stateOf(t, url, o); got != "old" {
			t.Errorf("killed %t: want the old dataset, got: %s", killed, got)
		}
		for _, key := range b.names("bkt") {
			if strings.Contains(key, "nczstage-") || strings.Contains(key, ".nczreplacing") {
				t.Errorf("killed %t: %q still exists", killed, key)
			}
		}
	}
}

// Foreign objects in an object store prevent a replacement, which removes them only
// with Force.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	b, o, url := oldInBucket(t)
	late, err := several(t, url, o, false, 2, "both", "new")
	if err != nil {
		t.Fatal(err)
	}
	putObject(t, b, "dir/a.zarr/README.md")
	if err := late.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrExists || !strings.Contains(err.Error(), "README.md") {
		t.Errorf("an object that appeared meanwhile: want ErrExists, got %v", err)
	}
	if _, err := several(t, url, o, false, 2, "both", "new"); ncerr.KindOf(err) != ncerr.ErrExists || !strings.Contains(err.Error(), "README.md") {
		t.Errorf("an existing object: want ErrExists, got %v", err)
	}
	if got := stateOf(t, url, o); got != "old" || !slices.Contains(b.names("bkt"), "dir/a.zarr/README.md") {
		t.Errorf("without Force: want the old dataset and README.md, got %s, %q", got, b.names("bkt"))
	}
	forced, err := several(t, url, o, true, 2, "both", "new")
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, forced)
	if got := stateOf(t, url, o); got != "new" || slices.Contains(b.names("bkt"), "dir/a.zarr/README.md") {
		t.Errorf("with Force: want only the new dataset, got %s, %q", got, b.names("bkt"))
	}
}

// A dataset in a bucket cannot be created inside or around another one.
func TestNestedDatasetsInBucket(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
	const server, rest = "http://127.0.0.1:9000/bkt/", "#mode=nczarr,s3"
	ds, err := several(t, server+"dir/a.zarr"+rest, o, false, 1, "both", "old")
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	before := b.names("bkt")
	for at, want := range map[string]string{
		"dir/a.zarr/in":         `inside the dataset "bkt/dir/a.zarr"`,
		"dir/a.zarr/both/0/x/y": `inside the dataset "bkt/dir/a.zarr`,
		"dir/a.zarr/":           "", // another spelling
		"dir":                   "something other than a dataset",
		"dir/a":                 "",
	} {
		_, err := createURL(t.Context(), server+at+rest, &dataset.CreateOptions{Options: *o})
		if want != "" && (ncerr.KindOf(err) != ncerr.ErrExists || !strings.Contains(err.Error(), want)) || want == "" && err != nil {
			t.Errorf("%s: want %q, got %v", at, want, err)
		}
	}
	for _, key := range before {
		if !slices.Contains(b.names("bkt"), key) {
			t.Errorf("%s no longer exists", key)
		}
	}
	ds, err = several(t, server+"dir/a.zarr/in"+rest, o, true, 2, "both", "new")
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
}

// oldInBucket returns buckets that contain a complete old dataset, options for them, and the
// URL of the dataset.
func oldInBucket(t *testing.T) (b *buckets, o *dataset.Options, url string) {
	t.Helper()
	b = newBuckets()
	o = &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
	url = "s3://bkt/dir/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	ds, err := several(t, url, o, false, 1, "both", "old")
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	return b, o, url
}

// putObject puts an object that does not belong to any dataset of the test.
func putObject(t *testing.T, b *buckets, key string) {
	t.Helper()
	if _, err := b.bucket("bkt").Put(t.Context(), key, driver.Bytes("{}"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A claim whose stage no longer exists is removed if the dataset is complete. Otherwise
// nothing changes.
func TestClaimWithoutStage(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{true, false} {
		b, o, url := oldInBucket(t)
		if !complete {
			if err := b.bucket("bkt").Delete(t.Context(), "dir/a.zarr/.zgroup", nil); err != nil {
				t.Fatal(err)
			}
		}
		want := b.names("bkt")
		const claim = `{"stage": "bkt/dir/a.zarr.nczstage-abcdefghij"}`
		if _, err := b.bucket("bkt").Put(t.Context(), "dir/a.zarr/.nczreplacing", driver.Bytes(claim), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if !complete {
			want = b.names("bkt")
		}
		done, err := dataset.ResumeReplacement(t.Context(), locate(url), o)
		if complete && (done != "claim removed" || err != nil) || !complete && ncerr.KindOf(err) != ncerr.ErrNoDataset {
			t.Errorf("complete=%t: got %q, %v", complete, done, err)
		}
		if got := b.names("bkt"); !slices.Equal(got, want) {
			t.Errorf("complete=%t: want the keys %q, got %q", complete, want, got)
		}
	}
}

// A claim is untrusted data. If the path in it is not that of a stage, the claim is
// refused. A location with such a claim can be replaced with Force.
func TestHostileClaim(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"bkt/other", "bkt/dir/a.zarr", "bkt/dir/a.zarr.nczstage-/../../other", "bkt/dir/a.zarr.nczstage-abcdefghij/x", "bkt/dir/a.zarr.nczstage-ABCDEFGHIJ", ""} {
		b, o, url := oldInBucket(t)
		putObject(t, b, "other/.zgroup")
		claim := `{"stage": "` + stage + `"}`
		if _, err := b.bucket("bkt").Put(t.Context(), "dir/a.zarr/.nczreplacing", driver.Bytes(claim), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		before := b.names("bkt")
		if _, err := dataset.ResumeReplacement(t.Context(), locate(url), o); ncerr.KindOf(err) != ncerr.ErrMetadata {
			t.Errorf("%q: want ErrMetadata, got %v", stage, err)
		}
		if _, err := several(t, url, o, false, 2, "both", "new"); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("%q: create: want ErrConflict, got %v", stage, err)
		}
		if after := b.names("bkt"); !slices.Equal(after, before) {
			t.Errorf("%q: the keys changed from %q to %q", stage, before, after)
		}
		ds, err := several(t, url, o, true, 2, "both", "new")
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		if got := stateOf(t, url, o); got != "new" {
			t.Errorf("%q: with Force: want the new dataset, got: %s", stage, got)
		}
	}
}
