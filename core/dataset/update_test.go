package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// store creates a store in memory with the given objects.
func store(t *testing.T, o *dataset.Options, name string, objects map[string]string) {
	t.Helper()
	opener, err := o.Registry.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: name, Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	for key, body := range objects {
		if _, err := m.Put(t.Context(), key, driver.Bytes(body), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// update opens a dataset for reading and writing.
func update(t *testing.T, url string, o *dataset.Options) *dataset.Dataset {
	t.Helper()
	u := *o
	u.Update = true
	ds, err := openURL(t.Context(), url, &u)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func variable(t *testing.T, ds *dataset.Dataset, path string) *dataset.Var {
	t.Helper()
	v, err := ds.Root().Var(path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func attr(t *testing.T, attrs []dataset.Attr, name string) any {
	t.Helper()
	i := slices.IndexFunc(attrs, func(a dataset.Attr) bool { return a.Name == name })
	if i < 0 {
		t.Errorf("attribute %q is missing", name)
		return nil
	}
	return attrs[i].Value
}

var layouts = map[string]struct {
	layout zarr.Layout
	mode   string
}{
	"newest": {zarr.LayoutNewest, "nczarr"}, "lower": {zarr.LayoutLower, "nczarr"}, "upper": {zarr.LayoutUpper, "nczarr"},
	"v1": {zarr.LayoutV1, "nczarr"}, "pure": {zarr.LayoutPure, "zarr"},
	"v1 consolidated":     {zarr.LayoutV1, "nczarr,consolidated"},
	"newest consolidated": {zarr.LayoutNewest, "nczarr,consolidated"}, "pure consolidated": {zarr.LayoutPure, "zarr,consolidated"},
	"v3": {zarr.LayoutV3, "zarr,v3"}, "v3 consolidated": {zarr.LayoutV3, "v3,consolidated"},
	"nczarr3": {zarr.LayoutNCZarr3, "nczarr,v3"}, "nczarr3 consolidated": {zarr.LayoutNCZarr3, "nczarr,v3,consolidated"},
}

// In every layout, a dataset is created, opened, changed in several ways and read again.
// Unchanged parts are preserved.
func TestUpdateOfEveryLayout(t *testing.T) {
	t.Parallel()
	for name, c := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory(invert{})
			url := "mem:up#mode=" + c.mode
			ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &c.layout})
			if err != nil {
				t.Fatal(err)
			}
			setText(t, ds.Root().SetAttr, "keep", "root")
			time, x := dim(t, ds.Root(), "time", 0, true), dim(t, ds.Root(), "x", 3, false)
			g, err := ds.Root().DefineGroup("g")
			if err != nil {
				t.Fatal(err)
			}
			setText(t, g.SetAttr, "keep", "group")
			v := define(t, g, "v", &dataset.VarSpec{
				Type: dtype.NCShort, Dims: []*dataset.Dim{time, x}, Chunks: []int64{2, 2}, Order: dtype.Big,
				Codecs: []zarr.CodecSpec{{ID: "invert"}}, Attrs: []dataset.Attr{{Name: "keep", Type: dtype.NCUShort, Value: []uint16{1, 2}}},
			})
			s := define(t, ds.Root(), "s", &dataset.VarSpec{Type: dtype.NCChar})
			write(t, v, chunk.Selection{Start: []int64{0, 0}, Count: []int64{3, 3}}, count[int16](9))
			write(t, s, s.All(), []uint8{'q'})
			closeDataset(t, ds)

			ds = update(t, url, o)
			if ds.Layout() != c.layout {
				t.Fatalf("want layout %s, got %s", c.layout, ds.Layout())
			}
			g, err = ds.Root().Group("g")
			if err != nil {
				t.Fatal(err)
			}
			v = variable(t, ds, "g/v")
			setText(t, v.SetAttr, "new", "v")
			w := define(t, g, "w", &dataset.VarSpec{Type: dtype.NCDouble, Dims: v.Dims()[1:]})
			write(t, w, w.All(), []float64{1, 2, 3})
			write(t, v, chunk.Selection{Start: []int64{1, 1}, Count: []int64{1, 2}}, []int16{50, 60})
			want := []int16{1, 2, 3, 4, 50, 60, 7, 8, 9}
			if c.layout.KeepsUnlimited() {
				write(t, v, chunk.Selection{Start: []int64{4, 2}, Count: []int64{1, 1}}, []int16{15})
				f := int16(-32767)
				want = append(want, f, f, f, f, f, 15)
			}
			sub, err := g.DefineGroup("sub")
			if err != nil {
				t.Fatal(err)
			}
			setText(t, sub.SetAttr, "new", "sub")
			closeDataset(t, ds)

			ds = open(t, url, o)
			if p := ds.Problems(); len(p) > 0 {
				t.Fatalf("problems: %v", p)
			}
			expect(t, ds, "g/v", want)
			expect(t, ds, "g/w", []float64{1, 2, 3})
			expect(t, ds, "s", []uint8{'q'})
			v = variable(t, ds, "g/v")
			if k := attr(t, v.Attrs(), "keep"); fmt.Sprint(k) != "[1 2]" {
				t.Errorf("attribute keep: want [1 2], got %v", k)
			}
			if n := v.Dims()[0].Name(); n != "time" && c.layout != zarr.LayoutUpper && c.layout != zarr.LayoutV1 {
				t.Errorf("want dimension time, got %s", n)
			}
			if variable(t, ds, "s").Type() != dtype.NCChar || v.DType().Order != dtype.Big {
				t.Error("a type has changed")
			}
			sub, err = ds.Root().Group("g/sub")
			if err != nil {
				t.Fatal(err)
			}
			g, _ = ds.Root().Group("g")
			for _, a := range []any{attr(t, ds.Root().Attrs(), "keep"), attr(t, g.Attrs(), "keep"), attr(t, v.Attrs(), "new"), attr(t, sub.Attrs(), "new")} {
				if !slices.Contains([]any{"root", "group", "v", "sub"}, a) {
					t.Errorf("an attribute has changed: %v", a)
				}
			}
		})
	}
}

const i4 = `"zarr_format": 2, "dtype": "<i4", "compressor": null, "filters": null, "fill_value": 7, "order": "C"`

// A variable of an NCZarr dataset whose dimensions are not declared can be changed and
// read again.
func TestUpdateDeclaresDimensions(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "d", map[string]string{
		".zgroup":   `{"zarr_format": 2}`,
		".zattrs":   `{"_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_group": {"dimensions": {"_Anonymous_Dim_4": 9}, "arrays": ["a", "b"], "groups": []}}`,
		"a/.zarray": `{"shape": [4, 5], "chunks": [4, 5], ` + i4 + `}`,
		"b/.zarray": `{"shape": [6], "chunks": [6], ` + i4 + `}`,
		"b/.zattrs": `{"_ARRAY_DIMENSIONS": ["y"]}`,
	})
	ds := update(t, "mem:d#mode=nczarr", o)
	setText(t, variable(t, ds, "a").SetAttr, "new", "x")
	setText(t, variable(t, ds, "b").SetAttr, "new", "x")
	closeDataset(t, ds)
	ds = open(t, "mem:d#mode=nczarr", o)
	if p := ds.Problems(); len(p) > 0 {
		t.Fatalf("problems: %v", p)
	}
	expect(t, ds, "b", []int32{7, 7, 7, 7, 7, 7})
	for path, want := range map[string][]int64{"a": {4, 5}, "b": {6}} {
		v := variable(t, ds, path)
		if attr(t, v.Attrs(), "new") != "x" || !slices.Equal(v.Shape(), want) {
			t.Errorf("%s: unexpected shape %v or attribute", path, v.Shape())
		}
	}
}

