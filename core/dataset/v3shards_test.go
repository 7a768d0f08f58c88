package dataset_test

import (
	"bytes"
	stdgzip "compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
	"github.com/seed-695719ce/nczarr/filters/checksum"
	"github.com/seed-695719ce/nczarr/filters/gzip"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// eachElement calls f with the position of each element of sel in an array of the given
// shape, in C order.
func eachElement(sel chunk.Selection, shape []int64, f func(k, at int64)) {
	for k := range sel.Len() {
		at, rest, step := int64(0), k, int64(1)
		for d := len(shape) - 1; d >= 0; d-- {
			at += step * (sel.Start[d] + rest%sel.Count[d]*sel.Stride[d])
			rest, step = rest/sel.Count[d], step*shape[d]
		}
		f(k, at)
	}
}

// TestWriteShards writes random selections to arrays with random shapes of chunks and
// shards. After each write, the whole array must equal a slice that the test has changed
// in the same way, both in the dataset that wrote and in another one that is open for the
// same store.
func TestWriteShards(t *testing.T) {
	t.Parallel()
	seed := testseed.New(t)
	for i := range 40 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			o := memory(gzip.Provider(), vlen.Provider())
			o.Workers = r.IntN(4)
			text, rank := i%4 == 3, 1+r.IntN(3)
			if text { // make most chunks need another pass with more memory
				o.Limits.MaxChunk, rank = 16<<10, 1
			}
			ds := create(t, "mem:s#mode=v3", o)
			spec := &dataset.VarSpec{Type: dtype.NCInt}
			var shape []int64
			for d := range rank {
				c := 1 + r.Int64N(4)
				shape = append(shape, 1+r.Int64N(14))
				spec.Dims = append(spec.Dims, dim(t, ds.Root(), fmt.Sprint("d", d), shape[d], false))
				spec.Chunks, spec.Shards = append(spec.Chunks, c), append(spec.Shards, c*(1+r.Int64N(4)))
			}
			if i%3 == 2 { // shards of different shapes
				lengths := randomLengths(r, shape)
				for d := range lengths {
					for k := range lengths[d] {
						lengths[d][k] *= spec.Chunks[d]
					}
				}
				spec.Shards, spec.ShardGrid = nil, lengths.grid(t)
			}
			if r.IntN(2) == 0 {
				spec.Codecs = []zarr.CodecSpec{{ID: "gzip"}}
			}
			if text {
				spec.Type, spec.MaxStrLen, spec.Fill = dtype.NCString, dataset.VarLen, asText([]int32{-7})
			} else {
				spec.Fill = []int32{-7}
			}
			v := define(t, ds.Root(), "v", spec)
			if err := ds.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			other := variable(t, update(t, "mem:s", o), "v")
			want := make([]int32, chunk.Product(shape))
			for k := range want {
				want[k] = -7
			}
			for round := range 25 {
				sel := chunk.Selection{Stride: make([]int64, rank)}
				for d, n := range shape {
					start := r.Int64N(n)
					sel.Stride[d] = 1 + r.Int64N(3)*r.Int64N(2)
					sel.Start, sel.Count = append(sel.Start, start), append(sel.Count, 1+r.Int64N((n-1-start)/sel.Stride[d]+1))
				}
				if round%5 == 4 {
					sel = v.All()
					sel.Stride = slices.Repeat([]int64{1}, rank)
				}
				values := make([]int32, sel.Len())
				eachElement(sel, shape, func(k, at int64) {
					values[k] = r.Int32()
					want[at] = values[k]
				})
				writer, reader := v, other
				if r.IntN(2) == 0 {
					writer, reader = other, v
				}
				if text {
					write(t, writer, sel, asText(values))
				} else {
					write(t, writer, sel, values)
				}
				for _, h := range []*dataset.Var{reader, writer} {
					if text {
						got, err := dataset.Get[string](t.Context(), h, h.All())
						if err != nil || !slices.Equal(got, asText(want)) {
							t.Fatalf("%+v of %v: %v\ngot  %v\nwant %v", spec, shape, err, got, want)
						}
						continue
					}
					got, err := dataset.Get[int32](t.Context(), h, h.All())
					if err != nil || !slices.Equal(got, want) {
						t.Fatalf("%+v of %v: %v\ngot  %v\nwant %v", spec, shape, err, got, want)
					}
				}
			}
			closeDataset(t, ds)
		})
	}
}

