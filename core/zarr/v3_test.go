package zarr_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// v3 returns the zarr.json of an array. members replace the defaults or are added to
// them.
func v3(members string) zarr.Docs {
	text := "{" + members
	for _, m := range []string{
		`"zarr_format": 3`, `"node_type": "array"`, `"shape": [4, 6]`, `"data_type": "int16"`,
		`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}`,
		`"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}`,
		`"fill_value": 7`, `"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]`,
	} {
		if name, _, _ := strings.Cut(m, ":"); !strings.Contains(members, name+":") {
			if len(text) > 1 {
				text += ", "
			}
			text += m
		}
	}
	return zarr.Docs{"zarr.json": []byte(text + "}")}
}

func parseV3(members string) (*zarr.Array, error) {
	return zarr.ParseArray("/g/v", v3(members), zarr.ParseHint{Layout: zarr.LayoutV3})
}

// shardGrids formats the grids of all levels of shards.
func shardGrids(a *zarr.Array) []string {
	var list []string
	for i := range a.Shards {
		g, ok := a.ShardGrid(i)
		if !ok {
			list = append(list, "not whole")
		}
		list = append(list, zarr.ShownGrid(g))
	}
	return list
}

func TestV3Arrays(t *testing.T) {
	t.Parallel()
	ids := func(a *zarr.Array) string {
		var list []string
		for _, c := range a.Codecs {
			list = append(list, strings.ReplaceAll(string(c.Params), `"`, ""))
		}
		return strings.Join(list, " ")
	}
	fields := func(a *zarr.Array) any {
		text := fmt.Sprintf("%s %d ", a.DType, a.Fill)
		for _, f := range a.Fields {
			typ := ""
			if f.Type.Kind != dtype.Invalid {
				typ = " " + f.Type.String()
			}
			text += fmt.Sprintf("%s%s %d; ", f.Name, typ, f.Offset)
		}
		return fmt.Sprint(text, len(a.Warnings))
	}
	for members, want := range map[string]struct {
		get  func(a *zarr.Array) any
		want any
	}{
		``: {func(a *zarr.Array) any {
			return fmt.Sprintf("%v %v %v %v%c%v %d %v %v %v %v %v", a.Layout, a.Shape, a.Chunks, a.Keys.Prefix, a.Keys.Separator, a.DType, a.Fill, a.HasFill, a.Codecs, a.Transpose, a.DimNames, a.Scalar)
		}, "Zarr v3 [4 6] [2 3] true/<i2 [7 0] true [] [] [] false"},
		`"shape": [], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}}`:                       {func(a *zarr.Array) any { return a.Scalar }, true},
		`"chunk_key_encoding": {"name": "v2"}`:                                                                       {func(a *zarr.Array) any { return fmt.Sprint(a.Keys) }, "{46 false }"},
		`"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}`:                                  {func(a *zarr.Array) any { return fmt.Sprint(a.Keys) }, "{47 false }"},
		`"chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": ".tiff"}}`:               {func(a *zarr.Array) any { return fmt.Sprint(a.Keys) }, "{47 true .tiff}"},
		`"chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": "0", "separator": "."}}`: {func(a *zarr.Array) any { return fmt.Sprint(a.Keys) }, "{46 true 0}"},
		`"chunk_key_encoding": "default"`:                                                                            {func(a *zarr.Array) any { return fmt.Sprint(a.Keys) }, "{47 true }"},
		`"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}`:                             {func(a *zarr.Array) any { return fmt.Sprint(a.Keys) }, "{46 true }"},
		`"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]`:                                          {func(a *zarr.Array) any { return fmt.Sprintf("%s%d", a.DType, a.Fill) }, ">i2[0 7]"},
		`"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}]`: {
			func(a *zarr.Array) any { return a.Transpose == nil }, true,
		},
		`"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 5}}, "crc32c"]`: {
			func(a *zarr.Array) any { return fmt.Sprint(a.Transpose, ids(a)) }, "[1 0]{id: gzip, level: 5} {id: crc32c}",
		},
		`"codecs": [{"name": "numcodecs.delta", "configuration": {"dtype": "int16", "astype": "<i2"}}, {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "numcodecs.zlib", "configuration": {"level": 1}}]`: {
			func(a *zarr.Array) any { return ids(a) }, "{id: delta, dtype: <i2, astype: <i2} {id: zlib, level: 1}",
		},
		`"shape": [4, 6], "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "reshape", "configuration": {"shape": [[0], -1]}}, "zarrs.squeeze", {"name": "packbits", "configuration": {"last_bit": 3}}, "crc32c"]`: {
			func(a *zarr.Array) any { return fmt.Sprint(a.DType, a.Transpose, ids(a), a.ArrayCodecs) }, "<i2 [1 0]{id: zarr.packbits, last_bit: 3} {id: crc32c}0",
		},
		`"data_type": "int16", "codecs": [{"name": "scale_offset"}, {"name": "cast_value", "configuration": {"data_type": "uint8"}}, "bytes"]`: {
			func(a *zarr.Array) any { return fmt.Sprint(a.DType, ids(a), a.ArrayCodecs) }, "<i2{id: scale_offset} {id: cast_value, data_type: |u1}2",
		},
		`"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 3], "index_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}], "index_location": "start", "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}}]`: {
			func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.Shards, shardGrids(a), a.DType) }, "[1 3] [{[2 3] <nil> true false true [] 0 []}] [[2 1]] >i2",
		},
		`"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "index_codecs": ["bytes", "crc32c"], "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "index_codecs": ["bytes"],
			"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]}}], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}}`: {
			func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.Shards, shardGrids(a)) }, "[1 1] [{[4 6] <nil> false true false [] 0 []} {[2 3] <nil> false false false [] 0 []}] [[2 2] [2 3]]",
		},
		`"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "sharding_indexed", "configuration": {"chunk_shape": [3, 2], "index_codecs": ["bytes"], "codecs": [
			{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 1], "index_codecs": ["bytes"],
			"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]}}], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}}`: {
			func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.Transpose, a.Shards, shardGrids(a)) }, "[2 1] [] [{[4 6] <nil> false false false [1 0] 0 []} {[2 3] <nil> false false false [] 0 []}] [[2 2] [1 3]]",
		},
		`"shape": [4, 6, 2], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6, 2]}}, "codecs": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 2, 3], "index_codecs": ["bytes"], "codecs": [{"name": "transpose", "configuration": {"order": [1, 2, 0]}}, {"name": "bytes", "configuration": {"endian": "big"}}]}}]`: {
			func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.Transpose, a.Shards[0].Axes) }, "[2 3 1] [] [2 0 1]",
		},
		`"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "index_codecs": ["bytes"], "codecs": [
			{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "index_codecs": ["bytes"], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}]}}, {"name": "gzip", "configuration": {"level": 2}}]}},
			{"name": "numcodecs.zlib", "configuration": {"level": 1}}, {"name": "crc32c"}], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}}`: {
			func(a *zarr.Array) any {
				return fmt.Sprintf("%s %s %s", ids(a), a.Shards[0].Around, a.Shards[1].Around)
			},
			`{id: zstd} [{zlib {"id": "zlib", "level": 1}} {crc32c {"id": "crc32c"}}] [{gzip {"id": "gzip", "level": 2}}]`,
		},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[1, 3], [[2, 2], 2]]}}`:           {func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.ChunkGrid().Runs()) }, "[3 2] [[{1 1} {3 1}] [{2 3}]]"},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[1, 2], [1, 1], 5], 4]}}`:        {func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.ChunkGrid().Runs()) }, "[5 4] [[{1 3} {5 1}] [{4 0}]]"},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [2, 4]}}`:                          {func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.ChunkGrid().Runs()) }, "[2 4] []"},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[2, 1000000000000000000]], 4]}}`: {func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.ChunkGrid().Runs()) }, "[2 4] [[{2 1000000000000000000}] [{4 0}]]"},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4, 2], [6, 3]]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "index_codecs": ["bytes"], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]`: {
			func(a *zarr.Array) any {
				return fmt.Sprint(a.Chunks, a.Grid == nil, a.Shards[0].Shape, zarr.ShownGrid(a.ObjectGrid()), shardGrids(a))
			}, "[2 3] true [4 6][[4,2],[6,3]][[[2,1],[2,1]]]",
		},
		`"shape": [], "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": []}}`: {func(a *zarr.Array) any { return fmt.Sprint(a.Chunks, a.Scalar, a.Grid == nil) }, "[] true true"},
		`"fill_value": null`: {func(a *zarr.Array) any { return fmt.Sprintf("%v %t %d", a.Fill, a.HasFill, len(a.Warnings)) }, "[0 0] true 1"},
		`"data_type": "string", "fill_value": null, "codecs": ["vlen-utf8"]`:                                                  {func(a *zarr.Array) any { return fmt.Sprintf("%v %t %d", a.Fill, a.HasFill, len(a.Warnings)) }, "[] true 1"},
		`"data_type": "float32", "fill_value": "NaN"`:                                                                         {func(a *zarr.Array) any { return a.Fill }, []byte{0, 0, 0xc0, 0x7f}},
		`"data_type": "float32", "fill_value": "0x7fc00001"`:                                                                  {func(a *zarr.Array) any { return a.Fill }, []byte{1, 0, 0xc0, 0x7f}},
		`"data_type": "float16", "fill_value": "-Infinity"`:                                                                   {func(a *zarr.Array) any { return a.Fill }, []byte{0, 0xfc}},
		`"data_type": "complex64", "fill_value": ["NaN", 1]`:                                                                  {func(a *zarr.Array) any { return len(a.Fields) }, 2},
		`"data_type": "r16", "fill_value": [1, 255], "codecs": ["bytes"]`:                                                     {func(a *zarr.Array) any { return fmt.Sprintf("%s %d", a.DType, a.Fill) }, "|V2 [1 255]"},
		`"data_type": {"name": "raw_bytes", "configuration": {"length_bytes": 2}}, "fill_value": "AQI=", "codecs": ["bytes"]`: {func(a *zarr.Array) any { return fmt.Sprintf("%s %d", a.DType, a.Fill) }, "|V2 [1 2]"},
		`"data_type": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}, "fill_value": "YQ==", "codecs": ["bytes"]`: {
			func(a *zarr.Array) any { return fmt.Sprintf("%s %d", a.DType, a.Fill) }, "|S3 [97 0 0]",
		},
		`"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}, "fill_value": "a"`: {func(a *zarr.Array) any { return a.DType.String() }, "<U2"},
		`"data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 10}}, "fill_value": "NaT"`: {
			func(a *zarr.Array) any { return a.DType.String() }, "<M8[10s]",
		},
		`"data_type": {"name": "numpy.timedelta64", "configuration": {"unit": "ns", "scale_factor": 1}}, "fill_value": 5`: {func(a *zarr.Array) any { return a.DType.String() }, "<m8[ns]"},
		`"data_type": "string", "fill_value": "x", "codecs": ["vlen-utf8"]`:                                               {func(a *zarr.Array) any { return string(a.Fill) }, "x"},
		`"data_type": "variable_length_bytes", "fill_value": "eA==", "codecs": ["vlen-bytes"]`:                            {func(a *zarr.Array) any { return string(a.Fill) + fmt.Sprint(a.DType.Kind == dtype.VlenBytes) }, "xtrue"},
		`"data_type": "bytes", "fill_value": [120], "codecs": ["vlen-bytes"]`:                                             {func(a *zarr.Array) any { return string(a.Fill) }, "x"},
		`"dimension_names": ["y", null]`:                                                       {func(a *zarr.Array) any { return a.DimNames }, []string{"y", ""}},
		`"dimension_names": [null, null]`:                                                      {func(a *zarr.Array) any { return a.DimNames == nil }, true},
		`"dimension_names": ["a/b", "x"]`:                                                      {func(a *zarr.Array) any { return fmt.Sprintf("%q %d", a.DimNames, len(a.Warnings)) }, `["" "x"] 1`},
		`"storage_transformers": []`:                                                           {func(a *zarr.Array) any { return a.Scalar }, false},
		`"x": {"must_understand": false, "a": 1}`:                                              {func(a *zarr.Array) any { return a.Scalar }, false},
		`"attributes": {"_FillValue": 5, "units": "m"}`:                                        {func(a *zarr.Array) any { return fmt.Sprint(a.Attrs[0].Value, a.Attrs[1].Value, a.Warnings) }, "[5]m[]"},
		`"data_type": "float32", "attributes": {"_FillValue": "AAAAAICHw8A="}`:                 {func(a *zarr.Array) any { return a.Attrs[0].Value }, []float32{-9999}},
		`"data_type": "float64", "attributes": {"_FillValue": "AAAAAAAA+H8="}`:                 {func(a *zarr.Array) any { return fmt.Sprint(a.Attrs[0].Value) }, "[NaN]"},
		`"data_type": "float64", "attributes": {"_FillValue": -9999.0}`:                        {func(a *zarr.Array) any { return a.Attrs[0].Value }, []float64{-9999}},
		`"attributes": {"_nczarr_array": {"dimension_references": ["/x", "/y"]}, "a": "kept"}`: {func(a *zarr.Array) any { return fmt.Sprint(a.DimRefs, len(a.Attrs)) }, "[] 1"},
		`"attributes": {"_nczarr_fillvalue": "YQ=="}`:                                          {func(a *zarr.Array) any { return len(a.Attrs) }, 0},
		`"attributes": {"_ARRAY_DIMENSIONS": ["a", "b"]}`:                                      {func(a *zarr.Array) any { return fmt.Sprint(a.DimNames, len(a.Attrs)) }, "[] 0"},
		`"data_type": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}, "codecs": ["bytes"], "fill_value": "YWJj", "attributes": {"_FillValue": "YWJj"}`: {
			func(a *zarr.Array) any { return fmt.Sprintf("%s %v", a.Fill, a.Attrs[0].Value) }, "abc [abc]",
		},
		`"data_type": {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int16"}, {"name": "in", "data_type": {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": "uint8"}, {"name": "y", "data_type": "uint16"}]}}},
			{"name": "r", "data_type": "r16"}, {"name": "s", "data_type": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 2}}}]}},
			"fill_value": {"s": "YQ==", "a": 1, "in": {"y": 515, "x": 4}, "r": "BQY="}, "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]`: {
			fields, "|V9 [0 1 4 2 3 5 6 97 0] a >i2 0; in 2; r |V2 5; s |S2 7; 0",
		},
		`"data_type": {"name": "structured", "configuration": {"fields": [["a", "int16"], ["c", {"name": "null_terminated_bytes", "configuration": {"length_bytes": 1}}]]}}, "fill_value": "AQBh", "codecs": [{"name": "bytes"}]`: {
			fields, "|V3 [1 0 97] a <i2 0; c >S1 2; 1",
		},
		`"data_type": {"name": "structured", "configuration": {"fields": [["b", "bool"], ["in", {"name": "structured", "configuration": {"fields": [["z", "complex64"]]}}]]}}, "fill_value": "AQECAwQFBgcI", "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]`: {
			fields, "|V9 [1 4 3 2 1 8 7 6 5] b |b1 0; in 1; 0",
		},
		`"data_type": {"name": "struct", "configuration": {"fields": [{"name": "b", "data_type": "int8"}]}}, "fill_value": null, "codecs": [{"name": "bytes"}]`: {
			fields, "|V1 [0] b |i1 0; 1",
		},
		`"data_type": "complex64", "fill_value": ["0x7fc00001", "-Infinity"]`: {func(a *zarr.Array) any { return a.Fill }, []byte{1, 0, 0xc0, 0x7f, 0, 0, 0x80, 0xff}},
		`"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0}}]`: {
			func(a *zarr.Array) any { return ids(a) }, "{id: blosc, cname: lz4, clevel: 5, shuffle: 2, blocksize: 0}",
		},
	} {
		a, err := parseV3(members)
		if err != nil {
			t.Errorf("%s: %v", members, err)
			continue
		}
		if got := want.get(a); !reflect.DeepEqual(got, want.want) {
			t.Errorf("%s: want %v, got %v", members, want.want, got)
		}
	}
}

