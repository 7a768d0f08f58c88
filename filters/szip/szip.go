// Package szip is the filter "szip" of HDF5 and NCZarr: the decoded size in
// four bytes, then the adaptive entropy code of CCSDS 121.0-B in the framing
// of the szip library. It imports core/codec/driver and the code below
// filters/internal; core/codec calls it.
//
// Source: HDF5, H5Zszip.c; libaec 1.1, its szip interface.
package szip

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/rice"
)

// ID is the id in NCZarr; numcodecs has no such codec.
const ID = "szip"

// The bits of the mask that change the bytes.
const (
	maskMSB     = 16
	maskPredict = 32
)

// Limits of the szip library.
const (
	maxBlock     = 32  // pixels
	maxBlocks    = 128 // of a scanline
	maxScanline  = 4096
	headerLength = 4
)

// Codec encodes and decodes chunks. It is safe for concurrent use; errors of
// Decode are ncerr.ErrCorrupt and ncerr.ErrShortBuffer.
type Codec struct {
	rice   rice.Params
	planes int // bytes of a pixel that are coded apart, else 1
	line   int // pixels of a scanline
	size   int // bytes of a sample
	msb    bool
}

var (
	_ driver.Codec        = (*Codec)(nil)
	_ driver.DecodedSizer = (*Codec)(nil)
)

// Provider gives the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, HDF5: 4, Encode: true, Decode: true,
			Summary: "szip compression as in HDF5",
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	mask := p.Int("mask", 4, 0, math.MaxUint32)
	block := p.Int("pixels-per-block", 0, 2, maxBlock)
	bits := p.Int("bits-per-pixel", 0, 0, 64)
	line := p.Int("pixels-per-scanline", 0, 0, maxScanline)
	switch {
	case !p.Has("pixels-per-block"):
		p.Fail("pixels-per-block", "it is missing")
	case block%2 != 0:
		p.Fail("pixels-per-block", "%d is not even", block)
	}
	if err := p.Err(); err != nil {
		return nil, driver.Spec{}, err
	}
	if bits == 0 {
		bits = 8 * in.DType.Size
		mask &^= maskMSB
		if in.DType.Order == dtype.Big {
			mask |= maskMSB
		}
	}
	if bits < 1 || bits > 24 && bits != 32 && bits != 64 || in.Kind == driver.Array && !in.DType.Fixed() {
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "pixels of %d bits (%v) are not coded", bits, in.DType)
	}
	c := &Codec{planes: 1, size: (bits + 7) / 8, msb: mask&maskMSB != 0}
	if bits > 24 { // each byte of the pixels is coded apart
		c.planes, c.size, bits = bits/8, 1, 8
	}
	if c.size == 3 {
		c.size = 4
	}
	if c.line = line; line == 0 {
		c.line = scanline(in, block, c.size*c.planes)
	}
	if c.line < block { // more padding than data
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "chunks of %d bytes have less than a block of %d pixels", in.MaxBytes, block)
	}
	c.rice = rice.Params{Bits: uint(bits), Block: block, Interval: (c.line + block - 1) / block, Predict: mask&maskPredict != 0}
	return c, filter.Blob(in, headerLength+rice.MaxEncoded(c.padded(in.MaxBytes), c.rice)), nil
}

// scanline is the number of pixels that HDF5 takes for a scanline of a chunk;
// 0 when the chunk is smaller than a block.
func scanline(in driver.Spec, block, pixel int) int {
	total := int(in.MaxBytes / int64(pixel))
	n := total
	if in.Kind == driver.Array && len(in.Shape) > 0 {
		n = in.Shape[len(in.Shape)-1]
	}
	switch {
	case n < block && total < block:
		return 0
	case n < block:
		return min(block*maxBlocks, total)
	case n <= maxScanline:
		return min(block*maxBlocks, n)
	}
	return block * maxBlocks
}

// padded is the number of samples of n bytes, with scanlines in whole blocks.
func (c *Codec) padded(n int64) int64 {
	samples := n / int64(c.size)
	lines := (samples + int64(c.line) - 1) / int64(c.line)
	return lines * int64(c.rice.Interval*c.rice.Block)
}