func asText(values []int32) []string {
	text := make([]string, len(values))
	for k, n := range values {
		text[k] = fmt.Sprintf("%0200d", n)
	}
	return text
}

// shardRequests counts requests for shards. before, if not nil, is called before the
// next put of a shard, and onGet before every get.
type shardRequests struct {
	driver.Map
	*shardCounts
}

type shardCounts struct {
	gets, puts atomic.Int64
	before     atomic.Pointer[func()]
	onGet      func(n int64)
}

func (m shardRequests) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if strings.Contains(key, "/c/") {
		if n := m.gets.Add(1); m.onGet != nil {
			m.onGet(n)
		}
	}
	return m.Map.Get(ctx, key, o, alloc)
}

func (m shardRequests) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if strings.Contains(key, "/c/") {
		m.puts.Add(1)
		if before := m.before.Swap(nil); before != nil {
			(*before)()
		}
	}
	return m.Map.Put(ctx, key, body, o)
}

// TestShardRequests counts the requests of writes: a shard that a write covers is put
// without a get, and any other is read and put once.
func TestShardRequests(t *testing.T) {
	t.Parallel()
	o := inMemory()
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	ds := create(t, "mem:s#mode=v3", o)
	y, x := dim(t, ds.Root(), "y", 10, false), dim(t, ds.Root(), "x", 10, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{2, 2}, Shards: []int64{4, 6}})
	for _, c := range []struct {
		sel        chunk.Selection
		gets, puts int64
	}{
		{v.All(), 0, 6}, // shards at the edge are covered too
		{chunk.Selection{Start: []int64{0, 0}, Count: []int64{4, 6}}, 0, 1},
		{chunk.Selection{Start: []int64{8, 6}, Count: []int64{2, 4}}, 0, 1},
		{chunk.Selection{Start: []int64{0, 0}, Count: []int64{2, 2}}, 1, 1},  // one chunk
		{chunk.Selection{Start: []int64{1, 1}, Count: []int64{9, 9}}, 4, 6},  // two shards are covered
		{chunk.Selection{Start: []int64{3, 5}, Count: []int64{2, 2}}, 4, 4},  // a corner of four shards
		{chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 10}}, 2, 2}, // a row
	} {
		counts.gets.Store(0)
		counts.puts.Store(0)
		write(t, v, c.sel, make([]int32, c.sel.Len()))
		if g, p := counts.gets.Load(), counts.puts.Load(); g != c.gets || p != c.puts {
			t.Errorf("%+v: %d gets and %d puts, want %d and %d", c.sel, g, p, c.gets, c.puts)
		}
	}
	closeDataset(t, ds)
}

// TestShardWarning checks that a store without conditional writes causes a warning if a
// shard is changed in part, even by a write of whole chunks.
func TestShardWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := inMemory()
	o.SingleWriter, o.Log = false, slog.New(slog.NewTextHandler(&log, nil))
	o.Wrap = func(m driver.Map) driver.Map { return noConditionalPut{m} }
	ds := create(t, "mem:s#mode=v3", o)
	x := dim(t, ds.Root(), "x", 10, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Shards: []int64{6}})
	write(t, v, v.All(), make([]int8, 10))
	write(t, v, slab(6, 4), make([]int8, 4))
	if log.Len() > 0 {
		t.Errorf("whole shards: unexpected log %s", &log)
	}
	write(t, v, slab(2, 2), []int8{1, 2})
	if !strings.Contains(log.String(), "cannot detect other writers") {
		t.Errorf("a chunk of a shard: want a warning, got %q", &log)
	}
	expect(t, ds, "v", []int8{0, 0, 1, 2, 0, 0, 0, 0, 0, 0})
	closeDataset(t, ds)
}

