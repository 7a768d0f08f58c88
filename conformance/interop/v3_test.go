package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	drivers "github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// TestWriteV3 copies random arrays of zarr-python, of Zarr v2 and v3, to Zarr v3.
// zarr-python must read equal values from the copies, and tensorstore must read equal
// values from the arrays that it supports. The arrays must still be equal after copying
// them back to Zarr v2.
func TestWriteV3(t *testing.T) {
	t.Parallel()
	need(t, append(packages["zarr"], "tensorstore")...)
	first := testseed.New(t)
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			dst, back := filepath.Join(dir, "dst.zarr"), filepath.Join(dir, "back.zarr")
			seed := strconv.FormatUint(first+uint64(i), 10)
			var src string
			read := []string{"--with", "zarr"}
			if i == 0 {
				src, _ = sample(t, "write_v3.py", "--seed", seed)
				read = append(read, "--v3")
			} else {
				src, _ = sample(t, "write.py", "--with", "zarr", "--case", "random", "--seed", seed)
			}
			want := must(t, "read.py", append(read, src)...)
			ctl(t, append([]string{"copy", src, "file://" + dst + "#mode=zarr,v3"}, [][]string{nil, {"--codec", "gzip:level=1"}, {"--codec", "shuffle,zstd:level=2", "--consolidated"}}[i]...)...)
			if n := sameGrids(t, src, dst); i == 0 && n < 5 {
				t.Errorf("%d arrays have chunks of different shapes", n)
			}
			minEquals := map[string]int{"zarr": 60, "tensorstore": []int{10, 25, 0}[i]} // tensorstore supports none of numcodecs' codecs
			for reader, least := range minEquals {
				args := []string{"--with", reader, "--v3", dst}
				if i == 2 && reader == "zarr" {
					args = append(args, "--consolidated")
				}
				got, err := tool(t, "read.py", args...)
				if err != nil {
					t.Errorf("%s: %v", reader, err)
					continue
				}
				equals := 0
				for _, r := range classify(t, want, got) {
					switch {
					case r.outcome == equal:
						equals++
					case r.outcome == wrong || reader == "zarr":
						t.Errorf("%s: %s: %v %s", reader, r.variable, r.outcome, r.why)
					}
				}
				if equals < least {
					t.Errorf("%s reads %d arrays", reader, equals)
				}
			}
			ctl(t, "copy", dst, "file://"+back+"#mode=zarr")
			same(t, encode(t, describe(t, src, false)), encode(t, describe(t, back, false)), "type,chunks,dims,fill")
			same(t, encode(t, describe(t, dst, false)), encode(t, describe(t, back, false)), "type,chunks,dims")
		})
	}
}

// TestStructsV3 reads random structures that zarr-python wrote to Zarr v3, in the current
// and in the older form. Every field must be equal, also in copies that zarr-python reads.
func TestStructsV3(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	dir := t.TempDir()
	src := filepath.Join(dir, "src.zarr")
	want := must(t, "write_v3.py", "--structs", "--seed", strconv.FormatUint(testseed.New(t), 10), src)
	check := func(what string, got []byte) {
		t.Helper()
		for _, r := range classify(t, want, got) {
			if r.outcome != equal {
				t.Errorf("%s: %s: %v %s", what, r.variable, r.outcome, r.why)
			}
		}
	}
	check("nczarr", encode(t, describe(t, src, false)))
	for _, mode := range []string{"zarr,v3", "zarr,v2"} {
		dst := filepath.Join(dir, mode)
		ctl(t, "copy", src, "file://"+dst+"#mode="+mode)
		args := []string{"--with", "zarr", dst}
		if mode == "zarr,v3" {
			args = append(args, "--v3")
		}
		check(mode, must(t, "read.py", args...))
	}
}

// sameGrids checks that the arrays of dst, a copy of src, have the grids of src. It
// returns the number of arrays whose chunks or shards differ in shape.
func sameGrids(t *testing.T, src, dst string) (n int) {
	t.Helper()
	o := dataset.Options{Registry: registry.New(drivers.New(), filters.Provider())}
	var grids [2]map[string]chunk.Grid
	for i, path := range []string{src, dst} {
		ds, err := open.Open(t.Context(), path, &o)
		if err != nil {
			t.Fatal(err)
		}
		defer ds.Close(t.Context())
		grids[i] = make(map[string]chunk.Grid)
		groups := []*dataset.Group{ds.Root()}
		for len(groups) > 0 {
			for _, v := range groups[0].Vars() {
				grids[i][v.Path()] = v.ObjectGrid()
			}
			groups = append(groups[1:], groups[0].Groups()...)
		}
	}
	for name, g := range grids[0] {
		if !g.Equal(grids[1][name]) {
			t.Errorf("%s: the grid %s became %s", name, zarr.ShownGrid(g), zarr.ShownGrid(grids[1][name]))
		}
		if !g.Regular() {
			n++
		}
	}
	return n
}

