package array

import (
	"context"
	"math"
	"runtime"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// need is the working memory of a transfer in bytes: for each chunk of a batch, and for
// each unit that is read or stored as a whole.
type need struct{ chunk, unit int64 }

func (n need) of(chunks, units int64) int64 {
	return saturate(times(n.chunk, chunks) + float64(units)*float64(n.unit))
}

func times(a, b int64) float64 { return float64(a) * float64(b) }

// saturate returns n, or math.MaxInt64 if it is larger.
func saturate(n float64) int64 {
	if n >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(n)
}

// need returns the working memory of a read or write. unit is the grid of the units, with
// lengths in chunks, and has rank 0 without units. The elements have a fixed size.
func (a *Array) need(write bool, unit chunk.Grid) need {
	pipe := a.pipe
	stored := max(maxStored(pipe, 0), pipe.MaxEncoded())
	n := need{chunk: saturate(float64(a.size) + float64(stored) + float64(pipe.Scratch()))}
	switch {
	case pipe.Empty() && !write: // a chunk is read into the slab or into one buffer
		n.chunk = a.size
	case !pipe.Local(): // input is in shared memory, in regions of up to twice its size
		n.chunk += stored
	}
	if unit.Rank() > 0 {
		// The old and the new unit, or the encoded and the decoded one.
		n.unit = 2 * min(saturate(times(stored+16, chunk.Product(unit.Largest()))), a.unitLimit())
	}
	return n
}

// unitLimit returns the maximum size in bytes of a unit.
func (a *Array) unitLimit() int64 { return UnitLimit(a.env.MaxChunk, a.env.Budget) }

// UnitLimit returns the maximum size in bytes of a shard if a chunk may have maxChunk bytes.
// A call holds two shards, and memory for chunks.
func UnitLimit(maxChunk int64, b *budget.Budget) int64 { return min(maxChunk, b.ForCalls()/3) }

// variedNeed returns the memory of a unit of elements of variable length. The sizes are
// unknown in advance.
func (a *Array) variedNeed(units bool) int64 {
	if !units {
		return 0
	}
	return 2 * a.unitLimit()
}

// variedCopies is the number of copies of a chunk of variable-length elements that a worker
// holds: stored, decoded, and between two codecs.
const variedCopies = 3

// Memory returns the working memory in bytes of a read or write of the array: the least with
// which any chunk or shard can be read and written, and the most that a call acquires. A
// caller that holds memory of a [budget.Budget] acquires this memory together with its own
// before the call, and passes it to the call as a part; see [budget.With].
func (a *Array) Memory() (least, want int64) { return a.memory() }

func (a *Array) computeMemory() (least, want int64) {
	units, write := manifest.Whole(a.source), false
	if w, err := manifest.AsWriter(a.source); err == nil {
		write = true
		if u := w.Units(); u.Rank() > 0 {
			units = u
		}
	}
	if a.isVariableLength() {
		all := saturate(times(a.size, variedCopies))
		unit := a.variedNeed(units.Rank() > 0)
		most := a.env.Budget.ForCalls()
		return min(unit+variedFirst(most), most), min(saturate(float64(unit)+float64(all)), most)
	}
	n := a.need(write, units)
	workers, batch, claimed := int64(a.workers(a.scratchBytes())), a.batch(a.size), int64(0)
	if units.Rank() > 0 {
		claimed = 1
	}
	return n.of(1, claimed), saturate(float64(workers) * float64(n.of(batch, claimed)))
}

// variedFirst returns the memory for the first attempt at a chunk of variable-length elements
// if a call can acquire most bytes.
func variedFirst(most int64) int64 { return max(1, most/64) }

// scratchBytes returns the typical scratch memory in bytes for a chunk.
func (a *Array) scratchBytes() int64 {
	if a.pipe.Empty() { // most bytes are copied directly between the slab and the store
		return a.size / 4
	}
	return a.size
}

// workers returns the number of batches to process concurrently if each has scratch bytes of
// scratch memory.
func (a *Array) workers(scratch int64) int {
	n := a.env.Concurrency(scratch)
	if !a.pipe.Local() && a.env.Workers <= 0 {
		cores := runtime.GOMAXPROCS(0)
		if a.size >= bulkyChunk {
			return max(n, cores+1)
		}
		n = max(n, processWorkers*cores)
	}
	return n
}

// fit reduces the batches of t until n workers, or fewer, need no more than got bytes. It
// returns the number of workers.
func (t *transfer) fit(n int, got int64, need need) int {
	if need.of(t.batch, t.claimed) <= got/int64(n) {
		return n
	}
	t.claimed = min(t.claimed, 1)
	left := got/int64(n) - need.of(0, t.claimed)
	t.batch = max(1, min(t.batch, left/max(need.chunk, 1)))
	return int(max(1, min(int64(n), got/max(need.of(t.batch, t.claimed), 1))))
}

// outOfRoom returns the error to report if a chunk failed with err. In the last pass, a chunk
// of variable-length elements may need more memory than a call can acquire. It then
// fails like a damaged chunk.
func (w *worker) outOfRoom(err error) error {
	if k := ncerr.KindOf(err); !w.t.varies || !w.t.last || w.room >= w.size || k != ncerr.ErrLimit && k != ncerr.ErrCorrupt {
		return err
	}
	return ncerr.Errorf(ncerr.ErrLimit, "", "", "the chunk is damaged or has more than %d bytes, which the memory limit of %d bytes leaves for it: %w", w.room, w.t.a.env.Budget.Size(), err)
}

// runVaried is run for elements of variable length, whose chunks have unknown sizes. Each
// pass acquires its memory. The chunks in progress share it equally. Chunks that need more
// are deferred to a pass with fewer workers. The last pass processes chunks one by one.
func (t *transfer) runVaried(ctx context.Context, n int, work func(context.Context, *worker) error) error {
	b := budget.From(ctx, t.a.env.Budget)
	most, all := b.ForCalls(), saturate(times(t.size, variedCopies))
	unit := t.a.variedNeed(t.units != nil)
	t.last = false
	for ; ; n = t.nextPass(n) {
		count := int64(n) * t.batch
		chunks := all
		if !t.last { // most chunks are much smaller
			chunks = min(all, saturate(times(variedFirst(most), int64(n))))
		}
		if unit > 0 { // units need most of the memory
			n = max(1, min(n, int((most-min(most, variedFirst(most)))/unit)))
			count = int64(n) * t.batch
		}
		units := saturate(times(unit, int64(n)))
		want := min(most, saturate(float64(units)+float64(chunks)))
		got, err := b.Acquire(ctx, want, want)
		if err != nil {
			return err
		}
		t.room = max(1, min(t.size, max(0, got-units)/variedCopies/max(1, count)))
		t.last = t.last || t.room >= t.size
		err = t.pass(ctx, n, work)
		b.Release(got)
		if err != nil || len(t.deferred) == 0 {
			return err
		}
	}
}