// An update preserves pure Zarr metadata that this library would write differently.
func TestUpdateKeepsPureMetadata(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := map[string]string{
		".zgroup":   `{"zarr_format": 2}`,
		".zattrs":   `{"o": {"a": [1, {"b": null}]}, "n": null, "mixed": [1, "x"], "t": true, "big": 12345678901234567890, "none": [], "f": 0.1}`,
		"a/.zarray": `{"shape": [2], "chunks": [2], ` + i4 + `}`,
		"a/.zattrs": `{"_ARRAY_DIMENSIONS": ["x"]}`,
		"b/.zarray": `{"shape": [3], "chunks": [3], "dimension_separator": "/", ` + strings.Replace(i4, `"C"`, `"F"`, 1) + `}`,
		"b/.zattrs": `{"_ARRAY_DIMENSIONS": ["x"]}`,
	}
	store(t, o, "p", objects)
	ds := update(t, "mem:p#mode=zarr", o)
	setText(t, variable(t, ds, "b").SetAttr, "new", "x")
	setText(t, ds.Root().SetAttr, "new", "x")
	closeDataset(t, ds)
	ds = open(t, "mem:p#mode=zarr", o)
	body, _, err := ds.Map().ReadAll(t.Context(), "b/.zattrs", 0)
	if err != nil || !strings.Contains(string(body), `"x"`) || !strings.Contains(string(body), "_ARRAY_DIMENSIONS") {
		t.Errorf("the dimension names are missing: %s %v", body, err)
	}
	body, _, err = ds.Map().ReadAll(t.Context(), ".zattrs", 0)
	text := strings.ReplaceAll(string(body), " ", "")
	for _, want := range []string{`"o":{"a":[1,{"b":null}]}`, `"mixed":[1,"x"]`, `"big":12345678901234567890`, `"none":[]`, `"f":0.1`} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s is missing: %s, %v", want, body, err)
		}
	}
	if body, _, err := ds.Map().ReadAll(t.Context(), "a/.zarray", 0); err != nil || string(body) != objects["a/.zarray"] {
		t.Errorf("an unchanged document was written: %s, %v", body, err)
	}
}

