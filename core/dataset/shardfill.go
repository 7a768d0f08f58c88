package dataset

import (
	"bytes"
	"context"
	"errors"

	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// checkShardFill fails if absent chunks of an existing shard might not read as the fill
// value: to codecs that precede sharding_indexed, such a chunk consists of encoded fill
// values, which may decode to another value. Implementations differ on the encoded fill
// value of numcodecs' codecs: zarr-python keeps the number, others encode it.
//
// Source: Zarr v3, "Sharding codec"; zarr-python 3.4.2, resolve_metadata of the codecs.
func (v *Var) checkShardFill(ctx context.Context) error {
	n := 0
	for _, s := range v.meta.Shards {
		n = s.Before
	}
	t, fill := v.stored()
	if n == 0 || len(fill) != t.Size {
		return nil
	}
	in := codecdriver.Spec{Kind: codecdriver.Array, DType: t, Fill: fill, Shape: []int{1}}
	for _, step := range stepsOf(v.meta.Codecs[:n]) {
		out, err := v.encodeFill(ctx, step, in)
		if err != nil {
			return err
		}
		in = out
	}
	return nil
}

// encodeFill encodes in.Fill with one codec, and returns the description of the result. It
// fails if the codec does not restore the fill value.
func (v *Var) encodeFill(ctx context.Context, step codecdriver.Step, in codecdriver.Spec) (out codecdriver.Spec, err error) {
	p, err := codec.Open(ctx, []codecdriver.Step{step}, in, v.group.ds.opts.Registry.Filter)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	out = p.Specs()[1]
	if out.Kind != codecdriver.Array || !out.DType.Fixed() {
		return out, ncerr.Errorf(ncerr.ErrFilter, "open codec", step.ID, "the codec does not return an array")
	}
	encoded, decoded := make([]byte, out.DType.Size), make([]byte, len(in.Fill))
	n, failed := p.Encode(ctx, encoded, in.Fill)
	if failed == nil && n == len(encoded) {
		n, failed = p.Decode(ctx, decoded, encoded)
	}
	if ncerr.IsContext(failed) {
		return out, failed
	}
	out.Shape, out.MaxBytes, out.Fill = in.Shape, 0, encoded
	same := failed == nil && n == len(decoded) && bytes.Equal(decoded, in.Fill)
	if same && (step.ID == "astype" || step.ID == "fixedscaleoffset") {
		same = sameNumber(in, out)
	}
	if !same {
		return out, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the codec %q before \"sharding_indexed\" changes the fill value, so that the values of absent chunks are unknown", step.ID)
	}
	return out, nil
}

// sameNumber reports whether two fill values of different types are the same number.
func sameNumber(a, b codecdriver.Spec) bool {
	x, y := make([]float64, 1), make([]float64, 1)
	if dtype.Decode(x, a.Fill, a.DType) != nil || dtype.Decode(y, b.Fill, b.DType) != nil {
		return false
	}
	return x[0] == y[0] || x[0] != x[0] && y[0] != y[0]
}
