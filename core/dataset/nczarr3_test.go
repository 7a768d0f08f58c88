package dataset_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/teststore"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// draft returns a dataset in the form of the draft of NCZarr 3: netcdf-c 2ed1b28,
// docs/nczarr.md, appendix E. No release of netcdf-c writes it.
func draft() map[string]string {
	group := func(dims, arrays, subs, more string) string {
		return `{"zarr_format": 3, "node_type": "group", "attributes": {` + more + `"_nczarr_group": {"dimensions": [` + dims + `], "arrays": [` + arrays + `], "subgroups": [` + subs + `]}}}`
	}
	array := func(shape, typ, fill, refs, more string) string {
		return `{"zarr_format": 3, "node_type": "array", "shape": ` + shape + `, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": ` + shape + `}}, "chunk_key_encoding": {"name": "default"},
			"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "data_type": "` + typ + `", "fill_value": ` + fill + `, "attributes": {"_nczarr_array": {"dimension_references": ` + refs + more + `}}}`
	}
	return map[string]string{
		"zarr.json": group(`{"name": "t", "size": 2, "unlimited": 1}, {"name": "n", "size": 3, "unlimited": 0}`, `"c", "s", "one"`, `"g"`,
			`"level": 5, "_nczarr_attrs": {"attribute_types": [{"name": "level", "configuration": {"type": "<i2"}}]}, "_nczarr_superblock": {"version": "3.0.0", "format": 3}, `),
		"c/zarr.json":   array("[2, 3]", "uint8", "45", `["/t", "/n"]`, `, "type_alias": "char"`),
		"c/c/0/0":       "abcdef",
		"s/zarr.json":   array("[2]", "r24", "[0, 0, 0]", `["/t"]`, `, "type_alias": "string"`),
		"s/c/0":         "ab\x00\xff\x00\x00",
		"one/zarr.json": array("[]", "int16", "7", "[]", ""),
		"g/zarr.json":   group(`{"name": "n", "size": 1, "unlimited": 0}`, `"v"`, ``, ""),
		"g/v/zarr.json": array("[1, 2]", "int16", "7", `["/g/n", "/t"]`, ""),
		"g/v/c/0/0":     "\x01\x00\x02\x00",
	}
}

func TestDraftOfNCZarr3(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "d", draft())
	for _, url := range []string{"mem:d", "mem:d#mode=nczarr", "mem:d#mode=nczarr,v3"} {
		ds := open(t, url, o)
		if ds.Layout() != zarr.LayoutNCZarr3 || len(ds.Problems()) > 0 {
			t.Fatalf("%s: want NCZarr 3 without problems, got %v, %v", url, ds.Layout(), ds.Problems())
		}
		expect(t, ds, "c", []uint8("abcdef"))
		expect(t, ds, "s", []string{"ab", "\xff"})
		expect(t, ds, "one", []int16{7})
		expect(t, ds, "g/v", []int16{1, 2})
		c, v := variable(t, ds, "c"), variable(t, ds, "g/v")
		n, d := c.Dims(), v.Dims()
		if c.Type() != dtype.NCChar || n[0] != d[1] || !n[0].Unlimited() || n[1] == d[0] || d[0].Path() != "/g/n" || n[1].Unlimited() || len(variable(t, ds, "one").Dims()) != 0 {
			t.Errorf("%s: want char and the dimensions of the draft, got %v, %v, %v", url, c.Type(), n, d)
		}
		if got := attr(t, ds.Root().Attrs(), "level"); fmt.Sprint(got) != "[5]" || len(ds.Root().Attrs()) != 1 || ds.Root().Attrs()[0].Type != dtype.NCShort {
			t.Errorf("%s: want the attribute level with the short 5, got %v", url, ds.Root().Attrs())
		}
	}
	ds := open(t, "mem:d#mode=zarr", o)
	v := variable(t, ds, "c")
	if ds.Layout() != zarr.LayoutV3 || v.Type() != dtype.NCUByte || v.Dims()[0].Unlimited() || !v.Dims()[0].Anonymous() || len(v.Attrs()) != 0 || len(ds.Root().Attrs()) != 1 {
		t.Errorf("as pure Zarr: want ubyte, anonymous dimensions and no NCZarr attributes, got %v, %v, %v, %v", ds.Layout(), v.Type(), v.Attrs(), ds.Root().Attrs())
	}
	ds = update(t, "mem:d#mode=zarr", o)
	if err := ds.Root().SetAttr(dataset.Attr{Name: "a", Type: dtype.NCInt, Value: []int32{1}}); !errors.Is(err, ncerr.ErrUnsupported) {
		t.Errorf("changed as pure Zarr: want ErrUnsupported, got %v", err)
	}
}

