package dataset_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/teststore"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// basic returns all netCDF types except string.
func basic() []dtype.NC {
	return []dtype.NC{dtype.NCChar, dtype.NCByte, dtype.NCUByte, dtype.NCShort, dtype.NCUShort, dtype.NCInt, dtype.NCUInt, dtype.NCInt64, dtype.NCUInt64, dtype.NCFloat, dtype.NCDouble}
}

// everything creates a dataset in a layout with the given types in both byte orders,
// strings, codecs of each kind, both separators, scalars, groups, shared and unlimited
// dimensions, chunks that do not exist and attributes of every type.
func everything(t *testing.T, url string, layout zarr.Layout, types []dtype.NC, consolidated bool, o *dataset.Options) {
	t.Helper()
	ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &layout, Consolidated: consolidated, Strings: dataset.StringsFixed})
	if err != nil {
		t.Fatal(err)
	}
	root := ds.Root()
	y, x := dim(t, root, "y", 5, false), dim(t, root, "x", 7, false)
	attrs := []dataset.Attr{
		{Name: "text", Type: dtype.NCChar, Value: "Größe \"q\""},
		{Name: "empty", Type: dtype.NCChar, Value: ""},
		{Name: "number", Type: dtype.NCChar, Value: "42"},
		{Name: "strings", Type: dtype.NCString, Value: []string{"a", "b"}},
		{Name: "string", Type: dtype.NCString, Value: []string{"one"}},
		{Name: "float", Type: dtype.NCFloat, Value: []float32{0.1}},
		{Name: "whole", Type: dtype.NCDouble, Value: []float64{3}},
		{Name: "special", Type: dtype.NCDouble, Value: []float64{math.NaN(), math.Inf(1)}},
		{Name: "byte", Type: dtype.NCByte, Value: []int8{-1, 2}},
		{Name: "int64", Type: dtype.NCInt64, Value: []int64{math.MinInt64, 1}},
		{Name: "uint64", Type: dtype.NCUInt64, Value: []uint64{math.MaxUint64}},
		{Name: "short", Type: dtype.NCShort, Value: []int16{7}},
	}
	for _, a := range attrs {
		if err := root.SetAttr(a); err != nil {
			t.Fatal(err)
		}
	}
	g, err := root.DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	deep, err := g.DefineGroup("deep")
	if err != nil {
		t.Fatal(err)
	}
	setText(t, deep.SetAttr, "note", "below")
	chains := [][]zarr.CodecSpec{
		nil,
		{{ID: "shuffle"}, {ID: "zlib", Params: []byte(`{"id": "zlib", "level": 1}`)}},
		{{ID: "blosc", Params: []byte(`{"id": "blosc", "cname": "lz4", "clevel": 1, "shuffle": -1}`)}},
		{{ID: "zstd"}, {ID: "crc32c"}},
		{{ID: "gzip"}},
	}
	i := 0
	for _, nc := range types {
		if nc == dtype.NCChar {
			char := define(t, root, "char", &dataset.VarSpec{Type: nc, Dims: []*dataset.Dim{x}, Chunks: []int64{2}})
			write(t, char, slab(1, 3), []uint8("abc"))
			continue
		}
		for _, order := range []dtype.Order{dtype.Little, dtype.Big} {
			v := define(t, []*dataset.Group{root, g, deep}[i%3], fmt.Sprintf("%s%d", nc, order), &dataset.VarSpec{
				Type: nc, Order: order, Dims: []*dataset.Dim{y, x}, Chunks: []int64{2, 3}, Codecs: chains[i%len(chains)],
				Attrs: attrs[:i%len(attrs)],
			})
			if i%2 == 1 {
				v = define(t, root, v.Name()+"nested", &dataset.VarSpec{Type: nc, Order: order, Dims: []*dataset.Dim{y, x}, Chunks: []int64{2, 3}, Separator: '/'})
			}
			write(t, v, chunk.Selection{Start: []int64{1, 1}, Count: []int64{2, 4}}, []float64{1, 2, 3, 4, 5, 6, 7, 8})
			i++
		}
	}
	delta := define(t, g, "delta", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Codecs: []zarr.CodecSpec{{ID: "delta", Params: []byte(`{"id": "delta", "dtype": "<i4"}`)}, {ID: "zlib"}}})
	write(t, delta, delta.All(), count[int32](7))
	fill := define(t, root, "fill", &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{x}, Attrs: []dataset.Attr{{Name: "_FillValue", Type: dtype.NCDouble, Value: []float64{math.NaN()}}}})
	write(t, fill, slab(0, 2), []float64{1, 2})
	text := define(t, g, "text", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, MaxStrLen: 4, Fill: []string{"abcd"}})
	write(t, text, slab(1, 2), []string{"é", ""})
	scalar := define(t, root, "scalar", &dataset.VarSpec{Type: dtype.NCInt})
	write(t, scalar, scalar.All(), []int32{42})
	if layout.KeepsUnlimited() {
		v := define(t, root, "grows", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, root, "time", 0, true)}, Chunks: []int64{2}})
		write(t, v, slab(0, 3), []int32{1, 2, 3})
	}
	closeDataset(t, ds)
}

