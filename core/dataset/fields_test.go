package dataset_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// structs returns a store with complex numbers and with a structure of ten fields, three
// of them unreadable, in C and in F order.
func structs() map[string]string {
	const fields = `[["i", "<i2"], ["f", ">f4"], ["s", "|S3"], ["u", "<U1"], ["b", "|b1"], ["t", "<M8[s]"], ["in", [["x", "<i4"]]], ["sub", "<i2", [2]], ["raw", "|V2"], ["c", "|S1"]]`
	record := func(n byte) string {
		return string([]byte{n, 0}) + "\x3f\x80\x00" + string([]byte{n}) + "ab\x00" + string([]byte{'0' + n, 0, 0, 0}) + string([]byte{n & 1}) +
			string([]byte{n, 0, 0, 0, 0, 0, 0, 0}) + "....____~~" + string([]byte{'a' + n})
	}
	shape := func(doc string) string { return strings.ReplaceAll(doc, "[2], \"", "[2, 2], \"") }
	return map[string]string{
		".zgroup":         `{"zarr_format": 2}`,
		"s/.zarray":       shape(strings.Replace(document("X", "null", "C", "null"), `"X"`, fields, 1)),
		"s/.zattrs":       `{"units": "m", "_FillValue": "AAAA", "_ARRAY_DIMENSIONS": ["y", "x"]}`,
		"s/0.0":           record(0) + record(1) + record(2) + record(3),
		"sf/.zarray":      shape(strings.Replace(document("X", "null", "F", `[{"id": "invert"}]`), `"X"`, fields, 1)),
		"sf/0.0":          inverted(record(0) + record(1) + record(2) + record(3)),
		"z/.zarray":       document(">c8", `["NaN", -1.5]`, "C", "null"),
		"fill/.zarray":    strings.Replace(document("X", `"AQACAw=="`, "C", "null"), `"X"`, `[["a", "<i2"], ["b", "|u1"], ["c", "|i1"]]`, 1),
		"clash/.zarray":   strings.Replace(document("X", "null", "C", "null"), `"X"`, `[["a", "<i2"]]`, 1),
		"clash.a/.zarray": document("<i4", "7", "C", "null"),
	}
}

func inverted(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = ^b[i]
	}
	return "\x5a" + string(b)
}

// Every field is a variable with the dimensions and attributes of its array. Unreadable
// fields are reported by name, and the others remain usable.
func TestFields(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	store(t, o, "s", structs())
	ds := open(t, "mem:s#mode=zarr", o)
	expect(t, ds, "s.i", []int16{0, 1, 2, 3})
	expect(t, ds, "sf.i", []int16{0, 2, 1, 3})
	expect(t, ds, "s.s", []string{"ab", "ab", "ab", "ab"})
	expect(t, ds, "s.u", []string{"0", "1", "2", "3"})
	expect(t, ds, "s.b", []uint8{0, 1, 0, 1})
	expect(t, ds, "sf.t", []int64{0, 2, 1, 3})
	expect(t, ds, "s.c", []uint8("abcd"))
	expect(t, ds, "s.f", []float32{1, 1.0000001, 1.0000002, 1.0000004})
	expect(t, ds, "z.imag", []float32{-1.5, -1.5})
	expect(t, ds, "fill.a", []int16{1, 1})
	expect(t, ds, "fill.b", []uint8{2, 2})
	expect(t, ds, "fill.c", []int8{3, 3})
	if v := variable(t, ds, "s.i"); attr(t, v.Attrs(), "units") != "m" || v.Dims()[1].Name() != "x" || len(v.Attrs()) != 1 {
		t.Errorf("want units m and dimension x, got attributes %v, dimensions %v", v.Attrs(), v.Dims())
	}
	reasons := map[string]string{
		"/s.in": "structured", "/s.sub": "array of shape [2]", "/s.raw": "no type", "/sf.in": "structured", "/sf.sub": "array of shape [2]", "/sf.raw": "no type",
		"/clash.a": "two variables",
	}
	for _, p := range ds.Problems() {
		if why := reasons[p.Path]; why == "" || !strings.Contains(p.Err.Error(), why) {
			t.Errorf("%s: unexpected problem %v", p.Path, p.Err)
		}
		delete(reasons, p.Path)
	}
	if len(reasons) > 0 {
		t.Errorf("missing problems of %v", slices.Collect(maps.Keys(reasons)))
	}
}

// Fields are read-only. Metadata changes preserve the array, and a copy has one
// variable per field.
func TestFieldsAreKept(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	objects := structs()
	store(t, o, "s", objects)
	ds := update(t, "mem:s#mode=zarr", o)
	v := variable(t, ds, "s.i")
	if err := v.Write(t.Context(), v.All(), make([]int16, 4)); !errors.Is(err, ncerr.ErrUnsupported) || !strings.Contains(err.Error(), `array "s"`) {
		t.Errorf("write: want ErrUnsupported, got %v", err)
	}
	if err := v.SetAttr(dataset.Attr{Name: "a", Type: dtype.NCChar, Value: "b"}); !errors.Is(err, ncerr.ErrUnsupported) {
		t.Errorf("set attribute: want ErrUnsupported, got %v", err)
	}
	if _, err := ds.Root().DefineVar(t.Context(), "s", &dataset.VarSpec{Type: dtype.NCInt}); !errors.Is(err, ncerr.ErrNameInUse) {
		t.Errorf("define a variable with the name of the array: want ErrNameInUse, got %v", err)
	}
	if err := ds.Root().SetAttr(dataset.Attr{Name: "title", Type: dtype.NCChar, Value: "x"}); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	for _, key := range []string{"s/.zarray", "s/.zattrs", "s/0.0"} {
		if got := object(t, o, "s", key); got != objects[key] {
			t.Errorf("%s was changed: %s", key, got)
		}
	}
	src := open(t, "mem:s#mode=zarr", o)
	for _, mode := range []string{"zarr", "nczarr"} {
		dst := copyOf(t, src, "mem:copy-"+mode+"#mode="+mode, o, nil)
		expect(t, dst, "sf.i", []int16{0, 2, 1, 3})
		expect(t, dst, "s.t", []int64{0, 1, 2, 3})
		expect(t, dst, "z.imag", []float32{-1.5, -1.5})
	}
}

