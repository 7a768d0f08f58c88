package dataset_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// watched records the reads of the chunk v/0.0 and can modify their results.
type watched struct {
	driver.Map
	mu    sync.Mutex
	bytes int
	parts []driver.Range
	// before, if not nil, is called before read number n of the chunk. If it returns an
	// error, the read fails with this error.
	before    func(n int) error
	noVersion bool // results have no version
	noRanges  bool // a part costs as much as the whole object
}

func (w *watched) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if key != "v/0.0" {
		return w.Map.Get(ctx, key, o, alloc)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	part := driver.Range{Length: -1}
	if o.Range != nil {
		part = *o.Range
	}
	w.parts = append(w.parts, part)
	if w.before != nil {
		if err := w.before(len(w.parts)); err != nil {
			return nil, driver.Info{}, err
		}
	}
	data, info, err := w.Map.Get(ctx, key, o, alloc)
	if w.bytes += len(data); w.noVersion {
		info.Version = ""
	}
	info.NoRanges = w.noRanges
	return data, info, err
}

// columns creates a dataset with one raw chunk of 8 rows and 10 columns, whose elements are
// 1, 2, 3 and so on, and opens it through w. The merge gap is 4 bytes.
func columns(t *testing.T, o *dataset.Options, w *watched) *dataset.Var {
	t.Helper()
	ds := create(t, "mem:p", o)
	y, x := dim(t, ds.Root(), "y", 8, false), dim(t, ds.Root(), "x", 10, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCShort, Dims: []*dataset.Dim{y, x}, Chunks: []int64{8, 10}})
	write(t, v, v.All(), count[int16](80))
	closeDataset(t, ds)
	o.MergeGap = 4
	o.Wrap = func(m driver.Map) driver.Map { w.Map = m; return w }
	return variable(t, update(t, "mem:p", o), "v")
}

func box(y, x, ny, nx int64) chunk.Selection {
	return chunk.Selection{Start: []int64{y, x}, Count: []int64{ny, nx}}
}

// A read of a slab of a raw chunk requests only the needed parts. Parts that are close
// together are read in one request, and others in separate ones.
func TestPartsOfRawChunks(t *testing.T) {
	t.Parallel()
	strided := chunk.Selection{Start: []int64{0, 1}, Count: []int64{2, 3}, Stride: []int64{4, 2}}
	for name, c := range map[string]struct {
		sel   chunk.Selection
		parts []driver.Range
		bytes int
		want  []int16
	}{
		"rows":        {box(2, 0, 1, 10), []driver.Range{{Offset: 40, Length: 20}}, 20, []int16{21, 22, 23, 24, 25, 26, 27, 28, 29, 30}},
		"a gap of 4":  {box(1, 1, 2, 8), []driver.Range{{Offset: 22, Length: 36}}, 36, []int16{12, 13, 14, 15, 16, 17, 18, 19, 22, 23, 24, 25, 26, 27, 28, 29}},
		"a gap of 16": {box(0, 3, 3, 2), []driver.Range{{Offset: 6, Length: 4}, {Offset: 26, Length: 4}, {Offset: 46, Length: 4}}, 12, []int16{4, 5, 14, 15, 24, 25}},
		"strided":     {strided, []driver.Range{{Offset: 2, Length: 10}, {Offset: 82, Length: 10}}, 20, []int16{2, 4, 6, 42, 44, 46}},
		"all":         {box(0, 0, 8, 10), []driver.Range{{Length: -1}}, 160, count[int16](80)},
	} {
		w := &watched{}
		v := columns(t, memory(), w)
		got, err := dataset.Get[int16](t.Context(), v, c.sel)
		slices.SortFunc(w.parts, func(a, b driver.Range) int { return int(a.Offset - b.Offset) })
		if err != nil || !slices.Equal(got, c.want) || !slices.Equal(w.parts, c.parts) || w.bytes != c.bytes {
			t.Errorf("%s: got %v, %v with requests for %v, %d bytes", name, got, err, w.parts, w.bytes)
		}
	}
}

