package dataset_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/astype"
)

// requests counts the gets and puts of chunks, and can fail puts.
type requests struct {
	driver.Map
	gets, puts *atomic.Int64
	fail       func(key string) error // if nil, all puts succeed
}

func isChunk(key string) bool {
	base := path.Base(key)
	return base != "" && strings.Trim(base, "0123456789.") == ""
}

func (r requests) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if isChunk(key) {
		r.gets.Add(1)
	}
	return r.Map.Get(ctx, key, o, alloc)
}

func (r requests) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if isChunk(key) {
		r.puts.Add(1)
		if r.fail != nil {
			if err := r.fail(key); err != nil {
				return driver.Info{}, err
			}
		}
	}
	return r.Map.Put(ctx, key, body, o)
}

// countRequests makes stores that are opened with o count the gets and puts of chunks. A
// put fails if fail returns an error for its key.
func countRequests(o *dataset.Options, fail func(string) error) (gets, puts *atomic.Int64) {
	gets, puts = new(atomic.Int64), new(atomic.Int64)
	o.Wrap = func(m driver.Map) driver.Map { return requests{m, gets, puts, fail} }
	return gets, puts
}

func rows(first, n, columns int64) chunk.Selection {
	return chunk.Selection{Start: []int64{first, 0}, Count: []int64{n, columns}}
}

// numbered returns n consecutive values, starting with first.
func numbered(first, n int64) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(first) + int32(i)
	}
	return s
}

func expectNumbered(t *testing.T, v *dataset.Var) {
	t.Helper()
	got, err := dataset.Get[int32](t.Context(), v, v.All())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, numbered(0, chunk.Product(v.Shape()))) {
		t.Errorf("values differ: %v", got)
	}
}

// Writing row by row stores each chunk once and reads none if a row of chunks fits in
// the buffer, whether the rows are new or not.
func TestRowsStoreChunksOnce(t *testing.T) {
	t.Parallel()
	const size = 16*16*5 + 256 + 2*40 // size of a chunk in the buffer, with overhead
	for _, c := range []struct {
		name       string
		grow       bool
		buffer     int64
		gets, puts int64
	}{
		{"default", false, 0, 0, 20},
		{"growing", true, 0, 0, 20},
		{"just enough", false, 4 * size, 0, 20},
		{"too small", false, 4*size - 1, 4 * 70, 4 * 70},
		{"none", false, -1, 4 * 70, 4 * 70},
	} {
		o := inMemory()
		o.Workers, o.WriteBuffer = 1, c.buffer
		gets, puts := countRequests(o, nil)
		ds := create(t, "mem:rows", o)
		length := int64(70)
		if c.grow {
			length = 0
		}
		v := define(t, ds.Root(), "v", &dataset.VarSpec{
			Type: dtype.NCInt, Chunks: []int64{16, 16},
			Dims: []*dataset.Dim{dim(t, ds.Root(), "y", length, c.grow), dim(t, ds.Root(), "x", 61, false)},
		})
		for y := range int64(70) {
			write(t, v, rows(y, 1, 61), numbered(y*61, 61))
		}
		if n := puts.Load(); c.grow && n != 16 {
			t.Errorf("%s: %d puts before Close, want those of the 16 full chunks", c.name, n)
		}
		closeDataset(t, ds)
		if gets.Load() != c.gets || puts.Load() != c.puts {
			t.Errorf("%s: %d gets and %d puts, want %d and %d", c.name, gets.Load(), puts.Load(), c.gets, c.puts)
		}
		expectNumbered(t, variable(t, open(t, "mem:rows", o), "v"))
	}
}

