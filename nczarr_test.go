package nczarr_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr"
	core "github.com/seed-695719ce/nczarr/core/nczarr"
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
		t.Errorf("got %v", err)
	}
	if _, err := nczarr.Open(t.Context(), "https://user:secret@host/x", nczarr.WithWorkers(0)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// TestWithOptions checks that the options of core/nczarr are used, that later options
// override them, and that the caller's options do not change.
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
}

// TestText reads strings from a Char variable: one, several, and parts of them.
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
		t.Errorf("one string for two elements: %v", err)
	}
	one := must(ds.DefineVar(t.Context(), "one", nczarr.VarSpec{Type: nczarr.Char}))
	check(nczarr.Write(t.Context(), one, []string{"x"}))
	if got := must(nczarr.Read[string](t.Context(), one)).At(); got != "x" {
		t.Errorf("got %q", got)
	}
}

// TestHugeText checks that text larger than memory, and a wrong number of strings, are
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
		t.Errorf("got %v", err)
	}
	one := text("b", 1, nczarr.Unlimited)
	if err := nczarr.Write(t.Context(), one, []string{"x"}, nczarr.All, nczarr.Span(0, 1<<50)); !errors.Is(err, nczarr.ErrLimit) {
		t.Errorf("got %v", err)
	}
	two := text("c", 2, 3)
	for _, list := range [][]string{nil, {"x"}, {"x", "y", "z"}} {
		if err := nczarr.Write(t.Context(), two, list); !errors.Is(err, nczarr.ErrInvalid) || !strings.Contains(err.Error(), "strings for 2 elements") {
			t.Errorf("got %v", err)
		}
	}
	if err := nczarr.Write(t.Context(), two, []string{"x"}, nczarr.At(0), nczarr.Span(0, 1<<46)); !errors.Is(err, nczarr.ErrRange) {
		t.Errorf("got %v", err)
	}
}

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
				t.Errorf("got %v", p)
			}
		}()
		_ = work()
	}()
	if _, err := nczarr.Open(t.Context(), path); !errors.Is(err, nczarr.ErrNoDataset) {
		t.Errorf("got %v", err)
	}
}

// TestFinishReportsClose checks that Finish returns the error of Close, and that a
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
		t.Errorf("got %v", err)
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
		t.Errorf("got %v", err)
	}
	again := must(nczarr.Open(t.Context(), path))
	if got := again.Attr("a").String(); got != "1" {
		t.Errorf("got %s", got)
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
			t.Errorf("got %v", err)
		}
	}
	var none *nczarr.Dataset
	var err error
	if none.Finish(t.Context(), &err); err != nil {
		t.Errorf("got %v", err)
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
		t.Errorf("got %d", got)
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
				t.Errorf("%s %v: got %v", c.typ, c.fill, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %v: %v", c.typ, c.fill, err)
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
		t.Errorf("got %q, %v", s, err)
	}
	if _, err := (nczarr.Attr{Value: 1}).Strings(); !errors.Is(err, nczarr.ErrBadType) {
		t.Errorf("got %v", err)
	}
}

// TestAttributesAreCopied checks that an attribute shares no memory with the slice of
// the caller.
func TestAttributesAreCopied(t *testing.T) {
	t.Parallel()
	ds := scratch()
	numbers, words := []int32{1, 2}, []string{"a", "b"}
	check(ds.SetAttr("n", numbers))
	v := must(ds.DefineVar(t.Context(), "v", nczarr.VarSpec{Type: nczarr.Int8, Attrs: []nczarr.Attr{{Name: "w", Value: words}}}))
	numbers[0], words[0] = 9, "changed"
	must(v.Attr("w").Strings())[1] = "changed"
	if n, w := ds.Attr("n").String(), v.Attr("w").String(); n != "1, 2" || w != "a, b" {
		t.Errorf("got %s; %s", n, w)
	}
}

// TestCodecsAreDefined writes and reads a variable with each typed codec.
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
			t.Errorf("%T: %v", c, err)
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
			t.Errorf("%v: got %v", c, err)
		}
	}
	if _, err := ds.DefineVar(t.Context(), "w", nczarr.VarSpec{Type: nczarr.Float32, Codecs: []nczarr.Codec{nczarr.RawCodec{ID: "zzz"}}}); !errors.Is(err, nczarr.ErrNoFilter) {
		t.Errorf("got %v", err)
	}
}
