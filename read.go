package nczarr

import (
	"context"
	"math"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// Element is a Go type that values can be read into and written from.
type Element interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64 | string
}

// Read reads what the selectors pick of v, as it is stored: see [ReadUnpacked]
// for scale_factor and missing values. Numbers are converted to T; floats lose
// their fraction when they become integers. Elements that nobody has written are the fill value. A Char variable is read as uint8, or as
// string: then its last dimension is the length of the strings, whose NULs at the
// end are cut.
//
//	// Times 0 to 9, level 3, all of the rest.
//	a, err := nczarr.Read[float32](ctx, v, nczarr.Span(0, 10), nczarr.At(3))
//
// Errors: [ErrRange] outside the shape, [ErrNoDim], [ErrInvalid] for selectors
// that do not fit, [ErrConvert] for a number that T cannot hold, [ErrBadType] for
// text against numbers, [ErrNoFilter], [ErrCorrupt] for a damaged chunk,
// [ErrLimit], and those of the store.
func Read[T Element](ctx context.Context, v *Var, selectors ...Selector) (Array[T], error) {
	sel, err := v.pick(ctx, "read", selectors)
	if err != nil {
		return Array[T]{}, err
	}
	return readSelection[T](ctx, v, sel)
}

func readSelection[T Element](ctx context.Context, v *Var, sel selection) (Array[T], error) {
	a := Array[T]{Shape: sel.shape, Dims: sel.dims}
	if text, ok := any(&a).(*Array[string]); ok && v.Type() == Char {
		return a, v.readText(ctx, sel, text)
	}
	var err error
	a.Data, err = nczarr.Get[T](ctx, v.core, sel.Selection)
	if err != nil {
		return Array[T]{}, err
	}
	return a, nil
}

// readText reads the strings of a Char variable into out.
func (v *Var) readText(ctx context.Context, sel selection, out *Array[string]) error {
	width, n, err := v.strings("read", sel, v.Shape())
	if err != nil {
		return err
	}
	raw, err := nczarr.Get[uint8](ctx, v.core, sel.Selection)
	if err != nil {
		return err
	}
	if len(sel.Count) > 0 && !sel.point {
		out.Shape, out.Dims = sel.shape[:len(sel.shape)-1], sel.dims[:len(sel.dims)-1]
	}
	out.Data = make([]string, n)
	for i := range n {
		out.Data[i] = strings.TrimRight(string(raw[i*width:(i+1)*width]), "\x00")
	}
	return nil
}

// ReadInto is [Read] into the beginning of dst, which must have room for all
// values: the Data of the result is a part of dst. After an error the content of
// dst is undefined. Strings are read only from String variables. Errors are those
// of Read, and [ErrInvalid] if dst is too short.
func ReadInto[T Element](ctx context.Context, v *Var, dst []T, selectors ...Selector) (Array[T], error) {
	sel, err := v.pick(ctx, "read", selectors)
	if err != nil {
		return Array[T]{}, err
	}
	n := sel.Len()
	if int64(len(dst)) < n {
		return Array[T]{}, ncerr.Errorf(ErrInvalid, "read", v.Path(), "%d values do not fit into a slice of %d", n, len(dst))
	}
	a := Array[T]{Data: dst[:n:n], Shape: sel.shape, Dims: sel.dims}
	if err := v.core.Read(ctx, sel.Selection, a.Data); err != nil {
		return Array[T]{}, err
	}
	return a, nil
}

// Write writes values to what the selectors pick of v: as many as they pick, in C
// order, as they are stored (see [WriteUnpacked]). Numbers are converted to the
// type of v; floats lose their fraction when they become integers. Strings written to a Char variable are filled with NULs up to its last
// dimension. A [Span] may go beyond the end of an unlimited dimension, which
// grows. Write keeps no reference to values.
//
// What was written is complete in the store after [Dataset.Flush] or
// [Dataset.Close]. Errors: [ErrConvert] for a value that the type of v cannot hold;
// then nothing is written. [ErrInvalid] for a wrong number of values,
// [ErrReadOnly], and those of [Read].
func Write[T Element](ctx context.Context, v *Var, values []T, selectors ...Selector) error {
	sel, err := v.pick(ctx, "write", selectors)
	if err != nil {
		return err
	}
	if text, ok := any(values).([]string); ok && v.Type() == Char {
		return v.writeText(ctx, sel, text)
	}
	return v.core.Write(ctx, sel.Selection, values)
}

// writeText writes strings to a Char variable.
func (v *Var) writeText(ctx context.Context, sel selection, text []string) error {
	shape := v.Shape()
	for i, d := range v.core.Dims() {
		if d.Unlimited() {
			shape[i] = math.MaxInt64
		}
	}
	width, n, err := v.strings("write", sel, shape)
	if err != nil {
		return err
	}
	if int64(len(text)) != n {
		return ncerr.Errorf(ErrInvalid, "write", v.Path(), "%d strings where %d are wanted", len(text), n)
	}
	for i, s := range text {
		if int64(len(s)) > width {
			return ncerr.Errorf(ErrConvert, "write", v.Path(), "string %d has %d bytes, there is room for %d", i, len(s), width)
		}
	}
	raw := make([]uint8, n*width)
	for i, s := range text {
		copy(raw[int64(i)*width:], s)
	}
	return v.core.Write(ctx, sel.Selection, raw)
}

// maxText is what no machine has, in bytes of text or of the strings for it.
const maxText = 1 << 47

// strings returns the length of the strings that a selection of a Char variable
// within shape has, and how many there are. What fits into no memory is [ErrLimit].
func (v *Var) strings(op string, sel selection, shape []int64) (width, n int64, err error) {
	if err := sel.Check(shape); err != nil {
		return 0, 0, ncerr.Wrap(op, v.Path(), err)
	}
	width, n = 1, 1
	if last := len(sel.Count) - 1; last >= 0 {
		width = sel.Count[last]
		for _, c := range sel.Count[:last] {
			if c > 0 && n > maxText/16/c {
				return 0, 0, ncerr.Errorf(ErrLimit, op, v.Path(), "the strings fit into no memory")
			}
			n *= c
		}
	}
	if n > 0 && width > maxText/n {
		return 0, 0, ncerr.Errorf(ErrLimit, op, v.Path(), "%d strings of %d bytes fit into no memory", n, width)
	}
	return width, n, nil
}