// structV3 returns the members of an array of structures with the given fields. The
// array's codec "bytes" does not specify a byte order.
func structV3(fields, fill string) string {
	return `"data_type": {"name": "struct", "configuration": {"fields": [` + fields + `]}}, "fill_value": ` + fill + `, "codecs": [{"name": "bytes"}]`
}

func TestV3ArrayErrors(t *testing.T) {
	t.Parallel()
	shard := func(members string) string {
		text := `"codecs": [{"name": "sharding_indexed", "configuration": {` + members
		for _, m := range []string{`"chunk_shape": [1, 3]`, `"index_codecs": ["bytes", "crc32c"]`, `"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]`} {
			if name, _, _ := strings.Cut(m, ":"); !strings.Contains(members, name+":") {
				text += ", " + m
			}
		}
		return strings.Replace(text, "{, ", "{", 1) + "}}]"
	}
	deep := `[{"name": "bytes", "configuration": {"endian": "little"}}]`
	for range 9 {
		deep = `[{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "index_codecs": ["bytes"], "codecs": ` + deep + `}}]`
	}
	for members, want := range map[string]struct {
		kind ncerr.Kind
		says string
	}{
		`"zarr_format": 2`:                    {ncerr.ErrMetadata, "zarr_format: expected 3, found 2"},
		`"node_type": "group"`:                {ncerr.ErrUnsupported, `unknown extension "shape"`},
		`"node_type": "table"`:                {ncerr.ErrMetadata, "node_type: expected"},
		`"shape": "x"`:                        {ncerr.ErrMetadata, "shape: expected an array"},
		`"shape": [4, -1]`:                    {ncerr.ErrMetadata, "shape: dimension 1"},
		`"shape": [4]`:                        {ncerr.ErrBadChunk, "chunk_shape has 2 dimensions, but shape has 1"},
		`"shape": [4611686018427387904, 400]`: {ncerr.ErrLimit, "bytes"},
		`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}`:                                                    {ncerr.ErrBadChunk, "dimension 0 is 0"},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[1], [2]]}}`:                         {ncerr.ErrBadChunk, `the chunk lengths of dimension 0 add up to 1, but shape has 4`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[2, 2]], [[1, 5]]]}}`:               {ncerr.ErrBadChunk, `the chunk lengths of dimension 1 add up to 5, but shape has 6`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4, 0], 6]}}`:                        {ncerr.ErrBadChunk, `dimension 0: expected an integer from 1 to 9223372036854775807, found 0`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [0, 6]}}`:                             {ncerr.ErrBadChunk, `dimension 0: expected an integer`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], [[6, 0]]]}}`:                    {ncerr.ErrBadChunk, `dimension 1: expected an integer`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], [[6, -1]]]}}`:                   {ncerr.ErrBadChunk, `dimension 1: expected an integer`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], [6.5]]}}`:                       {ncerr.ErrBadChunk, `dimension 1: expected an integer`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], "6"]}}`:                         {ncerr.ErrBadChunk, `dimension 1: expected an integer`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], []]}}`:                          {ncerr.ErrBadChunk, `dimension 1 has no chunk lengths`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], [[6]]]}}`:                       {ncerr.ErrMetadata, `dimension 1: expected a length and a number of chunks, found [6]`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], [[6, 1, 1]]]}}`:                 {ncerr.ErrMetadata, `dimension 1: expected a length and a number of chunks`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], [[10, 1000000000000000000]]]}}`: {ncerr.ErrLimit, `dimension 1: the chunk lengths add up to more than the limit of 9223372036854775807`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4], [9223372036854775807, 1]]}}`:    {ncerr.ErrLimit, `add up to more than`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4611686018427387904], [6]]}}`:       {ncerr.ErrLimit, `bytes`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [4]}}`:                                {ncerr.ErrMetadata, `expected an array with an element for each of 2 dimensions, found [4]`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": 4}}`:                                  {ncerr.ErrMetadata, `expected an array with an element for each of 2 dimensions, found 4`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"chunk_shapes": [4, 6]}}`:                                               {ncerr.ErrMetadata, `kind: expected "inline", found nothing`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "file", "chunk_shapes": [4, 6]}}`:                               {ncerr.ErrMetadata, `kind: expected "inline", found "file"`},
		`"chunk_grid": {"name": "rectilinear", "must_understand": false, "configuration": {"kind": "inline", "chunk_shapes": [4, 6]}}`:   {ncerr.ErrMetadata, `must_understand is not allowed`},
		`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[3, 2], 6]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "index_codecs": ["bytes"], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]`: {ncerr.ErrBadChunk, "inner chunk shape [2 3] does not divide shard shape [[3,2],6]"},
		`"chunk_grid": {"name": "hexagonal", "configuration": {}}`:                                              {ncerr.ErrUnsupported, `"hexagonal" is not supported`},
		`"chunk_grid": {"name": "regular", "must_understand": false, "configuration": {"chunk_shape": [2, 3]}}`: {ncerr.ErrMetadata, "must_understand is not allowed"},
		`"chunk_grid": 1`: {ncerr.ErrMetadata, "chunk_grid: expected an object"},
		`"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "-"}}`: {ncerr.ErrMetadata, "separator: expected"},
		`"chunk_key_encoding": {"name": "v2", "configuration": []}`:                 {ncerr.ErrMetadata, `configuration of "v2"`},
		`"data_type": "int128"`:   {ncerr.ErrUnsupported, `the type "int128" is not supported`},
		`"data_type": "bfloat16"`: {ncerr.ErrUnsupported, "bfloat16"},
		`"data_type": "r9"`:       {ncerr.ErrUnsupported, `"r9"`},
		`"data_type": {"name": "raw_bytes", "configuration": {"length_bytes": -1}}`:                      {ncerr.ErrMetadata, "length_bytes"},
		`"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 6}}`:              {ncerr.ErrMetadata, "multiple of 4"},
		`"data_type": {"name": "numpy.datetime64", "configuration": {"unit": "[s]", "scale_factor": 1}}`: {ncerr.ErrMetadata, "numpy.datetime64"},
		`"data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": "x"}}`: {ncerr.ErrMetadata, "scale_factor"},
		`"data_type": "string", "fill_value": ""`:                                                        {ncerr.ErrMetadata, `require the codecs "vlen-utf8" and "vlen-bytes"`},
		`"codecs": ["vlen-utf8"]`: {ncerr.ErrMetadata, `require the codecs "vlen-utf8" and "vlen-bytes"`},
		`"codecs": []`:            {ncerr.ErrMetadata, "codecs: expected an array of codecs"},
		`"codecs": ["bytes"]`:     {ncerr.ErrMetadata, `requires "endian"`},
		`"codecs": [{"name": "bytes", "configuration": {"endian": "middle"}}]`:                   {ncerr.ErrMetadata, "endian: expected"},
		`"codecs": [{"name": "gzip"}]`:                                                           {ncerr.ErrMetadata, `missing array-to-bytes codec; "gzip" is not known to be one`},
		`"codecs": ["zfp"]`:                                                                      {ncerr.ErrUnsupported, `codec "zfp"`},
		`"codecs": [{"name": "numcodecs.pcodec"}]`:                                               {ncerr.ErrUnsupported, `codec "numcodecs.pcodec"`},
		`"codecs": [{"name": "n5_default"}]`:                                                     {ncerr.ErrUnsupported, `codec "n5_default"`},
		`"codecs": [{"name": "conditional"}, "bytes"]`:                                           {ncerr.ErrUnsupported, `codec "conditional"`},
		`"codecs": ["packbits", {"name": "bytes"}]`:                                              {ncerr.ErrMetadata, "the second array-to-bytes codec"},
		`"codecs": ["reshape", "packbits"]`:                                                      {ncerr.ErrMetadata, "reshape: expected a shape for the elements of a chunk of shape [2 3], found nothing"},
		`"shape": [4, 6], "codecs": [{"name": "reshape", "configuration": {"shape": [4]}}]`:      {ncerr.ErrMetadata, "of shape [2 3], found [4]"},
		`"shape": [4, 6], "codecs": [{"name": "reshape", "configuration": {"shape": [-1, 4]}}]`:  {ncerr.ErrMetadata, "of shape [2 3], found [-1, 4]"},
		`"shape": [4, 6], "codecs": [{"name": "reshape", "configuration": {"shape": [-1, -1]}}]`: {ncerr.ErrMetadata, "of shape [2 3], found [-1, -1]"},
		`"shape": [4, 6], "codecs": [{"name": "reshape", "configuration": {"shape": [[1, 0]]}}]`: {ncerr.ErrMetadata, "of shape [2 3], found [[1, 0]]"},
		`"shape": [4, 6], "codecs": [{"name": "reshape", "configuration": {"shape": [6]}}, {"name": "transpose", "configuration": {"order": [0]}}]`: {ncerr.ErrUnsupported, `codec "transpose" after "reshape"`},
		`"shape": [4, 6], "codecs": [{"name": "reshape", "configuration": {"shape": [6]}}, {"name": "sharding_indexed", "configuration": {}}]`:      {ncerr.ErrUnsupported, `codec "sharding_indexed" after "reshape"`},
		`"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "bytes"}]`:                                                   {ncerr.ErrMetadata, "the second array-to-bytes codec"},
		`"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "transpose"}]`:                                               {ncerr.ErrMetadata, `codec "transpose" must precede`},
		`"codecs": [{"name": "transpose", "configuration": {"order": [0, 0]}}, "bytes"]`:                                                            {ncerr.ErrMetadata, "not a permutation"},
		`"codecs": [{"name": "transpose", "configuration": {"order": [0]}}, "bytes"]`:                                                               {ncerr.ErrMetadata, "1 dimensions, but shape has 2"},
		`"codecs": [{"name": "numcodecs.delta"}, {"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes"]`:                               {ncerr.ErrUnsupported, `codec "transpose" after codec "delta"`},
		`"codecs": [{"name": "numcodecs.delta"}, {"name": "bytes", "configuration": {"endian": "big"}}]`:                                            {ncerr.ErrUnsupported, "big-endian order after an array-to-array codec"},
		`"codecs": [{"name": "numcodecs.delta"}]`:                                                                                                   {ncerr.ErrMetadata, "missing array-to-bytes codec"},
		`"codecs": [1]`:                {ncerr.ErrMetadata, "expected an object with a name"},
		shard(`"chunk_shape": [3, 3]`): {ncerr.ErrBadChunk, "inner chunk shape [3 3] does not divide shard shape [2 3]"},
		shard(`"chunk_shape": [0, 3]`): {ncerr.ErrBadChunk, "dimension 0 is 0"},
		shard(`"index_codecs": [{"name": "bytes"}, {"name": "gzip"}]`):                                                                    {ncerr.ErrUnsupported, `"gzip" for the index`},
		shard(`"index_codecs": [{"name": "bytes", "configuration": {"endian": "middle"}}]`):                                               {ncerr.ErrMetadata, "endian: expected"},
		`"data_type": "uint8", "codecs": [{"name": "numcodecs.fixedscaleoffset"}, {"name": "bytes", "configuration": {"endian": "big"}}]`: {ncerr.ErrUnsupported, "big-endian order after an array-to-array codec"},
		shard(`"index_codecs": []`):           {ncerr.ErrMetadata, "missing array-to-bytes codec"},
		shard(`"index_codecs": 1`):            {ncerr.ErrMetadata, "index_codecs: expected an array"},
		shard(`"index_location": "middle"`):   {ncerr.ErrMetadata, "index_location: expected"},
		shard(`"codecs": [{"name": "gzip"}]`): {ncerr.ErrMetadata, "missing array-to-bytes codec"},
		strings.Replace(shard(""), "[{", `[{"name": "numcodecs.delta", "configuration": {"dtype": "<i2"}}, {`, 1):                 {ncerr.ErrUnsupported, `codec "sharding_indexed" after codec "delta"`},
		strings.Replace(shard(""), "}}]}}]", `}}]}}, {"name": "transpose", "configuration": {"order": [1, 0]}}]`, 1):              {ncerr.ErrMetadata, `codec "transpose" must precede`},
		strings.Replace(shard(""), "}}]}}]", `}}]}}, {"name": "bytes"}]`, 1):                                                      {ncerr.ErrMetadata, `"bytes" is the second array-to-bytes codec`},
		`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}, "codecs": ` + deep:                          {ncerr.ErrLimit, "shards are nested deeper than the limit of 8 levels"},
		`"chunk_key_encoding": {"name": "zarrs.default_suffix"}`:                                                                  {ncerr.ErrMetadata, "suffix: expected a string"},
		`"chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": 1}}`:                                  {ncerr.ErrMetadata, "suffix: expected a string"},
		`"chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": "/../x"}}`:                            {ncerr.ErrMetadata, "suffix: expected a string"},
		`"chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": "` + strings.Repeat("x", 256) + `"}}`: {ncerr.ErrMetadata, "of at most 255 bytes"},
		`"chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": ".x", "separator": "-"}}`:             {ncerr.ErrMetadata, "separator: expected"},
		structV3("", "7"):                                     {ncerr.ErrMetadata, "the list of fields is empty"},
		structV3(`{"name": "a"}`, "7"):                        {ncerr.ErrMetadata, `data_type: expected an object with a name`},
		structV3(`["a", "int8", [2]]`, "7"):                   {ncerr.ErrMetadata, `field 0: expected an object with name and data_type, found ["a", "int8", [2]]`},
		structV3(`{"name": "a/b", "data_type": "int8"}`, "7"): {ncerr.ErrMetadata, "field 0: expected an object"},
		structV3(`{"name": "a", "data_type": "int8"}, {"name": "a", "data_type": "int8"}`, "7"):                      {ncerr.ErrMetadata, `duplicate field "a"`},
		structV3(`{"name": "a", "data_type": "bfloat16"}`, "7"):                                                      {ncerr.ErrUnsupported, `the type "bfloat16" is not supported`},
		structV3(`{"name": "a", "data_type": "string"}`, "7"):                                                        {ncerr.ErrMetadata, `field "a"`},
		structV3(`{"name": "a", "data_type": "int16"}`, "7"):                                                         {ncerr.ErrMetadata, `requires "endian"`},
		structV3(`{"name": "a", "data_type": "int8"}`, "7"):                                                          {ncerr.ErrMetadata, "fill_value: 7 is not"},
		structV3(`{"name": "a", "data_type": "int8"}`, "[7]"):                                                        {ncerr.ErrMetadata, "fill_value: [7] is not"},
		structV3(`{"name": "a", "data_type": "int8"}`, `{"b": 7}`):                                                   {ncerr.ErrMetadata, "fill_value"},
		structV3(`{"name": "a", "data_type": "int8"}`, `{"a": 700}`):                                                 {ncerr.ErrMetadata, "fill_value"},
		structV3(`{"name": "a", "data_type": "int8"}`, `"AAA="`):                                                     {ncerr.ErrMetadata, "fill_value"},
		structV3(`["a", "r33554432"], ["b", "r33554432"], ["c", "r33554432"], ["d", "r33554432"], ["e", "r8"]`, "7"): {ncerr.ErrLimit, "more than the limit of 16777216 bytes"},
		structV3(strings.Repeat(`{"name": "a", "data_type": {"name": "struct", "configuration": {"fields": [`, 18)+`{"name": "a", "data_type": "int8"}`+strings.Repeat(`]}}}`, 18), "7"): {ncerr.ErrNotZarr, "nested deeper than 64 levels"},
		`"fill_value": "x"`:   {ncerr.ErrMetadata, "fill_value"},
		`"fill_value": 40000`: {ncerr.ErrMetadata, "fill_value"},
		`"fill_value": [7]`:   {ncerr.ErrMetadata, "fill_value"},
		`"data_type": "r16", "codecs": ["bytes"], "fill_value": [1]`:      {ncerr.ErrMetadata, "fill_value"},
		`"data_type": "r16", "codecs": ["bytes"], "fill_value": [1, 256]`: {ncerr.ErrMetadata, "fill_value"},
		`"dimension_names": ["x"]`:                                        {ncerr.ErrMetadata, "dimension_names: expected an array of 2 names"},
		`"dimension_names": ["x", 1]`:                                     {ncerr.ErrMetadata, "dimension_names: expected names and null"},
		`"storage_transformers": [{"name": "x"}]`:                         {ncerr.ErrUnsupported, "storage_transformers"},
		`"extension": {"name": "x"}`:                                      {ncerr.ErrUnsupported, `unknown extension "extension"`},
		`"attributes": []`:                                                {ncerr.ErrMetadata, "attributes: expected an object"},
		`"x" 1`:                                                           {ncerr.ErrNotZarr, "not JSON"},
	} {
		_, err := parseV3(members)
		if ncerr.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), `"/g/v/zarr.json"`) {
			t.Errorf("%s: want %v with %q, got %v", members, want.kind, want.says, err)
		}
	}
	if _, err := zarr.ParseGroup("/g", v3(""), zarr.LayoutV3); ncerr.KindOf(err) != ncerr.ErrNoObject {
		t.Errorf("array parsed as a group: want ErrNoObject, got %v", err)
	}
	group := zarr.Docs{"zarr.json": []byte(`{"zarr_format": 3, "node_type": "group"}`)}
	if _, err := zarr.ParseArray("/g", group, zarr.ParseHint{Layout: zarr.LayoutV3}); ncerr.KindOf(err) != ncerr.ErrNoObject {
		t.Errorf("group parsed as an array: want ErrNoObject, got %v", err)
	}
}

