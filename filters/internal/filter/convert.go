package filter

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// EncodeError returns an ErrConvert for encoding element i of src, which has type from
// and does not fit type to.
func EncodeError(src []byte, from dtype.Type, i int, to dtype.Type) error {
	return ncerr.Errorf(ncerr.ErrConvert, "", "", "element %d is %v, which %v cannot represent", i, from.Value(src[i*from.Size:]), to)
}

// DecodeError returns an ErrCorrupt for decoding element i of src, which does not fit
// type to.
func DecodeError(src []byte, from dtype.Type, i int, to dtype.Type) error {
	return Corrupt("stored element %d is %v, which %v cannot represent", i, from.Value(src[i*from.Size:]), to)
}

// Convert converts the elements of src to another type in dst and returns the length. For
// the first element that does not fit, it returns the error from bad.
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

// Compute is like Convert, but converts elements to float64 first and calls f to change
// each block of them in place.
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
