package nczarr

import (
	"context"
	"math"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// Element is a Go type of values to read and write.
type Element interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64 | string
}

// Read reads the selected elements of v as they are stored. Use [ReadUnpacked] to apply
// scale_factor and detect missing values. Numbers are converted to T; floats are
// truncated when converted to integers. Elements that were never written read as the
// fill value. A Char variable is read as uint8 or string. As string, its last dimension
// is the length of the strings, and trailing NULs are removed.
//
//	// Times 0 to 9, level 3, all of the rest.
//	a, err := nczarr.Read[float32](ctx, v, nczarr.Span(0, 10), nczarr.At(3))
//
// Errors: [ErrRange] for positions outside the shape, [ErrNoDim], [ErrInvalid] for
// selectors that do not fit the variable, [ErrConvert] for a number that T cannot
// represent, [ErrBadType] if one of T and v is text and the other numeric,
// [ErrNoFilter], [ErrCorrupt] for a damaged chunk, [ErrLimit], and errors of the store.
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

// ReadInto is like [Read], but reads into the beginning of dst. The Data of the result
// is a subslice of dst. After an error the content of dst is undefined. Strings can be
// read only from String variables. Errors are those of Read, and [ErrInvalid] if dst is
// too short.
func ReadInto[T Element](ctx context.Context, v *Var, dst []T, selectors ...Selector) (Array[T], error) {
	sel, err := v.pick(ctx, "read", selectors)
	if err != nil {
		return Array[T]{}, err
	}
	n := sel.Len()
	if int64(len(dst)) < n {
		return Array[T]{}, ncerr.Errorf(ErrInvalid, "read", v.Path(), "%d values do not fit in a slice of length %d", n, len(dst))
	}
	a := Array[T]{Data: dst[:n:n], Shape: sel.shape, Dims: sel.dims}
	if err := v.core.Read(ctx, sel.Selection, a.Data); err != nil {
		return Array[T]{}, err
	}
	return a, nil
}

// Write writes values to the selected elements of v, in C order and without packing
// (see [WriteUnpacked]). The number of values must equal the number of selected
// elements. Numbers are converted to the type of v; floats are truncated when converted
// to integers. Strings written to a Char variable are padded with NULs to the length of
// its last dimension. A [Span] may extend beyond the end of an unlimited dimension,
// which then grows. Write does not retain values.
//
// The values are complete in the store after [Dataset.Flush] or [Dataset.Close].
// Errors: [ErrConvert] for a value that the type of v cannot represent, in which case
// nothing is written; [ErrInvalid] for a wrong number of values; [ErrReadOnly]; and
// those of [Read].
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
		return ncerr.Errorf(ErrInvalid, "write", v.Path(), "got %d strings for %d elements", len(text), n)
	}
	for i, s := range text {
		if int64(len(s)) > width {
			return ncerr.Errorf(ErrConvert, "write", v.Path(), "string %d has %d bytes, more than the limit of %d", i, len(s), width)
		}
	}
	raw := make([]uint8, n*width)
	for i, s := range text {
		copy(raw[int64(i)*width:], s)
	}
	return v.core.Write(ctx, sel.Selection, raw)
}

// maxText limits the bytes of text in memory, including string headers. No machine has
// this much memory.
const maxText = 1 << 47

// strings returns the length and the number of the strings in a selection of a Char
// variable of the given shape. It fails with [ErrLimit] if they exceed maxText bytes.
func (v *Var) strings(op string, sel selection, shape []int64) (width, n int64, err error) {
	if err := sel.Check(shape); err != nil {
		return 0, 0, ncerr.Wrap(op, v.Path(), err)
	}
	width, n = 1, 1
	if last := len(sel.Count) - 1; last >= 0 {
		width = sel.Count[last]
		for _, c := range sel.Count[:last] {
			if c > 0 && n > maxText/16/c {
				return 0, 0, ncerr.Errorf(ErrLimit, op, v.Path(), "the strings exceed the memory limit")
			}
			n *= c
		}
	}
	if n > 0 && width > maxText/n {
		return 0, 0, ncerr.Errorf(ErrLimit, op, v.Path(), "%d strings of %d bytes exceed the memory limit", n, width)
	}
	return width, n, nil
}
