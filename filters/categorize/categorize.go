// Package categorize implements the filter "categorize", which replaces each string with
// its number in a list of labels, counted from 1. 0 is the empty string. It imports
// core/codec/driver, core/dtype and the helpers in filters/internal; core/codec calls it.
//
// Unlike numcodecs, it rejects a string that is not in the list instead of storing 0.
package categorize

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "categorize"

// Codec encodes and decodes strings. It is safe for concurrent use. Encode fails with
// ncerr.ErrConvert if a string is not a label; Decode fails with ncerr.ErrCorrupt or
// ncerr.ErrShortBuffer.
type Codec struct {
	labels  [][]byte // labels in the form of the array's elements
	numbers map[string]uint64
	plain   dtype.Type
	coded   dtype.Type
	count   int
}

var _ driver.Codec = (*Codec)(nil)

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, Encode: true, Decode: true,
			Summary: "strings stored as integers that identify labels in a list", Transform: driver.ArrayToArray, Objects: driver.Text,
			Params: []driver.Param{
				{Name: "labels", Type: driver.ListParam, Required: true, Doc: "all strings that occur"},
				{Name: "dtype", Type: driver.DTypeParam, Input: driver.InputType, Doc: "type of the strings; default: the type of the array"},
				{Name: "astype", Type: driver.DTypeParam, Default: "|u1", Doc: "type of the numbers, an integer"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	named := filter.DType(p, "dtype", in.DType)
	c := &Codec{plain: in.DType, coded: filter.DType(p, "astype", dtype.Type{Kind: dtype.Uint, Size: 1})}
	labels := p.Texts("labels")
	if c.coded.Kind != dtype.Int && c.coded.Kind != dtype.Uint {
		p.Fail("astype", "%v is not an integer type", c.coded)
	}
	if top := uint64(1)<<(8*uint(c.coded.Size)-1) - 1; c.coded.Size < 8 && uint64(len(labels)) > 2*top+1 || c.coded.Kind == dtype.Int && uint64(len(labels)) > top {
		p.Fail("labels", "%d labels exceed the range of %v", len(labels), c.coded)
	}
	if err := p.Err(); err != nil {
		return nil, driver.Spec{}, err
	}
	if in.Kind != driver.Array || in.DType.Kind != dtype.String && in.DType.Kind != dtype.Unicode {
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the codec encodes only arrays of strings, not of %v", in.DType)
	}
	if named != in.DType {
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the parameter dtype is %v, but the array has the type %v", named, in.DType)
	}
	var err error
	if c.count, err = in.Elements(); err != nil {
		return nil, driver.Spec{}, err
	}
	if err := c.list(labels); err != nil {
		return nil, driver.Spec{}, err
	}
	out := in
	out.DType, out.Fill, out.MaxBytes = c.coded, nil, int64(c.count)*int64(c.coded.Size)
	out, err = filter.Flat(out)
	return c, out, err
}

// list converts the labels to the form of the array's elements. If labels are equal,
// the last one is used, as in numcodecs.
func (c *Codec) list(labels []string) error {
	c.numbers = make(map[string]uint64, len(labels)+1)
	c.labels = append(c.labels, make([]byte, c.plain.Size))
	c.numbers[string(c.labels[0])] = 0
	for i, l := range labels {
		b := []byte(l)
		if c.plain.Fixed() {
			b = make([]byte, c.plain.Size)
			if err := dtype.Encode(b, c.plain, []string{l}); err != nil {
				return ncerr.Errorf(ncerr.ErrInvalid, "", "", "label %q: %w", l, err)
			}
		}
		c.labels = append(c.labels, b)
		c.numbers[string(b)] = uint64(i + 1)
	}
	return nil
}

// Encode replaces strings with numbers.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var v driver.Values
	var err error
	if !c.plain.Fixed() {
		v, err = driver.ParseValues(src, c.count)
	} else if len(src) != c.count*c.plain.Size {
		err = ncerr.Errorf(ncerr.ErrInvalid, "", "", "the chunk has %d bytes, the wrong size for %d elements of type %v", len(src), c.count, c.plain)
	}
	if err != nil {
		return 0, err
	}
	n := c.count * c.coded.Size
	if len(dst) < n {
		return 0, filter.Short(dst)
	}
	for i := range c.count {
		var e []byte
		if c.plain.Fixed() {
			e = src[i*c.plain.Size:][:c.plain.Size]
		} else {
			e = v.At(i)
		}
		k, ok := c.numbers[string(e)]
		if !ok {
			return 0, ncerr.Errorf(ncerr.ErrConvert, "", "", "element %d, %.50q, is not a label", i, e)
		}
		c.coded.PutBits(dst[i*c.coded.Size:], k)
	}
	return n, nil
}

// Decode replaces numbers with strings.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(src) != c.count*c.coded.Size {
		return 0, filter.Corrupt("the input has %d bytes, the wrong size for %d numbers of type %v", len(src), c.count, c.coded)
	}
	if c.plain.Fixed() {
		return c.decodeFixed(dst, src)
	}
	w, err := driver.NewValuesWriter(dst, c.count)
	if err != nil {
		return 0, err
	}
	for i := range c.count {
		l, err := c.label(src, i)
		if err == nil {
			err = w.Add(l)
		}
		if err != nil {
			return 0, err
		}
	}
	return w.Done()
}

func (c *Codec) decodeFixed(dst, src []byte) (int, error) {
	n := c.count * c.plain.Size
	if len(dst) < n {
		return 0, filter.Short(dst)
	}
	for i := range c.count {
		l, err := c.label(src, i)
		if err != nil {
			return 0, err
		}
		copy(dst[i*c.plain.Size:], l)
	}
	return n, nil
}

// label returns the string of element i.
func (c *Codec) label(src []byte, i int) ([]byte, error) {
	k := c.coded.Bits(src[i*c.coded.Size:])
	if k >= uint64(len(c.labels)) {
		return nil, filter.Corrupt("element %d refers to label %d of %d", i, k, len(c.labels)-1)
	}
	return c.labels[k], nil
}
