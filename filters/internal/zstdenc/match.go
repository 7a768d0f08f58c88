package zstdenc

import (
	"encoding/binary"
	"math/bits"
)

// finder finds earlier positions whose first bytes equal those at the current position.
// Positions with the same hash share a row.
type finder struct {
	rows  []row
	drop  uint   // number of bits of an 8-byte load that the hash ignores
	shift uint   // shift of hashes; small contents use fewer rows
	base  uint32 // the number of position 0 in rows
	next  uint64 // the last used number, or 0
}

// row holds the latest positions of a hash, each with a tag of eight more bits of the
// hash. The tags exclude most positions of other content.
type row struct {
	tags uint64 // the tag of the latest position is in the lowest byte
	at   [8]uint32
	head uint32 // the latest is at[head%8]
}

func (r *row) add(hash uint64, at uint32) {
	r.tags = r.tags<<8 | hash&0xff
	r.head--
	r.at[r.head%8] = at
}

func load32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// begin discards all positions and prepares for positions below n. four selects a search
// for matches of four bytes instead of five.
func (f *finder) begin(n int, four bool) {
	f.drop = 24
	if four {
		f.drop = 32
	}
	f.shift = 64 - 8 - uint(min(bits.Len(uint(n)>>4), bits.Len(uint(len(f.rows)))-1))
	// Earlier entries need not be cleared, because their numbers are below base. They are
	// cleared only before the numbers become too large.
	if f.next+uint64(n) > 1<<31 {
		clear(f.rows)
		f.next = 0
	}
	f.base = uint32(f.next) + 1
	f.next += uint64(n)
}

// hash returns the hash of the first four or five bytes of v.
func (f *finder) hash(v uint64) uint64 {
	return v << (f.drop & 63) * 0x9E3779B185EBCA87 >> (f.shift & 63)
}

// put adds the positions from i up to end.
func (f *finder) put(src []byte, i, end int) {
	for ; i < end; i++ {
		h := f.hash(load64(src, i))
		f.rows[h>>8].add(h, f.base+uint32(i))
	}
}

// find searches for the longest match of src[i:end] that is longer than least, which is
// at least minMatch-1, and adds i. It returns offset 0 if it finds no match.
func (f *finder) find(src []byte, i, end, least int) (length, offset int) {
	const ones, sevens = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f
	h := f.hash(load64(src, i))
	r := &f.rows[h>>8]
	at := f.base + uint32(i)
	length = least
	v := r.tags ^ h&0xff*ones
	v = ^(v&sevens + sevens | v | sevens) // the highest bit of each byte that is 0
	reach := uint32(min(i, 1<<windowLog))
	for tries := 4; v != 0 && tries > 0; tries-- {
		d := at - r.at[(r.head+uint32(bits.TrailingZeros64(v))>>3)%8]
		if d-1 >= reach {
			break // the rest are older
		}
		v &= v - 1
		j := i - int(d)
		if i+length < end && load32(src, i+length-3) == load32(src, j+length-3) {
			if n := matchLen(src[i:end], src[j:]); n > length {
				length, offset = n, int(d)
			}
		}
	}
	r.add(h, at)
	return length, offset
}

// matchLen returns the length of the common prefix of a and b. a must not be longer than
// b.
func matchLen(a, b []byte) int {
	n := 0
	b = b[:len(a)]
	for ; len(a)-n >= 8; n += 8 {
		if x := load64(a, n) ^ load64(b, n); x != 0 {
			return n + bits.TrailingZeros64(x)>>3
		}
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}