// TestShardConflict stores chunks in a shard between the read and the put of the shard by
// another writer. The chunks of both writers must be kept, and a reader with an outdated
// index must read the index again.
func TestShardConflict(t *testing.T) {
	t.Parallel()
	o := inMemory()
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	ds := create(t, "mem:s#mode=v3", o)
	x := dim(t, ds.Root(), "x", 8, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Shards: []int64{8}, Fill: []int8{0}})
	write(t, v, slab(0, 1), []int8{1})
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := update(t, "mem:s", o)
	otherVar := variable(t, other, "v")
	expect(t, other, "v", []int8{1, 0, 0, 0, 0, 0, 0, 0})
	before := func() {
		write(t, otherVar, slab(1, 1), []int8{2}) // the same chunk
		write(t, otherVar, slab(6, 2), []int8{7, 8})
	}
	counts.before.Store(&before)
	write(t, v, slab(0, 1), []int8{3})
	want := []int8{3, 2, 0, 0, 0, 0, 7, 8}
	expect(t, ds, "v", want)
	expect(t, other, "v", want)
	closeDataset(t, ds)
}

// TestReadDuringShardWrites checks that a read succeeds although another writer
// replaces the shard several times between the reads of its index and of a chunk.
func TestReadDuringShardWrites(t *testing.T) {
	t.Parallel()
	o := inMemory()
	ds := create(t, "mem:s#mode=v3", o)
	x := dim(t, ds.Root(), "x", 4, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Shards: []int64{4}, Fill: []int8{0}})
	write(t, v, v.All(), []int8{1, 2, 3, 4})
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	counts := &shardCounts{onGet: func(n int64) {
		if n <= 8 && n%2 == 0 { // the chunk, after the index
			write(t, v, slab(3, 1), []int8{int8(n)})
		}
	}}
	wrapped := *o
	wrapped.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	got, err := dataset.Get[int8](t.Context(), variable(t, open(t, "mem:s", &wrapped), "v"), slab(3, 1))
	if err != nil || got[0] != 8 || counts.gets.Load() != 10 {
		t.Errorf("want 8 after 10 gets, got %v, %v after %d gets", got, err, counts.gets.Load())
	}
	closeDataset(t, ds)
}

// TestLeftoversInShards checks that ClearGrowth removes the chunks that a dead writer has
// left beyond the shape: whole shards, and chunks in the shard at the edge.
func TestLeftoversInShards(t *testing.T) {
	t.Parallel()
	o := inMemory()
	ds := create(t, "mem:s#mode=v3", o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Shards: []int64{6}, Fill: []int8{0}})
	write(t, v, slab(0, 7), []int8{1, 2, 3, 4, 5, 6, 7})
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, v, slab(7, 10), []int8{8, 9, 10, 11, 12, 13, 14, 15, 16, 17}) // the writer dies
	ds = update(t, "mem:s", o)
	chunks := func() string { // the length of the shard at the edge, and the keys
		info, err := ds.Map().Stat(t.Context(), "v/c/1")
		if err != nil {
			t.Fatal(err)
		}
		keys := keysOf(t, ds)
		for i, key := range keys {
			if strings.HasPrefix(key, mark+"/") {
				keys[i] = mark
			}
		}
		return fmt.Sprint(info.Size, keys)
	}
	if got := chunks(); got != "58 [.nczgrowing v/c/0 v/c/1 v/c/2 v/zarr.json zarr.json]" {
		t.Errorf("before ClearGrowth: unexpected shard length and keys %s", got)
	}
	if err := clearGrowth(t, ds); err != nil {
		t.Fatal(err)
	}
	if got := chunks(); got != "54 [v/c/0 v/c/1 v/zarr.json zarr.json]" {
		t.Errorf("after ClearGrowth: unexpected shard length and keys %s", got)
	}
	expect(t, ds, "v", []int8{1, 2, 3, 4, 5, 6, 7})
}

// TestShardsGrow checks that dimensions of arrays in shards grow.
func TestShardsGrow(t *testing.T) {
	t.Parallel()
	o := inMemory()
	ds := create(t, "mem:s#mode=v3", o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Shards: []int64{6}, Fill: []int8{0}})
	var want []int8
	for n := range int8(15) {
		write(t, v, slab(int64(n), 1), []int8{n + 1})
		want = append(want, n+1)
		if n%4 == 3 {
			expect(t, ds, "v", want)
		}
	}
	closeDataset(t, ds)
	expect(t, open(t, "mem:s", o), "v", want)
	if got := strings.Join(keysOf(t, open(t, "mem:s", o)), " "); got != "v/c/0 v/c/1 v/c/2 v/zarr.json zarr.json" {
		t.Errorf("unexpected keys %s", got)
	}
}

