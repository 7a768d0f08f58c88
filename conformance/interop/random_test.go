package interop_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
)

// TestRandomArrays reads sixty random arrays written by zarr-python, of any type, byte
// order, shape, chunk shape, storage order, codecs and fill value, with some chunks
// missing. All bits must be equal, and zarr-python must read equal values from copies
// and from its own store.
func TestRandomArrays(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	first := testseed.New(t)
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			dst := filepath.Join(t.TempDir(), "dst.zarr")
			src, want := sample(t, "write.py", "--with", "zarr", "--case", "random", "--seed", strconv.FormatUint(first+uint64(i), 10))
			got := describe(t, src, false)
			for path, v := range got.Variables {
				if strings.Contains(path, "M8") || strings.Contains(path, "m8") {
					v.Attrs = map[string]attr{} // the store does not contain the attributes that describe times
				}
			}
			same(t, want, encode(t, got), "type,fill")
			ctl(t, "copy", "--codec", []string{"none", "shuffle,zlib:level=1", "blosc:cname=lz4"}[i], src, "file://"+dst+"#mode=zarr")
			before, after := must(t, "read.py", "--with", "zarr", src), must(t, "read.py", "--with", "zarr", dst)
			same(t, before, after, "")
		})
	}
}

// TestRandomV3 reads random Zarr v3 arrays written by zarr-python, most of them
// sharded. All bits must be equal, and zarr-python must be able to read the Zarr v2
// copies.
func TestRandomV3(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	first := testseed.New(t)
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			dst := filepath.Join(t.TempDir(), "dst.zarr")
			args := []string{"write_v3.py", "--seed", strconv.FormatUint(first+uint64(i), 10)}
			if i > 0 {
				args = append(args, []string{"--wrapped", "--consolidated"}[i-1])
			}
			src, want := sample(t, args...)
			got := describe(t, src, false)
			for path, v := range got.Variables {
				if v.Error != "" {
					t.Errorf("%s: %s", path, v.Error)
				}
				if strings.Contains(path, "M8") || strings.Contains(path, "m8") {
					v.Attrs = map[string]attr{} // the store does not contain the attributes that describe times
				}
			}
			same(t, want, encode(t, got), "type,fill")
			ctl(t, "copy", src, "file://"+dst+"#mode=zarr")
			// Zarr v2 cannot name only some of the dimensions.
			same(t, encode(t, describe(t, src, false)), encode(t, describe(t, dst, false)), "type,chunks,dims")
			must(t, "read.py", "--with", "zarr", dst)
		})
	}
}
