package dataset_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
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
	"github.com/seed-695719ce/nczarr/filters/gzip"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// chunkLengths is a rectilinear grid, represented by a list of chunk lengths per
// dimension.
type chunkLengths [][]int64

func randomLengths(r *rand.Rand, shape []int64) chunkLengths {
	var all chunkLengths
	for _, n := range shape {
		var list []int64
		for sum := int64(0); sum < n || r.IntN(3) == 0; {
			list = append(list, 1+r.Int64N(5))
			sum += list[len(list)-1]
		}
		all = append(all, list)
	}
	return all
}

// grid returns l as a chunk.Grid.
func (l chunkLengths) grid(t *testing.T) *chunk.Grid {
	t.Helper()
	var dims [][]chunk.Run
	for _, list := range l {
		var runs []chunk.Run
		for _, n := range list {
			runs = append(runs, chunk.Run{Len: n, Count: 1})
		}
		dims = append(dims, runs)
	}
	g, err := chunk.NewGrid(dims)
	if err != nil {
		t.Fatal(err)
	}
	return &g
}

// place returns the key of the chunk that contains the element at position k of an array
// of the given shape, the position of the element in that chunk, and the number of
// elements of the chunk.
func (l chunkLengths) place(shape []int64, k int64) (key string, at, size int64) {
	index := make([]int64, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d], k = k%shape[d], k/shape[d]
	}
	key, size = "c", 1
	for d, i := range index {
		n := 0
		for ; i >= l[d][n]; n++ {
			i -= l[d][n]
		}
		key += "/" + strconv.Itoa(n)
		at, size = at*l[d][n]+i, size*l[d][n]
	}
	return key, at, size
}

// TestWriteRectilinear writes random selections to arrays with random rectilinear grids.
// After each write, the whole array must equal a slice that the test has changed in the
// same way, both in the dataset that wrote and in another one that is open for the same
// store. At the end, copies must have the same values, and each chunk in the store must
// contain the elements that place assigns to it.
func TestWriteRectilinear(t *testing.T) {
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
			spec := &dataset.VarSpec{Type: dtype.NCInt, Order: dtype.Little}
			var shape []int64
			for d := range rank {
				shape = append(shape, 1+r.Int64N(14))
				spec.Dims = append(spec.Dims, dim(t, ds.Root(), fmt.Sprint("d", d), shape[d], false))
			}
			lengths := randomLengths(r, shape)
			spec.Grid = lengths.grid(t)
			packed := r.IntN(2) == 0
			if packed {
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
			if got := other.ChunkGrid(); !got.Equal(*spec.Grid) {
				t.Fatalf("want the grid %v, got %v", spec.Grid.Runs(), got.Runs())
			}
			want := slices.Repeat([]int32{-7}, int(chunk.Product(shape)))
			check := func(h *dataset.Var) {
				t.Helper()
				if text {
					if got, err := dataset.Get[string](t.Context(), h, h.All()); err != nil || !slices.Equal(got, asText(want)) {
						t.Fatalf("chunks of %v of %v: %v\ngot  %v\nwant %v", lengths, shape, err, got, want)
					}
					return
				}
				if got, err := dataset.Get[int32](t.Context(), h, h.All()); err != nil || !slices.Equal(got, want) {
					t.Fatalf("chunks of %v of %v: %v\ngot  %v\nwant %v", lengths, shape, err, got, want)
				}
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
				if err := writer.Group().Dataset().Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				check(reader)
				check(writer)
			}
			closeDataset(t, ds)
			ds = open(t, "mem:s", o)
			checkCopies(t, ds, o, check)
			if !text && !packed {
				checkChunks(t, ds, lengths, shape, want)
			}
		})
	}
}

