// Package quantize is the filter "quantize": floats rounded to a number of
// decimal digits, by way of the next power of two. It imports
// core/codec/driver, core/dtype and the kernels below filters/internal;
// core/codec calls it.
package quantize

import (
	"context"
	"math"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "quantize"

// Codec encodes and decodes. It is safe for concurrent use. A value that the
// stored type cannot hold is ncerr.ErrConvert.
type Codec struct {
	plain, coded dtype.Type
	scale        float64 // a power of two
}

var _ driver.Codec = (*Codec)(nil)

// New makes a codec for floats of type plain, stored as floats of type coded,
// with digits decimal digits kept behind the point; a negative number rounds
// before it.
func New(plain, coded dtype.Type, digits int) (*Codec, error) {
	if plain.Kind != dtype.Float || coded.Kind != dtype.Float {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "only floats are rounded, not %v to %v", plain, coded)
	}
	return &Codec{plain, coded, math.Ldexp(1, int(math.Ceil(math.Log2(math.Pow10(digits)))))}, nil
}

const most = 300 // its power of ten is a finite float

// Provider gives the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.quantize", Encode: true, Decode: true, Lossy: true,
			Summary: "floats rounded to a number of decimal digits", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "digits", Type: driver.IntParam, Min: -most, Max: most, Required: true, Doc: "decimal digits behind the point"},
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
	c, err := New(plain, coded, p.Int("digits"))
	if err != nil {
		return nil, driver.Spec{}, err
	}
	out, err := filter.Elements(in, plain, coded)
	return c, out, err
}

// Encode rounds, in the precision of the decoded type as numpy does.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Compute(ctx, dst, c.coded, src, c.plain, c.round, filter.Unfit)
}

func (c *Codec) round(b []float64) {
	for i, v := range b {
		r := math.RoundToEven(v*c.scale) / c.scale
		if r-r != 0 && v-v == 0 { // the scale leads out of the range, where nothing is behind the point
			r = v
		}
		b[i] = r
	}
}

// Decode converts to the decoded type; what was rounded off is lost.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Convert(ctx, dst, c.plain, src, c.coded, filter.Misfit)
}
