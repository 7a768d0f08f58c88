// Package manifest answers one question: where are the bytes of this chunk?
//
// A [Locator] is the only way from a chunk index to bytes. Plain Zarr stores
// compute the key ([Computed]); shard indexes, Kerchunk references and scanned
// HDF5 files are other Locators. A [Location] may point into another Map than
// the dataset's own.
//
// Below it are core/zmap and core/chunk; above it is core/nczarr.
package manifest

import (
	"context"
	"sync"
	"unsafe"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Location is the place of one chunk's encoded bytes.
type Location struct {
	// Map holds the object; nil when Inline or Absent says it all.
	Map *zmap.Map
	// Key is the object's key in Map.
	Key string
	// Range is the part of the object; nil is the whole object.
	Range *driver.Range
	// Inline, when not nil, is the chunk's encoded content itself.
	Inline []byte
	// Version, when not empty, is the version that the object must have.
	Version string
	// FilterMask has bit i set when codec i of the chain was not applied to
	// this chunk. Source: HDF5, chunk filter mask.
	FilterMask uint32
	// Absent says that the chunk is known not to exist: it reads as fill.
	Absent bool
	// Promised says that the chunk must exist: a missing object is an error,
	// not fill. Plain Zarr stores promise nothing.
	Promised bool
}

// Locator finds chunks. It is safe for concurrent use.
type Locator interface {
	// Locate sets out[i] to the place of the chunk at grid position
	// indexes[i]. len(out) >= len(indexes). Positions are within the grid.
	Locate(ctx context.Context, indexes [][]int64, out []Location) error
}

// Computed is the Locator of plain Zarr: the key is the array's prefix and
// the chunk's grid position.
type Computed struct {
	m      *zmap.Map
	prefix string
	sep    byte
	arenas sync.Pool
}

// NewComputed makes the Locator of the array whose keys begin with prefix
// (empty, or ending in a slash), with sep between grid positions.
func NewComputed(m *zmap.Map, prefix string, sep byte) *Computed {
	return &Computed{m: m, prefix: prefix, sep: sep}
}

var _ Locator = (*Computed)(nil)

// Locate implements Locator. It never fails and sends nothing to the store.
func (c *Computed) Locate(_ context.Context, indexes [][]int64, out []Location) error {
	a, _ := c.arenas.Get().(*arena)
	if a == nil {
		a = new(arena)
	}
	for i, index := range indexes {
		out[i] = Location{Map: c.m, Key: a.key(c.prefix, index, c.sep)}
	}
	c.arenas.Put(a)
	return nil
}

// arena makes key strings out of large blocks, so that a key costs no
// allocation of its own. A block is never written again where a key stands in
// it, and lives as long as one of its keys does.
type arena struct{ block []byte }

const arenaSize = 8 << 10

func (a *arena) key(prefix string, index []int64, sep byte) string {
	if need := len(prefix) + 20*(len(index)+1); cap(a.block)-len(a.block) < need {
		a.block = make([]byte, 0, max(arenaSize, need))
	}
	start := len(a.block)
	a.block = append(a.block, prefix...)
	a.block = chunk.AppendKey(a.block, index, sep)
	key := a.block[start:]
	return unsafe.String(unsafe.SliceData(key), len(key))
}
