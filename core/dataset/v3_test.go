package dataset_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/base64"
	"github.com/seed-695719ce/nczarr/filters/blosc"
	"github.com/seed-695719ce/nczarr/filters/checksum"
	"github.com/seed-695719ce/nczarr/filters/delta"
	"github.com/seed-695719ce/nczarr/filters/gzip"
	jsonText "github.com/seed-695719ce/nczarr/filters/object"
	"github.com/seed-695719ce/nczarr/filters/vlen"
	"github.com/seed-695719ce/nczarr/filters/zstd"
)

// v3Array returns the zarr.json of an array of six bytes in chunks of two. members adds
// members to the document or replaces the defaults.
func v3Array(members string) string {
	text := `{"zarr_format": 3, "node_type": "array", "shape": [6], "fill_value": 9, "chunk_key_encoding": {"name": "default"}`
	for _, m := range []string{`"data_type": "uint8"`, `"codecs": [{"name": "bytes"}]`, `"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}`} {
		if name, _, _ := strings.Cut(m, ":"); !strings.Contains(members, name+":") {
			text += ", " + m
		}
	}
	if members != "" {
		text += ", " + members
	}
	return text + "}"
}

const v3Group = `{"zarr_format": 3, "node_type": "group", "attributes": {"title": "t"}}`

// v3Shard returns a shard of raw chunks of two bytes. A "" means an absent chunk.
func v3Shard(chunks ...string) string {
	var index []byte
	at := uint64(0)
	for _, c := range chunks {
		from, n := at, uint64(len(c))
		if c == "" {
			from, n = 1<<64-1, 1<<64-1
		}
		index = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(index, from), n)
		at += uint64(len(c))
	}
	index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli)))
	return strings.Join(chunks, "") + string(index)
}

func v3Objects() map[string]string {
	return map[string]string{
		"zarr.json":     v3Group,
		"a/zarr.json":   v3Array(`"dimension_names": ["x"], "attributes": {"units": "m"}`),
		"a/c/0":         "\x01\x02",
		"a/c/2":         "\x05\x06",
		"g/b/zarr.json": v3Array(`"dimension_names": [null], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}]`),
		"g/b/c/0":       v3Shard("\x01\x02", "\x03\x04"),
		"g/b/c/1":       v3Shard("", "\x07\x08"),
	}
}

func readBytes(t *testing.T, v *dataset.Var) string {
	t.Helper()
	got, err := dataset.Get[uint8](t.Context(), v, v.All())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d", got)
}

func TestV3(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "s", v3Objects())
	for _, url := range []string{"mem:s", "mem:s#mode=zarr", "mem:s#mode=nczarr"} {
		ds := open(t, url, o)
		if got := ds.Layout().String(); got != "Zarr v3" || len(ds.Problems()) > 0 {
			t.Errorf("%s: want Zarr v3 without problems, got %s, problems %v", url, got, ds.Problems())
		}
		a, b := variable(t, ds, "a"), variable(t, ds, "g/b")
		if got := readBytes(t, a) + readBytes(t, b); got != "[1 2 9 9 5 6][1 2 3 4 9 9]" {
			t.Errorf("%s: unexpected values %s", url, got)
		}
		if x := a.Dims()[0]; x.Name() != "x" || x.Anonymous() || attr(t, a.Attrs(), "units") != "m" || attr(t, ds.Root().Attrs(), "title") != "t" {
			t.Errorf("%s: unexpected dimension %q or attributes %v, %v", url, x.Name(), a.Attrs(), ds.Root().Attrs())
		}
		if !b.Dims()[0].Anonymous() {
			t.Errorf("%s: want an anonymous dimension, got %q", url, b.Dims()[0].Name())
		}
		s, err := b.Stored(t.Context())
		if err != nil || s.Chunks != 2 || s.Bytes != 4 {
			t.Errorf("%s: want 2 chunks with 4 bytes, got %+v, %v", url, s, err)
		}
	}
}

