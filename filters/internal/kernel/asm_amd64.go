//go:build !purego

package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The assembly processes count elements, a positive multiple of 32. The planes are n
// bytes apart.

//go:noescape
func shuffle2AVX2(dst, src *byte, n, count int)

//go:noescape
func shuffle4AVX2(dst, src *byte, n, count int)

//go:noescape
func shuffle8AVX2(dst, src *byte, n, count int)

//go:noescape
func unshuffle2AVX2(dst, src *byte, n, count int)

//go:noescape
func unshuffle4AVX2(dst, src *byte, n, count int)

//go:noescape
func unshuffle8AVX2(dst, src *byte, n, count int)

//go:noescape
func bitsAVX2(b *byte, count int)

// bitsAsm transposes a leading part of b like bitsAll and returns its length.
func bitsAsm(b []byte) int {
	count := len(b) &^ 31
	if count == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	bitsAVX2(unsafe.SliceData(b), count)
	return count
}

// shuffleAsm shuffles a leading part of the n elements and returns the number of elements
// it shuffled.
func shuffleAsm(dst, src []byte, size, n int) int {
	count := n &^ 31
	if count == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	_, _ = dst[size*n-1], src[size*n-1]
	d, s := unsafe.SliceData(dst), unsafe.SliceData(src)
	switch size {
	case 2:
		shuffle2AVX2(d, s, n, count)
	case 4:
		shuffle4AVX2(d, s, n, count)
	case 8:
		shuffle8AVX2(d, s, n, count)
	default:
		return 0
	}
	return count
}

// unshuffleAsm reverses shuffleAsm.
func unshuffleAsm(dst, src []byte, size, n int) int {
	count := n &^ 31
	if count == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	_, _ = dst[size*n-1], src[size*n-1]
	d, s := unsafe.SliceData(dst), unsafe.SliceData(src)
	switch size {
	case 2:
		unshuffle2AVX2(d, s, n, count)
	case 4:
		unshuffle4AVX2(d, s, n, count)
	case 8:
		unshuffle8AVX2(d, s, n, count)
	default:
		return 0
	}
	return count
}

//go:noescape
func adlerAVX2(p *byte, count int) (sum, weighted uint64)

// Number of bytes per step of the checksum, and the most bytes whose sums fit in 32 bits.
const (
	adlerStep  = 64
	adlerChunk = 86 * adlerStep
)

// adlerAsm returns the sums of the first done bytes of b.
func adlerAsm(b []byte) (s1, s2 uint32, done int) {
	whole := len(b) &^ (adlerStep - 1)
	if whole == 0 || !cpu.X86.HasAVX2 {
		return 0, 0, 0
	}
	s := [2]uint64{1, 0}
	for done < whole {
		part := b[done:min(whole, done+adlerChunk)]
		sum, weighted := adlerAVX2(unsafe.SliceData(part), len(part))
		s[1] = (s[1] + s[0]*uint64(len(part)) + weighted) % adlerMod
		s[0] = (s[0] + sum) % adlerMod
		done += len(part)
	}
	return uint32(s[0]), uint32(s[1]), done
}
