package dataset_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// oddTexts are strings that storage with a fixed length, C strings or JSON may corrupt.
var oddTexts = []string{"", "a", "\x00", "a\x00b\x00", "日本", strings.Repeat("long ", 60), `"\`, "\u2028", "NIL"}

// Slabs of strings of variable length are compared with a plain array, for partial
// chunks, strides, ranks, numbers of workers and repeated writes.
func TestVarLenAgainstModel(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		o := memory(vlen.Provider(), invert{})
		o.Workers = rapid.IntRange(1, 3).Draw(rt, "workers")
		ds, err := createURL(ctx, "mem:m#mode=zarr", &dataset.CreateOptions{Options: *o})
		if err != nil {
			rt.Fatal(err)
		}
		spec := &dataset.VarSpec{Type: dtype.NCString, Fill: []string{"none"}}
		if rapid.Bool().Draw(rt, "coded") {
			spec.Codecs = []zarr.CodecSpec{{ID: "invert"}}
		}
		var shape []int64
		for d := range rapid.IntRange(0, 3).Draw(rt, "rank") {
			n := rapid.Int64Range(1, 6).Draw(rt, "len")
			x, err := ds.Root().DefineDim(string(rune('a'+d)), n, false)
			if err != nil {
				rt.Fatal(err)
			}
			shape, spec.Dims = append(shape, n), append(spec.Dims, x)
			spec.Chunks = append(spec.Chunks, rapid.Int64Range(1, 7).Draw(rt, "chunk"))
		}
		v, err := ds.Root().DefineVar(ctx, "v", spec)
		if err != nil {
			rt.Fatal(err)
		}
		m := newModel(shape, 0) // indexes of texts; 0 is the fill value
		texts := append([]string{"none"}, oddTexts...)
		for range rapid.IntRange(1, 4).Draw(rt, "writes") {
			sel := drawSelection(rt, shape)
			var src []string
			m.each(sel, func(at int64) {
				m.data[at] = rapid.Int32Range(0, int32(len(texts)-1)).Draw(rt, "text") // the list of texts is short
				src = append(src, texts[m.data[at]])
			})
			if err := v.Write(ctx, sel, src); err != nil {
				rt.Fatal(err)
			}
		}
		sel := drawSelection(rt, shape)
		got, err := dataset.Get[string](ctx, v, sel)
		if err != nil {
			rt.Fatal(err)
		}
		k := 0
		m.each(sel, func(at int64) {
			if got[k] != texts[m.data[at]] {
				rt.Errorf("element %d: want %q, got %q", at, texts[m.data[at]], got[k])
			}
			k++
		})
	})
}

// Object arrays written by numcodecs can be read, in F order as well. Damaged chunks
// and arrays with unsupported objects cause errors that name them.
func TestObjectArrays(t *testing.T) {
	t.Parallel()
	const stored = "\x04\x00\x00\x00\x01\x00\x00\x00a\x02\x00\x00\x00\xc3\xa9\x00\x00\x00\x00\x03\x00\x00\x00x\x00y"
	square := func(codecs, order, fill string) string {
		return strings.ReplaceAll(document("|O", fill, order, codecs), "[2]", "[2, 2]")
	}
	o := memory(vlen.Provider())
	store(t, o, "o", map[string]string{
		".zgroup":     `{"zarr_format": 2}`,
		"c/.zarray":   square(`[{"id": "vlen-utf8"}]`, "C", `""`),
		"c/0.0":       stored,
		"f/.zarray":   square(`[{"id": "vlen-utf8"}]`, "F", "0"),
		"f/0.0":       stored,
		"b/.zarray":   square(`[{"id": "vlen-bytes"}]`, "C", `""`),
		"b/0.0":       strings.Replace(stored, "\xc3\xa9", "\xff\xfe", 1),
		"no/.zarray":  square(`[{"id": "vlen-utf8"}]`, "C", "null"),
		"cut/.zarray": square(`[{"id": "vlen-utf8"}]`, "C", `""`),
		"cut/0.0":     stored[:20],
		"bad/.zarray": square(`[{"id": "vlen-utf8"}]`, "C", `""`),
		"bad/0.0":     strings.Replace(stored, "\xc3\xa9", "\xff\xfe", 1),
		"p/.zarray":   square(`[{"id": "pickle"}]`, "C", `""`),
		"a/.zarray":   square(`[{"id": "vlen-array", "dtype": "<i4"}]`, "C", "null"),
		"u/.zarray":   square(`null`, "C", `""`),
	})
	ds := open(t, "mem:o#mode=zarr", o)
	expect(t, ds, "c", []string{"a", "é", "", "x\x00y"})
	expect(t, ds, "f", []string{"a", "", "é", "x\x00y"})
	expect(t, ds, "b", []string{"a", "\xff\xfe", "", "x\x00y"})
	expect(t, ds, "no", []string{"", "", "", ""})
	for _, name := range []string{"cut", "bad"} {
		v := variable(t, ds, name)
		if _, err := dataset.Get[string](t.Context(), v, v.All()); !errors.Is(err, ncerr.ErrCorrupt) || !strings.Contains(err.Error(), "/"+name+"/0.0") {
			t.Errorf("%s: want ErrCorrupt, got %v", name, err)
		}
	}
	reasons := map[string]string{"/p": "pickle", "/a": "vlen-array", "/u": "have no codec"}
	for _, p := range ds.Problems() {
		if why := reasons[p.Path]; why == "" || !errors.Is(p.Err, ncerr.ErrUnsupported) || !strings.Contains(p.Err.Error(), why) {
			t.Errorf("%s: unexpected problem %v", p.Path, p.Err)
		}
		delete(reasons, p.Path)
	}
	if len(reasons) > 0 {
		t.Errorf("missing problems: %v", reasons)
	}
}

// own provides the codec vlen-utf8 with another description.
type own struct{ desc codecdriver.Description }

func (p own) Describe() []codecdriver.Description { return []codecdriver.Description{p.desc} }

func (own) Open(_ string, _ json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	return vlen.Provider().Open("vlen-utf8", nil, in)
}

// A codec is accepted for object arrays if its description declares that it encodes
// objects. Other codecs and unknown ones are refused.
func TestObjectCodecOfOthers(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider(), own{codecdriver.Description{ID: "says", Transform: codecdriver.ArrayToBytes, Objects: codecdriver.Text}}, own{codecdriver.Description{ID: "mute"}})
	ds := create(t, "mem:m#mode=zarr", o)
	x := dim(t, ds.Root(), "x", 2, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{x}, Codecs: []zarr.CodecSpec{{ID: "says"}}})
	write(t, v, v.All(), []string{"a", "bc"})
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if doc := object(t, o, "m", "v/.zarray"); !strings.Contains(doc, `"compressor": null, "filters": [{"id": "says"}]`) {
		t.Errorf("want the filter of the test in %s", doc)
	}
	expect(t, open(t, "mem:m#mode=zarr", o), "v", []string{"a", "bc"})
	store(t, o, "o", map[string]string{
		".zgroup":   `{"zarr_format": 2}`,
		"m/.zarray": document("|O", `""`, "C", `[{"id": "mute"}]`),
		"n/.zarray": document("|O", `""`, "C", `[{"id": "nobody"}]`),
	})
	ds = open(t, "mem:o#mode=zarr", o)
	for name, kind := range map[string]ncerr.Kind{"m": ncerr.ErrUnsupported, "n": ncerr.ErrNoFilter} {
		if err := variable(t, ds, name).Available(t.Context()); ncerr.KindOf(err) != kind {
			t.Errorf("%s: want %v, got %v", name, kind, err)
		}
	}
}

// Text that is not UTF-8 is refused for strings of variable length, and nothing is
// written. Bytes of variable length accept it.
func TestVarLenRefuses(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	ds := create(t, "mem:m#mode=zarr", o)
	x := dim(t, ds.Root(), "x", 2, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{x}})
	if v.MaxStrLen() != 0 || v.DType().Kind != dtype.String {
		t.Errorf("want strings of variable length in pure Zarr, got %s", v.DType())
	}
	if err := v.Write(t.Context(), v.All(), []string{"new", "\xff"}); !errors.Is(err, ncerr.ErrConvert) || !strings.Contains(err.Error(), "element 1") {
		t.Errorf("want ErrConvert for element 1, got %v", err)
	}
	expect(t, ds, "v", []string{"", ""})
	b := define(t, ds.Root(), "b", &dataset.VarSpec{Type: dtype.NCString, DType: dtype.Type{Kind: dtype.VlenBytes}, Dims: []*dataset.Dim{x}})
	write(t, b, b.All(), []string{"\xff\x00", "ok"})
	expect(t, ds, "b", []string{"\xff\x00", "ok"})
}

// A chunk whose strings exceed the limit is refused before it is written, and cannot be
// read.
func TestVarLenLimit(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	small := *o
	small.Limits.MaxChunk = 100
	ds := create(t, "mem:m#mode=zarr", &small)
	x := dim(t, ds.Root(), "x", 2, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{x}})
	write(t, v, v.All(), []string{strings.Repeat("x", 80), ""})
	if err := v.Write(t.Context(), v.All(), []string{strings.Repeat("x", 90), ""}); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("want ErrLimit, got %v", err)
	}
	expect(t, ds, "v", []string{strings.Repeat("x", 80), ""})
	closeDataset(t, ds)
	small.Limits.MaxChunk = 60
	again := open(t, "mem:m#mode=zarr", &small)
	v = variable(t, again, "v")
	if _, err := dataset.Get[string](t.Context(), v, v.All()); err == nil {
		t.Error("a chunk above the limit was read")
	}
}

// Copies preserve every string. The fixed length is that of the longest string, and
// strings that fixed length cannot represent cause an error.
func TestCopyOfStrings(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	src := create(t, "mem:src#mode=zarr", o)
	x := dim(t, src.Root(), "x", 3, false)
	v := define(t, src.Root(), "v", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{x}, Chunks: []int64{2}})
	want := []string{"", "日本", strings.Repeat("y", 200)}
	write(t, v, v.All(), want)
	for name, c := range map[string]struct {
		mode string
		how  dataset.StringStorage
		size int // 0 means variable length
	}{
		"kept": {"zarr", dataset.StringsAuto, 0}, "nczarr": {"nczarr", dataset.StringsAuto, 200},
		"fixed": {"zarr", dataset.StringsFixed, 200}, "requested": {"nczarr", dataset.StringsVarLen, 0},
	} {
		dst := copyStrings(t, src, "mem:"+name+"#mode="+c.mode, o, c.how)
		expect(t, dst, "v", want)
		if got := variable(t, dst, "v").MaxStrLen(); got != c.size {
			t.Errorf("%s: got length %d, want %d", name, got, c.size)
		}
		expect(t, copyStrings(t, dst, "mem:back-"+name+"#mode=zarr", o, dataset.StringsVarLen), "v", want)
	}
	write(t, v, chunk.Selection{Start: []int64{0}, Count: []int64{1}}, []string{"ends in\x00"})
	dst := create(t, "mem:nul", o)
	if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), nil); !errors.Is(err, ncerr.ErrConvert) {
		t.Errorf("a NUL at the end: want ErrConvert, got %v", err)
	}
}

func copyStrings(t *testing.T, src *dataset.Dataset, url string, o *dataset.Options, how dataset.StringStorage) *dataset.Dataset {
	t.Helper()
	dst, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Strings: how})
	if err != nil {
		t.Fatal(err)
	}
	if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), nil); err != nil {
		t.Fatalf("copy to %s: %v", url, err)
	}
	return dst
}

// Time types of Zarr are preserved in pure Zarr and shown with the attributes that CF
// readers need. NCZarr stores the integers with these attributes.
func TestTimes(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "t", map[string]string{
		".zgroup":         `{"zarr_format": 2}`,
		"ns/.zarray":      document(">M8[ns]", `"NaT"`, "C", "null"),
		"ns/0":            "\x00\x00\x00\x00\x00\x00\x00\x05\x80\x00\x00\x00\x00\x00\x00\x00",
		"ten/.zarray":     document("<M8[10ms]", "0", "C", "null"),
		"week/.zarray":    document("<m8[W]", "0", "C", "null"),
		"month/.zarray":   document("<M8[M]", "0", "C", "null"),
		"generic/.zarray": document("<m8", "0", "C", "null"),
		"own/.zarray":     document("<M8[s]", "0", "C", "null"),
		"own/.zattrs":     `{"units": "fortnights"}`,
	})
	units := map[string]string{
		"ns": "nanoseconds since 1970-01-01", "ten": "milliseconds since 1970-01-01", "week": "days",
		"month": "calendar months since 1970-01-01", "generic": "", "own": "fortnights",
	}
	check := func(ds *dataset.Dataset, stored bool) {
		t.Helper()
		for name, want := range units {
			v := variable(t, ds, name)
			a, err := v.Attr("units")
			if text, _ := a.Value.(string); text != want || (err == nil) != (want != "") {
				t.Errorf("%s: unexpected units %q, %v", name, text, err)
			}
			if a, err := v.Attr("_FillValue"); err != nil || !slices.Equal(a.Value.([]int64), []int64{-1 << 63}) {
				t.Errorf("%s: unexpected _FillValue %v, %v", name, a, err)
			}
			if is := v.DType().Kind == dtype.Int; is != stored {
				t.Errorf("%s: unexpected element type %s", name, v.DType())
			}
		}
		for name, want := range map[string]float64{"ten": 10, "week": 7} {
			if a, err := variable(t, ds, name).Attr("scale_factor"); err != nil || a.Value.([]float64)[0] != want {
				t.Errorf("%s: unexpected scale_factor %v, %v", name, a, err)
			}
		}
		expect(t, ds, "ns", []int64{5, -1 << 63})
		expect(t, ds, "ten", []int64{0, 0})
	}
	src := open(t, "mem:t#mode=zarr", o)
	check(src, false)
	pure := copyOf(t, src, "mem:pure#mode=zarr", o, nil)
	check(pure, false)
	if got := variable(t, pure, "ns").DType().String(); got != ">M8[ns]" {
		t.Errorf("want element type >M8[ns], got %s", got)
	}
	check(copyOf(t, pure, "mem:nc#mode=nczarr", o, nil), true)
	up := update(t, "mem:pure#mode=zarr", o)
	if err := variable(t, up, "ns").SetAttr(dataset.Attr{Name: "note", Type: dtype.NCChar, Value: "x"}); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, up)
	if doc := object(t, o, "pure", "ns/.zattrs"); strings.Contains(doc, "units") || !strings.Contains(doc, "note") {
		t.Errorf("want only the attribute note in %s", doc)
	}
}

// object returns one object of a store in memory.
func object(t *testing.T, o *dataset.Options, name, key string) string {
	t.Helper()
	opener, err := o.Registry.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: name, Mode: driver.Read})
	if err != nil {
		t.Fatal(err)
	}
	body, _, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