// checkCopies copies ds in several ways and calls check with the copies of v.
func checkCopies(t *testing.T, ds *dataset.Dataset, o *dataset.Options, check func(*dataset.Var)) {
	t.Helper()
	v := variable(t, ds, "v")
	for name, c := range map[string]struct {
		options dataset.CopyOptions
		same    bool
	}{
		"v3":                     {dataset.CopyOptions{}, true},
		"v3,small blocks":        {dataset.CopyOptions{Memory: 200, Codecs: func(*dataset.Var) ([]zarr.CodecSpec, bool, error) { return v.Codecs(), true, nil }}, true},
		"v3,chunks":              {dataset.CopyOptions{Chunks: func(v *dataset.Var) ([]int64, error) { return slices.Repeat([]int64{2}, v.Rank()), nil }}, false},
		"v3,one chunk per shard": {dataset.CopyOptions{Shards: func(_ *dataset.Var, chunks []int64) ([]int64, bool, error) { return chunks, true, nil }}, false},
		"nczarr":                 {dataset.CopyOptions{}, false},
		"zarr":                   {dataset.CopyOptions{}, false},
	} {
		mode, _, _ := strings.Cut(name, ",")
		dst := create(t, "mem:"+name+"#mode="+mode, o)
		if err := dataset.Copy(t.Context(), dst.Root(), ds.Root(), &c.options); err != nil {
			t.Fatal(name, err)
		}
		closeDataset(t, dst)
		got := variable(t, open(t, "mem:"+name, o), "v")
		check(got)
		if same := got.ChunkGrid().Equal(v.ChunkGrid()); same != c.same && !v.ChunkGrid().Regular() {
			t.Errorf("%s: the grid %v became %v", name, v.ChunkGrid().Runs(), got.ChunkGrid().Runs())
		}
		if name != "v3,chunks" && !slices.Equal(got.Chunks(), v.Chunks()) {
			t.Errorf("%s: the largest chunk lengths %v became %v", name, v.Chunks(), got.Chunks())
		}
	}
}

// checkChunks compares the chunks of v, which are not encoded, with want.
func checkChunks(t *testing.T, ds *dataset.Dataset, lengths chunkLengths, shape []int64, want []int32) {
	t.Helper()
	all := make(map[string]bool)
	for k, n := range want {
		key, at, size := lengths.place(shape, int64(k))
		all[key] = true
		data, _, err := ds.Map().ReadAll(t.Context(), "v/"+key, 0)
		if err != nil || int64(len(data)) != 4*size {
			t.Fatalf("%s has %d bytes, not %d elements: %v", key, len(data), size, err)
		}
		if got := int32(binary.LittleEndian.Uint32(data[4*at:])); got != n {
			t.Fatalf("%s, element %d: want %d, got %d", key, at, n, got)
		}
	}
	s, err := variable(t, ds, "v").Stored(t.Context())
	if n := int64(len(all)); err != nil || s.Chunks != n || s.Grid != n {
		t.Errorf("stored %+v, %v; want %d chunks", s, err, n)
	}
}

// TestRectilinearRequests checks that a write reads only the chunks that it covers in
// part, and that absent chunks stay absent in copies.
func TestRectilinearRequests(t *testing.T) {
	t.Parallel()
	o := unbuffered(inMemory(gzip.Provider()))
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	ds := create(t, "mem:s#mode=v3", o)
	x := dim(t, ds.Root(), "x", 10, false)
	spec := &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Grid: chunkLengths{{1, 4, 2, 4, 3}}.grid(t), Codecs: []zarr.CodecSpec{{ID: "gzip"}}}
	v := define(t, ds.Root(), "v", spec)
	for _, c := range []struct{ first, n, gets, puts int64 }{
		{1, 4, 0, 1}, {7, 3, 0, 1}, {0, 5, 0, 2}, {1, 5, 1, 2}, {4, 4, 2, 3}, {2, 2, 1, 1},
	} {
		counts.gets.Store(0)
		counts.puts.Store(0)
		write(t, v, slab(c.first, c.n), make([]int32, c.n))
		if g, p := counts.gets.Load(), counts.puts.Load(); g != c.gets || p != c.puts {
			t.Errorf("%+v: %d gets, %d puts", c, g, p)
		}
	}
	w := define(t, ds.Root(), "w", spec)
	write(t, w, slab(5, 1), []int32{1})
	closeDataset(t, ds)
	dst := create(t, "mem:d#mode=v3", o)
	if err := dataset.Copy(t.Context(), dst.Root(), open(t, "mem:s", o).Root(), nil); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, dst)
	if got := strings.Join(keysOf(t, open(t, "mem:d", o)), " "); got != "v/c/0 v/c/1 v/c/2 v/c/3 v/zarr.json w/c/2 w/zarr.json zarr.json" {
		t.Errorf("keys %s", got)
	}
}

