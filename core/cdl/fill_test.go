package cdl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// TestFewChunks checks that only the chunks that contain data are written.
func TestFewChunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ vars, data, chunks string }{
		{"int v(huge) ; v:_ChunkSizes = 1", "1", "0"},
		{"int v(huge) ; v:_ChunkSizes = 2", "1, 2, 3", "0 1"},
		{"int v(n, n) ; v:_ChunkSizes = 1, 1", "1, 2", "0.0 0.1"},
		{"int v(m, n) ; v:_ChunkSizes = 1, 99999", "1, 2", "0.0"},
		{"int v(m, m) ; v:_ChunkSizes = 2, 2", "1, 2, 3, 4, 5", "0.0 0.1"},
		{"int v(m, m) ; v:_ChunkSizes = 2, 1", "1", "0.0"},
		{"char v(huge) ; v:_ChunkSizes = 2", `"abc"`, "0 1"},
		{"char v(m, large) ; v:_ChunkSizes = 1, 2000000", `"abc", "", "d"`, "0.0 2.0"}, // padding is not stored
		{"char v(m, large) ; v:_ChunkSizes = 1, 2000000 ; v:_FillValue = \"x\"", `"abc", _, "d"`, "0.0 1.0 2.0"},
		{"char v(m, n) ; v:_ChunkSizes = 1, 50000 ; v:_NoFill = \"true\"", `"abc"`, "0.0 0.1 1.0 1.1 2.0 2.1"},
		{"int v(m) ; v:_ChunkSizes = 1 ; v:_NoFill = \"true\"", "1", "0 1 2"},
		{"int v(m) ; v:_ChunkSizes = 1 ; v:_Endianness = \"big\"", "1", "0 1 2"},
	} {
		ds := generate(t, "netcdf x { dimensions: huge = 72057594037927936 ; large = 10000000 ; n = 100000 ; m = 3 ; variables: "+c.vars+" ; data: v = "+c.data+" ; }")
		var got []string
		for e, err := range ds.Map().List(t.Context(), "v/", &zmap.ListOptions{Recursive: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if name := strings.TrimPrefix(e.Key, "v/"); name[0] != '.' {
				got = append(got, name)
			}
		}
		if slices.Sort(got); strings.Join(got, " ") != c.chunks {
			t.Errorf("%s = %s: want chunks %s, got %v", c.vars, c.data, c.chunks, got)
		}
		v, err := ds.Root().Var("v")
		if err != nil {
			t.Fatal(err)
		}
		if v.Type().String() != "int" {
			continue
		}
		first, err := dataset.Get[int32](t.Context(), v, chunk.Selection{Start: make([]int64, v.Rank()), Count: slices.Repeat([]int64{1}, v.Rank())})
		if err != nil || first[0] != 1 {
			t.Errorf("%s = %s: want the first value 1, got %v, %v", c.vars, c.data, first, err)
		}
	}
}

// TestHugePadding checks that strings can be padded to 2^56 bytes, because padding is
// not stored.
func TestHugePadding(t *testing.T) {
	t.Parallel()
	ds := generate(t, `netcdf x { dimensions: m = 3 ; huge = 72057594037927936 ; variables: char v(m, huge) ; v:_ChunkSizes = 1, 2 ; data: v = "abc", "", "d" ; }`)
	v, err := ds.Root().Var("v")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[[2]int64]string{{0, 0}: "abc\x00", {0, 1 << 55}: "\x00\x00\x00\x00", {1, 0}: "\x00\x00\x00\x00", {2, 0}: "d\x00\x00\x00"} {
		got, err := dataset.Get[uint8](t.Context(), v, chunk.Selection{Start: at[:], Count: []int64{1, 4}})
		if err != nil || string(got) != want {
			t.Errorf("at %v: want %q, got %q, %v", at, want, got, err)
		}
	}
}

// TestTooMuchPadding checks that Generate rejects strings whose padded size overflows,
// whether the first dimension is unlimited or fixed.
func TestTooMuchPadding(t *testing.T) {
	t.Parallel()
	for _, dim := range []string{"UNLIMITED", "127"} {
		text := "netcdf x { dimensions: n = " + dim + " ; huge = 72057594037927936 ; variables: char v(n, huge) ; v:_ChunkSizes = 1, 2 ; data: v = " +
			strings.Repeat(`"a", `, 300) + `"a" ; }`
		if err := cdl.Generate(t.Context(), mustParse(t, text), "mem:x", newRegistry().create()); ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), "when padded to") {
			t.Errorf("n = %s: want ErrLimit, got %v", dim, err)
		}
	}
}
