package dataset_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// Names with any characters are preserved for everything that has a name. Names that
// cannot be preserved are refused when they are defined, not at the Flush.
func TestOddNames(t *testing.T) {
	t.Parallel()
	for layout, c := range layouts {
		o := memory()
		ds, err := createURL(t.Context(), "mem:odd#mode="+c.mode, &dataset.CreateOptions{Options: *o, Layout: &c.layout})
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for i, name := range []string{"a b", "grün", `q"uo\te`, "#?&%2F", "..x", "x.", "0", "0.0", "\u2028", "a\x00b", "a\u0085b", "\xff", "_FillValue", "~", "ﬀ", "a:b*"} {
			x, err := ds.Root().DefineDim(name, 2, false)
			if err != nil {
				if !errors.Is(err, ncerr.ErrBadName) {
					t.Error(err)
				}
				continue
			}
			g, err := ds.Root().DefineGroup("g" + name)
			if err != nil {
				t.Fatal(err)
			}
			v := define(t, g, name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
			write(t, v, v.All(), []int32{int32(i), 1})
			if name != "_FillValue" {
				setText(t, v.SetAttr, name, name)
			}
			kept = append(kept, name)
		}
		closeDataset(t, ds)
		ds = open(t, "mem:odd#mode="+c.mode, o)
		if p := ds.Problems(); len(p) > 0 {
			t.Errorf("%s: problems %v", layout, p)
			continue
		}
		for _, name := range kept {
			v := variable(t, ds, "g"+name+"/"+name)
			if got, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil || got[1] != 1 {
				t.Errorf("%s: %q: values %v, %v", layout, name, got, err)
			}
			if name != "_FillValue" && attr(t, v.Attrs(), name) != name {
				t.Errorf("%s: attribute %q: got %q", layout, name, attr(t, v.Attrs(), name))
			}
		}
	}
}

// Attribute text of any kind is either preserved or refused, never changed.
func TestAttributeText(t *testing.T) {
	t.Parallel()
	for layout, c := range layouts {
		for i, text := range []string{"", "{", `{"a": 1}`, `{ "a":1 }`, "[1,2]", "[1, 2]", "[not json", "null", "12", "NaN", "a\x00", "\x00", "\x00b", "\xff\xfe", "grün", "\n\t", `"q"`, "true"} {
			o := memory()
			ds, err := createURL(t.Context(), "mem:t#mode="+c.mode, &dataset.CreateOptions{Options: *o, Layout: &c.layout})
			if err != nil {
				t.Fatal(err)
			}
			if err := ds.Root().SetAttr(dataset.Attr{Name: "a", Type: dtype.NCChar, Value: text}); err != nil {
				continue
			}
			if err := ds.Close(t.Context()); err != nil {
				t.Errorf("%s: %q was accepted but cannot be flushed: %v", layout, text, err)
				continue
			}
			got := attr(t, open(t, "mem:t#mode="+c.mode, o).Root().Attrs(), "a")
			if fmt.Sprint(got) != text {
				t.Errorf("%s: text %d: want %q, got %T %q", layout, i, text, got, got)
			}
		}
	}
}

// Whether a dataset may be created depends on the contents at, above and below its
// location.
func TestCreateNextToOthers(t *testing.T) {
	t.Parallel()
	o := fileOptions()
	dir := t.TempDir()
	ds := create(t, dir+"/a", o)
	if _, err := ds.Root().DefineGroup("g"); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	if err := os.MkdirAll(dir+"/other/deep", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/other/file", []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path             string
		noClobber, force bool
		want             error
	}{
		"inside":           {dir + "/a/new", false, false, ncerr.ErrExists},
		"inside a group":   {dir + "/a/g/x/new", false, false, ncerr.ErrExists},
		"above":            {dir, false, false, ncerr.ErrExists},
		"something else":   {dir + "/other", false, false, ncerr.ErrExists},
		"a dataset":        {dir + "/a", true, false, ncerr.ErrExists},
		"a forced dataset": {dir + "/a", true, true, ncerr.ErrExists},
	} {
		_, err := createURL(t.Context(), c.path, &dataset.CreateOptions{Options: *o, NoClobber: c.noClobber, Force: c.force})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: want %v, got %v", name, c.want, err)
		}
	}
	if _, err := open(t, dir+"/a", o).Root().Group("g"); err != nil {
		t.Errorf("the dataset was changed: %v", err)
	}
	if _, err := os.Stat(dir + "/other/file"); err != nil {
		t.Errorf("the other file was changed: %v", err)
	}
	layout := zarr.LayoutPure
	ds, err := createURL(t.Context(), dir+"/a/new", &dataset.CreateOptions{Options: *o, Force: true, Layout: &layout})
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
}

// TestManyNames checks that in a long list each element is found by its name and no
// name can be used twice, as in a short list.
func TestManyNames(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:many", o)
	const count = 50
	for i := range count {
		name := fmt.Sprintf("n%d", i)
		x, err := ds.Root().DefineDim(name, int64(i+1), false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ds.Root().DefineGroup("g" + name); err != nil {
			t.Fatal(err)
		}
		define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
	}
	check := func(ds *dataset.Dataset) {
		t.Helper()
		root := ds.Root()
		for i := range count {
			name := fmt.Sprintf("n%d", i)
			d, err := root.Dim(name)
			if err != nil || d.Len() != int64(i+1) {
				t.Fatalf("dimension %s: not found or of a wrong length: %v", name, err)
			}
			if v := variable(t, ds, name); v.Name() != name || v.Dims()[0] != d {
				t.Errorf("%s: got variable %s of dimension %s", name, v.Name(), v.Dims()[0].Name())
			}
			if g, err := root.Group("g" + name); err != nil || g.Name() != "g"+name {
				t.Errorf("group g%s: not found or with a wrong name: %v", name, err)
			}
			_, derr := root.DefineDim(name, 1, false)
			_, verr := root.DefineVar(t.Context(), name, &dataset.VarSpec{Type: dtype.NCInt})
			_, gerr := root.DefineGroup("g" + name)
			for _, err := range []error{derr, verr, gerr} {
				if !errors.Is(err, ncerr.ErrNameInUse) {
					t.Errorf("%s: want ErrNameInUse, got %v", name, err)
				}
			}
		}
		if v, d, g := len(root.Vars()), len(root.Dims()), len(root.Groups()); v != count || d != count || g != count {
			t.Errorf("want %d of each, got %d variables, %d dimensions, %d groups", count, v, d, g)
		}
	}
	check(ds)
	closeDataset(t, ds)
	o.Update = true
	ds = open(t, "mem:many", o)
	check(ds)
	closeDataset(t, ds)
}
