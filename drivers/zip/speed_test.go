package zip_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
)

// manyMembers creates an archive of n small chunks below 100 variables.
func manyMembers(t testing.TB, n int, prefix string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "many.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	for i := range n {
		name := fmt.Sprintf("%svariable_%02d/%d.%d.0", prefix, i%100, i/100/40, i/100%40)
		if i == 0 {
			name = prefix + ".zgroup"
		}
		m, err := w.CreateRaw(&zip.FileHeader{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Write(nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// openClose opens and closes an archive and returns the memory, allocations and time
// that opening took.
func openClose(t testing.TB, path string) (bytes, mallocs uint64, took time.Duration) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	m, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: path, Documents: zarr.DocNames()})
	took = time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs, took
}

// TestOpen100k checks the memory used to open an archive of 100,000 members: at most 16
// MiB, without an allocation per member.
func TestOpen100k(t *testing.T) { //nolint:paralleltest // the test measures performance
	for _, prefix := range []string{"", "data.zarr/"} {
		path := manyMembers(t, 100_000, prefix)
		got, mallocs, took := openClose(t, path)
		t.Logf("prefix %q: %.1f MiB in %d allocations, %v", prefix, float64(got)/(1<<20), mallocs, took)
		if got > 16<<20 || mallocs > 100 {
			t.Errorf("prefix %q: opening took %d bytes in %d allocations", prefix, got, mallocs)
		}
	}
}

// BenchmarkOpen100k opens and indexes an archive of 100,000 members.
func BenchmarkOpen100k(b *testing.B) {
	for _, prefix := range []string{"", "data.zarr/"} {
		b.Run("prefix="+prefix, func(b *testing.B) {
			path := manyMembers(b, 100_000, prefix)
			o := zipdriver.New()
			b.ReportAllocs()
			for b.Loop() {
				m, err := o.Open(b.Context(), driver.OpenSpec{Path: path, Documents: zarr.DocNames()})
				if err != nil {
					b.Fatal(err)
				}
				if err := m.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen100kStd opens the same archive with the standard library and indexes the
// names in a map, for comparison with BenchmarkOpen100k.
func BenchmarkOpen100kStd(b *testing.B) {
	path := manyMembers(b, 100_000, "")
	b.ReportAllocs()
	for b.Loop() {
		r, err := zip.OpenReader(path)
		if err != nil {
			b.Fatal(err)
		}
		names := make(map[string]*zip.File, len(r.File))
		for _, f := range r.File {
			names[f.Name] = f
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestGetAllocations checks that reading a stored object, whole or in part, into the
// caller's memory does not allocate after the first read.
func TestGetAllocations(t *testing.T) { //nolint:paralleltest // the test measures performance
	path := saved(t, stdZip(t, "", entry{name: ".zgroup", content: "{}"}, entry{name: "v/0", content: string(make([]byte, 10000))},
		entry{name: "v/1", content: string(make([]byte, 10000)), deflate: true}))
	dst := make([]byte, 10000)
	whole, part := &driver.GetOptions{}, &driver.GetOptions{Range: &driver.Range{Offset: 100, Length: 50}}
	for _, tc := range []struct {
		mode driver.Mode
		key  string
		opts *driver.GetOptions
	}{
		{driver.Read, "v/0", whole},
		{driver.Read, "v/0", part},
		{driver.Update, "v/0", whole},
		{driver.Update, "v/0", part},
		{driver.Read, "absent", whole},
		{driver.Update, "absent", whole},
	} {
		m := openZip(t, path, tc.mode, "")
		alloc := driver.Into(dst)
		n := testing.AllocsPerRun(200, func() {
			if _, _, err := m.Get(t.Context(), tc.key, tc.opts, alloc); err != nil && tc.key != "absent" {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("mode %d, %q, range %v: want no allocations, got %v", tc.mode, tc.key, tc.opts.Range, n)
		}
	}
	m := openZip(t, path, driver.Read, "")
	if n := testing.AllocsPerRun(200, func() { _, _, _ = m.Get(t.Context(), "v/1", whole, driver.Into(dst)) }); n > 4 {
		t.Errorf("a deflated object: want at most 4 allocations, got %v", n)
	}
}

// BenchmarkGet reads whole members into the caller's memory.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{4 << 10, 4 << 20} {
		for _, deflate := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%dKiB/deflate=%v", size>>10, deflate), func(b *testing.B) {
				content := bytes.Repeat([]byte("0123456789abcdef, "), size/18+1)[:size]
				m := openZip(b, saved(b, stdZip(b, "", entry{name: "c", content: string(content), deflate: deflate})), driver.Read, "")
				dst := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := m.Get(b.Context(), "c", &driver.GetOptions{}, driver.Into(dst)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
