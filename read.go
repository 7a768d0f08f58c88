package nczarr

import (
	"context"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// Element is a Go type that values can be read into and written from.
type Element interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64 | string
}

// Read reads what the selectors pick of v, as it is stored: see [ReadUnpacked]
// for scale_factor and missing values. Numbers are converted to T. Elements that
// nobody has written are the fill value. A Char variable is read as uint8, or as
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
	raw, err := nczarr.Get[uint8](ctx, v.core, sel.Selection)
	if err != nil {
		return err
	}
	width, n := int64(1), int64(len(raw))
	if last := len(sel.Count) - 1; last >= 0 {
		width = sel.Count[last]
		if !sel.point {
			out.Shape, out.Dims = sel.shape[:len(sel.shape)-1], sel.dims[:len(sel.dims)-1]
		}
		n = 1
		for _, c := range sel.Count[:last] {
			n *= c
		}
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
// type of v. Strings written to a Char variable are filled with NULs up to its last
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
	width := int64(1)
	if last := len(sel.Count) - 1; last >= 0 {
		width = sel.Count[last]
	}
	var raw []uint8
	for i, s := range text {
		if int64(len(s)) > width {
			return ncerr.Errorf(ErrConvert, "write", v.Path(), "string %d has %d bytes, there is room for %d", i, len(s), width)
		}
		raw = append(append(raw, s...), make([]uint8, width-int64(len(s)))...)
	}
	return v.core.Write(ctx, sel.Selection, raw)
}