// TestRectilinearShards reads shards of different shapes that are written out by hand,
// changes them, and copies them.
func TestRectilinearShards(t *testing.T) {
	t.Parallel()
	o := inMemory()
	doc := strings.Replace(v3Array(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2, 6, [4, 3]]]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}]`), "[6]", "[11]", 1)
	store(t, o, "s", map[string]string{
		"zarr.json":   v3Group,
		"v/zarr.json": doc,
		"v/c/0":       v3Shard("\x01\x02"),
		"v/c/1":       v3Shard("\x03\x04", "", "\x07\x08"),
		"v/c/2":       v3Shard("", "\x0b\x63"),
	})
	ds := update(t, "mem:s", o)
	if got := readBytes(t, variable(t, ds, "v")); got != "[1 2 3 4 9 9 7 8 9 9 11]" {
		t.Errorf("got %s", got)
	}
	if s, err := variable(t, ds, "v").Stored(t.Context()); err != nil || s.Chunks != 4 || s.Grid != 6 {
		t.Errorf("stored %+v, %v", s, err)
	}
	write(t, variable(t, ds, "v"), slab(1, 5), []uint8{20, 30, 40, 50, 60})
	closeDataset(t, ds)
	ds = open(t, "mem:s", o)
	for key, want := range map[string]string{"v/c/0": v3Shard("\x01\x14"), "v/c/1": v3Shard("\x07\x08", "\x1e\x28", "\x32\x3c"), "v/c/2": v3Shard("", "\x0b\x63")} {
		got, _, err := ds.Map().ReadAll(t.Context(), key, 0)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: got %q, %v; want %d bytes", key, got, err, len(want))
		}
	}
	want := []uint8{1, 20, 30, 40, 50, 60, 7, 8, 9, 9, 11}
	expect(t, ds, "v", want)
	for mode, grid := range map[string]string{"v3": "[[2,6,[4,3]]]", "zarr": "[2]"} {
		dst := create(t, "mem:"+mode+"#mode="+mode, o)
		if err := dataset.Copy(t.Context(), dst.Root(), ds.Root(), nil); err != nil {
			t.Fatal(mode, err)
		}
		closeDataset(t, dst)
		got := open(t, "mem:"+mode, o)
		expect(t, got, "v", want)
		if text := zarr.ShownGrid(variable(t, got, "v").ObjectGrid()); text != grid {
			t.Errorf("%s: the grid of objects is %s", mode, text)
		}
	}
}

// TestRectilinearGrows checks that a dimension grows as far as the listed chunks reach,
// and that a write beyond these chunks fails and changes nothing.
func TestRectilinearGrows(t *testing.T) {
	t.Parallel()
	o := inMemory()
	ds := create(t, "mem:s#mode=v3", o)
	x, y := dim(t, ds.Root(), "x", 0, true), dim(t, ds.Root(), "y", 2, false)
	g, err := chunk.NewGrid([][]chunk.Run{{{Len: 2, Count: 1}, {Len: 3, Count: 2}}, {{Len: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x, y}, Grid: &g, Fill: []int8{0}})
	free := define(t, ds.Root(), "free", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Fill: []int8{0}})
	row := func(n int64) chunk.Selection {
		return chunk.Selection{Start: []int64{n, 0}, Count: []int64{1, 2}}
	}
	var want []int8
	for n := range int8(8) {
		write(t, v, row(int64(n)), []int8{n, n + 1})
		want = append(want, n, n+1)
	}
	for _, err := range []error{v.Write(t.Context(), row(8), []int8{1, 2}), free.Write(t.Context(), slab(8, 1), []int8{1})} {
		if ncerr.KindOf(err) != ncerr.ErrRange || !strings.Contains(err.Error(), `"/x" cannot grow to 9, because the chunk lengths of the variable add up to 8`) || !strings.Contains(err.Error(), "/v") {
			t.Errorf("beyond the grid: %v", err)
		}
	}
	expect(t, ds, "v", want)
	closeDataset(t, ds)
	ds = open(t, "mem:s", o)
	expect(t, ds, "v", want)
	if got := strings.Join(keysOf(t, ds), " "); got != "free/zarr.json v/c/0/0 v/c/1/0 v/c/2/0 v/zarr.json zarr.json" {
		t.Errorf("keys %s", got)
	}
}

// TestRectilinearLeftovers checks that ClearGrowth removes the leftovers of a dead
// writer.
func TestRectilinearLeftovers(t *testing.T) {
	t.Parallel()
	o := inMemory()
	ds := create(t, "mem:s#mode=v3", o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Grid: chunkLengths{{1, 3, 4, 2, 9}}.grid(t), Fill: []int8{0}})
	write(t, v, slab(0, 6), []int8{1, 2, 3, 4, 5, 6})
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, v, slab(6, 5), []int8{7, 8, 9, 10, 11}) // the writer dies
	ds = update(t, "mem:s", o)
	if err := clearGrowth(t, ds); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(keysOf(t, ds), " "); got != "v/c/0 v/c/1 v/c/2 v/zarr.json zarr.json" {
		t.Errorf("keys %s", got)
	}
	expect(t, ds, "v", []int8{1, 2, 3, 4, 5, 6})
}

// rectilinear returns the zarr.json of an array of six bytes with the given chunk_shapes.
func rectilinear(shapes string) string {
	return v3Array(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": ` + shapes + `}}`)
}

