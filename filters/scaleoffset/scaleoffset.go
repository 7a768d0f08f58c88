// Package scaleoffset implements the filter "scale_offset" of Zarr v3, which subtracts an
// offset from numbers and multiplies them by a scale, in the arithmetic of their type. It
// imports core/codec/driver, core/dtype and filters/internal/filter; core/codec calls it.
//
// Source: zarr-extensions, "scale_offset".
package scaleoffset

import (
	"context"
	"math/bits"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the Zarr v3 name.
const ID = "scale_offset"

// Codec scales numbers. It is safe for concurrent use. Encode fails with ncerr.ErrConvert
// and Decode with ncerr.ErrCorrupt for an integer whose result is not an integer of the
// same type.
type Codec struct {
	typ           dtype.Type
	offset, scale float64 // of floats
	whole         whole   // of integers
}

var _ driver.Codec = (*Codec)(nil)

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: ID, Encode: true, Decode: true, Lossy: true, LossNote: "the last bits of floats",
			Summary: "numbers minus an offset, times a scale; only in Zarr v3", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "offset", Type: driver.FloatParam, Default: "0", Doc: "subtracted from each element; a value of the type of the elements"},
				{Name: "scale", Type: driver.FloatParam, Default: "1", Doc: "factor by which the difference is multiplied; a value of the type of the elements, not 0"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	c := &Codec{typ: in.DType, offset: p.Float("offset"), scale: p.Float("scale")}
	switch c.typ.Kind {
	case dtype.Float:
		c.offset, c.scale = c.nearest(c.offset), c.nearest(c.scale)
	case dtype.Int, dtype.Uint:
		c.whole.offset, c.whole.scale = c.integer(p, "offset", 0), c.integer(p, "scale", 1)
	default:
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be scaled; only integers and floats can", c.typ)
	}
	if c.scale == 0 {
		p.Fail("scale", "it must not be 0")
	}
	out, err := filter.Elements(in, in.DType, in.DType)
	return c, out, err
}

// integer returns a parameter that is an integer of the type of the elements.
func (c *Codec) integer(p *filter.Params, name string, def int64) integer {
	text := strings.Trim(p.Exact(name), `" `)
	if text == "" {
		return integer{magnitude: uint64(def)}
	}
	digits, negative := strings.CutPrefix(text, "-")
	magnitude, err := strconv.ParseUint(digits, 10, 64)
	v := integer{negative && magnitude != 0, magnitude}
	if err != nil || !v.fits(c.typ) {
		p.Fail(name, "%s is not a value of type %v", text, c.typ)
	}
	return v
}

// Encode subtracts the offset from each element and multiplies it by the scale.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if c.typ.Kind == dtype.Float {
		return filter.Compute(ctx, dst, c.typ, src, c.typ, func(b []float64) {
			for i, v := range b {
				b[i] = c.nearest(v-c.offset) * c.scale // PutFloats rounds the result
			}
		}, overflow)
	}
	return c.integers(ctx, dst, src, c.whole.encode, filter.EncodeError)
}

// Decode divides each element by the scale and adds the offset.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if c.typ.Kind == dtype.Float {
		return filter.Compute(ctx, dst, c.typ, src, c.typ, func(b []float64) {
			for i, v := range b {
				b[i] = c.nearest(v/c.scale) + c.offset // PutFloats rounds the result
			}
		}, filter.DecodeError)
	}
	return c.integers(ctx, dst, src, c.whole.decode, filter.DecodeError)
}

// overflow returns the error for a float that becomes infinite.
func overflow(src []byte, t dtype.Type, i int, _ dtype.Type) error {
	return ncerr.Errorf(ncerr.ErrConvert, "", "", "element %d is %v, which becomes infinite when it is scaled", i, t.Value(src[i*t.Size:]))
}

// nearest rounds v to the precision of the elements.
func (c *Codec) nearest(v float64) float64 {
	switch c.typ.Size {
	case 2:
		var e [2]byte
		t := c.typ.WithOrder(dtype.Little)
		t.PutFloat(e[:], v)
		return t.Float(e[:])
	case 4:
		return float64(float32(v))
	}
	return v
}

func (c *Codec) integers(ctx context.Context, dst, src []byte, f func(integer) (integer, bool), bad func([]byte, dtype.Type, int, dtype.Type) error) (int, error) {
	size := c.typ.Size
	n, err := filter.Counts(ctx, dst, src, size, size)
	if err != nil {
		return 0, err
	}
	for i := range n {
		v, ok := f(integerAt(c.typ, src[i*size:]))
		if !ok || !v.fits(c.typ) {
			return 0, bad(src, c.typ, i, c.typ)
		}
		if v.negative {
			v.magnitude = -v.magnitude
		}
		c.typ.PutBits(dst[i*size:], v.magnitude)
	}
	return n * size, nil
}

// integer is an integer with a magnitude of 64 bits. Zero is not negative.
type integer struct {
	negative  bool
	magnitude uint64
}

// integerAt returns the element of type t at the start of e.
func integerAt(t dtype.Type, e []byte) integer {
	if i := t.Int(e); i < 0 && t.Kind == dtype.Int {
		return integer{true, -uint64(i)}
	}
	return integer{magnitude: t.Bits(e)}
}

// fits reports whether t can represent v.
func (v integer) fits(t dtype.Type) bool {
	n := 8 * uint(t.Size)
	switch {
	case t.Kind == dtype.Uint:
		return !v.negative && v.magnitude>>(n-1)>>1 == 0
	case v.negative:
		return v.magnitude <= 1<<(n-1)
	}
	return v.magnitude < 1<<(n-1)
}

// add returns the sum of v and w, and whether its magnitude has 64 bits.
func (v integer) add(w integer) (integer, bool) {
	switch {
	case v.negative == w.negative:
		sum, carry := bits.Add64(v.magnitude, w.magnitude, 0)
		return integer{v.negative, sum}, carry == 0
	case v.magnitude < w.magnitude:
		return integer{w.negative, w.magnitude - v.magnitude}, true
	}
	diff := v.magnitude - w.magnitude
	return integer{v.negative && diff != 0, diff}, true
}

// whole is the scale and the offset of integers.
type whole struct{ offset, scale integer }

func (w *whole) encode(v integer) (integer, bool) {
	minus := w.offset
	minus.negative = !minus.negative && minus.magnitude != 0
	v, ok := v.add(minus)
	high, low := bits.Mul64(v.magnitude, w.scale.magnitude)
	return integer{v.negative != w.scale.negative && low != 0, low}, ok && high == 0
}

func (w *whole) decode(v integer) (integer, bool) {
	if v.magnitude%w.scale.magnitude != 0 {
		return v, false
	}
	quotient := v.magnitude / w.scale.magnitude
	return integer{v.negative != w.scale.negative && quotient != 0, quotient}.add(w.offset)
}