// TestV3Update checks that datasets written by zarr-python or other software can be
// changed, and that everything else in them stays the same.
func TestV3Update(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	objects := v3Objects()
	objects["a/zarr.json"] = v3Array(`"dimension_names": ["x"], "attributes": {"units": "m", "odd": {"b": null}, "_ARRAY_DIMENSIONS": 1}, "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}, "own": {"must_understand": false}`)
	objects["a/0"], objects["a/2"] = objects["a/c/0"], objects["a/c/2"]
	objects["g/zarr.json"] = strings.ReplaceAll(v3Group, ",", ",\n ")
	delete(objects, "a/c/0")
	delete(objects, "a/c/2")
	store(t, o, "s", objects)
	ds := update(t, "mem:s", o)
	a, b := variable(t, ds, "a"), variable(t, ds, "g/b")
	write(t, a, slab(1, 2), []uint8{20, 30})
	setText(t, a.SetAttr, "new", "n")
	write(t, b, slab(1, 4), []uint8{12, 13, 14, 15})
	setText(t, b.SetAttr, "note", "in-shards")
	g, err := ds.Root().Group("g")
	if err != nil {
		t.Fatal(err)
	}
	n := define(t, g, "n", &dataset.VarSpec{Type: dtype.NCInt, Dims: b.Dims(), Chunks: []int64{4}, Codecs: []zarr.CodecSpec{{ID: "invert"}}})
	write(t, n, slab(1, 1), []int32{5})
	closeDataset(t, ds)
	ds = open(t, "mem:s", o)
	if p := ds.Problems(); len(p) > 0 {
		t.Fatalf("problems: %v", p)
	}
	expect(t, ds, "a", []uint8{1, 20, 30, 9, 5, 6})
	expect(t, ds, "g/b", []uint8{1, 12, 13, 14, 15, 9})
	fill := int32(-2147483647)
	expect(t, ds, "g/n", []int32{fill, 5, fill, fill, fill, fill})
	for key, want := range map[string]string{
		"zarr.json":     v3Group,
		"g/zarr.json":   objects["g/zarr.json"],
		"a/zarr.json":   strings.Replace(objects["a/zarr.json"], `"_ARRAY`, `"new": "n", "_ARRAY`, 1),
		"g/b/zarr.json": strings.TrimSuffix(objects["g/b/zarr.json"], "}") + `, "attributes": {"note": "in-shards"}}`,
	} {
		if got := stored(t, ds, key); !zarr.SameJSON([]byte(got), []byte(want)) {
			t.Errorf("%s: want %s, got %s", key, want, got)
		}
	}
	if got := strings.Join(keysOf(t, ds), " "); got != "a/0 a/1 a/2 a/zarr.json g/b/c/0 g/b/c/1 g/b/zarr.json g/n/c/0 g/n/zarr.json g/zarr.json zarr.json" {
		t.Errorf("unexpected keys %s", got)
	}
}

