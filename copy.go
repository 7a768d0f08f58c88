package nczarr

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// CopyOptions specifies what [Copy] copies and changes. The zero value copies
// everything unchanged.
type CopyOptions struct {
	// Select reports whether a variable is copied.
	Select func(v *Var) bool
	// Chunks returns the chunk shape of the copy of v; nil keeps the chunks of v. If the
	// chunks of v differ in shape and the format of dst does not allow that, the copy has
	// chunks with the largest length of each dimension.
	Chunks func(v *Var) []int64
	// Shards returns the shape of the shards of the copy of v. nil keeps the shards of v
	// if the format of dst has shards; an empty slice makes each chunk an object.
	Shards func(v *Var) []int64
	// Codecs returns the codecs of the copy of v. All chunks are then encoded again.
	// nil keeps the codecs of v; an empty slice stores chunks without codecs.
	Codecs func(v *Var) []Codec
	// NoVerify copies chunks that need no conversion without decoding them. Damaged
	// chunks are then copied without an error.
	NoVerify bool
	// Progress is called after each block with the number of bytes written and the
	// total number to write, both before compression.
	Progress func(done, total int64)
}

// Copy copies everything below src into dst: dimensions, attributes, groups, variables
// and values. dst and src are usually root groups: the field Group of a [Dataset]. o may
// be nil. Copy uses about 64 MiB of memory for data, or 96 MiB if it then decodes chunks of
// src less often. After an error the copy is incomplete.
//
// Chunks whose encoding does not change are copied as stored, except in shards. Copy
// decodes each of these chunks once to check it.
//
// Errors: those of [Group.DefineVar], [Read] and [Write], and [ErrConflict] if the
// source is replaced during the copy.
func Copy(ctx context.Context, dst, src *Group, o *CopyOptions) error {
	c := &dataset.CopyOptions{}
	if o != nil {
		c.Progress, c.NoVerify = o.Progress, o.NoVerify
		if o.Select != nil {
			c.Select = func(v *dataset.Var) bool { return o.Select(&Var{v}) }
		}
		if o.Chunks != nil {
			c.Chunks = func(v *dataset.Var) ([]int64, error) { return o.Chunks(&Var{v}), nil }
		}
		if o.Shards != nil {
			c.Shards = func(v *dataset.Var, _ []int64) ([]int64, bool, error) {
				shape := o.Shards(&Var{v})
				if shape != nil && len(shape) == 0 {
					return nil, true, nil
				}
				return shape, shape != nil, nil
			}
		}
		if o.Codecs != nil {
			c.Codecs = func(v *dataset.Var) ([]zarr.CodecSpec, bool, error) { return chain(o.Codecs(&Var{v})) }
		}
	}
	return dataset.Copy(ctx, dst.core, src.core, c)
}

// chain converts codecs to their metadata form. It returns false for nil.
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
