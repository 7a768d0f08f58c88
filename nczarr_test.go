package nczarr_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr"
	core "github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// TestOptions checks that every invalid option causes an error that contains its name.
func TestOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]nczarr.Option{
		"option 0 is nil": nil,
		"WithWorkers(0)":  nczarr.WithWorkers(0),
		"WithLogger":      nczarr.WithLogger(nil),
		"WithLimits":      nczarr.WithLimits(nczarr.Limits{MaxChunk: -1}),
		"WithDriver":      nczarr.WithDriver(nil),
		"WithCodecs":      nczarr.WithCodecs(nil),
		"WithOptions":     nczarr.WithOptions(nil),
		"\"s3\"":          nczarr.WithDriverOptions("s3", 5),
	} {
		for _, f := range []func(context.Context, string, ...nczarr.Option) (*nczarr.Dataset, error){nczarr.Open, nczarr.Create} {
			if _, err := f(t.Context(), "mem:x", o); !errors.Is(err, nczarr.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error with %s, got %v", want, err)
			}
		}
	}
	for want, o := range map[string]nczarr.Option{
		"Replace": nczarr.Replace(), "Force": nczarr.Force(), "PureZarr": nczarr.PureZarr(), "Consolidated": nczarr.Consolidated(),
	} {
		if _, err := nczarr.Open(t.Context(), "mem:x", o); !errors.Is(err, nczarr.ErrInvalid) || !strings.Contains(err.Error(), want+" is an option of Create") {
			t.Errorf("want an error with %s, got %v", want, err)
		}
	}
	if _, err := nczarr.Create(t.Context(), "mem:x", nczarr.Writable()); !errors.Is(err, nczarr.ErrInvalid) {
		t.Errorf("Create with Writable: want ErrInvalid, got %v", err)
	}
	if _, err := nczarr.Open(t.Context(), "https://user:secret@host/x", nczarr.WithWorkers(0)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("want an error without the password, got %v", err)
	}
}

// TestOptionsTwice checks that a repeated option with a value is refused, and that
// repeated options without a value and options for several drivers are accepted.
func TestOptionsTwice(t *testing.T) {
	t.Parallel()
	mem := nczarr.WithDriver(nczarr.Memory())
	for want, list := range map[string][]nczarr.Option{
		"WithWorkers":                       {nczarr.WithWorkers(1), nczarr.WithWorkers(2)},
		"WithLogger":                        {nczarr.WithLogger(slog.Default()), nczarr.WithLogger(slog.Default())},
		"WithLimits":                        {nczarr.WithLimits(nczarr.Limits{}), nczarr.WithLimits(nczarr.Limits{})},
		"WithOptions":                       {nczarr.WithOptions(&core.Options{}), nczarr.WithOptions(&core.Options{})},
		"WithDriver for the driver \"mem\"": {nczarr.WithDriver(nczarr.Memory())},
		"WithDriverOptions(\"file\")":       {nczarr.WithDriverOptions("file", struct{}{}), nczarr.WithDriverOptions("file", struct{}{})},
	} {
		_, err := nczarr.Create(t.Context(), "mem:x", append(list, mem)...)
		if !errors.Is(err, nczarr.ErrInvalid) || !strings.Contains(err.Error(), "the option "+want+" is specified twice") {
			t.Errorf("%s twice: want ErrInvalid, got %v", want, err)
		}
	}
	ds, err := nczarr.Create(t.Context(), "mem:x", mem, nczarr.Replace(), nczarr.Replace(), nczarr.WithDriverOptions("file", struct{}{}), nczarr.WithDriverOptions("zip", struct{}{}))
	if err != nil {
		t.Fatal(err)
	}
	check(ds.Close(t.Context()))
}

