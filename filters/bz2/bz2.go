// Package bz2 implements the filter "bz2", bzip2 compression. It imports
// core/codec/driver and the encoder in filters/internal; core/codec calls it.
package bz2

import (
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/bitio"
	"github.com/seed-695719ce/nczarr/filters/internal/bzip2enc"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "bz2"

// Params are the parameters.
type Params struct {
	// Level is the block size in units of 100 kB, from 1 (the default) to 9.
	Level int `json:"level"`
}

// Codec encodes and decodes bzip2 streams. It is safe for concurrent use. Decode fails
// with ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type Codec struct {
	level int
	pool  sync.Pool // values of type *bzip2enc.Encoder
}

var _ driver.Codec = (*Codec)(nil)

// New returns a codec. It clamps the level to its range.
func New(p Params) *Codec { return &Codec{level: min(max(p.Level, 1), 9)} }

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.bz2", HDF5: 307, Encode: true, Decode: true,
			Summary: "bzip2 compression", Transform: driver.BytesToBytes,
			Params: []driver.Param{{Name: "level", Type: driver.IntParam, Min: 1, Max: 9, Default: "1", HDF5: 1}},
		},
		OpenAs: func(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			c := New(Params{Level: p.Int("level")})
			return c, filter.Blob(in, bzip2enc.MaxEncoded(in.MaxBytes)), nil
		},
	}
}

// Encode writes src as one stream.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	enc, ok := c.pool.Get().(*bzip2enc.Encoder)
	if !ok {
		enc = bzip2enc.New(c.level)
	}
	defer c.pool.Put(enc)
	n, err := enc.Encode(ctx, dst, src)
	if errors.Is(err, bitio.ErrShort) {
		err = filter.Short(dst)
	}
	return n, err
}

// Decode decodes one or more streams.
func (*Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	r, reduced := reader(ctx, src, len(dst))
	n := 0
	for n < len(dst) {
		k, err := r.Read(dst[n:])
		n += k
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if reduced && tooLong(err) {
			return 0, filter.Short(dst)
		}
		if err != nil {
			return 0, failed(ctx, err)
		}
	}
	var more [1]byte
	switch k, err := io.ReadFull(r, more[:]); {
	case k > 0:
		return 0, filter.Short(dst)
	case reduced && tooLong(err):
		return 0, filter.Short(dst)
	case !errors.Is(err, io.EOF):
		return 0, failed(ctx, err)
	}
	return n, nil
}

// failed returns the context's error if ctx is done, and otherwise err as ErrCorrupt.
func failed(ctx context.Context, err error) error {
	if own := ctx.Err(); own != nil {
		return own
	}
	return filter.Corrupt("%w", err)
}

// input stops reading when the context is done. The decoder may read much input without
// producing output.
type input struct {
	ctx context.Context //nolint:containedctx // the context has the lifetime of one call
	io.Reader
}

func (in *input) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	return in.Reader.Read(p)
}

// reader returns a reader that decodes src. The decoder allocates memory for the block
// size in the header. If a smaller block size suffices for n bytes of output, reader
// replaces the size in the header and returns reduced as true.
func reader(ctx context.Context, src []byte, n int) (r io.Reader, reduced bool) {
	const head, unit = 4, 100_000    // "BZh" and the block size in units
	blocks := min((n+n/4)/unit+1, 9) // five bytes of a block decode to at least four
	if len(src) <= head || src[head-1] > '9' || int(src[head-1])-'0' <= blocks {
		return bzip2.NewReader(&input{ctx, bytes.NewReader(src)}), false
	}
	claim := []byte{'B', 'Z', 'h', '0' + byte(blocks)}
	copy(claim, src[:head-1])
	return bzip2.NewReader(&input{ctx, io.MultiReader(bytes.NewReader(claim), bytes.NewReader(src[head:]))}), true
}

// tooLong reports whether err means that a block exceeds its size.
func tooLong(err error) bool {
	return errors.Is(err, bzip2.StructuralError("data exceeds block size")) || errors.Is(err, bzip2.StructuralError("repeats past end of block"))
}