// TestV3InlineIsKept checks that consolidated metadata of a root and of a group matches
// the documents after every change, and is absent after its removal.
func TestV3InlineIsKept(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := v3Objects()
	inline := `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {"old": {}}}}`
	objects["zarr.json"] = strings.TrimSuffix(v3Group, "}") + inline
	objects["g/zarr.json"] = strings.TrimSuffix(v3Group, "}") + inline
	objects["h/zarr.json"] = strings.TrimSuffix(v3Group, "}") + inline
	objects["bad/zarr.json"] = "{"
	store(t, o, "s", objects)
	verify := *o
	verify.UseConsolidated = dataset.ConsolidatedVerify
	current := func(url string, want int) *dataset.Dataset {
		t.Helper()
		ds := open(t, url, &verify)
		all, err := zarr.ParseInline(zarr.Docs{"zarr.json": []byte(stored(t, ds, "zarr.json"))})
		if err != nil || len(all) != want || want > 0 && (!ds.Consolidated() || !slices.Equal(ds.StaleDocuments(), []string{"bad/zarr.json"})) { // this document is not JSON
			t.Errorf("%s: unexpected consolidated metadata: %d nodes, stale %q, %v", url, len(all), ds.StaleDocuments(), err)
		}
		return ds
	}
	ds := update(t, "mem:s", o)
	setText(t, variable(t, ds, "g/b").SetAttr, "note", "n")
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	top := current("mem:s", 5)
	in, err := zarr.ParseInline(zarr.Docs{"zarr.json": []byte(stored(t, top, "g/zarr.json"))})
	if err != nil || len(in) != 2 || !strings.Contains(string(in["b"]["zarr.json"]), "note") {
		t.Errorf("unexpected consolidated metadata of the group: %s, %v", in, err)
	}
	if got := stored(t, top, "h/zarr.json"); got != strings.ReplaceAll(objects["h/zarr.json"], " ", "") {
		t.Errorf("the document of an unchanged group was changed: %s", got)
	}
	define(t, ds.Root(), "new", &dataset.VarSpec{Type: dtype.NCInt})
	closeDataset(t, ds)
	current("mem:s", 6)
	ds = update(t, "mem:s", o)
	if err := ds.RemoveConsolidated(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	current("mem:s", 0)
	ds = update(t, "mem:s", o)
	if err := ds.RemoveConsolidated(t.Context()); !errors.Is(err, ncerr.ErrNotFound) {
		t.Errorf("removed twice: want ErrNotFound, got %v", err)
	}
	if err := ds.Consolidate(); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	current("mem:s", 6)
}

// TestV3InlineOfUnknownNodes checks that consolidated metadata preserves the entries of
// unreadable nodes and of nodes below them, and its other members.
func TestV3InlineOfUnknownNodes(t *testing.T) {
	t.Parallel()
	o := memory()
	member := func(nodes string) string {
		return strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {` + nodes + `}, "by": {"us": 1}}}`
	}
	const must = `{"zarr_format": 3, "node_type": "group", "novelty": {"name": "x"}}`
	stay := fmt.Sprintf(`"bad": %s, "bad/x": %s, "must/y": %[2]s`, v3Group, v3Array(""))
	objects := map[string]string{
		"zarr.json": member(stay + `, "gone": ` + v3Group), "a/zarr.json": v3Array(""),
		"bad/zarr.json": "{", "bad/x/zarr.json": v3Array(""),
		"must/zarr.json": must, "must/y/zarr.json": v3Array(""),
	}
	store(t, o, "s", objects)
	want := func(note string) string {
		return member(fmt.Sprintf(`"a": %s, "must": %s, `, v3Array(note), strings.TrimSuffix(must, "}")+`, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}}`) + stay)
	}
	for _, note := range []string{"1", "2"} {
		ds := update(t, "mem:s", o)
		setText(t, variable(t, ds, "a").SetAttr, "note", note)
		if note == "2" {
			if err := ds.Consolidate(); err != nil {
				t.Fatal(err)
			}
		}
		closeDataset(t, ds)
		if got, want := stored(t, open(t, "mem:s", o), "zarr.json"), want(`"attributes": {"note": "`+note+`"}`); !zarr.SameJSON([]byte(got), []byte(want)) {
			t.Errorf("want %s\ngot  %s", want, got)
		}
	}
}

// TestV3InlineOfAnotherKind checks that consolidated metadata of an unknown kind is
// preserved until it is replaced or removed on request.
func TestV3InlineOfAnotherKind(t *testing.T) {
	t.Parallel()
	o := memory()
	for i, member := range []string{`{"kind": "reference", "must_understand": true, "uri": "x"}`, `"foo"`, `{"kind": "inline", "must_understand": true, "metadata": {}}`} {
		for j, f := range []func(ds *dataset.Dataset) error{
			func(*dataset.Dataset) error { return nil },
			(*dataset.Dataset).Consolidate,
			func(ds *dataset.Dataset) error { return ds.RemoveConsolidated(t.Context()) },
		} {
			objects, name := v3Objects(), fmt.Sprint("s", i, j)
			with := strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": ` + member + `}`
			objects["zarr.json"], objects["h/zarr.json"] = with, with
			store(t, o, name, objects)
			ds := update(t, "mem:"+name, o)
			setText(t, variable(t, ds, "a").SetAttr, "note", "n")
			setText(t, ds.Root().SetAttr, "title", "new")
			h, err := ds.Root().Group("h")
			if err != nil {
				t.Fatal(err)
			}
			setText(t, h.SetAttr, "title", "new")
			if err := f(ds); err != nil {
				t.Fatal(err)
			}
			closeDataset(t, ds)
			ds = open(t, "mem:"+name, o)
			want := strings.Replace(with, `"t"`, `"new"`, 1)
			got, below := stored(t, ds, "zarr.json"), stored(t, ds, "h/zarr.json")
			if zarr.SameJSON([]byte(got), []byte(want)) != (j == 0) || !zarr.SameJSON([]byte(below), []byte(want)) {
				t.Errorf("%s, change %d: unexpected documents %s\nand %s", member, j, got, below)
			}
			all, err := zarr.ParseInline(zarr.Docs{"zarr.json": []byte(got)})
			if want := []int{0, 4, 0}[j]; j > 0 && (len(all) != want || err != nil) {
				t.Errorf("%s, change %d: unexpected number of nodes %d, %v", member, j, len(all), err)
			}
		}
	}
}