// TestArrayOfTheDraft checks that an array that is opened by its own URL has the types
// and dimension names of NCZarr 3.
func TestArrayOfTheDraft(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := draft()
	store(t, o, "c", map[string]string{"zarr.json": objects["c/zarr.json"], "c/0/0": "abcdef"})
	ds := update(t, "mem:c", o)
	v := ds.Root().Vars()[0]
	if v.Type() != dtype.NCChar || v.Dims()[0].Name() != "t" || v.Dims()[1].Name() != "n" {
		t.Errorf("want char and the dimensions t and n, got %v, %v", v.Type(), v.Dims())
	}
	if err := v.SetAttr(dataset.Attr{Name: "a", Type: dtype.NCInt, Value: []int32{1}}); !errors.Is(err, ncerr.ErrUnsupported) {
		t.Errorf("want ErrUnsupported, got %v", err)
	}
}

// TestUpdateOfTheDraft checks that a dataset in the form of the draft can be updated, and
// that the update keeps the forms of the draft and the members that other software added.
func TestUpdateOfTheDraft(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	objects := draft()
	objects["zarr.json"] = strings.Replace(objects["zarr.json"], `"level"`, `"odd": {"a": null}, "level"`, 1)
	objects["c/zarr.json"] = strings.Replace(objects["c/zarr.json"], `"type_alias"`, `"by": "us", "type_alias"`, 1)
	store(t, o, "d", objects)
	ds := update(t, "mem:d", o)
	write(t, variable(t, ds, "s"), slab(2, 1), []string{"xyz"})
	setText(t, variable(t, ds, "c").SetAttr, "note", "n")
	g, err := ds.Root().Group("g")
	if err != nil {
		t.Fatal(err)
	}
	top, err := ds.Root().Dim("t")
	if err != nil {
		t.Fatal(err)
	}
	w := define(t, g, "w", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{top}, Attrs: []dataset.Attr{{Name: "_FillValue", Type: dtype.NCString, Value: []string{"-"}}}})
	write(t, w, slab(1, 1), []string{"long text"})
	if err := w.Write(t.Context(), slab(0, 1), []string{"\xff"}); !errors.Is(err, ncerr.ErrConvert) || !strings.Contains(err.Error(), "/g/w") {
		t.Errorf("text that is not UTF-8: want ErrConvert, got %v", err)
	}
	closeDataset(t, ds)
	ds = open(t, "mem:d", o)
	if p := ds.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	expect(t, ds, "s", []string{"ab", "\xff", "xyz"})
	expect(t, ds, "c", []uint8("abcdef---"))
	expect(t, ds, "g/w", []string{"-", "long text", "-"})
	expect(t, ds, "g/v", []int16{1, 2, 7})
	for key, want := range map[string]string{
		"zarr.json":   `"odd":{"a":null}`,
		"c/zarr.json": `"_nczarr_array":{"dimension_references":["/t","/n"],"by":"us","type_alias":"char"}`,
		"s/zarr.json": `"data_type":"r24"`,
		"g/zarr.json": `"arrays":["v","w"]`,
	} {
		if got := stored(t, ds, key); !strings.Contains(got, want) {
			t.Errorf("%s: want %s, got %s", key, want, got)
		}
	}
	if got := stored(t, ds, "zarr.json"); !strings.Contains(got, `{"name":"t","size":3,"unlimited":1}`) {
		t.Errorf("want the dimension t with length 3, got %s", got)
	}
}

