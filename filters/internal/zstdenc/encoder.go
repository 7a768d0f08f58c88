// Package zstdenc encodes Zstandard frames of about the size that the reference
// implementation reaches at its levels 3 to 9. It imports klauspost/compress/huff0 and
// the standard library; zframe calls it.
//
// Format: RFC 8878.
package zstdenc

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"github.com/klauspost/compress/huff0"
)

const (
	magic     = 0xFD2FB528
	maxBlock  = 128 << 10
	windowLog = 22
	minMatch  = 4
	// margin is the number of bytes loaded in one instruction.
	margin = 8
)

// Kinds of literals. The first three are also kinds of blocks.
const (
	raw = iota
	repeated
	compressed
	treeless
)

// Encoder encodes one frame at a time. It is not safe for concurrent use.
type Encoder struct {
	effort   effort
	checksum bool
	finder   finder
	fast     *fastFinder
	quick    bool   // the content is searched with fast instead of finder
	rep      [3]int // recent offsets, which have short codes

	// State of the block that is being encoded.
	literals  []byte
	sequences []sequence
	out       []byte

	huff                huff0.Scratch
	lits, offs, matches coder
}

// effort sets how thoroughly an encoder searches for matches.
type effort struct {
	rows  int // number of rows of the finder, a power of two
	ahead int // number of positions after a match to search for a better one
	// maxFour is the size in bytes of the largest content that is searched for matches of
	// four bytes. They save little if offsets are long.
	maxFour int
	// A content of more than minRows and at most maxRows bytes is searched with a finder,
	// and any other with a fastFinder. The reference implementation too uses stronger
	// parameters at level 3 only between these sizes.
	minRows, maxRows int
}

// efforts are the parameters of the levels from Lowest on. They reach about the sizes of
// the reference implementation at half its speed or more.
var efforts = [...]effort{
	{1 << 13, 0, 0, 128 << 10, 256 << 10},
	{1 << 14, 0, 128 << 10, -1, math.MaxInt},
	{1 << 15, 0, 128 << 10, -1, math.MaxInt},
	{1 << 15, 1, 128 << 10, -1, math.MaxInt},
	{1 << 15, 1, 128 << 10, -1, math.MaxInt},
	{1 << 16, 1, 128 << 10, -1, math.MaxInt},
	{1 << 16, 1, 128 << 10, -1, math.MaxInt},
}

// Lowest and Highest are the levels of the reference implementation that an Encoder
// supports.
const (
	Lowest  = 3
	Highest = Lowest + len(efforts) - 1
)

// New returns an encoder for a level from Lowest to Highest. It takes 1.2 to 4 MiB of
// memory after its first use.
func New(level int, checksum bool) *Encoder {
	e := &Encoder{effort: efforts[level-Lowest], checksum: checksum}
	e.huff.WantLogLess = 6 // value of the reference implementation
	return e
}

// Append appends to dst a single frame that holds src and records its size.
func (e *Encoder) Append(dst, src []byte) []byte {
	e.begin(len(src))
	e.rep = [3]int{1, 4, 8}
	e.forget()
	dst = appendHeader(dst, len(src), e.checksum)
	for at, end := 0, -1; end < len(src); at = end {
		end = min(at+maxBlock, len(src))
		dst = e.appendBlock(dst, src, at, end)
	}
	if e.checksum {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(xxh64(src)))
	}
	return dst
}

// begin prepares for a content of n bytes.
func (e *Encoder) begin(n int) {
	e.quick = n <= e.effort.minRows || n > e.effort.maxRows
	if e.quick {
		if e.fast == nil {
			e.fast = new(fastFinder)
		}
		e.fast.begin(n)
		return
	}
	if e.finder.rows == nil {
		e.finder.rows = make([]row, e.effort.rows)
	}
	e.finder.begin(n, n <= e.effort.maxFour)
}

