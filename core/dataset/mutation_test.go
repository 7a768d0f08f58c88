package dataset_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// tree is a JSON value: an object or array with its entries in order, or the text of
// any other value.
type tree struct {
	open  byte // '{', '[' or 0
	names []string
	list  []*tree
	text  string
}

func parseTree(t *testing.T, d *json.Decoder) *tree {
	t.Helper()
	tok, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		text, err := json.Marshal(tok)
		if err != nil {
			t.Fatal(err)
		}
		return &tree{text: string(text)}
	}
	n := &tree{open: byte(delim)}
	for d.More() {
		if delim == '{' {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			n.names = append(n.names, name.(string))
		}
		n.list = append(n.list, parseTree(t, d))
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *tree) write(b *strings.Builder) {
	if n.open == 0 {
		b.WriteString(n.text)
		return
	}
	b.WriteByte(n.open)
	for i, e := range n.list {
		if i > 0 {
			b.WriteByte(',')
		}
		if n.open == '{' {
			fmt.Fprintf(b, "%q:", n.names[i])
		}
		e.write(b)
	}
	b.WriteByte(n.open + 2) // the closing bracket
}

// mutations returns replacements for a value.
func mutations() map[string]string {
	return map[string]string{
		"null": "null", "true": "true", "negative": "-1", "overflow": "1e400", "20 digits": "99999999999999999999", "fraction": "1.5", "empty text": `""`,
		"text": `"x"`, "path": `"/../x"`, "empty list": "[]", "list of lists": "[[]]", "list of null": "[null]", "empty object": "{}", "object": `{"x": -1}`, "bare NaN": "NaN",
		"deep": strings.Repeat("[", 60) + strings.Repeat("]", 60), "deeper": strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100),
		"huge list": "[9223372036854775807,9223372036854775807]", "many digits": strings.Repeat("9", 20_000), "long text": `"` + strings.Repeat("x", 1<<17) + `"`,
		"long list": "[" + strings.Repeat("1,", 20_000) + "1]", "syntax": `{"a" 1}`,
	}
}

// eachMutation calls f with every text that results from changing one value of the
// document, or from removing or duplicating one entry. member is the name of the
// innermost member that contains the change.
func eachMutation(t *testing.T, doc string, f func(what, member, text string)) {
	t.Helper()
	root := parseTree(t, json.NewDecoder(strings.NewReader(doc)))
	emit := func(what, member string) {
		var b strings.Builder
		root.write(&b)
		f(what, member, b.String())
	}
	var walk func(n *tree, member string)
	walk = func(n *tree, member string) {
		for i := range n.list {
			name := member
			if n.open == '{' {
				name = n.names[i]
			}
			old := *n
			n.list = slices.Delete(slices.Clone(old.list), i, i+1)
			if n.open == '{' {
				n.names = slices.Delete(slices.Clone(old.names), i, i+1)
			}
			if n.open == '{' {
				emit("removed", name)
			} else {
				emit("element removed", name)
			}
			n.list = slices.Insert(slices.Clone(old.list), i, old.list[i])
			if n.open == '{' {
				n.names = slices.Insert(slices.Clone(old.names), i, old.names[i])
			}
			emit("doubled", name)
			*n = old
			n.list = slices.Clone(old.list)
			for what, text := range mutations() {
				n.list[i] = &tree{text: text}
				emit(what, name)
			}
			*n = old
			walk(n.list[i], name)
		}
	}
	walk(root, "")
	for what, text := range mutations() {
		f(what, "", text)
	}
}

