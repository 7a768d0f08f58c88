package dataset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// Chunks that a failed write to a new dataset has left behind do not reappear when the
// dimension is extended later, although no growth mark existed.
func TestLeftoversOfNewDataset(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=nczarr,v3"} {
		o := unbuffered(inMemory())
		o.Workers = 1
		var broken atomic.Bool
		countRequests(o, func(key string) error {
			if broken.Load() && (key == "v/2" || key == "v/c/2") {
				return ncerr.ErrIO
			}
			return nil
		})
		url := "mem:left" + mode
		ds := create(t, url, o)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}, Fill: []int32{-1}})
		broken.Store(true)
		if err := v.Write(t.Context(), slab(0, 12), numbered(100, 12)); err == nil {
			t.Fatal("no error")
		}
		broken.Store(false)
		closeDataset(t, ds)
		ds = update(t, url, o)
		v = variable(t, ds, "v")
		write(t, v, slab(0, 5), numbered(0, 5)) // ends in the second chunk
		write(t, v, slab(8, 1), []int32{8})
		closeDataset(t, ds)
		expect(t, open(t, url, o), "v", []int32{0, 1, 2, 3, 4, -1, -1, -1, 8})
	}
}

// Writing all values of a variable replaces a damaged last chunk or shard.
func TestDamagedLastChunkIsReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		buffer int64
		shards []int64
		mode   string
		key    string
	}{
		"buffered": {0, nil, "#mode=nczarr", "v/1"}, "unbuffered": {-1, nil, "#mode=nczarr", "v/1"},
		"sharded": {0, []int64{8}, "#mode=nczarr,v3", "v/c/0"},
	} {
		o := inMemory(invert{})
		o.WriteBuffer = c.buffer
		url := "mem:damaged " + name + c.mode
		ds := create(t, url, o)
		spec := &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Shards: c.shards, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}}
		if c.shards == nil {
			spec.Codecs = []zarr.CodecSpec{{ID: "invert"}}
		}
		v := define(t, ds.Root(), "v", spec)
		write(t, v, slab(0, 6), numbered(0, 6))
		closeDataset(t, ds)
		ds = update(t, url, o)
		if there, err := ds.Map().Exists(t.Context(), c.key); err != nil || !there {
			t.Fatal(c.key, there, err)
		}
		if _, err := ds.Map().Put(t.Context(), c.key, driver.Bytes([]byte("x")), nil); err != nil {
			t.Fatal(err)
		}
		v = variable(t, ds, "v")
		if err := v.Write(t.Context(), slab(0, 6), numbered(0, 6)); err != nil {
			t.Errorf("%s: Write of all values: %v", name, err)
		}
		if err := ds.Close(t.Context()); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
}

// An array whose chunk keys have the other separator does not prevent other arrays from
// being stored.
func TestWrongSeparatorIsAlone(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"a", "z"} {
		o := inMemory()
		url := "mem:sep" + first
		ds := create(t, url, o)
		bad := define(t, ds.Root(), first, &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{2, 2}, Dims: []*dataset.Dim{dim(t, ds.Root(), "y", 4, false), dim(t, ds.Root(), "x", 4, false)}})
		write(t, bad, bad.All(), numbered(0, 16))
		good := define(t, ds.Root(), "good", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
		write(t, good, slab(0, 1), []int32{0})
		closeDataset(t, ds)
		ds = update(t, url, o)
		for _, k := range []string{"0.0", "0.1", "1.0", "1.1"} {
			body, _, err := ds.Map().ReadAll(t.Context(), first+"/"+k, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if err := ds.Map().Delete(t.Context(), first+"/"+k); err != nil {
				t.Fatal(err)
			}
			if _, err := ds.Map().Put(t.Context(), first+"/"+strings.ReplaceAll(k, ".", "/"), driver.Bytes(body), nil); err != nil {
				t.Fatal(err)
			}
		}
		write(t, variable(t, ds, first), chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 1}}, []int32{5})
		write(t, variable(t, ds, "good"), slab(1, 1), []int32{1})
		setText(t, ds.Root().SetAttr, "title", "new")
		for _, f := range []func(context.Context) error{ds.Flush, ds.Close} {
			if err := f(t.Context()); ncerr.KindOf(err) != ncerr.ErrMetadata || !strings.Contains(err.Error(), "/"+first+"/0.0") {
				t.Errorf("want ErrMetadata for %s/0.0, got %v", first, err)
			}
		}
		ds = open(t, url, o)
		expect(t, ds, "good", []int32{0, 1})
		_ = attr(t, ds.Root().Attrs(), "title")
	}
}