// TestV3InlineLimits checks that consolidated metadata that could not be read back is
// not written, and neither is anything else.
func TestV3InlineLimits(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return v3Array(`"attributes": {"deep": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	const member = `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}}`
	for _, c := range []struct {
		name, root, a string
		limit         int64
		fits          bool
	}{
		{"deep", v3Group, deep(60), 0, false},
		{"deep, consolidated", strings.TrimSuffix(v3Group, "}") + member, deep(60), 0, false},
		{"not too deep", v3Group, deep(59), 0, true},
		{"long", v3Group, deep(1), 600, false},
		{"long, consolidated", strings.TrimSuffix(v3Group, "}") + member, deep(1), 600, false},
		{"not too long", v3Group, deep(1), 6000, true},
	} {
		o := memory()
		o.Limits.MaxMetadata = c.limit
		store(t, o, "s", map[string]string{"zarr.json": c.root, "a/zarr.json": c.a, "b/zarr.json": v3Array("")})
		ds := update(t, "mem:s", o)
		if len(ds.Problems()) > 0 {
			t.Fatalf("%s: problems %v", c.name, ds.Problems())
		}
		setText(t, variable(t, ds, "b").SetAttr, "note", "n")
		if !ds.Consolidated() {
			if err := ds.Consolidate(); err != nil {
				t.Fatal(err)
			}
		}
		switch err := ds.Flush(t.Context()); {
		case c.fits && err != nil:
			t.Errorf("%s: unexpected error %v", c.name, err)
		case c.fits:
		case !errors.Is(err, ncerr.ErrLimit) || !strings.Contains(err.Error(), `"/zarr.json"`):
			t.Errorf("%s: want ErrLimit for /zarr.json, got %v", c.name, err)
		case stored(t, ds, "zarr.json") != strings.ReplaceAll(c.root, " ", "") || strings.Contains(stored(t, ds, "b/zarr.json"), "note"):
			t.Errorf("%s: a document was written", c.name)
		default:
			if err := ds.RemoveConsolidated(t.Context()); err != nil {
				t.Errorf("%s: remove: %v", c.name, err)
			}
		}
		closeDataset(t, ds)
		if ds = open(t, "mem:s", o); len(ds.Problems()) > 0 || attr(t, variable(t, ds, "b").Attrs(), "note") != "n" {
			t.Errorf("%s: problems %v, or a missing attribute", c.name, ds.Problems())
		}
	}
}

// TestV3InlineOfAnother checks that a writer that finds the root's document changed by
// another process does not make the consolidated metadata in that document stale.
func TestV3InlineOfAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string // content of the root's document
		consolidated  bool   // the root's document has a copy afterwards
	}{
		"no consolidated metadata": {"", `, "other": {"must_understand": false}}`, false},
		"added meanwhile":          {"", `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}}`, true},
		"removed meanwhile":        {`, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}}`, `}`, false},
	} {
		o, dir := fileOptions(), t.TempDir()
		objects := v3Objects()
		objects["zarr.json"] = strings.TrimSuffix(v3Group, "}") + cmp.Or(c.before, "}")
		for key, body := range objects {
			at := filepath.Join(dir, filepath.FromSlash(key))
			if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(body), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		ds := update(t, dir, o)
		setText(t, variable(t, ds, "a").SetAttr, "first", "1")
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatalf("%s: flush: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "zarr.json"), []byte(strings.TrimSuffix(v3Group, "}")+c.after), 0o666); err != nil {
			t.Fatal(err)
		}
		setText(t, variable(t, ds, "a").SetAttr, "second", "2")
		if err := ds.Flush(t.Context()); err != nil {
			t.Errorf("%s: flush: got %v", name, err)
		}
		if got := stored(t, open(t, dir, o), "a/zarr.json"); !strings.Contains(got, "second") {
			t.Errorf("%s: the document is %s", name, got)
		}
		if got := stored(t, open(t, dir, o), "zarr.json"); strings.Contains(got, "second") != c.consolidated {
			t.Errorf("%s: the document of the root is %s", name, got)
		}
	}
}

// TestV3Version checks that a URL that requests a version opens no other version.
func TestV3Version(t *testing.T) {
	t.Parallel()
	o := memory()
	both := v3Objects()
	both[".zgroup"] = `{"zarr_format": 2}`
	both[".zmetadata"] = `{"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}}`
	store(t, o, "both", both)
	trust := *o
	trust.UseConsolidated = dataset.ConsolidatedTrust
	if got := open(t, "mem:both#mode=v3", &trust).Layout(); got != zarr.LayoutV3 {
		t.Errorf("want LayoutV3, got %v", got)
	}
	store(t, o, "two", map[string]string{".zgroup": `{"zarr_format": 2}`})
	if _, err := openURL(t.Context(), "mem:two#mode=v3", o); !errors.Is(err, ncerr.ErrNotZarr) || !strings.Contains(err.Error(), "mode=v3 requires") {
		t.Errorf("want ErrNotZarr, got %v", err)
	}
	v3 := zarr.LayoutV3
	if _, err := createURL(t.Context(), "mem:new#mode=v2", &dataset.CreateOptions{Options: *o, Layout: &v3}); !errors.Is(err, ncerr.ErrInvalid) {
		t.Errorf("want ErrInvalid, got %v", err)
	}
}

