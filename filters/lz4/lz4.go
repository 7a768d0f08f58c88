// Package lz4 implements the filter "lz4" in the format of numcodecs: the decoded size in
// four bytes, then one LZ4 block. HDF5's filter of that name uses different framing. It
// imports core/codec/driver, filters/internal/filter and pierrec/lz4; core/codec calls
// it.
package lz4

import (
	"context"
	"encoding/binary"
	"math"
	"sync"

	"github.com/pierrec/lz4/v4"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "lz4"

// Params are the parameters.
type Params struct {
	// Acceleration trades size for speed: higher values make encoding faster and the
	// result larger. The default is 1, and smaller values mean 1.
	Acceleration int `json:"acceleration"`
}

// Codec encodes and decodes LZ4 blocks. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type Codec struct {
	acceleration int
	pool         sync.Pool // values of type *lz4.CompressorCCompat
}

var (
	_ driver.Codec        = (*Codec)(nil)
	_ driver.DecodedSizer = (*Codec)(nil)
)

// New returns a codec.
func New(p Params) *Codec { return &Codec{acceleration: max(p.Acceleration, 1)} }

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.lz4", Encode: true, Decode: true,
			Summary: "LZ4 compression", Transform: driver.BytesToBytes,
			Params: []driver.Param{{Name: "acceleration", Type: driver.IntParam, Default: "1", Doc: "higher values are faster and compress less"}},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	return New(Params{Acceleration: p.Int("acceleration")}), filter.Blob(in, 4+in.MaxBytes+in.MaxBytes/255+16), nil
}

// Encode writes the size of src to dst, and then src as an LZ4 block.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	switch {
	case len(src) > math.MaxInt32:
		return 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "a block can contain at most %d bytes, got %d", math.MaxInt32, len(src))
	case len(dst) < 5:
		return 0, filter.Short(dst)
	}
	binary.LittleEndian.PutUint32(dst, uint32(len(src)))
	if len(src) == 0 {
		dst[4] = 0
		return 5, nil
	}
	enc, ok := c.pool.Get().(*lz4.CompressorCCompat)
	if !ok {
		enc = &lz4.CompressorCCompat{Acceleration: c.acceleration}
	}
	defer c.pool.Put(enc)
	n, err := enc.CompressBlock(src, dst[4:])
	if err != nil || n == 0 { // the encoder fails only if the output does not fit
		return literals(dst, src)
	}
	return 4 + n, nil
}

// literals writes a block that consists only of literals.
func literals(dst, src []byte) (int, error) {
	n, at := len(src), 5
	need := 5 + n
	if n >= 15 {
		need += (n-15)/255 + 1
	}
	if len(dst) < need {
		return 0, filter.Short(dst)
	}
	dst[4] = byte(min(n, 15)) << 4
	if n >= 15 {
		rest := n - 15
		for ; rest >= 255; rest -= 255 {
			dst[at] = 255
			at++
		}
		dst[at] = byte(rest)
		at++
	}
	return at + copy(dst[at:], src), nil
}

// DecodedSize returns the size in the header of src.
func (c *Codec) DecodedSize(src []byte) (int64, error) {
	if len(src) < 4 {
		return 0, filter.Corrupt("the input has %d bytes, too few for a header", len(src))
	}
	n := binary.LittleEndian.Uint32(src)
	if n > math.MaxInt32 {
		return 0, filter.Corrupt("the decoded size is negative")
	}
	return int64(n), nil
}

// Decode reverses Encode.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	size, err := c.DecodedSize(src)
	if err != nil {
		return 0, err
	}
	if size > int64(len(dst)) {
		return 0, filter.Short(dst)
	}
	if size == 0 {
		return 0, nil
	}
	n, err := lz4.UncompressBlock(src[4:], dst[:size])
	if err != nil {
		return 0, filter.Corrupt("%w", err)
	}
	if int64(n) != size {
		return 0, filter.Corrupt("the block decodes to %d bytes, not %d", n, size)
	}
	return n, nil
}
