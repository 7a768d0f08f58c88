package kernel_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/kernel"
)

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func naiveShuffle(src []byte, size int) []byte {
	dst := bytes.Clone(src)
	n := len(src) / size
	for i := range n {
		for j := range size {
			dst[j*n+i] = src[i*size+j]
		}
	}
	return dst
}

func naiveBitShuffle(src []byte, size int) []byte {
	dst := bytes.Clone(src)
	n := len(src) / size
	if n%8 != 0 {
		return dst
	}
	clear(dst[:n*size])
	for i := range n {
		for bit := range 8 * size {
			v := src[i*size+bit/8] >> (bit % 8) & 1
			dst[bit*n/8+i/8] |= v << (i % 8)
		}
	}
	return dst
}

// guarded returns n bytes between canaries, and a function that checks the canaries.
func guarded(t *testing.T, n int) ([]byte, func()) {
	t.Helper()
	b := bytes.Repeat([]byte{0xC5}, n+128)
	return b[64 : 64+n : 64+n], func() {
		t.Helper()
		for i, c := range b {
			if (i < 64 || i >= 64+n) && c != 0xC5 {
				t.Fatalf("byte %d outside dst was written", i-64)
			}
		}
	}
}

func TestShuffleEqualsNaive(t *testing.T) {
	t.Parallel()
	lengths := []int{1000, 4096, 4097, 65536 + 13}
	for n := range 301 {
		lengths = append(lengths, n)
	}
	for size := 1; size <= 17; size++ {
		for _, n := range lengths {
			src := noise(n)
			dst, check := guarded(t, n)
			kernel.Shuffle(dst, src, size)
			check()
			want := naiveShuffle(src, size)
			if !bytes.Equal(want, dst) {
				t.Fatalf("shuffle of %d bytes, size %d: wrong bytes", n, size)
			}
			back, check := guarded(t, n)
			kernel.Unshuffle(back, want, size)
			check()
			if !bytes.Equal(src, back) {
				t.Fatalf("unshuffle of %d bytes, size %d: wrong bytes", n, size)
			}
		}
	}
}

func TestBitShuffleEqualsNaive(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 17; size++ {
		for _, n := range []int{0, 1, 7, 8, 9, 16, 24, 63, 64, 65, 128, 136, 200, 1000, 1024} {
			for _, extra := range []int{0, size - 1} {
				src := noise(n*size + extra)
				dst, check := guarded(t, len(src))
				tmp := make([]byte, len(src))
				kernel.BitShuffle(dst, src, tmp, size)
				check()
				want := naiveBitShuffle(src, size)
				if !bytes.Equal(want, dst) {
					t.Fatalf("bitshuffle of %d elements, size %d: wrong bytes", n, size)
				}
				back, check := guarded(t, len(src))
				kernel.BitUnshuffle(back, want, tmp, size)
				check()
				if !bytes.Equal(src, back) {
					t.Fatalf("bitunshuffle of %d elements, size %d: wrong bytes", n, size)
				}
			}
		}
	}
}

func BenchmarkKernel(b *testing.B) {
	for _, total := range []int{256 << 10, 4 << 20} {
		src, dst, tmp := noise(total), make([]byte, total), make([]byte, total)
		for _, size := range []int{2, 4, 8} {
			run := func(name string, f func()) {
				b.Run(fmt.Sprintf("%s/size=%d/bytes=%d", name, size, total), func(b *testing.B) {
					b.SetBytes(int64(total))
					for b.Loop() {
						f()
					}
				})
			}
			run("shuffle", func() { kernel.Shuffle(dst, src, size) })
			run("unshuffle", func() { kernel.Unshuffle(dst, src, size) })
			run("bitshuffle", func() { kernel.BitShuffle(dst, src, tmp, size) })
			run("bitunshuffle", func() { kernel.BitUnshuffle(dst, src, tmp, size) })
		}
	}
}
