package dataset_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// base creates a dataset at url with a dimension x of length 4 and a variable old, and
// closes it.
func base(t *testing.T, url string, o *dataset.Options) {
	t.Helper()
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "x", 4, false)
	define(t, ds.Root(), "old", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
	closeDataset(t, ds)
}

// newVar defines a variable with chunks of 2 elements in a group of a dataset created
// by base.
func newVar(t *testing.T, g *dataset.Group, name string) *dataset.Var {
	t.Helper()
	x, err := g.Dataset().Root().Dim("x")
	if err != nil {
		t.Fatal(err)
	}
	return define(t, g, name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}})
}

// If two writers define a variable or group with the same name, the second one fails
// before it writes anything, regardless of which one finishes first.
func TestConcurrentDefine(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"mem:two#mode=nczarr", "mem:two#mode=zarr", "mem:two#mode=v3"} {
		for _, at := range []string{"v", "g"} {
			for _, together := range []bool{false, true} {
				o := memory()
				base(t, url, o)
				first, second := update(t, url, o), update(t, url, o)
				in := func(ds *dataset.Dataset, name string) *dataset.Var {
					if at == "v" {
						return newVar(t, ds.Root(), "v")
					}
					g, err := ds.Root().DefineGroup("g")
					if err != nil {
						t.Fatal(err)
					}
					return newVar(t, g, name)
				}
				a, b := in(first, "a"), in(second, "b")
				write(t, a, slab(0, 4), []int32{1, 2, 3, 4})
				if !together {
					closeDataset(t, first)
				}
				err := b.Write(t.Context(), slab(0, 4), []int32{5, 6, 7, 8})
				if ncerr.KindOf(err) != ncerr.ErrNameInUse {
					t.Errorf("%s %s: the second writes: want ErrNameInUse, got %v", url, at, err)
				}
				if err := second.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrNameInUse {
					t.Errorf("%s %s: the second closes: want ErrNameInUse, got %v", url, at, err)
				}
				if together {
					closeDataset(t, first)
				}
				expect(t, open(t, url, o), a.Path(), []int32{1, 2, 3, 4})
			}
		}
	}
}

// If two processes create an archive at the same new path, the second one to finish
// fails and leaves the archive of the first in place.
func TestConcurrentCreateArchive(t *testing.T) {
	t.Parallel()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{zip.New()})}
	url := filepath.Join(t.TempDir(), "a.zip")
	var both [2]*dataset.Dataset
	for i := range both {
		both[i] = create(t, url, o)
		x := dim(t, both[i].Root(), "x", 2, false)
		v := define(t, both[i].Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
		write(t, v, v.All(), []int32{int32(i), 7})
	}
	closeDataset(t, both[0])
	if err := both[1].Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("the second process: want ErrConflict, got %v", err)
	}
	if err := both[1].Abort(t.Context()); err != nil {
		t.Error(err)
	}
	expect(t, open(t, url, o), "v", []int32{0, 7})
}

// A new node does not overwrite existing objects at its location that the metadata does
// not list, such as a node or the chunks of a writer that died.
func TestNewNodeKeepsUnlistedObjects(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]map[string]string{
		"array":  {"new/.zarray": byteDoc, "new/0": "\x07"},
		"group":  {"new/.zgroup": `{"zarr_format": 2}`},
		"v3":     {"new/zarr.json": `{"zarr_format":3,"node_type":"group"}`},
		"chunks": {"new/1": "\x01\x00\x00\x00\x02\x00\x00\x00"},
	} {
		for _, noConditions := range []bool{false, true} {
			o := memory()
			base(t, "mem:k", o)
			for key, body := range more {
				put(t, o, "k", key, body)
			}
			if noConditions {
				_, o.Wrap = newGate("none", true)
			}
			ds := update(t, "mem:k", o)
			before := keysOf(t, ds)
			v := newVar(t, ds.Root(), "new")
			err := v.Write(t.Context(), slab(0, 2), []int32{8, 9})
			if ncerr.KindOf(err) != ncerr.ErrNameInUse || !strings.Contains(err.Error(), "new/") {
				t.Errorf("%s: writing: want ErrNameInUse, got %v", name, err)
			}
			if err := ds.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrNameInUse {
				t.Errorf("%s: closing: want ErrNameInUse, got %v", name, err)
			}
			o.Wrap = nil
			again := update(t, "mem:k", o)
			if after := keysOf(t, again); !slices.Equal(before, after) {
				t.Errorf("%s: want keys %q, got %q", name, before, after)
			}
			if _, err := again.Root().DefineGroup("new"); err != nil {
				t.Fatal(err)
			}
			if err := again.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrNameInUse {
				t.Errorf("%s: a group: want ErrNameInUse, got %v", name, err)
			}
			for key, body := range more {
				if got := stored(t, again, key); got != strings.ReplaceAll(body, " ", "") {
					t.Errorf("%s: %s was changed to %q", name, key, got)
				}
			}
		}
	}
}

