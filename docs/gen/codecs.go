package main

import (
	"fmt"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// parameters are the parameters of each codec with their defaults; those with
// none must be given.
var parameters = map[string]string{
	"adler32":          "`location` start or end (start)",
	"astype":           "`decode_dtype` (that of the array), `encode_dtype` (the same)",
	"bitround":         "`keepbits`",
	"blosc":            "`cname` blosclz, lz4, lz4hc, snappy, zlib or zstd (lz4); `clevel` 0 to 9 (5); `shuffle` -1 to 2 (1); `blocksize` (0: chosen); `typesize` (that of the array)",
	"bz2":              "`level` 1 to 9 (1)",
	"categorize":       "`labels`, `dtype` (that of the array), `astype` (u1)",
	"crc32":            "`location` start or end (start)",
	"crc32c":           "`location` start or end (end)",
	"delta":            "`dtype` (that of the array), `astype` (the same)",
	"fixedscaleoffset": "`offset`, `scale`, `dtype` (that of the array), `astype` (the same)",
	"gzip":             "`level` 0 to 9 (1)",
	"jenkins_lookup3":  "`initval` (0)",
	"json2":            "`ensure_ascii` (true); those for Python are accepted",
	"lz4":              "`acceleration` (1)",
	"lzma":             "`format` 0 auto, 1 xz, 2 alone, 3 raw (1); `check` -1, 0, 1, 4 or 10 (-1); `preset` 0 to 9 (6); `delta` 0 to 256, of xz (0: none); `filters` of raw: delta, then LZMA1 or LZMA2",
	"msgpack2":         "`use_bin_type` (true), `use_single_float` (false), `raw` (false)",
	"quantize":         "`digits`, `dtype` (that of the array), `astype` (the same)",
	"shuffle":          "`elementsize` (0: that of the array, which is what netCDF-C means)",
	"szip":             "`mask`, `pixels-per-block` even, 2 to 32; `bits-per-pixel`, `pixels-per-scanline` (as HDF5 works them out)",
	"vlen-array":       "`dtype` of the items",
	"zlib":             "`level` -1 to 9 (1)",
	"zstd":             "`level` up to 22 (1; 0 is 3, see [below](#levels-of-zstd)), `checksum` (false)",
}

// loses says what the codecs lose that are exact for some types.
var loses = map[string]string{
	"delta": "low bits of floats",
	"json2": "payloads of NaN",
}

func loss(d driver.Description) string {
	if text := loses[d.ID]; text != "" {
		return text
	}
	return yes(d.Lossy)
}

// codecs gives the page of codecs.
func codecs() string {
	var page strings.Builder
	page.WriteString("# Codecs\n\n" + note)
	page.WriteString("The filters that are built in, by their id in numcodecs (Zarr v2). Defaults are in brackets; a parameter without one must be given. " +
		"On read, numbers may be text, null is the same as absent, and members that are not listed are refused, since they may change what the bytes mean. " +
		"A codec that loses something gives back other values than were written. Values that the stored type cannot hold are an error, in both directions.\n\n" +
		"| id | Zarr v3 | HDF5 | read | write | loses | parameters | what it is |\n|---|---|---|---|---|---|---|---|\n")
	for _, d := range builtin.Provider().Describe() {
		hdf5 := ""
		if d.HDF5 != 0 {
			hdf5 = fmt.Sprint(d.HDF5)
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", d.ID, d.V3, hdf5, yes(d.Decode), yes(d.Encode), loss(d), parameters[d.ID], d.Summary)
	}
	page.WriteString("\n## Refused\n\n| id | why |\n|---|---|\n")
	for _, r := range codec.Refusals() {
		fmt.Fprintf(&page, "| `%s` | %s |\n", r.ID, r.Reason)
	}
	page.WriteString(zstdPage)
	page.WriteString(hdf5Page)
	return page.String()
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

const hdf5Page = `
## HDF5 filters

What ` + "`_Filter`" + ` in CDL and the filters of HDF5 files become, and back.

| number | parameters | codec |
|---|---|---|
| 1 | level | zlib |
| 2 | element size, or none | shuffle |
| 3 | none | fletcher32; either byte order of the checksum is read |
| 4 | mask, pixels per block; in files also bits per pixel, pixels per scanline | szip |
| 307 | level | bz2 |
| 32001 | three that are filled in, block size, level, shuffle, inner codec (0 blosclz, 1 lz4, 2 lz4hc, 3 snappy, 4 zlib, 5 zstd) | blosc |
| 32015 | level | zstd |

## Values of variable length

Texts and bytes of variable length travel between steps as offsets of four bytes and data; the object codecs (vlen-utf8, vlen-bytes,
vlen-array, json2, msgpack2, categorize) turn them into the bytes of the store. The layout is that of ` + "`Values`" + ` in core/codec/driver.
Lists of json2 and msgpack2 may hold anything in Python: a null, a number or an object among texts is an error that names the element.
Behind delta, fixedscaleoffset and categorize, which leave no shape to others, the list of a chunk has one dimension, as numcodecs writes it.

## Element types

packbits takes bool, and integers of one byte that are 0 or 1: another value is an error. bitround leaves integers as they are. A copy whose elements have another
type than the source (NCZarr has neither half floats nor bool) leaves out the codecs that state the old type (delta, fixedscaleoffset, quantize, astype), with a warning.
`
