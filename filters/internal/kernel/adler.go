package kernel

import "hash/adler32"

// adlerMod is the largest prime below 65536.
const adlerMod = 65521

// Adler32 returns the Adler-32 checksum of b, the same as hash/adler32.
//
// Source: RFC 1950, section 8.2.
func Adler32(b []byte) uint32 {
	s1, s2, done := adlerAsm(b)
	if done == 0 {
		return adler32.Checksum(b)
	}
	for _, c := range b[done:] { // the rest after the last whole step
		s1 += uint32(c)
		s2 += s1
	}
	return s2%adlerMod<<16 | s1%adlerMod
}
