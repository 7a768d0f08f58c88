package array

import (
	"context"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
)

// storeBoxes stores boxes. It stops at the first error of the store. Boxes with few
// chunks are stored concurrently.
func storeBoxes(ctx context.Context, boxes []*box) error {
	if len(boxes) == 1 {
		return boxes[0].store(ctx, 0)
	}
	workers := math.MaxInt
	for _, x := range boxes {
		a := x.chunks[0].array
		workers = min(workers, a.env.Concurrency(a.size))
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	var large []*box
	for _, x := range boxes {
		if len(x.chunks) >= workers {
			large = append(large, x)
			continue
		}
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			return x.store(ctx, 1) // do not cancel requests in progress
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, x := range large {
		if err := x.store(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// box is a list of buffered chunks of one array. first and last are the smallest and
// largest positions of these chunks in the grid.
type box struct {
	chunks      []*bufferedChunk
	shape       []int64 // of the array
	first, last []int64
}

// appendBoxes divides chunks of one array, which are in C order, into boxes that contain
// few other chunks, and appends the boxes to boxes.
func appendBoxes(boxes []*box, chunks []*bufferedChunk, shape []int64) []*box {
	x := &box{chunks: chunks, shape: shape, first: slices.Clone(chunks[0].index), last: slices.Clone(chunks[0].index)}
	for _, c := range chunks {
		for d, n := range c.index {
			x.first[d], x.last[d] = min(x.first[d], n), max(x.last[d], n)
		}
	}
	n, most := int64(1), int64(64+4*len(chunks))
	for d := range x.first {
		if n <= most {
			n *= min(x.last[d]-x.first[d]+1, most+1)
		}
	}
	if n <= most {
		return append(boxes, x)
	}
	half := len(chunks) / 2
	return appendBoxes(appendBoxes(boxes, chunks[:half], shape), chunks[half:], shape)
}

// store stores the chunks of the box with at most workers workers, and sets stored or
// refused of each chunk. If workers is 0, only Env limits their number. store returns the
// error of the store, if any.
func (x *box) store(ctx context.Context, workers int) error {
	a := x.chunks[0].array
	sel := chunk.Selection{Start: make([]int64, len(x.first)), Count: make([]int64, len(x.first))}
	for d := range x.first {
		start, _ := a.meta.Grid.Chunk(d, x.first[d])
		last, size := a.meta.Grid.Chunk(d, x.last[d])
		sel.Start[d], sel.Count[d] = start, last+size-start
	}
	t, err := a.newTransfer(sel, x.shape, Slab{})
	if err != nil {
		return err
	}
	if t.target, err = manifest.AsWriter(a.source); err != nil {
		return err
	}
	t.workers = workers
	t.parts = make([]*bufferedChunk, t.plan.Len())
	t.only = make([]bool, t.plan.Len())
	for _, c := range x.chunks {
		i, _ := t.plan.Number(c.index) // the box contains the chunk
		t.parts[i], t.only[i] = c, true
	}
	a.env.Cache.beginWrite(&a.cached)
	defer a.env.Cache.endWrite(&a.cached)
	return t.run(ctx, writeBatch)
}
