// Package lzmadec decodes LZMA: raw streams, LZMA2, the "alone" file format and the xz
// container. The caller's output memory is also the dictionary, so that sizes declared in
// the input allocate no memory. Decoding stops when the context is done. The filter lzma
// uses it.
//
// Source: Igor Pavlov, LZMA specification (2015); The .xz File Format 1.2.1.
package lzmadec

import (
	"encoding/binary"
	"errors"
)

// ErrCorrupt is the error for invalid input, and ErrShort the error for output that does
// not fit. ErrUnsupported is the error for an xz filter that cannot be decoded, wrapped
// with the filter's name.
var (
	ErrCorrupt     = errors.New("invalid LZMA data")
	ErrShort       = errors.New("the output does not fit")
	ErrUnsupported = errors.New("decoding is not supported")
)

// Sizes of the probability model.
const (
	states      = 12
	posMax      = 16
	lenStates   = 4
	alignBits   = 4
	endPosModel = 14
	fullDist    = 1 << (endPosModel / 2)
	topValue    = 1 << 24
	probInit    = 1 << 10
	maxContext  = 4 // context bits of a literal, limited as in liblzma because they increase memory use
)

// lenModel holds the adaptive probabilities of match lengths.
type lenModel struct {
	choice, choice2 uint16
	low, mid        [posMax][8]uint16
	high            [256]uint16
}

// model holds the adaptive probabilities of a decoder.
type model struct {
	isMatch, isRep0Long         [states * posMax]uint16
	isRep, isRep0, isRep1, isR2 [states]uint16
	distSlot                    [lenStates][64]uint16
	special                     [1 + fullDist - endPosModel]uint16
	align                       [1 << alignBits]uint16
	length, repLength           lenModel
	literal                     []uint16
}

// decoder decodes one stream. dst is both the output and the dictionary.
type decoder struct {
	model
	dst   []byte
	at    int // index of the next output byte
	start int // start of the dictionary

	src        []byte
	ip         int
	rng, code  uint32
	state      int
	rep        [4]uint32
	lc, lp, pb uint
	over       bool         // whether the input is truncated
	stop       func() error // returns an error to stop decoding
}

// props sets the literal and position bits from the property byte.
func (d *decoder) props(b byte) error {
	if b >= 9*5*5 {
		return ErrCorrupt
	}
	d.lc, b = uint(b%9), b/9
	d.lp, d.pb = uint(b%5), uint(b/5)
	if d.lc+d.lp > maxContext {
		return ErrCorrupt
	}
	return nil
}

func fill(p []uint16) {
	for i := range p {
		p[i] = probInit
	}
}

// reset resets everything except the dictionary.
func (d *decoder) reset() {
	n := 0x300 << (d.lc + d.lp)
	if cap(d.literal) < n {
		d.literal = make([]uint16, n)
	}
	lit := d.literal[:n]
	d.model = model{literal: lit}
	fill(lit)
	for _, p := range [][]uint16{d.isMatch[:], d.isRep0Long[:], d.isRep[:], d.isRep0[:], d.isRep1[:], d.isR2[:], d.special[:], d.align[:]} {
		fill(p)
	}
	for i := range d.distSlot {
		fill(d.distSlot[i][:])
	}
	for _, l := range []*lenModel{&d.length, &d.repLength} {
		l.choice, l.choice2 = probInit, probInit
		for i := range l.low {
			fill(l.low[i][:])
			fill(l.mid[i][:])
		}
		fill(l.high[:])
	}
	d.state, d.rep = 0, [4]uint32{}
}

// begin starts the range decoder on src.
func (d *decoder) begin(src []byte) error {
	if len(src) < 5 || src[0] != 0 {
		return ErrCorrupt
	}
	d.src, d.ip = src, 5
	d.rng, d.code, d.over = 1<<32-1, binary.BigEndian.Uint32(src[1:]), false
	return nil
}

func (d *decoder) next() uint32 {
	if d.ip >= len(d.src) {
		d.over = true
		return 0
	}
	b := d.src[d.ip]
	d.ip++
	return uint32(b)
}

func (d *decoder) bit(p *uint16) int {
	v := uint32(*p)
	bound := d.rng >> 11 * v
	bit := 0
	if d.code < bound {
		d.rng = bound
		*p = uint16(v + (1<<11-v)>>5)
	} else {
		d.rng -= bound
		d.code -= bound
		*p = uint16(v - v>>5)
		bit = 1
	}
	if d.rng < topValue {
		d.rng <<= 8
		d.code = d.code<<8 | d.next()
	}
	return bit
}

// direct reads n bits without a model.
func (d *decoder) direct(n uint) uint32 {
	v := uint32(0)
	for ; n > 0; n-- {
		d.rng >>= 1
		d.code -= d.rng
		t := 0 - d.code>>31
		d.code += d.rng & t
		v = v<<1 + t + 1
		if d.rng < topValue {
			d.rng <<= 8
			d.code = d.code<<8 | d.next()
		}
	}
	return v
}

func (d *decoder) tree(p []uint16, n uint) int {
	m := 1
	for range n {
		m = m<<1 + d.bit(&p[m])
	}
	return m - 1<<n
}

