package dataset_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// rawShard returns a shard with the given content and pairs of offset and length in its
// index, and a valid checksum.
func rawShard(content string, pairs ...uint64) string {
	var index []byte
	for _, n := range pairs {
		index = binary.LittleEndian.AppendUint64(index, n)
	}
	index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli)))
	return content + string(index)
}

// sharded returns the members of an array in shards of size elements with inner chunks of
// inner elements. more are further members of the configuration, which replace the
// defaults.
func sharded(size, inner, more string) string {
	conf := `"chunk_shape": ` + inner
	for _, m := range []string{`"codecs": ["bytes"]`, `"index_codecs": ["bytes", "crc32c"]`} {
		if name, _, _ := strings.Cut(m, ":"); !strings.Contains(more, name+":") {
			conf += ", " + m
		}
	}
	if more != "" {
		conf += ", " + more
	}
	return `"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": ` + size + `}}, "codecs": [{"name": "sharding_indexed", "configuration": {` + conf + `}}]`
}

// hostileV3 lists damaged or malicious arrays named v. doc is the zarr.json, and objects
// are other objects of the store by key. says is part of the error, which must be in one
// line and contain the key.
func hostileV3() map[string]struct {
	doc     string
	objects map[string]string
	opens   bool // the variable can be opened, and the error is that of reading it
	kind    ncerr.Kind
	says    string
} {
	const unset, big = math.MaxUint64, `[{"name": "bytes", "configuration": {"endian": "little"}}]`
	type hostile = struct {
		doc     string
		objects map[string]string
		opens   bool
		kind    ncerr.Kind
		says    string
	}
	bad := func(members string, kind ncerr.Kind, says string) hostile {
		return hostile{v3Array(members), nil, false, kind, says}
	}
	chunks := func(members string, kind ncerr.Kind, says string, objects ...string) hostile {
		c := hostile{v3Array(members), make(map[string]string), true, kind, says}
		for i := 0; i < len(objects); i += 2 {
			c.objects[objects[i]] = objects[i+1]
		}
		return c
	}
	shard := func(content string, kind ncerr.Kind, says string) hostile {
		return chunks(sharded("[4]", "[2]", ""), kind, says, "v/c/0", content)
	}
	deep := `["bytes"]`
	for range 30 {
		deep = `[{"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "index_codecs": ["bytes"], "codecs": ` + deep + `}}]`
	}
	return map[string]hostile{
		// documents
		"not JSON":                    {`{"zarr_format": 3, `, nil, false, ncerr.ErrNotZarr, "not JSON"},
		"empty document":              {"", nil, false, ncerr.ErrNotZarr, "not JSON"},
		"zeros":                       {strings.Repeat("\x00", 1<<16), nil, false, ncerr.ErrNotZarr, "not JSON"},
		"a list":                      {"[]", nil, false, ncerr.ErrNotZarr, "expected a JSON object"},
		"a million brackets":          {`{"zarr_format": 3, "node_type": "array", "attributes": ` + strings.Repeat("[", 1<<20), nil, false, ncerr.ErrNotZarr, "nested deeper"},
		"wrong version":               {strings.Replace(v3Array(""), `"zarr_format": 3`, `"zarr_format": 4`, 1), nil, false, ncerr.ErrMetadata, "zarr_format: expected 3, found 4"},
		"version as text":             {strings.Replace(v3Array(""), `"zarr_format": 3`, `"zarr_format": "3"`, 1), nil, false, ncerr.ErrMetadata, "zarr_format"},
		"no shape":                    {strings.Replace(v3Array(""), `"shape": [6], `, ``, 1), nil, false, ncerr.ErrMetadata, "shape: the member is missing"},
		"no fill value":               {strings.Replace(v3Array(""), `"fill_value": 9, `, ``, 1), nil, false, ncerr.ErrMetadata, "fill_value"},
		"duplicate shape":             bad(`"shape": [3, 3]`, ncerr.ErrBadChunk, "chunk_shape has 1 dimensions, but shape has 2"),
		"duplicate data type":         bad(`"data_type": "uint8", "data_type": "int256"`, ncerr.ErrUnsupported, `"int256"`),
		"unknown member":              bad(`"thing": 1`, ncerr.ErrUnsupported, `"thing"`),
		"unknown member, must":        bad(`"thing": {"must_understand": true}`, ncerr.ErrUnsupported, `"thing"`),
		"unknown member, wrong type":  bad(`"thing": {"must_understand": "false"}`, ncerr.ErrUnsupported, `"thing"`),
		"must_understand of a type":   bad(`"data_type": {"name": "uint8", "must_understand": false}`, ncerr.ErrMetadata, "must_understand is not allowed"),
		"must_understand of a grid":   bad(`"chunk_grid": {"name": "regular", "must_understand": false, "configuration": {"chunk_shape": [2]}}`, ncerr.ErrMetadata, "must_understand is not allowed"),
		"must_understand of keys":     bad(`"chunk_key_encoding": {"name": "v2", "must_understand": false}`, ncerr.ErrMetadata, "must_understand is not allowed"),
		"storage transformer":         bad(`"storage_transformers": [{"name": "x", "must_understand": false}]`, ncerr.ErrUnsupported, "storage_transformers"),
		"unknown grid":                bad(`"chunk_grid": {"name": "hexagonal"}`, ncerr.ErrUnsupported, `"hexagonal"`),
		"unknown codec":               {v3Array(`"codecs": [{"name": "bytes"}, {"name": "x.y"}]`), nil, true, ncerr.ErrNoFilter, `"x.y"`},
		"unknown keys":                bad(`"chunk_key_encoding": {"name": "hash"}`, ncerr.ErrUnsupported, `"hash"`),
		"fill value too large":        bad(`"fill_value": 256`, ncerr.ErrMetadata, "fill_value"),
		"fill value negative":         bad(`"fill_value": -1`, ncerr.ErrMetadata, "fill_value"),
		"fill value of another type":  bad(`"fill_value": {}`, ncerr.ErrMetadata, "fill_value"),
		"fill value of many digits":   bad(`"fill_value": 1`+strings.Repeat("0", 1<<16), ncerr.ErrMetadata, "fill_value"),
		"fill value of too many bits": bad(`"data_type": "float32", "codecs": `+big+`, "fill_value": "0x7fc0000000"`, ncerr.ErrMetadata, "fill_value"),
		"codecs as an object":         bad(`"codecs": {"name": "bytes"}`, ncerr.ErrMetadata, "codecs: expected an array"),
		"configuration as a list":     bad(`"codecs": [{"name": "bytes", "configuration": []}]`, ncerr.ErrMetadata, `configuration of "bytes"`),
		"codec without a name":        bad(`"codecs": [{"configuration": {}}]`, ncerr.ErrMetadata, "expected an object with a name"),
		"two array-to-bytes codecs":   bad(`"codecs": [{"name": "bytes"}, {"name": "bytes"}]`, ncerr.ErrMetadata, "second array-to-bytes codec"),
		"no array-to-bytes codec":     bad(`"codecs": [{"name": "gzip", "configuration": {"level": 1}}]`, ncerr.ErrMetadata, "missing array-to-bytes codec"),
		"thousand codecs":             bad(`"codecs": [{"name": "bytes"}`+strings.Repeat(`, {"name": "crc32c"}`, 1000)+`]`, ncerr.ErrLimit, "codecs"),
		"level as text":               {v3Array(`"codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": "x"}}]`), nil, true, ncerr.ErrMetadata, "gzip"},
		"typesize out of range":       {v3Array(`"codecs": [{"name": "bytes"}, {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 99, "shuffle": "shuffle", "typesize": -5, "blocksize": -1}}]`), nil, true, ncerr.ErrMetadata, "blosc"},
		"permutation":                 bad(`"codecs": [{"name": "transpose", "configuration": {"order": [1]}}, {"name": "bytes"}]`, ncerr.ErrMetadata, "not a permutation"),
		"dimension names":             bad(`"dimension_names": {"x": 1}`, ncerr.ErrMetadata, "dimension_names"),
		"attributes":                  bad(`"attributes": 1`, ncerr.ErrMetadata, "attributes: expected an object"),
		"string length":               bad(`"data_type": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 1099511627776}}, "fill_value": ""`, ncerr.ErrMetadata, "length_bytes"),
		"zero string length":          bad(`"data_type": {"name": "raw_bytes", "configuration": {"length_bytes": 0}}, "fill_value": ""`, ncerr.ErrMetadata, "length_bytes"),
		"duplicate field":             bad(`"data_type": {"name": "struct", "configuration": {"fields": [`+strings.Repeat(`{"name": "a", "data_type": {"name": "raw_bytes", "configuration": {"length_bytes": 16777216}}}, `, 5)+`{"name": "b", "data_type": "uint8"}]}}`, ncerr.ErrMetadata, `duplicate field "a"`),

		// shapes and grids
		"shape beyond 63 bits":         {strings.Replace(v3Array(""), `[6]`, `[9223372036854775808]`, 1), nil, false, ncerr.ErrMetadata, "shape"},
		"product beyond 63 bits":       {strings.NewReplacer(`"shape": [6]`, `"shape": [4294967296, 4294967296]`, `"chunk_shape": [2]`, `"chunk_shape": [1, 1]`).Replace(v3Array("")), nil, false, ncerr.ErrLimit, "size"},
		"chunk of an exabyte":          bad(`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1152921504606846976]}}`, ncerr.ErrLimit, "chunk"),
		"zero chunk":                   bad(`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0]}}`, ncerr.ErrBadChunk, "dimension 0 is 0"),
		"negative chunk":               bad(`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [-2]}}`, ncerr.ErrMetadata, "chunk_shape"),
		"chunk of a fraction":          bad(`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1.5]}}`, ncerr.ErrMetadata, "chunk_shape"),
		"rank of a thousand":           {strings.NewReplacer(`"shape": [6]`, `"shape": `+rank(1000, "1"), `"chunk_shape": [2]`, `"chunk_shape": `+rank(1000, "1")).Replace(v3Array("")), nil, false, ncerr.ErrLimit, "dimensions"},
		"rectilinear, too short":       bad(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2, 3]]}}`, ncerr.ErrBadChunk, "add up to 5, but shape has 6"),
		"rectilinear, zero":            bad(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[6, 0]]}}`, ncerr.ErrBadChunk, "expected an integer from 1"),
		"rectilinear, overflow":        bad(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[9223372036854775807, 9223372036854775807]]]}}`, ncerr.ErrLimit, "add up to more"),
		"rectilinear, no kind":         bad(`"chunk_grid": {"name": "rectilinear", "configuration": {"chunk_shapes": [6]}}`, ncerr.ErrMetadata, "kind: expected"),
		"rectilinear, many run counts": bad(`"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[6, 1], [1, 9223372036854775807]]]}}`, ncerr.ErrLimit, "add up to more"),

		// shards
		"inner shape does not divide": bad(sharded("[4]", "[3]", ""), ncerr.ErrBadChunk, "inner chunk shape [3] does not divide shard shape [4]"),
		"inner shape of zero":         bad(sharded("[4]", "[0]", ""), ncerr.ErrBadChunk, "dimension 0 is 0"),
		"inner shape of another rank": bad(sharded("[4]", "[2, 2]", ""), ncerr.ErrBadChunk, "chunk_shape has 2 dimensions"),
		"inner shape larger":          bad(sharded("[4]", "[8]", ""), ncerr.ErrBadChunk, "does not divide"),
		"inner codecs missing":        bad(sharded("[4]", "[2]", `"codecs": []`), ncerr.ErrMetadata, "codecs: expected an array of codecs"),
		"two inner codecs":            bad(sharded("[4]", "[2]", `"codecs": ["bytes", "bytes"]`), ncerr.ErrMetadata, "second array-to-bytes codec"),
		"index codec of varying size": bad(sharded("[4]", "[2]", `"index_codecs": ["bytes", "gzip"]`), ncerr.ErrUnsupported, `"gzip" for the index`),
		"index codecs missing":        bad(sharded("[4]", "[2]", `"index_codecs": 7`), ncerr.ErrMetadata, "index_codecs: expected an array"),
		"index location":              bad(sharded("[4]", "[2]", `"index_location": 1`), ncerr.ErrMetadata, "index_location"),
		"shards nested 30 times":      bad(`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "codecs": `+deep, ncerr.ErrNotZarr, "nested deeper"),
		"index of terabytes":          {strings.Replace(v3Array(sharded("[1099511627776]", "[1]", "")), `[6]`, `[1099511627776]`, 1), map[string]string{"v/c/0": "x"}, false, ncerr.ErrLimit, "the index of a shard"},
		"shorter than the index":      shard("abc", ncerr.ErrCorrupt, "the shard has 3 bytes"),
		"empty shard":                 shard("", ncerr.ErrCorrupt, "the shard has 0 bytes"),
		"checksum":                    shard(v3Shard("ab", "cd")[:38]+"xx", ncerr.ErrCorrupt, "checksum"),
		"nbytes 0":                    shard(rawShard("abcd", 0, 0, 2, 2), ncerr.ErrCorrupt, "0"),
		"chunk too short":             shard(rawShard("abcd", 0, 1, 2, 2), ncerr.ErrCorrupt, "1"),
		"chunk too long":              shard(rawShard("abcd", 0, 4, 2, 2), ncerr.ErrCorrupt, "exceeds the maximum of 2 bytes"),
		"offset beyond the shard":     shard(rawShard("abcd", 1<<40, 2, 2, 2), ncerr.ErrCorrupt, "shard"),
		"overflow":                    shard(rawShard("abcd", math.MaxUint64-1, 2, 2, 2), ncerr.ErrCorrupt, "shard"),
		"length of 2^63":              shard(rawShard("abcd", 0, 1<<63, 2, 2), ncerr.ErrCorrupt, "shard"),
		"offset unset":                shard(rawShard("abcd", unset, 2, 2, 2), ncerr.ErrCorrupt, "index"),
		"length unset":                shard(rawShard("abcd", 0, unset, 2, 2), ncerr.ErrCorrupt, "index"),
		"inner codec fails":           chunks(sharded("[4]", "[2]", `"codecs": ["bytes", {"name": "gzip", "configuration": {"level": 1}}]`), ncerr.ErrCorrupt, "gzip", "v/c/0", v3Shard("ab", "cd")),
		"wrapped shard":               chunks(strings.TrimSuffix(sharded("[4]", "[2]", ""), "]")+`, {"name": "zstd", "configuration": {"level": 1}}]`, ncerr.ErrCorrupt, "zstd", "v/c/0", "abcd"),
		"raw chunk of another size":   chunks("", ncerr.ErrCorrupt, "exceeds the maximum of 2 bytes", "v/c/0", "abc"),
		"empty raw chunk":             chunks("", ncerr.ErrCorrupt, "0 bytes", "v/c/1", ""),
	}
}