// TestOptionsOfMissingDriver checks that options for an unknown driver are refused with
// a list of the available drivers.
func TestOptionsOfMissingDriver(t *testing.T) {
	t.Parallel()
	mem := nczarr.WithDriver(nczarr.Memory())
	bad := nczarr.WithDriverOptions("fil", struct{}{})
	for want, list := range map[string][]nczarr.Option{
		"drivers are file, http, mem, zip": {bad, mem},
		"drivers are file\x00":             {bad, nczarr.WithOptions(&core.Options{Registry: registry.New([]driver.Opener{file.New()})})},
		"import drivers/s3":                {nczarr.WithDriverOptions("s3", struct{}{})},
	} {
		_, err := nczarr.Create(t.Context(), "mem:x", list...)
		if !errors.Is(err, nczarr.ErrInvalid) || !strings.Contains(err.Error()+"\x00", want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestWithOptions checks that the options of core/dataset are used, that other options
// override them in any order, and that the caller's options do not change.
func TestWithOptions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zarr")
	check(must(nczarr.Create(t.Context(), path)).Close(t.Context()))
	base := &core.Options{Update: true, DriverOptions: map[string][]byte{"file": []byte(`{"durability": "nonsense"}`)}}
	if _, err := nczarr.Open(t.Context(), path, nczarr.WithOptions(base)); err == nil {
		t.Error("the options of the file driver were ignored")
	}
	ds, err := nczarr.Open(t.Context(), path, nczarr.WithOptions(base), nczarr.WithDriverOptions("file", struct{}{}))
	if err != nil {
		t.Fatal(err)
	}
	check(ds.SetAttr("a", 1)) // fails without Update
	check(ds.Close(t.Context()))
	if len(base.DriverOptions) != 1 || len(base.DriverOptions["file"]) < 10 || base.Registry != nil {
		t.Errorf("the options of the caller changed: %s", base.DriverOptions)
	}
	base.Update = false
	list := []nczarr.Option{nczarr.Writable(), nczarr.WithDriverOptions("file", struct{}{}), nczarr.WithWorkers(2), nczarr.WithOptions(base)}
	for range list {
		list = append(list[1:], list[0])
		ds, err := nczarr.Open(t.Context(), path, list...)
		if err != nil {
			t.Fatal(err)
		}
		if err := ds.SetAttr("a", 2); err != nil {
			t.Error(err)
		}
		check(ds.Close(t.Context()))
	}
	if base.Update || base.Workers != 0 {
		t.Errorf("the options of the caller changed: %+v", base)
	}
}

// TestText reads strings from a Char variable: one string, several strings, and parts of
// strings.
func TestText(t *testing.T) {
	t.Parallel()
	ds := scratch()
	v := must(ds.DefineVar(t.Context(), "v", nczarr.VarSpec{Type: nczarr.Char, Dims: []string{"n", "len"}, Shape: []int64{2, 4}}))
	check(nczarr.Write(t.Context(), v, []string{"", "a\x00b"}))
	for want, list := range map[string][]nczarr.Selector{
		`["" "a\x00b"] [2] [n]`: nil,
		`["a\x00b"] [] []`:      {nczarr.At(1)},
		`["" "a"] [2] [n]`:      {nczarr.All, nczarr.At(0)},
		`["b"] [] []`:           {nczarr.At(1), nczarr.From(2)},
		`["b"] [1] [n]`:         {nczarr.From(1), nczarr.At(2)},
		`["" ""] [2] [n]`:       {nczarr.All, nczarr.Span(0, 0)},
	} {
		a, err := nczarr.Read[string](t.Context(), v, list...)
		if got := fmt.Sprintf("%q %v %v", a.Data, a.Shape, a.Dims); err != nil || got != want {
			t.Errorf("%v: want %s, got %s, %v", list, want, got, err)
		}
	}
	if err := nczarr.Write(t.Context(), v, []string{"a"}); !errors.Is(err, nczarr.ErrInvalid) {
		t.Errorf("one string for two elements: want ErrInvalid, got %v", err)
	}
	one := must(ds.DefineVar(t.Context(), "one", nczarr.VarSpec{Type: nczarr.Char}))
	check(nczarr.Write(t.Context(), one, []string{"x"}))
	if got := must(nczarr.Read[string](t.Context(), one)).At(); got != "x" {
		t.Errorf("want \"x\", got %q", got)
	}
}

// TestHugeText checks that text larger than memory, and a wrong number of strings, cause
// errors before any allocation.
func TestHugeText(t *testing.T) {
	t.Parallel()
	ds := scratch()
	text := func(name string, shape ...int64) *nczarr.Var {
		spec := nczarr.VarSpec{Type: nczarr.Char, Dims: []string{name + "y", name + "x"}, Shape: shape, Chunks: []int64{1, 1}}
		return must(ds.DefineVar(t.Context(), name, spec))
	}
	empty := text("a", 1<<50, 0)
	if _, err := nczarr.Read[string](t.Context(), empty); !errors.Is(err, nczarr.ErrLimit) {
		t.Errorf("read: want ErrLimit, got %v", err)
	}
	one := text("b", 1, nczarr.Unlimited)
	if err := nczarr.Write(t.Context(), one, []string{"x"}, nczarr.All, nczarr.Span(0, 1<<50)); !errors.Is(err, nczarr.ErrLimit) {
		t.Errorf("write: want ErrLimit, got %v", err)
	}
	two := text("c", 2, 3)
	for _, list := range [][]string{nil, {"x"}, {"x", "y", "z"}} {
		if err := nczarr.Write(t.Context(), two, list); !errors.Is(err, nczarr.ErrInvalid) || !strings.Contains(err.Error(), "strings for 2 elements") {
			t.Errorf("%d strings for 2 elements: want ErrInvalid, got %v", len(list), err)
		}
	}
	if err := nczarr.Write(t.Context(), two, []string{"x"}, nczarr.At(0), nczarr.Span(0, 1<<46)); !errors.Is(err, nczarr.ErrRange) {
		t.Errorf("a selection outside the shape: want ErrRange, got %v", err)
	}
}

// TestMemoryLimits checks that text and numbers whose size comes from a selection or a
// declared shape are refused beyond the limits, before memory is allocated.
func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	ds := must(nczarr.Create(t.Context(), "mem:x", nczarr.WithDriver(nczarr.Memory()), nczarr.WithLimits(nczarr.Limits{MaxChunk: 1 << 12, MaxData: 1 << 20})))
	define := func(name string, typ nczarr.Type, shape ...int64) *nczarr.Var {
		return must(ds.DefineVar(t.Context(), name, nczarr.VarSpec{Type: typ, Dims: []string{name + "y", name + "x"}, Shape: shape, Chunks: []int64{1, 16}}))
	}
	text := define("text", nczarr.Char, 1, nczarr.Unlimited)
	check(nczarr.Write(t.Context(), text, []string{"x"}, nczarr.At(0), nczarr.Span(0, 1<<12)))
	wide := []nczarr.Selector{nczarr.At(0), nczarr.Span(0, 1<<12+1)}
	numbers := define("numbers", nczarr.Int8, 1, 1<<20+1)
	start := "write \"/text\": limit exceeded: "
	for want, err := range map[string]error{
		start + "1 strings of 4097 bytes need more memory than the limit of 4096 bytes (Limits.MaxChunk): write a smaller part": nczarr.Write(t.Context(), text, []string{"x"}, wide...),
		"1 strings of 1099511627776 bytes": nczarr.Write(t.Context(), text, []string{"x"}, nczarr.At(0), nczarr.Span(0, 1<<40)),
		"4097 strings of 1 bytes":          errorOf(nczarr.Read[string](t.Context(), define("many", nczarr.Char, 4097, 1))),
		"1048577 values of 1 bytes exceed the limit of 1048576 bytes (Limits.MaxData)": errorOf(nczarr.Read[int8](t.Context(), numbers)),
		"262145 values of 4 bytes": errorOf(nczarr.Read[float32](t.Context(), numbers, nczarr.All, nczarr.Span(0, 1<<18+1))),
		"131073 values of 8 bytes": errorOf(nczarr.ReadUnpacked[float64](t.Context(), numbers, nczarr.All, nczarr.Span(0, 1<<17+1))),
	} {
		if !errors.Is(err, nczarr.ErrLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if text.Shape()[1] != 1<<12 {
		t.Errorf("the dimension has length %d", text.Shape()[1])
	}
	if _, err := nczarr.Read[int8](t.Context(), numbers, nczarr.All, nczarr.Span(0, 1<<20)); err != nil {
		t.Error(err)
	}
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }

// TestFinishInPanic checks that a panic aborts the dataset.
func TestFinishInPanic(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zarr")
	work := func() (err error) {
		ds := must(nczarr.Create(t.Context(), path))
		defer ds.Finish(t.Context(), &err)
		panic("oh")
	}
	func() {
		defer func() {
			if p := recover(); p != "oh" {
				t.Errorf("want the original panic, got %v", p)
			}
		}()
		_ = work()
	}()
	if _, err := nczarr.Open(t.Context(), path); !errors.Is(err, nczarr.ErrNoDataset) {
		t.Errorf("want ErrNoDataset, got %v", err)
	}
}

// TestFinishReportsClose checks that Finish reports the error of Close, and that a
// dataset whose Close failed can be created again.
func TestFinishReportsClose(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "x.zarr")
	work := func() (err error) {
		ds := must(nczarr.Create(ctx, path))
		defer ds.Finish(ctx, &err)
		x := must(ds.DefineVar(ctx, "x", nczarr.VarSpec{Type: nczarr.Int8, Dims: []string{"x"}, Shape: []int64{1}}))
		check(nczarr.Write(ctx, x, []int8{1}))
		cancel()
		return nil
	}
	if err := work(); !errors.Is(err, context.Canceled) {
		t.Errorf("want Canceled, got %v", err)
	}
	if ds, err := nczarr.Create(t.Context(), path); err != nil {
		t.Error(err)
	} else {
		check(ds.Abort(t.Context()))
	}
}

// TestFailedCloseKeepsFlushed checks that a flushed dataset remains if Close fails.
func TestFailedCloseKeepsFlushed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zarr")
	ds := must(nczarr.Create(t.Context(), path))
	check(ds.SetAttr("a", 1))
	check(ds.Flush(t.Context()))
	check(ds.SetAttr("a", 2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ds.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("want Canceled, got %v", err)
	}
	again := must(nczarr.Open(t.Context(), path))
	if got := again.Attr("a").String(); got != "1" {
		t.Errorf("want attribute 1, got %s", got)
	}
	check(again.Close(t.Context()))
}

// TestFinishOnce checks that Finish does nothing after Close or Abort, and on a nil
// Dataset.
func TestFinishOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zarr")
	check(must(nczarr.Create(t.Context(), path)).Close(t.Context()))
	for _, end := range []func(*nczarr.Dataset, context.Context) error{(*nczarr.Dataset).Close, (*nczarr.Dataset).Abort} {
		ds := must(nczarr.Open(t.Context(), path, nczarr.Writable()))
		check(ds.SetAttr("a", 1))
		err := end(ds, t.Context())
		if ds.Finish(t.Context(), &err); err != nil {
			t.Errorf("Finish after Close or Abort: got %v", err)
		}
	}
	var none *nczarr.Dataset
	var err error
	if none.Finish(t.Context(), &err); err != nil {
		t.Errorf("Finish of a nil Dataset: got %v", err)
	}
}

// TestArrayPanics checks that an index out of range panics.
func TestArrayPanics(t *testing.T) {
	t.Parallel()
	a := nczarr.Array[int]{Data: []int{1, 2, 3, 4, 5, 6}, Shape: []int64{2, 3}, Dims: []string{"y", "x"}}
	for _, index := range [][]int64{{}, {1}, {0, 3}, {2, 0}, {-1, 0}, {0, 0, 0}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("index %v did not panic", index)
				}
			}()
			a.At(index...)
		}()
	}
	if got := a.Sub(1).At(2); got != 6 {
		t.Errorf("want 6, got %d", got)
	}
}

