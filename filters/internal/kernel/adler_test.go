package kernel_test

import (
	"bytes"
	"hash/adler32"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/kernel"
)

// adlerAgrees compares the checksum with the standard library's.
func adlerAgrees(t *testing.T, b []byte) {
	t.Helper()
	if got, want := kernel.Adler32(b), adler32.Checksum(b); got != want {
		t.Fatalf("checksum of %d bytes: want %08x, got %08x", len(b), want, got)
	}
}

func TestAdler32EqualsStandard(t *testing.T) {
	t.Parallel()
	random, full := noise(3<<20), bytes.Repeat([]byte{0xFF}, 3<<20)
	for n := range 2001 {
		adlerAgrees(t, random[n:2*n])
		adlerAgrees(t, full[:n])
	}
	for _, n := range []int{5503, 5504, 5505, 5552, 5553, 11008, 11009, 65521, 1 << 20, 3<<20 - 64} {
		for offset := range 64 {
			adlerAgrees(t, random[offset:offset+n])
		}
		adlerAgrees(t, full[:n])
	}
}

func FuzzAdler32(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add(bytes.Repeat([]byte{0xFF}, 300), 100)
	f.Fuzz(func(t *testing.T, b []byte, times int) {
		adlerAgrees(t, bytes.Repeat(b, min(max(times, 1), 1000)))
	})
}

func BenchmarkAdler32(b *testing.B) {
	src := noise(4 << 20)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		kernel.Adler32(src)
	}
}