func (d *decoder) reverse(p []uint16, n uint) uint32 {
	m, v := 1, uint32(0)
	for i := range n {
		b := d.bit(&p[m])
		m = m<<1 + b
		v |= uint32(b) << i
	}
	return v
}

func (d *decoder) matchLen(l *lenModel, pos int) int {
	if d.bit(&l.choice) == 0 {
		return d.tree3(&l.low[pos])
	}
	if d.bit(&l.choice2) == 0 {
		return 8 + d.tree3(&l.mid[pos])
	}
	return 16 + d.tree(l.high[:], 8)
}

func (d *decoder) tree3(p *[8]uint16) int {
	m := 2 + d.bit(&p[1])
	m = m<<1 + d.bit(&p[m])
	return (m<<1 + d.bit(&p[m])) - 8
}

func (d *decoder) distance(length int) uint32 {
	distSlot := uint32(d.tree(d.distSlot[min(length, lenStates-1)][:], 6))
	if distSlot < 4 {
		return distSlot
	}
	n := uint(distSlot>>1 - 1)
	dist := (2 | distSlot&1) << n
	if distSlot < endPosModel {
		return dist + d.reverse(d.special[dist-distSlot:], n)
	}
	dist += d.direct(n-alignBits) << alignBits
	return dist + d.reverse(d.align[:], alignBits)
}

func (d *decoder) literalByte() {
	before := byte(0)
	if d.at > d.start {
		before = d.dst[d.at-1]
	}
	at := (uint(d.at-d.start)&(1<<d.lp-1))<<d.lc + uint(before)>>(8-d.lc)
	p := d.literal[0x300*at:][:0x300]
	sym := 1
	if d.state >= 7 {
		match := int(d.dst[d.at-int(d.rep[0])-1])
		for sym < 0x100 {
			mb := match >> 7 & 1
			match <<= 1
			b := d.bit(&p[(1+mb)<<8+sym])
			sym = sym<<1 + b
			if mb != b {
				break
			}
		}
	}
	for sym < 0x100 {
		sym = sym<<1 + d.bit(&p[sym])
	}
	d.dst[d.at] = byte(sym)
	d.at++
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
}

// errEnd is returned at the end mark of a stream.
var errEnd = errors.New("end of stream")

// stopInterval is the number of symbols decoded between two calls to stop.
const stopInterval = 1 << 14

// run decodes until the output reaches end. If marked is set, it then continues to the
// end mark, for which it returns errEnd, or to the end of the input.
func (d *decoder) run(end int, marked bool) error {
	for n := 0; d.at < end || marked; n++ {
		if d.over {
			return ErrCorrupt
		}
		if n%stopInterval == 0 {
			if err := d.stop(); err != nil {
				return err
			}
		}
		if d.at == end && d.rngDone() {
			return nil
		}
		pos := (d.at - d.start) & (1<<d.pb - 1)
		if d.bit(&d.isMatch[d.state*posMax+pos]) == 0 {
			if d.at == end {
				return ErrShort
			}
			d.literalByte()
			continue
		}
		length, err := d.match(pos)
		if err != nil {
			return err
		}
		if err := d.copyMatch(length, end); err != nil {
			return err
		}
	}
	if d.over {
		return ErrCorrupt
	}
	return nil
}

// rngDone reports whether all input has been consumed, for streams that may lack an end
// mark.
func (d *decoder) rngDone() bool { return d.ip == len(d.src) && d.code == 0 }

// match reads the start of a match and returns its length.
func (d *decoder) match(pos int) (int, error) {
	if d.bit(&d.isRep[d.state]) == 0 {
		d.rep[3], d.rep[2], d.rep[1] = d.rep[2], d.rep[1], d.rep[0]
		length := d.matchLen(&d.length, pos)
		d.state = 7 + 3*btoi(d.state >= 7)
		d.rep[0] = d.distance(length)
		if d.rep[0] == 1<<32-1 {
			return 0, errEnd
		}
		return length + 2, nil
	}
	if d.bit(&d.isRep0[d.state]) == 0 {
		if d.bit(&d.isRep0Long[d.state*posMax+pos]) == 0 {
			d.state = 9 + 2*btoi(d.state >= 7)
			return 1, nil
		}
	} else {
		d.rotate()
	}
	length := d.matchLen(&d.repLength, pos)
	d.state = 8 + 3*btoi(d.state >= 7)
	return length + 2, nil
}

// rotate moves an older distance to the front.
func (d *decoder) rotate() {
	k := 1
	if d.bit(&d.isRep1[d.state]) != 0 {
		k = 2 + d.bit(&d.isR2[d.state])
	}
	dist := d.rep[k]
	copy(d.rep[1:k+1], d.rep[:k])
	d.rep[0] = dist
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (d *decoder) copyMatch(length, end int) error {
	dist := int64(d.rep[0]) + 1
	if dist > int64(d.at-d.start) {
		return ErrCorrupt
	}
	if length > end-d.at {
		return ErrShort
	}
	from := d.at - int(dist)
	for length > 0 { // the ranges overlap if the match is longer than its distance
		n := copy(d.dst[d.at:d.at+length], d.dst[from:d.at])
		d.at += n
		length -= n
	}
	return nil
}