// TestSub checks that the result of Sub shares Data with the array, but not Shape and
// Dims.
func TestSub(t *testing.T) {
	t.Parallel()
	a := nczarr.Array[int]{Data: []int{1, 2, 3, 4, 5, 6}, Shape: []int64{2, 3}, Dims: []string{"y", "x"}}
	b := a.Sub(1)
	b.Data[0], b.Shape[0], b.Dims[0] = 7, 1, "z"
	if want, got := "{[1 2 3 7 5 6] [2 3] [y x]}", fmt.Sprint(a); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

// TestFill checks which fill values each type accepts.
func TestFill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ  nczarr.Type
		fill any
		want any // nil if DefineVar fails
	}{
		{nczarr.Int8, -1, int8(-1)},
		{nczarr.Int8, 200, nil},
		{nczarr.Int8, 1.5, nil},
		{nczarr.Uint8, -1, nil},
		{nczarr.Float32, -999, float32(-999)},
		{nczarr.Float32, 0.1, float32(0.1)},
		{nczarr.Float32, 1<<24 + 1, nil},
		{nczarr.Float64, float32(0.5), 0.5},
		{nczarr.Int64, 1e18, int64(1e18)},
		{nczarr.Int64, []int64{1, 2}, nil},
		{nczarr.Char, "x", "x"},
		{nczarr.Char, "xy", nil},
		{nczarr.String, "none", "none"},
		{nczarr.Float32, "none", nil},
		{nczarr.Float32, true, nil},
	} {
		ds := scratch()
		v, err := ds.DefineVar(t.Context(), "v", nczarr.VarSpec{Type: c.typ, Fill: c.fill})
		if c.want == nil {
			if !errors.Is(err, nczarr.ErrConvert) {
				t.Errorf("%s %v: want ErrConvert, got %v", c.typ, c.fill, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %v: unexpected error %v", c.typ, c.fill, err)
			continue
		}
		if got, ok := v.Fill(); !ok || got != c.want {
			t.Errorf("%s: want %v, got %v %v", c.typ, c.want, got, ok)
		}
	}
}

// TestAttributeConversions checks which values the attribute accessors reject.
func TestAttributeConversions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  error
		ints  []int64
	}{
		{nil, nczarr.ErrNoAttr, nil},
		{"5", nczarr.ErrBadType, nil},
		{[]string{"5"}, nczarr.ErrBadType, nil},
		{1.5, nczarr.ErrConvert, nil},
		{uint64(1 << 63), nczarr.ErrConvert, nil},
		{[]float32{1, 2}, nil, []int64{1, 2}},
		{uint8(255), nil, []int64{255}},
	} {
		got, err := nczarr.Attr{Name: "a", Value: c.value}.Int64s()
		if c.want == nil && (err != nil || len(got) != len(c.ints) || got[0] != c.ints[0]) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%v: got %v, %v", c.value, got, err)
		}
	}
	if s, err := (nczarr.Attr{Value: "x\x00"}).Strings(); err != nil || s[0] != "x" {
		t.Errorf("text with a trailing NUL: got %q, %v", s, err)
	}
	if _, err := (nczarr.Attr{Value: 1}).Strings(); !errors.Is(err, nczarr.ErrBadType) {
		t.Errorf("a number: want ErrBadType, got %v", err)
	}
}