// contentOf returns a description of everything that a dataset contains. Pure Zarr does
// not record the types of attributes, so their values are normalized.
func contentOf(t *testing.T, url string, o *dataset.Options) string {
	t.Helper()
	u := *o
	u.Wrap = nil
	ds, err := openURL(t.Context(), url, &u)
	if err != nil {
		t.Fatal(err)
	}
	defer closeDataset(t, ds)
	if p := ds.Problems(); len(p) > 0 {
		t.Errorf("%s %v: %v", url, p[0].Path, p[0].Err)
	}
	var b strings.Builder
	shown := func(attrs []dataset.Attr) (list []string) {
		for _, a := range attrs {
			text := fmt.Sprintf("%v", a.Value)
			if floats, ok := a.Value.([]float64); ok {
				text = ""
				for _, f := range floats {
					text += fmt.Sprint(float32(f)) + " "
				}
			}
			list = append(list, a.Name+"="+strings.Trim(text, "[] "))
		}
		slices.Sort(list)
		return list
	}
	var groups func(g *dataset.Group)
	groups = func(g *dataset.Group) {
		fmt.Fprintf(&b, "%s %q\n", g.Path(), shown(g.Attrs()))
		vars := g.Vars()
		slices.SortFunc(vars, func(a, b *dataset.Var) int { return cmp.Compare(a.Name(), b.Name()) })
		for _, v := range vars {
			values := v.NewSlice(v.All().Len())
			if err := v.Read(t.Context(), v.All(), values); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, d := range v.Dims() {
				names = append(names, d.Name())
			}
			fill, _ := v.Fill()
			attrs := slices.DeleteFunc(v.Attrs(), func(a dataset.Attr) bool { return a.Name == "_FillValue" && fmt.Sprint(a.Value) == fmt.Sprint(fill) }) // a migration to Zarr v3 adds it
			fmt.Fprintf(&b, "%s %s %v %v %v %v %v %q\n", v.Path(), v.Type(), names, v.Shape(), v.Chunks(), values, fill, shown(attrs))
		}
		subs := g.Groups()
		slices.SortFunc(subs, func(a, b *dataset.Group) int { return cmp.Compare(a.Name(), b.Name()) })
		for _, sub := range subs {
			groups(sub)
		}
	}
	groups(ds.Root())
	return strings.ReplaceAll(b.String(), "\x00", `\0`)
}