// TestReadRectilinear reads arrays whose chunks are written out by hand.
func TestReadRectilinear(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "s", map[string]string{
		"zarr.json":         v3Group,
		"list/zarr.json":    rectilinear("[[1, 3, 2]]"),
		"list/c/0":          "\x01",
		"list/c/1":          "\x02\x03\x04",
		"list/c/2":          "\x05\x06",
		"runs/zarr.json":    rectilinear("[[[1, 2], 3, [4, 1]]]"), // the last chunk is partly beyond the shape
		"runs/c/1":          "\x02",
		"runs/c/3":          "\x06\x63\x63\x63",
		"beyond/zarr.json":  rectilinear("[[2, 4, [7, 1000000000000000000]]]"),
		"beyond/c/1":        "\x03\x04\x05\x06",
		"beyond/c/2":        "\x00",
		"regular/zarr.json": rectilinear("[4]"),
		"regular/c/1":       "\x05\x06\x63\x63",
		"short/zarr.json":   rectilinear("[[1, 5]]"),
		"short/c/1":         "\x01\x02\x03\x04",
	})
	ds := open(t, "mem:s", o)
	if p := ds.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	for name, want := range map[string]string{"list": "[1 2 3 4 5 6]", "runs": "[9 2 9 9 9 6]", "beyond": "[9 9 3 4 5 6]", "regular": "[9 9 9 9 5 6]"} {
		if got := readBytes(t, variable(t, ds, name)); got != want {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
	}
	if _, err := dataset.Get[uint8](t.Context(), variable(t, ds, "short"), slab(0, 6)); ncerr.KindOf(err) != ncerr.ErrCorrupt || !strings.Contains(err.Error(), `"/short/c/1": corrupt data: the chunk has 4 bytes, but its shape requires 5`) {
		t.Errorf("a short chunk: %v", err)
	}
	if s, err := variable(t, ds, "beyond").Stored(t.Context()); err != nil || s.Chunks != 1 || s.Grid != 2 {
		t.Errorf("stored %+v, %v", s, err)
	}
}

// TestRectilinearProblems checks that a variable with an invalid grid is reported as a
// Problem, and that all other variables are readable.
func TestRectilinearProblems(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := v3Objects()
	bad := map[string]string{
		"uncovered": "[[1, 4]]", "zero": "[[0, 6]]", "overflow": "[[[2, 9223372036854775807]]]", "vast": fmt.Sprintf("[[3, %d]]", int64(math.MaxInt64-3)),
		"rank": "[[6], [6]]", "empty": "[[]]", "huge": "[[1099511627776]]", "huge-beyond": "[[6, 1099511627776]]",
	}
	var want []string
	for name, shapes := range bad {
		objects[name+"/zarr.json"] = rectilinear(shapes)
		want = append(want, "/"+name)
	}
	store(t, o, "s", objects)
	ds := open(t, "mem:s", o)
	var paths []string
	for _, p := range ds.Problems() {
		paths = append(paths, p.Path)
	}
	slices.Sort(paths)
	slices.Sort(want)
	if !slices.Equal(paths, want) {
		t.Errorf("want %q, got %v", want, ds.Problems())
	}
	if got := readBytes(t, variable(t, ds, "a")); got != "[1 2 9 9 5 6]" {
		t.Errorf("got %s", got)
	}
}

