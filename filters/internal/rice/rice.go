// Package rice has the adaptive entropy code of CCSDS 121.0-B, which szip is
// made of: samples of up to 32 bits in blocks, each with the code that suits
// it. It stands below the filter szip.
//
// Source: CCSDS 121.0-B-3, Lossless Data Compression.
package rice

import "errors"

// ErrCorrupt is the error for input that no encoder makes.
var ErrCorrupt = errors.New("damaged entropy code")

// Params describe a stream.
type Params struct {
	// Bits is the size of a sample, 1 to 32.
	Bits uint
	// Block is the number of samples of a block, even.
	Block int
	// Interval is the number of blocks between reference samples.
	Interval int
	// Predict says that samples are stored as differences from the one before.
	Predict bool
}

// idBits is the size of the number of a block's code.
func (p *Params) idBits() uint {
	switch {
	case p.Bits > 16:
		return 5
	case p.Bits > 8:
		return 4
	}
	return 3
}

func (p *Params) max() uint32 { return uint32(1<<p.Bits - 1) }

// Decode fills dst with samples, each below 2^Bits: a code that stands for more
// is ErrCorrupt. It takes no memory.
func Decode(dst []uint32, src []byte, p Params) error {
	d := decoder{Params: p, src: src}
	per := p.Block * p.Interval
	for len(dst) > 0 {
		n := min(per, len(dst))
		if err := d.interval(dst[:n]); err != nil {
			return err
		}
		if p.Predict {
			unmap(dst[:n], p.max())
		}
		dst = dst[n:]
	}
	return nil
}

// decoder reads bits, the highest first.
type decoder struct {
	Params
	src  []byte
	ip   int
	acc  uint64
	have uint
	bad  bool
}

// fill makes at least 32 bits available; zeros follow the end.
func (d *decoder) fill() {
	for d.have <= 56 {
		b := uint64(0)
		if d.ip < len(d.src) {
			b = uint64(d.src[d.ip])
		} else if d.ip > len(d.src)+8 {
			d.bad = true
			return
		}
		d.ip++
		d.acc |= b << (56 - d.have)
		d.have += 8
	}
}

func (d *decoder) bits(n uint) uint32 {
	if n == 0 {
		return 0
	}
	if d.have < n {
		d.fill()
		if d.have < n {
			d.bad = true
			return 0
		}
	}
	v := uint32(d.acc >> (64 - n))
	d.acc <<= n
	d.have -= n
	return v
}

// unary counts zeros before a one.
func (d *decoder) unary() uint32 {
	n := uint32(0)
	for !d.bad {
		if d.bits(1) == 1 {
			return n
		}
		n++
	}
	return 0
}

// interval decodes the blocks up to the next reference sample; the last may
// be longer than dst.
func (d *decoder) interval(dst []uint32) error {
	for at := 0; at < len(dst); {
		ref := 0
		if at == 0 && d.Predict {
			ref = 1
		}
		n, err := d.block(dst, at, ref)
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// block decodes one block, or a run of blocks of zeros, and gives the number
// of samples. ref is 1 when the first is a reference.
func (d *decoder) block(dst []uint32, at, ref int) (int, error) {
	id := d.bits(d.idBits())
	put := func(i int, v uint32) {
		if v > d.max() {
			d.bad = true
		}
		if at+i < len(dst) {
			dst[at+i] = v
		}
	}
	extended := false
	if id == 0 {
		extended = d.bits(1) == 1
	}
	last := uint32(1)<<d.idBits() - 1
	if ref == 1 && id != last {
		put(0, d.bits(d.Bits))
	}
	n := d.Block
	switch {
	case id == last:
		for i := range n {
			put(i, d.bits(d.Bits))
		}
	case id == 0 && !extended:
		blocks := d.zeros(at / d.Block)
		n *= blocks
		if n > d.Block*d.Interval-at {
			return 0, ErrCorrupt
		}
		for i := ref; i < min(n, len(dst)-at); i++ {
			dst[at+i] = 0
		}
	case id == 0:
		for i := ref &^ 1; i < n; i += 2 {
			a, b := pair(d.unary())
			if i >= ref {
				put(i, a)
			}
			put(i+1, b)
		}
	default:
		d.split(put, ref, uint(id-1))
	}
	if d.bad {
		return 0, ErrCorrupt
	}
	return n, nil
}

// split decodes samples whose upper part is unary, and whose k low bits
// follow for all together.
func (d *decoder) split(put func(int, uint32), ref int, k uint) {
	var upper [256]uint32
	part := upper[:min(d.Block, len(upper))]
	for i := ref; i < len(part); i++ {
		part[i] = d.unary()
	}
	for i := ref; i < len(part); i++ {
		put(i, d.join(part[i], k))
	}
}

// join reads the k low bits of a sample; what its upper part shifts out is
// damage too.
func (d *decoder) join(upper uint32, k uint) uint32 {
	if upper > d.max()>>k {
		d.bad = true
	}
	return upper<<k | d.bits(k)
}

// zeros reads how many blocks of zeros there are, from block b of the
// interval on.
func (d *decoder) zeros(b int) int {
	const rest = 5 // up to the end of the segment of 64 blocks
	switch n := int(d.unary()) + 1; {
	case n == rest:
		return min(d.Interval-b, 64-b%64)
	case n > rest:
		return n - 1
	default:
		return n
	}
}

// pair finds the two samples of a number of the second extension.
func pair(m uint32) (a, b uint32) {
	sum := uint32(0)
	for (sum+1)*(sum+2)/2 <= m && sum < 1<<15 {
		sum++
	}
	b = m - sum*(sum+1)/2
	return sum - b, b
}

// unmap turns differences into samples; the first is a sample already.
func unmap(v []uint32, top uint32) {
	x := v[0]
	for i := 1; i < len(v); i++ {
		d := v[i]
		mask := uint32(0)
		if x > top/2 {
			mask = top
		}
		if half := d>>1 + d&1; half <= mask^x {
			x += d>>1 ^ -(d & 1)
		} else {
			x = mask ^ d
		}
		x &= top
		v[i] = x
	}
}
