// Package gzip implements the filter "gzip", DEFLATE data in a gzip frame. It imports
// core/codec/driver and the helpers in filters/internal; core/codec calls it.
//
// Decode accepts zlib and gzip frames, because existing writers have mixed them up.
// Encode writes only gzip.
package gzip

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/deflate"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/inflate"
)

// ID is the numcodecs id.
const ID = "gzip"

// Params are the parameters.
type Params struct {
	// Level is from 1 (fast) to 9 (smallest output), 0 for stored data, or -1 for 6. The
	// default is 1, as in numcodecs.
	Level int `json:"level"`
}

// Codec encodes and decodes gzip frames. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type Codec struct {
	enc *deflate.Encoder
	dec inflate.Pool
}

var _ driver.Codec = (*Codec)(nil)

// New returns a codec.
func New(p Params) *Codec { return &Codec{enc: deflate.New(deflate.Gzip, p.Level)} }

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: ID, Aliases: []string{"numcodecs.gzip"}, Encode: true, Decode: true,
			Summary: "DEFLATE compression in a gzip frame", Transform: driver.BytesToBytes,
			Params: []driver.Param{{Name: "level", Type: driver.IntParam, Min: -1, Max: 9, Default: "1", Doc: "-1 is the default of the encoder; 0 stores uncompressed"}},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	level := p.Int("level")
	return New(Params{Level: level}), filter.Blob(in, deflate.MaxEncoded(in.MaxBytes)), nil
}

// Encode writes src as a gzip frame to dst.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return c.enc.Encode(ctx, dst, src)
}

// Decode decodes a gzip or zlib frame.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	d := c.dec.Get()
	defer c.dec.Put(d)
	return d.Any(ctx, dst, src)
}
