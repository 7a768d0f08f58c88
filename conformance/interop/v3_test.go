package interop_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	drivers "github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// TestWriteV3 copies random arrays of zarr-python, of Zarr v2 and v3, to Zarr v3.
// zarr-python must read the same from the copies, and tensorstore must read equal
// values from the arrays that it supports. The arrays must still be equal after copying
// them back to Zarr v2.
func TestWriteV3(t *testing.T) {
	t.Parallel()
	need(t, append(packages["zarr"], "tensorstore")...)
	first := testseed.New(t)
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			src, dst, back := filepath.Join(dir, "src.zarr"), filepath.Join(dir, "dst.zarr"), filepath.Join(dir, "back.zarr")
			seed := strconv.FormatUint(first+uint64(i), 10)
			read := []string{"--with", "zarr", src}
			if i == 0 {
				must(t, "write_v3.py", "--seed", seed, src)
				read = append(read, "--v3")
			} else {
				must(t, "write.py", "--with", "zarr", "--case", "random", "--seed", seed, src)
			}
			want := must(t, "read.py", read...)
			ctl(t, append([]string{"copy", src, "file://" + dst + "#mode=zarr,v3"}, [][]string{nil, {"--codec", "gzip:level=1"}, {"--codec", "shuffle,zstd:level=2", "--consolidated"}}[i]...)...)
			least := map[string]int{"zarr": 60, "tensorstore": []int{10, 25, 0}[i]} // tensorstore supports none of numcodecs' codecs
			for reader, least := range least {
				args := []string{"--with", reader, "--v3", dst}
				if i == 2 && reader == "zarr" {
					args = append(args, "--consolidated")
				}
				got, err := tool(t, "read.py", args...)
				if err != nil {
					t.Errorf("%s: %v", reader, err)
					continue
				}
				equals := 0
				for _, r := range classify(t, want, got) {
					switch {
					case r.outcome == equal:
						equals++
					case r.outcome == wrong || reader == "zarr":
						t.Errorf("%s: %s: %v %s", reader, r.variable, r.outcome, r.why)
					}
				}
				if equals < least {
					t.Errorf("%s reads %d arrays", reader, equals)
				}
			}
			ctl(t, "copy", dst, "file://"+back+"#mode=zarr")
			same(t, encode(t, describe(t, src, false)), encode(t, describe(t, back, false)), "type,chunks,dims,fill")
			same(t, encode(t, describe(t, dst, false)), encode(t, describe(t, back, false)), "type,chunks,dims")
		})
	}
}

// TestEveryCodecInV3 copies one array per codec and per type to Zarr v3. zarr-python
// and xarray must read all of them, and tensorstore those that it supports.
func TestEveryCodecInV3(t *testing.T) {
	t.Parallel()
	need(t, append(packages["xarray"], "tensorstore", "numcodecs")...)
	for sample, readers := range map[string]string{"types": "zarr xarray tensorstore", "layout": "zarr tensorstore", "codecs": "zarr xarray tensorstore"} {
		t.Run(sample, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src.zarr"), filepath.Join(dir, "dst.zarr")
			want := must(t, "write.py", "--with", "zarr", "--case", sample, src)
			ctl(t, "copy", src, "file://"+dst+"#mode=v3")
			for reader := range strings.FieldsSeq(readers) {
				for _, r := range classify(t, want, must(t, "read.py", "--with", reader, "--v3", dst)) {
					if r.outcome == wrong || r.outcome != equal && reader != "tensorstore" {
						t.Errorf("%s: %s: %v %s", reader, r.variable, r.outcome, r.why)
					}
				}
			}
		})
	}
}

