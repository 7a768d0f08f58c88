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
	if d.LossNote != "" {
		return d.LossNote
	}
	return yes(d.Lossy)
}

// codecs returns the page of codecs.
func codecs() string {
	var page strings.Builder
	page.WriteString("# Codecs\n\n" + note)
	page.WriteString("This page lists the built-in filters by their numcodecs id (Zarr v2). `nczctl plugin info ID` shows\nthe same information, also for filters of plugins. " +
		"If a codec is lossy, the values that are read can\ndiffer from those written. Reading or writing a value that the target type cannot represent is an\nerror.\n\n" +
		"| id | Zarr v3 | HDF5 | input and output | read | write | lossy | description |\n|---|---|---|---|---|---|---|---|\n")
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
		"Numbers may be strings, and null means absent. Unlisted members are refused, because they may change\nthe meaning of the bytes.\n\n" +
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
	page.WriteString("\nSee [below](#levels-of-zstd) for the levels of zstd.\n\n## Refused\n\n| id | reason |\n|---|---|\n")
	for _, r := range codec.Refusals() {
		fmt.Fprintf(&page, "| `%s` | %s |\n", r.ID, r.Reason)
	}
	page.WriteString(zstdPage)
	page.WriteString(hdf5Page(list))
	return page.String()
}

// hdf5Rows returns the rows of the table of HDF5 filters.
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

Levels correspond to libzstd's levels. Up to level 9, chunks are on average about as large as
libzstd's, and encoding is on average at least half as fast. Levels 10 to 22 are equal: they
compress most and are slow. Levels 3 to 9 use an encoder of this project. The other levels use the
encoders "fastest", "default" and "best" of klauspost/compress.

| level | encoder |
|---|---|
| below 0 | "fastest", with literals stored uncompressed, as in libzstd |
| 1 | "fastest" |
| 2 | "fastest"; "default" for chunks of at most 256 KiB, for which level 2 of libzstd is stronger too |
| 0, 3 | this project's encoder: first match, 192 Ki positions; for chunks of more than 128 and at most 256 KiB, for which level 3 of libzstd is stronger too, the longest of up to four matches, 64 Ki positions |
| 4 | this project's encoder: first match, 128 Ki positions |
| 5 | this project's encoder: first match, 256 Ki positions |
| 6, 7 | this project's encoder: prefers a better match one byte later |
| 8, 9 | this project's encoder: prefers a better match one byte later, 512 Ki positions |
| 10 to 22 | "best" |

zstd inside blosc uses the same table: ` + "`clevel`" + ` 1 to 9 are the levels 1, 3, 5, 7, 9, 11, 13, 20 and
22, as in c-blosc. [Performance](../explanation/performance.md#zstd-compared-with-libzstd) compares
sizes and speeds with libzstd.
`

func hdf5Page(list []driver.Description) string {
	return `
## HDF5 filters

This table maps HDF5 filter numbers, as in ` + "`_Filter`" + ` in CDL and in HDF5 files, to codecs. The
library fills in the parameters marked -. Parameters of szip after the second appear only in files.
fletcher32 is read in either byte order.

| number | parameters | codec |
|---|---|---|
` + hdf5Rows(list) + `
## Values of variable length

Between codecs, strings and byte strings of variable length consist of four-byte offsets and data,
in the layout of ` + "`Values`" + ` in core/codec/driver. The object codecs (vlen-utf8, vlen-bytes,
vlen-array, json2, msgpack2, categorize) convert them to the stored bytes. In Python, lists of json2
and msgpack2 can contain any values; in nczarr a null, a number or an object in a list of strings
causes an error that names the element. After delta, fixedscaleoffset and categorize, which do not
preserve the shape, the list of a chunk has one dimension, as numcodecs writes it.

## Element types

packbits accepts bool, and one-byte integers that are 0 or 1; other values are errors. bitround
does not change integers. If a copy has a different element type than its source (NCZarr has neither
half floats nor bool), it leaves out the codecs that state the old type (delta, fixedscaleoffset,
quantize, astype), with a warning.
`
}