// A stored object that the driver reports as damaged affects no other chunk.
func TestDamagedObjectIsAlone(t *testing.T) {
	t.Parallel()
	o := inMemory()
	url := "mem:object"
	ds := create(t, url, o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 8, false)}})
	write(t, v, v.All(), numbered(0, 8))
	w := define(t, ds.Root(), "w", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	write(t, w, slab(0, 1), []int32{0})
	closeDataset(t, ds)
	ds = update(t, url, withHooks(o, &hooked{getting: func(key string) error {
		if key == "v/1" {
			return ncerr.New(ncerr.ErrCorrupt, "get", key, errors.New("checksum of the member differs"))
		}
		return nil
	}}))
	write(t, variable(t, ds, "v"), slab(5, 1), []int32{-1})
	write(t, variable(t, ds, "w"), slab(1, 1), []int32{1})
	setText(t, ds.Root().SetAttr, "title", "new")
	if err := ds.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrCorrupt || !strings.Contains(err.Error(), `"v/1"`) {
		t.Errorf("want ErrCorrupt for v/1, got %v", err)
	}
	ds = open(t, url, o)
	expect(t, ds, "w", []int32{0, 1})
	_ = attr(t, ds.Root().Attrs(), "title")
}

// sized is the codec invert, but can be opened only for chunks of 4 elements.
type sized struct{ invert }

func (r sized) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	if len(in.Shape) == 1 && in.Shape[0] != 4 {
		return nil, codecdriver.Spec{}, ncerr.Errorf(ncerr.ErrFilter, "", "", "cannot be opened for chunks of %v", in.Shape)
	}
	return r.invert.Open(id, params, in)
}

// A write fails if a codec cannot be opened for the shape of its chunk.
func TestWriteOpensCodecsOfShape(t *testing.T) {
	t.Parallel()
	o := inMemory(sized{})
	url := "mem:shape#mode=zarr,v3"
	ds := create(t, url, o)
	define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Grid: chunkLengths{{4, 3}}.grid(t), Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 7, false)}, Codecs: []zarr.CodecSpec{{ID: "invert"}}})
	define(t, ds.Root(), "w", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Fill: []int32{0}, Dims: []*dataset.Dim{dim(t, ds.Root(), "z", 4, false)}})
	closeDataset(t, ds)
	ds = update(t, url, o)
	if err := variable(t, ds, "v").Write(t.Context(), slab(5, 1), []int32{1}); ncerr.KindOf(err) != ncerr.ErrFilter {
		t.Errorf("want ErrFilter, got %v", err)
	}
	write(t, variable(t, ds, "w"), slab(1, 1), []int32{1})
	setText(t, ds.Root().SetAttr, "title", "new")
	closeDataset(t, ds)
	ds = open(t, url, o)
	expect(t, ds, "w", []int32{0, 1, 0, 0})
	_ = attr(t, ds.Root().Attrs(), "title")
}

// noMatch is a store without puts on the condition that an object is unchanged.
type noMatch struct{ driver.Map }

func (m noMatch) Capabilities() driver.Capabilities {
	c := m.Map.Capabilities()
	c.IfMatch = false
	return c
}

// A write of all chunks of the last shard reads, changes and writes back the shard, and
// warns.
func TestLastShardIsReadWithWarning(t *testing.T) {
	t.Parallel()
	o := inMemory()
	url := "mem:warn#mode=nczarr,v3"
	ds := create(t, url, o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Shards: []int64{16}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	write(t, v, slab(0, 8), numbered(0, 8))
	closeDataset(t, ds)
	var log strings.Builder
	o.Log, o.SingleWriter = slog.New(slog.NewTextHandler(&log, nil)), false
	var gets atomic.Int64
	o.Wrap = func(m driver.Map) driver.Map { return noMatch{requests{m, &gets, new(atomic.Int64), nil}} }
	ds = update(t, url, o)
	write(t, variable(t, ds, "v"), slab(0, 8), numbered(0, 8))
	closeDataset(t, ds)
	if gets.Load() != 1 || !strings.Contains(log.String(), "partial") {
		t.Errorf("%d gets, want 1 and a warning; log %q", gets.Load(), log.String())
	}
}

// In pure Zarr, a writer that opened the dataset earlier does not overwrite what the
// creator of the dataset has appended since.
func TestPureZarrKeepsForeignAppends(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=zarr", "#mode=zarr,v3"} {
		o := inMemory()
		url := "mem:pure" + mode
		ds := create(t, url, o)
		g, err := ds.Root().DefineGroup("g")
		if err != nil {
			t.Fatal(err)
		}
		v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, g, "t", 0, true)}})
		write(t, v, slab(0, 3), []int32{0, 1, 2})
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		a := update(t, url, o)
		write(t, v, slab(3, 4), []int32{3, 4, 5, 6})
		closeDataset(t, ds)
		write(t, variable(t, a, "g/v"), slab(0, 3), []int32{10, 11, 12})
		closeDataset(t, a)
		expect(t, open(t, url, o), "g/v", []int32{10, 11, 12, 3, 4, 5, 6})
	}
}

