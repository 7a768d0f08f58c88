package zstdenc

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// sequence is a run of literals and the match that follows it.
type sequence struct {
	literals uint32 // number of literals
	match    uint32 // length minus 3
	offset   uint32 // value in the format: 1 to 3 refer to recent offsets
	// Codes of the three values, set by putSequences.
	literalsCode, matchCode, offsetCode uint8
}

// Numbers of extra bits of the codes of literals and matches. The code of an offset is
// its number of extra bits.
//
// Source: RFC 8878, section 3.1.1.3.2.1.1.
var (
	litBits   = [64]uint8{16: 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	matchBits = [64]uint8{32: 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

	litCodes   = [64]uint8(codesBelow(64, litBits[:]))
	matchCodes = [128]uint8(codesBelow(128, matchBits[:]))
)

// The predefined distributions.
//
// Source: RFC 8878, section 3.1.1.3.2.2.
var (
	litDefault = newTable(6, 4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1)

	matchDefault = newTable(6, 1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1)

	offsetDefault = newTable(5, 1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1)
)

// codesBelow returns the codes of the values below n.
func codesBelow(n int, extra []uint8) []uint8 {
	codes := make([]uint8, 0, n)
	for code, b := range extra {
		for k := 0; k < 1<<b && len(codes) < n; k++ {
			codes = append(codes, uint8(code))
		}
	}
	return codes
}

// encode sets the codes of s.
func (s *sequence) encode() {
	l, m := uint8(bits.Len32(s.literals)+18), uint8(bits.Len32(s.match)+35)
	if s.literals < 64 {
		l = litCodes[s.literals]
	}
	if s.match < 128 {
		m = matchCodes[s.match]
	}
	s.literalsCode, s.matchCode, s.offsetCode = l&63, m&63, uint8(bits.Len32(s.offset)-1)&63
}

// coder selects the encoding of one of the three codes of sequences.
type coder struct {
	counts  [64]uint32 // counts of the codes of a block
	tables  [2]table
	current int    // index of the table that was described last
	known   bool   // whether the decoder has that table
	use     *table // the selected table
}

// choose selects the table that takes the fewest bits for n codes, and appends its
// description, if it needs one, to dst.
//
// Source: RFC 8878, section 3.1.1.3.2.1, Symbol_Compression_Modes.
func (c *coder) choose(dst []byte, n int, predefined *table, maxLog int) (out []byte, mode byte) {
	const predefinedMode, oneMode, describedMode, againMode = 0, 1, 2, 3
	top := 0
	for code, k := range c.counts {
		if int(k) == n {
			c.use, c.known = &one, false
			return append(dst, byte(code)), oneMode
		}
		if k > 0 {
			top = code
		}
	}
	t := &c.tables[1-c.current]
	t.approximate(&c.counts, n, min(maxLog, max(5, bits.Len(uint(n-1))-3, bits.Len(uint(top))+1)))
	out = t.describe(dst)
	cost := t.cost(&c.counts) + 8*(len(out)-len(dst))
	mode = describedMode
	if k := predefined.cost(&c.counts); k <= cost {
		mode, cost = predefinedMode, k
	}
	if c.known && c.tables[c.current].cost(&c.counts) <= cost {
		mode = againMode
	}
	switch mode {
	case predefinedMode:
		c.use, c.known = predefined, false
		return dst, mode
	case againMode:
		c.use = &c.tables[c.current]
		return dst, mode
	}
	t.build()
	c.use, c.known, c.current = t, true, 1-c.current
	return out, mode
}

// putSequences appends the sequences section to e.out.
//
// Source: RFC 8878, section 3.1.1.3.2.
func (e *Encoder) putSequences() {
	n := len(e.sequences)
	switch {
	case n < 128:
		e.out = append(e.out, byte(n))
	case n < 0x7f00:
		e.out = append(e.out, byte(n>>8)+128, byte(n))
	default:
		e.out = append(e.out, 255, byte(n-0x7f00), byte((n-0x7f00)>>8))
	}
	if n == 0 {
		return
	}
	clear(e.lits.counts[:])
	clear(e.offs.counts[:])
	clear(e.matches.counts[:])
	for i := range e.sequences {
		s := &e.sequences[i]
		s.encode()
		e.lits.counts[s.literalsCode&63]++
		e.matches.counts[s.matchCode&63]++
		e.offs.counts[s.offsetCode&63]++
	}
	modes := len(e.out)
	out, l := e.lits.choose(append(e.out, 0), n, litDefault, 9)
	out, o := e.offs.choose(out, n, offsetDefault, 8)
	out, m := e.matches.choose(out, n, matchDefault, 9)
	out[modes] = l<<6 | o<<4 | m<<2
	// A sequence takes at most 26 bits for its codes and 63 extra bits.
	at := len(out)
	out = slices.Grow(out, 12*n+16)[:at+12*n+16]
	e.out = out[:e.write(out, at)]
}

// write writes the sequences to dst[at:], from the last to the first, because decoders
// read backwards, and returns the index after them.
func (e *Encoder) write(dst []byte, at int) int {
	lt, mt, ot := e.lits.use, e.matches.use, e.offs.use
	s := &e.sequences[len(e.sequences)-1]
	ls, ms, os := lt.first(s.literalsCode), mt.first(s.matchCode), ot.first(s.offsetCode)
	// acc holds have bits that are not yet written, the lowest first: fewer than 8 after a
	// flush.
	acc, have := uint64(0), uint(0)
	for i := len(e.sequences) - 1; ; {
		l, m, o := uint(litBits[s.literalsCode&63]), uint(matchBits[s.matchCode&63]), uint(s.offsetCode&63)
		acc |= low(s.literals, l) << (have & 63)
		have += l
		if have+m+o > 63 {
			binary.LittleEndian.PutUint64(dst[at:], acc)
			at, acc, have = at+int(have>>3), acc>>(have&56), have&7
		}
		acc |= low(s.match, m) << (have & 63)
		have += m
		acc |= low(s.offset, o) << (have & 63)
		have += o
		binary.LittleEndian.PutUint64(dst[at:], acc)
		at, acc, have = at+int(have>>3), acc>>(have&56), have&7
		if i--; i < 0 {
			break
		}
		s = &e.sequences[i]
		// A code takes the low bits of the state: at most 26 bits for the three.
		c := &ot.codes[s.offsetCode&63]
		n := uint(os+c.bits) >> 16
		acc |= low(os, n) << (have & 63)
		have += n
		os = ot.next(c, os, n)
		c = &mt.codes[s.matchCode&63]
		n = uint(ms+c.bits) >> 16
		acc |= low(ms, n) << (have & 63)
		have += n
		ms = mt.next(c, ms, n)
		c = &lt.codes[s.literalsCode&63]
		n = uint(ls+c.bits) >> 16
		acc |= low(ls, n) << (have & 63)
		have += n
		ls = lt.next(c, ls, n)
	}
	acc |= low(ms, mt.log) << (have & 63)
	have += mt.log
	acc |= low(os, ot.log) << (have & 63)
	have += ot.log
	acc |= low(ls, lt.log) << (have & 63)
	have += lt.log
	acc |= 1 << (have & 63) // end marker
	binary.LittleEndian.PutUint64(dst[at:], acc)
	return at + int(have>>3) + 1
}

// low returns the low n bits of v.
func low(v uint32, n uint) uint64 { return uint64(v) & (1<<(n&63) - 1) }