// TestHostileNCZarr3 checks that contradictory metadata excludes only the part that it
// describes, and that the reason contains the name of that part.
func TestHostileNCZarr3(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, old, new string
		path, says    string
	}{
		"no dimension":      {"g/v/zarr.json", `"/g/n"`, `"/g/m"`, "/g/v", `no group declares the dimension "/g/m"`},
		"other length":      {"g/v/zarr.json", `"/g/n"`, `"/n"`, "/g/v", `has length 1 along dimension "/n", which has length 3`},
		"too few":           {"g/v/zarr.json", `"/g/n", `, ``, "/g/v", "expected the names of 2 dimensions"},
		"references a text": {"g/v/zarr.json", `["/g/n", "/t"]`, `"/g/n"`, "/g/v", "dimension_references: expected an array"},
		"wrong alias":       {"g/v/zarr.json", `["/g/n", "/t"]`, `["/g/n", "/t"], "type_alias": "char"`, "/g/v", `"char" does not apply to the data type "int16"`},
		"declared twice":    {"zarr.json", `{"name": "n", "size": 3, "unlimited": 0}`, `{"name": "n", "size": 3}, {"name": "n", "size": 4}`, "/n", `dimension "n" is declared twice`},
		"no length":         {"g/zarr.json", `"size": 1`, `"size": -1`, "/g", `dimension "n": expected a length`},
		"missing array":     {"zarr.json", `"one"`, `"one", "two"`, "/two", "this document is missing"},
		"missing group":     {"zarr.json", `["g"]`, `["g", "h"]`, "/h", "has no documents"},
		"array as group":    {"zarr.json", `["g"]`, `["g", "c"]`, "/c", "expected a group, found an array"},
		"types of a text":   {"g/v/zarr.json", `"_nczarr_array"`, `"_nczarr_attrs": {"attribute_types": "x"}, "_nczarr_array"`, "/g/v", "attribute_types: expected an array"},
	} {
		o := memory()
		objects := draft()
		changed := strings.Replace(objects[c.key], c.old, c.new, 1)
		if changed == objects[c.key] {
			t.Fatalf("%s: the document is unchanged", name)
		}
		objects[c.key] = changed
		store(t, o, "d", objects)
		ds := open(t, "mem:d", o)
		if !slices.ContainsFunc(ds.Problems(), func(p dataset.Problem) bool { return p.Path == c.path && strings.Contains(p.Err.Error(), c.says) }) {
			t.Errorf("%s: want %s with %q, got %v", name, c.path, c.says, ds.Problems())
		}
		expect(t, ds, "one", []int16{7})
	}
	for says, old := range map[string][2]string{
		`NCZarr version "9.0.0" in the superblock is not supported`: {`"3.0.0"`, `"9.0.0"`},
		"format: expected 3, found 2":                               {`"format": 3`, `"format": 2`},
		"the superblock has no version":                             {`"version": "3.0.0", `, ``},
	} {
		o := memory()
		objects := draft()
		objects["zarr.json"] = strings.Replace(objects["zarr.json"], old[0], old[1], 1)
		store(t, o, "d", objects)
		if _, err := openURL(t.Context(), "mem:d", o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
		expect(t, open(t, "mem:d#mode=zarr", o), "one", []int16{7})
	}
}

// TestNCZarr3KeepsUnlisted checks that consolidated metadata keeps the nodes that other
// software added and that NCZarr's lists do not name, as long as they exist.
func TestNCZarr3KeepsUnlisted(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := draft()
	extra := v3Array("")
	objects["zarr.json"] = strings.TrimSuffix(objects["zarr.json"], "}") + `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {"extra": ` + extra + `, "gone": ` + extra + `}}}`
	objects["extra/zarr.json"] = extra
	store(t, o, "d", objects)
	ds := update(t, "mem:d", o)
	setText(t, variable(t, ds, "g/v").SetAttr, "note", "n")
	closeDataset(t, ds)
	verify := *o
	verify.UseConsolidated = dataset.ConsolidatedVerify
	ds = open(t, "mem:d", &verify)
	all, err := zarr.ParseInline(zarr.Docs{"zarr.json": []byte(stored(t, ds, "zarr.json"))})
	if err != nil || len(all) != 7 || all["extra"] == nil || len(ds.StaleDocuments()) > 0 {
		t.Errorf("want 7 nodes, none of them stale, got %d, stale %q, %v", len(all), ds.StaleDocuments(), err)
	}
	if list, err := ds.Unlisted(t.Context()); err != nil || !teststore.OnServer() && !slices.Equal(list, []string{"/extra"}) {
		t.Errorf("unlisted: want /extra, got %q, %v", list, err)
	}
}

