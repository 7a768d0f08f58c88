// Package shuffle implements the filter "shuffle", which groups the bytes of a chunk by
// their position in the element, so that they compress better: first byte 0 of all
// elements, then byte 1, and so on. It imports core/codec/driver and the helpers in
// filters/internal; core/codec calls it.
package shuffle

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/kernel"
)

// ID is the numcodecs id.
const ID = "shuffle"

// Params are the parameters.
type Params struct {
	// ElementSize is the size of an element in bytes, 1 to 65536. 0, which netCDF-C
	// writes, means the size of the array's elements. The default is 4, as in numcodecs.
	ElementSize int `json:"elementsize"`
}

// Codec shuffles and unshuffles. It is safe for concurrent use.
type Codec struct{ size int }

var _ driver.Codec = (*Codec)(nil)

// New returns a codec. It leaves bytes unchanged if ElementSize is below 2.
func New(p Params) *Codec { return &Codec{size: p.ElementSize} }

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.shuffle", HDF5: 2, Encode: true, Decode: true,
			Summary: "bytes of elements grouped by their position in the element", Transform: driver.BytesToBytes, Preparation: true,
			Params: []driver.Param{
				{Name: "elementsize", Type: driver.IntParam, Max: 1 << 16, Default: "4", Input: driver.InputSize, HDF5: 1, Doc: "element size in bytes; 0, which netCDF-C writes, is the size of the array's elements"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	size := p.Int("elementsize")
	if size == 0 {
		size = filter.ElementSize(in)
	}
	return New(Params{ElementSize: size}), filter.Blob(in, in.MaxBytes), nil
}

// Encode writes src to dst as byte planes. It copies bytes after the last whole element.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return c.do(ctx, dst, src, kernel.Shuffle)
}

// Decode reverses Encode.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return c.do(ctx, dst, src, kernel.Unshuffle)
}

func (c *Codec) do(ctx context.Context, dst, src []byte, f func(dst, src []byte, size int)) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(dst) < len(src) {
		return 0, filter.Short(dst)
	}
	f(dst[:len(src)], src, c.size)
	return len(src), nil
}