// TestHostileV3 opens damaged and malicious stores of Zarr v3. Each has an error in one
// line that contains the key and the reason. The other variable stays readable, and memory
// is bounded.
func TestHostileV3(t *testing.T) { //nolint:paralleltest // it measures memory
	const most = 48 << 20
	for name, c := range hostileV3() { //nolint:paralleltest // it measures memory
		t.Run(name, func(t *testing.T) {
			o := inMemory(filters.Provider())
			objects := map[string]string{"zarr.json": v3Group, "ok/zarr.json": v3Array(""), "ok/c/0": "\x01\x02", "v/zarr.json": c.doc}
			maps.Copy(objects, c.objects)
			store(t, o, "h3", objects)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := readHostile(t, o, c.opens)
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > most {
				t.Errorf("reading takes %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
			}
			if ncerr.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "/v") && c.kind != ncerr.ErrNoFilter { // the key of a missing filter is the codec
				t.Fatalf("want %v with %q and the key, got %v", c.kind, c.says, err)
			}
			if text := err.Error(); strings.ContainsAny(text, "\n\x00") || len(text) > 1000 {
				t.Errorf("the message is not one short line: %.2000q", text)
			}
		})
	}
}

// readHostile opens the store h3 and returns the error about its variable v. It checks
// that v is a Problem unless opens is set, and that the variable ok can be read.
func readHostile(t *testing.T, o *dataset.Options, opens bool) error {
	t.Helper()
	ds := open(t, "mem:h3", o)
	if got := readBytes(t, variable(t, ds, "ok")); got != "[1 2 9 9 9 9]" {
		t.Errorf("want [1 2 9 9 9 9], got %s", got)
	}
	if len(ds.Problems()) > 0 == opens {
		t.Fatalf("want a variable that opens: %v, got problems %v", opens, ds.Problems())
	}
	if !opens {
		return ds.Problems()[0].Err
	}
	v := variable(t, ds, "v")
	sel := v.All()
	for d := range sel.Count {
		sel.Count[d] = min(sel.Count[d], 6)
	}
	return v.Read(t.Context(), sel, dtype.MakeSlice(v.Type(), int(sel.Len())))
}