// Objects of a new variable whose definition was aborted or could not be announced
// neither obstruct the next definition nor become part of it.
func TestAbortedDefinition(t *testing.T) {
	t.Parallel()
	fill := int32(-2147483647)
	for _, url := range []string{"mem:up#mode=nczarr", "mem:up#mode=zarr", "mem:up#mode=v3"} {
		o := memory()
		base(t, url, o)
		ds := update(t, url, o)
		g, err := ds.Root().DefineGroup("g")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []*dataset.Var{newVar(t, ds.Root(), "v"), newVar(t, g, "v")} {
			write(t, v, slab(0, 4), []int32{6, 6, 6, 6})
		}
		if err := ds.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		ds = update(t, url, o)
		for _, key := range keysOf(t, ds) {
			if strings.HasPrefix(key, "v/") || strings.HasPrefix(key, "g/") {
				t.Errorf("%s: %s still exists", url, key)
			}
		}
		write(t, newVar(t, ds.Root(), "v"), slab(0, 2), []int32{1, 2})
		closeDataset(t, ds)
		expect(t, open(t, url, o), "v", []int32{1, 2, fill, fill})
	}
	const url = "mem:lists"
	o := memory()
	base(t, url, o)
	first, second := update(t, url, o), update(t, url, o)
	write(t, newVar(t, first.Root(), "a"), slab(0, 4), []int32{1, 2, 3, 4})
	write(t, newVar(t, second.Root(), "b"), slab(0, 4), []int32{5, 6, 7, 8})
	closeDataset(t, first)
	closeDataset(t, second) // the lists of the root are merged
	ds := open(t, url, o)
	expect(t, ds, "a", []int32{1, 2, 3, 4})
	expect(t, ds, "b", []int32{5, 6, 7, 8})
}

// lastingMark is a store in which the first deletion of the mark of a new node fails.
type lastingMark struct {
	driver.Map
	failed *bool
}

func (m lastingMark) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	if strings.HasSuffix(key, "/.ncznewnode") && !*m.failed {
		*m.failed = true
		return ncerr.ErrIO
	}
	return m.Map.Delete(ctx, key, o)
}

// The mark of a new Zarr v3 node is deleted once its document exists, in the next Flush
// if necessary. A mark that a dead process left next to a document has no effect, and a
// document that another process put in the meantime is not overwritten.
func TestMarkOfANewNode(t *testing.T) {
	t.Parallel()
	const url = "mem:mark#mode=v3"
	o, failed := memory(), false
	base(t, url, o)
	o.Wrap = func(m driver.Map) driver.Map { return lastingMark{m, &failed} }
	ds := update(t, url, o)
	write(t, newVar(t, ds.Root(), "v"), slab(0, 4), []int32{1, 2, 3, 4})
	if keys := keysOf(t, ds); !slices.Contains(keys, "v/.ncznewnode") || slices.Contains(keys, "v/zarr.json") {
		t.Errorf("before the Flush: want a mark and no document, got %q", keys)
	}
	if err := ds.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrIO {
		t.Errorf("the first Flush: want ErrIO, got %v", err)
	}
	closeDataset(t, ds)
	o.Wrap = nil
	ds = update(t, url, o)
	if keys := keysOf(t, ds); slices.Contains(keys, "v/.ncznewnode") {
		t.Errorf("after the second Flush: want no mark, got %q", keys)
	}
	expect(t, ds, "v", []int32{1, 2, 3, 4})

	write(t, newVar(t, ds.Root(), "w"), slab(0, 4), []int32{1, 2, 3, 4})
	const otherDoc = `{"zarr_format":3,"node_type":"group"}`
	put(t, o, "mark", "w/zarr.json", otherDoc)
	if err := ds.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("a document of another process: want ErrConflict, got %v", err)
	}
	put(t, o, "mark", "v/.ncznewnode", "{}")
	ds = open(t, url, o)
	if got := stored(t, ds, "w/zarr.json"); got != otherDoc || len(ds.Problems()) > 0 {
		t.Errorf("want the document of the other process, got %s, %v", got, ds.Problems())
	}
	docs := zarr.Docs{}
	for _, key := range []string{"zarr.json", "old/zarr.json", "v/zarr.json"} {
		docs[key] = []byte(stored(t, ds, key))
	}
	names := slices.DeleteFunc(keysOf(t, ds), func(key string) bool { return strings.HasPrefix(key, "w/") })
	if foreign, _ := zarr.Foreign(names, docs); len(foreign) > 0 {
		t.Errorf("want no foreign objects, got %q", foreign)
	}
}

