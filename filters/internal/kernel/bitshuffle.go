package kernel

// bits8 transposes an 8 by 8 matrix of bits: bit c of byte r moves to bit r of byte c.
func bits8(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00AA00AA00AA00AA
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000CCCC0000CCCC
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000F0F0F0F0
	return x ^ t ^ t<<28
}

// bitsAll transposes every 8 bytes of b as a matrix of bits. The length of b must be a
// multiple of 8.
func bitsAll(b []byte) {
	for i := bitsAsm(b); i < len(b); i += 8 {
		store(b, i, bits8(load(b, i)))
	}
}

// BitShuffle writes the elements of src, each of size bytes, to dst as bit planes. Plane
// 8*j+k holds bit k of byte j of every element, eight elements to a byte, with the first
// element in the lowest bit. If the number of whole elements is not a multiple of 8,
// BitShuffle copies src unchanged. It also copies bytes after the last whole element
// unchanged. tmp is scratch memory of at least len(src) bytes.
//
// It shuffles the bytes, transposes the bits of each 8 elements, and shuffles the result
// in units of 8 bytes.
//
// Source: the block filter of c-blosc 1.x.
func BitShuffle(dst, src, tmp []byte, size int) {
	dst = dst[:len(src)]
	n := len(src) / max(size, 1)
	if size < 1 || n%8 != 0 || n == 0 {
		copy(dst, src)
		return
	}
	whole := n * size
	Shuffle(tmp[:whole], src[:whole], size)
	bitsAll(tmp[:whole])
	for j := range size {
		Shuffle(dst[j*n:(j+1)*n], tmp[j*n:(j+1)*n], 8)
	}
	copy(dst[whole:], src[whole:])
}

// BitUnshuffle reverses [BitShuffle].
func BitUnshuffle(dst, src, tmp []byte, size int) {
	dst = dst[:len(src)]
	n := len(src) / max(size, 1)
	if size < 1 || n%8 != 0 || n == 0 {
		copy(dst, src)
		return
	}
	whole := n * size
	for j := range size {
		Unshuffle(tmp[j*n:(j+1)*n], src[j*n:(j+1)*n], 8)
	}
	bitsAll(tmp[:whole])
	Unshuffle(dst[:whole], tmp[:whole], size)
	copy(dst[whole:], src[whole:])
}