// Buffered parts of an existing chunk are merged with the rest of the chunk once.
func TestBufferedPartsAreMerged(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	ds, _ := grid(t, "mem:merge", o)
	closeDataset(t, ds)
	gets, puts := countRequests(o, nil)
	ds = update(t, "mem:merge", o)
	v := variable(t, ds, "v")
	want := numbered(0, 64*64)
	for y := int64(3); y < 61; y += 7 {
		row := numbered(-y*1000, 64)
		copy(want[y*64:], row)
		write(t, v, rowOf(y), row)
	}
	if gets.Load() != 0 || puts.Load() != 0 {
		t.Errorf("%d gets and %d puts before a read, want none", gets.Load(), puts.Load())
	}
	got, err := dataset.Get[int32](t.Context(), v, v.All())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("values differ: %v", err)
	}
	if gets.Load() != 32 || puts.Load() != 16 {
		t.Errorf("%d gets and %d puts, want 32 and 16", gets.Load(), puts.Load())
	}
	closeDataset(t, ds)
	if puts.Load() != 16 {
		t.Errorf("Close stored %d chunks that were stored before", puts.Load()-16)
	}
}

// A chunk whose put fails stays in the buffer. Flush and reads of the chunk return an
// error with its key, other reads and writes succeed, and the next Flush stores it. The
// metadata is not written before that.
func TestBufferedChunkIsKeptAfterFailure(t *testing.T) {
	t.Parallel()
	o := memory()
	var broken atomic.Bool
	countRequests(o, func(key string) error {
		if broken.Load() && key == "v/1.0" {
			return ncerr.New(ncerr.ErrIO, "", "", errors.New("the disk is full"))
		}
		return nil
	})
	ds := create(t, "mem:fail", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{
		Type: dtype.NCInt, Chunks: []int64{4, 3},
		Dims: []*dataset.Dim{dim(t, ds.Root(), "y", 0, true), dim(t, ds.Root(), "x", 6, false)},
	})
	broken.Store(true)
	check := func(what string, err error) {
		t.Helper()
		if ncerr.KindOf(err) != ncerr.ErrIO || !strings.Contains(err.Error(), "v/1.0") {
			t.Errorf("%s: want an error about v/1.0, got %v", what, err)
		}
	}
	for y := range int64(10) {
		write(t, v, rows(y, 1, 6), numbered(y*6, 6))
	}
	_, err := dataset.Get[int32](t.Context(), v, rows(3, 2, 6))
	check("read", err)
	if got, err := dataset.Get[int32](t.Context(), v, rows(0, 4, 6)); err != nil || !slices.Equal(got, numbered(0, 24)) {
		t.Errorf("other chunks: got %v, %v", got, err)
	}
	for range 2 {
		check("Flush", ds.Flush(t.Context()))
	}
	if _, err := openURL(t.Context(), "mem:fail", o); err == nil {
		t.Error("the dataset is visible after a failed Flush")
	}
	broken.Store(false)
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectNumbered(t, v)
	closeDataset(t, ds)
	expectNumbered(t, variable(t, open(t, "mem:fail", o), "v"))
}

// A chunk that can never be stored, because its other elements are damaged, affects no
// other chunk, variable or attribute. Each Flush returns the error of this chunk.
func TestDamagedChunkIsAlone(t *testing.T) {
	t.Parallel()
	for name, buffer := range map[string]int64{"all fit": 0, "three fit": 3 * (4*5 + 256 + 32)} {
		o := memory(invert{})
		o.WriteBuffer = buffer
		ds := create(t, "mem:damaged "+name, o)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 80, false)}, Codecs: []zarr.CodecSpec{{ID: "invert"}}})
		write(t, v, v.All(), numbered(0, 80))
		w := define(t, ds.Root(), "w", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
		write(t, w, slab(0, 1), []int32{0})
		closeDataset(t, ds)
		ds = update(t, "mem:damaged "+name, o)
		if _, err := ds.Map().Put(t.Context(), "v/3", driver.Bytes([]byte("x")), nil); err != nil {
			t.Fatal(err)
		}
		v, w = variable(t, ds, "v"), variable(t, ds, "w")
		for i := range int64(20) {
			write(t, v, slab(4*i+1, 1), []int32{-1})
			write(t, w, slab(i+1, 1), []int32{int32(i) + 1})
		}
		setText(t, ds.Root().SetAttr, "title", "new")
		if got, err := dataset.Get[int32](t.Context(), v, slab(4, 4)); err != nil || !slices.Equal(got, []int32{4, -1, 6, 7}) {
			t.Errorf("%s: another chunk: got %v, %v", name, got, err)
		}
		for _, f := range []func(context.Context) error{ds.Flush, ds.Flush, ds.Close} {
			if err := f(t.Context()); !errors.Is(err, ncerr.ErrCorrupt) || !strings.Contains(err.Error(), `"/v/3"`) {
				t.Errorf("%s: want ErrCorrupt for v/3, got %v", name, err)
			}
		}
		ds = update(t, "mem:damaged "+name, o)
		_ = attr(t, ds.Root().Attrs(), "title")
		expectNumbered(t, variable(t, ds, "w"))
		write(t, variable(t, ds, "w"), slab(21, 1), []int32{21}) // the closed writer has left no mark that prevents this
		for i := range int64(20) {
			got, err := dataset.Get[int32](t.Context(), variable(t, ds, "v"), slab(4*i, 4))
			if i != 3 && (err != nil || !slices.Equal(got, []int32{int32(4 * i), -1, int32(4*i) + 2, int32(4*i) + 3})) {
				t.Errorf("%s: chunk %d: got %v, %v", name, i, got, err)
			}
		}
		closeDataset(t, ds)
	}
}

