// Package quantize implements the filter "quantize", which rounds floats to multiples of
// a power of two that keep at least the given number of decimal digits. It imports
// core/codec/driver, core/dtype and the helpers in filters/internal; core/codec calls it.
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

// Codec rounds floats. It is safe for concurrent use. Encode fails with ncerr.ErrConvert
// if the stored type cannot hold a value.
type Codec struct {
	plain, coded dtype.Type
	scale        float64 // a power of two
}

var _ driver.Codec = (*Codec)(nil)

// New returns a codec that stores floats of type plain as floats of type coded. It keeps
// digits decimal digits after the point; a negative number of digits rounds digits before
// the point.
func New(plain, coded dtype.Type, digits int) (*Codec, error) {
	if plain.Kind != dtype.Float || coded.Kind != dtype.Float {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "both types must be floats, but they are %v and %v", plain, coded)
	}
	return &Codec{plain, coded, math.Ldexp(1, int(math.Ceil(math.Log2(math.Pow10(digits)))))}, nil
}

const maxDigits = 300 // 10 to this power is a finite float

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.quantize", Encode: true, Decode: true, Lossy: true,
			Summary: "floats rounded to a number of decimal digits", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "digits", Type: driver.IntParam, Min: -maxDigits, Max: maxDigits, Required: true, Doc: "decimal digits after the point"},
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
	c, err := New(plain, coded, p.Int("digits"))
	if err != nil {
		return nil, driver.Spec{}, err
	}
	out, err := filter.Elements(in, plain, coded)
	return c, out, err
}

// Encode rounds in the precision of the decoded type, as NumPy does.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Compute(ctx, dst, c.coded, src, c.plain, c.round, filter.EncodeError)
}

func (c *Codec) round(b []float64) {
	for i, v := range b {
		r := math.RoundToEven(v*c.scale) / c.scale
		if r-r != 0 && v-v == 0 { // scaling overflows only for values without digits after the point
			r = v
		}
		b[i] = r
	}
}

// Decode converts to the decoded type. It does not restore rounded digits.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Convert(ctx, dst, c.plain, src, c.coded, filter.DecodeError)
}
