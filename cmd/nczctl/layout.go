package main

import (
	"fmt"
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