// TestAttributesAreCopied checks that an attribute does not share memory with the
// caller's slice.
func TestAttributesAreCopied(t *testing.T) {
	t.Parallel()
	ds := scratch()
	numbers, words := []int32{1, 2}, []string{"a", "b"}
	check(ds.SetAttr("n", numbers))
	v := must(ds.DefineVar(t.Context(), "v", nczarr.VarSpec{Type: nczarr.Int8, Attrs: []nczarr.Attr{{Name: "w", Value: words}}}))
	numbers[0], words[0] = 9, "changed"
	must(v.Attr("w").Strings())[1] = "changed"
	if n, w := ds.Attr("n").String(), v.Attr("w").String(); n != "1, 2" || w != "a, b" {
		t.Errorf("want the original values, got %s; %s", n, w)
	}
}

// rawID is the type of the parameters of a RawCodec with a member "id".
type rawID struct {
	ID string `json:"id"`
}

// TestShards writes and reads a variable in shards.
func TestShards(t *testing.T) {
	t.Parallel()
	ds := must(nczarr.Create(t.Context(), filepath.Join(t.TempDir(), "s.zarr")+"#mode=zarr,v3"))
	defer func() {
		if err := ds.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	v := must(ds.DefineVar(t.Context(), "v", nczarr.VarSpec{Type: nczarr.Int16, Dims: []string{"x"}, Shape: []int64{10}, Chunks: []int64{2}, Shards: []int64{6}}))
	want := []int16{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	if err := nczarr.Write(t.Context(), v, want); err != nil {
		t.Fatal(err)
	}
	got, err := nczarr.Read[int16](t.Context(), v)
	if err != nil || !slices.Equal(got.Data, want) || !slices.Equal(v.Shards(), []int64{6}) {
		t.Errorf("got %v in shards of %v, %v", got, v.Shards(), err)
	}
	for _, c := range []struct{ shape, want []int64 }{{nil, []int64{6}}, {[]int64{}, nil}, {[]int64{4}, []int64{4}}} {
		dst := must(nczarr.Create(t.Context(), filepath.Join(t.TempDir(), "d.zarr")+"#mode=zarr,v3"))
		err := nczarr.Copy(t.Context(), dst.Group, ds.Group, &nczarr.CopyOptions{Shards: func(*nczarr.Var) []int64 { return c.shape }})
		if err != nil {
			t.Fatal(err)
		}
		if got := must(dst.Var("v")).Shards(); !slices.Equal(got, c.want) {
			t.Errorf("copy with %v: shards of %v, want %v", c.shape, got, c.want)
		}
		if err := dst.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestChunkRuns writes and reads a variable whose chunks differ in length.
func TestChunkRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.zarr")
	ds := must(nczarr.Create(t.Context(), path+"#mode=zarr,v3"))
	runs := [][]nczarr.ChunkRun{{{Len: 3, Count: 2}, {Len: 1, Count: 1}, {Len: 5, Count: 1}}, {{Len: 2}}}
	spec := nczarr.VarSpec{Type: nczarr.Int16, Dims: []string{"y", "x"}, Shape: []int64{10, 3}, ChunkRuns: runs}
	v := must(ds.DefineVar(t.Context(), "v", spec))
	want := make([]int16, 30)
	for i := range want {
		want[i] = int16(i)
	}
	if err := nczarr.Write(t.Context(), v, want); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		runs [][]nczarr.ChunkRun
		kind error
		says string
	}{
		{[][]nczarr.ChunkRun{{{Len: 3, Count: 3}}, {{Len: 2}}}, nczarr.ErrBadChunk, `"y" add up to 9, but its length is 10`},
		{[][]nczarr.ChunkRun{{{Len: 0, Count: 3}}, {{Len: 2}}}, nczarr.ErrBadChunk, "dimension 0: invalid chunk length 0"},
		{[][]nczarr.ChunkRun{{{Len: 2}}}, nczarr.ErrBadChunk, "has 1 dimensions instead of 2"},
	} {
		spec.ChunkRuns = bad.runs
		if _, err := ds.DefineVar(t.Context(), "w", spec); !errors.Is(err, bad.kind) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%v: want an error with %q, got %v", bad.runs, bad.says, err)
		}
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ds = must(nczarr.Open(t.Context(), path))
	v = must(ds.Var("v"))
	got, err := nczarr.Read[int16](t.Context(), v)
	if err != nil || !slices.Equal(got.Data, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got := v.ChunkRuns(); !slices.EqualFunc(got, runs, slices.Equal[[]nczarr.ChunkRun]) || !slices.Equal(v.Chunks(), []int64{5, 2}) {
		t.Errorf("got chunk runs %v and largest chunk shape %v", got, v.Chunks())
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCodecsAreDefined writes and reads a variable with each codec type.
func TestCodecsAreDefined(t *testing.T) {
	t.Parallel()
	ds := scratch()
	must(ds.DefineDim("x", 100))
	want := make([]float32, 100)
	for i := range want {
		want[i] = float32(i % 7)
	}
	for i, c := range []nczarr.Codec{
		nczarr.Zstd{},
		nczarr.Zstd{Level: 22, Checksum: true},
		nczarr.Zlib{},
		nczarr.Gzip{Level: 9},
		nczarr.LZ4{},
		nczarr.BZ2{},
		nczarr.Blosc{},
		nczarr.Blosc{Compressor: "zlib", Level: 1, Shuffle: 2, BlockSize: 1024},
		nczarr.Shuffle{},
		nczarr.Fletcher32{},
		nczarr.CRC32{},
		nczarr.BitRound{KeepBits: 10},
		nczarr.RawCodec{ID: "zlib", Params: map[string]int{"level": 0}},
		&nczarr.RawCodec{ID: "lzma"},
	} {
		v, err := ds.DefineVar(t.Context(), "v"+string(rune('a'+i)), nczarr.VarSpec{Type: nczarr.Float32, Dims: []string{"x"}, Codecs: []nczarr.Codec{c}})
		if err == nil {
			err = nczarr.Write(t.Context(), v, want)
		}
		if err != nil {
			t.Errorf("%T: unexpected error %v", c, err)
			continue
		}
		got := must(nczarr.Read[float32](t.Context(), v))
		for i := range want {
			if got.Data[i] != want[i] {
				t.Fatalf("%T: element %d is %v", c, i, got.Data[i])
			}
		}
	}
	for _, c := range []nczarr.Codec{nil, (*nczarr.Zstd)(nil), nczarr.RawCodec{ID: "zstd", Params: 3}, nczarr.Zlib{Level: 10}} {
		if _, err := ds.DefineVar(t.Context(), "w", nczarr.VarSpec{Type: nczarr.Float32, Codecs: []nczarr.Codec{c}}); !errors.Is(err, nczarr.ErrInvalid) {
			t.Errorf("%v: want ErrInvalid, got %v", c, err)
		}
	}
	for c, want := range map[nczarr.Codec]string{
		nczarr.Zstd{Level: 23}:                                  `codec "zstd": Level is 23, which is not in the range -131072 to 22`,
		nczarr.Zstd{Level: -1<<17 - 1}:                          `Level is -131073`,
		nczarr.Zlib{Level: 10}:                                  `codec "zlib": Level is 10, which is not in the range 1 to 9`,
		nczarr.Zlib{Level: -1}:                                  `Level is -1`,
		nczarr.Gzip{Level: -1}:                                  `codec "gzip": Level is -1`,
		nczarr.LZ4{Acceleration: -1}:                            `codec "lz4": Acceleration is -1`,
		nczarr.BZ2{Level: -1}:                                   `codec "bz2": Level is -1`,
		nczarr.Blosc{Level: 10}:                                 `codec "blosc": Level is 10`,
		nczarr.Blosc{Shuffle: 3}:                                `codec "blosc": Shuffle is 3, which is not in the range -1 to 2`,
		nczarr.Blosc{BlockSize: -1}:                             `codec "blosc": BlockSize is -1`,
		nczarr.Blosc{Compressor: "gzip"}:                        `blosclz, lz4, lz4hc, snappy, zlib, zstd`,
		nczarr.Shuffle{ElementSize: -4}:                         `codec "shuffle": ElementSize is -4`,
		nczarr.BitRound{KeepBits: 53}:                           `codec "bitround": KeepBits is 53, which is not in the range 0 to 52`,
		nczarr.BitRound{KeepBits: 24}:                           `24`,
		nczarr.RawCodec{ID: "zstd", Params: rawID{"zlib"}}:      `codec "zstd": the parameters specify the id "zlib" instead`,
		nczarr.RawCodec{Params: rawID{"zlib"}}:                  `codec "": the parameters specify the id "zlib" instead`,
		nczarr.RawCodec{ID: "zstd", Params: struct{ ID int }{}}: `unknown parameter "ID"`,
	} {
		_, err := ds.DefineVar(t.Context(), "w", nczarr.VarSpec{Type: nczarr.Float32, Dims: []string{"w"}, Shape: []int64{2}, Codecs: []nczarr.Codec{c}})
		if !errors.Is(err, nczarr.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%#v: want an error with %s, got %v", c, want, err)
		}
	}
	for _, c := range []nczarr.Codec{nczarr.Zstd{Level: -1 << 17}, nczarr.RawCodec{ID: "zstd", Params: rawID{"zstd"}}} {
		v := must(ds.DefineVar(t.Context(), fmt.Sprintf("%T", c), nczarr.VarSpec{Type: nczarr.Float32, Codecs: []nczarr.Codec{c}}))
		check(nczarr.Write(t.Context(), v, []float32{1}))
		must(ds.DefineVar(t.Context(), v.Name()+"2", nczarr.VarSpec{Type: nczarr.Float32, Codecs: v.Codecs()}))
	}
	if _, err := ds.DefineVar(t.Context(), "w", nczarr.VarSpec{Type: nczarr.Float32, Codecs: []nczarr.Codec{nczarr.RawCodec{ID: "zzz"}}}); !errors.Is(err, nczarr.ErrNoFilter) {
		t.Errorf("want ErrNoFilter, got %v", err)
	}
}
