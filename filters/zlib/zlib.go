// Package zlib implements the filter "zlib", DEFLATE data in a zlib frame. It imports
// core/codec/driver and the helpers in filters/internal; core/codec calls it.
//
// Decode accepts zlib and gzip frames, because existing writers have mixed them up.
// Encode writes only zlib.
package zlib

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/deflate"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/inflate"
)

// ID is the numcodecs id.
const ID = "zlib"

// Params are the parameters.
type Params struct {
	// Level is from 1 (fast) to 9 (smallest output), 0 for stored data, or -1 for 6. The
	// default is 1, as in numcodecs.
	Level int `json:"level"`
}

// Codec encodes and decodes zlib frames. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type Codec struct {
	enc *deflate.Encoder
	dec inflate.Pool
}

var _ driver.Codec = (*Codec)(nil)

// New returns a codec.
func New(p Params) *Codec { return &Codec{enc: deflate.New(deflate.Zlib, p.Level)} }

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.zlib", HDF5: 1, Encode: true, Decode: true,
			Summary: "DEFLATE compression in a zlib frame", Transform: driver.BytesToBytes,
			Params: []driver.Param{{Name: "level", Type: driver.IntParam, Min: -1, Max: 9, Default: "1", HDF5: 1, Doc: "-1 is the default of the encoder; 0 stores uncompressed"}},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	level := p.Int("level")
	return New(Params{Level: level}), filter.Blob(in, deflate.MaxEncoded(in.MaxBytes)), nil
}

// Encode writes src as a zlib frame to dst.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return c.enc.Encode(ctx, dst, src)
}

// Decode decodes a zlib or gzip frame.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	d := c.dec.Get()
	defer c.dec.Put(d)
	return d.Any(ctx, dst, src)
}