// objects returns the documents of a store by key if docs is set, and otherwise the
// hashes of all other objects.
func objects(t *testing.T, url string, o *dataset.Options, docs bool) map[string]string {
	t.Helper()
	u := *o
	u.Wrap = nil
	m, err := storeURL(t.Context(), url, &u)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	out := make(map[string]string)
	for e, err := range m.ListAll(t.Context(), "", &driver.ListOptions{Recursive: true}) {
		if err != nil {
			t.Fatal(err)
		}
		name := e.Key[strings.LastIndexByte(e.Key, '/')+1:]
		if zarr.IsZarrDoc(name) != docs {
			continue
		}
		body, _, err := m.ReadAll(t.Context(), e.Key, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out[e.Key] = string(body)
		if !docs {
			out[e.Key] = fmt.Sprintf("%x", sha256.Sum256(body))
		}
	}
	return out
}

func migrate(t *testing.T, url string, to zarr.Layout, o *dataset.Options) *dataset.Migration {
	t.Helper()
	m, err := dataset.Migrate(t.Context(), locate(url), &dataset.MigrateOptions{Options: *o, Layout: to})
	if err != nil {
		for _, p := range m.Refused {
			t.Errorf("%s: %v", p.Path, p.Err)
		}
		t.Fatal(err)
	}
	return m
}

// layoutPairs returns all pairs of layouts between which datasets can be migrated.
func layoutPairs() (out [][2]zarr.Layout) {
	for from := zarr.LayoutPure; from <= zarr.LayoutNCZarr3; from++ {
		for to := zarr.LayoutPure; to <= zarr.LayoutNCZarr3; to++ {
			if pureV1 := from+to == zarr.LayoutPure+zarr.LayoutV1 && from*to == 0; from != to && !pureV1 {
				out = append(out, [2]zarr.Layout{from, to})
			}
		}
	}
	return out
}

// start is like everything, for any layout. It creates a dataset of Zarr v3 by migrating
// one of Zarr v2, so that the chunk keys have the form of v2.
func start(t *testing.T, url string, layout zarr.Layout, types []dtype.NC, consolidated bool, o *dataset.Options) {
	t.Helper()
	if layout.Format() == 2 {
		everything(t, url, layout, types, consolidated, o)
		return
	}
	everything(t, url, zarr.FormatLayout(2, layout.NCZarr()), types, consolidated, o)
	migrate(t, url, layout, o)
}

// A migration keeps everything but the layout, for every pair of layouts. Chunks do not
// change. A migration back to the old layout restores the content.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for i, p := range layoutPairs() {
		for _, consolidated := range []bool{false, true} {
			if teststore.OnServer() && (i%6 != 0 || !consolidated) { // a few pairs are enough, because all send the same kinds of requests
				continue
			}
			t.Run(fmt.Sprintf("%v to %v %v", p[0], p[1], consolidated), func(t *testing.T) {
				t.Parallel()
				o, url := memory(filters.Provider()), fmt.Sprintf("mem:m%d%v", i, consolidated)
				start(t, url, p[0], basic(), consolidated, o)
				want, chunks := contentOf(t, url, o), objects(t, url, o, false)
				if len(chunks) < 40 {
					t.Fatalf("only %d chunks", len(chunks))
				}
				for _, to := range []zarr.Layout{p[1], p[0]} {
					docs := objects(t, url, o, true)
					plan, err := dataset.Migrate(t.Context(), locate(url), &dataset.MigrateOptions{Options: *o, Layout: to, DryRun: true})
					if err != nil || !maps.Equal(docs, objects(t, url, o, true)) {
						t.Fatalf("dry run: %v, or it changed documents", err)
					}
					done := migrate(t, url, to, o)
					if !slices.Equal(plan.Put, done.Put) || !slices.Equal(plan.Delete, done.Delete) {
						t.Error("the dry run listed other documents")
					}
					ds := open(t, url, o)
					if ds.Layout() != to {
						t.Errorf("want %v, got %v", to, ds.Layout())
					}
					if got, err := ds.HasConsolidated(t.Context()); err != nil || got != consolidated {
						t.Errorf("consolidated: %v, %v", got, err)
					}
					if got := contentOf(t, url, o); got != want {
						t.Errorf("to %v: want\n%s\ngot\n%s", to, want, got)
					}
					if !maps.Equal(chunks, objects(t, url, o, false)) {
						t.Error("chunks have changed")
					}
					for key := range objects(t, url, o, true) {
						if name := key[strings.LastIndexByte(key, '/')+1:]; (name == zarr.V3Doc) != (to.Format() == 3) {
							t.Errorf("%v has %q", to, key)
						}
					}
					if consolidated {
						u := *o
						u.UseConsolidated = dataset.ConsolidatedVerify
						if stale := open(t, url, &u).StaleDocuments(); len(stale) > 0 {
							t.Errorf("stale consolidated metadata: %q", stale)
						}
					}
					if again := migrate(t, url, to, o); len(again.Put)+len(again.Delete) > 0 {
						t.Errorf("a second migration writes %q and deletes %q", again.Put, again.Delete)
					}
				}
			})
		}
	}
}

