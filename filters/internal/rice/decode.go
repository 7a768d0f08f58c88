package rice

import (
	"encoding/binary"
	"math/bits"
)

// maxUnary limits the number of zeros before a one. No useful stream has as many,
// because an unencoded sample takes less space.
const maxUnary = 1 << 31

// Decoder reads a stream. It is not safe for concurrent use.
type Decoder struct {
	Params
	idLen uint
	top   uint32
	src   []byte
	ip    int    // index of the next byte of src
	acc   uint64 // the next bits, the highest first; only the first have bits are valid
	have  uint
	bad   bool
}

// NewDecoder returns a Decoder for src, which it does not change.
func NewDecoder(src []byte, p Params) Decoder {
	return Decoder{Params: p, idLen: p.idBits(), top: p.max(), src: src}
}

// Next fills dst, of Len samples, with the next interval. All samples are below 2^Bits.
// Next fails with ErrCorrupt for a code of a larger value and for a code that extends
// past the end of the source. It allocates no memory.
func (d *Decoder) Next(dst []uint32) error {
	for at := 0; at < len(dst); {
		ref := 0
		if at == 0 && d.Predict {
			ref = 1
		}
		n := d.block(dst, at, ref)
		if d.bad || d.ip*8-int(d.have) > len(d.src)*8 {
			return ErrCorrupt
		}
		at += n
	}
	if d.Predict {
		unmap(dst, d.top)
	}
	return nil
}

// fill makes at least 56 bits available. Zeros follow the end of the source.
func (d *Decoder) fill() {
	if len(d.src)-d.ip >= 8 {
		d.acc |= binary.BigEndian.Uint64(d.src[d.ip:]) >> d.have
		d.ip += int(63-d.have) >> 3
		d.have |= 56
		return
	}
	for d.have < 56 {
		if d.ip < len(d.src) {
			d.acc |= uint64(d.src[d.ip]) << (56 - d.have)
		} else if d.ip > len(d.src)+8 {
			d.bad = true
		}
		d.ip++
		d.have += 8
	}
}

// bits reads a number of n bits. n is at most 32.
func (d *Decoder) bits(n uint) uint32 {
	if d.have < n {
		d.fill()
	}
	v := uint32(d.acc >> 1 >> (63 - n))
	d.acc <<= n
	d.have -= n
	return v
}

// unary returns the number of zeros before a one.
func (d *Decoder) unary() uint32 {
	n := uint(0)
	for {
		zeros := uint(bits.LeadingZeros64(d.acc))
		if zeros < d.have {
			d.acc <<= zeros + 1
			d.have -= zeros + 1
			return uint32(n + zeros)
		}
		if n += d.have; d.bad || n > maxUnary-64 {
			d.bad = true
			return 0
		}
		d.acc <<= d.have
		d.have = 0
		d.fill()
	}
}

// block decodes one block, or a run of zero blocks, to dst[at:] and returns the number of
// samples. ref is 1 if the first sample is a reference sample.
func (d *Decoder) block(dst []uint32, at, ref int) int {
	id, last := d.bits(d.idLen), uint32(1)<<d.idLen-1
	part := dst[at : at+d.Block]
	if id == last {
		for i := range part {
			part[i] = d.bits(d.Bits)
		}
		return len(part)
	}
	extended := id == 0 && d.bits(1) == 1
	if ref == 1 {
		part[0] = d.bits(d.Bits)
	}
	switch {
	case extended:
		d.extension(part, ref)
	case id == 0:
		n := d.Block * d.zeros(at/d.Block)
		if n > len(dst)-at {
			d.bad = true
			return 0
		}
		clear(dst[at+ref : at+n])
		return n
	default:
		d.split(part[ref:], uint(id-1))
	}
	return len(part)
}

// split decodes samples. The unary codes of the upper bits of all samples come first,
// then the k low bits of each sample.
func (d *Decoder) split(part []uint32, k uint) {
	most := d.top >> k // larger values would be shifted out
	large := uint32(0)
	for i := range part {
		upper := d.unary()
		large = max(large, upper)
		part[i] = upper << k
	}
	if large > most || k > d.Bits { // k itself may be too large
		d.bad = true
	}
	if k == 0 {
		return
	}
	for i := range part {
		part[i] |= d.bits(k)
	}
}

// extension decodes the second extension, one number per two samples. It drops the value
// in the place of a reference sample.
func (d *Decoder) extension(part []uint32, ref int) {
	large := uint32(0)
	for i := 0; i < len(part); i += 2 {
		m := d.unary()
		if m >= uint32(len(pairs)) {
			d.bad = true
			return
		}
		a, b := uint32(pairs[m][0]), uint32(pairs[m][1])
		if i >= ref {
			part[i] = a
			large = max(large, a)
		}
		part[i+1] = b
		large = max(large, b)
	}
	if large > d.top {
		d.bad = true
	}
}

// zeros reads the number of zero blocks, starting with block b of the interval.
func (d *Decoder) zeros(b int) int {
	const rest = 5 // this number means all blocks to the end of the segment of 64 blocks
	switch n := int(d.unary()) + 1; {
	case n == rest:
		return min(d.Interval-b, 64-b%64)
	case n > rest:
		return n - 1
	default:
		return n
	}
}

// pairs are the pairs of samples in the order of their codes in the reference decoder: by
// their sum, and pairs with the same sum by the second sample. Only codes below
// len(pairs) are accepted.
var pairs = func() (t [91][2]uint8) {
	m := 0
	for sum := uint8(0); m < len(t); sum++ {
		for b := uint8(0); b <= sum && m < len(t); b++ {
			t[m] = [2]uint8{sum - b, b}
			m++
		}
	}
	return t
}()