// NCZarr metadata is not lost when a dataset is opened as pure Zarr or at one of its
// arrays.
func TestUpdateNeverStripsNCZarr(t *testing.T) {
	t.Parallel()
	for name, c := range layouts {
		if !c.layout.NCZarr() {
			continue
		}
		o := memory()
		ds, err := createURL(t.Context(), "mem:s", &dataset.CreateOptions{Options: *o, Layout: &c.layout})
		if err != nil {
			t.Fatal(err)
		}
		x := dim(t, ds.Root(), "x", 3, true)
		define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
		closeDataset(t, ds)
		ds = update(t, "mem:s#mode=zarr", o)
		v := variable(t, ds, "v")
		for _, err := range []error{
			v.SetAttr(dataset.Attr{Name: "a", Type: dtype.NCInt, Value: []int32{1}}), v.DeleteAttr("a"),
			ds.Root().SetAttr(dataset.Attr{Name: "a", Type: dtype.NCInt, Value: []int32{1}}),
			errorOf(ds.Root().DefineGroup("g")), errorOf(ds.Root().DefineDim("d", 1, false)),
			errorOf(ds.Root().DefineVar(t.Context(), "w", &dataset.VarSpec{Type: dtype.NCInt})),
		} {
			if !errors.Is(err, ncerr.ErrUnsupported) {
				t.Errorf("%s: want ErrUnsupported, got %v", name, err)
			}
		}
		write(t, v, v.All(), []int32{1, 2, 3})
		closeDataset(t, ds)
		ds = open(t, "mem:s", o)
		expect(t, ds, "v", []int32{1, 2, 3})
		if _, err := ds.Root().Dim("x"); err != nil {
			t.Errorf("%s: dimension x: %v", name, err)
		}
	}
}

