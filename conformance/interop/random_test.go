package interop_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
)

// TestRandomArrays has zarr-python write sixty random arrays: of any type, byte
// order, shape, chunk shape, storage order, codecs and fill value, with chunks
// absent. Every bit of what we read is what it wrote, and it reads the same
// from our copies as from its own store.
func TestRandomArrays(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	first := testseed.New(t)
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src.zarr"), filepath.Join(dir, "dst.zarr")
			want := must(t, "write.py", "--with", "zarr", "--case", "random", "--seed", strconv.FormatUint(first+uint64(i), 10), src)
			got := describe(t, src, false)
			for path, v := range got.Variables {
				if strings.Contains(path, "M8") || strings.Contains(path, "m8") {
					v.Attrs = map[string]attr{} // those that tell of times are not in the store
				}
			}
			same(t, want, encode(t, got), "type,fill")
			ctl(t, "copy", "--codec", []string{"none", "shuffle,zlib:level=1", "blosc:cname=lz4"}[i], src, "file://"+dst+"#mode=zarr")
			before, after := must(t, "read.py", "--with", "zarr", src), must(t, "read.py", "--with", "zarr", dst)
			same(t, before, after, "")
		})
	}
}

// TestRandomV3 has zarr-python write random arrays of Zarr v3, most of them in shards.
// Every bit of what we read is what it wrote, and it reads the same from our copies,
// which are of Zarr v2.
func TestRandomV3(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	first := testseed.New(t)
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src.zarr"), filepath.Join(dir, "dst.zarr")
			args := []string{"--seed", strconv.FormatUint(first+uint64(i), 10), src}
			if i == 2 {
				args = append(args, "--consolidated")
			}
			want := must(t, "write_v3.py", args...)
			got := describe(t, src, false)
			for path, v := range got.Variables {
				if v.Error != "" {
					t.Errorf("%s: %s", path, v.Error)
				}
				if strings.Contains(path, "M8") || strings.Contains(path, "m8") {
					v.Attrs = map[string]attr{} // those that tell of times are not in the store
				}
			}
			same(t, want, encode(t, got), "type,fill")
			ctl(t, "copy", src, "file://"+dst+"#mode=zarr")
			// Zarr v2 cannot name some dimensions only.
			same(t, encode(t, describe(t, src, false)), encode(t, describe(t, dst, false)), "type,chunks,dims")
			must(t, "read.py", "--with", "zarr", dst)
		})
	}
}
