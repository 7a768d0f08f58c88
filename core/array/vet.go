package array

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
)

// A chunk that a write changes in part may contain elements beyond the shape of the array in the
// store. Env.Vet decides whether they are kept. It is asked only if such elements differ
// from the fill value and this process has not written the chunk before, and once for each
// batch of chunks.

// stored returns the shape of the array in the store, or nil if no chunk needs to be vetted.
func (e *Env) stored() []int64 {
	if e.Stored == nil {
		return nil
	}
	return e.Stored()
}

// noteOwn records that this process is going to store a chunk if it extends beyond stored,
// and reports whether the chunk must be vetted.
func (a *Array) noteOwn(index, stored []int64) bool {
	return stored != nil && a.extendsBeyond(index, stored) && !a.env.Own(index)
}

// extendsBeyond reports whether a chunk has elements outside bounds.
func (a *Array) extendsBeyond(index, bounds []int64) bool {
	for d, n := range index {
		if start, length := a.meta.Grid.Chunk(d, n); start+length > bounds[d] {
			return true
		}
	}
	return false
}

// eachBeyond calls f for runs of elements of a chunk outside bounds, until f returns
// false. at is the position of the first element in the decoded chunk. A run can be passed
// more than once.
func (a *Array) eachBeyond(index, bounds []int64, f func(at, n int64) bool) error {
	for d := range index {
		sel := chunk.Selection{Start: make([]int64, len(index)), Count: make([]int64, len(index))}
		for i, n := range index {
			sel.Start[i], sel.Count[i] = a.meta.Grid.Chunk(i, n)
		}
		end := sel.Start[d] + sel.Count[d]
		if sel.Start[d] = max(sel.Start[d], bounds[d]); sel.Start[d] >= end {
			continue
		}
		sel.Count[d] = end - sel.Start[d]
		plan, err := chunk.NewPlan(sel, a.meta.Grid)
		if err != nil {
			return err
		}
		proj, more := make(chunk.Projection, plan.Rank()), true
		plan.At(0, proj)
		chunk.NewMover(plan, sel.Count, a.meta.Grid.Largest(), a.meta.Transpose, 1).EachRun(proj, func(at, n int64) { more = more && f(at, n) })
		if !more {
			return nil
		}
	}
	return nil
}

// hasBeyond reports whether a decoded chunk has elements outside bounds that differ from the
// fill value.
func (w *worker) hasBeyond(index, bounds []int64, chunks []byte, texts []string) (found bool, err error) {
	size, fill := int64(w.t.a.meta.DType.Size), w.t.fill
	if fill == nil {
		fill = make([]byte, size)
	}
	err = w.t.a.eachBeyond(index, bounds, func(at, n int64) bool {
		if texts != nil {
			found = slices.ContainsFunc(texts[at:at+n], func(s string) bool { return s != w.t.fillText() })
			return !found
		}
		run := chunks[at*size : (at+n)*size]
		found = !bytes.Equal(run[:size], fill) || !bytes.Equal(run[size:], run[:len(run)-int(size)]) // all elements equal the first
		return !found
	})
	return found, err
}

// vet replaces elements of a decoded chunk that belong to nobody with the fill value: see
// Env.Vet. cleared is false if the chunk is unchanged. keep is set if elements that differ from
// the fill value must be kept.
func (w *worker) vet(ctx context.Context, ch *manifest.Change, chunks []byte, texts []string) (cleared, keep bool, err error) {
	a := w.t.a
	stored := a.env.stored()
	if stored == nil {
		return false, false, nil
	}
	if found, err := w.hasBeyond(ch.Index, stored, chunks, texts); !found || err != nil {
		return false, false, err
	}
	if !w.vetted { // all chunks of the batch were read before
		if w.acknowledged, err = a.env.Vet(ctx); err != nil {
			return false, true, err
		}
		w.vetted = true
	}
	bounds := w.acknowledged
	if bounds == nil {
		return false, true, nil
	}
	if found, err := w.hasBeyond(ch.Index, bounds, chunks, texts); !found || err != nil {
		return false, false, err
	}
	size := int64(a.meta.DType.Size)
	err = a.eachBeyond(ch.Index, bounds, func(at, n int64) bool {
		if texts == nil {
			chunk.Repeat(chunks[at*size:(at+n)*size], w.t.fill)
			return true
		}
		for i := at; i < at+n; i++ {
			texts[i] = w.t.fillText()
		}
		return true
	})
	a.env.OnCleared()
	return true, false, err
}

// vetFixed vets the decoded chunks in New of changes. In a call of ClearUnacknowledged it skips
// those that need no change.
func (w *worker) vetFixed(ctx context.Context, changes []*manifest.Change) error {
	for _, ch := range changes {
		if !w.items[ch.Tag].vet || ch.Skip || w.items[ch.Tag].direct != nil || !ch.Exists && w.t.clear == nil {
			continue
		}
		cleared, keep := false, false
		if ch.Exists {
			var err error
			if cleared, keep, err = w.vet(ctx, ch, ch.New, nil); err != nil {
				return err
			}
		}
		w.skipUncleared(ch, cleared, keep)
	}
	return nil
}

// skipUncleared skips, in a call of ClearUnacknowledged, a chunk that needs no change.
func (w *worker) skipUncleared(ch *manifest.Change, cleared, keep bool) {
	if w.t.clear == nil {
		return
	}
	ch.Skip = !cleared
	if keep {
		w.t.clear.kept = true
	}
}

// clearing is the state of a call of ClearUnacknowledged.
type clearing struct{ kept bool }

// ClearUnacknowledged replaces the elements of a stored chunk that belong to nobody, according to
// Env.Vet, with the fill value. all is false if elements outside Env.Stored must be kept.
// Env.Buffer must not hold elements of the chunk.
func (a *Array) ClearUnacknowledged(ctx context.Context, index []int64) (all bool, err error) {
	sel := chunk.Selection{Start: make([]int64, len(index)), Count: make([]int64, len(index))}
	shape := make([]int64, len(index))
	for d, n := range index {
		sel.Start[d], sel.Count[d] = a.meta.Grid.Chunk(d, n)
		if sel.Start[d] > math.MaxInt64-sel.Count[d] {
			return true, nil
		}
		shape[d] = sel.Start[d] + sel.Count[d]
	}
	from := Slab{}
	if n := sel.Len(); a.isVariableLength() {
		from.Text = make([]string, n)
	} else {
		from.Raw = make([]byte, n*int64(a.meta.DType.Size))
	}
	t, err := a.newWrite(sel, shape, from)
	if err != nil {
		return false, err
	}
	t.clear = &clearing{}
	err = a.writeThrough(ctx, t)
	return !t.clear.kept, err
}
