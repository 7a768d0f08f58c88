package nczarr

import "github.com/seed-695719ce/nczarr/core/manifest"

// SetSource makes s the Source of v's chunks, before v is used.
func (v *Var) SetSource(s manifest.Source) {
	v.data.once.Do(func() { v.data.source = s })
}