// TestV3BothVersions checks that nodes that also have v2 documents can be read but not
// changed, and that other nodes can be changed.
func TestV3BothVersions(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := v3Objects()
	maps.Copy(objects, map[string]string{"both/zarr.json": v3Array(""), "both/.zarray": byteDoc, "g/zarr.json": v3Group, "g/.zgroup": `{"zarr_format": 2}`})
	store(t, o, "s", objects)
	ds := update(t, "mem:s", o)
	g, err := ds.Root().Group("g")
	if err != nil {
		t.Fatal(err)
	}
	v, note := variable(t, ds, "both"), dataset.Attr{Name: "note", Type: dtype.NCChar, Value: "n"}
	_, def := g.DefineGroup("new")
	for path, errs := range map[string][]error{
		"/both": {v.SetAttr(note), v.DeleteAttr("note"), v.Write(t.Context(), slab(0, 1), []uint8{1})},
		"/g":    {g.SetAttr(note), g.DeleteAttr("title"), def},
	} {
		for i, err := range errs {
			if !errors.Is(err, ncerr.ErrUnsupported) || !strings.Contains(err.Error(), strconv.Quote(path)) {
				t.Errorf("%s, change %d: want ErrUnsupported, got %v", path, i, err)
			}
		}
	}
	setText(t, variable(t, ds, "a").SetAttr, "note", "n")
	setText(t, variable(t, ds, "g/b").SetAttr, "note", "n")
	closeDataset(t, ds)
	ds = open(t, "mem:s", o)
	if p := ds.Problems(); len(p) > 0 || attr(t, variable(t, ds, "a").Attrs(), "note") != "n" || stored(t, ds, "both/zarr.json") != strings.ReplaceAll(objects["both/zarr.json"], " ", "") {
		t.Errorf("problems %v, a missing attribute, or a changed document %s", p, stored(t, ds, "both/zarr.json"))
	}
}

