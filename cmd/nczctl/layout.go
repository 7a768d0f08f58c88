package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// stringStorages are the values of --strings.
var stringStorages = map[string]dataset.StringStorage{
	"auto": dataset.StringsAuto, "fixed": dataset.StringsFixed, "vlen": dataset.StringsVarLen,
}

// layouts are the values of --layout. An older layout is named after the first
// release of netcdf-c that wrote it.
var layouts = [...]struct {
	name     string
	layout   zarr.Layout
	noXarray bool
}{
	{"newest", zarr.LayoutNewest, false},
	{"4.9.1", zarr.LayoutLower, false},
	{"4.8.1", zarr.LayoutUpper, false},
	{"4.8.0", zarr.LayoutV1, false},
	{"pure", zarr.LayoutPure, false},
	{"noxarray", zarr.LayoutPure, true},
	{"v3", zarr.LayoutV3, false},
	{"nczarr3", zarr.LayoutNCZarr3, false},
}

func layoutNames() string {
	names := make([]string, 0, len(layouts))
	for _, l := range layouts {
		names = append(names, l.name)
	}
	return strings.Join(names, ", ")
}

// layoutFlag is the value of --layout. layout is nil until the flag is set.
type layoutFlag struct {
	name     string
	layout   *zarr.Layout
	noXarray bool
}

// Set implements pflag.Value. It fails if name is not the name of a layout.
func (f *layoutFlag) Set(name string) error {
	for _, l := range layouts {
		if l.name == name {
			f.name, f.layout, f.noXarray = name, &l.layout, l.noXarray
			return nil
		}
	}
	return fmt.Errorf("the value must be one of %s", layoutNames())
}

// String implements pflag.Value.
func (f *layoutFlag) String() string { return f.name }

// Type implements pflag.Value. It returns the name of the value in the help.
func (f *layoutFlag) Type() string { return "layout" }

// warnFixedDims warns about unlimited dimensions of a new dataset if its layout cannot
// record that they are unlimited.
func (a *app) warnFixedDims(ds *dataset.Dataset) {
	if ds.Layout().KeepsUnlimited() {
		return
	}
	var lost []string
	eachDim(ds.Root(), func(d *dataset.Dim) {
		if d.Unlimited() {
			lost = append(lost, strconv.Quote(d.Path()))
		}
	})
	if len(lost) > 0 {
		a.warn("warning: this layout has no unlimited dimensions, so these become fixed: %s", strings.Join(lost, ", "))
	}
}

// warnUnlisted warns about nodes that NCZarr readers do not see.
func (a *app) warnUnlisted(ctx context.Context, ds *dataset.Dataset) error {
	list, err := ds.Unlisted(ctx)
	if len(list) > 0 {
		a.warn("warning: %q is not shown because NCZarr's lists of arrays and groups do not contain it (nodes not shown: %d); mode=zarr shows it", list[0], len(list))
	}
	return err
}

// manyObjects is the number of objects above which a new dataset causes a warning.
const manyObjects = 10_000

// warnManyObjects warns if a new dataset may have more than manyObjects chunks or
// shards, because each is a file or a request.
func (a *app) warnManyObjects(ds *dataset.Dataset) {
	total, most, largest := 0.0, 0.0, ""
	eachVar(ds.Root(), func(v *dataset.Var) {
		n, grid := 1.0, v.ObjectGrid()
		for i, length := range v.Shape() {
			n *= float64(grid.Len(i, length))
		}
		if total += n; n > most {
			most, largest = n, v.Path()
		}
	})
	if total > manyObjects {
		a.warn("warning: the dataset has up to %.0f chunks, each stored as one object, of which %.0f belong to %q; set larger chunks with copy -c or _ChunkSizes in CDL", total, most, largest)
	}
}

// eachDim calls f for each dimension of a group and its subgroups.
func eachDim(g *dataset.Group, f func(*dataset.Dim)) {
	for _, d := range g.Dims() {
		f(d)
	}
	for _, sub := range g.Groups() {
		eachDim(sub, f)
	}
}
