// Package object implements the filters "json2" and "msgpack2", which store the elements
// of an array as a JSON or MessagePack list followed by their type and the shape. It
// imports core/codec/driver, core/dtype and the helpers in filters/internal; core/codec
// calls it.
//
// Elements are text (of variable or fixed length), numbers and bool. In Python a list
// may contain values of any type. This package rejects values that do not have the type
// of the array, such as an object among strings or a null.
//
// Source: numcodecs, json.py and msgpacks.py.
package object

import (
	"context"
	"fmt"
	"math"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// The numcodecs ids.
const (
	JSON    = "json2"
	MsgPack = "msgpack2"
)

// maxRank is the largest rank of an array.
const maxRank = 64

// Codec encodes and decodes lists. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt or ncerr.ErrShortBuffer. Encode fails with ErrShortBuffer, or with
// ErrCorrupt for text that is not UTF-8.
type Codec struct {
	typ   dtype.Type
	shape []int
	count int
	open  func(src []byte) reader
	write func(dst []byte) writer
	// spaces returns the maximum white space of a list (see style). The field is nil for
	// a format without white space.
	spaces func(n, lists int64, rank int) int64
}

var _ driver.Codec = (*Codec)(nil)

// reader reads values from encoded bytes one after the other. It keeps its first error.
type reader interface {
	// list enters a list. It returns the number of values if the format stores it, and -1
	// otherwise.
	list() int
	// more reports whether the list has another value, and leaves the list if not.
	more() bool
	// scalar reads a value other than a list. It appends text to buf.
	scalar(buf []byte) (value, []byte)
	err() error
	// ended reports whether all input has been read.
	ended() bool
}

// kind is the kind of a scalar.
type kind uint8

const (
	other kind = iota // null, an object, ...
	text
	boolean
	integer  // value in i
	unsigned // value in u, larger than any int64
	float    // value in f
)

// value is a scalar. The reader appends a string to a buffer instead.
type value struct {
	kind kind
	i    int64
	u    uint64
	f    float64
}

// writer writes values one after the other. It records whether they fit.
type writer interface {
	list(n int)
	end()
	text(s []byte)
	number(v value)
	done() (n int, ok bool)
}

// Provider returns the two filters.
func Provider() driver.Provider {
	return filter.Family{
		single(driver.Description{ID: JSON, Summary: "elements as a JSON list", Lossy: true, LossNote: "payloads of NaN", Params: jsonDescription()}, func(p *filter.Params, c *Codec) {
			style := jsonParams(p)
			c.spaces = style.spaces
			c.open = func(src []byte) reader { return &jsonReader{src: src, loose: style.loose} }
			c.write = func(dst []byte) writer { return &jsonWriter{dst: dst, style: style} }
		}),
		single(driver.Description{ID: MsgPack, Summary: "elements as a MessagePack list", Params: []driver.Param{
			{Name: "use_bin_type", Type: driver.BoolParam, Default: "true", Doc: "write strings in the formats that MessagePack added in 2013"},
			{Name: "use_single_float", Type: driver.BoolParam, Default: "false", Doc: "write floats with 4 bytes"},
			{Name: "raw", Type: driver.BoolParam, Default: "false", Doc: "only used by Python"},
		}}, func(p *filter.Params, c *Codec) {
			bin, single := p.Bool("use_bin_type"), p.Bool("use_single_float")
			p.Bool("raw")
			c.open = func(src []byte) reader { return &packReader{src: src} }
			c.write = func(dst []byte) writer { return &packWriter{dst: dst, old: !bin, single: single} }
		}),
	}
}

func single(desc driver.Description, setup func(p *filter.Params, c *Codec)) *filter.Single {
	desc.Encode, desc.Decode, desc.Transform, desc.Objects = true, true, driver.ArrayToBytes, driver.Text
	return &filter.Single{
		Desc: desc,
		OpenAs: func(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			c := &Codec{typ: in.DType, shape: in.Shape}
			setup(p, c)
			if err := p.Err(); err != nil {
				return nil, driver.Spec{}, err
			}
			size, err := c.check(in)
			return c, filter.Blob(in, size), err
		},
	}
}

// check rejects arrays that cannot be stored as a list, and returns the largest encoded
// size.
func (c *Codec) check(in driver.Spec) (int64, error) {
	switch t := in.DType; {
	case in.Kind != driver.Array || len(in.Shape) > maxRank:
		return 0, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "only arrays can be stored as lists")
	case in.Order == driver.F && len(in.Shape) > 1:
		return 0, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "arrays in Fortran order cannot be stored as lists, because writers do not distinguish them from C order")
	case t.Kind == dtype.String, t.Kind == dtype.Unicode, t.Numeric() && t.Kind != dtype.Datetime && t.Kind != dtype.Timedelta:
	default:
		return 0, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be stored in a list", t)
	}
	var err error
	if c.count, err = in.Elements(); err != nil {
		return 0, err
	}
	// Text grows at most by a factor of six ("\u0001" for a byte) and has quotes. A number
	// has a width and a separator. Each inner list needs brackets or a count.
	size := 30*int64(len(in.Shape)) + 64
	switch t := in.DType; {
	case !t.Numeric():
		size += 6*in.MaxBytes + 8*int64(c.count)
	case t.Kind == dtype.Bool:
		size += int64(len("false, ")) * int64(c.count)
	case t.Kind == dtype.Float:
		size += int64(len("-2.2250738585072014e-308, ")) * int64(c.count)
	default:
		size += int64(len(fmt.Sprint(int64(math.MinInt64)>>(64-8*t.Size), ", "))) * int64(c.count)
	}
	lists, n := int64(0), int64(1)
	for _, k := range in.Shape {
		lists += n
		n *= int64(k)
	}
	size += 5 * lists
	if c.spaces != nil { // limited, because encoders allocate the whole size
		size += min(c.spaces(int64(c.count), lists, len(in.Shape)), max(0, driver.MaxOutput(in.MaxBytes)-size))
	}
	return size, nil
}