// A value that a codec refuses does not affect other values of the same chunk.
func TestRefusedValueIsAlone(t *testing.T) {
	t.Parallel()
	o := memory(astype.Provider())
	ds := create(t, "mem:refused", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{
		Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 4, false)}, Fill: []int32{0},
		Codecs: []zarr.CodecSpec{{ID: "astype", Params: []byte(`{"encode_dtype": "|i1", "decode_dtype": "<i4"}`)}},
	})
	for i, value := range []int32{1, 3000, 3, 4} {
		err := v.Write(t.Context(), slab(int64(i), 1), []int32{value})
		if (err != nil) != (value > 127) || err != nil && !strings.Contains(err.Error(), `"/v/0"`) {
			t.Errorf("%d: %v", value, err)
		}
	}
	closeDataset(t, ds)
	expect(t, open(t, "mem:refused", o), "v", []int32{1, 0, 3, 4})
}

// The error of a damaged chunk does not replace an error of the store. If the store
// fails, a length whose elements are not stored is not published, and the growth mark
// stays.
func TestStoreErrorIsNotHidden(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"full": ncerr.ErrIO, "refused": ncerr.ErrPermission} {
		o := inMemory(invert{})
		o.Workers = 1
		var broken atomic.Bool
		countRequests(o, func(key string) error {
			if broken.Load() && key == "w/0" {
				return fault
			}
			return nil
		})
		url := "mem:hidden " + name
		ds := create(t, url, o)
		write(t, define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 8, false)}, Codecs: []zarr.CodecSpec{{ID: "invert"}}}), slab(0, 8), numbered(0, 8))
		write(t, define(t, ds.Root(), "w", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}}), slab(0, 1), []int32{7})
		closeDataset(t, ds)
		ds = update(t, url, o)
		if _, err := ds.Map().Put(t.Context(), "v/0", driver.Bytes([]byte("x")), nil); err != nil {
			t.Fatal(err)
		}
		write(t, variable(t, ds, "v"), slab(1, 1), []int32{-1})
		write(t, variable(t, ds, "w"), slab(1, 1), []int32{8})
		broken.Store(true)
		if err := ds.Close(t.Context()); !errors.Is(err, fault) {
			t.Errorf("%s: want %v, got %v", name, fault, err)
		}
		broken.Store(false)
		ds = open(t, url, o)
		expect(t, ds, "w", []int32{7})
		if m, err := growthMark(t, ds); m == nil || err != nil {
			t.Errorf("%s: the growth mark does not exist: %v", name, err)
		}
	}
}

// picky is the codec invert, but refuses to encode chunks that contain the given element.
type picky struct {
	invert
	element int32
}

type refusal struct {
	codecdriver.Codec
	element []byte
}

func (r picky) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	c, out, err := r.invert.Open(id, params, in)
	return refusal{c, binary.NativeEndian.AppendUint32(nil, uint32(r.element))}, out, err
}