// TestMaskedV3 checks that xarray masks values with the _FillValue that nczctl writes
// when it copies a dataset to Zarr v3, with and without consolidated metadata.
func TestMaskedV3(t *testing.T) {
	t.Parallel()
	need(t, packages["xarray"]...)
	dir := t.TempDir()
	o := nczarr.Options{Registry: nczarr.NewRegistry(drivers.New(), filters.Provider())}
	src := filepath.Join(dir, "src.zarr")
	ds, err := nczarr.Create(t.Context(), src, &nczarr.CreateOptions{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	x, err := ds.Root().DefineDim("x", 4, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		value any
		fill  any
		nc    dtype.NC
	}{
		"float": {[]float32{1, -9999, 2, -9999}, []float32{-9999}, dtype.NCFloat}, "double": {[]float64{1, 1e20, 2, 3}, []float64{1e20}, dtype.NCDouble},
		"short": {[]int16{1, -32767, 2, 3}, []int16{-32767}, dtype.NCShort}, "int": {[]int32{1, 2, 3, 4}, []int32{-1}, dtype.NCInt},
		"char": {[]uint8("ab c"), " ", dtype.NCChar}, "string": {[]string{"a", "", "c", "-"}, []string{"-"}, dtype.NCString},
		"ubyte": {[]uint8{1, 255, 3, 4}, []uint8{255}, dtype.NCUByte},
	} {
		v, err := ds.Root().DefineVar(t.Context(), name, &nczarr.VarSpec{Type: c.nc, Dims: []*nczarr.Dim{x}, Attrs: []nczarr.Attr{{Name: "_FillValue", Type: c.nc, Value: c.fill}}})
		if err == nil {
			err = v.Write(t.Context(), v.All(), c.value)
		}
		if err != nil {
			t.Fatal(name, err)
		}
	}
	if _, err := ds.Root().DefineVar(t.Context(), "scalar", &nczarr.VarSpec{Type: dtype.NCFloat}); err != nil {
		t.Fatal(err)
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{{}, {"--consolidated"}} {
		dst := filepath.Join(dir, strconv.Itoa(i))
		ctl(t, append(append([]string{"copy"}, args...), src, dst+"#mode=zarr,v3")...)
		var got struct{ Variables, Masked int }
		if err := json.Unmarshal(must(t, "masked_v3.py", append(args, dst)...), &got); err != nil || got.Variables != 8 || got.Masked != 4 {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
}

// TestUpdateV3 updates a store of zarr-python, partly sharded, with nczarr and with
// zarr-python in turn. Each must read what the other wrote.
func TestUpdateV3(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	path := filepath.Join(t.TempDir(), "x.zarr")
	must(t, "write_v3.py", "--seed", "7", "--count", "40", "--consolidated", path)
	o := nczarr.Options{Registry: nczarr.NewRegistry(drivers.New(), filters.Provider()), Update: true}
	ds, err := nczarr.Open(t.Context(), path, &o)
	if err != nil {
		t.Fatal(err)
	}
	written, shards := 0, 0
	for _, v := range ds.Root().Vars() {
		if err := v.SetAttr(nczarr.Attr{Name: "set", Type: dtype.NCInt, Value: []int32{1}}); err != nil {
			t.Fatal(v.Path(), err)
		}
		values := v.NewSlice(v.All().Len())
		if err := v.Read(t.Context(), v.All(), values); err != nil {
			t.Fatal(v.Path(), err)
		}
		err := v.Write(t.Context(), v.All(), values)
		switch {
		case v.Shards() != nil && errors.Is(err, ncerr.ErrUnsupported):
			shards++
		case err != nil:
			t.Fatal(v.Path(), err)
		default:
			written++
		}
	}
	g, err := ds.Root().DefineGroup("ours")
	if err != nil {
		t.Fatal(err)
	}
	k, err := g.DefineDim("k", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	v, err := g.DefineVar(t.Context(), "v", &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{k}, Chunks: []int64{2}})
	if err == nil {
		err = v.Write(t.Context(), v.All(), []int32{})
	}
	for i := range int64(3) {
		if err == nil {
			sel := v.All()
			sel.Start[0], sel.Count[0] = i, 1
			err = v.Write(t.Context(), sel, []int32{int32(i)})
		}
		if err == nil {
			err = ds.Flush(t.Context())
		}
	}
	if cerr := ds.Close(t.Context()); err == nil {
		err = cerr
	}
	if err != nil || written < 5 || shards < 5 {
		t.Fatalf("%d written, %d in shards, %v", written, shards, err)
	}
	ctl(t, "consolidate", "--check", path)
	const ignored = "type,chunks,fill,dims"
	ours, halves := describeV3(t, path)
	same(t, ours, must(t, "read.py", "--with", "zarr", "--v3", path), ignored, halves...)
	same(t, ours, must(t, "read.py", "--with", "zarr", "--v3", "--consolidated", path), ignored, halves...)
	theirs := must(t, "change_v3.py", path)
	ours, _ = describeV3(t, path)
	same(t, theirs, ours, ignored, halves...)
}

// describeV3 is describe without the attributes that describe times, which are not in
// the store. It also returns the prefixes of the expected differences for half floats,
// which nczarr reads as float.
func describeV3(t *testing.T, path string) (doc []byte, halves []string) {
	t.Helper()
	got := describe(t, path, false)
	for name, v := range got.Variables {
		for _, attr := range []string{"units", "calendar", "scale_factor", "_FillValue"} {
			if strings.HasSuffix(strings.ToLower(name), "_m8") {
				delete(v.Attrs, attr)
			}
		}
		if strings.HasSuffix(name, "_f2") {
			halves = append(halves, name+": sha256")
		}
	}
	return encode(t, got), halves
}
