package nczarr

import (
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// longestDoc is the longest name of a document of an array.
func longestDoc(l zarr.Layout) string {
	if l == zarr.LayoutV1 {
		return ".nczarray"
	}
	return ".zarray"
}

// fits refuses a new variable that the store cannot hold: its longest key, or
// a chunk before it is encoded, is beyond what the store declares. Nothing is
// sent. An unlimited dimension counts with its present length: keys that it
// grows to are checked when they are written.
func (v *Var) fits() error {
	caps := v.group.ds.m.Capabilities()
	if n := v.chunkBytes(); caps.MaxObject > 0 && !v.varies() && n > caps.MaxObject {
		return ncerr.Errorf(ncerr.ErrLimit, "define", v.Path(), "a chunk has %d bytes, an object of the store at most %d", n, caps.MaxObject)
	}
	longest := longestDoc(v.meta.Layout)
	if last := v.lastChunk(); len(last) > len(longest) {
		longest = last
	}
	if key := v.key() + longest; caps.MaxKey > 0 && len(key) > caps.MaxKey {
		return ncerr.Errorf(ncerr.ErrLimit, "define", zmap.Path(key), "the key has %d bytes; at the place of the dataset the store takes %d", len(key), caps.MaxKey)
	}
	return nil
}

// lastChunk gives the name of the variable's last chunk: none is longer.
func (v *Var) lastChunk() string {
	last := make([]int64, len(v.meta.Shape))
	for d, n := range v.meta.Shape {
		last[d] = max(n-1, 0) / v.meta.Chunks[d]
	}
	return string(chunk.AppendKey(nil, last, v.meta.Separator))
}
