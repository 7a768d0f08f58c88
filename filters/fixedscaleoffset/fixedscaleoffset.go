// Package fixedscaleoffset is the filter "fixedscaleoffset": elements less an
// offset, times a scale, rounded and stored as another type. It imports
// core/codec/driver, core/dtype and the kernels below filters/internal;
// core/codec calls it.
//
// Unlike numcodecs it refuses values that the stored type cannot hold instead
// of storing other ones.
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

// Codec encodes and decodes. It is safe for concurrent use. A value that does
// not fit is ncerr.ErrConvert when encoding, ErrCorrupt when decoding.
type Codec struct {
	plain, coded  dtype.Type
	offset, scale float64
}

var _ driver.Codec = (*Codec)(nil)

// New makes a codec for elements of type plain, stored as type coded: both
// must be numbers, scale must not be 0.
func New(plain, coded dtype.Type, offset, scale float64) (*Codec, error) {
	if !plain.Numeric() || !coded.Numeric() {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v are not scaled to %v", plain, coded)
	}
	if scale == 0 {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "a scale of 0 keeps nothing")
	}
	return &Codec{plain, coded, offset, scale}, nil
}

// Provider gives the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.fixedscaleoffset", Encode: true, Decode: true, Lossy: true,
			Summary: "elements less an offset, times a scale, rounded", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "offset", Type: driver.FloatParam, Required: true, Doc: "taken from each element"},
				{Name: "scale", Type: driver.FloatParam, Required: true, Doc: "what the difference is multiplied with, not 0"},
				{Name: "dtype", Type: driver.DTypeParam, Input: driver.InputType, Doc: "type of the decoded elements; absent: that of the array"},
				{Name: "astype", Type: driver.DTypeParam, Doc: "type of the encoded elements; absent: dtype"},
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

// Encode scales and rounds, in the precision of the decoded type when that is
// a float, else in float64, as numpy does.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Compute(ctx, dst, c.coded, src, c.plain, c.forward, filter.Unfit)
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

// Decode is the reverse, in the precision of the stored type when that is a
// float, else in float64.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Compute(ctx, dst, c.plain, src, c.coded, c.backward, filter.Misfit)
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

// precision is the size of the floats that numpy computes in.
func precision(t dtype.Type) int {
	if t.Kind == dtype.Float {
		return t.Size
	}
	return 8
}

// half rounds to binary16.
func half(v float64) float64 {
	t := dtype.Type{Kind: dtype.Float, Size: 2, Order: dtype.Little}
	var e [2]byte
	t.PutFloat(e[:], v)
	return t.Float(e[:])
}