// TestV3Codecs checks that the codecs of a new array are completed as Zarr v3 requires,
// and that an order that Zarr v3 does not allow is refused.
func TestV3Codecs(t *testing.T) {
	t.Parallel()
	o := memory(delta.Provider(), gzip.Provider(), vlen.Provider(), jsonText.Provider(), blosc.Provider())
	ds := create(t, "mem:c#mode=v3", o)
	x := dim(t, ds.Root(), "x", 4, false)
	delta := zarr.CodecSpec{ID: "delta", Params: []byte(`{"dtype": ">i4"}`)}
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Order: dtype.Big, Fill: []int32{-5}, Codecs: []zarr.CodecSpec{delta, {ID: "gzip"}}})
	write(t, v, slab(0, 2), []int32{1, 2})
	b := define(t, ds.Root(), "b", &dataset.VarSpec{Type: dtype.NCShort, Dims: []*dataset.Dim{x}, Order: dtype.Big, Codecs: []zarr.CodecSpec{{ID: "blosc"}}})
	write(t, b, b.All(), []int16{1, 2, 3, 4})
	for name, spec := range map[string]*dataset.VarSpec{
		"bytes before arrays": {Type: dtype.NCInt, Codecs: []zarr.CodecSpec{{ID: "gzip"}, delta}},
		"text as JSON":        {Type: dtype.NCString, MaxStrLen: dataset.VarLen, Codecs: []zarr.CodecSpec{{ID: "json2"}}},
	} {
		spec.Dims = []*dataset.Dim{x}
		if _, err := ds.Root().DefineVar(t.Context(), "bad", spec); !errors.Is(err, ncerr.ErrUnsupported) {
			t.Errorf("%s: want ErrUnsupported, got %v", name, err)
		}
	}
	closeDataset(t, ds)
	ds = open(t, "mem:c", o)
	expect(t, ds, "v", []int32{1, 2, -5, -5})
	expect(t, ds, "b", []int16{1, 2, 3, 4})
	for name, want := range map[string]string{
		"v": `[{"name":"numcodecs.delta","configuration":{"dtype":"<i4"}},{"name":"bytes","configuration":{"endian":"little"}},{"name":"gzip","configuration":{"level":1}}]`,
		"b": `[{"name":"bytes","configuration":{"endian":"big"}},{"name":"blosc","configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":"shuffle","typesize":2}}]`,
	} {
		if got := stored(t, ds, name+"/zarr.json"); !strings.Contains(got, want) {
			t.Errorf("%s: want %s in %s", name, want, got)
		}
	}
}

// TestV3Problems checks that unsupported or damaged metadata excludes only its own
// node.
func TestV3Problems(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := v3Objects()
	maps.Copy(objects, map[string]string{
		"wide/zarr.json":   v3Array(`"data_type": "int128"`),
		"vast/zarr.json":   strings.Replace(v3Array(`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8388608]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}]`), "[6]", "[8388608]", 1),
		"must/zarr.json":   v3Array(`"novelty": {"name": "x"}`),
		"old/.zarray":      byteDoc,
		"group/zarr.json":  `{"zarr_format": 3, "node_type": "group", "storage": {}}`,
		"broken/zarr.json": "{",
	})
	store(t, o, "s", objects)
	ds := open(t, "mem:s", o)
	var paths []string
	for _, p := range ds.Problems() {
		paths = append(paths, p.Path)
	}
	slices.Sort(paths)
	if want := []string{"/broken", "/group", "/must", "/old", "/vast", "/wide"}; !slices.Equal(paths, want) {
		t.Errorf("want %q, got %v", want, ds.Problems())
	}
	if got := readBytes(t, variable(t, ds, "a")); got != "[1 2 9 9 5 6]" {
		t.Errorf("want [1 2 9 9 5 6], got %s", got)
	}
}

