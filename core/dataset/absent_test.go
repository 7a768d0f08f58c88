package dataset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// keys returns the keys of a store in memory that begin with prefix.
func keys(t *testing.T, o *dataset.Options, name, prefix string) []string {
	t.Helper()
	opener, err := o.Registry.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: name, Mode: driver.Read})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for e, err := range m.List(t.Context(), prefix, &driver.ListOptions{Recursive: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimPrefix(e.Key, prefix); !strings.HasPrefix(name, ".") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// A copy does not create chunks that are absent in its source, unless the fill values
// differ. An existing chunk that contains only the fill value is copied.
func TestCopyKeepsAbsentChunks(t *testing.T) {
	t.Parallel()
	o := memory()
	whole := "\x01\x00\x02\x00\x03\x00\x04\x00"
	doc := func(fill, order string) string {
		return fmt.Sprintf(`{"zarr_format": 2, "shape": [4, 5], "chunks": [2, 2], "dtype": "<i2", "fill_value": %s, "order": %q, "compressor": null, "filters": null}`, fill, order)
	}
	store(t, o, "a", map[string]string{
		".zgroup": `{"zarr_format": 2}`, "c/.zarray": doc("7", "C"), "c/0.1": whole, "c/1.2": "\x07\x00\x07\x00\x07\x00\x07\x00",
		"f/.zarray": doc("null", "F"), "f/1.0": whole, "none/.zarray": doc("9", "C"),
	})
	src := open(t, "mem:a#mode=zarr", o)
	for _, tc := range []struct {
		chunks  []int64
		c, f, n []string
	}{
		{nil, []string{"0.1", "1.2"}, []string{"1.0"}, nil},
		{[]int64{1, 5}, []string{"0.0", "1.0", "2.0", "3.0"}, []string{"2.0", "3.0"}, nil},
		{[]int64{4, 1}, []string{"0.2", "0.3", "0.4"}, []string{"0.0", "0.1"}, nil},
	} {
		for _, mode := range []string{"zarr", "nczarr"} {
			name := fmt.Sprint(mode, tc.chunks)
			dst := create(t, "mem:"+name+"#mode="+mode, o)
			opts := &dataset.CopyOptions{Memory: 1, Chunks: func(*dataset.Var) ([]int64, error) { return tc.chunks, nil }}
			if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), opts); err != nil {
				t.Fatal(err)
			}
			expect(t, dst, "c", []int16{7, 7, 1, 2, 7, 7, 7, 3, 4, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7})
			expect(t, dst, "f", []int16{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 2, 4, 0, 0, 0})
			for v, want := range map[string][]string{"c": tc.c, "f": tc.f, "none": tc.n} {
				if got := keys(t, o, name, v+"/"); !slices.Equal(got, want) {
					t.Errorf("%s, %s: want chunks %v, got %v", name, v, want, got)
				}
			}
		}
	}
}

// A copy has the values of its source for any set of existing chunks, any pair of chunk
// shapes and any memory limit.
func TestCopyOfHoles(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		o := memory()
		src, err := createURL(ctx, "mem:src", &dataset.CreateOptions{Options: *o})
		if err != nil {
			rt.Fatal(err)
		}
		spec := &dataset.VarSpec{Type: dtype.NCShort, Fill: []int16{rapid.Int16Range(0, 2).Draw(rt, "fill")}}
		var to []int64
		for d := range rapid.IntRange(0, 3).Draw(rt, "rank") {
			x, err := src.Root().DefineDim(string(rune('a'+d)), rapid.Int64Range(1, 7).Draw(rt, "len"), false)
			if err != nil {
				rt.Fatal(err)
			}
			spec.Dims = append(spec.Dims, x)
			spec.Chunks = append(spec.Chunks, rapid.Int64Range(1, 8).Draw(rt, "chunk"))
			to = append(to, rapid.Int64Range(1, 8).Draw(rt, "new chunk"))
		}
		v, err := src.Root().DefineVar(ctx, "v", spec)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(0, 2).Draw(rt, "writes") {
			sel := drawSelection(rt, v.Shape())
			if err := v.Write(ctx, sel, rapid.SliceOfN(rapid.Int16Range(0, 3), int(sel.Len()), int(sel.Len())).Draw(rt, "values")); err != nil {
				rt.Fatal(err)
			}
		}
		dst, err := createURL(ctx, "mem:dst", &dataset.CreateOptions{Options: *o})
		if err != nil {
			rt.Fatal(err)
		}
		opts := &dataset.CopyOptions{Memory: rapid.Int64Range(1, 200).Draw(rt, "memory"), Chunks: func(*dataset.Var) ([]int64, error) { return to, nil }}
		if err := dataset.Copy(ctx, dst.Root(), src.Root(), opts); err != nil {
			rt.Fatal(err)
		}
		made, err := dst.Root().Var("v")
		if err != nil {
			rt.Fatal(err)
		}
		want, err := dataset.Get[int16](ctx, v, chunk.All(v.Shape()))
		if err != nil {
			rt.Fatal(err)
		}
		got, err := dataset.Get[int16](ctx, made, chunk.All(v.Shape()))
		if err != nil || !slices.Equal(want, got) {
			rt.Fatalf("want %v, got %v, %v", want, got, err)
		}
	})
}

// netcdf-c reads an absent chunk of big-endian numbers as the fill value with its bytes
// swapped. Copies to NCZarr therefore contain such chunks.
func TestCopyWritesBigEndianHoles(t *testing.T) {
	t.Parallel()
	o := memory()
	doc := func(dtype string) string {
		return fmt.Sprintf(`{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": %q, "fill_value": 7, "order": "C", "compressor": null, "filters": null}`, dtype)
	}
	store(t, o, "a", map[string]string{".zgroup": `{"zarr_format": 2}`, "b/.zarray": doc(">i2"), "l/.zarray": doc("<i2"), "one/.zarray": doc("|i1")})
	src := open(t, "mem:a#mode=zarr", o)
	for mode, want := range map[string][]string{"zarr": nil, "nczarr": {"0", "1"}} {
		dst := create(t, "mem:"+mode+"#mode="+mode, o)
		if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), nil); err != nil {
			t.Fatal(err)
		}
		if got := keys(t, o, mode, "b/"); !slices.Equal(got, want) {
			t.Errorf("%s, big-endian: want chunks %v, got %v", mode, want, got)
		}
		for _, v := range []string{"l/", "one/"} {
			if got := keys(t, o, mode, v); got != nil {
				t.Errorf("%s, %s: want no chunks, got %v", mode, v, got)
			}
		}
		expect(t, dst, "b", []int16{7, 7, 7, 7})
	}
}