// A chunk that is replaced, removed or created between reads of its parts is never read
// as a mixture.
func TestPartsOfOneVersion(t *testing.T) {
	t.Parallel()
	const missing = -32767
	replace := func(t *testing.T, w *watched) error {
		t.Helper()
		_, err := w.Map.Put(t.Context(), "v/0.0", driver.Bytes(make([]byte, 160)), &driver.PutOptions{})
		return err
	}
	for name, c := range map[string]struct {
		before func(w *watched, n int) error
		want   []int16
		reads  int
	}{
		"replaced": {func(w *watched, n int) error {
			if n == 2 {
				return replace(t, w)
			}
			return nil
		}, make([]int16, 6), 4},
		"removed": {func(w *watched, n int) error {
			if n == 3 {
				return w.Map.Delete(t.Context(), "v/0.0", &driver.DeleteOptions{})
			}
			return nil
		}, []int16{missing, missing, missing, missing, missing, missing}, 4},
		"created": {func(_ *watched, n int) error {
			if n == 1 {
				return ncerr.ErrNotFound
			}
			return nil
		}, []int16{4, 5, 14, 15, 24, 25}, 4},
		"never there": {func(*watched, int) error { return ncerr.ErrNotFound }, []int16{missing, missing, missing, missing, missing, missing}, 3},
	} {
		w := &watched{}
		v := columns(t, memory(), w)
		w.before = func(n int) error { return c.before(w, n) }
		got, err := dataset.Get[int16](t.Context(), v, box(0, 3, 3, 2))
		if err != nil || !slices.Equal(got, c.want) || len(w.parts) != c.reads {
			t.Errorf("%s: got %v, %v with requests for %v", name, got, err, w.parts)
		}
	}
}

// In a store without versions, parts are not read separately. After the first read, no
// request for a part is sent.
func TestPartsWithoutVersions(t *testing.T) {
	t.Parallel()
	w := &watched{noVersion: true}
	v := columns(t, memory(), w)
	for _, reads := range []int{4, 5} {
		got, err := dataset.Get[int16](t.Context(), v, box(0, 3, 3, 2))
		if err != nil || !slices.Equal(got, []int16{4, 5, 14, 15, 24, 25}) || len(w.parts) != reads {
			t.Errorf("got %v, %v with requests for %v", got, err, w.parts)
		}
	}
}

// If a part costs as much as the whole chunk, or cannot be read separately, this read and
// later ones read the whole chunk. The test uses a low-latency store, because reads of a
// high-latency one try more parts first.
func TestExpensiveParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		w      *watched
		refuse func(n int, part driver.Range) bool
		most   int // maximum number of reads for the first slab
	}{
		"each costs the whole":  {&watched{noRanges: true}, func(int, driver.Range) bool { return false }, 2},
		"the second is refused": {&watched{}, func(n int, _ driver.Range) bool { return n == 2 }, 4},
		"all are refused":       {&watched{}, func(_ int, part driver.Range) bool { return part.Length >= 0 }, 2},
		"their span is refused": {&watched{noVersion: true}, func(n int, _ driver.Range) bool { return n == 4 }, 5},
	} {
		v := columns(t, inMemory(), c.w)
		c.w.before = func(n int) error {
			if c.refuse(n, c.w.parts[n-1]) {
				return ncerr.ErrUnsupported
			}
			return nil
		}
		for _, most := range []int{c.most, c.most + 1} {
			got, err := dataset.Get[int16](t.Context(), v, box(0, 3, 3, 2))
			if err != nil || !slices.Equal(got, []int16{4, 5, 14, 15, 24, 25}) || len(c.w.parts) > most {
				t.Errorf("%s: got %v, %v with requests for %v", name, got, err, c.w.parts)
			}
		}
		if last := c.w.parts[len(c.w.parts)-1]; last.Length != -1 {
			t.Errorf("%s: the second read requested %v instead of the whole chunk", name, c.w.parts)
		}
	}
	w := &watched{before: func(int) error { return ncerr.ErrUnsupported }}
	if _, err := dataset.Get[int16](t.Context(), columns(t, memory(), w), box(0, 3, 3, 2)); !errors.Is(err, ncerr.ErrUnsupported) {
		t.Errorf("a store that refuses all reads: want ErrUnsupported, got %v", err)
	}
}

// If a part cannot be read, the read fails with an error that names the chunk.
func TestFailedPart(t *testing.T) {
	t.Parallel()
	w := &watched{before: func(n int) error {
		if n == 2 {
			return ncerr.ErrPermission
		}
		return nil
	}}
	v := columns(t, memory(), w)
	if _, err := dataset.Get[int16](t.Context(), v, box(0, 3, 3, 2)); !errors.Is(err, ncerr.ErrPermission) || !strings.Contains(err.Error(), "v/0.0") {
		t.Errorf("want ErrPermission for v/0.0, got %v", err)
	}
	w = &watched{}
	v = columns(t, memory(), w)
	if _, err := w.Map.Put(t.Context(), "v/0.0", driver.Bytes(make([]byte, 159)), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := dataset.Get[int16](t.Context(), v, box(0, 3, 3, 2)); !errors.Is(err, ncerr.ErrCorrupt) {
		t.Errorf("a chunk that is too short: want ErrCorrupt, got %v", err)
	}
}
