package dataset_test

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// rootless is a store whose objects cannot be found before it is listed.
type rootless struct {
	driver.Map
	listed *atomic.Bool
}

func (r rootless) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if !r.listed.Load() {
		return nil, driver.Info{}, ncerr.ErrNotFound
	}
	return r.Map.Get(ctx, key, o, alloc)
}

func (r rootless) Stat(ctx context.Context, key string) (driver.Info, error) {
	if !r.listed.Load() {
		return driver.Info{}, ncerr.ErrNotFound
	}
	return r.Map.Stat(ctx, key)
}

func (r rootless) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	r.listed.Store(true)
	return r.Map.List(ctx, prefix, o)
}

// If a replacement ends while a dataset is opened, Open reports this instead of a
// missing dataset.
func TestOpenWhileReplacementEnds(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:replaced", o)
	x := dim(t, ds.Root(), "x", 4, false)
	define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
	closeDataset(t, ds)
	var listed atomic.Bool
	o.Wrap = func(m driver.Map) driver.Map { return rootless{m, &listed} }
	_, err := openURL(t.Context(), "mem:replaced", o)
	if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "has since stopped: try again") {
		t.Errorf("open during a replacement: want ErrConflict, got %v", err)
	}
	expect(t, open(t, "mem:replaced", o), "v", []int32{-2147483647, -2147483647, -2147483647, -2147483647})
}

// vanishing is a store that lists one object that it does not have.
type vanishing struct {
	driver.Map
	key string
}

func (vanishing) Get(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error) {
	return nil, driver.Info{}, ncerr.ErrNotFound
}

func (vanishing) Stat(context.Context, string) (driver.Info, error) {
	return driver.Info{}, ncerr.ErrNotFound
}

func (v vanishing) List(_ context.Context, prefix string, _ *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if prefix == "" {
			yield(driver.Entry{Key: v.key}, nil)
		}
	}
}

// If a claim was listed but no longer exists when it is read, Open reports that a
// replacement has just ended instead of a missing dataset.
func TestOpenWhileClaimGoes(t *testing.T) {
	t.Parallel()
	o := memory()
	closeDataset(t, create(t, "mem:gone", o))
	o.Wrap = func(m driver.Map) driver.Map { return vanishing{m, ".nczreplacing"} }
	_, err := openURL(t.Context(), "mem:gone", o)
	if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "has since stopped: try again") {
		t.Errorf("a claim that no longer exists: want ErrConflict, got %v", err)
	}
	o.Wrap = func(m driver.Map) driver.Map { return vanishing{m, "other"} }
	if _, err := openURL(t.Context(), "mem:gone", o); ncerr.KindOf(err) != ncerr.ErrNotZarr {
		t.Errorf("another object: want ErrNotZarr, got %v", err)
	}
}

// A dataset of which a replacement has removed only the first document is not opened,
// because Open looks for a claim if this document is missing.
func TestOpenClaimedWithoutRoot(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:claimed", o)
	dim(t, ds.Root(), "x", 4, false)
	if err := ds.Root().SetAttr(dataset.Attr{Name: "n", Type: dtype.NCInt, Value: []int32{1}}); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	u := *o
	u.Update = true
	ds = open(t, "mem:claimed", &u)
	if err := ds.Map().Delete(t.Context(), ".zgroup"); err != nil {
		t.Fatal(err)
	}
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, open(t, "mem:claimed", o)) // without a claim
	ds = open(t, "mem:claimed", &u)
	if _, err := ds.Map().Put(t.Context(), ".nczreplacing", driver.Bytes("{}"), nil); err != nil {
		t.Fatal(err)
	}
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := openURL(t.Context(), "mem:claimed", o)
	if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "nczctl copy --resume-replace") {
		t.Errorf("claimed: want ErrConflict, got %v", err)
	}
}
