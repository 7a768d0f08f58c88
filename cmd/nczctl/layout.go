package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// stringStorages are the values of --strings.
var stringStorages = map[string]nczarr.StringStorage{
	"auto": nczarr.StringsAuto, "fixed": nczarr.StringsFixed, "vlen": nczarr.StringsVarLen,
}

// layouts are the values of --layout: each older layout goes by the first
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
}

func layoutNames() string {
	names := make([]string, 0, len(layouts))
	for _, l := range layouts {
		names = append(names, l.name)
	}
	return strings.Join(names, ", ")
}

// layoutFlag is the value of --layout; nothing until it is set.
type layoutFlag struct {
	name     string
	layout   *zarr.Layout
	noXarray bool
}

// Set takes one of the names.
func (f *layoutFlag) Set(name string) error {
	for _, l := range layouts {
		if l.name == name {
			f.name, f.layout, f.noXarray = name, &l.layout, l.noXarray
			return nil
		}
	}
	return fmt.Errorf("the layouts are %s", layoutNames())
}

// String gives the name.
func (f *layoutFlag) String() string { return f.name }

// Type is the word for the value in help texts.
func (f *layoutFlag) Type() string { return "layout" }

// warnFixed tells which dimensions of a new dataset are not unlimited any more
// once it is read again.
func (a *app) warnFixed(ds *nczarr.Dataset) {
	if ds.Layout().KeepsUnlimited() {
		return
	}
	var lost []string
	eachDim(ds.Root(), func(d *nczarr.Dim) {
		if d.Unlimited() {
			lost = append(lost, strconv.Quote(d.Path()))
		}
	})
	if len(lost) > 0 {
		a.warn("warning: this layout has no unlimited dimensions, these become fixed: %s", strings.Join(lost, ", "))
	}
}

// warnUnlisted warns of nodes that no reader of NCZarr sees.
func (a *app) warnUnlisted(ctx context.Context, ds *nczarr.Dataset) error {
	list, err := ds.Unlisted(ctx)
	if len(list) > 0 {
		a.warn("warning: NCZarr's lists of arrays and groups do not name %q (%d in all), so it is not seen; mode=zarr shows it", list[0], len(list))
	}
	return err
}

// manyObjects is the number of chunks from which a new dataset brings a warning.
const manyObjects = 10_000

// warnMany warns of a dataset of very many objects: each is a file, or a request.
func (a *app) warnMany(ds *nczarr.Dataset) {
	total, most, largest := 0.0, 0.0, ""
	eachVar(ds.Root(), func(v *nczarr.Var) {
		n, chunks := 1.0, v.Chunks()
		for i, length := range v.Shape() {
			n *= math.Ceil(float64(length) / float64(chunks[i]))
		}
		if total += n; n > most {
			most, largest = n, v.Path()
		}
	})
	if total > manyObjects {
		a.warn("warning: up to %.0f chunks, each an object of its own, %.0f of them of %q: set larger chunks with copy -c, or _ChunkSizes in CDL", total, most, largest)
	}
}

// eachDim calls f for all dimensions of a group and those below it.
func eachDim(g *nczarr.Group, f func(*nczarr.Dim)) {
	for _, d := range g.Dims() {
		f(d)
	}
	for _, sub := range g.Groups() {
		eachDim(sub, f)
	}
}