func TestDefineGrid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode string
		grid chunkLengths
		kind ncerr.Kind
		says string
	}{
		{"v3", chunkLengths{{4, 3}}, ncerr.ErrBadChunk, `the chunk lengths of dimension "x" add up to 7, but its length is 8`},
		{"v3", chunkLengths{{8}, {8}}, ncerr.ErrBadChunk, "has 2 dimensions instead of 1"},
		{"zarr", chunkLengths{{4, 4}}, ncerr.ErrUnsupported, "only pure Zarr v3"},
		{"nczarr", chunkLengths{{4, 4}}, ncerr.ErrUnsupported, "only pure Zarr v3"},
		{"v3", chunkLengths{{1 << 40}}, ncerr.ErrLimit, "limit"},
	} {
		ds := create(t, "mem:s#mode="+c.mode, memory())
		x := dim(t, ds.Root(), "x", 8, false)
		_, err := ds.Root().DefineVar(t.Context(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Grid: c.grid.grid(t)})
		if ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %v: %v", c.mode, c.grid, err)
		}
		if _, err := ds.Root().DefineVar(t.Context(), "s", &dataset.VarSpec{Type: dtype.NCInt, Grid: c.grid.grid(t)}); ncerr.KindOf(err) != ncerr.ErrBadChunk {
			t.Errorf("a scalar: %v", err)
		}
		if err := ds.Abort(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestDefineShardGrid(t *testing.T) {
	t.Parallel()
	ds := create(t, "mem:s#mode=v3", memory())
	x := dim(t, ds.Root(), "x", 8, false)
	for _, c := range []struct {
		lengths chunkLengths
		grid    *chunk.Grid
		kind    ncerr.Kind
		says    string
	}{
		{chunkLengths{{4, 5}}, nil, ncerr.ErrBadChunk, "shard shape [[4,5]] is not a multiple of chunk shape [2]"},
		{chunkLengths{{4, 2}}, nil, ncerr.ErrBadChunk, `the chunk lengths of dimension "x" add up to 6, but its length is 8`},
		{chunkLengths{{8}}, chunkLengths{{2, 6}}.grid(t), ncerr.ErrUnsupported, "chunks in shards must have the same shape"},
	} {
		_, err := ds.Root().DefineVar(t.Context(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Grid: c.grid, ShardGrid: c.lengths.grid(t)})
		if ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.lengths, err)
		}
	}
	if err := ds.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCopyShardGrid copies shards that differ in shape to NCZarr on Zarr v3, which has
// shards but no rectilinear grids.
func TestCopyShardGrid(t *testing.T) {
	t.Parallel()
	o := memory()
	src := create(t, "mem:from#mode=v3", o)
	x := dim(t, src.Root(), "x", 8, false)
	v := define(t, src.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, ShardGrid: chunkLengths{{6, 2}}.grid(t)})
	want := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	write(t, v, v.All(), want)
	defer closeDataset(t, src)
	dst := copyStrings(t, src, "mem:to#mode=nczarr,v3", o, 0)
	defer closeDataset(t, dst)
	if got := variable(t, dst, "v").Shards(); !slices.Equal(got, []int64{6}) {
		t.Errorf("got shards of shape %v, want the largest, [6]", got)
	}
	expect(t, dst, "v", want)
}

// passing is a provider of the codec "pass", which changes nothing. It checks that each
// chunk goes through a pipeline that was opened for its shape and is not closed.
type passing struct {
	t          *testing.T
	open, most atomic.Int64 // pipelines that are open now, and their maximum number
	opens      atomic.Int64 // pipelines that were opened
	encoded    atomic.Int64 // chunks that were encoded
}

func (*passing) Describe() []codecdriver.Description {
	return []codecdriver.Description{{ID: "pass", Encode: true, Decode: true, Transform: codecdriver.BytesToBytes}}
}

func (*passing) Open(string, json.RawMessage, codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	return nil, codecdriver.Spec{}, ncerr.ErrUnsupported
}

func (p *passing) OpenPipeline(_ context.Context, _ []codecdriver.Step, in codecdriver.Spec) (codecdriver.Pipeline, []codecdriver.Spec, error) {
	p.opens.Add(1)
	n := p.open.Add(1)
	for old := p.most.Load(); n > old && !p.most.CompareAndSwap(old, n); old = p.most.Load() {
		continue
	}
	size := in.DType.Size
	for _, k := range in.Shape {
		size *= k
	}
	return &pass{provider: p, size: size}, []codecdriver.Spec{{Kind: codecdriver.Blob, MaxBytes: in.MaxBytes}}, nil
}