// contents returns the values of all variables by path, as text.
func contents(t *testing.T, ds *dataset.Dataset) (map[string]string, error) {
	t.Helper()
	out := map[string]string{}
	var walk func(g *dataset.Group) error
	walk = func(g *dataset.Group) error {
		for _, v := range g.Vars() {
			all := v.All()
			if all.Len() > 1000 {
				out[v.Path()] = fmt.Sprint("shape ", v.Shape())
				continue
			}
			values := v.NewSlice(all.Len())
			if err := v.Read(t.Context(), all, values); err != nil {
				return fmt.Errorf("%q: %w", v.Path(), err)
			}
			out[v.Path()] = fmt.Sprint(values)
		}
		for _, sub := range g.Groups() {
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return out, walk(ds.Root())
}

// legal reports whether a change results in another valid dataset, so that the document
// does not show that it was changed.
func legal(doc, member, what string) bool {
	switch member {
	case "dimension_separator": // without it, other chunk keys apply
		return what == "null" || what == "removed"
	case "arrays", "vars", "groups", "subgroups": // an unlisted child is not part of the dataset
		return what == "element removed" || what == "empty list"
	}
	// A document that is missing from consolidated metadata counts as missing from the
	// store.
	return doc == ".zmetadata" && strings.Contains(member, ".z") && what == "removed"
}

// TestMutations reads a dataset of every layout after each mutation of each of its
// documents. The values must be unchanged, or an error must contain the location. No
// mutation may cause a read to allocate more than 64 MiB.
func TestMutations(t *testing.T) { //nolint:paralleltest // it measures memory
	// The test allocates gigabytes but holds little, so that the collector would run all the time.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(128 << 20))
	for _, name := range slices.Sorted(maps.Keys(layouts)) {
		if raceDetector && name != "newest" { // one layout is enough to look for races
			continue
		}
		c := layouts[name]
		if c.layout.Inline() && strings.Contains(c.mode, "consolidated") { // v3 has no other documents
			continue
		}
		o := inMemory(invert{})
		if strings.Contains(c.mode, "consolidated") {
			o.UseConsolidated = dataset.ConsolidatedTrust
		}
		url := "mem:m#mode=" + c.mode
		mutationSample(t, o, url, c.layout)
		ds := open(t, url, o)
		want, err := contents(t, ds)
		if err != nil || len(want) != 4 {
			t.Fatalf("%s: the original: %v, %v", name, want, err)
		}
		opener, err := o.Registry.Driver("mem")
		if err != nil {
			t.Fatal(err)
		}
		m, err := opener.Open(t.Context(), driver.OpenSpec{Path: "m", Mode: driver.Update})
		if err != nil {
			t.Fatal(err)
		}
		mu := mutator{o: o, url: url, want: want, m: m}
		for e, err := range ds.Map().List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
			if err != nil {
				t.Fatal(err)
			}
			isDoc := zarr.IsZarrDoc(path.Base(e.Key))
			if isDoc && (path.Base(e.Key) == ".zmetadata") == (o.UseConsolidated == dataset.ConsolidatedTrust) {
				mu.document(t, name, e.Key)
			}
		}
		t.Logf("%s: %d mutations, %d equal, %d refused", name, mu.n, mu.equal, mu.refused)
		if mu.n < 1000 || mu.equal < 100 || mu.refused < 300 {
			t.Errorf("%s: too few mutations", name)
		}
	}
}

// mutationSample creates a small dataset that uses everything that documents can
// contain.
func mutationSample(t *testing.T, o *dataset.Options, url string, layout zarr.Layout) {
	t.Helper()
	ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &layout})
	if err != nil {
		t.Fatal(err)
	}
	setText(t, ds.Root().SetAttr, "title", `{"a": [1]}`)
	x, y := dim(t, ds.Root(), "x", 3, false), dim(t, ds.Root(), "y", 2, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{
		Type: dtype.NCShort, Dims: []*dataset.Dim{y, x}, Chunks: []int64{2, 2}, Codecs: []zarr.CodecSpec{{ID: "invert"}},
		Attrs: []dataset.Attr{{Name: "range", Type: dtype.NCShort, Value: []int16{1, 6}}, {Name: "_FillValue", Type: dtype.NCShort, Value: []int16{9}}},
	})
	write(t, v, v.All(), count[int16](6))
	c := define(t, ds.Root(), "c", &dataset.VarSpec{Type: dtype.NCChar, Dims: []*dataset.Dim{x}})
	write(t, c, c.All(), []uint8("abc"))
	s := define(t, ds.Root(), "s", &dataset.VarSpec{Type: dtype.NCDouble})
	write(t, s, s.All(), []float64{2.5})
	g, err := ds.Root().DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	z := dim(t, g, "z", 2, false)
	q := define(t, g, "q", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{z, y}, Separator: '/'})
	write(t, q, q.All(), count[int32](4))
	closeDataset(t, ds)
}

type mutator struct {
	o                 *dataset.Options
	url               string
	want              map[string]string
	m                 driver.Map
	n, equal, refused int
}

// document tries all mutations of one document and then restores it.
func (mu *mutator) document(t *testing.T, layout, key string) {
	t.Helper()
	put := func(text string) {
		if _, err := mu.m.Put(t.Context(), key, driver.Bytes(text), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	body, _, err := mu.m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
	if err != nil {
		t.Fatal(err)
	}
	original := string(bytes.Clone(body))
	eachMutation(t, original, func(what, member, text string) {
		put(text)
		if diff := mu.try(t, key, what, member, len(text)); diff != "" {
			t.Errorf("%s: %s: %s of %q: %s", layout, key, what, member, diff)
		}
	})
	put(original)
}

// allocations returns the number of bytes that the process has allocated so far. Unlike
// runtime.ReadMemStats, it does not stop the other threads.
func allocations() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// try opens and reads the dataset, and returns a description of what is wrong, if
// anything.
func (mu *mutator) try(t *testing.T, key, what, member string, size int) string {
	t.Helper()
	mu.n++
	before := allocations()
	got, err := mu.read(t)
	if n := allocations() - before; n > 64<<20 {
		return fmt.Sprintf("%d bytes were allocated for a document of %d", n, size)
	}
	if err != nil {
		mu.refused++
		if node := strings.TrimSuffix(path.Dir("/"+key), "/"); !strings.Contains(err.Error(), `"`+node+"/") && !strings.Contains(err.Error(), `"`+node+`"`) && !strings.HasSuffix(key, ".zmetadata") &&
			!strings.Contains(err.Error(), "dimension") {
			return "the error does not contain the location: " + err.Error()
		}
		return ""
	}
	if maps.Equal(got, mu.want) {
		mu.equal++
		return ""
	}
	if legal(key, member, what) {
		return ""
	}
	return fmt.Sprintf("want %v, got %v", mu.want, got)
}

// read returns all values, or the first error of opening the dataset, of a part that
// was left out, or of reading.
func (mu *mutator) read(t *testing.T) (map[string]string, error) {
	t.Helper()
	ds, err := openURL(t.Context(), mu.url, mu.o)
	if err != nil {
		return nil, err
	}
	defer ds.Close(t.Context())
	got, err := contents(t, ds)
	if p := ds.Problems(); len(p) > 0 {
		return nil, fmt.Errorf("%q: %w", p[0].Path, p[0].Err)
	}
	return got, err
}
