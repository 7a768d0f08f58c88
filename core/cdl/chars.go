package cdl

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// packer converts character and string constants to bytes. Each string, and each run of
// single characters, is padded to a multiple of unit. An empty string occupies a whole
// unit if padEmpty is set.
//
// Source: the netCDF CDL manual, "character constants"; netcdf-c ncgen.
type packer struct {
	converter
	unit     int64
	padEmpty bool
	fill     byte
	put      func(text []byte) error          // receives the bytes of the constants
	pad      func(fill []byte, n int64) error // receives n repetitions of the byte in fill; nil if unit is 1
	run      int64                            // length of the run of single characters
	total    int64                            // bytes so far, including padding
	pos      Pos                              // position of the last constant
	one      [1]byte
}

// packerFor returns the packer of a variable. Strings are padded to the length of the
// last dimension, unless it is unlimited or the only dimension.
func (c converter) packerFor(v *Var, pad func([]byte, int64) error, put func([]byte) error) packer {
	p := packer{converter: c, unit: 1, padEmpty: true, fill: charFill(v), put: put, pad: pad}
	if rank := len(v.Dims); rank > 0 {
		last := v.Dims[rank-1].Dim
		p.padEmpty = !last.Unlimited
		if rank > 1 && !last.Unlimited && last.Len > 0 {
			p.unit = last.Len
		}
	}
	return p
}

// add adds the next constant.
func (p *packer) add(v *Value) error {
	p.pos = v.Pos
	p.one[0] = byte(v.Bits) // a character, or the bits of a byte
	switch {
	case v.Kind == Text:
		if err := p.end(); err != nil {
			return err
		}
		if err := p.put([]byte(v.Text)); err != nil {
			return err
		}
		return p.fillUp(int64(len(v.Text)))
	case v.Kind == Char, v.Kind == Number && (v.Type == dtype.NCByte || v.Type == dtype.NCUByte):
	case v.Kind == Fill:
		p.one[0] = p.fill
	default:
		return p.fail(ncerr.ErrConvert, v.Pos, "expected a string or a character")
	}
	p.run++
	return p.put(p.one[:])
}

// end ends the run of single characters.
func (p *packer) end() error {
	n := p.run
	if p.run = 0; n == 0 {
		return nil
	}
	return p.fillUp(n)
}

// fillUp pads a string of n bytes.
func (p *packer) fillUp(n int64) error {
	pad := (p.unit - n%p.unit) % p.unit
	if n == 0 && p.padEmpty {
		pad = p.unit
	}
	if p.total > math.MaxInt64-n-pad {
		return p.fail(ncerr.ErrLimit, p.pos, "the strings up to here exceed 2^63 bytes when padded to %d bytes each", p.unit)
	}
	if p.total += n + pad; pad == 0 || p.pad == nil {
		return nil
	}
	p.one[0] = p.fill
	return p.pad(p.one[:], pad)
}
