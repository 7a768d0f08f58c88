// Package lzma implements the filter "lzma" with the xz container, the old "alone" format
// or a raw chain of filters. It imports core/codec/driver, the helpers in
// filters/internal and, for encoding, ulikunitz/xz; core/codec calls it.
package lzma

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/ulikunitz/xz/lzma"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/lzmadec"
)

// ID is the numcodecs id.
const ID = "lzma"

// The values of Params.Format.
const (
	Auto  = 0 // xz for encoding, xz or alone for decoding
	XZ    = 1
	Alone = 2
	Raw   = 3
)

// Params are the parameters, with the numbers of Python's lzma module.
type Params struct {
	// Format is one of the constants; the default is XZ.
	Format int `json:"format"`
	// Check is the check of xz: -1 (the default) and 4 for CRC-64, 0 for no check, 1 for
	// CRC-32, 10 for SHA-256.
	Check int `json:"check"`
	// Preset is from 0 (small dictionary) to 9. The default is 6.
	Preset int `json:"preset"`
	// Delta is the distance in bytes of xz's delta filter before LZMA2, 1 to 256. 0,
	// the default, disables the filter. GDAL writes this parameter. Decoding reads the
	// filters of xz from the header of the data.
	Delta int `json:"delta,omitempty"`
	// Filters is the chain of filters of Raw and XZ. The last is LZMA2, or LZMA1 in
	// Raw; others are delta filters. Python decodes XZ only if it does not receive this
	// parameter; GDAL writes it.
	Filters []Filter `json:"filters,omitempty"`
}

// Filter is one filter of a chain.
type Filter struct {
	ID     uint64 `json:"id"`
	Preset *int   `json:"preset,omitempty"`
	Dist   int    `json:"dist,omitempty"`
	LC     *int   `json:"lc,omitempty"`
	LP     *int   `json:"lp,omitempty"`
	PB     *int   `json:"pb,omitempty"`
}

// Codec encodes and decodes LZMA data. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt or ncerr.ErrShortBuffer, or with ncerr.ErrUnsupported and the name of
// an xz filter that it cannot decode.
type Codec struct {
	params Params
	props  lzma.Properties
	deltas []int  // distances, in encoding order
	last   uint64 // the last filter of the chain
}

var _ driver.Codec = (*Codec)(nil)

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.lzma", Encode: true, Decode: true,
			Summary: "LZMA compression: xz, alone or raw", Transform: driver.BytesToBytes,
			Params: []driver.Param{
				{Name: "format", Type: driver.IntParam, Min: Auto, Max: Raw, Default: "1", Doc: "0 auto, 1 xz, 2 alone, 3 raw"},
				{Name: "check", Type: driver.IntParam, Min: -1, Max: 10, Default: "-1", Doc: "checksum of xz: -1 default, 0 none, 1 CRC-32, 4 CRC-64, 10 SHA-256"},
				{Name: "preset", Type: driver.IntParam, Max: 9, Default: "6", Doc: "compression level"},
				{Name: "delta", Type: driver.IntParam, Max: 256, Default: "0", Doc: "distance of the delta filter of xz; 0 disables it"},
				{Name: "filters", Type: driver.ListParam, Doc: "filters of raw or xz: delta, then LZMA1 or LZMA2"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	const extreme = 1 << 31 // a flag in the preset
	prm := Params{Format: p.Int("format"), Check: p.Int("check"), Preset: 6}
	if v := p.IntIn("preset", 0, math.MaxUint32) &^ extreme; v <= 9 {
		prm.Preset = v
	} else {
		p.Fail("preset", "%d is not in the range 0 to 9", v)
	}
	prm.Delta = p.Int("delta")
	p.List("filters", &prm.Filters)
	c := &Codec{params: prm, props: lzma.Properties{LC: 3, LP: 0, PB: 2}, last: lzmadec.FilterLZMA2}
	switch prm.Check {
	case -1, 0, 1, 4, 10:
	default:
		p.Fail("check", "unknown check %d", prm.Check)
	}
	out := filter.Blob(in, in.MaxBytes+in.MaxBytes/8+4096) // a literal takes at most nine eighths of its size
	switch {
	case prm.Format == Raw:
		if err := c.chain(p); err != nil {
			return nil, driver.Spec{}, err
		}
	case prm.Filters != nil && prm.Format == Alone:
		p.Fail("filters", "the format \"alone\" does not allow filters")
	case prm.Filters != nil:
		if err := c.chain(p); err != nil {
			return nil, driver.Spec{}, err
		}
		if c.last == lzmadec.FilterLZMA1 || len(c.deltas) > 3 {
			p.Fail("filters", "xz requires LZMA2 after at most three other filters")
		}
		if prm.Delta != 0 {
			p.Fail("delta", "delta cannot be combined with filters")
			prm.Delta = 0
		}
	}
	switch {
	case prm.Delta == 0:
	case prm.Format == Alone || prm.Format == Raw:
		p.Fail("delta", "only xz supports delta")
	default:
		c.deltas = []int{prm.Delta}
	}
	return c, out, p.Err()
}

// chain checks the filters of a chain. It returns an ErrUnsupported for a known filter
// that cannot be decoded.
func (c *Codec) chain(p *filter.Params) error {
	if len(c.params.Filters) == 0 {
		p.Fail("filters", "at least one filter is required")
		return nil
	}
	n := len(c.params.Filters) - 1
	for i, f := range c.params.Filters {
		switch {
		case i < n && f.ID == lzmadec.FilterDelta && f.Dist >= 0 && f.Dist <= 256:
			c.deltas = append(c.deltas, max(f.Dist, 1))
		case i == n && (f.ID == lzmadec.FilterLZMA2 || f.ID == lzmadec.FilterLZMA1):
			c.last = f.ID
			c.literals(p, f)
		case i < n && lzmadec.FilterName(f.ID) != "":
			return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "parameter %q: the filter %s is not supported", "filters", lzmadec.FilterName(f.ID))
		default:
			p.Fail("filters", "unsupported filter %#x at index %d", f.ID, i)
		}
	}
	return nil
}