func (r refusal) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if bytes.Contains(src, r.element) {
		return 0, errors.New("this chunk cannot be encoded")
	}
	return r.Codec.Encode(ctx, dst, src)
}

// A chunk that its codec refuses does not prevent others from being stored, and metadata
// from being written.
func TestRefusedChunkIsAlone(t *testing.T) {
	t.Parallel()
	o := inMemory(picky{element: 0x77777777})
	closeDataset(t, create(t, "mem:refusing", o))
	ds := update(t, "mem:refusing", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 8, false)}, Codecs: []zarr.CodecSpec{{ID: "invert"}}, Fill: []int32{0}})
	w := define(t, ds.Root(), "w", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	write(t, v, slab(1, 1), []int32{0x77777777})
	write(t, v, slab(5, 1), []int32{1})
	write(t, w, slab(0, 1), []int32{1})
	for _, f := range []func(context.Context) error{ds.Flush, ds.Close} {
		if err := f(t.Context()); ncerr.KindOf(err) != ncerr.ErrFilter || !strings.Contains(err.Error(), `"/v/0"`) {
			t.Errorf("want ErrFilter for v/0, got %v", err)
		}
	}
	ds = open(t, "mem:refusing", o)
	expect(t, ds, "v", []int32{0, 0, 0, 0, 0, 1, 0, 0})
	expect(t, ds, "w", []int32{1})
}

// After a canceled Flush, and after a write during an outage, the buffer works as before.
// A write during an outage tries to store only a few chunks.
func TestBufferAfterOutage(t *testing.T) {
	t.Parallel()
	for _, canceled := range []bool{true, false} {
		o := inMemory()
		o.Workers, o.WriteBuffer = 1, 50*(4*5+256+40)
		var broken atomic.Bool
		gets, puts := countRequests(o, func(string) error {
			if broken.Load() {
				return ncerr.ErrIO
			}
			return nil
		})
		ds := create(t, "mem:outage", o)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 2000, false)}})
		for i := range int64(50) {
			write(t, v, slab(4*i, 1), []int32{1})
		}
		if canceled {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := ds.Flush(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("want Canceled, got %v", err)
			}
		} else {
			broken.Store(true)
			if err := v.Write(t.Context(), slab(4*60, 1), []int32{1}); err == nil || puts.Load() > 2 {
				t.Errorf("a write during an outage: %v after %d puts", err, puts.Load())
			}
			broken.Store(false)
		}
		gets.Store(0)
		puts.Store(0)
		for i := int64(400); i < 2000; i++ {
			write(t, v, slab(i, 1), []int32{1})
		}
		if g, p := gets.Load(), puts.Load(); g > 1 || p > 401 {
			t.Errorf("canceled %t: %d gets and %d puts of 400 chunks", canceled, g, p)
		}
		closeDataset(t, ds)
	}
}

// A panic of a driver leaves the buffer usable. Each call stores one chunk, because a panic
// in another goroutine would end the program.
func TestBufferAfterPanic(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]func(ctx context.Context, ds *dataset.Dataset, v *dataset.Var) error{
		"read": func(ctx context.Context, _ *dataset.Dataset, v *dataset.Var) error {
			_, err := dataset.Get[int32](ctx, v, slab(0, 1))
			return err
		},
		"flush": func(ctx context.Context, ds *dataset.Dataset, _ *dataset.Var) error { return ds.Flush(ctx) },
		"evict": func(ctx context.Context, _ *dataset.Dataset, v *dataset.Var) error {
			return v.Write(ctx, slab(8, 1), []int32{1})
		},
		"whole": func(ctx context.Context, _ *dataset.Dataset, v *dataset.Var) error {
			return v.Write(ctx, slab(0, 4), []int32{1, 2, 3, 4})
		},
		"complete": func(ctx context.Context, _ *dataset.Dataset, v *dataset.Var) error {
			return v.Write(ctx, slab(2, 2), []int32{3, 4})
		},
	} {
		o := inMemory()
		o.Workers, o.WriteBuffer = 1, 2*(4*5+256+40)
		var broken atomic.Bool
		countRequests(o, func(string) error {
			if broken.Load() {
				panic("a bug of the driver")
			}
			return nil
		})
		ds := create(t, "mem:panic "+what, o)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 40, false)}, Fill: []int32{0}})
		write(t, v, slab(0, 2), []int32{1, 2})
		if what != "flush" {
			write(t, v, slab(4, 2), []int32{1, 2})
		}
		broken.Store(true)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the driver was not called", what)
				}
			}()
			_ = f(t.Context(), ds, v)
		}()
		broken.Store(false)
		if what == "flush" {
			write(t, v, slab(4, 2), []int32{1, 2})
		}
		write(t, v, slab(20, 1), []int32{1})
		closeDataset(t, ds)
		got, err := dataset.Get[int32](t.Context(), variable(t, open(t, "mem:panic "+what, o), "v"), slab(0, 6))
		if err != nil || got[0] != 1 || got[1] != 2 || got[4] != 1 || got[5] != 2 {
			t.Errorf("%s: got %v, %v", what, got, err)
		}
	}
}