// TestDefineShards checks which shapes of shards are refused, and the error messages.
func TestDefineShards(t *testing.T) {
	t.Parallel()
	o := memory()
	o.Limits.MaxChunk = 1 << 20
	for _, c := range []struct {
		mode   string
		shards []int64
		kind   ncerr.Kind
		says   string
	}{
		{"v3", []int64{6}, ncerr.ErrBadChunk, "shard shape [6] is not a multiple of chunk shape [4]"},
		{"v3", []int64{0}, ncerr.ErrBadChunk, "[0]"},
		{"v3", []int64{4, 4}, ncerr.ErrBadChunk, "does not match 1 dimensions"},
		{"v3", []int64{1 << 20}, ncerr.ErrLimit, "has 4194304 bytes, but the limit is 1048576"},
		{"v3", []int64{1 << 62}, ncerr.ErrLimit, "the limit is 1048576"},
		{"zarr", []int64{8}, ncerr.ErrUnsupported, "only Zarr v3"},
		{"nczarr", []int64{8}, ncerr.ErrUnsupported, "only Zarr v3"},
	} {
		ds := create(t, "mem:"+c.mode+fmt.Sprint(c.kind, c.shards[0])+"#mode="+c.mode, o)
		x := dim(t, ds.Root(), "x", 8, false)
		_, err := ds.Root().DefineVar(t.Context(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{4}, Shards: c.shards})
		if ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, shards of %v: unexpected error %v", c.mode, c.shards, err)
		}
		if err := ds.Abort(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestCopyOfLargeShards checks the warning if a shard of the copy needs more memory than
// the copy may use. A shard that is larger than the array needs only the array.
func TestCopyOfLargeShards(t *testing.T) {
	t.Parallel()
	o := memory()
	src := create(t, "mem:src#mode=v3", o)
	y, x := dim(t, src.Root(), "y", 12, false), dim(t, src.Root(), "x", 30, false)
	v := define(t, src.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{2, 3}, Shards: []int64{12, 300}})
	write(t, v, v.All(), make([]int32, 360))
	for memory, want := range map[int64]string{1440: "", 1439: "path=/v bytes=1440 memory=1439"} {
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		dst := create(t, fmt.Sprintf("mem:%d#mode=v3", memory), o)
		if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), &dataset.CopyOptions{Memory: memory}); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, dst)
		if got := log.String(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("memory of %d: want the log %q, got %q", memory, want, got)
		}
	}
}

// TestCopyShards checks that a copy keeps shards if its format has them, and that
// CopyOptions.Shards changes or removes them. Each shard is put once.
func TestCopyShards(t *testing.T) {
	t.Parallel()
	o := inMemory()
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	src := create(t, "mem:src#mode=v3", o)
	y, x := dim(t, src.Root(), "y", 12, false), dim(t, src.Root(), "x", 30, false)
	v := define(t, src.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{2, 3}, Shards: []int64{4, 9}})
	values := make([]int32, 360)
	for i := range values {
		values[i] = int32(i)
	}
	write(t, v, v.All(), values)
	shards := func(shape ...int64) func(*dataset.Var, []int64) ([]int64, bool, error) {
		return func(*dataset.Var, []int64) ([]int64, bool, error) { return shape, true, nil }
	}
	for name, c := range map[string]struct {
		mode    string
		options dataset.CopyOptions
		shape   []int64
		puts    int64
	}{
		"kept":    {"v3", dataset.CopyOptions{Memory: 500}, []int64{4, 9}, 12},
		"changed": {"v3", dataset.CopyOptions{Shards: shards(6, 30)}, []int64{6, 30}, 2},
		"removed": {"v3", dataset.CopyOptions{Shards: shards()}, nil, 60},
		"large":   {"v3", dataset.CopyOptions{Shards: shards(6, 30), Memory: 100}, []int64{6, 30}, 2},
		"v2":      {"zarr", dataset.CopyOptions{}, nil, 0}, // keys without "c"
	} {
		counts.puts.Store(0)
		dst := create(t, "mem:"+name+"#mode="+c.mode, o)
		if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), &c.options); err != nil {
			t.Fatalf("%s: copy: %v", name, err)
		}
		closeDataset(t, dst)
		if n := counts.puts.Load(); n != c.puts {
			t.Errorf("%s: %d puts, want %d", name, n, c.puts)
		}
		got := open(t, "mem:"+name, o)
		if shape := variable(t, got, "v").Shards(); !slices.Equal(shape, c.shape) {
			t.Errorf("%s: shards of shape %v, want %v", name, shape, c.shape)
		}
		expect(t, got, "v", values)
	}
	dst := create(t, "mem:bad#mode=v3", o)
	err := dataset.Copy(t.Context(), dst.Root(), src.Root(), &dataset.CopyOptions{Chunks: func(*dataset.Var) ([]int64, error) { return []int64{3, 3}, nil }})
	if ncerr.KindOf(err) != ncerr.ErrBadChunk || !strings.Contains(err.Error(), "[4 9]") {
		t.Errorf("chunks that do not fit the shards: want ErrBadChunk, got %v", err)
	}
	if err := dst.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	closeDataset(t, src)
}