// Writing to a new variable reads no chunks, because none exist.
func TestNewVariableReadsNothing(t *testing.T) {
	t.Parallel()
	for name, buffer := range map[string]int64{"buffered": 0, "unbuffered": -1} {
		for _, mode := range []string{"#mode=nczarr", "#mode=nczarr,v3"} {
			o := inMemory()
			o.WriteBuffer = buffer
			url := "mem:new" + name + mode
			closeDataset(t, create(t, url, o))
			gets, puts := countRequests(o, nil)
			ds := update(t, url, o)
			v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4, 1}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true), dim(t, ds.Root(), "x", 20, false)}})
			write(t, v, rows(0, 3, 20), numbered(0, 60))
			closeDataset(t, ds)
			if gets.Load() > 0 {
				t.Errorf("%s%s: %d gets and %d puts", name, mode, gets.Load(), puts.Load())
			}
		}
	}
}

func conflict(t *testing.T, err error) {
	t.Helper()
	if ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
}

// After another process has cleared the growth mark of a writer, a read by this writer
// stores nothing beyond the shapes.
func TestClearedWriterLeavesNothing(t *testing.T) {
	t.Parallel()
	o := inMemory()
	ds := create(t, "mem:cleared", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Fill: []int32{-1}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	write(t, v, slab(0, 1), []int32{1})
	closeDataset(t, ds)
	first, second := update(t, "mem:cleared", o), update(t, "mem:cleared", o)
	write(t, variable(t, first, "v"), slab(1, 2), []int32{-2, -3})
	if err := clearGrowth(t, second); err != nil {
		t.Fatal(err)
	}
	conflict(t, variable(t, first, "v").Read(t.Context(), slab(0, 3), make([]int32, 3)))
	conflict(t, first.Close(t.Context()))
	closeDataset(t, second)
	third := update(t, "mem:cleared", o)
	write(t, variable(t, third, "v"), slab(3, 1), []int32{4})
	closeDataset(t, third)
	expect(t, open(t, "mem:cleared", o), "v", []int32{1, -1, -1, 4})
}

// A dataset that replaces another one is not visible before Close, so writing to it does
// not read its last chunks.
func TestReplacementReadsNothing(t *testing.T) {
	t.Parallel()
	o := unbuffered(&dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()})})
	url := "s3://bkt/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	closeDataset(t, create(t, url, o))
	gets, _ := countRequests(o, nil)
	ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o})
	if err != nil {
		t.Fatal(err)
	}
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, v, slab(0, 3), []int32{1, 2, 3})
	if gets.Load() > 0 {
		t.Errorf("%d gets", gets.Load())
	}
	closeDataset(t, ds)
}

