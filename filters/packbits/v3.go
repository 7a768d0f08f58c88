package packbits

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// V3ID is the id of the codec "packbits" of Zarr v3. It differs from the name in metadata,
// which numcodecs uses for another format: that one stores only bools, the first in the
// highest bit of a byte.
const V3ID = "zarr.packbits"

// V3Codec stores some bits of each element, the lowest bits of the first element first. It
// is safe for concurrent use. Decode fails with ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type V3Codec struct {
	typ         dtype.Type // of a component: a complex number has two
	first, bits uint       // the stored bits of a component
	padding     string     // where the number of unused bits is: first_byte, last_byte or none
	total       int        // components of a chunk
}

var _ driver.Codec = (*V3Codec)(nil)

// V3Provider returns the filter "packbits" of Zarr v3.
//
// Source: zarr-extensions, "packbits"; zarrs 0.23, for the order of the bits.
func V3Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: V3ID, Encode: true, Decode: true, Lossy: true, LossNote: "bits outside first_bit to last_bit",
			Summary: "packbits of Zarr v3: some bits of each element", Transform: driver.ArrayToBytes,
			Params: []driver.Param{
				{Name: "padding_encoding", Type: driver.TextParam, Default: "none", Choices: []string{"none", "first_byte", "last_byte"}, Doc: "which byte holds the number of unused bits"},
				{Name: "first_bit", Type: driver.IntParam, Max: 63, Default: "0", Doc: "lowest bit that is stored"},
				{Name: "last_bit", Type: driver.IntParam, Max: 63, Doc: "highest bit that is stored; default: the highest bit of the type"},
			},
		},
		OpenAs: openV3,
	}
}

func openV3(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	c := &V3Codec{typ: in.DType, padding: p.Text("padding_encoding"), first: uint(p.Int("first_bit"))}
	if in.Kind != driver.Array { // the stored bytes do not state how many elements they hold
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the input must be an array")
	}
	width := uint(8 * in.DType.Size)
	switch in.DType.Kind {
	case dtype.Bool:
		width = 1
	case dtype.Int, dtype.Uint, dtype.Float:
	case dtype.Complex:
		c.typ.Kind, c.typ.Size, width = dtype.Float, in.DType.Size/2, width/2
	default:
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be packed; only numbers and bool can", in.DType)
	}
	last := width - 1
	if p.Has("last_bit") {
		last = uint(p.Int("last_bit"))
	}
	if last >= width || c.first > last {
		p.Fail("last_bit", "bits %d to %d are not bits of %v", c.first, last, in.DType)
	}
	if err := p.Err(); err != nil {
		return nil, driver.Spec{}, err
	}
	c.bits, c.total = last-c.first+1, int(in.MaxBytes)/c.typ.Size
	return c, filter.Blob(in, int64(c.size(c.total))), nil
}

// size returns the encoded size of n components.
func (c *V3Codec) size(n int) int {
	size := (n*int(c.bits) + 7) / 8
	if c.padding != "none" {
		size++
	}
	return size
}

// body returns the part of the encoded bytes that holds elements, and the byte that holds
// the number of unused bits, or nil.
func (c *V3Codec) body(b []byte) (body []byte, padding *byte) {
	switch c.padding {
	case "first_byte":
		return b[1:], &b[0]
	case "last_byte":
		return b[:len(b)-1], &b[len(b)-1]
	}
	return b, nil
}

// Encode packs src.
func (c *V3Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n := len(src) / c.typ.Size
	size := c.size(n)
	if len(dst) < size {
		return 0, filter.Short(dst)
	}
	body, padding := c.body(dst[:size])
	if padding != nil {
		*padding = byte(8*len(body) - n*int(c.bits))
	}
	clear(body)
	for i := range n {
		v := c.typ.Bits(src[i*c.typ.Size:])
		if c.typ.Kind == dtype.Bool && v != 0 {
			v = 1
		}
		v = v >> c.first & (1<<c.bits - 1)
		at := uint(i) * c.bits
		for left := c.bits; left > 0; {
			take := min(left, 8-at%8)
			body[at/8] |= byte(v << (at % 8))
			v >>= take
			at, left = at+take, left-take
		}
	}
	return size, nil
}

// Decode unpacks src. It extends the sign of signed integers.
func (c *V3Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if want := c.size(c.total); len(src) != want {
		return 0, filter.Corrupt("the input has %d bytes, but %d elements of %d bits have %d", len(src), c.total, c.bits, want)
	}
	if len(dst) < c.total*c.typ.Size {
		return 0, filter.Short(dst)
	}
	body, padding := c.body(src)
	if unused := 8*len(body) - c.total*int(c.bits); padding != nil && int(*padding) != unused {
		return 0, filter.Corrupt("the %s states %d unused bits, but there are %d", c.padding, *padding, unused)
	}
	signed := c.typ.Kind == dtype.Int
	for i := range c.total {
		v, at := uint64(0), uint(i)*c.bits
		for got := uint(0); got < c.bits; {
			take := min(c.bits-got, 8-at%8)
			v |= uint64(body[at/8]>>(at%8)&(1<<take-1)) << got
			at, got = at+take, got+take
		}
		if v <<= 64 - c.bits; signed {
			v = uint64(int64(v) >> (64 - c.bits))
		} else {
			v >>= 64 - c.bits
		}
		c.typ.PutBits(dst[i*c.typ.Size:], v<<c.first)
	}
	return c.total * c.typ.Size, nil
}
