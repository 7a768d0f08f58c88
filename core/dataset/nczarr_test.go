package dataset_test

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/teststore"
	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// TestMain runs the tests with the stores that package teststore selects.
func TestMain(m *testing.M) { os.Exit(teststore.Run(m)) }

// memory returns options with a fresh driver named "mem". Its stores are in memory, or
// wherever package teststore puts them.
func memory(filters ...codecdriver.Provider) *dataset.Options {
	return &dataset.Options{Registry: registry.New([]driver.Opener{teststore.New()}, filters...), SingleWriter: true}
}

// unbuffered changes o so that every Write stores its data immediately, and returns o.
func unbuffered(o *dataset.Options) *dataset.Options {
	o.WriteBuffer = -1
	return o
}

// inMemory is like memory, for tests that depend on stores in memory or send thousands of
// requests.
func inMemory(filters ...codecdriver.Provider) *dataset.Options {
	return &dataset.Options{Registry: registry.New([]driver.Opener{memmap.NewOpener()}, filters...), SingleWriter: true}
}

// symlink creates a symbolic link.
func symlink(t *testing.T, target, link string) {
	t.Helper()
	err := os.Symlink(target, link)
	if err != nil && runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege on Windows")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// create creates a dataset. The caller closes it.
func create(t *testing.T, url string, o *dataset.Options) *dataset.Dataset {
	t.Helper()
	ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o})
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func open(t *testing.T, url string, o *dataset.Options) *dataset.Dataset {
	t.Helper()
	ds, err := openURL(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ds.Close(t.Context()) })
	return ds
}

func closeDataset(t *testing.T, ds *dataset.Dataset) {
	t.Helper()
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func dim(t *testing.T, g *dataset.Group, name string, n int64, unlimited bool) *dataset.Dim {
	t.Helper()
	d, err := g.DefineDim(name, n, unlimited)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func define(t *testing.T, g *dataset.Group, name string, spec *dataset.VarSpec) *dataset.Var {
	t.Helper()
	v, err := g.DefineVar(t.Context(), name, spec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func write(t *testing.T, v *dataset.Var, sel chunk.Selection, src any) {
	t.Helper()
	if err := v.Write(t.Context(), sel, src); err != nil {
		t.Fatal(err)
	}
}

func count[T int16 | int32 | float32 | float64](n int64) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(i + 1)
	}
	return s
}

func TestRoundTripOfEverything(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"mem:a#mode=nczarr", "mem:b#mode=zarr", "mem:c#mode=zarr,v3"} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			o := memory()
			ds := create(t, url, o)
			root := ds.Root()
			y, x := dim(t, root, "y", 5, false), dim(t, root, "x", 7, false)
			if err := root.SetAttr(dataset.Attr{Name: "title", Type: dtype.NCChar, Value: "two words"}); err != nil {
				t.Fatal(err)
			}
			a := define(t, root, "a", &dataset.VarSpec{
				Type: dtype.NCFloat, Dims: []*dataset.Dim{y, x}, Chunks: []int64{2, 3},
				Attrs: []dataset.Attr{{Name: "valid_range", Type: dtype.NCFloat, Value: []float32{0.1, 1e30}}},
			})
			big := define(t, root, "big", &dataset.VarSpec{Type: dtype.NCInt64, Dims: []*dataset.Dim{x}, Order: dtype.Big})
			text := define(t, root, "text", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{y}, MaxStrLen: 6})
			scalar := define(t, root, "scalar", &dataset.VarSpec{Type: dtype.NCInt})
			g, err := root.DefineGroup("g")
			if err != nil {
				t.Fatal(err)
			}
			inner := define(t, g, "inner", &dataset.VarSpec{Type: dtype.NCShort, Dims: []*dataset.Dim{x}, Separator: '/'})
			write(t, a, a.All(), count[float32](35))
			write(t, big, big.All(), []int64{1, -2, 3 << 40, 4, 5, 6, 7})
			write(t, text, text.All(), []string{"a", "", "grün", "abcdef", "e"})
			write(t, scalar, scalar.All(), []int32{42})
			write(t, inner, inner.All(), count[int16](7))
			closeDataset(t, ds)

			ds = open(t, url, o)
			if p := ds.Problems(); len(p) > 0 {
				t.Fatalf("problems: %v", p)
			}
			expect(t, ds, "/a", count[float32](35))
			expect(t, ds, "/big", []int64{1, -2, 3 << 40, 4, 5, 6, 7})
			expect(t, ds, "/text", []string{"a", "", "grün", "abcdef", "e"})
			expect(t, ds, "/scalar", []int32{42})
			expect(t, ds, "/g/inner", count[int16](7))
			title, err := ds.Root().Attr("title")
			if err != nil || title.Value != "two words" {
				t.Errorf("want the title of two words, got %v, %v", title, err)
			}
		})
	}
}

