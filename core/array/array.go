// Package array moves slabs of one array between memory and chunks: it plans, locates
// and gets them in batches, decodes and scatters, and the other way round. It knows
// nothing of groups, netCDF or URLs.
//
// Below it are core/manifest, which finds and changes chunks, core/codec and
// core/chunk; above it is core/nczarr.
package array

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
)

// Meta is what is known of an array. It is not changed.
type Meta struct {
	// DType is the type of the elements that are moved, and Fill one of them as it
	// is stored; nil is no fill value, which reads as zeros.
	DType dtype.Type
	Fill  []byte
	// Stored is the type of the stored elements: DType, or a structure that has it at
	// Offset. A structure is read only.
	Stored dtype.Type
	Offset int
	// Chunks is the shape of a chunk. Its elements are stored in C order of the
	// dimensions that Transpose lists; nil is the order of Chunks.
	Chunks    []int64
	Transpose []int
}

// Env is what an array has in common with others.
type Env struct {
	// Workers is how many batches are worked on at once; 0 is chosen by the array:
	// one for each core, and more where requests take their time (Remote), up to
	// InFlight.
	Workers  int
	InFlight int
	Remote   bool
	// Many is set if several requests in one call cost less than separate ones.
	Many bool
	// MaxChunk is the most bytes that a decoded chunk may have, and that all workers
	// together decode at once.
	MaxChunk int64
	// MergeGap is how many bytes between two parts of a chunk are rather read than
	// asked for apart.
	MergeGap int64
	// Grid returns the number of chunks along each dimension as it is now.
	Grid func() []int64
	// Check, when not nil, is called in each batch of a write, after the reads and
	// before the first put, and may refuse it.
	Check func(context.Context) error
	// Part, when not nil, is called before chunks are changed in part.
	Part func()
	// Reach, when not nil, raises the lengths in shape to those that other writes of
	// this process may have reached: a chunk is written whole only if it is covered
	// as far as that.
	Reach func(shape []int64)
}

func (e *Env) check(ctx context.Context) error {
	if e.Check == nil {
		return nil
	}
	return e.Check(ctx)
}

// remoteScratch bounds the scratch of the workers for a store that takes its time,
// in bytes: two buffers of the size of a chunk for each.
const remoteScratch = 256 << 20

// AtOnce is how many batches are worked on at once with chunks of size bytes: where
// requests take their time, as many as may be in flight, as far as the scratch of all
// stays within bounds.
func (e *Env) AtOnce(size int64) int {
	n := runtime.GOMAXPROCS(0)
	switch {
	case e.Workers > 0:
		return e.Workers
	case e.Remote:
		return max(n, int(min(int64(e.InFlight), remoteScratch/max(2*size, 1))))
	}
	return n
}

// GuessedSize is the size in bytes that an element of variable length is taken for
// where only a guess is possible: to cut data into batches and blocks.
const GuessedSize = 64

// Slab is values in memory, in C order: elements of fixed size one after the other,
// or strings where their length varies.
type Slab struct {
	Raw  []byte
	Text []string
}

// Array is an array whose chunks are in a Source. It is safe for concurrent use.
type Array struct {
	meta    Meta
	source  manifest.Source
	pipe    *codec.Pipeline
	env     Env
	size    int64     // bytes of a decoded chunk; the ceiling where that varies
	scratch sync.Pool // of workers
	// unversioned is set once the store has returned an object without a version.
	unversioned atomic.Bool
	// ranges is set once the store has returned a part of an object, noRanges once a
	// part has turned out to cost as much as the whole, or to be unavailable.
	ranges, noRanges atomic.Bool
}

// New makes an array whose chunks source has, encoded by pipe.
func New(meta *Meta, source manifest.Source, pipe *codec.Pipeline, env *Env) *Array {
	a := &Array{meta: *meta, source: source, pipe: pipe, env: *env}
	a.size = meta.ChunkBytes(env.MaxChunk)
	return a
}

// ChunkBytes is the size of a decoded chunk in bytes, or most where that varies.
func (m *Meta) ChunkBytes(most int64) int64 {
	if !m.DType.Fixed() {
		return most
	}
	return int64(m.Stored.Size) * chunk.Product(m.Chunks)
}

// StoredShape is the shape of a chunk in the order in which it is stored.
func (m *Meta) StoredShape() []int {
	shape := make([]int, len(m.Chunks))
	for i := range shape {
		d := i
		if m.Transpose != nil {
			d = m.Transpose[i]
		}
		shape[i] = int(m.Chunks[d])
	}
	return shape
}

// Close releases what the codecs hold. Nothing may be under way.
func (a *Array) Close() { _ = a.pipe.Close() } // nothing was left in it

func (a *Array) varies() bool { return !a.meta.DType.Fixed() }

// Specs returns what goes through the codecs: see [codec.Pipeline.Specs].
func (a *Array) Specs() []codecdriver.Spec { return a.pipe.Specs() }