// wrappedObjects returns a store with an array in shards that are encoded as a whole, by
// gzip and crc32c.
func wrappedObjects(t *testing.T, shards ...string) map[string]string {
	t.Helper()
	const codecs = `"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}, {"name": "gzip", "configuration": {"level": 1}}, {"name": "crc32c"}]`
	objects := map[string]string{
		"zarr.json":   v3Group,
		"w/zarr.json": v3Array(`"dimension_names": ["x"], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}, ` + codecs),
	}
	for i, shard := range shards {
		var b bytes.Buffer
		z := stdgzip.NewWriter(&b)
		if _, err := z.Write([]byte(shard)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		sum := crc32.Checksum(b.Bytes(), crc32.MakeTable(crc32.Castagnoli))
		objects[fmt.Sprintf("w/c/%d", i)] = string(binary.LittleEndian.AppendUint32(b.Bytes(), sum))
	}
	return objects
}

// TestWrappedShards checks that a read requests each shard that is encoded as a whole
// once, and that such shards cannot be written.
func TestWrappedShards(t *testing.T) {
	t.Parallel()
	o := inMemory(gzip.Provider(), checksum.Provider())
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	objects := wrappedObjects(t, v3Shard("\x01\x02", "\x03\x04"), v3Shard("", "\x07\x08"))
	store(t, o, "s", objects)
	ds := update(t, "mem:s", o)
	v := variable(t, ds, "w")
	counts.gets.Store(0)
	if got := readBytes(t, v); got != "[1 2 3 4 9 9]" {
		t.Errorf("want [1 2 3 4 9 9], got %s", got)
	}
	if n := counts.gets.Load(); n != 2 {
		t.Errorf("want one request for each of 2 shards, got %d", n)
	}
	s, err := v.Stored(t.Context())
	if err != nil || s.Chunks != 2 || s.Bytes != 4 {
		t.Errorf("want 2 chunks with 4 bytes, got %+v, %v", s, err)
	}
	for _, mode := range []string{"v3", "v2"} {
		if got := readBytes(t, variable(t, copyOf(t, ds, "mem:copy-"+mode+"#mode="+mode, o, nil), "w")); got != "[1 2 3 4 9 9]" {
			t.Errorf("copy to %s: want [1 2 3 4 9 9], got %s", mode, got)
		}
	}
	if err := v.Write(t.Context(), v.All(), make([]uint8, 6)); !errors.Is(err, ncerr.ErrUnsupported) || !strings.Contains(err.Error(), "codecs after sharding_indexed") {
		t.Errorf("write: want ErrUnsupported, got %v", err)
	}
	if err := v.SetAttr(dataset.Attr{Name: "units", Type: dtype.NCChar, Value: "m"}); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	old := strings.TrimSuffix(objects["w/zarr.json"], "}")
	if got := object(t, o, "s", "w/zarr.json"); !zarr.SameJSON([]byte(got), []byte(old+`, "attributes": {"units": "m"}}`)) {
		t.Errorf("a new attribute changed more of the metadata: %s", got)
	}
	if got := readBytes(t, variable(t, open(t, "mem:s", o), "w")); got != "[1 2 3 4 9 9]" {
		t.Errorf("after the update: want [1 2 3 4 9 9], got %s", got)
	}
}

// TestCopyWrappedShards checks that a copy whose chunks are in another order than the shards
// that are encoded as a whole decodes each of these shards once, so that it never holds
// several of them.
func TestCopyWrappedShards(t *testing.T) {
	t.Parallel()
	o := inMemory(gzip.Provider(), checksum.Provider())
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	shard := v3Shard(slices.Repeat([]string{strings.Repeat("\x05", 2<<20)}, 20)...) // two exceed manifest.MaxWrapped
	objects := wrappedObjects(t, shard, shard)
	for i := range 2 {
		objects[fmt.Sprintf("w/c/0/%d", i)] = objects[fmt.Sprintf("w/c/%d", i)]
		delete(objects, fmt.Sprintf("w/c/%d", i))
	}
	objects["w/zarr.json"] = strings.NewReplacer(`"shape": [6]`, `"shape": [20, 4194304]`, `"dimension_names": ["x"]`, `"dimension_names": ["y", "x"]`,
		`"chunk_shape": [4]`, `"chunk_shape": [20, 2097152]`, `"chunk_shape": [2]`, `"chunk_shape": [1, 2097152]`).Replace(objects["w/zarr.json"])
	store(t, o, "s", objects)
	ds := open(t, "mem:s", o)
	counts.gets.Store(0)
	dst := create(t, "mem:copy#mode=v2", o)
	if err := dataset.Copy(t.Context(), dst.Root(), ds.Root(), nil); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, dst)
	if n := counts.gets.Load(); n != 2 {
		t.Errorf("want one request for each of 2 shards, got %d", n)
	}
	at := chunk.Selection{Start: []int64{19, 2<<20 - 1}, Count: []int64{1, 2}}
	if got, err := dataset.Get[uint8](t.Context(), variable(t, open(t, "mem:copy", o), "w"), at); err != nil || !slices.Equal(got, []uint8{5, 5}) {
		t.Errorf("want [5 5], got %v, %v", got, err)
	}
}