type pass struct {
	provider *passing
	size     int
	closed   atomic.Bool
}

func (p *pass) DecodeMany(_ context.Context, jobs []codecdriver.Job, sink codecdriver.Sink) error {
	for i, j := range jobs {
		if p.closed.Load() || len(j.Src) != p.size {
			p.provider.t.Errorf("a chunk of %d bytes in a pipeline for %d, closed: %t", len(j.Src), p.size, p.closed.Load())
		}
		sink(i, j.Src, nil)
	}
	return nil
}

func (p *pass) EncodeMany(ctx context.Context, jobs []codecdriver.Job, sink codecdriver.Sink) error {
	p.provider.encoded.Add(int64(len(jobs)))
	return p.DecodeMany(ctx, jobs, sink)
}

func (p *pass) Close() error {
	if p.closed.Swap(true) {
		p.provider.t.Error("closed twice")
	}
	p.provider.open.Add(-1)
	return nil
}

// TestManyChunkShapes checks that an array with 200 chunk shapes keeps few pipelines open,
// uses each only for its shape, and closes all of them. An array with few shapes opens
// each pipeline once.
func TestManyChunkShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shapes, most int }{{200, 64 + 1 + 4}, {20, 20}} {
		p := &passing{t: t}
		o := inMemory(p)
		o.Workers = 4
		ds := create(t, "mem:s#mode=v3", o)
		lengths := chunkLengths{nil}
		n := int64(0)
		for range 3 {
			for k := range c.shapes {
				lengths[0], n = append(lengths[0], int64(k+1)), n+int64(k+1)
			}
		}
		x := dim(t, ds.Root(), "x", n, false)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Grid: lengths.grid(t), Codecs: []zarr.CodecSpec{{ID: "pass"}}})
		want := count[int32](n)
		write(t, v, v.All(), want)
		write(t, v, slab(5, 300), want[5:305])
		expect(t, ds, "v", want)
		dst, encoded := create(t, "mem:d#mode=v3", o), p.encoded.Load()
		if err := dataset.Copy(t.Context(), dst.Root(), ds.Root(), nil); err != nil {
			t.Fatal(err)
		}
		expect(t, dst, "v", want)
		if n := p.encoded.Load() - encoded; n > 0 {
			t.Errorf("%d shapes: %d chunks of the copy were encoded", c.shapes, n)
		}
		if n := p.most.Load(); n > 2*int64(c.most) {
			t.Errorf("%d shapes: %d pipelines were open in two arrays at the same time", c.shapes, n)
		}
		closeDataset(t, ds)
		closeDataset(t, dst)
		if n := p.open.Load(); n != 0 {
			t.Errorf("%d shapes: %d pipelines remained open", c.shapes, n)
		}
		if n := p.opens.Load(); c.shapes == 20 && n > 2*20+2 { // defining a variable may open one more
			t.Errorf("%d shapes: %d pipelines were opened", c.shapes, n)
		}
	}
}

// TestEncodedLimitOfShape checks that the limit on the size of a stored chunk that is
// copied without decoding depends on the shape of this chunk, not of the largest chunk.
func TestEncodedLimitOfShape(t *testing.T) {
	t.Parallel()
	o := memory(gzip.Provider())
	array := strings.Replace(v3Array(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2, 100000]]}}, "codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}]`), "[6]", "[100002]", 1)
	for key, bad := range map[string]bool{"a/c/0": true, "a/c/1": false} {
		name := strings.ReplaceAll(key, "/", "")
		store(t, o, name, map[string]string{"zarr.json": v3Group, "a/zarr.json": array, key: strings.Repeat("x", 50000)})
		dst := create(t, "mem:copy-"+name+"#mode=v3", o)
		err := dataset.Copy(t.Context(), dst.Root(), open(t, "mem:"+name, o).Root(), &dataset.CopyOptions{NoVerify: true})
		if is := ncerr.KindOf(err) == ncerr.ErrCorrupt && strings.Contains(err.Error(), "/"+key); is != bad || err != nil && !bad {
			t.Errorf("%s: want an error %t, got %v", key, bad, err)
		}
		_ = dst.Abort(t.Context())
	}
}