// structsV3 returns a store of Zarr v3 with structures. The chunk of s and its metadata
// are those that zarr-python 3.4.2 wrote for the values in TestFieldsV3.
func structsV3() map[string]string {
	const fields = `{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "float64"},
		{"name": "c", "data_type": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}}, {"name": "d", "data_type": "bool"},
		{"name": "n", "data_type": {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": "uint16"}, {"name": "y", "data_type": "float32"}]}}},
		{"name": "u", "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}},
		{"name": "t", "data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}}`
	array := func(name, fields, fill, endian string) string {
		return `{"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": {"name": "` + name + `", "configuration": {"fields": [` + fields + `]}}, "fill_value": ` + fill + `,
			"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"` + endian + `}],
			"dimension_names": ["x"], "attributes": {"units": "m", "_FillValue": "AAAA"}}`
	}
	const little, big = `, "configuration": {"endian": "little"}`, `, "configuration": {"endian": "big"}`
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	return map[string]string{
		"zarr.json":   v3Group,
		"s/zarr.json": array("struct", fields, `{"a": 9, "b": "NaN", "c": "eA==", "d": true, "n": {"x": 0, "y": 0.0}, "u": "z", "t": "NaT"}`, little),
		"s/c/0": "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf8?abc\x00\x07\x00" + zeros(4+8+8) +
			"\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04@d\x00\x00\x00\x08\x00" + zeros(4+8+8),
		"big/zarr.json":   array("struct", `{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "float64"}`, `{"a": 5, "b": 2.5}`, big),
		"big/c/0":         "\x00\x00\x00\x01" + zeros(8) + "\x00\x00\x00\x02" + zeros(8),
		"old/zarr.json":   array("structured", `["a", "int16"], ["b", "uint8"]`, `"BQAH"`, ""),
		"old/c/0":         "\x01\x02\x03\x04\x05\x06",
		"float/zarr.json": array("struct", `{"name": "a", "data_type": "bfloat16"}`, `{"a": 0}`, little),
	}
}

// TestFieldsV3 checks that structures of Zarr v3 are read like those of Zarr v2, can be
// copied, and stay as they are when their dataset is updated.
func TestFieldsV3(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	objects := structsV3()
	store(t, o, "s", objects)
	src := open(t, "mem:s", o)
	check := func(ds *dataset.Dataset) {
		t.Helper()
		expect(t, ds, "s.a", []int32{1, 2, 9})
		expect(t, ds, "s.c", []string{"abc", "d", "x"})
		expect(t, ds, "s.u", []string{"", "", "z"})
		expect(t, ds, "s.t", []int64{0, 0, -1 << 63})
		expect(t, ds, "big.a", []int32{1, 2, 5})
		expect(t, ds, "big.b", []float64{0, 0, 2.5})
		expect(t, ds, "old.a", []int16{0x201, 0x504, 5})
		expect(t, ds, "old.b", []uint8{3, 6, 7})
		if v := variable(t, ds, "s.a"); attr(t, v.Attrs(), "units") != "m" || v.Dims()[0].Name() != "x" {
			t.Errorf("want units m and dimension x, got attributes %v, dimensions %v", v.Attrs(), v.Dims())
		}
	}
	check(src)
	expect(t, src, "s.d", []uint8{0, 0, 1})
	for path, why := range map[string]string{"/s.n": "itself structured", "/float": `"bfloat16"`} {
		if !slices.ContainsFunc(src.Problems(), func(p dataset.Problem) bool { return p.Path == path && strings.Contains(p.Err.Error(), why) }) {
			t.Errorf("want a problem of %s with %q, got %v", path, why, src.Problems())
		}
	}
	for _, mode := range []string{"v3", "nczarr,v3", "v2", "nczarr"} {
		check(copyOf(t, src, "mem:copy-"+strings.ReplaceAll(mode, ",", "-")+"#mode="+mode, o, nil))
	}
	ds := update(t, "mem:s", o)
	v := variable(t, ds, "s.a")
	if err := v.Write(t.Context(), v.All(), make([]int32, 3)); !errors.Is(err, ncerr.ErrUnsupported) || !strings.Contains(err.Error(), `array "s"`) {
		t.Errorf("write: want ErrUnsupported, got %v", err)
	}
	if err := ds.Root().SetAttr(dataset.Attr{Name: "title", Type: dtype.NCChar, Value: "x"}); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	for _, key := range []string{"s/zarr.json", "s/c/0", "old/zarr.json"} {
		if got := object(t, o, "s", key); got != objects[key] {
			t.Errorf("%s was changed: %s", key, got)
		}
	}
}