// forget makes the next block independent of the tables of earlier blocks.
func (e *Encoder) forget() {
	e.huff.Reuse = huff0.ReusePolicyNone
	e.lits.known, e.offs.known, e.matches.known = false, false, false
}

func appendHeader(dst []byte, size int, checksum bool) []byte {
	const oneSegment, withChecksum = 1 << 5, 1 << 2
	at := len(dst) + 4
	dst = append(binary.LittleEndian.AppendUint32(dst, magic), oneSegment)
	if checksum {
		dst[at] |= withChecksum
	}
	if size > 1<<windowLog {
		dst[at] &^= oneSegment
		dst = append(dst, (windowLog-10)<<3)
	}
	switch n := uint64(size); {
	case n < 256:
		return append(dst, byte(n))
	case n < 256+1<<16:
		dst[at] |= 1 << 6
		return binary.LittleEndian.AppendUint16(dst, uint16(n-256))
	case n < 1<<32:
		dst[at] |= 2 << 6
		return binary.LittleEndian.AppendUint32(dst, uint32(n))
	default:
		dst[at] |= 3 << 6
		return binary.LittleEndian.AppendUint64(dst, n)
	}
}

// appendBlock encodes src[at:end]. Matches may refer to any earlier bytes.
func (e *Encoder) appendBlock(dst, src []byte, at, end int) []byte {
	size, kind := end-at, compressed
	rep := e.rep
	if size > margin && matchLen(src[at+1:end], src[at:]) == size-1 {
		kind, e.out = repeated, append(e.out[:0], src[at])
	} else {
		e.literals, e.sequences, e.out = e.literals[:0], e.sequences[:0], e.out[:0]
		if e.quick {
			e.parseFast(src, at, end)
		} else {
			e.parse(src, at, end)
		}
		e.putLiterals()
		e.putSequences()
		size = len(e.out)
	}
	if size >= end-at && kind == compressed {
		e.rep = rep
		e.forget()
		size, kind, e.out = end-at, raw, append(e.out[:0], src[at:end]...)
	}
	h := size<<3 | kind<<1
	if end == len(src) {
		h |= 1
	}
	dst = append(dst, byte(h), byte(h>>8), byte(h>>16))
	return append(dst, e.out...)
}

// parse finds matches in src[at:end] and fills e.literals and e.sequences.
func (e *Encoder) parse(src []byte, at, end int) {
	f := &e.finder
	done := at                                  // everything before it is in sequences
	limit := min(end-minMatch, len(src)-margin) // last start position of a match
	for i := at; i < limit; {
		// The best match so far, and the number of bits of its offset.
		start, length, offset, cost := i, minMatch-1, 0, 0
		if n := repeats(src, i+1, end, e.rep[0]); n > 0 {
			start, length, offset = i+1, n, e.rep[0]
		}
		if offset > 0 && e.effort.ahead == 0 {
			f.put(src, i, i+1)
		} else if n, o := f.find(src, i, end, length); o > 0 {
			start, length, offset, cost = i, n, o, bits.Len(uint(o))
		}
		if offset == 0 {
			i += 1 + (i-done)>>7 // step faster while nothing matches
			continue
		}
		// A later match must be longer by about one byte per position, and by one byte
		// for four more bits of its offset.
		for k := 1; k <= e.effort.ahead && i+1 < limit; k++ {
			i++
			if n := repeats(src, i, end, e.rep[0]); n > 0 && start < i && (2+k)*(n-length) > 1-cost {
				start, length, offset, cost = i, n, e.rep[0], 0
			}
			if n, o := f.find(src, i, end, minMatch-1); o > 0 {
				if c := bits.Len(uint(o)); 4*(n-length) > c-cost+1+3*k {
					start, length, offset, cost = i, n, o, c
					k = 0
				}
			}
		}
		for start > done && start > offset && src[start-1] == src[start-1-offset] {
			start--
			length++
		}
		e.add(src, done, start, offset, length)
		done = start + length
		if done-i > 384 { // positions in the middle of long matches are not worth the time
			f.put(src, i+1, i+97)
			i = done - 33
		}
		f.put(src, i+1, min(done, limit))
		for i = done; i < limit; i = done {
			n := repeats(src, i, end, e.rep[1])
			if n == 0 {
				break
			}
			f.put(src, i, i+1)
			e.add(src, i, i, e.rep[1], n)
			done += n
		}
	}
	e.literals = append(e.literals, src[done:end]...)
}

