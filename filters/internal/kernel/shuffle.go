package kernel

import "encoding/binary"

// Shuffle writes the elements of src, each of size bytes, to dst as byte planes: byte 0
// of every element, then byte 1, and so on. It copies bytes after the last whole element
// unchanged. dst must be at least as long as src and must not overlap it.
func Shuffle(dst, src []byte, size int) {
	dst = dst[:len(src)]
	if size <= 1 || len(src) < size {
		copy(dst, src)
		return
	}
	n := len(src) / size
	copy(dst[n*size:], src[n*size:])
	done := shuffleAsm(dst, src, size, n)
	switch size {
	case 2:
		done = shuffle2(dst, src, n, done)
	case 4:
		done = shuffle4(dst, src, n, done)
	case 8:
		done = shuffle8(dst, src, n, done)
	}
	for j := range size {
		plane := dst[j*n : (j+1)*n]
		for i := done; i < n; i++ {
			plane[i] = src[i*size+j]
		}
	}
}

// Unshuffle reverses [Shuffle].
func Unshuffle(dst, src []byte, size int) {
	dst = dst[:len(src)]
	if size <= 1 || len(src) < size {
		copy(dst, src)
		return
	}
	n := len(src) / size
	copy(dst[n*size:], src[n*size:])
	done := unshuffleAsm(dst, src, size, n)
	switch size {
	case 2:
		done = unshuffle2(dst, src, n, done)
	case 4:
		done = unshuffle4(dst, src, n, done)
	case 8:
		done = unshuffle8(dst, src, n, done)
	}
	for j := range size {
		plane := src[j*n : (j+1)*n]
		for i := done; i < n; i++ {
			dst[i*size+j] = plane[i]
		}
	}
}

func load(b []byte, at int) uint64       { return binary.LittleEndian.Uint64(b[at : at+8]) }
func store(b []byte, at int, v uint64)   { binary.LittleEndian.PutUint64(b[at:at+8], v) }
func store32(b []byte, at int, v uint32) { binary.LittleEndian.PutUint32(b[at:at+4], v) }
func load32(b []byte, at int) uint64     { return uint64(binary.LittleEndian.Uint32(b[at : at+4])) }

// spread moves the four bytes of the low half of x to the even bytes.
func spread(x uint64) uint64 {
	x = (x | x<<16) & 0x0000FFFF0000FFFF
	return (x | x<<8) & 0x00FF00FF00FF00FF
}

// gather reverses spread: it moves the even bytes to the low half.
func gather(x uint64) uint64 {
	x &= 0x00FF00FF00FF00FF
	x = (x | x>>8) & 0x0000FFFF0000FFFF
	return (x | x>>16) & 0xFFFFFFFF
}

func unshuffle2(dst, src []byte, n, i int) int {
	for ; i+8 <= n; i += 8 {
		a, b := load(src, i), load(src, n+i)
		store(dst, 2*i, spread(a&0xFFFFFFFF)|spread(b&0xFFFFFFFF)<<8)
		store(dst, 2*i+8, spread(a>>32)|spread(b>>32)<<8)
	}
	return i
}

func shuffle2(dst, src []byte, n, i int) int {
	for ; i+8 <= n; i += 8 {
		a, b := load(src, 2*i), load(src, 2*i+8)
		store(dst, i, gather(a)|gather(b)<<32)
		store(dst, n+i, gather(a>>8)|gather(b>>8)<<32)
	}
	return i
}

// unshuffle4 interleaves four planes: bytes to pairs, then pairs to elements.
func unshuffle4(dst, src []byte, n, i int) int {
	for ; i+4 <= n; i += 4 {
		lo := spread(load32(src, i)) | spread(load32(src, n+i))<<8
		hi := spread(load32(src, 2*n+i)) | spread(load32(src, 3*n+i))<<8
		store(dst, 4*i, lo&0xFFFF|hi&0xFFFF<<16|(lo>>16&0xFFFF)<<32|(hi>>16&0xFFFF)<<48)
		store(dst, 4*i+8, lo>>32&0xFFFF|(hi>>32&0xFFFF)<<16|(lo>>48)<<32|(hi>>48)<<48)
	}
	return i
}

func shuffle4(dst, src []byte, n, i int) int {
	for ; i+4 <= n; i += 4 {
		a, b := load(src, 4*i), load(src, 4*i+8)
		lo := a&0xFFFF | a>>32&0xFFFF<<16 | b&0xFFFF<<32 | b>>32&0xFFFF<<48
		hi := a>>16&0xFFFF | a>>48<<16 | b>>16&0xFFFF<<32 | b>>48<<48
		store32(dst, i, uint32(gather(lo)))
		store32(dst, n+i, uint32(gather(lo>>8)))
		store32(dst, 2*n+i, uint32(gather(hi)))
		store32(dst, 3*n+i, uint32(gather(hi>>8)))
	}
	return i
}

// transpose8 transposes an 8 by 8 matrix of bytes: byte c of word r moves to byte r of
// word c.
func transpose8(x *[8]uint64) {
	for i := range 4 {
		a, b := x[i], x[i+4]
		x[i], x[i+4] = a&0xFFFFFFFF|b<<32, a>>32|b&^0xFFFFFFFF
	}
	for _, i := range [4]int{0, 1, 4, 5} {
		a, b := x[i], x[i+2]
		x[i] = a&0x0000FFFF0000FFFF | b&0x0000FFFF0000FFFF<<16
		x[i+2] = a>>16&0x0000FFFF0000FFFF | b&0xFFFF0000FFFF0000
	}
	for i := 0; i < 8; i += 2 {
		a, b := x[i], x[i+1]
		x[i] = a&0x00FF00FF00FF00FF | b&0x00FF00FF00FF00FF<<8
		x[i+1] = a>>8&0x00FF00FF00FF00FF | b&0xFF00FF00FF00FF00
	}
}

func unshuffle8(dst, src []byte, n, i int) int {
	var x [8]uint64
	for ; i+8 <= n; i += 8 {
		for j := range x {
			x[j] = load(src, j*n+i)
		}
		transpose8(&x)
		for j := range x {
			store(dst, 8*(i+j), x[j])
		}
	}
	return i
}

func shuffle8(dst, src []byte, n, i int) int {
	var x [8]uint64
	for ; i+8 <= n; i += 8 {
		for j := range x {
			x[j] = load(src, 8*(i+j))
		}
		transpose8(&x)
		for j := range x {
			store(dst, j*n+i, x[j])
		}
	}
	return i
}