// Encode writes the size and the code.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	switch {
	case len(src)%(c.size*c.planes) != 0:
		return 0, ncerr.Errorf(ncerr.ErrInvalid, "", "", "%d bytes hold no whole number of pixels of %d", len(src), c.size*c.planes)
	case uint64(len(src)) > math.MaxUint32:
		return 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "a chunk holds at most 4 GiB")
	case len(dst) < headerLength:
		return 0, filter.Short(dst)
	}
	binary.LittleEndian.PutUint32(dst, uint32(len(src)))
	v := make([]uint32, c.padded(int64(len(src))))
	c.spread(v, src)
	n, err := rice.Encode(dst[headerLength:], v, c.rice)
	if err != nil { // it fails for want of room only
		return 0, filter.Short(dst)
	}
	return headerLength + n, nil
}

// spread puts the samples of src into padded scanlines.
func (c *Codec) spread(v []uint32, src []byte) {
	per, n := c.rice.Interval*c.rice.Block, len(src)/c.size
	for i := range n {
		line, x := i/c.line, i%c.line
		v[line*per+x] = c.load(src, i)
		if x == c.line-1 || i == n-1 { // repeat the last one
			for k := line*per + x + 1; k < (line+1)*per; k++ {
				if c.rice.Predict {
					v[k] = v[k-1]
				}
			}
		}
	}
}

// load gives sample i, in the order in which samples are coded: by planes.
func (c *Codec) load(src []byte, i int) uint32 {
	top := uint32(1)<<c.rice.Bits - 1
	switch {
	case c.planes > 1:
		n := len(src) / c.planes
		return uint32(src[i%n*c.planes+i/n])
	case c.size == 1:
		return uint32(src[i]) & top
	case c.size == 2 && c.msb:
		return uint32(binary.BigEndian.Uint16(src[2*i:])) & top
	case c.size == 2:
		return uint32(binary.LittleEndian.Uint16(src[2*i:])) & top
	case c.msb:
		return binary.BigEndian.Uint32(src[4*i:]) & top
	}
	return binary.LittleEndian.Uint32(src[4*i:]) & top
}

// DecodedSize gives the size that the head of src claims.
func (c *Codec) DecodedSize(src []byte) (int64, error) {
	if len(src) < headerLength {
		return 0, filter.Corrupt("%d bytes hold no size", len(src))
	}
	return int64(binary.LittleEndian.Uint32(src)), nil
}

// Decode is the reverse of Encode.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	size, err := c.DecodedSize(src)
	switch {
	case err != nil:
		return 0, err
	case size > int64(len(dst)):
		return 0, filter.Short(dst)
	case size%int64(c.size*c.planes) != 0:
		return 0, filter.Corrupt("%d bytes hold no whole number of pixels of %d", size, c.size*c.planes)
	}
	dst = dst[:size]
	v := make([]uint32, c.padded(size)) // four bytes for each sample, scanlines padded to whole blocks
	if err := rice.Decode(v, src[headerLength:], c.rice); err != nil {
		if errors.Is(err, rice.ErrCorrupt) {
			err = filter.Corrupt("%w", err)
		}
		return 0, err
	}
	per := c.rice.Interval * c.rice.Block
	for i := range len(dst) / c.size {
		c.store(dst, i, v[i/c.line*per+i%c.line])
	}
	return len(dst), nil
}

// store is the reverse of load.
func (c *Codec) store(dst []byte, i int, v uint32) {
	switch {
	case c.planes > 1:
		n := len(dst) / c.planes
		dst[i%n*c.planes+i/n] = byte(v)
	case c.size == 1:
		dst[i] = byte(v)
	case c.size == 2 && c.msb:
		binary.BigEndian.PutUint16(dst[2*i:], uint16(v))
	case c.size == 2:
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(v))
	case c.msb:
		binary.BigEndian.PutUint32(dst[4*i:], v)
	default:
		binary.LittleEndian.PutUint32(dst[4*i:], v)
	}
}