// repeats returns the length of the match of src[i:end] with the bytes at i-offset, or 0
// if it is shorter than minMatch. src[i:end] must have at least minMatch bytes.
func repeats(src []byte, i, end, offset int) int {
	if i < offset || load32(src, i) != load32(src, i-offset) {
		return 0
	}
	return matchLen(src[i:end], src[i-offset:])
}

// add adds a sequence: the literals src[from:to] and a match. Recently used offsets have
// short codes.
//
// Source: RFC 8878, section 3.1.1.5.
func (e *Encoder) add(src []byte, from, to, offset, length int) {
	if k := len(e.literals); to-from <= 16 && cap(e.literals)-k >= 16 && len(src)-from >= 16 {
		*(*[16]byte)(e.literals[k : k+16]) = [16]byte(src[from:])
		e.literals = e.literals[:k+to-from]
	} else {
		e.literals = append(e.literals, src[from:to]...)
	}
	r := &e.rep
	code, skip := offset+3, 0 // without literals, the latest offset has no code
	if from == to {
		skip = 1
	}
	switch {
	case offset == r[0] && skip == 0:
		code = 1
	case offset == r[1]:
		code = 2 - skip
		r[0], r[1] = offset, r[0]
	default:
		if offset == r[2] {
			code = 3 - skip
		} else if offset == r[0]-1 && skip == 1 {
			code = 3
		}
		*r = [3]int{offset, r[0], r[1]}
	}
	e.sequences = append(e.sequences, sequence{literals: uint32(to - from), match: uint32(length - 3), offset: uint32(code)})
}

// putLiterals appends the literals section to e.out.
//
// Source: RFC 8878, section 3.1.1.3.1.
func (e *Encoder) putLiterals() {
	n := len(e.literals)
	var coded []byte
	var again bool
	err := huff0.ErrIncompressible
	switch {
	case n >= 1<<10:
		coded, again, err = huff0.Compress4X(e.literals, &e.huff)
	case n >= 32:
		coded, again, err = huff0.Compress1X(e.literals, &e.huff)
	}
	if err == nil {
		e.huff.Reuse = huff0.ReusePolicyAllow
		h := compressed | uint64(n)<<4
		if again {
			h++ // treeless
		}
		size, k := 3, uint64(len(coded))<<4
		switch {
		case n < 1<<10: // one stream
			h |= k << 10
		case n < 1<<14:
			h |= 2<<2 | k<<14
			size = 4
		default:
			h |= 3<<2 | k<<18
			size = 5
		}
		e.putHeader(h, size)
		e.out = append(e.out, coded...)
		return
	}
	kind, body := uint64(raw), e.literals
	if errors.Is(err, huff0.ErrUseRLE) {
		kind, body = repeated, body[:1]
	}
	switch {
	case n >= 1<<12:
		e.putHeader(kind|3<<2|uint64(n)<<4, 3)
	case n >= 1<<5:
		e.putHeader(kind|1<<2|uint64(n)<<4, 2)
	default:
		e.putHeader(kind|uint64(n)<<3, 1)
	}
	e.out = append(e.out, body...)
}

// putHeader appends the low bytes of h to e.out.
func (e *Encoder) putHeader(h uint64, bytes int) {
	n := len(e.out)
	e.out = binary.LittleEndian.AppendUint64(e.out, h)[:n+bytes]
}
