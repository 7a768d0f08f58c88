// Package array copies slabs of one array between memory and chunks. To read, it plans,
// locates and gets chunks in batches, decodes them and scatters the elements; to write,
// it does the reverse. It does not depend on groups, netCDF or URLs.
//
// It builds on core/manifest, which finds and changes chunks, core/codec and
// core/chunk. core/dataset builds on it.
package array

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
)

// Meta describes an array. It is immutable.
type Meta struct {
	// DType is the type of the elements to read or write. Fill is one such element in
	// stored form; nil means no fill value, which reads as zeros.
	DType dtype.Type
	Fill  []byte
	// Stored is the type of the stored elements: DType, or a structure with a field of
	// type DType at byte Offset. A structure is read-only.
	Stored dtype.Type
	Offset int
	// Grid divides the array into chunks. Elements are stored in C order of the
	// dimensions listed in Transpose; nil means the order of the array.
	Grid      chunk.Grid
	Transpose []int
}

// Env holds the settings that an array shares with other arrays.
type Env struct {
	// Workers is the number of batches processed concurrently. 0 means one per core, or
	// more for high-latency stores, up to InFlight. Remote is set for a high-latency
	// store.
	Workers  int
	InFlight int
	Remote   bool
	// BatchGets is set if batched requests are cheaper than separate ones.
	BatchGets bool
	// MaxChunk is the maximum size in bytes of a decoded chunk.
	MaxChunk int64
	// Budget provides the working memory of reads and writes, unless their context has a
	// part (see [budget.With]); nil means no limit. A read or write whose chunk or shard
	// needs more than a call can acquire fails with ncerr.ErrLimit.
	Budget *budget.Budget
	// MergeGap is the maximum gap in bytes between two parts of a chunk that are read in
	// one request.
	MergeGap int64
	// Cache holds decoded chunks; nil means none. The arrays of a dataset share it.
	Cache *Cache
	// Buffer holds parts of chunks that are stored later; nil means that every write is
	// stored immediately. The arrays of a dataset share it.
	Buffer *WriteBuffer
	// Unlimited reports which dimensions may grow; nil means none. If a chunk extends
	// beyond the length of such a dimension, Buffer treats it as incomplete until all its
	// elements are written.
	Unlimited []bool
	// Shared returns the dimensions that other processes may have extended; nil means
	// none. Writes preserve the elements of chunks beyond the shape along these
	// dimensions.
	Shared func() []bool
	// Beyond reports whether an index is outside the lengths of unlimited dimensions in
	// the store; nil means that no index is. See [WriteBuffer.Flush].
	Beyond func(index []int64) bool
	// CheckBuffered is called before Buffer stores chunks that it may have held for a long
	// time. If it returns an error, they are not stored. nil means no check.
	CheckBuffered func(ctx context.Context) error
	// Stored returns the shape of the array in the store, with math.MaxInt64 for dimensions
	// that cannot grow. nil, or a nil result, means that no other process can have written
	// elements beyond that shape. Own, OwnFailed, Vet and OnCleared must be set if Stored is.
	Stored func() []int64
	// Own records that this process is going to store a chunk with elements beyond Stored,
	// and reports whether it may have stored the chunk before.
	Own func(index []int64) bool
	// OwnFailed is called after a write of a chunk has failed for which Own had returned false.
	OwnFailed func(index []int64)
	// Vet decides about elements beyond Stored in chunks that a write changes in part. It is
	// called at most once for a batch of chunks, after all of them were read, and only if a
	// chunk that Own has not recorded before has such elements other than the fill value.
	// Elements outside bounds belong to nobody and are replaced with the fill value. If
	// bounds is nil, all elements are kept.
	Vet func(ctx context.Context) (bounds []int64, err error)
	// OnCleared is called after elements were replaced because of Vet.
	OnCleared func()
	// Grid returns the current number of chunks along each dimension.
	Grid func() []int64
	// OpenPipeline opens the codecs for chunks that do not have the largest shape. It is not
	// called if the grid is regular.
	OpenPipeline func(ctx context.Context, chunks []int64) (*codec.Pipeline, error)
	// Check, if not nil, is called in each batch of a write, after the reads and before
	// the first put. An error makes the write fail.
	Check func(context.Context) error
	// OnPartialWrite, if not nil, is called before a part of a chunk or shard is
	// changed.
	OnPartialWrite func()
	// Ending, if not nil, is called when a write begins its last batch, if it has more batches
	// than concurrent workers and no shards. It is called by a worker, which it must not block.
	Ending func(ctx context.Context)
	// ExtendShape, if not nil, raises the lengths in shape to those that other writes in
	// this process may have reached. A write that covers the part of a chunk inside that
	// shape replaces the whole chunk.
	ExtendShape func(shape []int64)
}