// TestMaskedV3 checks that xarray masks values with the _FillValue that nczctl writes
// when it copies a dataset to Zarr v3, with and without consolidated metadata.
func TestMaskedV3(t *testing.T) {
	t.Parallel()
	need(t, packages["xarray"]...)
	dir := t.TempDir()
	o := dataset.Options{Registry: registry.New(drivers.New(), filters.Provider())}
	src := filepath.Join(dir, "src.zarr")
	ds, err := open.Create(t.Context(), src, &dataset.CreateOptions{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	x, err := ds.Root().DefineDim("x", 4, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		value any
		fill  any
		nc    dtype.NC
	}{
		"float": {[]float32{1, -9999, 2, -9999}, []float32{-9999}, dtype.NCFloat}, "double": {[]float64{1, 1e20, 2, 3}, []float64{1e20}, dtype.NCDouble},
		"short": {[]int16{1, -32767, 2, 3}, []int16{-32767}, dtype.NCShort}, "int": {[]int32{1, 2, 3, 4}, []int32{-1}, dtype.NCInt},
		"char": {[]uint8("ab c"), " ", dtype.NCChar}, "string": {[]string{"a", "", "c", "-"}, []string{"-"}, dtype.NCString},
		"ubyte": {[]uint8{1, 255, 3, 4}, []uint8{255}, dtype.NCUByte},
	} {
		v, err := ds.Root().DefineVar(t.Context(), name, &dataset.VarSpec{Type: c.nc, Dims: []*dataset.Dim{x}, Attrs: []dataset.Attr{{Name: "_FillValue", Type: c.nc, Value: c.fill}}})
		if err == nil {
			err = v.Write(t.Context(), v.All(), c.value)
		}
		if err != nil {
			t.Fatal(name, err)
		}
	}
	if _, err := ds.Root().DefineVar(t.Context(), "scalar", &dataset.VarSpec{Type: dtype.NCFloat}); err != nil {
		t.Fatal(err)
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{{}, {"--consolidated"}} {
		dst := filepath.Join(dir, strconv.Itoa(i))
		ctl(t, append(append([]string{"copy"}, args...), src, dst+"#mode=zarr,v3")...)
		var got struct{ Variables, Masked int }
		if err := json.Unmarshal(must(t, "masked_v3.py", append(args, dst)...), &got); err != nil || got.Variables != 8 || got.Masked != 5 { // the scalar is the fill value
			t.Errorf("%q: want 8 variables, 5 of them masked, got %+v, %v", args, got, err)
		}
	}
}

// TestUpdateV3 updates a store of zarr-python, in turn with nczarr and with zarr-python.
// Some of the arrays have shards, and some have chunks of different shapes. Each must read
// what the other wrote. nczarr reads random parts of the arrays and writes them back
// unchanged, so that all values must be equal afterwards.
func TestUpdateV3(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	path := filepath.Join(t.TempDir(), "x.zarr")
	wrote := must(t, "write_v3.py", "--seed", "7", "--count", "40", "--consolidated", path)
	r := rand.New(rand.NewPCG(testseed.New(t), 0))
	o := dataset.Options{Registry: registry.New(drivers.New(), filters.Provider()), Update: true}
	ds, err := open.Open(t.Context(), path, &o)
	if err != nil {
		t.Fatal(err)
	}
	written, shards, irregular := 0, 0, 0
	for _, v := range ds.Root().Vars() {
		if err := v.SetAttr(dataset.Attr{Name: "set", Type: dtype.NCInt, Value: []int32{1}}); err != nil {
			t.Fatal(v.Path(), err)
		}
		values := v.NewSlice(v.All().Len())
		if err := v.Read(t.Context(), v.All(), values); err != nil {
			t.Fatal(v.Path(), err)
		}
		if err := v.Write(t.Context(), v.All(), values); err != nil {
			t.Fatal(v.Path(), err)
		}
		for range 4 {
			if err := rewritePart(t.Context(), r, v); err != nil {
				t.Fatal(v.Path(), err)
			}
		}
		if written++; v.Shards() != nil {
			shards++
		}
		if !v.ObjectGrid().Regular() {
			irregular++
		}
	}
	g, err := ds.Root().DefineGroup("ours")
	if err != nil {
		t.Fatal(err)
	}
	k, err := g.DefineDim("k", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	v, err := g.DefineVar(t.Context(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{k}, Chunks: []int64{2}})
	if err == nil {
		err = v.Write(t.Context(), v.All(), []int32{})
	}
	for i := range int64(3) {
		if err == nil {
			sel := v.All()
			sel.Start[0], sel.Count[0] = i, 1
			err = v.Write(t.Context(), sel, []int32{int32(i)})
		}
		if err == nil {
			err = ds.Flush(t.Context())
		}
	}
	if cerr := ds.Close(t.Context()); err == nil {
		err = cerr
	}
	if err != nil || written < 5 || shards < 5 || irregular < 3 {
		t.Fatalf("want at least 5 written arrays, 5 in shards and 3 rectilinear ones, got %d, %d and %d, %v", written, shards, irregular, err)
	}
	ctl(t, "consolidate", "--check", path)
	for _, r := range classify(t, wrote, encode(t, describe(t, path, false))) {
		if r.outcome != equal && !strings.HasSuffix(r.variable, "_f2") {
			t.Errorf("%s: %v %s", r.variable, r.outcome, r.why)
		}
	}
	const ignored = "type,chunks,fill,dims"
	ours, halves := describeV3(t, path)
	same(t, ours, must(t, "read.py", "--with", "zarr", "--v3", path), ignored, halves...)
	same(t, ours, must(t, "read.py", "--with", "zarr", "--v3", "--consolidated", path), ignored, halves...)
	theirs := must(t, "change_v3.py", path)
	ours, _ = describeV3(t, path)
	same(t, theirs, ours, ignored, halves...)
}

// TestTransposedShards reads shards that tensorstore wrote transposed, and updates them.
func TestTransposedShards(t *testing.T) {
	t.Parallel()
	need(t, append(packages["zarr"], "tensorstore")...)
	updateShards(t, "write_transposed.py", "tensorstore")
}

// TestElementwiseBeforeShards reads shards that zarr-python wrote with element-wise codecs
// before sharding_indexed, and updates them.
func TestElementwiseBeforeShards(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	updateShards(t, "write_elementwise.py", "zarr")
}

// updateShards updates random parts of the 24 arrays that a script writes. The peer must then
// read the same values as nczarr. Copies must have equal values.
func updateShards(t *testing.T, script, peer string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.zarr")
	seed := testseed.New(t)
	want := must(t, script, "--seed", strconv.FormatUint(seed, 10), path)
	const ignored = "type,chunks,fill,dims,attrs"
	same(t, want, encode(t, describe(t, path, false)), ignored)
	r := rand.New(rand.NewPCG(seed, 0))
	o := dataset.Options{Registry: registry.New(drivers.New(), filters.Provider()), Update: true}
	ds, err := open.Open(t.Context(), path, &o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range ds.Root().Vars() {
		if err := v.SetAttr(dataset.Attr{Name: "set", Type: dtype.NCInt, Value: []int32{1}}); err != nil {
			t.Fatal(v.Path(), err)
		}
		for range 4 {
			sel := randomPart(r, v.Shape())
			values := v.NewSlice(sel.Len())
			if err := v.Read(t.Context(), sel, values); err != nil {
				t.Fatal(v.Path(), err)
			}
			r.Shuffle(int(sel.Len()), reflect.Swapper(values))
			if err := v.Write(t.Context(), sel, values); err != nil {
				t.Fatal(v.Path(), err)
			}
		}
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := encode(t, describe(t, path, false))
	if rows := classify(t, want, ours); len(rows) != 24 || !slices.ContainsFunc(rows, func(r result) bool { return r.outcome == wrong }) {
		t.Errorf("want 24 arrays, some of them changed, got %v", rows)
	}
	same(t, must(t, "read.py", "--with", peer, "--v3", path), ours, ignored)
	for _, mode := range []string{"zarr,v3", "zarr,v2", "nczarr"} {
		out := filepath.Join(dir, mode)
		ctl(t, "copy", path, out+"#mode="+mode)
		same(t, ours, encode(t, describe(t, out, false)), ignored)
		if mode == "zarr,v3" {
			same(t, ours, must(t, "read.py", "--with", "zarr", "--v3", out), ignored)
		}
	}
}

// randomPart returns a random selection of an array.
func randomPart(r *rand.Rand, shape []int64) chunk.Selection {
	var sel chunk.Selection
	for _, n := range shape {
		start := r.Int64N(n)
		sel.Start, sel.Count = append(sel.Start, start), append(sel.Count, 1+r.Int64N(n-start))
	}
	return sel
}

// rewritePart reads a random part of v and writes it back.
func rewritePart(ctx context.Context, r *rand.Rand, v *dataset.Var) error {
	sel := randomPart(r, v.Shape())
	values := v.NewSlice(sel.Len())
	if err := v.Read(ctx, sel, values); err != nil {
		return err
	}
	return v.Write(ctx, sel, values)
}

// TestShardsInTurns writes random parts of arrays in shards, in turn with zarr-python.
// After each turn nczarr, zarr-python and tensorstore must read the expected values,
// which the test computes with plain loops.
func TestShardsInTurns(t *testing.T) {
	t.Parallel()
	need(t, append(packages["zarr"], "tensorstore")...)
	r := rand.New(rand.NewPCG(testseed.New(t), 0))
	o := dataset.Options{Registry: registry.New(drivers.New(), filters.Provider())}
	path := filepath.Join(t.TempDir(), "x.zarr")
	ds, err := open.Create(t.Context(), path+"#mode=v3", &dataset.CreateOptions{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]int32)
	for i, codecs := range [][]zarr.CodecSpec{nil, {{ID: "zstd"}}, {{ID: "gzip"}, {ID: "crc32c"}}, {{ID: "blosc"}}, nil, {{ID: "zstd"}}} {
		spec := &dataset.VarSpec{Type: dtype.NCInt, Codecs: codecs, Fill: []int32{-1}}
		if i == 4 {
			spec.Order = dtype.Big
		}
		n := int64(1)
		for d := range 1 + i%3 {
			length, c := 1+r.Int64N(15), 1+r.Int64N(4)
			x, err := ds.Root().DefineDim(fmt.Sprintf("d%d_%d", i, d), length, false)
			if err != nil {
				t.Fatal(err)
			}
			spec.Dims, n = append(spec.Dims, x), n*length
			spec.Chunks, spec.Shards = append(spec.Chunks, c), append(spec.Shards, c*(1+r.Int64N(4)))
		}
		name := fmt.Sprintf("v%d", i)
		if _, err := ds.Root().DefineVar(t.Context(), name, spec); err != nil {
			t.Fatal(err)
		}
		want[name] = slices.Repeat([]int32{-1}, int(n))
	}
	for turn := range 3 {
		for _, name := range slices.Sorted(maps.Keys(want)) { // in a fixed order, so that the seed determines the values
			list := want[name]
			v, err := ds.Root().Var(name)
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				sel, shape := randomPart(r, v.Shape()), v.Shape()
				values := make([]int32, sel.Len())
				for k := range values {
					values[k] = r.Int32()
					at, rest, step := int64(0), int64(k), int64(1)
					for d := len(shape) - 1; d >= 0; d-- {
						at += step * (sel.Start[d] + rest%sel.Count[d])
						rest, step = rest/sel.Count[d], step*shape[d]
					}
					list[at] = values[k]
				}
				if err := v.Write(t.Context(), sel, values); err != nil {
					t.Fatal(name, err)
				}
			}
		}
		if err := ds.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		check := func() {
			update := o
			update.Update = true
			if ds, err = open.Open(t.Context(), path, &update); err != nil {
				t.Fatal(err)
			}
			for name, list := range want {
				v, err := ds.Root().Var(name)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil || !slices.Equal(got, list) {
					t.Fatalf("turn %d: %s in chunks of %v and shards of %v: %v\ngot  %v\nwant %v", turn, name, v.Chunks(), v.Shards(), err, got, list)
				}
			}
			ours := encode(t, describe(t, path, false))
			for _, reader := range []string{"zarr", "tensorstore"} {
				for _, r := range classify(t, ours, must(t, "read.py", "--with", reader, "--v3", path)) {
					if r.outcome != equal {
						t.Errorf("turn %d: %s: %s: %v %s", turn, reader, r.variable, r.outcome, r.why)
					}
				}
			}
		}
		check()
		if err := ds.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		must(t, "change_v3.py", path)
		for _, list := range want {
			list[0] = 77
		}
		check()
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// describeV3 is like describe, but omits the attributes that describe times, which are
// not in the store. It also returns the prefixes of the expected differences for half
// floats, which nczarr reads as float.
func describeV3(t *testing.T, path string) (doc []byte, halves []string) {
	t.Helper()
	got := describe(t, path, false)
	for name, v := range got.Variables {
		for _, attr := range []string{"units", "calendar", "scale_factor", "_FillValue"} {
			if strings.HasSuffix(strings.ToLower(name), "_m8") {
				delete(v.Attrs, attr)
			}
		}
		if strings.HasSuffix(name, "_f2") {
			halves = append(halves, name+": sha256")
		}
	}
	return encode(t, got), halves
}
