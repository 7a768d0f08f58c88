package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

func loss(d *driver.Description) string {
	if d.Loses != "" {
		return d.Loses
	}
	return yes(d.Lossy)
}

// codecs gives the page of codecs.
func codecs() string {
	var page strings.Builder
	page.WriteString("# Codecs\n\n" + note)
	page.WriteString("The filters that are built in, by their id in numcodecs (Zarr v2), as they describe themselves. `nczctl plugin info ID` shows the same, of filters of plugins too. " +
		"A codec that loses something gives back other values than were written. Values that the stored type cannot hold are an error, in both directions.\n\n" +
		"| id | Zarr v3 | HDF5 | takes and makes | read | write | loses | what it is |\n|---|---|---|---|---|---|---|---|\n")
	list := builtin.Provider().Describe()
	for i := range list {
		d := &list[i]
		hdf5 := ""
		if d.HDF5 != 0 {
			hdf5 = fmt.Sprint(d.HDF5)
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", d.ID, strings.TrimPrefix(strings.Join(append([]string{d.V3}, d.Aliases...), ", "), ", "), hdf5, d.Transform, yes(d.Decode), yes(d.Encode), loss(d), d.Summary)
	}
	page.WriteString("\n## Parameters\n\n" +
		"Numbers may be text, null is the same as absent, and members that are not listed are refused, since they may change what the bytes mean.\n\n" +
		"| codec | parameter | type | values | default | meaning |\n|---|---|---|---|---|---|\n")
	for i := range list {
		for j := range list[i].Params {
			p := &list[i].Params[j]
			def := code(p.Default)
			if p.Required {
				def = "required"
			}
			fmt.Fprintf(&page, "| `%s` | `%s` | %s | %s | %s | %s |\n", list[i].ID, p.Name, p.Type, p.Values(), strings.ReplaceAll(def, "|", `\|`), p.Doc)
		}
	}
	page.WriteString("\nLevels of zstd: see [below](#levels-of-zstd).\n\n## Refused\n\n| id | why |\n|---|---|\n")
	for _, r := range codec.Refusals() {
		fmt.Fprintf(&page, "| `%s` | %s |\n", r.ID, r.Reason)
	}
	page.WriteString(zstdPage)
	page.WriteString(hdf5Page(list))
	return page.String()
}

// hdf5Rows gives the table of HDF5 filters.
func hdf5Rows(list []driver.Description) string {
	var rows []string
	for i := range list {
		d := &list[i]
		if d.HDF5 == 0 {
			continue
		}
		names := make([]string, driver.MaxHDF5Params)
		for j := range d.Params {
			if p := &d.Params[j]; p.HDF5 > 0 {
				names[p.HDF5-1] = p.Name
				if len(p.Choices) > 0 {
					names[p.HDF5-1] += " (from 0: " + strings.Join(p.Choices, ", ") + ")"
				}
			}
		}
		last := len(names)
		for last > 0 && names[last-1] == "" {
			last--
		}
		for j := range last {
			if names[j] == "" {
				names[j] = "-"
			}
		}
		rows = append(rows, fmt.Sprintf("| %5d | %s | %s |\n", d.HDF5, strings.Join(names[:last], "; "), d.ID))
	}
	slices.Sort(rows)
	return strings.ReplaceAll(strings.Join(rows, ""), "|  ", "| ")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

const zstdPage = `
## Levels of zstd

Levels are those of libzstd. Up to level 9, each level takes what comes to about libzstd's sizes at half of its speed or more; level 10 is the smallest, and slow. Levels 4 to 9 have an encoder of this project, level 3 for small chunks; the others have those of klauspost/compress.

| level | encoder |
|---|---|
| below 0 | fastest; literals are stored as they are, as libzstd does |
| 1 | fastest |
| 2 | fastest; default for chunks of at most 256 KiB, where level 2 of libzstd is stronger too |
| 0, 3 | default; own, among 64 Ki positions, for chunks of at most 256 KiB |
| 4 | own: the first match that is found, among 128 Ki positions |
| 5 | own: among 256 Ki positions |
| 6, 7 | own: a better match one byte on is preferred |
| 8, 9 | own: among 512 Ki positions |
| 10 to 22 | best |

The zstd inside blosc does the same: its ` + "`clevel`" + ` 1 to 9 are the levels 1, 3, 5, 7, 9, 11, 13, 20 and 22, as in c-blosc.
[Performance](../explanation/performance.md#zstd-beside-libzstd) has sizes and speeds beside libzstd.
`

func hdf5Page(list []driver.Description) string {
	return `
## HDF5 filters

What ` + "`_Filter`" + ` in CDL and the filters of HDF5 files become, and back. Numbers marked - are filled in by the library. Parameters of szip behind
the second are in files only. fletcher32 is read in either byte order.

| number | parameters | codec |
|---|---|---|
` + hdf5Rows(list) + `
## Values of variable length

Texts and bytes of variable length travel between steps as offsets of four bytes and data; the object codecs (vlen-utf8, vlen-bytes,
vlen-array, json2, msgpack2, categorize) turn them into the bytes of the store. The layout is that of ` + "`Values`" + ` in core/codec/driver.
Lists of json2 and msgpack2 may hold anything in Python: a null, a number or an object among texts is an error that names the element.
Behind delta, fixedscaleoffset and categorize, which leave no shape to others, the list of a chunk has one dimension, as numcodecs writes it.

## Element types

packbits takes bool, and integers of one byte that are 0 or 1: another value is an error. bitround leaves integers as they are. A copy whose elements have another
type than the source (NCZarr has neither half floats nor bool) leaves out the codecs that state the old type (delta, fixedscaleoffset, quantize, astype), with a warning.
`
}
