package filter

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// DType returns the type in a parameter, in NumPy's spelling, or def if the parameter
// is absent.
func DType(p *Params, name string, def dtype.Type) dtype.Type {
	text := p.Text(name)
	if text == "" {
		return def
	}
	t, err := dtype.Parse(text)
	if err != nil {
		p.Fail(name, "%q is not a known type", text)
		return def
	}
	return t
}

// Elements returns the spec of in with each element of type from replaced by one of type
// to. It treats the bytes of in as elements of type from, regardless of their type in the
// spec.
func Elements(in driver.Spec, from, to dtype.Type) (driver.Spec, error) {
	if in.MaxBytes%int64(from.Size) != 0 {
		return driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "a chunk of %d bytes is not a whole number of elements of %v", in.MaxBytes, from)
	}
	out := in
	n := in.MaxBytes / int64(from.Size)
	out.DType, out.MaxBytes, out.Fill = to, n*int64(to.Size), nil
	if in.Kind == driver.Array && in.DType.Size != from.Size {
		out.Shape, out.Order = []int{int(n)}, driver.C
	}
	return out, nil
}

// Flat returns in with a one-dimensional shape. The filters of numcodecs that process
// elements in sequence flatten the chunk, so that later filters that store a shape, json2
// and msgpack2, store that one dimension. The order of the elements in memory does not
// change.
//
// Source: numcodecs, reshape(-1, order="A") in delta.py and others.
func Flat(in driver.Spec) (driver.Spec, error) {
	if in.Kind != driver.Array {
		return in, nil
	}
	n, err := in.Elements()
	in.Shape, in.Order = []int{n}, driver.C
	return in, err
}

// Counts checks the buffers of a call that converts the elements in src to elements in
// dst, and returns the number of elements. from and to are the sizes of one element in
// src and dst, in bytes.
func Counts(ctx context.Context, dst, src []byte, to, from int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(src)%from != 0 {
		return 0, Corrupt("the input has %d bytes, not a multiple of the element size of %d bytes", len(src), from)
	}
	n := len(src) / from
	if len(dst)/to < n {
		return 0, Short(dst)
	}
	return n, nil
}
