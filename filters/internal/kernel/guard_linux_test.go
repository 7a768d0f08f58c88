package kernel_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/kernel"
)

// fence returns n bytes of memory whose end, or start, adjoins an inaccessible page, so
// that any access beyond it crashes the test.
func fence(t *testing.T, n int, atEnd bool) []byte {
	t.Helper()
	page := os.Getpagesize()
	room := (n + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, room+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(m) })
	for _, forbidden := range [][]byte{m[:page], m[page+room:]} {
		if err := syscall.Mprotect(forbidden, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if atEnd {
		return m[page+room-n : page+room : page+room]
	}
	return m[page : page+n : page+n]
}

// TestKernelsStayInside runs every kernel on memory next to inaccessible pages, so that
// an access outside the slices crashes the test.
func TestKernelsStayInside(t *testing.T) {
	t.Parallel()
	for _, atEnd := range []bool{false, true} {
		most := 8 * 300
		src, dst, tmp := fence(t, most, atEnd), fence(t, most, atEnd), fence(t, most, atEnd)
		cut := func(b []byte, n int) []byte {
			if atEnd {
				return b[most-n:]
			}
			return b[:n:n]
		}
		copy(src, noise(most))
		for n := 0; n <= most; n += 1 + n/97 {
			s, d, w := cut(src, n), cut(dst, n), cut(tmp, n)
			adlerAgrees(t, s)
			for _, size := range []int{1, 2, 3, 4, 8, 16} {
				for name, f := range map[string][2]func(){
					"shuffle":    {func() { kernel.Shuffle(d, s, size) }, func() { kernel.Unshuffle(w, d, size) }},
					"bitshuffle": {func() { kernel.BitShuffle(d, s, w, size) }, func() { kernel.BitUnshuffle(w, bytes.Clone(d), d, size) }},
				} {
					f[0]()
					f[1]()
					if !bytes.Equal(s, w) {
						t.Fatalf("%s of %d bytes, size %d: wrong bytes", name, n, size)
					}
				}
			}
		}
	}
}
