package kernel

// bits8 transposes an 8 by 8 matrix of bits: bit c of byte r goes to bit r of
// byte c.
func bits8(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00AA00AA00AA00AA
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000CCCC0000CCCC
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000F0F0F0F0
	return x ^ t ^ t<<28
}

// BitShuffle writes the elements of src, each of size bytes, to dst by bit
// planes: row 8*j+k holds bit k of byte j of every element, eight elements to
// a byte, first element in the lowest bit. The number of whole elements must
// be a multiple of 8, else the bytes are copied as they are; so are bytes
// behind the last whole element. tmp is scratch of at least len(src) bytes.
//
// Source: the block filter of c-blosc 1.x.
func BitShuffle(dst, src, tmp []byte, size int) {
	dst = dst[:len(src)]
	n := len(src) / max(size, 1)
	if size < 1 || n%8 != 0 || n == 0 {
		copy(dst, src)
		return
	}
	whole, row := n*size, n/8
	Shuffle(tmp[:whole], src[:whole], size)
	var x [8]uint64
	for j := range size {
		plane, out := tmp[j*n:(j+1)*n], dst[j*n:(j+1)*n]
		g := 0
		for ; g+8 <= row; g += 8 {
			for k := range x {
				x[k] = bits8(load(plane, 8*(g+k)))
			}
			transpose8(&x)
			for k := range x {
				store(out, k*row+g, x[k])
			}
		}
		for ; g < row; g++ {
			v := bits8(load(plane, 8*g))
			for k := range 8 {
				out[k*row+g] = byte(v >> (8 * k))
			}
		}
	}
	copy(dst[whole:], src[whole:])
}

// BitUnshuffle is the reverse of [BitShuffle].
func BitUnshuffle(dst, src, tmp []byte, size int) {
	dst = dst[:len(src)]
	n := len(src) / max(size, 1)
	if size < 1 || n%8 != 0 || n == 0 {
		copy(dst, src)
		return
	}
	whole, row := n*size, n/8
	var x [8]uint64
	for j := range size {
		in, plane := src[j*n:(j+1)*n], tmp[j*n:(j+1)*n]
		g := 0
		for ; g+8 <= row; g += 8 {
			for k := range x {
				x[k] = load(in, k*row+g)
			}
			transpose8(&x)
			for k := range x {
				store(plane, 8*(g+k), bits8(x[k]))
			}
		}
		for ; g < row; g++ {
			var v uint64
			for k := range 8 {
				v |= uint64(in[k*row+g]) << (8 * k)
			}
			store(plane, 8*g, bits8(v))
		}
	}
	Unshuffle(dst[:whole], tmp[:whole], size)
	copy(dst[whole:], src[whole:])
}
