package nczarr

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// CopyOptions change what [Copy] copies. The zero value keeps everything.
type CopyOptions struct {
	// Select reports whether a variable is copied.
	Select func(v *Var) bool
	// Chunks returns the chunk shape of the copy of v; nil keeps that of v.
	Chunks func(v *Var) []int64
	// Codecs returns the codecs of the copy of v; nil keeps those of v, and an empty
	// slice stores chunks as they are.
	Codecs func(v *Var) []Codec
	// Progress is called after each block with the bytes written so far, before
	// compression, and those to write.
	Progress func(done, total int64)
}

// Copy copies everything below src into dst, usually the roots of two datasets
// (the field Group of each): dimensions, attributes, groups, variables and
// values. o may be nil. Of data it holds about 64 MiB at once. After an error the
// copy is not complete.
//
// Errors: those of [Group.DefineVar], [Read] and [Write], and [ErrConflict] if the
// source was replaced meanwhile.
func Copy(ctx context.Context, dst, src *Group, o *CopyOptions) error {
	c := &nczarr.CopyOptions{}
	if o != nil {
		c.Progress = o.Progress
		if o.Select != nil {
			c.Select = func(v *nczarr.Var) bool { return o.Select(&Var{v}) }
		}
		if o.Chunks != nil {
			c.Chunks = func(v *nczarr.Var) ([]int64, error) { return o.Chunks(&Var{v}), nil }
		}
		if o.Codecs != nil {
			c.Codecs = func(v *nczarr.Var) ([]zarr.CodecSpec, bool, error) { return chain(o.Codecs(&Var{v})) }
		}
	}
	return nczarr.Copy(ctx, dst.core, src.core, c)
}

// chain is false for nil.
func chain(codecs []Codec) (steps []zarr.CodecSpec, ok bool, err error) {
	for _, c := range codecs {
		step, err := stepOf(c)
		if err != nil {
			return nil, false, err
		}
		steps = append(steps, step)
	}
	return steps, codecs != nil, nil
}