// TestLongGrid checks the limit on the elements of a list of chunk lengths.
func TestLongGrid(t *testing.T) {
	t.Parallel()
	shapes := func(n int) string { return "[[" + strings.Repeat("1,2,", n/2) + "3]]" }
	g, err := zarr.ParseGrid(shapes(1<<20 - 1))
	if err != nil || len(g.Runs()[0]) != 1<<20-1 {
		t.Errorf("%v", err)
	}
	if _, err := zarr.ParseGrid(shapes(1 << 20)); ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), "dimension 0 has more than the limit of 1048576 elements") {
		t.Errorf("got %v", err)
	}
	if _, err := zarr.ParseGrid("[" + strings.Repeat("1,", 64) + "1]"); ncerr.KindOf(err) != ncerr.ErrLimit {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"", "[", "1", "{}"} {
		if _, err := zarr.ParseGrid(bad); ncerr.KindOf(err) != ncerr.ErrMetadata {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestV3Consolidated(t *testing.T) {
	t.Parallel()
	root := func(text string) zarr.Docs {
		return zarr.Docs{"zarr.json": []byte(`{"zarr_format": 3, "node_type": "group"` + text + `}`)}
	}
	for _, none := range []string{"", `, "consolidated_metadata": null`} {
		if all, err := zarr.ParseInline(root(none)); all != nil || err != nil {
			t.Errorf("%q: want no consolidated metadata, got %v, %v", none, all, err)
		}
	}
	all, err := zarr.ParseInline(root(`, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {"a": {"x": 1}, "a/b": {"y": [2]}}}`))
	if err != nil || len(all) != 3 || string(all["a"]["zarr.json"]) != `{"x": 1}` || string(all["a/b"]["zarr.json"]) != `{"y": [2]}` || all[""] == nil {
		t.Errorf("want the documents of the root, a and a/b, got %q, %v", all, err)
	}
	for _, bad := range []string{`1`, `{}`, `{"kind": "table"}`, `{"kind": "inline"}`, `{"kind": "inline", "metadata": []}`, `{"kind": "inline", "metadata": {"a": 1}}`, `{"kind": "inline", "metadata": {"a": {}, "/a/": {}}}`} {
		if _, err := zarr.ParseInline(root(`, "consolidated_metadata": ` + bad)); ncerr.KindOf(err) != ncerr.ErrConsolidated {
			t.Errorf("%s: want ErrConsolidated, got %v", bad, err)
		}
	}
}

// FuzzV3 parses arbitrary bytes as the zarr.json of an array, and of a group with
// consolidated metadata. It checks the invariants that readers rely on, and that the
// result survives a round trip.
func FuzzV3(f *testing.F) {
	f.Add(string(v3("")["zarr.json"]))
	f.Add(string(v3(`"data_type": "string", "fill_value": "", "codecs": ["vlen-utf8", {"name": "zstd"}], "dimension_names": ["x", null], "attributes": {"a": [1]}`)["zarr.json"]))
	f.Add(string(v3(`"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "index_codecs": ["bytes"], "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}}]`)["zarr.json"]))
	f.Add(string(v3(`"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "index_codecs": ["bytes"], "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}}, {"name": "zstd"}, "crc32c"]`)["zarr.json"]))
	f.Add(string(v3(`"shape": [4, 6, 2], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6, 2]}}, "codecs": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 2, 3], "index_codecs": ["bytes"], "codecs": [{"name": "transpose", "configuration": {"order": [1, 2, 0]}}, {"name": "bytes", "configuration": {"endian": "big"}}]}}]`)["zarr.json"]))
	f.Add(string(v3(structV3(`{"name": "a", "data_type": "int8"}, ["b", {"name": "structured", "configuration": {"fields": [["c", "bool"]]}}]`, `{"a": 1, "b": {"c": true}}`))["zarr.json"]))
	f.Add(string(v3(`"chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": ".tiff"}}`)["zarr.json"]))
	f.Add(string(v3(`"fill_value": null`)["zarr.json"]))
	f.Add(string(v3(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4, [2, 5]], 9]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "index_codecs": ["bytes"], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]`)["zarr.json"]))
	for _, shapes := range []string{`[[1, 3], [[2, 2], 2]]`, `[[[4, 1000000000000000000]], 6]`, `[[[1, 9223372036854775807], 4], [[6, 0]]]`, `[[], [[6]]]`} {
		f.Add(string(v3(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": ` + shapes + `}}`)["zarr.json"]))
	}
	f.Add(`{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline", "metadata": {"a": {"node_type": "array"}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		docs := zarr.Docs{"zarr.json": []byte(text)}
		if nodes, err := zarr.ParseInline(docs); err == nil {
			for path := range nodes {
				if strings.HasPrefix(path, "/") {
					t.Errorf("path %q begins with a slash", path)
				}
			}
		}
		if g, err := zarr.ParseGroup("/", docs, zarr.LayoutV3); err == nil {
			opts := zarr.WriteOptions{Layout: zarr.LayoutV3, Old: docs, IsRoot: true}
			if again, err := g.Docs(opts); err != nil || !zarr.SameJSON(docs["zarr.json"], again["zarr.json"]) {
				t.Fatalf("group rewritten as %s, %v", again, err)
			}
		}
		a, err := zarr.ParseArray("/", docs, zarr.ParseHint{Layout: zarr.LayoutV3})
		if err != nil {
			return
		}
		rank := len(a.Shape)
		if len(a.Chunks) != rank || a.DimNames != nil && len(a.DimNames) != rank || a.DType.Fixed() && len(a.Fill) != a.DType.Size || !a.HasFill {
			t.Fatalf("inconsistent array %+v", a)
		}
		outer := a.Chunks
		for i := range a.Shards {
			if g, ok := a.ShardGrid(i); !ok || slices.Contains(g.Largest(), 0) {
				t.Fatalf("level %d has the invalid shard grid %v", i, zarr.ShownGrid(g))
			}
			outer = a.Shards[0].Shape
		}
		if slices.Contains(outer, 0) {
			t.Fatalf("chunk shape %v contains 0", outer)
		}
		if g := a.ChunkGrid(); g.Rank() != rank || !slices.Equal(g.Largest(), a.Chunks) {
			t.Fatalf("the chunk grid %v does not match the chunk shape %v", g.Runs(), a.Chunks)
		}
		if a.Transpose != nil {
			order := slices.Clone(a.Transpose)
			slices.Sort(order)
			for i, d := range order {
				if i != d {
					t.Fatalf("order %v is not a permutation", a.Transpose)
				}
			}
		}
		rewriteV3(t, docs, a)
	})
}
