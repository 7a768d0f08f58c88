// Package fixedscaleoffset implements the filter "fixedscaleoffset", which subtracts an
// offset from elements, multiplies them by a scale, rounds them and stores them as
// another type. It imports core/codec/driver, core/dtype and the helpers in
// filters/internal; core/codec calls it.
//
// Unlike numcodecs, it rejects values that the stored type cannot hold instead of storing
// a different value.
package fixedscaleoffset

import (
	"context"
	"math"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "fixedscaleoffset"

// Codec scales elements. It is safe for concurrent use. Encode fails with
// ncerr.ErrConvert and Decode with ncerr.ErrCorrupt if a value does not fit the other
// type.
type Codec struct {
	plain, coded  dtype.Type
	offset, scale float64
}

var _ driver.Codec = (*Codec)(nil)

// New returns a codec that stores elements of type plain as type coded. Both must be
// numeric, and scale must not be 0.
func New(plain, coded dtype.Type, offset, scale float64) (*Codec, error) {
	if !plain.Numeric() || !coded.Numeric() {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be stored as %v", plain, coded)
	}
	if scale == 0 {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "scale must not be 0")
	}
	return &Codec{plain, coded, offset, scale}, nil
}

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.fixedscaleoffset", Encode: true, Decode: true, Lossy: true,
			Summary: "elements minus an offset, times a scale, rounded", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "offset", Type: driver.FloatParam, Required: true, Doc: "subtracted from each element"},
				{Name: "scale", Type: driver.FloatParam, Required: true, Doc: "factor by which the difference is multiplied; must not be 0"},
				{Name: "dtype", Type: driver.DTypeParam, Input: driver.InputType, Doc: "type of the decoded elements; default: the type of the array"},
				{Name: "astype", Type: driver.DTypeParam, Doc: "type of the encoded elements; default: dtype"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	plain := filter.DType(p, "dtype", in.DType)
	coded := filter.DType(p, "astype", plain)
	offset, scale := p.Float("offset"), p.Float("scale")
	if err := p.Err(); err != nil {
		return nil, driver.Spec{}, err
	}
	c, err := New(plain, coded, offset, scale)
	if err != nil {
		return nil, driver.Spec{}, err
	}
	out, err := filter.Elements(in, plain, coded)
	if err == nil {
		out, err = filter.Flat(out)
	}
	return c, out, err
}

// Encode scales and rounds src. It computes in the precision of the decoded type if that
// is a float, and otherwise in float64, as NumPy does.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Compute(ctx, dst, c.coded, src, c.plain, c.forward, filter.EncodeError)
}

func (c *Codec) forward(b []float64) {
	switch precision(c.plain) {
	case 2:
		offset, scale := half(c.offset), half(c.scale)
		for i, v := range b {
			b[i] = math.RoundToEven(half(half(v-offset) * scale))
		}
	case 4:
		offset, scale := float32(c.offset), float32(c.scale)
		for i, v := range b {
			b[i] = math.RoundToEven(float64((float32(v) - offset) * scale))
		}
	default:
		for i, v := range b {
			b[i] = math.RoundToEven(float64(v-c.offset) * c.scale)
		}
	}
}

// Decode reverses Encode. It computes in the precision of the stored type if that is a
// float, and otherwise in float64.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Compute(ctx, dst, c.plain, src, c.coded, c.backward, filter.DecodeError)
}

func (c *Codec) backward(b []float64) {
	switch precision(c.coded) {
	case 2:
		offset, scale := half(c.offset), half(c.scale)
		for i, v := range b {
			b[i] = half(half(v/scale) + offset)
		}
	case 4:
		offset, scale := float32(c.offset), float32(c.scale)
		for i, v := range b {
			b[i] = float64(float32(v)/scale + offset)
		}
	default:
		for i, v := range b {
			b[i] = float64(v/c.scale) + c.offset
		}
	}
}

// precision returns the size of the floats that NumPy computes with.
func precision(t dtype.Type) int {
	if t.Kind == dtype.Float {
		return t.Size
	}
	return 8
}

// half rounds v to binary16.
func half(v float64) float64 {
	t := dtype.Type{Kind: dtype.Float, Size: 2, Order: dtype.Little}
	var e [2]byte
	t.PutFloat(e[:], v)
	return t.Float(e[:])
}
