package corpora_test

import (
	"fmt"
	"strconv"
	"strings"
)

// The values of the arrays of zarr-v2 and zarr-v3, by rank and layout. The names of the
// arrays state their type, layout and codec.
const (
	four   = "1, 2, 3, 4"
	words  = `"a", "b", "cc", "d"`
	square = "\n  1, 2,\n  3, 4"
	cube   = "\n  0, 1, 2,\n  3, 4, 5,\n  6, 7, 8,\n  9, 10, 11,\n  12, 13, 14,\n  15, 16, 17,\n  18, 19, 20,\n  21, 22, 23,\n  24, 25, 26"
)

// arrays returns the rows for the arrays of zarr-v2/data.zarr, its groups and its
// archives.
func arrays() []row {
	var names, files, has []string
	for _, a := range []struct{ name, kind, values string }{
		{"1d.chunked.i2", "short", four},
		{"1d.chunked.ragged.i2", "short", "1, 2, 3, 4, 5"},
		{"1d.contiguous.S7", "string", words},
		{"1d.contiguous.U13.be", "string", words},
		{"1d.contiguous.U13.le", "string", words},
		{"1d.contiguous.U7", "string", words},
		{"1d.contiguous.b1", "ubyte", "1, 0, 1, 0"},
		{"1d.contiguous.bitround.f4", "float", "1.125, 2.25, 3.25, 4.5"},
		{"1d.contiguous.blosc.i2", "short", four},
		{"1d.contiguous.delta.i2", "short", four},
		{"1d.contiguous.delta.shuffle.i2", "short", "10, 20, 30, 40"},
		{"1d.contiguous.f4.be", "float", "-1000.5, 0, 1000.5, 0"},
		{"1d.contiguous.f4.le", "float", "-1000.5, 0, 1000.5, 0"},
		{"1d.contiguous.f8", "double", "1.5, 2.5, 3.5, 4.5"},
		{"1d.contiguous.fixedscaleoffset.f4", "float", "1000, 1000.1, 1000.2, 1000.3"},
		{"1d.contiguous.i4", "int", four},
		{"1d.contiguous.json2.O", "string", `"foo", "bar", "baz", "qux"`},
		{"1d.contiguous.lz4.i2", "short", four},
		{"1d.contiguous.raw.i2", "short", four},
		{"1d.contiguous.shuffle.i2", "short", four},
		{"1d.contiguous.u1", "ubyte", "255, 0, 255, 0"},
		{"1d.contiguous.zlib.i2", "short", four},
		{"1d.contiguous.zstd.i2", "short", four},
		{"2d.chunked.U7", "string", "\n  \"a\", \"b\",\n  \"cc\", \"d\""},
		{"2d.chunked.i2", "short", square},
		{"2d.chunked.ragged.i2", "short", "\n  1, 2, 3,\n  4, 5, 6,\n  7, 8, 9"},
		{"2d.contiguous.i2", "short", square},
		{"3d.chunked.O", "string", "\n  \"a\", \"aa\",\n  \"aaa\", \"aaaa\",\n  \"b\", \"bb\",\n  \"bbb\", \"bbbb\""},
		{"3d.chunked.i2", "short", cube},
		{"3d.chunked.mixed.i2.C", "short", cube},
		{"3d.chunked.mixed.i2.F", "short", cube},
		{"3d.contiguous.i2", "short", cube},
	} {
		names, files = append(names, a.name), append(files, "zarr-v2/data.zarr/"+a.name)
		has = append(has, a.kind+` \`+a.name+"(", fmt.Sprintf("\n \\%s =%s ;\n", a.name, spaced(a.values)))
	}
	var out []row
	for store, about := range map[string][]string{
		"data.zarr":                        files,
		"data.zipped_from_parent.zarr.zip": {"zarr-v2/data.zipped_from_parent.zarr.zip"},
		"data.zipped_from_within.zarr.zip": {"zarr-v2/data.zipped_from_within.zarr.zip"},
	} {
		out = append(out, row{files: about, run: "dump -v " + strings.Join(names, ",") + " $C/zarr-v2/" + store, has: has})
	}
	return append(out, row{
		files: []string{"zarr-v2/data.zarr/.zgroup", "zarr-v2/data.zarr/.zattrs", "zarr-v2/data.zarr/.zmetadata", "zarr-v2/data.zarr/my group with spaces"},
		run:   "dump -h $C/zarr-v2/data.zarr",
		has:   []string{":answer = 42 ;", `group: my\ group\ with\ spaces {`, `:description = "A group with spaces in the name" ;`},
	})
}

// arraysV3 returns the rows for the stores of zarr-v3, which all have the same arrays.
// The expected values are those that zarr-python reads.
func arraysV3() []row {
	table := func(first, last, columns int) string {
		text := ""
		for i := first; i <= last; i++ {
			sep := map[bool]string{true: ",\n  ", false: ", "}[(i-first)%columns == 0]
			text += sep + strconv.Itoa(i)
		}
		return strings.TrimPrefix(text, ",")
	}
	var has []string
	for _, a := range []struct{ name, kind, values string }{
		{"1d.chunked.compressed.sharded.i2", "short", four},
		{"1d.chunked.filled.compressed.sharded.i2", "short", "1, 2, 0, 0"},
		{"1d.chunked.i2", "short", four},
		{"1d.chunked.ragged.i2", "short", "1, 2, 3, 4, 5"},
		{"1d.chunked.string.vlen", "string", `"a", "bb", "ccc", "dddd"`},
		{"1d.contiguous.b1", "ubyte", "1, 0, 1, 0"},
		{"1d.contiguous.blosc.i2", "short", four},
		{"1d.contiguous.compressed.sharded.b1", "ubyte", "1, 0, 1, 0"},
		{"1d.contiguous.compressed.sharded.f4", "float", "-1000.5, 0, 1000.5, 0"},
		{"1d.contiguous.compressed.sharded.f8", "double", "1.5, 2.5, 3.5, 4.5"},
		{"1d.contiguous.compressed.sharded.i2", "short", four},
		{"1d.contiguous.compressed.sharded.i4", "int", four},
		{"1d.contiguous.compressed.sharded.u1", "ubyte", "255, 0, 255, 0"},
		{"1d.contiguous.delta.i4", "int", four},
		{"1d.contiguous.f2.le", "float", "-1000.5, 0, 1000.5, 0"},
		{"1d.contiguous.f4.be", "float", "-1000.5, 0, 1000.5, 0"},
		{"1d.contiguous.f4.le", "float", "-1000.5, 0, 1000.5, 0"},
		{"1d.contiguous.f8", "double", "1.5, 2.5, 3.5, 4.5"},
		{"1d.contiguous.gzip.i2", "short", four},
		{"1d.contiguous.i4", "int", four},
		{"1d.contiguous.raw.i2", "short", four},
		{"1d.contiguous.string.compressed", "string", `"compressed", "string", "test"`},
		{"1d.contiguous.string.vlen", "string", `"hello", "world", "zarr", "v3"`},
		{"1d.contiguous.u1", "ubyte", "255, 0, 255, 0"},
		{"1d.string.empty", "string", `"", "test", ""`},
		{"1d.string.unicode", "string", `"hello", "世界", "🚀🎉", "Ñoño"`},
		{"2d.chunked.compressed.sharded.filled.i2", "short", table(0, 15, 4)},
		{"2d.chunked.compressed.sharded.i2", "short", table(1, 16, 4)},
		{"2d.chunked.i2", "short", square},
		{"2d.chunked.ragged.compressed.sharded.i2", "short", table(1, 9, 3)},
		{"2d.chunked.ragged.i2", "short", table(1, 9, 3)},
		{"2d.chunked.string.vlen", "string", "\n  \"hello\", \"world\",\n  \"foo\", \"bar\""},
		{"2d.contiguous.compressed.sharded.i2", "short", square},
		{"2d.contiguous.i2", "short", square},
		{"3d.chunked.compressed.sharded.i2", "short", table(0, 63, 4)},
		{"3d.chunked.i2", "short", cube},
		{"3d.chunked.mixed.compressed.sharded.i2", "short", cube},
		{"3d.chunked.mixed.i2.C", "short", cube},
		{"3d.chunked.mixed.i2.F", "short", cube},
		{"3d.contiguous.compressed.sharded.i2", "short", cube},
		{"3d.contiguous.delta.i4.mixed", "int", cube},
		{"3d.contiguous.i2", "short", cube},
		{"1d.i2", "short", "10, 20, 30, 40"}, // an array in a group with consolidated metadata
	} {
		has = append(has, a.kind+` \`+a.name+"(", fmt.Sprintf(" \\%s =%s ;\n", a.name, spaced(a.values)))
	}
	has = append(has, ":answer = 42 ;", `group: my\ group\ with\ spaces {`, `:description = "A group with spaces in the name" ;`, `:description = "A nested group" ;`)
	var out []row
	for _, store := range []string{"data.zarr", "data.uncompressed.zarr.zip", "data.zipped_from_parent.zarr.zip", "data.zipped_from_within.zarr.zip"} {
		out = append(out, row{files: []string{"zarr-v3/" + store}, run: "dump $C/zarr-v3/" + store, has: has})
	}
	return append(out, row{files: []string{"zarr-v3/data.zarr/consolidated"}, run: "dump $C/zarr-v3/data.zarr/consolidated", has: []string{":answer = 42 ;", ` \1d.chunked.i2 = 1, 2, 3, 4 ;`}})
}

func spaced(values string) string {
	if values[0] == '\n' {
		return values
	}
	return " " + values
}