// Encode writes the list.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	e, err := c.elements(src)
	if err != nil {
		return 0, err
	}
	w := c.write(dst)
	shape := c.shape
	if len(shape) == 0 {
		shape = []int{1}
	}
	w.list(shape[0] + 2)
	at := 0
	if err := nested(w, e, shape, &at); err != nil {
		return 0, err
	}
	w.text([]byte(c.name()))
	w.list(len(c.shape))
	for _, k := range c.shape {
		w.number(value{kind: integer, i: int64(k)})
	}
	w.end()
	w.end()
	n, ok := w.done()
	if !ok {
		return 0, filter.Short(dst)
	}
	return n, nil
}

// name returns the type in NumPy's spelling.
func (c *Codec) name() string {
	if c.typ.Kind == dtype.String {
		return "|O"
	}
	return c.typ.String()
}

// nested writes the values of shape's first dimension, without brackets.
func nested(w writer, e *elements, shape []int, at *int) error {
	for range shape[0] {
		if len(shape) == 1 {
			if err := e.put(w, *at); err != nil {
				return err
			}
			*at++
			continue
		}
		w.list(shape[1])
		if err := nested(w, e, shape[1:], at); err != nil {
			return err
		}
		w.end()
	}
	return nil
}

// Decode reverses Encode.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s, err := c.sink(dst)
	if err != nil {
		return 0, err
	}
	r := c.open(src)
	top := r.list()
	items := 1
	if len(c.shape) > 0 {
		items = c.shape[0]
	}
	if top >= 0 && top != items+2 {
		return 0, filter.Corrupt("the list has %d values, not %d", top, items+2)
	}
	if err := c.read(r, s, items, c.shape[min(1, len(c.shape)):], &[]byte{}); err != nil {
		return 0, err
	}
	if err := c.tail(r); err != nil {
		return 0, err
	}
	return s.done()
}

// read reads n values. If inner is not empty, the values are lists of shape inner.
func (c *Codec) read(r reader, s *sink, n int, inner []int, buf *[]byte) error {
	for i := range n {
		if !r.more() {
			return c.fault(r, "a list has %d values, not %d", i, n)
		}
		if len(inner) > 0 {
			if k := r.list(); k >= 0 && k != inner[0] {
				return c.fault(r, "a list has %d values, not %d", k, inner[0])
			}
			if err := c.read(r, s, inner[0], inner[1:], buf); err != nil {
				return err
			}
			if r.more() {
				return c.fault(r, "a list has more than %d values", inner[0])
			}
			continue
		}
		v, b := r.scalar((*buf)[:0])
		*buf = b
		if err := r.err(); err != nil {
			return err
		}
		if err := s.put(v, b); err != nil {
			return err
		}
	}
	return nil
}

// fault returns the reader's error, or else an error about the structure of the list.
func (c *Codec) fault(r reader, format string, args ...any) error {
	if err := r.err(); err != nil {
		return err
	}
	return filter.Corrupt(format, args...)
}

// tail reads the type and the shape.
func (c *Codec) tail(r reader) error {
	if !r.more() {
		return c.fault(r, "the type is missing")
	}
	if v, b := r.scalar(nil); v.kind != text {
		return c.fault(r, "the type is not a string")
	} else if t, err := dtype.Parse(string(b)); r.err() == nil && (err != nil || !c.takes(t)) {
		return filter.Corrupt("the list has elements of type %.20q, but the array has %v", b, c.typ)
	}
	if !r.more() {
		return c.fault(r, "the shape is missing")
	}
	n := r.list()
	if n > maxRank {
		return c.fault(r, "the shape has %d dimensions", n)
	}
	for i := 0; r.more(); i++ {
		v, _ := r.scalar(nil)
		if i >= len(c.shape) || v.kind != integer || v.i != int64(c.shape[i]) {
			return c.fault(r, "the shape of the list is not %v", c.shape)
		}
		n = i + 1
	}
	if err := r.err(); err != nil || max(n, 0) != len(c.shape) {
		return c.fault(r, "the shape of the list is not %v", c.shape)
	}
	if r.more() || !r.ended() {
		return c.fault(r, "the list has data after the shape")
	}
	return r.err()
}

// takes reports whether a list of type t can hold the array's elements. A list of
// objects can hold any elements, and a list of Unicode strings of any length can hold
// strings. Other lists must have the type of the array.
func (c *Codec) takes(t dtype.Type) bool {
	switch {
	case t.Kind == dtype.String:
		return true
	case c.typ.Kind == dtype.String || c.typ.Kind == dtype.Unicode:
		return t.Kind == dtype.Unicode
	}
	return t.WithOrder(dtype.Little) == c.typ.WithOrder(dtype.Little)
}

func show(v value, b []byte) string {
	switch v.kind {
	case text:
		return fmt.Sprintf("the string %.40q", b)
	case boolean:
		return "true or false"
	case integer, unsigned, float:
		return "a number"
	}
	return "null, a list or an object"
}