// A writer whose growth mark was cleared does not overwrite what other writers have
// appended since, not even if a read makes it store its buffered chunks.
func TestClearedWriterOverwritesNothing(t *testing.T) {
	t.Parallel()
	o := inMemory()
	url := "mem:over"
	ds := create(t, url, o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Fill: []int32{-1}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	write(t, v, slab(0, 1), []int32{1})
	closeDataset(t, ds)
	first, second := update(t, url, o), update(t, url, o)
	write(t, variable(t, first, "v"), slab(1, 2), []int32{-2, -3})
	if err := clearGrowth(t, second); err != nil {
		t.Fatal(err)
	}
	write(t, variable(t, second, "v"), slab(1, 2), []int32{2, 3})
	closeDataset(t, second)
	conflict(t, variable(t, first, "v").Read(t.Context(), slab(0, 3), make([]int32, 3)))
	if err := first.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	expect(t, open(t, url, o), "v", []int32{1, 2, 3})
}

// Writing all strings of a variable replaces a damaged last chunk.
func TestDamagedLastTextIsReplaced(t *testing.T) {
	t.Parallel()
	o := inMemory(vlen.Provider())
	o.Limits.MaxChunk = 4000
	url := "mem:text#mode=nczarr"
	ds := create(t, url, o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCString, MaxStrLen: dataset.VarLen, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	write(t, v, slab(0, 3), []string{"a", "b", "c"})
	closeDataset(t, ds)
	ds = update(t, url, o)
	if _, err := ds.Map().Put(t.Context(), "v/0", driver.Bytes([]byte("x")), nil); err != nil {
		t.Fatal(err)
	}
	if err := variable(t, ds, "v").Write(t.Context(), slab(0, 3), []string{"d", "e", "f"}); err != nil {
		t.Error(err)
	}
	closeDataset(t, ds)
}

// Writing all values of a new variable logs no warning, because no chunk is changed in
// part.
func TestNewVariableDoesNotWarn(t *testing.T) {
	t.Parallel()
	o := inMemory()
	url := "mem:warnnew"
	closeDataset(t, create(t, url, o))
	var log strings.Builder
	o.Log, o.SingleWriter = slog.New(slog.NewTextHandler(&log, nil)), false
	o.Wrap = func(m driver.Map) driver.Map { return noMatch{m} }
	ds := update(t, url, o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	write(t, v, slab(0, 6), numbered(0, 6))
	closeDataset(t, ds)
	if strings.Contains(log.String(), "partial") {
		t.Errorf("log: %s", log.String())
	}
}

// A last chunk is not replaced because of an error of the transfer, or because its strings
// or its shard exceed a limit of this process.
func TestLastChunkIsNotReplaced(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, c := range map[string]struct {
		mode, key string
		spec      dataset.VarSpec
		most      int64 // Limits.MaxChunk of the writer
		transfer  bool
		old, add  any
		buffer    int64
	}{
		"transfer, buffered":   {spec: dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}}, transfer: true, old: numbered(0, 2), add: numbered(2, 2)},
		"transfer, unbuffered": {spec: dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}}, transfer: true, old: numbered(0, 2), add: numbered(2, 2), buffer: -1},
		"strings":              {spec: dataset.VarSpec{Type: dtype.NCString, MaxStrLen: dataset.VarLen, Chunks: []int64{4}}, most: 4000, old: []string{"a", "b"}, add: []string{long}},
		"shard":                {mode: ",v3", spec: dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Shards: []int64{64}}, most: 300, old: numbered(0, 4), add: numbered(4, 60)},
	} {
		o := inMemory(vlen.Provider())
		o.WriteBuffer = c.buffer
		url := "mem:not replaced " + name + "#mode=nczarr" + c.mode
		ds := create(t, url, o)
		g, err := ds.Root().DefineGroup("g")
		if err != nil {
			t.Fatal(err)
		}
		c.spec.Dims = []*dataset.Dim{dim(t, g, "t", 0, true)}
		n, added := int64(dtype.Len(c.old)), int64(dtype.Len(c.add))
		if err := define(t, g, "v", &c.spec).Write(t.Context(), slab(0, n), c.old); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		var broken atomic.Bool
		small := withHooks(o, &hooked{getting: func(key string) error {
			if c.transfer && broken.Load() && key == "g/v/0" {
				e := ncerr.New(ncerr.ErrCorrupt, "", "", errors.New("the content does not match its checksum"))
				e.Retryable = true
				return e
			}
			return nil
		}})
		small.Limits.MaxChunk = c.most
		a, b := update(t, url, small), update(t, url, o)
		if err := variable(t, b, "g/v").Write(t.Context(), slab(n, added), c.add); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, b)
		setText(t, a.Root().SetAttr, "title", "new")
		broken.Store(true)
		if err := errors.Join(variable(t, a, "g/v").Write(t.Context(), slab(0, n), c.old), a.Close(t.Context())); err == nil {
			t.Errorf("%s: want an error of the write or of Close", name)
		}
		ds = open(t, url, o)
		if _, err := ds.Root().Attr("title"); err == nil && c.transfer && c.buffer == 0 {
			t.Errorf("%s: the metadata was written although values are lost", name)
		}
		v := variable(t, ds, "g/v")
		got := v.NewSlice(added)
		if err := v.Read(t.Context(), slab(n, added), got); err != nil || !reflect.DeepEqual(got, c.add) {
			t.Errorf("%s: what another process appended is lost: %.40v, %v", name, got, err)
		}
	}
}

