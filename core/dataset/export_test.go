package dataset

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/manifest"
)

// WriteEncoded stores one chunk as it is, as Copy does.
func (v *Var) WriteEncoded(ctx context.Context, index []int64, data []byte) error {
	return v.writeEncoded(ctx, []array.Encoded{{Index: index, Data: data}})
}

// SetSource sets the Source of v's chunks. It must be called before v is used.
func (v *Var) SetSource(s manifest.Source) {
	v.data.once.Do(func() { v.data.source = s })
}

// Kill releases the locks of a dataset, as the end of its process would.
func Kill(d *Dataset) {
	d.growth.release()
	d.newClaim.hold.Release()
}