func (e *Env) check(ctx context.Context) error {
	if e.Check == nil {
		return nil
	}
	return e.Check(ctx)
}

// remoteScratch is the scratch memory in bytes that the workers of a call to a high-latency
// store want together, if Env.Budget has it. Each worker has two buffers of the size of a
// chunk. More concurrent requests would not transfer more.
const remoteScratch = 256 << 20

// Concurrency returns the number of batches to process concurrently if a chunk has size
// bytes. It is Workers if that is set, and otherwise one per core. For high-latency
// stores it is up to InFlight, limited to keep the scratch memory of all workers within
// remoteScratch, but at least one per core.
func (e *Env) Concurrency(size int64) int {
	n := runtime.GOMAXPROCS(0)
	switch {
	case e.Workers > 0:
		return e.Workers
	case e.Remote:
		return max(n, int(min(int64(e.InFlight), remoteScratch/max(2*size, 1))))
	}
	return n
}

// AssumedElementSize is the assumed size in bytes of an element of variable length. It
// is used to divide data into batches and blocks.
const AssumedElementSize = 64

// Slab holds values in memory in C order: Raw for elements of fixed size, Text for
// strings of variable length.
type Slab struct {
	Raw  []byte
	Text []string
}

// Array is an array whose chunks are in a manifest.Source. It is safe for concurrent
// use.
type Array struct {
	meta     Meta
	source   manifest.Source
	pipe     *codec.Pipeline // for chunks of the largest shape
	pipes    pipes
	env      Env
	size     int64 // bytes of the largest decoded chunk; the limit if the size of elements varies
	memory   func() (least, want int64)
	scratch  sync.Pool // idle workers
	cached   cachedChunks
	buffered buffered
	// unversioned is set once the store has returned an object without a version.
	unversioned atomic.Bool
	// ranges is set once the store has returned a part of an object. noRanges is set
	// once the store could not return a part, or had to read the whole object for it.
	ranges, noRanges atomic.Bool
	// expands is set once an encoded chunk needed more than a quarter of the largest
	// possible size.
	expands atomic.Bool
}

// New returns an array whose chunks are in source. pipe encodes chunks of the largest
// shape of the grid.
func New(meta *Meta, source manifest.Source, pipe *codec.Pipeline, env *Env) *Array {
	a := &Array{meta: *meta, source: source, pipe: pipe, env: *env}
	a.pipes.open = []*shapePipe{{pipe, meta.Grid.Largest(), 1}}
	a.size = meta.ChunkBytes(meta.Grid.Largest(), env.MaxChunk)
	a.memory = sync.OnceValues(a.computeMemory)
	return a
}

// ChunkBytes returns the size in bytes of a decoded chunk of shape chunks, or limit if the
// size of elements varies.
func (m *Meta) ChunkBytes(chunks []int64, limit int64) int64 {
	if !m.DType.Fixed() {
		return limit
	}
	return int64(m.Stored.Size) * chunk.Product(chunks)
}

// StoredShape returns the shape in storage order of a chunk of shape chunks.
func (m *Meta) StoredShape(chunks []int64) []int {
	shape := make([]int, len(chunks))
	for i := range shape {
		d := i
		if m.Transpose != nil {
			d = m.Transpose[i]
		}
		shape[i] = int(chunks[d])
	}
	return shape
}

// Close releases resources of the codecs and discards the chunks of the array in the cache
// and in the buffer. No operation may be in progress.
func (a *Array) Close() {
	a.env.Buffer.drop(a)
	a.Forget()
	a.pipes.close()
}

// Forget removes the chunks of the array from the cache and discards what its Source has
// read. Later reads send requests to the store again.
func (a *Array) Forget() {
	a.env.Cache.beginWrite(&a.cached)
	a.env.Cache.endWrite(&a.cached)
	a.source.Forget(true)
}

func (a *Array) isVariableLength() bool { return !a.meta.DType.Fixed() }

// Specs returns the specs of the data before and after each codec: see
// [codec.Pipeline.Specs].
func (a *Array) Specs() []codecdriver.Spec { return a.pipe.Specs() }