// A chunk or shard at the end of a dimension that another process has extended meanwhile
// keeps the elements of both processes, even if the first process writes all elements
// that it knows of.
func TestWritesKeepForeignAppends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode   string
		buffer int64
		shards []int64
	}{"buffered": {}, "unbuffered": {buffer: -1}, "sharded": {mode: "#mode=nczarr,v3", shards: []int64{8}}} {
		o := inMemory()
		o.WriteBuffer = c.buffer
		url := "mem:append " + name + c.mode
		ds := create(t, url, o)
		g, err := ds.Root().DefineGroup("g") // the root's document does not change
		if err != nil {
			t.Fatal(err)
		}
		v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Shards: c.shards, Dims: []*dataset.Dim{dim(t, g, "t", 0, true)}})
		write(t, v, slab(0, 3), []int32{0, 1, 2})
		closeDataset(t, ds)
		a, b := update(t, url, o), update(t, url, o)
		write(t, variable(t, a, "g/v"), slab(0, 1), []int32{10})
		write(t, variable(t, b, "g/v"), slab(3, 4), []int32{3, 4, 5, 6})
		closeDataset(t, b)
		write(t, variable(t, a, "g/v"), slab(0, 3), []int32{10, 11, 12})
		closeDataset(t, a)
		got, err := dataset.Get[int32](t.Context(), variable(t, open(t, url, o), "g/v"), slab(0, 7))
		if err != nil || !slices.Equal(got, []int32{10, 11, 12, 3, 4, 5, 6}) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// damage creates a dataset with variables v and w of the given length, damages chunk 0 of v,
// writes element 1 of v, appends elements to w, closes the dataset, and opens it again.
func damage(t *testing.T, url string, length, appended int64) *dataset.Dataset {
	t.Helper()
	o := inMemory(invert{})
	ds := create(t, url, o)
	along := dim(t, ds.Root(), "t", 0, true)
	for _, name := range []string{"v", "w"} {
		v := define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{along}, Codecs: []zarr.CodecSpec{{ID: "invert"}}})
		write(t, v, slab(0, length), numbered(0, length))
	}
	closeDataset(t, ds)
	ds = update(t, url, o)
	if _, err := ds.Map().Put(t.Context(), "v/0", driver.Bytes([]byte("x")), nil); err != nil {
		t.Fatal(err)
	}
	write(t, variable(t, ds, "w"), slab(length, appended), numbered(length, appended))
	write(t, variable(t, ds, "v"), slab(1, 1), []int32{-1})
	if err := ds.Close(t.Context()); !errors.Is(err, ncerr.ErrCorrupt) || !strings.Contains(err.Error(), `"/v/0"`) {
		t.Errorf("Close: want ErrCorrupt for v/0, got %v", err)
	}
	return open(t, url, o)
}