// A store whose root is an array accepts values and, unless the array has NCZarr metadata,
// attributes. It remains an array.
func TestUpdateOfAnArrayAtTheRoot(t *testing.T) {
	t.Parallel()
	doc := `{"shape": [3], "chunks": [2], ` + i4 + `}`
	for name, c := range map[string]struct {
		attrs  string
		frozen bool
	}{
		"pure":   {`{"_ARRAY_DIMENSIONS": ["x"], "keep": 1}`, false},
		"nczarr": {`{"_nczarr_array": {"dimension_references": ["/x"], "storage": "chunked"}, "keep": 1}`, true},
	} {
		o := memory()
		store(t, o, "arr", map[string]string{".zarray": doc, ".zattrs": c.attrs})
		ds := update(t, "mem:arr", o)
		if len(ds.Root().Vars()) != 1 {
			t.Fatalf("%s: want one variable", name)
		}
		v := ds.Root().Vars()[0]
		write(t, v, slab(1, 2), []int32{1, 2})
		if err := ds.Root().SetAttr(dataset.Attr{Name: "a", Type: dtype.NCInt, Value: []int32{1}}); !errors.Is(err, ncerr.ErrUnsupported) {
			t.Errorf("%s: group attribute: want ErrUnsupported, got %v", name, err)
		}
		if err := v.SetAttr(dataset.Attr{Name: "new", Type: dtype.NCInt, Value: []int32{1}}); errors.Is(err, ncerr.ErrUnsupported) != c.frozen {
			t.Errorf("%s: set attribute: got %v", name, err)
		}
		closeDataset(t, ds)
		ds = open(t, "mem:arr", o)
		names, err := ds.Map().Search(t.Context(), "")
		if err != nil || !slices.Equal(names, []string{".zarray", ".zattrs", "0", "1"}) {
			t.Errorf("%s: unexpected keys %q, %v", name, names, err)
		}
		v = ds.Root().Vars()[0]
		if got, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil || !slices.Equal(got, []int32{7, 1, 2}) {
			t.Errorf("%s: want [7 1 2], got %v, %v", name, got, err)
		}
		attr(t, v.Attrs(), "keep")
		if v.Dims()[0].Name() != "x" {
			t.Errorf("%s: want dimension x, got %q", name, v.Dims()[0].Name())
		}
	}
}

func fileOptions() *dataset.Options {
	return &dataset.Options{Registry: registry.New([]driver.Opener{file.New()}), SingleWriter: true}
}

// A dataset that was opened at one of its groups can be changed.
func TestUpdateOfASubgroup(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"newest", "lower", "upper", "nczarr3"} {
		layout := layouts[name].layout
		o := fileOptions()
		dir := path.Join(t.TempDir(), "ds.file")
		ds, err := createURL(t.Context(), dir, &dataset.CreateOptions{Options: *o, Layout: &layout})
		if err != nil {
			t.Fatal(err)
		}
		time := dim(t, ds.Root(), "time", 2, layout.KeepsUnlimited())
		a, err := ds.Root().DefineGroup("a")
		if err != nil {
			t.Fatal(err)
		}
		b, err := a.DefineGroup("b")
		if err != nil {
			t.Fatal(err)
		}
		v := define(t, b, "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{time}})
		write(t, v, v.All(), []int32{1, 2})
		define(t, ds.Root(), "other", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{time}})
		closeDataset(t, ds)

		ds = update(t, dir+"/a/b", o)
		if p := ds.Root().Path(); p != "/a/b" {
			t.Fatalf("%s: want root /a/b, got %s", name, p)
		}
		v = variable(t, ds, "v")
		if same := variable(t, ds, v.Path()); same != v {
			t.Errorf("%s: the absolute name of a variable resolves to another one", name)
		}
		if v.Dims()[0].Path() != "/time" {
			t.Errorf("%s: want dimension /time, got %s", name, v.Dims()[0].Path())
		}
		want, other := []int32{1, 2}, 2
		if layout.KeepsUnlimited() {
			write(t, v, slab(2, 1), []int32{3})
			want, other = append(want, 3), 3
		}
		setText(t, v.SetAttr, "new", "v")
		setText(t, ds.Root().SetAttr, "new", "b")
		w := define(t, ds.Root(), "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: v.Dims()})
		write(t, w, w.All(), want)
		closeDataset(t, ds)

		ds = open(t, dir, o)
		if p := ds.Problems(); len(p) > 0 {
			t.Fatalf("problems: %v", p)
		}
		expect(t, ds, "/a/b/v", want)
		expect(t, ds, "/a/b/w", want)
		if n := variable(t, ds, "other").Shape()[0]; n != int64(other) {
			t.Errorf("%s: want length %d, got %d", name, other, n)
		}
		b, err = ds.Root().Group("a/b")
		if err != nil || attr(t, b.Attrs(), "new") != "b" {
			t.Errorf("%s: group /a/b or its attribute: %v", name, err)
		}
	}
}

