// Package manifest locates the bytes of chunks and changes them.
//
// A [Source] maps chunk indexes to the locations of their bytes, and a [Writer] changes
// them. [Computed] computes the keys of plain Zarr stores; shard indexes, Kerchunk
// references and scanned HDF5 files are other Sources. A [Location] may refer to a Map
// other than the dataset's.
//
// The package builds on core/zmap and core/chunk, and is used by core/array and
// core/dataset.
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

// Location describes where the encoded bytes of one chunk are.
type Location struct {
	// Map holds the object; nil if the chunk is Inline or Absent.
	Map *zmap.Map
	// Key is the object's key in Map.
	Key string
	// Range is the part of the object that contains the chunk; nil means the whole
	// object.
	Range *driver.Range
	// Inline, if not nil, is the chunk's encoded content.
	Inline []byte
	// Version, if not empty, is the version that the object must have.
	Version string
	// FilterMask has bit i set if codec i of the chain was not applied to this chunk.
	//
	// Source: HDF5, chunk filter mask.
	FilterMask uint32
	// Absent is set if the chunk is known not to exist, so that it reads as fill. Key is
	// then the key of the missing object, or empty.
	Absent bool
	// Required is set if the chunk must exist, so that a missing object is an error
	// rather than fill. Plain Zarr stores never set it.
	Required bool
}

// A Source finds the chunks of an array. It is safe for concurrent use.
type Source interface {
	// Locate sets out[i] to the location of the chunk at grid position indexes[i].
	// len(out) >= len(indexes). Positions are within the grid.
	Locate(ctx context.Context, indexes [][]int64, out []Location) error
	// Chunks lists the existing chunks in no particular order, including those outside
	// the shape of the array. It is not a snapshot. grid is the number of chunks along
	// each dimension. The sequence ends after an error.
	Chunks(ctx context.Context, grid []int64) iter.Seq2[Chunk, error]
	// Found records that a chunk was found at its Location, or that the array is new and
	// has no chunks.
	Found()
	// CheckMissing is called with chunks that were not found at their Locations. It fails
	// if no chunk has been found so far and the chunks are stored under other keys. It
	// checks at most the first MissingMax indexes.
	CheckMissing(ctx context.Context, indexes [][]int64, grid []int64) error
	// Forget drops cached information about the store. If all is false, it keeps
	// information about objects that have a version.
	Forget(all bool)
	// SeparatorKnown reports whether CheckMissing has nothing left to check.
	SeparatorKnown() bool
}

// A Writer is a Source whose chunks can be changed. It is safe for concurrent use.
type Writer interface {
	Source
	// Update changes chunks: it reads those that are changed in part, calls editor, and
	// stores the result. If the store compares versions, a chunk that was read is
	// stored only if it has not changed since; otherwise it is read and edited again.
	// Concurrent updates of the same chunks through one Writer run one after the other.
	// If the store does not compare versions, other writers can interfere.
	//
	// An error about a chunk contains its key. After an error some of the chunks may
	// have been stored. The error is ncerr.ErrConflict if other writers keep changing a
	// chunk.
	Update(ctx context.Context, changes []Change, editor Editor) error
	// Remove removes chunks that Chunks returned, and stops at the first error. Chunks
	// outside grid may be removed too.
	Remove(ctx context.Context, chunks []Chunk, grid []int64) error
	// Units returns the grid, in chunks, of the units that are stored in one request each.
	// The zero Grid means that a unit is a single chunk.
	Units() chunk.Grid
	// LendBody returns n bytes of memory for Change.New from which the chunk is stored
	// without a copy. It returns nil if no such memory is available. The caller may then
	// use any memory. It must call release once, after the last Update that stores from
	// the memory.
	LendBody(n int64) (mem []byte, release func())
	// LongestKey returns the longest key of a chunk in the grid.
	LongestKey(grid []int64) string
}

// AsWriter returns s as a Writer. If the chunks of s cannot be changed, the error is
// ncerr.ErrReadOnly, or ncerr.ErrUnsupported for chunks in shards that are encoded as a
// whole.
func AsWriter(s Source) (Writer, error) {
	switch in := s.(type) {
	case *Shards:
		if _, err := AsWriter(in.source); err != nil {
			return nil, err
		}
		return in, nil
	case *Wrapped:
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "write", "", "the array is read-only, because codecs after sharding_indexed encode each shard as a whole")
	case Writer:
		return in, nil
	}
	return nil, ncerr.Errorf(ncerr.ErrReadOnly, "write", "", "the chunks of the array are in other files, which are read-only")
}

// Computed is the Writer of plain Zarr. The key of a chunk consists of the array's
// prefix and the chunk's grid position.
type Computed struct {
	m      *zmap.Map
	prefix string
	keys   chunk.Keys
	rank   int
	many   bool // batched requests are cheaper than separate ones
	arenas sync.Pool
	locks  locks
	separator
}

// NewComputed returns the Source of an array with the given number of dimensions. The
// keys of its chunks begin with prefix, which is empty or ends in a slash, and are
// encoded as keys specifies. many is set if batched requests are cheaper than separate
// ones.
func NewComputed(m *zmap.Map, prefix string, keys chunk.Keys, rank int, many bool) *Computed {
	return &Computed{m: m, prefix: prefix, keys: keys, rank: rank, many: many}
}

var _ Writer = (*Computed)(nil)

// Forget implements Source. It does nothing, because keys are computed.
func (c *Computed) Forget(bool) {}

// Units implements Writer. Each chunk is an object.
func (c *Computed) Units() chunk.Grid { return chunk.Grid{} }

// LendBody implements Writer.
func (c *Computed) LendBody(n int64) (mem []byte, release func()) { return c.m.LendBody(n) }

// LongestKey implements Writer. It returns the key of the last chunk.
func (c *Computed) LongestKey(grid []int64) string {
	last := make([]int64, len(grid))
	for d, n := range grid {
		last[d] = max(n-1, 0)
	}
	return string(c.keys.Append([]byte(c.prefix), last))
}

// Locate implements Source. It never fails and sends no requests.
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

// arena allocates key strings from large blocks, to avoid one allocation per key. The
// part of a block that contains a key is never written again. A block lives as long as
// any of its keys.
type arena struct{ block []byte }

const arenaSize = 8 << 10

func (a *arena) key(prefix string, index []int64, keys chunk.Keys) string {
	if need := len(prefix) + 20*(len(index)+1) + 2 + len(keys.Suffix); cap(a.block)-len(a.block) < need {
		a.block = make([]byte, 0, max(arenaSize, need))
	}
	start := len(a.block)
	a.block = append(a.block, prefix...)
	a.block = keys.Append(a.block, index)
	key := a.block[start:]
	return unsafe.String(unsafe.SliceData(key), len(key))
}
