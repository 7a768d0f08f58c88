package dataset_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
