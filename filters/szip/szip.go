// Package szip implements the filter "szip" of HDF5 and NCZarr: the decoded size in four
// bytes, then the adaptive entropy code of CCSDS 121.0-B in the framing of the szip
// library. It imports core/codec/driver, core/dtype and the helpers in filters/internal;
// core/codec calls it.
//
// Source: HDF5, H5Zszip.c; libaec 1.1, its szip interface.
package szip

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/rice"
)

// ID is the id in NCZarr. numcodecs has no such codec.
const ID = "szip"

// The bits of the mask that affect the encoded bytes.
const (
	maskMSB     = 16
	maskPredict = 32
)

// Limits of the szip library.
const (
	maxBlock     = 32  // pixels
	maxBlocks    = 128 // blocks of a scanline
	maxScanline  = 4096
	headerLength = 4
)

// Codec encodes and decodes chunks. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type Codec struct {
	rice   rice.Params
	planes int // number of bytes of a pixel that are coded separately, or 1
	line   int // pixels of a scanline
	size   int // bytes of a sample
	msb    bool
}

var (
	_ driver.Codec        = (*Codec)(nil)
	_ driver.DecodedSizer = (*Codec)(nil)
)

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, HDF5: 4, Encode: true, Decode: true,
			Summary: "szip compression as in HDF5", Transform: driver.BytesToBytes,
			Params: []driver.Param{
				{Name: "mask", Type: driver.IntParam, Max: math.MaxUint32, Default: "4", HDF5: 1, Doc: "options; 32 selects nearest-neighbor coding"},
				{Name: "pixels-per-block", Type: driver.IntParam, Min: 2, Max: maxBlock, Required: true, HDF5: 2, Doc: "even number"},
				{Name: "bits-per-pixel", Type: driver.IntParam, Max: 64, HDF5: 3, Doc: "0 or absent: computed as in HDF5"},
				{Name: "pixels-per-scanline", Type: driver.IntParam, Max: maxScanline, HDF5: 4, Doc: "0 or absent: computed as in HDF5"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	mask := p.Int("mask")
	block := p.Int("pixels-per-block")
	bits := p.Int("bits-per-pixel")
	line := p.Int("pixels-per-scanline")
	if block%2 != 0 {
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
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "pixels of %d bits (%v) are not supported", bits, in.DType)
	}
	c := &Codec{planes: 1, size: (bits + 7) / 8, msb: mask&maskMSB != 0}
	if bits > 24 { // each byte of a pixel is coded separately
		c.planes, c.size, bits = bits/8, 1, 8
	}
	if c.size == 3 {
		c.size = 4
	}
	if c.line = line; line == 0 {
		c.line = scanline(in, block, c.size*c.planes)
	}
	if c.line < block { // a scanline would be mostly padding
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "a chunk of %d bytes is smaller than a block of %d pixels", in.MaxBytes, block)
	}
	c.rice = rice.Params{Bits: uint(bits), Block: block, Interval: (c.line + block - 1) / block, Predict: mask&maskPredict != 0}
	return c, filter.Blob(in, headerLength+rice.MaxEncoded(c.padded(in.MaxBytes), c.rice)), nil
}

// scanline returns the number of pixels that HDF5 uses as a scanline of a chunk, or 0 if
// the chunk is smaller than a block.
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

// padded returns the number of samples of n bytes, with scanlines padded to whole blocks.
func (c *Codec) padded(n int64) int64 {
	samples := n / int64(c.size)
	lines := (samples + int64(c.line) - 1) / int64(c.line)
	return lines * int64(c.rice.Interval*c.rice.Block)
}

// Encode writes the size and the encoded samples. It fails with ncerr.ErrConvert for a
// pixel that has more bits than the parameter bits-per-pixel allows.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	switch {
	case len(src)%(c.size*c.planes) != 0:
		return 0, ncerr.Errorf(ncerr.ErrInvalid, "", "", "the chunk size of %d bytes is not a multiple of the pixel size of %d bytes", len(src), c.size*c.planes)
	case uint64(len(src)) > math.MaxUint32:
		return 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "a chunk can contain at most 4 GiB")
	case len(dst) < headerLength:
		return 0, filter.Short(dst)
	}
	binary.LittleEndian.PutUint32(dst, uint32(len(src)))
	e := rice.NewEncoder(dst[headerLength:], c.rice)
	v := make([]uint32, c.rice.Len())
	samples := len(src) / c.size
	for at := 0; at < samples; at += c.line {
		line := v[:min(c.line, samples-at)]
		c.load(line, src, at)
		if i := slices.IndexFunc(line, func(x uint32) bool { return x>>c.rice.Bits != 0 }); i >= 0 {
			return 0, ncerr.Errorf(ncerr.ErrConvert, "", "", "pixel %d is %d, which has more than %d bits", at+i, line[i], c.rice.Bits)
		}
		c.pad(v, len(line))
		e.Next(v)
	}
	n, err := e.End()
	if err != nil { // the encoder fails only if the output does not fit
		return 0, filter.Short(dst)
	}
	return headerLength + n, nil
}

// pad fills a scanline after its first n samples. If samples are predicted, it repeats the
// last sample, so that the differences are 0. Otherwise it writes zeros.
func (c *Codec) pad(v []uint32, n int) {
	fill := uint32(0)
	if c.rice.Predict {
		fill = v[n-1]
	}
	for i := n; i < len(v); i++ {
		v[i] = fill
	}
}

// DecodedSize returns the size in the header of src.
func (c *Codec) DecodedSize(src []byte) (int64, error) {
	if len(src) < headerLength {
		return 0, filter.Corrupt("the input has %d bytes, too few for a header", len(src))
	}
	return int64(binary.LittleEndian.Uint32(src)), nil
}

// Decode reverses Encode.
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
		return 0, filter.Corrupt("the decoded size of %d bytes is not a multiple of the pixel size of %d bytes", size, c.size*c.planes)
	}
	dst = dst[:size]
	d := rice.NewDecoder(src[headerLength:], c.rice)
	v := make([]uint32, c.rice.Len())
	samples := len(dst) / c.size
	for at := 0; at < samples; at += c.line {
		if err := d.Next(v); err != nil {
			return 0, filter.Corrupt("%w", err)
		}
		c.store(dst, v[:min(c.line, samples-at)], at)
	}
	return len(dst), nil
}
