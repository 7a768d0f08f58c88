package object

import (
	"bytes"
	"math"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// elements holds the elements to encode.
type elements struct {
	typ    dtype.Type
	fixed  []byte
	values driver.Values
}

func (c *Codec) elements(src []byte) (*elements, error) {
	e := &elements{typ: c.typ, fixed: src}
	if c.typ.Kind == dtype.String {
		var err error
		e.values, err = driver.ParseValues(src, c.count)
		return e, err
	}
	if len(src) != c.count*c.typ.Size {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "the chunk has %d bytes, the wrong size for %d elements of type %v", len(src), c.count, c.typ)
	}
	return e, nil
}

// put writes element i.
func (e *elements) put(w writer, i int) error {
	if e.typ.Kind == dtype.String {
		s := e.values.At(i)
		if !utf8.Valid(s) {
			return filter.Corrupt("element %d is not valid UTF-8", i)
		}
		w.text(s)
		return nil
	}
	b := e.fixed[i*e.typ.Size:][:e.typ.Size]
	if e.typ.Kind == dtype.Unicode {
		s := [1]string{}
		if err := dtype.Decode(s[:], b, e.typ); err != nil {
			return filter.Corrupt("element %d: %w", i, err)
		}
		w.text([]byte(s[0]))
		return nil
	}
	var v value
	switch {
	case e.typ.Kind == dtype.Bool:
		v = value{kind: boolean, i: int64(min(b[0], 1))}
	case e.typ.Kind == dtype.Float:
		v = value{kind: float, f: e.typ.Float(b)}
	default:
		v = value{kind: integer, i: e.typ.Int(b)}
		if e.typ.Kind == dtype.Uint && v.i < 0 {
			v = value{kind: unsigned, u: uint64(v.i)}
		}
	}
	w.number(v)
	return nil
}

// sink receives decoded elements.
type sink struct {
	typ    dtype.Type
	dst    []byte
	at     int
	values *driver.ValuesWriter
}

func (c *Codec) sink(dst []byte) (*sink, error) {
	s := &sink{typ: c.typ, dst: dst}
	if c.typ.Kind == dtype.String {
		var err error
		s.values, err = driver.NewValuesWriter(dst, c.count)
		return s, err
	}
	if len(dst) < c.count*c.typ.Size {
		return nil, filter.Short(dst)
	}
	return s, nil
}

// put stores the next element. b is the content of a string.
func (s *sink) put(v value, b []byte) error {
	i := s.at
	s.at++
	isText := s.typ.Kind == dtype.String || s.typ.Kind == dtype.Unicode
	switch {
	case isText && v.kind == text && !utf8.Valid(b):
		return filter.Corrupt("element %d is not valid UTF-8", i)
	case s.typ.Kind == dtype.String && v.kind == text:
		return s.values.Add(b)
	case isText && v.kind == text:
		if err := dtype.Encode(s.dst[i*s.typ.Size:][:s.typ.Size], s.typ, []string{string(bytes.TrimRight(b, "\x00"))}); err != nil {
			return filter.Corrupt("element %d: %w", i, err)
		}
		return nil
	case isText:
		return filter.Corrupt("element %d is %s, not a string", i, show(v, b))
	}
	if !s.number(s.dst[i*s.typ.Size:][:s.typ.Size], v) {
		return filter.Corrupt("element %d is %s, which %v cannot represent", i, show(v, b), s.typ)
	}
	return nil
}

// number stores a number or bool and reports whether the type holds it exactly.
func (s *sink) number(e []byte, v value) bool {
	switch {
	case s.typ.Kind == dtype.Bool || v.kind == boolean:
		e[0] = byte(v.i)
		return s.typ.Kind == dtype.Bool && v.kind == boolean
	case s.typ.Kind == dtype.Float:
		f := v.f
		switch v.kind {
		case integer:
			f = float64(v.i)
		case unsigned:
			f = float64(v.u)
		case float:
		default:
			return false
		}
		return s.typ.PutFloats(e, []float64{f}) < 0
	case v.kind == integer:
		s.typ.PutBits(e, uint64(v.i))
		return s.typ.Int(e) == v.i && (v.i >= 0 || s.typ.Kind == dtype.Int)
	case v.kind == unsigned:
		s.typ.PutBits(e, v.u)
		return s.typ.Kind == dtype.Uint && s.typ.Size == 8
	case v.kind == float && v.f == math.Trunc(v.f):
		return s.typ.PutFloats(e, []float64{v.f}) < 0
	}
	return false
}

func (s *sink) done() (int, error) {
	if s.values != nil {
		return s.values.Done()
	}
	return s.at * s.typ.Size, nil
}