// What a failed write to a new dataset leaves behind is removed before other processes can
// see the dataset, on every store.
func TestLeftoversOfNewDatasetOnStores(t *testing.T) {
	t.Parallel()
	for pattern, o := range map[string]*dataset.Options{
		"mem:NAME":                inMemory(),
		"mem:NAME#mode=nczarr,v3": inMemory(),
		"s3://bkt/NAME.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000": {Registry: registry.New([]driver.Opener{newBuckets()})},
		filepath.Join(t.TempDir(), "NAME.zarr") + "#mode=nczarr,file":       localOptions(),
		filepath.Join(t.TempDir(), "NAME.zip") + "#mode=nczarr,zip":         localOptions(),
	} {
		for _, flush := range []bool{false, true} {
			url := strings.Replace(pattern, "NAME", fmt.Sprintf("torn%t", flush), 1)
			o := unbuffered(o)
			o.Workers = 1
			var broken atomic.Bool
			failing := *o
			failing.Wrap = func(m driver.Map) driver.Map {
				return &hooked{Map: m, refuse: func(key string) error {
					if broken.Load() && (key == "v/2" || key == "v/c/2") {
						return ncerr.ErrIO
					}
					return nil
				}}
			}
			ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: failing})
			if err != nil {
				t.Fatal(err)
			}
			v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}, Fill: []int32{-1}})
			write(t, v, slab(0, 2), []int32{0, 1})
			broken.Store(true)
			if err := v.Write(t.Context(), slab(2, 10), numbered(100, 10)); err == nil {
				t.Fatal("the write succeeds")
			}
			if flush {
				if err := ds.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			closeDataset(t, ds)
			ds = update(t, url, o)
			if m, err := growthMark(t, ds); m != nil || err != nil {
				t.Errorf("%s: growth mark %v, %v", url, m, err)
			}
			write(t, variable(t, ds, "v"), slab(8, 1), []int32{8})
			closeDataset(t, ds)
			expect(t, open(t, url, o), "v", []int32{0, 1, -1, -1, -1, -1, -1, -1, 8})
		}
	}
}

// After another process has cleared the mark of a new variable, a read by the first writer
// stores nothing, whether the other process defines the variable again or not.
func TestClearedNewVariable(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		o := inMemory()
		url := fmt.Sprintf("mem:new variable %t#mode=v3", again)
		base(t, url, o)
		first := update(t, url, o)
		v := newVar(t, first.Root(), "v")
		write(t, v, slab(0, 1), []int32{-1})
		second := update(t, url, o)
		nodes, err := second.NewNodes(t.Context())
		if err != nil || len(nodes) != 1 {
			t.Fatal(nodes, err)
		}
		if _, err := second.ClearNewNode(t.Context(), &nodes[0]); err != nil {
			t.Fatal(err)
		}
		if again {
			write(t, newVar(t, second.Root(), "v"), slab(0, 4), numbered(1, 4))
			closeDataset(t, second)
		}
		conflict(t, v.Read(t.Context(), slab(0, 2), make([]int32, 2)))
		if err := first.Abort(t.Context()); err != nil {
			t.Error(err)
		}
		if !again {
			write(t, newVar(t, second.Root(), "v"), slab(0, 4), numbered(1, 4))
			closeDataset(t, second)
		}
		expect(t, open(t, url, o), "v", numbered(1, 4))
	}
}

// If the deletion of a growth mark succeeds but returns an error, the writer does not
// mistake the missing mark for one that another process has cleared.
func TestDeletedMark(t *testing.T) {
	t.Parallel()
	o := inMemory()
	url := "mem:deleted mark"
	ds := create(t, url, o)
	write(t, define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}}), slab(0, 2), numbered(0, 2))
	closeDataset(t, ds)
	ds = update(t, url, withHooks(o, &hooked{deleted: func(key string) error {
		if key == zarr.GrowthMark {
			return ncerr.ErrIO
		}
		return nil
	}}))
	v := variable(t, ds, "v")
	write(t, v, slab(2, 1), []int32{2})
	if err := ds.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	write(t, v, slab(3, 2), []int32{3, 4})
	if err := v.Read(t.Context(), slab(0, 5), make([]int32, 5)); err != nil {
		t.Error(err)
	}
	closeDataset(t, ds)
	expect(t, open(t, url, o), "v", numbered(0, 5))
}
