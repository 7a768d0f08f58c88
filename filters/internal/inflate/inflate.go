package inflate

import (
	"context"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Pool holds decoders for reuse. The zero Pool is ready. It is safe for
// concurrent use.
type Pool struct{ p sync.Pool }

// Get returns a decoder. The caller returns it with Put.
func (p *Pool) Get() *Decoder {
	if d, ok := p.p.Get().(*Decoder); ok {
		return d
	}
	return new(Decoder)
}

// Put returns a decoder to the pool.
func (p *Pool) Put(d *Decoder) { p.p.Put(d) }

// Decoder holds the tables of one block. The zero Decoder is ready. It is not safe for
// concurrent use.
type Decoder struct {
	lit     [litSize]uint32
	dist    [distSize]uint32
	pre     [preSize]uint32
	lengths [288 + 32]uint8
	isFixed bool // lit and dist are the tables of the fixed codes

	src, dst []byte
	ip, op   int    // next byte to read, next byte to write
	hold     uint64 // bits read but not consumed, the first in the lowest bit
	have     uint   // number of valid bits in hold
}

func corrupt(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", "", format, args...)
}

var errTruncated = ncerr.New(ncerr.ErrCorrupt, "", "", errText("compressed data is truncated"))

type errText string

func (e errText) Error() string { return string(e) }

func (d *Decoder) errFull() error {
	return ncerr.Errorf(ncerr.ErrShortBuffer, "", "", "the output exceeds the buffer of %d bytes", len(d.dst))
}

// Deflate decodes one DEFLATE stream at the start of src into dst. It returns the number
// of bytes written and read.
func (d *Decoder) Deflate(ctx context.Context, dst, src []byte) (written, read int, err error) {
	d.src, d.dst, d.ip, d.op, d.hold, d.have = src, dst, 0, 0, 0, 0
	defer func() { d.src, d.dst = nil, nil }()
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		if last, err = d.block(); err != nil {
			return d.op, d.ip, err
		}
	}
	return d.op, d.ip - int(d.have>>3), nil
}

// need makes at least n bits (at most 56) available and reports whether the input has
// them.
func (d *Decoder) need(n uint) bool {
	for d.have < n {
		if d.ip >= len(d.src) {
			return false
		}
		d.hold |= uint64(d.src[d.ip]) << d.have
		d.ip++
		d.have += 8
	}
	return true
}

// take removes and returns n bits, which must be available.
func (d *Decoder) take(n uint) int {
	v := d.hold & (1<<n - 1)
	d.hold >>= n
	d.have -= n
	return int(v) // at most 16 bits
}

// trim clears the bits above the valid ones, which the fast loop leaves.
func (d *Decoder) trim() { d.hold &= 1<<d.have - 1 }

// block decodes one block and reports whether it is the last one.
func (d *Decoder) block() (last bool, err error) {
	if !d.need(3) {
		return false, errTruncated
	}
	last = d.take(1) == 1
	switch d.take(2) {
	case 0:
		return last, d.stored()
	case 1:
		d.fixed()
	case 2:
		if err := d.dynamic(); err != nil {
			return false, err
		}
	default:
		return false, corrupt("unknown block type")
	}
	end, err := d.fast()
	if err == nil && !end {
		d.trim()
		err = d.slow()
	}
	d.trim()
	return last, err
}

func (d *Decoder) stored() error {
	d.take(d.have & 7)
	if !d.need(32) {
		return errTruncated
	}
	n, inverse := d.take(16), d.take(16)
	if n != ^inverse&0xFFFF {
		return corrupt("inconsistent length of a stored block")
	}
	d.ip -= int(d.have >> 3)
	d.hold, d.have = 0, 0
	switch {
	case n > len(d.src)-d.ip:
		return errTruncated
	case n > len(d.dst)-d.op:
		return d.errFull()
	}
	copy(d.dst[d.op:], d.src[d.ip:d.ip+n])
	d.ip += n
	d.op += n
	return nil
}

// fixed builds the tables of the fixed codes unless they already exist.
func (d *Decoder) fixed() {
	if d.isFixed {
		return
	}
	for i := range 288 {
		switch {
		case i < 144:
			d.lengths[i] = 8
		case i < 256:
			d.lengths[i] = 9
		case i < 280:
			d.lengths[i] = 7
		default:
			d.lengths[i] = 8
		}
	}
	for i := range 32 {
		d.lengths[288+i] = 5
	}
	build(d.lit[:], litBits, d.lengths[:288], litSymbol)
	build(d.dist[:], distBits, d.lengths[288:], distSymbol)
	d.isFixed = true
}

var preOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamic reads the code lengths of a block and builds its tables.
func (d *Decoder) dynamic() error {
	if !d.need(14) {
		return errTruncated
	}
	nlit, ndist, npre := d.take(5)+257, d.take(5)+1, d.take(4)+4
	if nlit > 286 || ndist > 30 {
		return corrupt("too many codes: %d length and %d distance codes", nlit, ndist)
	}
	var pre [19]uint8
	for i := range npre {
		if !d.need(3) {
			return errTruncated
		}
		pre[preOrder[i]] = uint8(d.take(3)) // 3 bits
	}
	if !build(d.pre[:], preBits, pre[:], preSymbol) {
		return corrupt("invalid code of code lengths")
	}
	if err := d.codeLengths(nlit + ndist); err != nil {
		return err
	}
	d.isFixed = false
	if !build(d.lit[:], litBits, d.lengths[:nlit], litSymbol) {
		return corrupt("invalid literal and length code")
	}
	if !build(d.dist[:], distBits, d.lengths[nlit:nlit+ndist], distSymbol) {
		return corrupt("invalid distance code")
	}
	return nil
}

func (d *Decoder) codeLengths(total int) error {
	for i := 0; i < total; {
		d.need(preBits + 7) // or as many bits as remain
		e := d.pre[d.hold&(preSize-1)]
		n := uint(e & 31)
		if e&flagSpecial != 0 {
			if d.have < preBits {
				return errTruncated
			}
			return corrupt("undefined code in the code lengths")
		}
		if n > d.have {
			return errTruncated
		}
		d.take(n)
		symbol := e >> 16
		if symbol < 16 {
			d.lengths[i] = uint8(symbol)
			i++
			continue
		}
		extra := [3]uint{2, 3, 7}[symbol-16]
		if extra > d.have {
			return errTruncated
		}
		repeat, value := [3]int{3, 3, 11}[symbol-16]+d.take(extra), uint8(0)
		if symbol == 16 {
			if i == 0 {
				return corrupt("the first code length is a repetition of the previous one")
			}
			value = d.lengths[i-1]
		}
		if i+repeat > total {
			return corrupt("too many code lengths")
		}
		for range repeat {
			d.lengths[i] = value
			i++
		}
	}
	return nil
}

// look returns the entry for the available bits. If the entry is in a subtable, look
// consumes the bits that index the root table.
func (d *Decoder) look(table []uint32, rootBits uint) (uint32, error) {
	e := table[d.hold&(1<<rootBits-1)]
	if e&flagLink != 0 {
		if d.have < rootBits {
			return 0, errTruncated
		}
		d.take(rootBits)
		e = table[e>>16+uint32(d.hold&(1<<(e>>8&15)-1))]
	}
	if uint(e>>8&15) > d.have || e&31 == 0 && d.have < maxCode {
		return 0, errTruncated
	}
	if e&(flagSpecial|flagEnd) == flagSpecial {
		return 0, corrupt("invalid code")
	}
	return e, nil
}

// value consumes the bits of an entry and returns its base plus the extra bits.
func (d *Decoder) value(e uint32) (int, error) {
	total, code := uint(e&31), uint(e>>8&15)
	if total > d.have {
		return 0, errTruncated
	}
	bits := d.take(total) >> code
	return int(e>>16&0x7FFF) + bits, nil
}

// slow decodes the rest of a block near the ends of the buffers, where every step needs
// bounds checks.
func (d *Decoder) slow() error {
	for {
		d.need(48) // or as many bits as remain
		e, err := d.look(d.lit[:], litBits)
		if err != nil {
			return err
		}
		if e&flagLiteral != 0 {
			d.take(uint(e & 31))
			if d.op >= len(d.dst) {
				return d.errFull()
			}
			d.dst[d.op] = byte(e >> 16)
			d.op++
			continue
		}
		if e&flagSpecial != 0 {
			d.take(uint(e & 31))
			return nil
		}
		if err := d.slowMatch(e); err != nil {
			return err
		}
	}
}

func (d *Decoder) slowMatch(e uint32) error {
	length, err := d.value(e)
	if err != nil {
		return err
	}
	if e, err = d.look(d.dist[:], distBits); err != nil {
		return err
	}
	dist, err := d.value(e)
	if err != nil {
		return err
	}
	switch {
	case dist > d.op:
		return corrupt("distance %d is before the start of the output", dist)
	case length > len(d.dst)-d.op:
		return d.errFull()
	}
	for range length {
		d.dst[d.op] = d.dst[d.op-dist]
		d.op++
	}
	return nil
}