// changesFail is a store that accepts a limited number of changes and fails all later
// ones. left is the number of changes that it still accepts.
type changesFail struct {
	driver.Map
	left *atomic.Int64
}

func (k changesFail) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if k.left.Add(-1) < 0 {
		return driver.Info{}, errInjected
	}
	return k.Map.Put(ctx, key, body, o)
}

func (k changesFail) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	if k.left.Add(-1) < 0 {
		return errInjected
	}
	return k.Map.Delete(ctx, key, o)
}

// A migration that is interrupted after any number of changes leaves a dataset with the
// same values. Another migration completes it.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	for i, p := range [][2]zarr.Layout{
		{zarr.LayoutPure, zarr.LayoutV3},
		{zarr.LayoutV3, zarr.LayoutPure},
		{zarr.LayoutPure, zarr.LayoutNewest},
		{zarr.LayoutNewest, zarr.LayoutPure},
		{zarr.LayoutNewest, zarr.LayoutNCZarr3},
		{zarr.LayoutNCZarr3, zarr.LayoutNewest},
		{zarr.LayoutV1, zarr.LayoutNCZarr3},
		{zarr.LayoutV3, zarr.LayoutUpper},
		{zarr.LayoutLower, zarr.LayoutV3},
		{zarr.LayoutV3, zarr.LayoutNCZarr3},
		{zarr.LayoutNCZarr3, zarr.LayoutV3},
		{zarr.LayoutUpper, zarr.LayoutNewest},
		{zarr.LayoutNewest, zarr.LayoutUpper},
		{zarr.LayoutLower, zarr.LayoutNewest},
		{zarr.LayoutUpper, zarr.LayoutPure},
		{zarr.LayoutPure, zarr.LayoutLower},
		{zarr.LayoutV1, zarr.LayoutNewest},
		{zarr.LayoutNewest, zarr.LayoutV1},
		{zarr.LayoutLower, zarr.LayoutV1},
		{zarr.LayoutV1, zarr.LayoutUpper},
	} {
		if teststore.OnServer() && i != 1 && i != 3 { // as in TestMigrate
			continue
		}
		t.Run(fmt.Sprintf("%v to %v", p[0], p[1]), func(t *testing.T) {
			t.Parallel()
			o, from, at := memory(filters.Provider()), fmt.Sprintf("mem:k%d", i), fmt.Sprintf("k%dn", i)
			start(t, from, p[0], []dtype.NC{dtype.NCShort, dtype.NCChar}, true, o)
			want := contentOf(t, from, o)
			all := objects(t, from, o, true)
			maps.Copy(all, bodies(t, from, o))
			migrate(t, from, p[1], o)
			final := objects(t, from, o, true)
			for n := int64(0); ; n++ {
				url := fmt.Sprintf("mem:%s%d", at, n)
				store(t, o, fmt.Sprintf("%s%d", at, n), all)
				left := new(atomic.Int64)
				left.Store(n)
				u := *o
				u.Wrap = func(m driver.Map) driver.Map { return changesFail{m, left} }
				_, err := dataset.Migrate(t.Context(), locate(url), &dataset.MigrateOptions{Options: u, Layout: p[1]})
				if err == nil {
					if n < 10 {
						t.Errorf("the migration has only %d changes", n)
					}
					break
				}
				if !errors.Is(err, errInjected) {
					t.Fatal(err)
				}
				for _, use := range []dataset.ConsolidatedUse{dataset.ConsolidatedAuto, dataset.ConsolidatedTrust} {
					u := *o
					u.UseConsolidated = use
					if got := contentOf(t, url, &u); got != want {
						t.Fatalf("after %d changes, %v: want\n%s\ngot\n%s", n, use, want, got)
					}
				}
				migrate(t, url, p[1], o)
				got := objects(t, url, o, true)
				for key, text := range final {
					if got[key] != text {
						t.Errorf("after %d changes and another migration: %s: want %s, got %s", n, key, text, got[key])
					}
				}
				if len(got) != len(final) {
					t.Fatalf("after %d changes and another migration: want %d documents, got %d", n, len(final), len(got))
				}
			}
		})
	}
}