// TestNCZarr3Copies copies a dataset from NCZarr 2 to other layouts and back, each time
// by way of NCZarr 3. Dimensions, types, attributes and values stay the same, if the
// layout in between supports them.
func TestNCZarr3Copies(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	src := create(t, "mem:src", o)
	setText(t, src.Root().SetAttr, "title", `{"a": [1]}`)
	for _, a := range []dataset.Attr{
		{Name: "word", Type: dtype.NCString, Value: []string{"NaN"}},
		{Name: "one", Type: dtype.NCDouble, Value: []float64{1}},
		{Name: "b", Type: dtype.NCByte, Value: []int8{1, -1}},
		{Name: "inf", Type: dtype.NCFloat, Value: []float32{float32(math.Inf(1))}},
		{Name: "none", Type: dtype.NCUInt, Value: []uint32{}},
		{Name: "u", Type: dtype.NCUInt64, Value: []uint64{1<<64 - 1}},
	} {
		if err := src.Root().SetAttr(a); err != nil {
			t.Fatal(err)
		}
	}
	time, x := dim(t, src.Root(), "time", 2, true), dim(t, src.Root(), "x", 1, false)
	g, err := src.Root().DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	y := dim(t, g, "x", 2, false)
	values := map[string]any{
		"c": []uint8("abcd"), "s": []string{"", "ä", "long text", "d"}, "f": []float32{1, -9999, 3, 4}, "b": []int8{-1, 2, 3, 4}, "u": []uint64{1, 2, 3, 1<<64 - 1}, "n": []uint8{1, 2, 3, 255},
	}
	for name, fill := range map[string]any{"c": "-", "s": []string{"none"}, "f": []float32{-9999}, "b": []int8{-9}, "u": []uint64{1 << 63}, "n": nil} {
		spec := dataset.VarSpec{Type: dtype.NCUByte, Dims: []*dataset.Dim{time, y}, MaxStrLen: 20, Chunks: []int64{1, 2}}
		if fill != nil {
			spec.Type, _ = dtype.TypeOf(fill)
			spec.Attrs = []dataset.Attr{{Name: "_FillValue", Type: spec.Type, Value: fill}}
		}
		v := define(t, g, name, &spec)
		write(t, v, v.All(), values[name])
	}
	one := define(t, src.Root(), "one", &dataset.VarSpec{Type: dtype.NCShort, Attrs: []dataset.Attr{{Name: "units", Type: dtype.NCChar, Value: "m"}}})
	write(t, one, one.All(), []int16{5})
	define(t, src.Root(), "alone", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
	closeDataset(t, src)
	src = open(t, "mem:src", o)
	want := described(t, src, true)
	for name, c := range layouts {
		if c.layout == zarr.LayoutUpper || c.layout == zarr.LayoutV1 { // they lack some names of dimensions
			continue
		}
		once := copyOf(t, src, "mem:once"+name+"#mode=nczarr,v3", o, nil)
		if got := described(t, once, true); got != want {
			t.Errorf("want %s\ngot  %s", want, got)
		}
		between := copyOf(t, once, "mem:between"+name+"#mode="+c.mode, o, &c.layout)
		again := copyOf(t, between, "mem:again"+name+"#mode=nczarr,v3", o, nil)
		if got, want := described(t, again, c.layout.KeepsUnlimited()), described(t, src, c.layout.KeepsUnlimited()); c.layout.NCZarr() && got != want {
			t.Errorf("%s: want %s\ngot  %s", name, want, got)
		}
		for path, list := range values {
			expectAny(t, again, "g/"+path, list)
		}
	}
}

// described returns a description of everything that a dataset contains, except values.
// unlimited specifies whether to include which dimensions are unlimited.
func described(t *testing.T, ds *dataset.Dataset, unlimited bool) string {
	t.Helper()
	var out []string
	dims := func(list []*dataset.Dim) (text string) {
		for _, d := range list {
			text += fmt.Sprintf(" %s=%d,%t", d.Path(), d.Len(), d.Unlimited() && unlimited)
		}
		return text
	}
	attrs := func(list []dataset.Attr) (text string) {
		for _, a := range list {
			if a.Name != "_nczarr_maxstrlen" {
				text += fmt.Sprintf(" %s %v %q", a.Name, a.Type, fmt.Sprint(a.Value))
			}
		}
		return text
	}
	var walk func(g *dataset.Group)
	walk = func(g *dataset.Group) {
		out = append(out, "group "+g.Path()+dims(g.Dims())+attrs(g.Attrs()))
		for _, v := range g.Vars() {
			fill, ok := v.Fill()
			out = append(out, fmt.Sprintf("%s %v%s%s %v %v %v", v.Path(), v.Type(), dims(v.Dims()), attrs(v.Attrs()), fill, ok, v.Chunks()))
		}
		for _, sub := range g.Groups() {
			walk(sub)
		}
	}
	walk(ds.Root())
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// expectAny is like expect for a slice of any type.
func expectAny(t *testing.T, ds *dataset.Dataset, path string, want any) {
	t.Helper()
	v := variable(t, ds, path)
	got := v.NewSlice(v.All().Len())
	if err := v.Read(t.Context(), v.All(), got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: want %v, got %v, %v", path, want, got, err)
	}
}