func TestV3Consolidated(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := v3Objects()
	a := objects["a/zarr.json"]
	inline := func(a string) string {
		return strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {"a": ` + a + `, "g": ` + strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}}, "g/b": ` + objects["g/b/zarr.json"] + `}}}`
	}
	objects["zarr.json"] = inline(a)
	objects["g/zarr.json"] = v3Group
	store(t, o, "same", objects)
	objects["zarr.json"] = inline(strings.Replace(a, `"m"`, `"km"`, 1))
	store(t, o, "stale", objects)
	delete(objects, "a/zarr.json")
	store(t, o, "only", objects)
	for _, c := range []struct {
		name  string
		use   dataset.ConsolidatedUse
		units string
		stale string
	}{
		{"same", dataset.ConsolidatedTrust, "m", "[]"},
		{"same", dataset.ConsolidatedVerify, "m", "[]"},
		{"stale", dataset.ConsolidatedTrust, "km", "[]"},
		{"stale", dataset.ConsolidatedVerify, "m", "[a/zarr.json]"},
		{"stale", dataset.ConsolidatedIgnore, "m", "[]"},
		{"only", dataset.ConsolidatedTrust, "km", "[]"},
	} {
		with := *o
		with.UseConsolidated = c.use
		ds := open(t, "mem:"+c.name, &with)
		v := variable(t, ds, "a")
		if has, err := ds.HasConsolidated(t.Context()); attr(t, v.Attrs(), "units") != c.units || fmt.Sprint(ds.StaleDocuments()) != c.stale || !has || err != nil {
			t.Errorf("%s, %d: unexpected units %v, stale documents %v, or error %v", c.name, c.use, attr(t, v.Attrs(), "units"), ds.StaleDocuments(), err)
		}
		if got := readBytes(t, v); got != "[1 2 9 9 5 6]" {
			t.Errorf("%s: want [1 2 9 9 5 6], got %s", c.name, got)
		}
	}
	objects["zarr.json"] = strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": 1}`
	store(t, o, "damaged", objects)
	with := *o
	with.UseConsolidated = dataset.ConsolidatedTrust
	if _, err := openURL(t.Context(), "mem:damaged", &with); !errors.Is(err, ncerr.ErrConsolidated) {
		t.Errorf("want ErrConsolidated, got %v", err)
	}
}

// TestV3ShardReplaced checks that a shard that is rewritten while a dataset is open is
// read with its new index, never with the old one.
func TestV3ShardReplaced(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "s", v3Objects())
	b := variable(t, open(t, "mem:s", o), "g/b")
	if got := readBytes(t, b); got != "[1 2 3 4 9 9]" {
		t.Errorf("before the change: want [1 2 3 4 9 9], got %s", got)
	}
	opener, err := o.Registry.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: "s", Mode: driver.Update})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	if _, err := m.Put(t.Context(), "g/b/c/0", driver.Bytes(v3Shard("", "\x0b\x0c")), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := readBytes(t, b); got != "[9 9 11 12 9 9]" {
		t.Errorf("after the change: want [9 9 11 12 9 9], got %s", got)
	}
	if err := m.Delete(t.Context(), "g/b/c/0", nil); err != nil {
		t.Fatal(err)
	}
	if got := readBytes(t, b); got != "[9 9 9 9 9 9]" {
		t.Errorf("a deleted shard: want only values of 9, got %s", got)
	}
	if _, err := m.Put(t.Context(), "g/b/c/0", driver.Bytes("short"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := dataset.Get[uint8](t.Context(), b, b.All()); !errors.Is(err, ncerr.ErrCorrupt) || !strings.Contains(err.Error(), "/g/b/c/0") {
		t.Errorf("want ErrCorrupt for /g/b/c/0, got %v", err)
	}
}

// TestV3KeySuffix checks that chunks under keys with a suffix are read, listed, written
// and copied. The keys have the form that zarrs writes.
func TestV3KeySuffix(t *testing.T) {
	t.Parallel()
	o := memory()
	const encoding = `"chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": ".tiff"`
	array := func(config string) string {
		return strings.Replace(v3Array(`"dimension_names": ["x"]`), `"chunk_key_encoding": {"name": "default"`, encoding+config+`}`, 1)
	}
	store(t, o, "s", map[string]string{
		"zarr.json":        v3Group,
		"slash/zarr.json":  array(""),
		"slash/c/0.tiff":   "\x01\x02",
		"slash/c/2.tiff":   "\x05\x06",
		"slash/c/1":        "\x09\x09",
		"dot/zarr.json":    array(`, "separator": "."`),
		"dot/c.1.tiff":     "\x03\x04",
		"scalar/zarr.json": strings.NewReplacer("[6]", "[]", "[2]", "[]", `["x"]`, "[]").Replace(array("")),
		"scalar/c.tiff":    "\x07",
	})
	ds := update(t, "mem:s", o)
	for name, want := range map[string]string{"slash": "[1 2 9 9 5 6]", "dot": "[9 9 3 4 9 9]", "scalar": "[7]"} {
		if got := readBytes(t, variable(t, ds, name)); got != want {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
	}
	v := variable(t, ds, "slash")
	if s, err := v.Stored(t.Context()); err != nil || s.Chunks != 2 {
		t.Errorf("want 2 chunks, got %+v, %v", s, err)
	}
	write(t, v, v.All(), []uint8{1, 2, 3, 4, 5, 6})
	closeDataset(t, ds)
	if got := object(t, o, "s", "slash/c/1.tiff"); got != "\x03\x04" {
		t.Errorf("want a new chunk with the suffix, got %q", got)
	}
	src := open(t, "mem:s", o)
	if got := readBytes(t, variable(t, copyOf(t, src, "mem:copy#mode=v3", o, nil), "slash")); got != "[1 2 3 4 5 6]" {
		t.Errorf("copy: want [1 2 3 4 5 6], got %s", got)
	}
}

// TestV3CodecWarning checks the warning about codecs that zarr-python lacks in Zarr v3.
func TestV3CodecWarning(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{"gzip": false, "zstd": false, "crc32": false, "base64": true} {
		for _, mode := range []string{"v3", "nczarr,v3", "v2"} {
			var log bytes.Buffer
			o := memory(gzip.Provider(), zstd.Provider(), checksum.Provider(), base64.Provider())
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			ds := create(t, "mem:s#mode="+mode, o)
			define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 4, false)}, Codecs: []zarr.CodecSpec{{ID: id}}})
			closeDataset(t, ds)
			if got := strings.Contains(log.String(), "zarr-python does not support the codec in Zarr v3\" path=/v codec="+id); got != (want && mode != "v2") {
				t.Errorf("%s, %s: unexpected log %q", id, mode, &log)
			}
		}
	}
}

