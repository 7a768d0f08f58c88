// Package rice implements the adaptive entropy code of CCSDS 121.0-B, which szip uses. It
// encodes samples of up to 32 bits in blocks, each with the cheapest code. The filter
// szip uses it.
//
// Source: CCSDS 121.0-B-3, Lossless Data Compression.
package rice

import "errors"

// ErrCorrupt is the error for invalid input.
var ErrCorrupt = errors.New("invalid entropy-coded data")

// Params describe a stream.
type Params struct {
	// Bits is the size of a sample in bits, 1 to 32.
	Bits uint
	// Block is the number of samples of a block. It is even.
	Block int
	// Interval is the number of blocks between reference samples.
	Interval int
	// Predict selects storing each sample as its difference from the previous one.
	Predict bool
}

// Len returns the number of samples of an interval.
func (p *Params) Len() int { return p.Block * p.Interval }

// idBits returns the size in bits of a block's code number.
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

// MaxEncoded returns the largest encoded size of n samples in bytes.
func MaxEncoded(n int64, p Params) int64 {
	blocks := (n+int64(p.Block)-1)/int64(p.Block) + 1
	return blocks*(int64(p.Block)*int64(p.Bits)+8)/8 + 16
}

// unmap converts differences to samples. The first element is already a sample.
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

// remap converts all samples except the first to differences.
func remap(v []uint32, top uint32) {
	before := v[0]
	for i := 1; i < len(v); i++ {
		x := v[i]
		reach := min(before, top-before)
		switch d := int64(x) - int64(before); {
		case d >= 0 && d <= int64(reach):
			v[i] = uint32(2 * d)
		case d < 0 && -d <= int64(reach):
			v[i] = uint32(-2*d - 1)
		case d < 0:
			v[i] = reach + uint32(-d)
		default:
			v[i] = reach + uint32(d)
		}
		before = x
	}
}
