// Package manifest knows where the bytes of a chunk are, and how they change.
//
// A [Source] is the only way from a chunk index to bytes, and a [Writer] the only way
// to change them. Plain Zarr stores compute the key ([Computed]); shard indexes,
// Kerchunk references and scanned HDF5 files are other Sources. A [Location] may
// point into another Map than the dataset's own.
//
// Below it are core/zmap and core/chunk; above it are core/array and core/nczarr.
package manifest

import (
	"context"
	"iter"
	"sync"
	"unsafe"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Location is the place of one chunk's encoded bytes.
type Location struct {
	// Map holds the object; nil if the chunk is Inline or Absent.
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
	// Absent is set if the chunk is known not to exist: it reads as fill. Key is then
	// that of an object that was looked for, or empty.
	Absent bool
	// Promised is set if the chunk must exist: a missing object is an error,
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
	// Found records that a chunk was at its Location, or that the array is new and has
	// no chunks.
	Found()
	// Missing checks chunks that were not at their Locations, if none has been found
	// so far. It returns an error if they are stored elsewhere. It looks at no more
	// than the first MissingMax of indexes.
	Missing(ctx context.Context, indexes [][]int64, grid []int64) error
	// Forget drops what the Source knows of the store: all of it, or what may have
	// changed without a change of its version.
	Forget(all bool)
	// Settled reports whether Missing has nothing left to check.
	Settled() bool
}

// Writer is a Source whose chunks can be changed. It is safe for concurrent use.
type Writer interface {
	Source
	// Update changes chunks: it reads those that are changed in part, calls editor,
	// and stores the result. If the store compares versions, a chunk that was read is
	// stored only if it has not changed since; otherwise it is read and edited again.
	// Updates of the same chunks through one Writer wait for each other. If the store
	// does not compare versions, other writers can interfere.
	//
	// An error about a chunk names its key. After an error some of the chunks may have
	// been stored. The error is ncerr.ErrConflict if other writers keep changing a chunk.
	Update(ctx context.Context, changes []Change, editor Editor) error
	// Remove removes chunks that Chunks returned, and stops at the first error.
	Remove(ctx context.Context, chunks []Chunk) error
	// LongestKey returns the longest key that a chunk of the grid has.
	LongestKey(grid []int64) string
}

// AsWriter returns s as a Writer, or ncerr.ErrReadOnly if its chunks cannot be changed.
func AsWriter(s Source) (Writer, error) {
	if w, ok := s.(Writer); ok {
		return w, nil
	}
	return nil, ncerr.Errorf(ncerr.ErrReadOnly, "write", "", "its chunks are in other files, which are not changed")
}

// Computed is the Writer of plain Zarr: the key is the array's prefix and
// the chunk's grid position.
type Computed struct {
	m      *zmap.Map
	prefix string
	keys   chunk.Keys
	rank   int
	many   bool // several requests in one call cost less
	arenas sync.Pool
	locks  locks
	separator
}

// NewComputed makes the Source of the array with so many dimensions whose keys begin
// with prefix (empty, or ending in a slash) and go on as keys says.
// many is set if several requests in one call cost less than separate ones.
func NewComputed(m *zmap.Map, prefix string, keys chunk.Keys, rank int, many bool) *Computed {
	return &Computed{m: m, prefix: prefix, keys: keys, rank: rank, many: many}
}

var _ Writer = (*Computed)(nil)

// Forget implements Source. Keys are computed: there is nothing to forget.
func (c *Computed) Forget(bool) {}

// LongestKey implements Writer: it is the key of the last chunk.
func (c *Computed) LongestKey(grid []int64) string {
	last := make([]int64, len(grid))
	for d, n := range grid {
		last[d] = max(n-1, 0)
	}
	return string(c.keys.Append([]byte(c.prefix), last))
}

// Locate implements Source. It never fails and sends nothing to the store.
func (c *Computed) Locate(_ context.Context, indexes [][]int64, out []Location) error {
	a := c.arena()
	for i, index := range indexes {
		out[i] = Location{Map: c.m, Key: a.key(c.prefix, index, c.keys)}
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

func (a *arena) key(prefix string, index []int64, keys chunk.Keys) string {
	if need := len(prefix) + 20*(len(index)+1) + 2; cap(a.block)-len(a.block) < need {
		a.block = make([]byte, 0, max(arenaSize, need))
	}
	start := len(a.block)
	a.block = append(a.block, prefix...)
	a.block = keys.Append(a.block, index)
	key := a.block[start:]
	return unsafe.String(unsafe.SliceData(key), len(key))
}
