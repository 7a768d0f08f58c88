// Package gzip is the filter "gzip": DEFLATE data in a gzip frame. It imports
// core/codec/driver and the kernels below filters/internal; core/codec calls
// it.
//
// A decoder takes zlib and gzip frames alike, since real writers have mixed
// them up; an encoder writes gzip only.
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
	// Level is 1 (fast) to 9 (small), 0 for stored data, -1 for 6. The
	// default is 1, as in numcodecs.
	Level int `json:"level"`
}

// Codec encodes and decodes. It is safe for concurrent use; errors of Decode
// are ncerr.ErrCorrupt and ncerr.ErrShortBuffer.
type Codec struct {
	enc *deflate.Encoder
	dec inflate.Pool
}

var _ driver.Codec = (*Codec)(nil)

// New makes a codec.
func New(p Params) *Codec { return &Codec{enc: deflate.New(deflate.Gzip, p.Level)} }

// Provider gives the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: ID, Aliases: []string{"numcodecs.gzip"}, Encode: true, Decode: true,
			Summary: "DEFLATE compression in a gzip frame", Transform: driver.BytesToBytes,
			Params: []driver.Param{{Name: "level", Type: driver.IntParam, Min: -1, Max: 9, Default: "1", Doc: "-1 is 6; 0 stores"}},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	level := p.Int("level")
	return New(Params{Level: level}), filter.Blob(in, deflate.MaxEncoded(in.MaxBytes)), nil
}

// Encode writes the gzip form of src to dst.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return c.enc.Encode(ctx, dst, src)
}

// Decode is the reverse of Encode; it takes both frames.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	d := c.dec.Get()
	defer c.dec.Put(d)
	return d.Any(ctx, dst, src)
}