// TestHostileInlineMetadata opens stores whose consolidated metadata disagrees with their
// documents or is malicious. The documents are read, and never those outside the store.
func TestHostileInlineMetadata(t *testing.T) {
	t.Parallel()
	array := v3Array("")
	inline := func(members string) string {
		return strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": {"kind": "inline", "must_understand": false, ` + members + `}}`
	}
	for name, root := range map[string]string{
		"absent node":        inline(`"metadata": {"v": ` + array + `, "gone": ` + array + `}`),
		"another shape":      inline(`"metadata": {"v": ` + strings.Replace(array, "[6]", "[600]", 1) + `}`),
		"a group":            inline(`"metadata": {"v": ` + v3Group + `}`),
		"above the store":    inline(`"metadata": {"../x": ` + array + `, "v": ` + array + `}`),
		"absolute":           inline(`"metadata": {"/etc/passwd": ` + array + `, "v": ` + array + `}`),
		"dots":               inline(`"metadata": {"v/../../x": ` + array + `, ".": ` + array + `, "..": ` + array + `}`),
		"empty names":        inline(`"metadata": {"": ` + array + `, "/": ` + array + `, "v//v": ` + array + `}`),
		"own documents":      inline(`"metadata": {"zarr.json": ` + array + `, "v/zarr.json": ` + array + `}`),
		"duplicate names":    inline(`"metadata": {"v": ` + array + `, "v": ` + v3Group + `}`),
		"below an array":     inline(`"metadata": {"v": ` + array + `, "v/w": ` + array + `}`),
		"not an object":      inline(`"metadata": []`),
		"nodes as text":      inline(`"metadata": {"v": "` + "x" + `"}`),
		"unknown kind":       strings.Replace(inline(`"metadata": {}`), `"inline"`, `"remote"`, 1),
		"control characters": inline(`"metadata": {"v\u0000": ` + array + `, "a\nb": ` + array + `}`),
		"a thousand levels":  inline(`"metadata": {"` + strings.Repeat("a/", 1000) + `a": ` + array + `}`),
		"consolidated again": inline(`"metadata": {"g": ` + inline(`"metadata": {"../../v": `+array+`}`) + `}`),
	} {
		for _, use := range []dataset.ConsolidatedUse{dataset.ConsolidatedAuto, dataset.ConsolidatedTrust, dataset.ConsolidatedVerify, dataset.ConsolidatedIgnore} {
			t.Run(fmt.Sprintf("%s %v", name, use), func(t *testing.T) {
				t.Parallel()
				o := inMemory(filters.Provider())
				o.UseConsolidated = use
				at := fmt.Sprintf("hi%s%v", strings.ReplaceAll(name, " ", ""), use)
				store(t, o, at, map[string]string{"zarr.json": root, "v/zarr.json": array, "v/c/0": "\x01\x02"})
				store(t, o, "x", map[string]string{"zarr.json": v3Array(`"attributes": {"secret": 1}`)})
				ds, err := openURL(t.Context(), "mem:"+at, o)
				if err != nil { // the root itself may be refused
					if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "zarr.json") && !strings.Contains(text, at) {
						t.Errorf("want one line with the key, got %q", text)
					}
					return
				}
				defer closeDataset(t, ds)
				for _, v := range ds.Root().Vars() {
					if v.Name() != "v" && v.Name() != "gone" {
						t.Errorf("unexpected variable %q", v.Path())
					}
				}
				if v, err := ds.Root().Var("v"); err == nil && v.Shape()[0] == 6 {
					if got := readBytes(t, v); got != "[1 2 9 9 9 9]" {
						t.Errorf("want [1 2 9 9 9 9], got %s", got)
					}
				} else if use == dataset.ConsolidatedIgnore || use == dataset.ConsolidatedAuto {
					t.Errorf("the variable v is missing: %v", ds.Problems())
				}
			})
		}
	}
}
