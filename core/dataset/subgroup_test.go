package dataset_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// A group of any layout can be opened by its own URL, with its dimensions and the types
// of its attributes.
func TestOpenSubgroupOfEveryLayout(t *testing.T) {
	t.Parallel()
	for name, c := range layouts {
		o := fileOptions()
		dir := t.TempDir() + "/whole.file"
		ds, err := createURL(t.Context(), dir+"#mode="+c.mode, &dataset.CreateOptions{Options: *o, Layout: &c.layout})
		if err != nil {
			t.Fatal(err)
		}
		x := dim(t, ds.Root(), "x", 2, false)
		g, err := ds.Root().DefineGroup("g")
		if err != nil {
			t.Fatal(err)
		}
		if err := g.SetAttr(dataset.Attr{Name: "n", Type: dtype.NCUShort, Value: []uint16{7}}); err != nil {
			t.Fatal(err)
		}
		v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCChar, Dims: []*dataset.Dim{x}})
		write(t, v, v.All(), []uint8("ab"))
		closeDataset(t, ds)
		ds = open(t, dir+"/g#mode="+c.mode, o)
		if p := ds.Problems(); len(p) > 0 {
			t.Errorf("%s: problems %v", name, p)
			continue
		}
		expect(t, ds, "v", []uint8("ab"))
		if !c.layout.NCZarr() {
			continue
		}
		if n := variable(t, ds, "v").Dims()[0].Name(); n != "x" {
			t.Errorf("%s: want dimension x, got %q", name, n)
		}
		if _, ok := attr(t, ds.Root().Attrs(), "n").([]uint16); !ok {
			t.Errorf("%s: the attribute has lost its type", name)
		}
	}
}
