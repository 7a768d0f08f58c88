package inflate

import "math/bits"

// A table entry describes the meaning of a sequence of bits:
//
//	bits 0-4    number of bits to consume: code and extra bits
//	bits 8-11   number of those bits that belong to the code
//	bit 13      end of block
//	bit 14      the code is longer: continue in a subtable
//	bit 15      set with bit 13 or 14, and for an unused code
//	bits 16-30  the literal, the base of the length or distance, or the
//	            start of the subtable
//	bit 31      literal
//
// An entry of a subtable counts only the bits that the root table does not consume.
// For a link to a subtable, bits 8-11 are the number of its index bits.
const (
	flagEnd     = 1 << 13
	flagLink    = 1 << 14
	flagSpecial = 1 << 15
	flagLiteral = 1 << 31

	litBits  = 11
	distBits = 9
	preBits  = 7

	maxCode = 15
)

// Sizes that no valid set of codes exceeds: every subtable belongs to at least two of
// the 288 or 32 symbols. fill still checks them.
const (
	litSize  = 1<<litBits + 288/2<<(maxCode-litBits)
	distSize = 1<<distBits + 32/2<<(maxCode-distBits)
	preSize  = 1 << preBits
)

var (
	lengthBase  = [29]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lengthExtra = [29]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
)

// litSymbol returns the entry of a literal/length symbol without its code length.
func litSymbol(s int) uint32 {
	switch {
	case s < 256:
		return flagLiteral | uint32(s)<<16
	case s == 256:
		return flagSpecial | flagEnd
	case s-257 < len(lengthBase):
		return uint32(lengthBase[s-257])<<16 | uint32(lengthExtra[s-257])
	}
	return flagSpecial
}

// distSymbol returns the entry of a distance symbol.
func distSymbol(s int) uint32 {
	switch {
	case s < 4:
		return uint32(s+1) << 16
	case s < 30:
		extra := uint32(s)/2 - 1
		return (1+(2+uint32(s)&1)<<extra)<<16 | extra
	}
	return flagSpecial
}

func preSymbol(s int) uint32 { return uint32(s) << 16 }

// build fills a table from the lengths of the codes. It returns false if the lengths are
// not the lengths of a prefix code: too many codes, or too few. A table without codes, or
// with a single code of length 1, is valid.
func build(table []uint32, rootBits int, lengths []uint8, symbol func(int) uint32) bool {
	var count [maxCode + 1]int
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	longest, left := 0, 1
	for n := 1; n <= maxCode; n++ {
		left = left<<1 - count[n]
		if left < 0 {
			return false
		}
		if count[n] > 0 {
			longest = n
		}
	}
	if longest == 0 || left > 0 {
		for i := range table[:1<<rootBits] {
			table[i] = flagSpecial
		}
		if longest > 1 || count[1] > 1 {
			return false
		}
		if longest == 0 {
			return true
		}
	}
	var next [maxCode + 1]uint16
	for n, code := 1, 0; n <= maxCode; n++ {
		code = (code + count[n-1]) << 1
		next[n] = uint16(code) // the check of left ensures that code is below 1<<16
	}
	return fill(table, rootBits, lengths, symbol, &next, longest)
}

// fill stores every code. The root table, which rootBits bits index, is at the start of
// table. Codes longer than rootBits are stored in subtables after the root table. All
// subtables have as many index bits as the longest code needs. fill returns false if
// table is too small.
func fill(table []uint32, rootBits int, lengths []uint8, symbol func(int) uint32, next *[maxCode + 1]uint16, longest int) bool {
	end, size := 1<<rootBits, max(longest-rootBits, 0)
	if longest > rootBits {
		for i := range table[:end] {
			table[i] = 0
		}
	}
	for s, n8 := range lengths {
		n := int(n8)
		if n == 0 {
			continue
		}
		code := int(bits.Reverse16(next[n]) >> (16 - n))
		next[n]++
		e := symbol(s)
		if n <= rootBits {
			e += uint32(n)<<8 | uint32(n)
			for i := code; i < 1<<rootBits; i += 1 << n {
				table[i] = e
			}
			continue
		}
		low := code & (1<<rootBits - 1)
		if table[low] == 0 {
			if end+1<<size > len(table) {
				return false
			}
			table[low] = flagSpecial | flagLink | uint32(end)<<16 | uint32(size)<<8 | uint32(rootBits)
			end += 1 << size
		}
		start, rest := int(table[low]>>16), n-rootBits
		e += uint32(rest)<<8 | uint32(rest)
		for i := code >> rootBits; i < 1<<size; i += 1 << rest {
			table[start+i] = e
		}
	}
	return true
}