// bodies returns the chunks of a store.
func bodies(t *testing.T, url string, o *dataset.Options) map[string]string {
	t.Helper()
	m, err := storeURL(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	out := make(map[string]string)
	for key := range objects(t, url, o, false) {
		body, _, err := m.ReadAll(t.Context(), key, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out[key] = string(body)
	}
	return out
}

// A migration that cannot keep the meaning of everything lists each reason and writes
// nothing.
func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	v2 := func(members string) string {
		return `{"zarr_format": 2, "shape": [4, 4], "chunks": [2, 2], "dtype": "<i4", "fill_value": 0, "order": "C", "compressor": null, "filters": null` + members + `}`
	}
	v3 := func(members string) string {
		return `{"zarr_format": 3, "node_type": "array", "shape": [4, 4], "data_type": "int32", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}, ` +
			`"chunk_key_encoding": {"name": "v2"}, "fill_value": 0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]` + members + `}`
	}
	group := `{"zarr_format": 3, "node_type": "group"}`
	for name, c := range map[string]struct {
		to      zarr.Layout
		objects map[string]string
		want    []string
	}{
		"structures of two orders":     {zarr.LayoutV3, map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": strings.Replace(strings.Replace(v2(""), `"<i4"`, `[["a", "<i4"], ["b", ">f8"]]`, 1), `: 0`, `: "AAAAAAAAAAAAAAAA"`, 1)}, []string{"/v: its fields have different byte orders"}},
		"structures with arrays":       {zarr.LayoutV3, map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": strings.Replace(strings.Replace(v2(""), `"<i4"`, `[["a", "<i4"], ["b", "<i4", [2]]]`, 1), `: 0`, `: "AAAAAAAAAAAAAAAA"`, 1)}, []string{`/v: each value of the field "b" is an array`}},
		"an object codec":              {zarr.LayoutV3, map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": strings.Replace(strings.Replace(v2(""), `"<i4"`, `"|O"`, 1), `"filters": null`, `"filters": [{"id": "json2"}]`, 1)}, []string{`/v: not supported: the codec "json2" has no Zarr v3 name`}},
		"big-endian delta":             {zarr.LayoutV3, map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": strings.Replace(strings.Replace(v2(""), `"<i4"`, `">i4"`, 1), `"filters": null`, `"filters": [{"id": "delta", "dtype": ">i4"}]`, 1)}, []string{`/v: the codec "delta" stores big-endian elements`}},
		"delta after bytes":            {zarr.LayoutV3, map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": strings.Replace(v2(""), `"filters": null`, `"filters": [{"id": "zlib"}, {"id": "delta", "dtype": "<i4"}]`, 1)}, []string{`/v: in Zarr v3 the codec "delta", which takes arrays, cannot follow "zlib"`}},
		"an unknown codec":             {zarr.LayoutV3, map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": strings.Replace(v2(""), `"compressor": null`, `"compressor": {"id": "mine"}`, 1)}, []string{`/v: open codec "mine": filter not available`}},
		"strings that read as numbers": {zarr.LayoutPure, map[string]string{".zgroup": `{"zarr_format": 2}`, ".zattrs": `{"a": ["NaN", "NaN"], "_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_group": {"dimensions": {}, "arrays": [], "groups": []}, "_nczarr_attr": {"types": {"a": "|S3"}}}`}, []string{"/: pure Zarr readers would read the strings"}},
		"shards":                       {zarr.LayoutPure, map[string]string{"zarr.json": group, "v/zarr.json": strings.Replace(v3(""), `[{"name": "bytes", "configuration": {"endian": "little"}}]`, `[{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]`, 1)}, []string{"/v: its chunks are in shards"}},
		"default keys":                 {zarr.LayoutPure, map[string]string{"zarr.json": group, "ok/zarr.json": v3(""), "v/zarr.json": strings.Replace(v3(""), `{"name": "v2"}`, `{"name": "default"}`, 1)}, []string{`/v: its chunk keys begin with "c"`}},
		"a rectilinear grid":           {zarr.LayoutPure, map[string]string{"zarr.json": group, "v/zarr.json": strings.Replace(v3(""), `{"name": "regular", "configuration": {"chunk_shape": [2, 2]}}`, `{"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[1, 3], [2, 2]]}}`, 1)}, []string{"/v: its chunks differ in shape"}},
		"a transpose":                  {zarr.LayoutPure, map[string]string{"zarr.json": group, "v/zarr.json": strings.ReplaceAll(strings.ReplaceAll(strings.Replace(v3(""), `[{"name": "bytes"`, `[{"name": "transpose", "configuration": {"order": [1, 2, 0]}}, {"name": "bytes"`, 1), "[4, 4]", "[4, 4, 4]"), "[2, 2]", "[2, 2, 2]")}, []string{"/v: storage order [1 2 0] requires Zarr v3"}},
		"an unnamed dimension":         {zarr.LayoutPure, map[string]string{"zarr.json": group, "v/zarr.json": v3(`, "dimension_names": ["x", null]`)}, []string{"/v: only some of its dimensions have names"}},
		"two":                          {zarr.LayoutNewest, map[string]string{".zgroup": `{"zarr_format": 2}`, "a/.zarray": strings.Replace(v2(""), `"<i4"`, `"|b1"`, 1), "b/.zarray": strings.Replace(v2(""), `"<i4"`, `"<c8"`, 1)}, []string{"/a: NCZarr does not support elements of type |b1", "/b: NCZarr does not support elements of type <c8"}},
		"a NaN with a payload":         {zarr.LayoutPure, map[string]string{"zarr.json": group, "v/zarr.json": strings.Replace(strings.Replace(v3(""), "int32", "float32", 1), `"fill_value": 0`, `"fill_value": "0x7fc00001"`, 1)}, []string{"/v: its fill value cannot be kept"}},
		"a damaged array":              {zarr.LayoutV3, map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": `{"zarr_format": 2}`}, []string{"/v: shape: the member is missing"}},
		"an unlisted array":            {zarr.LayoutPure, map[string]string{".zgroup": `{"zarr_format": 2}`, ".zattrs": `{"_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_group": {"dimensions": {}, "arrays": [], "groups": []}}`, "v/.zarray": v2("")}, []string{"/v: NCZarr's lists of groups and arrays do not contain the node"}},
		"documents that differ":        {zarr.LayoutV3, map[string]string{"zarr.json": group, ".zgroup": `{"zarr_format": 2}`, "v/zarr.json": v3(""), "v/.zarray": strings.Replace(v2(""), "[4, 4]", "[6, 4]", 1), "v/.zattrs": "{}"}, []string{"/v: the node has documents of both Zarr versions that differ"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, at := memory(filters.Provider()), "r"+strings.ReplaceAll(name, " ", "")
			store(t, o, at, c.objects)
			m, err := dataset.Migrate(t.Context(), locate("mem:"+at), &dataset.MigrateOptions{Options: *o, Layout: c.to})
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot be converted: %d; nothing was written", len(c.want))) {
				t.Fatalf("want %d refusals, got %v", len(c.want), err)
			}
			for i, p := range m.Refused {
				if text := p.Path + ": " + p.Err.Error(); !strings.HasPrefix(text, c.want[i][:strings.Index(c.want[i], ":")]) || !strings.Contains(text, c.want[i][strings.Index(c.want[i], ": ")+2:]) {
					t.Errorf("want %q, got %q", c.want[i], text)
				}
			}
			if got := objects(t, "mem:"+at, o, true); !maps.Equal(got, c.objects) {
				t.Errorf("documents have changed: %q", got)
			}
		})
	}
}

// A location or a pair of layouts that a migration does not support causes an error.
func TestMigrateNotPossible(t *testing.T) {
	t.Parallel()
	o := memory(filters.Provider())
	everything(t, "mem:np", zarr.LayoutUpper, nil, false, o)
	everything(t, "mem:v1", zarr.LayoutV1, nil, false, o)
	root := `{"_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_group": {"dimensions": {"time": {"size": 4, "unlimited": 1}}, "arrays": ["v"], "groups": []}}`
	store(t, o, "short", map[string]string{
		".zgroup": `{"zarr_format": 2}`, ".zattrs": root,
		"v/.zarray": `{"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": "|i1", "fill_value": 9, "order": "C", "compressor": null, "filters": null}`,
		"v/.zattrs": `{"_nczarr_array": {"dimension_references": ["/time"], "storage": "chunked"}}`,
		"v/1":       "\x03\x04", // beyond the shape
	})
	store(t, o, "only", map[string]string{".zmetadata": `{"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}}`})
	for _, c := range []struct {
		url  string
		to   zarr.Layout
		want string
	}{
		{"mem:v1", zarr.LayoutPure, "migrate to NCZarr 2 first"},
		{"mem:np#mode=zarr", zarr.LayoutV3, "the dataset is NCZarr but was opened as pure Zarr"},
		{"mem:only", zarr.LayoutV3, "the dataset has only consolidated metadata"},
		{"mem:none", zarr.LayoutV3, "no dataset"},
	} {
		if _, err := dataset.Migrate(t.Context(), locate(c.url), &dataset.MigrateOptions{Options: *o, Layout: c.to}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", c.url, c.want, err)
		}
	}
	m, err := dataset.Migrate(t.Context(), locate("mem:short"), &dataset.MigrateOptions{Options: *o, Layout: zarr.LayoutPure})
	if err == nil || len(m.Refused) != 1 || !strings.Contains(m.Refused[0].Err.Error(), "shorter than its unlimited dimensions") {
		t.Errorf("want a refusal of an array that is shorter than its dimension, got %+v, %v", m, err)
	}
	want := contentOf(t, "mem:short", o)
	migrate(t, "mem:short", zarr.LayoutNCZarr3, o) // this layout has unlimited dimensions
	if got := contentOf(t, "mem:short", o); got != want || !strings.Contains(got, "[9 9 3 9]") {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

// A change of another writer during a migration is never lost: the migration fails, and
// the dataset has the change. Another migration converts it.
func TestMigrateConflict(t *testing.T) {
	t.Parallel()
	array := `{"zarr_format": 2, "shape": [%d], "chunks": [2], "dtype": "<i4", "fill_value": 7, "order": "C", "compressor": null, "filters": null}`
	for name, c := range map[string]struct {
		from, to      zarr.Layout
		at, key, body string
		shape         string // variable that has the shape of the other writer after another migration
	}{
		"changed":          {zarr.LayoutPure, zarr.LayoutV3, "w/zarr.json", "v/.zarray", fmt.Sprintf(array, 6), "v"},
		"added":            {zarr.LayoutPure, zarr.LayoutV3, "w/zarr.json", "new/.zarray", fmt.Sprintf(array, 6), "new"},
		"changed late":     {zarr.LayoutPure, zarr.LayoutV3, "zarr.json", "v/.zarray", fmt.Sprintf(array, 6), ""},
		"in place":         {zarr.LayoutPure, zarr.LayoutNewest, "w/.zattrs", ".zattrs", `{"title": "theirs"}`, ""},
		"in place, a node": {zarr.LayoutNewest, zarr.LayoutPure, ".zattrs", "v/.zattrs", `{"title": "theirs"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, at := memory(filters.Provider()), "c"+strings.NewReplacer(" ", "", ",", "").Replace(name)
			ds, err := createURL(t.Context(), "mem:"+at, &dataset.CreateOptions{Options: *o, Layout: &c.from})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"v", "w"} {
				define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, ds.Root(), name+"x", 4, false)}, Chunks: []int64{2}})
			}
			closeDataset(t, ds)
			var once atomic.Bool
			h := &hooked{}
			h.stored = func(key string) error {
				if key == c.at && once.CompareAndSwap(false, true) {
					_, err := h.Map.Put(t.Context(), c.key, driver.Bytes(c.body), &driver.PutOptions{})
					return err
				}
				return nil
			}
			u := *withHooks(o, h)
			u.Workers = 1
			_, err = dataset.Migrate(t.Context(), locate("mem:"+at), &dataset.MigrateOptions{Options: u, Layout: c.to})
			if ncerr.KindOf(err) != ncerr.ErrConflict {
				t.Fatalf("want ErrConflict, got %v", err)
			}
			if got := objects(t, "mem:"+at, o, true)[c.key]; got != c.body {
				t.Errorf("the other writer's document is now %q", got)
			}
			if c.shape == "" {
				return
			}
			migrate(t, "mem:"+at, c.to, o)
			if got := variable(t, open(t, "mem:"+at, o), c.shape).Shape(); !slices.Equal(got, []int64{6}) {
				t.Errorf("want the shape of the other writer, got %v", got)
			}
		})
	}
}