// expect reads a whole variable and compares its values.
func expect[T dataset.Element](t *testing.T, ds *dataset.Dataset, path string, want []T) {
	t.Helper()
	v, err := ds.Root().Var(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := dataset.Get[T](t.Context(), v, v.All())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: want %v, got %v", path, want, got)
	}
}

func TestUnlimitedDimensionGrows(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:u", o)
	root := ds.Root()
	time, x := dim(t, root, "time", 0, true), dim(t, root, "x", 3, false)
	a := define(t, root, "a", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{time, x}, Chunks: []int64{2, 2}})
	b := define(t, root, "b", &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{time}})
	write(t, a, chunk.Selection{Start: []int64{1, 0}, Count: []int64{2, 3}}, []int32{1, 2, 3, 4, 5, 6})
	write(t, b, chunk.Selection{Start: []int64{3}, Count: []int64{1}}, []float64{7})
	if n := time.Len(); n != 4 {
		t.Fatalf("want length 4, got %d", n)
	}
	closeDataset(t, ds)

	ds = open(t, "mem:u", o)
	f := int32(-2147483647)
	expect(t, ds, "a", []int32{f, f, f, 1, 2, 3, 4, 5, 6, f, f, f})
	v, err := ds.Root().Var("b")
	if err != nil {
		t.Fatal(err)
	}
	if !v.Dims()[0].Unlimited() {
		t.Error("the dimension is no longer unlimited")
	}
	got, err := dataset.Get[float64](t.Context(), v, v.All())
	if err != nil || got[3] != 7 || got[0] != dtype.DefaultFill(dtype.NCDouble).([]float64)[0] {
		t.Errorf("want fill values and a last value of 7, got %v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:r", o)
	defer ds.Abort(t.Context()) // the test does not check Abort
	root := ds.Root()
	x := dim(t, root, "x", 4, false)
	g, err := root.DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	inner := dim(t, g, "inner", 2, false)
	v := define(t, root, "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}})
	ctx := t.Context()
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"name in use":      {errorOf(root.DefineVar(ctx, "v", &dataset.VarSpec{Type: dtype.NCInt})), ncerr.ErrNameInUse},
		"group over var":   {errorOf(root.DefineGroup("v")), ncerr.ErrNameInUse},
		"dot name":         {errorOf(root.DefineVar(ctx, ".zarray", &dataset.VarSpec{Type: dtype.NCInt})), ncerr.ErrBadName},
		"slash":            {errorOf(root.DefineDim("a/b", 1, false)), ncerr.ErrBadName},
		"dim twice":        {errorOf(root.DefineDim("x", 1, false)), ncerr.ErrNameInUse},
		"negative dim":     {errorOf(root.DefineDim("n", -1, false)), ncerr.ErrInvalid},
		"dim from below":   {errorOf(root.DefineVar(ctx, "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{inner}})), ncerr.ErrNoDim},
		"no type":          {errorOf(root.DefineVar(ctx, "w", &dataset.VarSpec{Dims: []*dataset.Dim{x}})), ncerr.ErrBadType},
		"chunk rank":       {errorOf(root.DefineVar(ctx, "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1, 1}})), ncerr.ErrBadChunk},
		"chunk zero":       {errorOf(root.DefineVar(ctx, "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{0}})), ncerr.ErrBadChunk},
		"chunk huge":       {errorOf(root.DefineVar(ctx, "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1 << 50}})), ncerr.ErrLimit},
		"unknown codec":    {errorOf(root.DefineVar(ctx, "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Codecs: []zarr.CodecSpec{{ID: "nope"}}})), ncerr.ErrNoFilter},
		"fill of two":      {errorOf(root.DefineVar(ctx, "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Attrs: []dataset.Attr{{Name: "_FillValue", Type: dtype.NCInt, Value: []int32{1, 2}}}})), ncerr.ErrBadType},
		"fill of a type":   {errorOf(root.DefineVar(ctx, "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Attrs: []dataset.Attr{{Name: "_FillValue", Type: dtype.NCShort, Value: []int16{1}}}})), ncerr.ErrBadType},
		"reserved":         {root.SetAttr(dataset.Attr{Name: "_ARRAY_DIMENSIONS", Type: dtype.NCChar, Value: "x"}), ncerr.ErrNameInUse},
		"late fill":        {v.SetAttr(dataset.Attr{Name: "_FillValue", Type: dtype.NCByte, Value: []int8{1}}), ncerr.ErrInvalid},
		"attr type":        {v.SetAttr(dataset.Attr{Name: "u", Type: dtype.NCByte, Value: []int16{1}}), ncerr.ErrBadType},
		"attr gone":        {v.DeleteAttr("u"), ncerr.ErrNoAttr},
		"past the end":     {v.Write(ctx, chunk.Selection{Start: []int64{3}, Count: []int64{2}}, []int8{1, 2}), ncerr.ErrRange},
		"length differs":   {v.Write(ctx, v.All(), []int8{1, 2}), ncerr.ErrInvalid},
		"not a slice":      {v.Write(ctx, v.All(), 7), ncerr.ErrBadType},
		"text for numbers": {v.Write(ctx, v.All(), []string{"", "", "", ""}), ncerr.ErrBadType},
		"out of range":     {v.Write(ctx, v.All(), []int32{1, 2, 3, 400}), ncerr.ErrConvert},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: want %v, got %v", name, c.want, c.err)
		}
	}
	expect(t, ds, "v", []int8{-127, -127, -127, -127})
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }

func TestReadConverts(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:c", o)
	x := dim(t, ds.Root(), "x", 4, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{x}, Order: dtype.Big})
	write(t, v, v.All(), []float32{1.5, -2, 3e9, 4})
	expect(t, ds, "v", []float64{1.5, -2, 3e9, 4})
	expect(t, ds, "v", []int64{1, -2, 3e9, 4})
	if _, err := dataset.Get[int32](t.Context(), v, v.All()); !errors.Is(err, ncerr.ErrConvert) {
		t.Errorf("want ErrConvert for 3e9 as int32, got %v", err)
	}
	closeDataset(t, ds)
}

// TestChunksFollowTheData checks that default chunks hold up to 1 MiB of records if the
// length of an unlimited dimension is known, and that no chunk is longer than the
// dimension if the layout makes it fixed.
func TestChunksFollowTheData(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layout   zarr.Layout
		time, x  int64
		typ      dtype.NC
		want     []int64
		wantTime []int64 // chunks of a variable whose only dimension is time
	}{
		"many small records": {zarr.LayoutNewest, 20_000, 4, dtype.NCFloat, []int64{20_000, 4}, []int64{20_000}},
		"more than 1 MiB":    {zarr.LayoutNewest, 1_000_000, 4, dtype.NCFloat, []int64{65_536, 4}, []int64{262_144}},
		"large records":      {zarr.LayoutNewest, 365, 1 << 20, dtype.NCFloat, []int64{1, 1 << 20}, []int64{1024}},
		"few":                {zarr.LayoutNewest, 12, 4, dtype.NCDouble, []int64{12, 4}, []int64{512}},
		"unknown":            {zarr.LayoutNewest, 0, 4, dtype.NCDouble, []int64{1, 4}, []int64{512}},
		"few, fixed":         {zarr.LayoutUpper, 12, 4, dtype.NCDouble, []int64{12, 4}, []int64{12}},
		"few, pure":          {zarr.LayoutPure, 12, 4, dtype.NCDouble, []int64{12, 4}, []int64{12}},
		"unknown, pure":      {zarr.LayoutPure, 0, 4, dtype.NCDouble, []int64{1, 4}, []int64{512}},
	} {
		ds, err := createURL(t.Context(), "mem:"+name, &dataset.CreateOptions{Options: *memory(), Layout: &c.layout})
		if err != nil {
			t.Fatal(err)
		}
		when, x := dim(t, ds.Root(), "time", c.time, true), dim(t, ds.Root(), "x", c.x, false)
		if got := define(t, ds.Root(), "v", &dataset.VarSpec{Type: c.typ, Dims: []*dataset.Dim{when, x}}).Chunks(); !slices.Equal(got, c.want) {
			t.Errorf("%s: want %v, got %v", name, c.want, got)
		}
		if got := define(t, ds.Root(), "t", &dataset.VarSpec{Type: c.typ, Dims: []*dataset.Dim{when}}).Chunks(); !slices.Equal(got, c.wantTime) {
			t.Errorf("%s, only time: want %v, got %v", name, c.wantTime, got)
		}
		if err := ds.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDefaultChunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shape     []int64
		unlimited []bool
		size      int
		want      []int64
	}{
		{[]int64{3, 4}, []bool{false, false}, 4, []int64{3, 4}},
		{[]int64{2, 4}, []bool{true, false}, 2, []int64{1, 4}},
		{[]int64{5}, []bool{true}, 4, []int64{1024}},
		{[]int64{5}, []bool{true}, 8, []int64{512}},
		{[]int64{0, 0}, []bool{true, true}, 8, []int64{1448, 1448}},
		{[]int64{0}, []bool{false}, 4, []int64{1}},
		{[]int64{8192, 8192}, []bool{false, false}, 4, []int64{1639, 1639}},
	} {
		if got := dataset.DefaultChunks(c.shape, c.unlimited, c.size); !slices.Equal(got, c.want) {
			t.Errorf("%v: want %v, got %v", c.shape, c.want, got)
		}
	}
}
