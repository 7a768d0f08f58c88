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
}

// Numbers of extra bits of the codes of literals and matches. The code of an offset is
// its number of extra bits.
//
// Source: RFC 8878, section 3.1.1.3.2.1.1.
var (
	litBits   = [36]uint8{16: 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	matchBits = [53]uint8{32: 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

	litCodes   = codesBelow(64, litBits[:])
	matchCodes = codesBelow(128, matchBits[:])
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

// codes returns the codes of a sequence.
func (s *sequence) codes() (literals, match, offset uint8) {
	literals, match = uint8(bits.Len32(s.literals)+18), uint8(bits.Len32(s.match)+35)
	if s.literals < 64 {
		literals = litCodes[s.literals]
	}
	if s.match < 128 {
		match = matchCodes[s.match]
	}
	return literals & 63, match & 63, uint8(bits.Len32(s.offset)-1) & 63
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
		l, m, o := e.sequences[i].codes()
		e.lits.counts[l]++
		e.matches.counts[m]++
		e.offs.counts[o]++
	}
	modes := len(e.out)
	out, l := e.lits.choose(append(e.out, 0), n, litDefault, 9)
	out, o := e.offs.choose(out, n, offsetDefault, 8)
	out, m := e.matches.choose(out, n, matchDefault, 9)
	out[modes] = l<<6 | o<<4 | m<<2
	// A sequence takes at most 26 bits for its codes and 59 extra bits.
	w := writer{dst: slices.Grow(out, 11*n+16)[:len(out)+11*n+16], at: len(out)}
	e.write(&w)
	e.out = w.dst[:w.at]
}

// write writes the sequences from the last to the first, because decoders read backwards.
func (e *Encoder) write(w *writer) {
	lt, mt, ot := e.lits.use, e.matches.use, e.offs.use
	var ls, ms, os uint32 // states
	for i := len(e.sequences) - 1; i >= 0; i-- {
		s := &e.sequences[i]
		l, m, o := s.codes()
		if i == len(e.sequences)-1 {
			ls, ms, os = lt.first(l), mt.first(m), ot.first(o)
		} else {
			os = w.next(ot, os, o)
			ms = w.next(mt, ms, m)
			ls = w.next(lt, ls, l)
			w.flush()
		}
		w.put(s.literals, uint(litBits[l]))
		w.put(s.match, uint(matchBits[m]))
		w.put(s.offset, uint(o))
		w.flush()
	}
	w.put(ms, mt.log)
	w.put(os, ot.log)
	w.put(ls, lt.log)
	w.put(1, 1) // end marker
	w.flush()
	if w.have > 0 {
		w.at++
	}
}

// writer writes bits, the lowest first. flush leaves fewer than 8 bits, and put can add
// 56 more before the next flush.
type writer struct {
	dst  []byte
	at   int
	bits uint64
	have uint
}

func (w *writer) put(v uint32, n uint) {
	w.bits |= uint64(v&(1<<n-1)) << (w.have & 63)
	w.have += n
}

func (w *writer) flush() {
	binary.LittleEndian.PutUint64(w.dst[w.at:], w.bits)
	w.at += int(w.have >> 3)
	w.bits >>= w.have &^ 7
	w.have &= 7
}

// next encodes code: it writes the low bits of state and returns the next state.
func (w *writer) next(t *table, state uint32, code uint8) uint32 {
	c := &t.codes[code&63]
	n := uint(state+c.bits) >> 16
	w.put(state, n)
	return uint32(t.states[(int32(state>>n)+c.find)&(1<<maxTableLog-1)])
}
