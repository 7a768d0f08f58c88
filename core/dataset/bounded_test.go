package dataset_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// limitRecorder records the limit of each Get of a whole object.
type limitRecorder struct {
	driver.Map
	mu  *sync.Mutex
	got map[string][]int64
}

func (l limitRecorder) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if opts.Range == nil {
		l.mu.Lock()
		l.got[key] = append(l.got[key], opts.Limit)
		l.mu.Unlock()
	}
	return l.Map.Get(ctx, key, opts, alloc)
}

// TestChunkReadsHaveLimits checks that each read of a whole chunk, including the one
// before a partial write, is limited to the possible size of the chunk. Otherwise a
// server that does not announce lengths could send data without end.
func TestChunkReadsHaveLimits(t *testing.T) {
	t.Parallel()
	const most = 64 + 64/16 + 4096 // limit for 16 ints through a codec
	for name, c := range map[string]struct {
		spec dataset.VarSpec
		most int64
	}{
		"raw":   {dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{16}}, 64},
		"coded": {dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{16}, Codecs: []zarr.CodecSpec{{ID: "invert"}}}, most},
		"text":  {dataset.VarSpec{Type: dtype.NCString, Chunks: []int64{16}, MaxStrLen: dataset.VarLen}, 1 << 20},
	} {
		o := unbuffered(memory(vlen.Provider(), invert{}))
		o.Limits.MaxChunk = 1 << 20
		seen := limitRecorder{mu: &sync.Mutex{}, got: make(map[string][]int64)}
		o.Wrap = func(m driver.Map) driver.Map { return limitRecorder{m, seen.mu, seen.got} }
		ds := create(t, "mem:limits-"+name+"#mode=zarr", o)
		x, err := ds.Root().DefineDim("x", 32, false)
		if err != nil {
			t.Fatal(err)
		}
		c.spec.Dims = []*dataset.Dim{x}
		v := define(t, ds.Root(), "v", &c.spec)
		part := chunk.Selection{Start: []int64{1}, Count: []int64{2}}
		for _, do := range []func(any) error{
			func(values any) error { return v.Write(t.Context(), part, values) }, // reads the chunk, which does not exist
			func(values any) error { return v.Write(t.Context(), part, values) },
			func(values any) error { return v.Read(t.Context(), v.All(), values) },
		} {
			n := part.Len()
			if len(seen.got["v/0"]) == 2 {
				n = v.All().Len()
			}
			if err := do(v.NewSlice(n)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if got := seen.got["v/0"]; len(got) != 3 {
			t.Errorf("%s: want 3 reads of the chunk, got %d", name, len(got))
		}
		for _, limit := range seen.got["v/0"] {
			if most := c.most + c.most/8 + 8192; limit <= 0 || limit > most {
				t.Errorf("%s: read with limit %d, want 1 to %d", name, limit, most)
			}
		}
		closeDataset(t, ds)
	}
}

// TestDocumentsTogether checks that the total size of the documents read by one Open is
// limited. Many documents within their own limits could otherwise exhaust memory.
func TestDocumentsTogether(t *testing.T) {
	t.Parallel()
	o := memory()
	blank := "{" + strings.Repeat(" ", 1<<20) + "}"
	docs := map[string]string{".zgroup": `{"zarr_format": 2}`}
	for _, name := range []string{"a", "b", "c", "d"} {
		docs[name+"/.zarray"] = `{"shape": [1], "chunks": [1], ` + i4 + `}`
		docs[name+"/.zattrs"] = blank
	}
	store(t, o, "sum", docs)
	o.Limits.MaxDocuments = 5 << 20
	if p := open(t, "mem:sum#mode=zarr", o).Problems(); len(p) > 0 {
		t.Errorf("within the limit: want no problems, got %v", p)
	}
	o.Limits.MaxDocuments = 3 << 20
	if _, err := openURL(t.Context(), "mem:sum#mode=zarr", o); !errors.Is(err, ncerr.ErrLimit) || !strings.Contains(err.Error(), "max_documents") {
		t.Errorf("want ErrLimit, got %v", err)
	}
}

// TestNamesTogether checks that names count against the limit on documents.
func TestNamesTogether(t *testing.T) {
	t.Parallel()
	o := memory()
	docs := map[string]string{".zgroup": `{"zarr_format": 2}`}
	for i := range 100 {
		docs[strings.Repeat("n", 200)+strconv.Itoa(i)+"/x"] = ""
	}
	store(t, o, "names", docs)
	o.Limits.MaxDocuments = 10_000
	if _, err := openURL(t.Context(), "mem:names#mode=zarr", o); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("want ErrLimit, got %v", err)
	}
}

// TestAbsurdShapes checks that copying a variable whose shape exceeds the limits on
// data or chunks fails, although the store contains no chunks, and that the limits can be
// set.
func TestAbsurdShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shape, chunks string
		limits        dataset.Limits
		ok            bool
	}{
		"bytes":             {"[1125899906842624]", "[268435456]", dataset.Limits{}, false},
		"a large product":   {"[1073741824, 33554432]", "[65536, 4096]", dataset.Limits{}, false},
		"chunks":            {"[1073741824]", "[1]", dataset.Limits{}, false},
		"empty":             {"[36028797018963968, 0]", "[1, 1]", dataset.Limits{}, true},
		"lower data limit":  {"[100]", "[10]", dataset.Limits{MaxData: 399}, false},
		"lower chunk limit": {"[100]", "[10]", dataset.Limits{MaxChunks: 9}, false},
		"exact limits":      {"[100]", "[10]", dataset.Limits{MaxData: 400, MaxChunks: 10}, true},
	} {
		o := memory()
		o.Limits = c.limits
		store(t, o, "absurd", map[string]string{
			".zgroup":   `{"zarr_format": 2}`,
			"v/.zarray": `{"shape": ` + c.shape + `, "chunks": ` + c.chunks + `, ` + i4 + `}`,
		})
		ds := open(t, "mem:absurd#mode=zarr", o)
		to := create(t, "mem:copied", o)
		err := dataset.Copy(t.Context(), to.Root(), ds.Root(), nil)
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, ncerr.ErrLimit) || !strings.Contains(err.Error(), "/v")) {
			t.Errorf("%s: want success %t or ErrLimit, got %v", name, c.ok, err)
		}
		if err := to.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
