// Package astype is the filter "astype": elements stored as another numeric
// type. It imports core/codec/driver, core/dtype and the kernels below
// filters/internal; core/codec calls it.
//
// Unlike numcodecs it refuses values that the other type cannot hold, in both
// directions, instead of storing other ones.
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

// Codec encodes and decodes. It is safe for concurrent use. A value that does
// not fit is ncerr.ErrConvert when encoding, ErrCorrupt when decoding.
type Codec struct{ plain, coded dtype.Type }

var _ driver.Codec = (*Codec)(nil)

// New makes a codec for elements of type plain, stored as type coded; both
// must be numbers.
func New(plain, coded dtype.Type) (*Codec, error) {
	if !plain.Numeric() || !coded.Numeric() {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be stored as %v", plain, coded)
	}
	return &Codec{plain, coded}, nil
}

// Provider gives the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.astype", Encode: true, Decode: true, Lossy: true,
			Summary: "elements stored as another numeric type", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "decode_dtype", Type: driver.DTypeParam, Input: driver.InputType, Doc: "type of the decoded elements; absent: that of the array"},
				{Name: "encode_dtype", Type: driver.DTypeParam, Doc: "type of the encoded elements; absent: decode_dtype"},
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

// Encode converts to the stored type.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Convert(ctx, dst, c.coded, src, c.plain, filter.Unfit)
}

// Decode converts back.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return filter.Convert(ctx, dst, c.plain, src, c.coded, filter.Misfit)
}
