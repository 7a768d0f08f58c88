// Package vlen implements the filters "vlen-utf8", "vlen-bytes" and "vlen-array", which
// store the number of elements, then each element after its length. It imports
// core/codec/driver, core/dtype and the helpers in filters/internal; core/codec calls it.
//
// Source: numcodecs, vlen.pyx; the Zarr v3 extension codecs vlen-utf8 and vlen-bytes.
package vlen

import (
	"context"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// The numcodecs ids.
const (
	UTF8  = "vlen-utf8"
	Bytes = "vlen-bytes"
	Array = "vlen-array"
)

// Codec encodes and decodes chunks of count elements in the layout of driver.Values. It
// is safe for concurrent use. Decode fails with ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
// Both directions fail with ErrCorrupt for text that is not UTF-8.
type Codec struct {
	count int
	text  bool // elements are UTF-8
	unit  int  // the length of an element is a multiple of this number of bytes
}

var (
	_ driver.Codec        = (*Codec)(nil)
	_ driver.DecodedSizer = (*Codec)(nil)
)

// Provider returns the three filters.
func Provider() driver.Provider {
	return filter.Family{
		single(driver.Description{ID: UTF8, V3: UTF8, Objects: driver.Text, Summary: "text of variable length, as UTF-8"}),
		single(driver.Description{ID: Bytes, V3: Bytes, Objects: driver.Bytes, Summary: "bytes of variable length"}),
		single(driver.Description{
			ID: Array, Objects: driver.Arrays, Summary: "arrays of variable length, as the bytes of their elements",
			Params: []driver.Param{{Name: "dtype", Type: driver.DTypeParam, Required: true, Doc: "type of the items"}},
		}),
	}
}

func single(desc driver.Description) *filter.Single {
	desc.Encode, desc.Decode, desc.Transform = true, true, driver.ArrayToBytes
	return &filter.Single{
		Desc: desc,
		OpenAs: func(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			c := &Codec{text: desc.ID == UTF8, unit: 1}
			if desc.ID == Array {
				c.unit = itemSize(p)
			}
			if err := p.Err(); err != nil {
				return nil, driver.Spec{}, err
			}
			ok := in.DType.Kind == dtype.String || in.DType.Kind == dtype.VlenBytes && !c.text
			if in.Kind != driver.Array || !ok {
				return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the codec does not support elements of %v", in.DType)
			}
			var err error
			c.count, err = in.Elements()
			return c, filter.Blob(in, in.MaxBytes), err
		},
	}
}

// itemSize returns the size of the items of vlen-array, whose type is a required
// parameter.
func itemSize(p *filter.Params) int {
	t := filter.DType(p, "dtype", dtype.Type{})
	if p.Has("dtype") && !t.Fixed() {
		p.Fail("dtype", "%v has no fixed size", t)
	}
	return max(t.Size, 1)
}

// Encode writes the number of elements, then each element after its length.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	v, err := driver.ParseValues(src, c.count)
	if err != nil {
		return 0, err
	}
	if c.count > math.MaxUint32 {
		return 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "a chunk can contain at most %d elements", uint32(math.MaxUint32))
	}
	if len(dst) < len(src) { // the output is as long as src: 4*(count+1) bytes and the elements
		return 0, filter.Short(dst)
	}
	binary.LittleEndian.PutUint32(dst, uint32(c.count))
	at := 4
	for i := range c.count {
		e := v.At(i)
		if err := c.check(i, e); err != nil {
			return 0, err
		}
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(e)))
		at += 4 + copy(dst[at+4:], e)
	}
	return at, nil
}

func (c *Codec) check(i int, e []byte) error {
	switch {
	case c.text && !utf8.Valid(e):
		return filter.Corrupt("element %d is not valid UTF-8", i)
	case len(e)%c.unit != 0:
		return filter.Corrupt("element %d has %d bytes, not a multiple of the item size of %d bytes", i, len(e), c.unit)
	}
	return nil
}

// DecodedSize returns an upper bound on the decoded size.
func (c *Codec) DecodedSize(src []byte) (int64, error) {
	return max(int64(len(src)), driver.ValuesSize(c.count, 0)), nil
}

// Decode reverses Encode.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(src) < 4 {
		return 0, filter.Corrupt("the input has %d bytes, too few for the number of elements", len(src))
	}
	if n := binary.LittleEndian.Uint32(src); int64(n) != int64(c.count) {
		return 0, filter.Corrupt("the chunk has %d elements, not %d", n, c.count)
	}
	w, err := driver.NewValuesWriter(dst, c.count)
	if err != nil {
		return 0, err
	}
	src = src[4:]
	for i := range c.count {
		if len(src) < 4 {
			return 0, filter.Corrupt("the data ends before element %d of %d", i, c.count)
		}
		n := int64(binary.LittleEndian.Uint32(src))
		if n > int64(len(src)-4) {
			return 0, filter.Corrupt("element %d has %d bytes, but only %d are left", i, n, len(src)-4)
		}
		e := src[4 : 4+n]
		room, err := w.Next(len(e))
		if err != nil {
			return 0, err
		}
		copy(room, e)
		if err := c.check(i, room); err != nil { // check the copy, because src may change
			return 0, err
		}
		src = src[4+n:]
	}
	if len(src) > 0 {
		return 0, filter.Corrupt("the input has %d bytes after the last element", len(src))
	}
	return w.Done()
}
