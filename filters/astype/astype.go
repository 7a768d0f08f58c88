// Package astype implements the filter "astype", which stores elements as another numeric
// type. It imports core/codec/driver, core/dtype and the helpers in filters/internal;
// core/codec calls it.
//
// Unlike numcodecs, it rejects values that the other type cannot hold, in both directions,
// instead of storing a different value.
package astype

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "astype"

// Codec converts elements. It is safe for concurrent use. Encode fails with
// ncerr.ErrConvert and Decode with ncerr.ErrCorrupt if a value does not fit the other
// type.
type Codec struct{ plain, coded dtype.Type }

var _ driver.Codec = (*Codec)(nil)

// New returns a codec that stores elements of type plain as type coded. Both must be
// numeric.
func New(plain, coded dtype.Type) (*Codec, error) {
	if !plain.Numeric() || !coded.Numeric() {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be stored as %v", plain, coded)
	}
	return &Codec{plain, coded}, nil
}

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.astype", Encode: true, Decode: true, Lossy: true,
			Summary: "elements stored as another numeric type", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "decode_dtype", Type: driver.DTypeParam, Input: driver.InputType, Doc: "type of the decoded elements; default: the type of the array"},
				{Name: "encode_dtype", Type: driver.DTypeParam, Doc: "type of the encoded elements; default: decode_dtype"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	plain := filter.DType(p, "decode_dtype", in.DType)
	coded := filter.DType(p, "encode_dtype", plain)
	c, err := New(plain, coded)
	if err != nil {
		return nil, driver.Spec{}, err
	}
	out, err := filter.Elements(in, plain, coded)
	return c, out, err
}

// Encode converts src to the stored type.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Convert(ctx, dst, c.coded, src, c.plain, filter.EncodeError)
}

// Decode converts src from the stored type.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Convert(ctx, dst, c.plain, src, c.coded, filter.DecodeError)
}