// TestCopyOfNaNFill checks that copies keep the bits of a NaN fill value if their format
// can represent them. Zarr v2 cannot represent all bits. Its copy has another fill value
// and stores the chunks that are absent in the source.
func TestCopyOfNaNFill(t *testing.T) {
	t.Parallel()
	store4 := func(bits uint32) string { return string(binary.LittleEndian.AppendUint32(nil, bits)) }
	o := memory()
	store(t, o, "s", map[string]string{
		"zarr.json":   v3Group,
		"a/zarr.json": strings.Replace(v3Array(`"data_type": "float32", "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]`), `"fill_value": 9`, `"fill_value": "0xffc00123"`, 1),
		"a/c/0":       store4(0x3f800000) + store4(0x7fc00456),
	})
	want := []uint32{0x3f800000, 0x7fc00456, 0xffc00123, 0xffc00123, 0xffc00123, 0xffc00123}
	src := open(t, "mem:s", o)
	for _, mode := range []string{"v3", "nczarr,v3", "v2", "nczarr"} {
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		ds := copyOf(t, src, "mem:"+strings.ReplaceAll(mode, ",", "-")+"#mode="+mode, o, nil)
		got, err := dataset.Get[float32](t.Context(), variable(t, ds, "a"), variable(t, ds, "a").All())
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if b := math.Float32bits(got[i]); b != want[i] {
				t.Errorf("%s: element %d: want %#x, got %#x", mode, i, want[i], b)
			}
		}
		const says = "a NaN whose sign or payload Zarr v2 cannot store\" path=/a bytes=2301c0ff"
		if warned := strings.Contains(log.String(), says); warned == strings.HasSuffix(mode, "v3") {
			t.Errorf("%s: unexpected log %q", mode, &log)
		}
	}
}
