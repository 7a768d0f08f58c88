// Package zstd implements the filter "zstd", Zstandard frames. It imports
// core/codec/driver and the helpers in filters/internal; core/codec calls it.
package zstd

import (
	"context"
	"errors"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/zframe"
)

// ID is the numcodecs id and the Zarr v3 name.
const ID = "zstd"

// Params are the parameters.
type Params struct {
	// Level is a level of the reference implementation: 1 (fast) to 22 (smallest output),
	// or negative for higher speed; 0 means 3. Values outside the range are clamped. The
	// default is 1, as in numcodecs. The encoder has fewer levels: 6 and 7 are the same,
	// and so are 8 and 9, 10 to 22, and all negative ones; 2 is the same as 1 for more
	// than 256 KiB.
	Level int `json:"level"`
	// Checksum adds a checksum of the content to the frame. The default is false.
	Checksum bool `json:"checksum"`
	// Most is the maximum number of bytes of a content, which limits the memory of
	// encoders; 0 means that it is unknown.
	Most int64 `json:"-"`
}

// Codec encodes and decodes Zstandard frames. It is safe for concurrent use. Decode fails
// with ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type Codec struct {
	enc *zframe.Encoder
	dec zframe.Decoder
}

var (
	_ driver.Codec        = (*Codec)(nil)
	_ driver.DecodedSizer = (*Codec)(nil)
)

// New returns a codec.
func New(p Params) (*Codec, error) {
	level := p.Level
	if level == 0 {
		level = 3
	}
	enc, err := zframe.NewEncoder(level, p.Checksum, p.Most)
	if err != nil {
		return nil, err
	}
	return &Codec{enc: enc}, nil
}

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: ID, Aliases: []string{"numcodecs.zstd"}, HDF5: 32015, Encode: true, Decode: true,
			Summary: "Zstandard compression", Transform: driver.BytesToBytes,
			Params: []driver.Param{
				{Name: "level", Type: driver.IntParam, Min: -1 << 17, Max: 22, Default: "1", HDF5: 1, HDF5Default: "3", Doc: "0 means 3; values outside the range are clamped"},
				{Name: "checksum", Type: driver.BoolParam, Default: "false", Doc: "append a checksum to frames"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	c, err := New(Params{
		Level:    p.IntIn("level", -1<<30, 1<<30),
		Checksum: p.Bool("checksum"),
		Most:     in.MaxBytes,
	})
	if err != nil {
		return nil, driver.Spec{}, err
	}
	return c, filter.Blob(in, zframe.MaxEncoded(in.MaxBytes)), nil
}

// Encode writes one frame, which states the size of its content.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return c.enc.Encode(dst, src)
}

// Decode decodes one or more frames.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return c.dec.Decode(dst, src)
}

// DecodedSize returns the size stated in the first frame, or 0 if it does not state one.
func (c *Codec) DecodedSize(src []byte) (int64, error) {
	n, err := zframe.Size(src)
	if err != nil && !errors.Is(err, zframe.ErrNoSize) {
		return 0, err
	}
	return n, nil
}
