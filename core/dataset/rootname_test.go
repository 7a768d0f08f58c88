package dataset_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// An array that is opened by its own URL keeps its whole name, including dots.
func TestArrayAtRootKeepsItsName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := fileOptions()
	ds := create(t, dir+"/d.zarr#mode=zarr,file", o)
	x := dim(t, ds.Root(), "x", 2, false)
	v := define(t, ds.Root(), "1d.raw.i2", &dataset.VarSpec{Type: dtype.NCShort, Dims: []*dataset.Dim{x}})
	write(t, v, v.All(), []int16{1, 2})
	closeDataset(t, ds)
	one := open(t, dir+"/d.zarr/1d.raw.i2", o)
	expect(t, one, "1d.raw.i2", []int16{1, 2})
}
