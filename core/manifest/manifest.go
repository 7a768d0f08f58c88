// Package manifest knows where the bytes of a chunk are, and how they change.
//
// A [Source] is the only way from a chunk index to bytes, and a [Writer] the only way
// to change them. Plain Zarr stores compute the key ([Computed]); shard indexes,
// Kerchunk references and scanned HDF5 files are other Sources. A [Location] may
// point into another Map than the dataset's own.
//
// Below it are core/zmap and core/chunk; above it is core/nczarr.
package manifest

import (
	"context"
	"iter"
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

// Source finds the chunks of an array. It is safe for concurrent use.
type Source interface {
	// Locate sets out[i] to the place of the chunk at grid position
	// indexes[i]. len(out) >= len(indexes). Positions are within the grid.
	Locate(ctx context.Context, indexes [][]int64, out []Location) error
	// Chunks lists the chunks that exist, in no order, also those outside the shape
	// of the array. It is not a snapshot. grid is the number of chunks along each
	// dimension. An error is the last of the sequence.
	Chunks(ctx context.Context, grid []int64) iter.Seq2[Chunk, error]
	// Found says that a chunk was found where Locate said it is, or that none has
	// been stored.
	Found()
	// Missing is called with chunks that were not found, unless some chunk was found
	// before. It fails if they are somewhere else.
	Missing(ctx context.Context, indexes [][]int64, grid []int64) error
	// Settled reports whether Missing has nothing more to find out.
	Settled() bool
}

// Writer is a Source whose chunks can be changed. It is safe for concurrent use.
type Writer interface {
	Source
	// Update changes chunks: it reads those that are changed in part, has them
	// edited, and stores the result. Where the store compares versions, a chunk that
	// was read is stored only if nobody has changed it since; else it is read and
	// edited again. Updates of the same chunks through one Writer wait for each
	// other; those of others may interfere where the store does not compare versions.
	//
	// An error of a chunk names its key. After an error some of the chunks have been
	// stored. It is ncerr.ErrConflict if somebody else changes a chunk all the time.
	Update(ctx context.Context, changes []Change, editor Editor) error
	// Remove removes chunks that Chunks returned, one after the other, until one
	// cannot be removed.
	Remove(ctx context.Context, chunks []Chunk) error
	// LongestKey returns the longest key that a chunk of the grid has.
	LongestKey(grid []int64) string
}

// Computed is the Writer of plain Zarr: the key is the array's prefix and
// the chunk's grid position.
type Computed struct {
	m      *zmap.Map
	prefix string
	sep    byte
	rank   int
	many   bool // several requests in one call cost less
	arenas sync.Pool
	locks  locks
	separator
}

// NewComputed makes the Source of the array with so many dimensions whose keys begin
// with prefix (empty, or ending in a slash), with sep between grid positions.
// many says that several requests in one call cost less than one after the other.
func NewComputed(m *zmap.Map, prefix string, sep byte, rank int, many bool) *Computed {
	return &Computed{m: m, prefix: prefix, sep: sep, rank: rank, many: many}
}

var _ Writer = (*Computed)(nil)

// LongestKey implements Writer: it is the key of the last chunk.
func (c *Computed) LongestKey(grid []int64) string {
	last := make([]int64, len(grid))
	for d, n := range grid {
		last[d] = max(n-1, 0)
	}
	return string(chunk.AppendKey([]byte(c.prefix), last, c.sep))
}

// Locate implements Source. It never fails and sends nothing to the store.
func (c *Computed) Locate(_ context.Context, indexes [][]int64, out []Location) error {
	a := c.arena()
	for i, index := range indexes {
		out[i] = Location{Map: c.m, Key: a.key(c.prefix, index, c.sep)}
	}
	c.arenas.Put(a)
	return nil
}

func (c *Computed) arena() *arena {
	if a, ok := c.arenas.Get().(*arena); ok {
		return a
	}
	return new(arena)
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
