package dataset

import (
	"context"
	"slices"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// CheckObjects fails with ncerr.ErrCorrupt if an element of the variable is an object other than
// text, such as a number or a list, which only a read finds. It reads the variable, about memory
// bytes at a time (64 MiB if memory is 0), if its codec can store such objects. Its other errors
// are those of a read.
func (v *Var) CheckObjects(ctx context.Context, memory int64) error {
	codecs := v.group.ds.Codecs()
	if v.nc != dtype.NCString || !slices.ContainsFunc(v.Codecs(), func(c zarr.CodecSpec) bool {
		d, _ := codecs.Find(c.ID)
		return d.Objects == codecdriver.Text && c.ID != "vlen-utf8"
	}) {
		return nil
	}
	if memory == 0 {
		memory = usualMemory
	}
	_, err := v.longestString(ctx, v.group.ds.opts.Budget, memory)
	return err
}
