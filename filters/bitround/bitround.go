// Package bitround implements the filter "bitround", which keeps only some bits of the
// mantissa of floats so that a later codec compresses them better. It imports
// core/codec/driver, core/dtype and filters/internal/filter; core/codec calls it.
//
// Unlike numcodecs, it leaves NaN unchanged and never rounds a finite value to infinity.
// It also leaves integers unchanged; numcodecs decodes such chunks but does not encode
// them.
package bitround

import (
	"context"
	"encoding/binary"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "bitround"

// Codec rounds floats. Decoding copies. It is safe for concurrent use.
type Codec struct {
	typ  dtype.Type
	drop uint // number of mantissa bits to drop
}

var _ driver.Codec = (*Codec)(nil)

// mantissa returns the number of mantissa bits.
func mantissa(t dtype.Type) int { return map[int]int{2: 10, 4: 23, 8: 52}[t.Size] }

// New returns a codec that keeps keepbits bits of the mantissa of floats of type t.
// Integers are not rounded.
func New(t dtype.Type, keepbits int) (*Codec, error) {
	switch t.Kind {
	case dtype.Float:
	case dtype.Int, dtype.Uint:
		return &Codec{typ: t}, nil
	default:
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be rounded; only floats and integers can", t)
	}
	if keepbits < 0 || keepbits > mantissa(t) {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "keepbits is %d, but the mantissa of %v has %d bits", keepbits, t, mantissa(t))
	}
	return &Codec{t, uint(mantissa(t) - keepbits)}, nil
}

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.bitround", Encode: true, Decode: true, Lossy: true,
			Summary: "floats rounded to some bits of the mantissa", Transform: driver.ArrayToArray,
			Params: []driver.Param{{Name: "keepbits", Type: driver.IntParam, Max: 52, Required: true, Doc: "bits of the mantissa to keep"}},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	keep := p.Int("keepbits")
	if err := p.Err(); err != nil {
		return nil, driver.Spec{}, err
	}
	c, err := New(in.DType, keep)
	return c, in, err
}

// Encode rounds the elements of src to nearest, ties to even.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	n, err := filter.Counts(ctx, dst, src, c.typ.Size, c.typ.Size)
	if err != nil {
		return 0, err
	}
	dst = dst[:n*c.typ.Size]
	var order binary.ByteOrder = binary.LittleEndian
	if c.typ.Order == dtype.Big {
		order = binary.BigEndian
	}
	switch {
	case c.drop == 0:
		copy(dst, src)
	case c.typ.Size == 2:
		for i := 0; i < len(dst); i += 2 {
			order.PutUint16(dst[i:], uint16(round(uint64(order.Uint16(src[i:])), c.drop, 0x7C00)))
		}
	case c.typ.Size == 4 && c.typ.Order != dtype.Big:
		encode32(dst, src, c.drop)
	case c.typ.Size == 4:
		for i := 0; i < len(dst); i += 4 {
			order.PutUint32(dst[i:], uint32(round(uint64(order.Uint32(src[i:])), c.drop, 0x7F80_0000)))
		}
	default:
		for i := 0; i < len(dst); i += 8 {
			order.PutUint64(dst[i:], round(order.Uint64(src[i:]), c.drop, 0x7FF0_0000_0000_0000))
		}
	}
	return len(dst), nil
}

// encode32 rounds little-endian float32 elements, the most common type.
func encode32(dst, src []byte, drop uint) {
	src = src[:len(dst)]
	half, mask := uint32(1)<<(drop-1)-1, ^uint32(0)<<drop
	for i := 0; i+4 <= len(dst); i += 4 {
		v := binary.LittleEndian.Uint32(src[i:])
		r := (v + v>>drop&1 + half) & mask
		if r&0x7F80_0000 == 0x7F80_0000 || v&0x7F80_0000 == 0x7F80_0000 {
			r = uint32(round(uint64(v), drop, 0x7F80_0000))
		}
		binary.LittleEndian.PutUint32(dst[i:], r)
	}
}

// round rounds the float with the bits v to nearest, ties to even, and clears its lowest
// drop bits. It truncates values that would round to infinity. inf holds the bits of
// infinity.
func round(v uint64, drop uint, inf uint64) uint64 {
	if v&inf == inf { // infinity and NaN
		return v
	}
	r := (v + v>>drop&1 + (1<<(drop-1) - 1)) >> drop << drop
	if r&inf == inf {
		return v >> drop << drop
	}
	return r
}

// Decode copies src.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	n, err := filter.Counts(ctx, dst, src, c.typ.Size, c.typ.Size)
	if err != nil {
		return 0, err
	}
	return copy(dst, src[:n*c.typ.Size]), nil
}