// TestWrappedShardsDamaged checks the errors for damaged shards that are encoded as a
// whole, and for codecs that are missing or invalid.
func TestWrappedShardsDamaged(t *testing.T) {
	t.Parallel()
	good := wrappedObjects(t, v3Shard("\x01\x02", "\x03\x04"))
	huge := wrappedObjects(t, strings.Repeat("\x00", 10<<20))
	for name, c := range map[string]struct {
		objects  map[string]string
		key, new string
		filters  []codecdriver.Provider
		kind     ncerr.Kind
		says     string
	}{
		"checksum":      {good, "w/c/0", "\x00" + good["w/c/0"][1:], []codecdriver.Provider{gzip.Provider(), checksum.Provider()}, ncerr.ErrCorrupt, "/w/c/0"},
		"empty":         {good, "w/c/0", "", []codecdriver.Provider{gzip.Provider(), checksum.Provider()}, ncerr.ErrCorrupt, "/w/c/0"},
		"decoded size":  {huge, "w/c/0", huge["w/c/0"], []codecdriver.Provider{gzip.Provider(), checksum.Provider()}, ncerr.ErrCorrupt, "/w/c/0"},
		"missing codec": {good, "w/c/0", good["w/c/0"], []codecdriver.Provider{gzip.Provider()}, ncerr.ErrNoFilter, `"crc32c"`},
		"parameters":    {good, "w/zarr.json", strings.Replace(good["w/zarr.json"], `"level": 1`, `"level": "x"`, 1), []codecdriver.Provider{gzip.Provider(), checksum.Provider()}, ncerr.ErrMetadata, `"/w/zarr.json"`},
	} {
		o := inMemory(c.filters...)
		o.Limits.MaxChunk = 1 << 20
		objects := maps.Clone(c.objects)
		objects[c.key] = c.new
		store(t, o, "s", objects)
		_, err := dataset.Get[uint8](t.Context(), variable(t, open(t, "mem:s", o), "w"), chunk.All([]int64{6}))
		if ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: want %v with %q, got %v", name, c.kind, c.says, err)
		}
	}
}