func (c *Codec) literals(p *filter.Params, f Filter) {
	set := func(at *int, v *int, top int) {
		if v != nil {
			*at = *v
			if *v < 0 || *v > top {
				p.Fail("filters", "%d is not in the range 0 to %d", *v, top)
			}
		}
	}
	set(&c.params.Preset, f.Preset, 9)
	set(&c.props.LC, f.LC, 4)
	set(&c.props.LP, f.LP, 4)
	set(&c.props.PB, f.PB, 4)
	if c.props.LC+c.props.LP > 4 {
		p.Fail("filters", "the sum of lc and lp exceeds 4")
	}
}

// dictionary returns the size of the dictionary in bytes: the size of the preset,
// limited to what n bytes of data need.
func (c *Codec) dictionary(n int) int {
	size := [10]int{1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 22, 1 << 23, 1 << 23, 1 << 24, 1 << 25, 1 << 26}[c.params.Preset]
	return min(size, max(n, lzma.MinDictCap))
}

// window writes to dst. It drops the first skip bytes.
type window struct {
	dst  []byte
	at   int
	skip int // number of leading bytes to drop
	full bool
}

func (w *window) Write(b []byte) (int, error) {
	n := len(b)
	k := min(w.skip, n)
	w.skip -= k
	b = b[k:]
	if len(b) > len(w.dst)-w.at {
		w.full = true
		return 0, io.ErrShortBuffer
	}
	w.at += copy(w.dst[w.at:], b)
	return n, nil
}

// Encode writes src as one stream.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	plain := src
	for _, d := range c.deltas {
		src = differences(src, d)
	}
	w := &window{dst: dst}
	err := c.write(ctx, w, src, plain)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, ctx.Err()
	case w.full: // the encoder does not return every error
		return 0, filter.Short(dst)
	case err != nil:
		return 0, ncerr.Errorf(ncerr.ErrFilter, "", "", "%w", err)
	}
	return w.at, nil
}

// differences applies xz's delta filter.
func differences(src []byte, dist int) []byte {
	out := make([]byte, len(src))
	copy(out, src[:min(dist, len(src))])
	for i := dist; i < len(src); i++ {
		out[i] = src[i] - src[i-dist]
	}
	return out
}

// write writes src in the format. plain is src before its delta filters.
func (c *Codec) write(ctx context.Context, w *window, src, plain []byte) error {
	if c.params.Format == XZ || c.params.Format == Auto {
		return c.container(ctx, w, src, plain)
	}
	z, err := c.writer(w, len(src))
	if err != nil {
		return err
	}
	return writeAll(ctx, z, src)
}

// writeAll writes src in pieces, each of which takes a fraction of a second, and stops
// when ctx is done.
func writeAll(ctx context.Context, z io.WriteCloser, src []byte) error {
	for piece := range slices.Chunk(src, 64<<10) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := z.Write(piece); err != nil {
			return err
		}
	}
	return z.Close()
}

// writer returns an encoder of n bytes without a container.
func (c *Codec) writer(w *window, n int) (io.WriteCloser, error) {
	dict := c.dictionary(n)
	switch {
	case c.params.Format == Alone:
		return lzma.WriterConfig{Properties: &c.props, DictCap: dict, EOSMarker: true}.NewWriter(w)
	case c.params.Format == Raw && c.last == lzmadec.FilterLZMA1:
		w.skip = lzma.HeaderLen
		return lzma.WriterConfig{Properties: &c.props, DictCap: dict, EOSMarker: true}.NewWriter(w)
	}
	return lzma.Writer2Config{Properties: &c.props, DictCap: dict}.NewWriter2(w)
}

// Decode decodes the codec's format. If that is Auto, it distinguishes the formats XZ
// and Alone by their headers.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.decode(ctx, dst, src)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, lzmadec.ErrShort):
		return 0, filter.Short(dst)
	case errors.Is(err, lzmadec.ErrUnsupported):
		return 0, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "%w", err)
	case err != nil:
		return 0, filter.Corrupt("%w", err)
	}
	return n, nil
}

func (c *Codec) decode(ctx context.Context, dst, src []byte) (n int, err error) {
	switch {
	case c.params.Format == Raw && c.last == lzmadec.FilterLZMA1:
		n, err = lzmadec.LZMA1(ctx, dst, src, byte((c.props.PB*5+c.props.LP)*9+c.props.LC), -1)
	case c.params.Format == Raw:
		var used int
		if n, used, err = lzmadec.LZMA2(ctx, dst, src); err == nil && used != len(src) {
			err = lzmadec.ErrCorrupt
		}
	case c.params.Format == Alone || c.params.Format == Auto && !lzmadec.IsXZ(src):
		return lzmadec.Alone(ctx, dst, src)
	default:
		return lzmadec.XZ(ctx, dst, src) // uses the filters in the header of src
	}
	if err != nil {
		return 0, err
	}
	for i := len(c.deltas) - 1; i >= 0; i-- {
		lzmadec.DecodeDelta(dst[:n], c.deltas[i])
	}
	return n, nil
}
