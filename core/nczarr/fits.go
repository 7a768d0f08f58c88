package nczarr

import (
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// fits refuses a new variable that the store cannot hold: its longest key, or
// a chunk before it is encoded, is beyond what the store declares. Nothing is
// sent. An unlimited dimension counts with its present length: each growth is
// checked when it is asked for.
func (v *Var) fits() error {
	caps := v.group.ds.m.Capabilities()
	if n := v.chunkBytes(); caps.MaxObject > 0 && !v.varies() && n > caps.MaxObject {
		return ncerr.Errorf(ncerr.ErrLimit, "define", v.Path(), "a chunk has %d bytes, an object of the store at most %d", n, caps.MaxObject)
	}
	return v.keysFit("define", v.meta.Shape)
}

// keysFit refuses a shape of v with which a key of it would be longer than the
// store takes.
func (v *Var) keysFit(op string, shape []int64) error {
	key := v.key() + v.meta.Layout.LongestDoc()
	if target, ok := v.source().(manifest.Writer); ok {
		if chunk := target.LongestKey(v.gridOf(shape)); len(chunk) > len(key) {
			key = chunk
		}
	}
	if most := v.group.ds.m.Capabilities().MaxKey; most > 0 && len(key) > most {
		return ncerr.Errorf(ncerr.ErrLimit, op, zmap.Path(key), "the key has %d bytes; at the place of the dataset the store takes %d", len(key), most)
	}
	return nil
}
