package filter

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Unfit is the error of encoding for element i of src, of type from, that
// type to cannot hold: ncerr.ErrConvert.
func Unfit(src []byte, from dtype.Type, i int, to dtype.Type) error {
	return ncerr.Errorf(ncerr.ErrConvert, "", "", "element %d is %v, which %v cannot hold", i, from.Value(src[i*from.Size:]), to)
}

// Misfit is the same of decoding: ncerr.ErrCorrupt.
func Misfit(src []byte, from dtype.Type, i int, to dtype.Type) error {
	return Corrupt("stored element %d is %v, which gives no %v", i, from.Value(src[i*from.Size:]), to)
}

// Convert turns the elements of src into elements of another type in dst and
// gives the length; at the first that does not fit, bad makes the error.
func Convert(ctx context.Context, dst []byte, to dtype.Type, src []byte, from dtype.Type, bad func([]byte, dtype.Type, int, dtype.Type) error) (int, error) {
	n, err := Counts(ctx, dst, src, to.Size, from.Size)
	if err != nil {
		return 0, err
	}
	if i := dtype.Convert(dst, to, src, from); i >= 0 {
		return 0, bad(src, from, i, to)
	}
	return n * to.Size, nil
}

// Compute is Convert with a computation between: f changes a block of elements
// in place, which are floats of 64 bits then.
func Compute(ctx context.Context, dst []byte, to dtype.Type, src []byte, from dtype.Type, f func(block []float64), bad func([]byte, dtype.Type, int, dtype.Type) error) (int, error) {
	n, err := Counts(ctx, dst, src, to.Size, from.Size)
	if err != nil {
		return 0, err
	}
	var buf [256]float64
	for at := 0; at < n; at += len(buf) {
		b := buf[:min(len(buf), n-at)]
		from.Floats(b, src[at*from.Size:])
		f(b)
		if i := to.PutFloats(dst[at*to.Size:], b); i >= 0 {
			return 0, bad(src, from, at+i, to)
		}
	}
	return n * to.Size, nil
}
