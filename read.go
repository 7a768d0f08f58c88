package nczarr

import (
	"context"
	"math"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Element is a Go type that values can be read into and written from. An int has the
// range of an int64, or of an int32 on a 32-bit machine.
type Element interface {
	int | int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64 | string
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
// [ErrNoFilter], [ErrCorrupt] for a damaged chunk, [ErrLimit] for a result of more than
// Limits.MaxData bytes or text of more than Limits.MaxChunk bytes, and errors of the
// store.
func Read[T Element](ctx context.Context, v *Var, selectors ...Selector) (Array[T], error) {
	sel, err := v.pick(ctx, "read", selectors)
	if err != nil {
		return Array[T]{}, err
	}
	a := Array[T]{Shape: sel.shape, Dims: sel.dims}
	if text, ok := any(&a).(*Array[string]); ok && v.Type() == Char {
		err = v.readText(ctx, sel, text)
	} else if a.Data, err = dataset.Allocate[T](v.core, sel.Selection); err == nil {
		err = v.core.Read(ctx, sel.Selection, coreSlice(a.Data))
	}
	if err != nil {
		return Array[T]{}, wrapError("read", v.Path(), err)
	}
	return a, nil
}

// coreSlice converts a []int to a slice of a type that package core/dataset accepts,
// without a copy. It returns other slices unchanged.
func coreSlice(slice any) any {
	if ints, ok := slice.([]int); ok {
		return dtype.Ints(ints)
	}
	return slice
}

// readText reads the strings of a Char variable into out.
func (v *Var) readText(ctx context.Context, sel selection, out *Array[string]) error {
	width, n, err := v.strings("read", sel, v.Shape())
	if err != nil {
		return err
	}
	raw, err := dataset.Get[uint8](ctx, v.core, sel.Selection)
	if err != nil {
		return err
	}
	if len(sel.Count) > 0 && !sel.dropLast {
		out.Shape, out.Dims = sel.shape[:len(sel.shape)-1], sel.dims[:len(sel.dims)-1]
	}
	out.Data = make([]string, n)
	for i := range n {
		out.Data[i] = strings.TrimRight(string(raw[i*width:(i+1)*width]), "\x00")
	}
	return nil
}

// ReadInto is like [Read], but reads into the beginning of dst. The Data of the result is
// a subslice of dst. After an error the content of dst is undefined. Strings can be read
// only from String variables. Errors: those of Read, and [ErrInvalid] if dst is too
// short.
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
	if err := v.core.Read(ctx, sel.Selection, coreSlice(a.Data)); err != nil {
		return Array[T]{}, wrapError("read", v.Path(), err)
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
// A chunk of which only a part was written is kept in memory and stored later (see
// [WriteBuffer]). If that fails, [Dataset.Flush], [Dataset.Close] or a read of the chunk
// returns the error. The values are complete in the store after Flush or Close.
//
// Errors: [ErrConvert] for a value that the type of v cannot represent (nothing is then
// written); [ErrInvalid] for a wrong number of values; [ErrLimit] for padded text of more
// than Limits.MaxChunk bytes; [ErrReadOnly]; and those of [Read].
func Write[T Element](ctx context.Context, v *Var, values []T, selectors ...Selector) error {
	sel, err := v.pick(ctx, "write", selectors)
	if err != nil {
		return err
	}
	if text, ok := any(values).([]string); ok && v.Type() == Char {
		err = v.writeText(ctx, sel, text)
	} else {
		err = v.core.Write(ctx, sel.Selection, coreSlice(values))
	}
	return wrapError("write", v.Path(), err)
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

// strings returns the length and the number of the strings in a selection of a Char
// variable of the given shape. It fails with [ErrLimit] if the strings, padded to that
// length, exceed Limits.MaxChunk bytes: both numbers may come from a damaged document,
// or from a Span beyond the end of an unlimited dimension.
func (v *Var) strings(op string, sel selection, shape []int64) (width, n int64, err error) {
	if err := sel.Check(shape); err != nil {
		return 0, 0, ncerr.Wrap(op, v.Path(), err)
	}
	width, n = 1, 1
	if last := len(sel.Count) - 1; last >= 0 {
		width, n = sel.Count[last], chunk.Product(sel.Count[:last])
	}
	const header = 16 // bytes of a string in a slice
	if most := v.core.Group().Dataset().Limits().MaxChunk; n > most/max(width, header) {
		return 0, 0, ncerr.Errorf(ErrLimit, op, v.Path(), "%d strings of %d bytes need more memory than the limit of %d bytes (Limits.MaxChunk): %s a smaller part", n, width, most, op)
	}
	return width, n, nil
}
