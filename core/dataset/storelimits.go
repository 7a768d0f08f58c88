package dataset

import (
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// checkStoreLimits fails if the longest key of a new variable, or an unencoded chunk or
// shard, exceeds the store's declared limits. It sends no requests. It uses the current
// length of unlimited dimensions; each growth is checked separately.
func (v *Var) checkStoreLimits() error {
	caps := v.group.ds.m.Capabilities()
	what, n := "chunk", v.chunkBytes()
	if shape := v.Shards(); shape != nil {
		what, n = "shard", v.shardBytes(shape)
	}
	if caps.MaxObject > 0 && !v.isVariableLength() && n > caps.MaxObject {
		return ncerr.Errorf(ncerr.ErrLimit, "define", v.Path(), "a %s has %d bytes, but objects in the store are limited to %d", what, n, caps.MaxObject)
	}
	return v.checkKeyLength("define", v.meta.Shape)
}

// checkKeyLength fails if, with the given shape, a key of v would be too long for the
// store.
func (v *Var) checkKeyLength(op string, shape []int64) error {
	key := v.key() + v.meta.Layout.LongestDoc()
	if target, err := manifest.AsWriter(v.source()); err == nil {
		if chunk := target.LongestKey(v.gridOf(shape)); len(chunk) > len(key) {
			key = chunk
		}
	}
	if most := v.group.ds.m.Capabilities().MaxKey; most > 0 && len(key) > most {
		return ncerr.Errorf(ncerr.ErrLimit, op, zmap.Path(key), "the key has %d bytes, but keys at this location are limited to %d", len(key), most)
	}
	return nil
}
