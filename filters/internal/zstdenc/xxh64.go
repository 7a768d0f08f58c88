package zstdenc

import "math/bits"

// xxh64 returns the xxHash of b. A frame ends with the low half of the hash of its
// content.
//
// Source: doc/xxhash_spec.md of xxHash, which RFC 8878 refers to.
func xxh64(b []byte) uint64 {
	const (
		p1 = 0x9E3779B185EBCA87
		p2 = 0xC2B2AE3D27D4EB4F
		p3 = 0x165667B19E3779F9
		p4 = 0x85EBCA77C2B2AE63
		p5 = 0x27D4EB2F165667C5
	)
	round := func(acc, v uint64) uint64 { return bits.RotateLeft64(acc+v*p2, 31) * p1 }
	n, h := len(b), uint64(p5)
	if n >= 32 {
		p := uint64(p1) // a variable, because constants must not overflow
		a := [4]uint64{p + p2, p2, 0, -p}
		for ; len(b) >= 32; b = b[32:] {
			for i := range a {
				a[i] = round(a[i], load64(b, 8*i))
			}
		}
		h = bits.RotateLeft64(a[0], 1) + bits.RotateLeft64(a[1], 7) + bits.RotateLeft64(a[2], 12) + bits.RotateLeft64(a[3], 18)
		for _, v := range a {
			h = (h^round(0, v))*p1 + p4
		}
	}
	h += uint64(n)
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64(h^round(0, load64(b, 0)), 27)*p1 + p4
	}
	if len(b) >= 4 {
		h = bits.RotateLeft64(h^uint64(load32(b, 0))*p1, 23)*p2 + p3
		b = b[4:]
	}
	for _, v := range b {
		h = bits.RotateLeft64(h^uint64(v)*p5, 11) * p1
	}
	h = (h ^ h>>33) * p2
	h = (h ^ h>>29) * p3
	return h ^ h>>32
}
