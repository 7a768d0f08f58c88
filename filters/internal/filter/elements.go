package filter

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// DType gives the type that a parameter names in numpy's spelling, or def
// when it is absent.
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

// Elements gives the spec of in with each element of type from replaced by
// one of type to. The bytes of in are taken as elements of type from, whatever
// they were before.
func Elements(in driver.Spec, from, to dtype.Type) (driver.Spec, error) {
	if in.MaxBytes%int64(from.Size) != 0 {
		return driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "chunks of %d bytes hold no whole number of %v", in.MaxBytes, from)
	}
	out := in
	n := in.MaxBytes / int64(from.Size)
	out.DType, out.MaxBytes, out.Fill = to, n*int64(to.Size), nil
	if in.Kind == driver.Array && in.DType.Size != from.Size {
		out.Shape, out.Order = []int{int(n)}, driver.C
	}
	return out, nil
}

// Flat gives the spec of the elements of in as a list: numcodecs' filters that
// compute along the elements leave no shape to those behind them, of which
// json2 and msgpack2 write it down. The elements stay as they lie in memory.
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

// Counts checks a call that turns elements of from bytes in src into
// elements of to bytes in dst, and gives their number.
func Counts(ctx context.Context, dst, src []byte, to, from int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(src)%from != 0 {
		return 0, Corrupt("%d bytes hold no whole number of elements of %d", len(src), from)
	}
	n := len(src) / from
	if len(dst)/to < n {
		return 0, Short(dst)
	}
	return n, nil
}