// A new length is not stored if an element between the old and the new length cannot be
// stored, no matter to which variable the element belongs. The growth mark then stays.
// The new length is stored if all elements that cannot be stored are within the old
// length.
func TestLengthOfUnstoredElement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ length, appended, want int64 }{{1, 1, 1}, {1, 10, 1}, {2, 1, 3}, {8, 4, 12}} {
		ds := damage(t, fmt.Sprintf("mem:unstored%d-%d", c.length, c.appended), c.length, c.appended)
		if n := variable(t, ds, "w").Shape()[0]; n != c.want {
			t.Errorf("length %d after a Close that appended %d to %d, want %d", n, c.appended, c.length, c.want)
		}
		if m, err := growthMark(t, ds); err != nil || (m != nil) != (c.want == c.length) {
			t.Errorf("%+v: growth mark %v, %v", c, m, err)
		}
	}
}

// endWhileWaiting is a context that ends as soon as a call waits for its end.
type endWhileWaiting struct {
	context.Context
	end context.CancelFunc
}

func (c endWhileWaiting) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}

// A write that waits for a chunk ends with its context, and then adds none of its values.
func TestWaitingWriteEnds(t *testing.T) {
	t.Parallel()
	o := inMemory()
	put, proceed := make(chan bool), make(chan bool)
	countRequests(o, func(string) error {
		put <- true
		<-proceed
		return nil
	})
	ds := create(t, "mem:waiting", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 8, false)}, Fill: []int32{-1}})
	write(t, v, slab(2, 1), []int32{20})
	write(t, v, slab(5, 1), []int32{50})
	var g errgroup.Group
	g.Go(func() error { return v.Read(t.Context(), slab(5, 1), make([]int32, 1)) })
	<-put
	ctx, cancel := context.WithCancel(t.Context())
	if err := v.Write(endWhileWaiting{ctx, cancel}, slab(2, 4), numbered(100, 4)); !errors.Is(err, context.Canceled) {
		t.Errorf("want Canceled, got %v", err)
	}
	proceed <- true
	g.Go(func() error { return ds.Close(t.Context()) })
	<-put
	proceed <- true
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	expect(t, open(t, "mem:waiting", o), "v", []int32{-1, -1, 20, -1, -1, 50, -1, -1})
}

// A writer whose growth mark was cleared does not store what it has buffered.
func TestClearedWriterStoresNothing(t *testing.T) {
	t.Parallel()
	o := inMemory()
	ds := create(t, "mem:cleared", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	write(t, v, slab(0, 1), []int32{1})
	closeDataset(t, ds)
	first, second := update(t, "mem:cleared", o), update(t, "mem:cleared", o)
	write(t, variable(t, first, "v"), slab(1, 2), []int32{-2, -3})
	if err := clearGrowth(t, second); err != nil {
		t.Fatal(err)
	}
	write(t, variable(t, second, "v"), slab(1, 2), []int32{2, 3})
	closeDataset(t, second)
	if err := first.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	expect(t, open(t, "mem:cleared", o), "v", []int32{1, 2, 3})
}

// If slightly more chunks than fit in the buffer are written to in turn, most of them
// still stay in the buffer between two writes.
func TestBufferSlightlyTooSmall(t *testing.T) {
	t.Parallel()
	const variables, steps = 30, 40
	o := inMemory()
	o.Workers, o.WriteBuffer = 1, variables*9/10*(steps*5+256+40)
	gets, puts := countRequests(o, nil)
	ds := create(t, "mem:turns", o)
	vars := make([]*dataset.Var, variables)
	for i := range vars {
		name := fmt.Sprint("v", i)
		vars[i] = define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{steps}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x"+name, steps, false)}})
	}
	for step := range int64(steps) {
		for _, v := range vars {
			write(t, v, slab(step, 1), numbered(step, 1))
		}
	}
	closeDataset(t, ds)
	if n := puts.Load(); n > variables*steps/2 {
		t.Errorf("%d puts, %d gets for %d writes", n, gets.Load(), variables*steps)
	}
	ds = open(t, "mem:turns", o)
	for _, v := range ds.Root().Vars() {
		expectNumbered(t, v)
	}
}

// A write with a canceled context, and one after Close, adds nothing to the buffer.
func TestBufferRefuses(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	ds, v := grid(t, "mem:refuses", o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		if err := v.Write(ctx, rowOf(3), numbered(0, 64)); !errors.Is(err, context.Canceled) {
			t.Errorf("want Canceled, got %v", err)
		}
	}
	closeDataset(t, ds)
	if err := v.Write(t.Context(), rowOf(3), numbered(0, 64)); err == nil {
		t.Error("a write after Close succeeds")
	}
	expectNumbered(t, variable(t, open(t, "mem:refuses", o), "v"))
}

// A write of a whole chunk replaces the buffered part of it, unless it fails.
func TestWholeChunkReplacesBufferedPart(t *testing.T) {
	t.Parallel()
	o := memory()
	var broken atomic.Bool
	countRequests(o, func(string) error {
		if broken.Load() {
			return ncerr.New(ncerr.ErrIO, "put", "", errors.New("the disk is full"))
		}
		return nil
	})
	ds := create(t, "mem:whole", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 8, false)}})
	part := chunk.Selection{Start: []int64{1}, Count: []int64{2}}
	write(t, v, part, []int32{11, 12})
	broken.Store(true)
	if err := v.Write(t.Context(), v.All(), numbered(0, 8)); err == nil {
		t.Error("a write that cannot store its chunks succeeds")
	}
	broken.Store(false)
	if got, err := dataset.Get[int32](t.Context(), v, part); err != nil || !slices.Equal(got, []int32{11, 12}) {
		t.Errorf("want [11 12], got %v, %v", got, err)
	}
	write(t, v, part, []int32{11, 12})
	write(t, v, v.All(), numbered(0, 8))
	closeDataset(t, ds)
	expectNumbered(t, variable(t, open(t, "mem:whole", o), "v"))
}

