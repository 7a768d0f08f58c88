package dataset_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A write of several batches verifies the claim at the same time as it puts its last chunks, and
// a Flush that follows at once does not repeat that. A claim that is removed in between is
// noticed before the dataset is complete.
func TestClaimVerifiedWithLastChunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		chunks  int64
		pause   time.Duration // between the write and Close
		removed bool          // the claim is removed in between
		want    time.Duration // time of Close before the first document
	}{
		{"at once", 130, 0, false, 0},
		{"later", 130, 3 * time.Second, false, 50 * time.Millisecond},
		{"one batch", 2, 0, false, 50 * time.Millisecond},
		{"removed", 130, time.Millisecond, true, 0}, // after the claim was verified
	} {
		synctest.Test(t, func(t *testing.T) {
			b, o := inBuckets()
			url := belowURL + "#mode=zarr" + belowRest
			var mu sync.Mutex
			var begun, documents time.Time
			ds := create(t, url, hook(o, func(op, key string) error {
				mu.Lock()
				if op+" "+key == "put v/.zarray" {
					documents = time.Now()
				}
				mu.Unlock()
				time.Sleep(50 * time.Millisecond)
				return nil
			}))
			x := dim(t, ds.Root(), "x", c.chunks, false)
			v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
			values := make([]int32, c.chunks)
			for i := range values {
				values[i] = int32(i)
			}
			write(t, v, v.All(), values)
			time.Sleep(c.pause)
			if c.removed {
				if err := b.bucket("bkt").Delete(t.Context(), "dir/a.zarr/.nczreplacing", &driver.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			begun = time.Now()
			err := ds.Close(t.Context())
			if c.removed != (ncerr.KindOf(err) == ncerr.ErrConflict) || !c.removed && err != nil {
				t.Errorf("%s: got %v from Close", c.name, err)
			}
			if got := documents.Sub(begun); got != c.want {
				t.Errorf("%s: want the documents %v after the beginning of Close, got %v", c.name, c.want, got)
			}
			if !c.removed {
				again := open(t, url, o)
				expect(t, again, "v", values)
				closeDataset(t, again)
			}
		})
	}
}

// If a later write finds that the claim is gone, an earlier result no longer counts, and Close
// puts no document.
func TestClaimLostBetweenWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, o := inBuckets()
		var mu sync.Mutex
		var documents []string
		ds := create(t, belowURL+"#mode=zarr"+belowRest, hook(o, func(op, key string) error {
			mu.Lock()
			defer mu.Unlock()
			if op == "put" && (key == "v/.zarray" || key == ".zgroup") {
				documents = append(documents, key)
			}
			return nil
		}))
		x := dim(t, ds.Root(), "x", 260, false)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
		half := func(start int64) {
			write(t, v, chunk.Selection{Start: []int64{start}, Count: []int64{130}}, make([]int32, 130))
			time.Sleep(time.Millisecond) // the claim has been looked for
		}
		half(0)
		if err := b.bucket("bkt").Delete(t.Context(), "dir/a.zarr/.nczreplacing", &driver.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		half(130)
		if err := ds.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict || len(documents) > 0 {
			t.Errorf("want ErrConflict and no documents, got %v and %q", err, documents)
		}
	})
}