// TestWrappedBigShards checks that a read decodes each shard that is encoded as a whole
// once, even if the shards are too large to be kept and rows of the selection cross
// several of them.
func TestWrappedBigShards(t *testing.T) {
	t.Parallel()
	const side, unit, gap = 16, 8, 36 << 20 // two shards with their gaps are too large to be kept
	o := inMemory(gzip.Provider())
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	objects := map[string]string{"zarr.json": v3Group, "w/zarr.json": `{"zarr_format": 3, "node_type": "array", "shape": [16, 16], "data_type": "uint8", "fill_value": 9,
		"chunk_key_encoding": {"name": "default"}, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 8]}}, "codecs": [
		{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}, {"name": "gzip", "configuration": {"level": 1}}]}`}
	want, parts := make([]uint8, side*side), [4][]string{}
	for i := range want {
		want[i] = uint8(i)
		k := i/side/unit*2 + i%side/unit
		parts[k] = append(parts[k], string([]byte{uint8(i)}))
	}
	for k, part := range parts {
		var b bytes.Buffer
		z := stdgzip.NewWriter(&b)
		shard := v3Shard(part...)
		if _, err := z.Write(append(append([]byte(shard[:unit*unit]), make([]byte, gap)...), shard[unit*unit:]...)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		objects[fmt.Sprintf("w/c/%d/%d", k/2, k%2)] = b.String()
	}
	store(t, o, "s", objects)
	v := variable(t, open(t, "mem:s", o), "w")
	counts.gets.Store(0)
	got, err := dataset.Get[uint8](t.Context(), v, v.All())
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("want %d, got %d, %v", want, got, err)
	}
	if n := counts.gets.Load(); n != 4 {
		t.Errorf("want one request for each of 4 shards, got %d", n)
	}
}

// unversioned is a Map whose objects have no version.
type unversioned struct{ driver.Map }

func (m unversioned) Capabilities() driver.Capabilities {
	c := m.Map.Capabilities()
	c.IfMatch = false
	return c
}

func (m unversioned) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	data, info, err := m.Map.Get(ctx, key, o, alloc)
	info.Version = ""
	return data, info, err
}

// TestCachedChunksInShards checks that a read of a cached chunk does not read the index
// of its shard, even if other chunks of the batch are not cached.
func TestCachedChunksInShards(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Workers = 1 // so that one batch contains all chunks of a read
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{unversioned{m}, counts} }
	store(t, o, "s", map[string]string{
		"zarr.json":   v3Group,
		"b/zarr.json": v3Array(`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}]`),
		"b/c/0":       v3Shard("\x01\x02", "\x03\x04"),
		"b/c/1":       v3Shard("\x05\x06", ""),
	})
	v := variable(t, open(t, "mem:s", o), "b")
	for _, c := range []struct {
		sel  chunk.Selection
		want string
		gets int64
	}{
		{chunk.Selection{Start: []int64{1}, Count: []int64{1}}, "[2]", 2},
		{chunk.Selection{Start: []int64{1}, Count: []int64{2}, Stride: []int64{4}}, "[2 6]", 2},
	} {
		counts.gets.Store(0)
		got, err := dataset.Get[uint8](t.Context(), v, c.sel)
		if err != nil || fmt.Sprintf("%d", got) != c.want || counts.gets.Load() != c.gets {
			t.Errorf("%+v: want %s with %d requests, got %d with %d, %v", c.sel, c.want, c.gets, got, counts.gets.Load(), err)
		}
	}
}

// TestLargeEncodedChunks writes large chunks that codecs make small and others that they
// do not, in any order, whole and with the chunks of a shard.
func TestLargeEncodedChunks(t *testing.T) {
	t.Parallel()
	const n = 17 << 20
	small, large := make([]uint8, n), make([]uint8, n)
	r := rand.New(rand.NewPCG(testseed.New(t), 1))
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(large[i:], r.Uint64())
	}
	for name, shards := range map[string][]int64{"chunks": nil, "shards": {3 * n}} {
		o := inMemory(filters.Provider())
		ds := create(t, "mem:large"+name+"#mode=zarr,v3", o)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{
			Type: dtype.NCUByte, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 3*n, false)}, Chunks: []int64{n}, Shards: shards,
			Codecs: []zarr.CodecSpec{{ID: "zstd", Params: []byte(`{"id": "zstd", "level": 1}`)}},
		})
		want := slices.Concat(small, large, small)
		write(t, v, v.All(), want)
		write(t, v, slab(0, n), small)
		closeDataset(t, ds)
		got, err := dataset.Get[uint8](t.Context(), variable(t, open(t, "mem:large"+name, o), "v"), slab(0, 3*n))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the values differ, or %v", name, err)
		}
	}
}