// Abort discards the buffered values.
func TestAbortDiscardsBuffer(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	ds, _ := grid(t, "mem:abort", o)
	closeDataset(t, ds)
	ds = update(t, "mem:abort", o)
	write(t, variable(t, ds, "v"), rowOf(5), numbered(7, 64))
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectNumbered(t, variable(t, open(t, "mem:abort", o), "v"))
}

// A new length becomes visible only together with the chunks of its elements.
func TestLengthFollowsBufferedChunks(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:length", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Chunks: []int64{4}, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}})
	for i := range int64(11) {
		write(t, v, chunk.Selection{Start: []int64{i}, Count: []int64{1}}, numbered(i, 1))
		if i%3 != 0 {
			continue
		}
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := open(t, "mem:length", o)
		if n := variable(t, other, "v").Shape()[0]; n != i+1 {
			t.Errorf("after a Flush of %d elements the length is %d", i+1, n)
		}
		expectNumbered(t, variable(t, other, "v"))
	}
	closeDataset(t, ds)
	expectNumbered(t, variable(t, open(t, "mem:length", o), "v"))
}

// TestBufferAgainstModel writes random boxes of several variables that share an unlimited
// dimension, with a small buffer, and compares what is read with a model.
func TestBufferAgainstModel(t *testing.T) {
	t.Parallel()
	o, number := inMemory(invert{}), 0
	rapidseed.Check(t, func(rt *rapid.T) {
		o := *o
		o.WriteBuffer = rapid.SampledFrom([]int64{0, 300, 700, 1500}).Draw(rt, "buffer")
		o.Workers = rapid.IntRange(0, 3).Draw(rt, "workers")
		number++
		url := fmt.Sprintf("mem:model%d", number) + rapid.SampledFrom([]string{"#mode=nczarr", "#mode=nczarr,v3"}).Draw(rt, "mode")
		ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: o})
		if err != nil {
			rt.Fatal(err)
		}
		time, x := dim(t, ds.Root(), "t", 0, true), dim(t, ds.Root(), "x", 7, false)
		type model struct {
			*dataset.Var
			chunks []int64
			values map[[2]int64]int16
		}
		models := make([]*model, 3)
		for i := range models {
			chunks := []int64{rapid.Int64Range(1, 5).Draw(rt, "rows"), rapid.Int64Range(1, 9).Draw(rt, "columns")}
			v := define(t, ds.Root(), fmt.Sprintf("v%d", i), &dataset.VarSpec{Type: dtype.NCShort, Dims: []*dataset.Dim{time, x}, Chunks: chunks, Fill: []int16{-1}})
			models[i] = &model{v, chunks, map[[2]int64]int16{}}
		}
		verify := func(m *model, v *dataset.Var) {
			got, err := dataset.Get[int16](t.Context(), v, v.All())
			if err != nil {
				rt.Fatal(err)
			}
			for i, value := range got {
				want, ok := m.values[[2]int64{int64(i) / 7, int64(i) % 7}]
				if !ok {
					want = -1
				}
				if value != want {
					rt.Fatalf("%s with chunks %v, element %d: got %d, want %d", v.Path(), m.chunks, i, value, want)
				}
			}
		}
		for n := range rapid.IntRange(1, 40).Draw(rt, "operations") {
			m := models[rapid.IntRange(0, 2).Draw(rt, "variable")]
			switch rapid.IntRange(0, 9).Draw(rt, "operation") {
			case 0:
				verify(m, m.Var)
			case 1:
				if err := ds.Flush(t.Context()); err != nil {
					rt.Fatal(err)
				}
			default:
				sel := chunk.Selection{
					Start:  []int64{rapid.Int64Range(0, 12).Draw(rt, "y"), rapid.Int64Range(0, 6).Draw(rt, "x")},
					Stride: []int64{rapid.Int64Range(1, 3).Draw(rt, "dy"), rapid.Int64Range(1, 3).Draw(rt, "dx")},
				}
				sel.Count = []int64{rapid.Int64Range(1, 6).Draw(rt, "ny"), 1 + rapid.Int64Range(0, (6-sel.Start[1])/sel.Stride[1]).Draw(rt, "nx")}
				values := make([]int16, sel.Len())
				for i := range values {
					values[i] = int16(100*n + i)
					y, x := int64(i)/sel.Count[1], int64(i)%sel.Count[1]
					m.values[[2]int64{sel.Start[0] + y*sel.Stride[0], sel.Start[1] + x*sel.Stride[1]}] = values[i]
				}
				if err := m.Write(t.Context(), sel, values); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if err := ds.Close(t.Context()); err != nil {
			rt.Fatal(err)
		}
		again, err := openURL(t.Context(), url, &o)
		if err != nil {
			rt.Fatal(err)
		}
		for _, m := range models {
			v, err := again.Root().Var(m.Name())
			if err != nil {
				rt.Fatal(err)
			}
			verify(m, v)
		}
		if err := again.Close(t.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestBufferConcurrently writes rows of the same chunks from many goroutines, which also
// read and flush. Each goroutine sees its own writes.
func TestBufferConcurrently(t *testing.T) {
	t.Parallel()
	o := inMemory(invert{})
	o.WriteBuffer = 5 * (16*16*5 + 256 + 2*40)
	ds, v := grid(t, "mem:concurrent", o)
	var wg sync.WaitGroup
	for g := range int64(8) {
		wg.Go(func() {
			for round := range int64(6) {
				for y := g; y < 64; y += 8 {
					if err := v.Write(t.Context(), rowOf(y), numbered(y*64+round, 64)); err != nil {
						t.Error(err)
					}
				}
				switch got, err := dataset.Get[int32](t.Context(), v, rowOf(g)); {
				case err != nil:
					t.Error(err)
				case !slices.Equal(got, numbered(g*64+round, 64)):
					t.Errorf("row %d, round %d: got %v", g, round, got)
				}
				if g%3 == 0 {
					if err := ds.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	closeDataset(t, ds)
	got, err := dataset.Get[int32](t.Context(), variable(t, open(t, "mem:concurrent", o), "v"), v.All())
	if err != nil {
		t.Fatal(err)
	}
	for y := range int64(64) {
		if !slices.Equal(got[y*64:y*64+64], numbered(y*64+5, 64)) {
			t.Errorf("row %d: got %v", y, got[y*64:y*64+64])
		}
	}
}