// New nodes that a dead Zarr v3 writer left are listed, and removed on request, except
// for objects that other processes may have created there. If the writer is alive, its
// Flush fails.
func TestClearNewNodes(t *testing.T) {
	t.Parallel()
	const url = "mem:dead#mode=v3"
	o := memory()
	base(t, url, o)
	before := keysOf(t, open(t, url, o))
	writer := update(t, url, o)
	g, err := writer.Root().DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []*dataset.Var{newVar(t, writer.Root(), "v"), newVar(t, writer.Root(), "w"), newVar(t, g, "v")} {
		write(t, v, slab(0, 4), []int32{6, 6, 6, 6})
	}
	put(t, o, "dead", "w/0/zarr.json", "{}")
	put(t, o, "dead", "old/.ncznewnode", "{}")
	ds := update(t, url, o)
	nodes, err := ds.NewNodes(t.Context())
	var paths []string
	for i := range nodes {
		n := &nodes[i]
		paths = append(paths, n.Path)
		others, err := ds.ClearNewNode(t.Context(), n)
		if err != nil || (len(others) > 0) != (n.Path == "/w") {
			t.Errorf("%s: unexpected other keys %q, %v", n.Path, others, err)
		}
	}
	if want := []string{"/g/v", "/g", "/old", "/v", "/w"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("want %q, got %q, %v", want, paths, err)
	}
	want := append(slices.Clone(before), "w/.ncznewnode", "w/0/zarr.json", "w/c/0", "w/c/1")
	slices.Sort(want)
	if got := keysOf(t, ds); !slices.Equal(got, want) {
		t.Errorf("want keys %q, got %q", want, got)
	}
	write(t, newVar(t, ds.Root(), "v"), slab(0, 4), []int32{1, 2, 3, 4})
	for range 2 { // once with the mark of another writer, once with its document
		if err := writer.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("the Flush of the writer: want ErrConflict, got %v", err)
		}
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, open(t, url, o), "v", []int32{1, 2, 3, 4})
}

// If a writer finds at Close that another process has created a node with the name of its
// new node, the writer leaves only chunks behind, because their owner is unknown.
func TestMarkInANodeOfOthers(t *testing.T) {
	t.Parallel()
	const url, otherDoc = "mem:lost#mode=v3", `{"zarr_format":3,"node_type":"group"}`
	for _, foreign := range []bool{false, true} {
		o := memory()
		base(t, url, o)
		ds := update(t, url, o)
		write(t, newVar(t, ds.Root(), "v"), slab(0, 4), []int32{1, 2, 3, 4})
		put(t, o, "lost", "v/zarr.json", otherDoc)
		if foreign {
			put(t, o, "lost", "v/.ncznewnode", "{}")
		}
		if err := ds.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("closing: want ErrConflict, got %v", err)
		}
		if err := ds.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		keys := keysOf(t, open(t, url, o))
		if slices.Contains(keys, "v/.ncznewnode") != foreign || !slices.Contains(keys, "v/zarr.json") {
			t.Errorf("foreign mark %v: unexpected keys %q", foreign, keys)
		}
	}
}

// A new variable that a Flush could not announce, because another writer has set the same
// attribute of the group to another value, is removed when the dataset is closed. If a later
// Flush announces it, it stays.
func TestNotAnnouncedBecauseOfConflict(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "nczarr,v3", "zarr", "v3"} {
		for _, how := range []string{"close", "abort", "solved"} {
			b := newBuckets()
			o, url := inBucket(b, mode)
			createGrowing(t, url, o)
			before := b.names("bkt")
			x, y := update(t, url, o), update(t, url, o)
			setText(t, x.Root().SetAttr, "title", "x")
			closeDataset(t, x)
			setText(t, y.Root().SetAttr, "title", "y")
			v := define(t, y.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
			write(t, v, v.All(), []int32{7})
			if err := y.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
				t.Errorf("%s: want ErrConflict, got %v", mode, err)
			}
			switch how {
			case "close":
				if err := y.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
					t.Errorf("%s: want ErrConflict, got %v", mode, err)
				}
			case "abort":
				if err := y.Abort(t.Context()); err != nil {
					t.Errorf("%s: %v", mode, err)
				}
			case "solved":
				setText(t, y.Root().SetAttr, "title", "x")
				closeDataset(t, y)
			}
			if how == "solved" || mode == "zarr" || mode == "v3" { // readers of pure Zarr see the variable without an announcement
				expect(t, open(t, url, o), "v", []int32{7})
			} else if after := b.names("bkt"); !slices.Equal(after, before) {
				t.Errorf("%s, %s: the objects changed from %q to %q", mode, how, before, after)
			}
		}
	}
}