// keyRecorder records the keys of puts in order. The put of the key fail fails.
type keyRecorder struct {
	driver.Map
	mu   *sync.Mutex
	keys *[]string
	fail *string
}

func (r keyRecorder) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	r.mu.Lock()
	fails := key == *r.fail
	r.mu.Unlock()
	if fails {
		return driver.Info{}, ncerr.ErrAuth
	}
	info, err := r.Map.Put(ctx, key, body, o)
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.keys = append(*r.keys, key)
	return info, err
}

// pausedFlush is a Map whose first Flush closes entered and then waits until goOn is
// closed. put is called before each put.
type pausedFlush struct {
	driver.Map
	entered, goOn chan struct{}
	first         *sync.Once
	put           func(key string)
}

func (p pausedFlush) Flush(ctx context.Context) error {
	p.first.Do(func() {
		close(p.entered)
		<-p.goOn
	})
	return p.Map.Flush(ctx)
}

func (p pausedFlush) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	p.put(key)
	return p.Map.Put(ctx, key, body, o)
}

// A group that is defined during the first Flush can be written by another Flush, even if
// the first one ends between its documents.
func TestGroupDefinedDuringFirstFlush(t *testing.T) {
	t.Parallel()
	o := memory()
	entered, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var end sync.Once
	put := func(key string) {
		if key == "g/.zattrs" {
			end.Do(func() {
				close(goOn)
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
	}
	o.Wrap = func(m driver.Map) driver.Map { return pausedFlush{m, entered, goOn, new(sync.Once), put} }
	ds := create(t, "mem:flushes#mode=nczarr", o)
	go func() { done <- ds.Flush(t.Context()) }()
	<-entered
	g, err := ds.Root().DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	setText(t, g.SetAttr, "title", "x")
	closeDataset(t, ds)
}

// checkOrder checks that the document that makes a node visible is put after everything
// else in the node and below it, except consolidated metadata.
func checkOrder(t *testing.T, what string, keys []string) {
	t.Helper()
	for i, key := range keys {
		dir, name := path.Split(key)
		if !slices.Contains(zarr.NodeDocNames(), name) {
			continue
		}
		for _, later := range keys[i+1:] {
			if strings.HasPrefix(later, dir) && later != ".zmetadata" {
				t.Errorf("%s: %s is put after %s", what, later, key)
			}
		}
	}
}

// A node of a new dataset becomes visible only when it is complete, also if the first
// Flush fails after it has put the document of the root.
func TestOrderOfDocuments(t *testing.T) {
	t.Parallel()
	for mode, last := range map[string]string{"nczarr": ".zgroup", "zarr": ".zgroup", "nczarr,consolidated": ".zmetadata", "nczarr,v3": "zarr.json", "zarr,v3": "zarr.json"} {
		var keys []string
		fail := ""
		o := memory()
		o.Wrap = func(m driver.Map) driver.Map { return keyRecorder{m, new(sync.Mutex), &keys, &fail} }
		ds := create(t, "mem:order#mode="+mode, o)
		setText(t, ds.Root().SetAttr, "title", "x")
		fill := func(at *dataset.Group, names ...string) {
			t.Helper()
			for _, name := range names {
				g, err := at.DefineGroup(name)
				if err != nil {
					t.Fatal(err)
				}
				v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{dim(t, g, "x", 4, false)}})
				setText(t, v.SetAttr, "units", "m")
				write(t, v, slab(0, 4), []int8{1, 2, 3, 4})
				at = g
			}
		}
		fill(ds.Root(), "g", "h")
		if fail = last; last != ".zmetadata" {
			fail = ""
		}
		if err := ds.Flush(t.Context()); (err == nil) != (fail == "") {
			t.Errorf("%s: Flush: %v", mode, err)
		}
		checkOrder(t, mode, keys)
		if fail == "" && keys[len(keys)-1] != last || len(keys) < 8 {
			t.Errorf("%s: want %s at the end, got the order %q", mode, last, keys)
		}
		keys, fail = nil, ""
		fill(ds.Root(), "i", "j")
		closeDataset(t, ds)
		checkOrder(t, mode+", again", slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, "i/") }))
	}
}
