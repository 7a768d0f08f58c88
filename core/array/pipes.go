package array

import (
	"context"
	"slices"
	"sync"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
)

// maxPipes is the number of open pipelines at which an array closes the unused ones
// before it opens another.
const maxPipes = 64

// pipes holds pipelines for chunks of different shapes. The first one is for the largest
// shape and is always in use.
type pipes struct {
	mu   sync.Mutex
	open []*shapePipe
}

// shapePipe is the pipeline for chunks of one shape.
type shapePipe struct {
	*codec.Pipeline
	shape []int64
	users int
}

// use returns the pipeline for chunks of the given shape. The caller must pass it to
// release.
func (a *Array) use(ctx context.Context, shape []int64) (*shapePipe, error) {
	p := &a.pipes
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		if slices.Equal(s.shape, shape) {
			s.users++
			return s, nil
		}
	}
	if len(p.open) >= maxPipes {
		p.open = slices.DeleteFunc(p.open, func(s *shapePipe) bool {
			if s.users == 0 {
				_ = s.Close() // nothing is in progress that could fail
			}
			return s.users == 0
		})
	}
	pipe, err := a.env.OpenPipeline(ctx, shape)
	if err != nil {
		return nil, err
	}
	s := &shapePipe{pipe, slices.Clone(shape), 1}
	p.open = append(p.open, s)
	return s, nil
}

// useAt is like use for the chunk at a position in the grid.
func (a *Array) useAt(ctx context.Context, index []int64) (*shapePipe, error) {
	shape := make([]int64, len(index))
	for d, n := range index {
		_, shape[d] = a.meta.Grid.Chunk(d, n)
	}
	return a.use(ctx, shape)
}

// openPipes verifies that the codecs can be opened for the chunks of plan that have the
// given numbers.
func (a *Array) openPipes(ctx context.Context, plan *chunk.Plan, numbers []int64) error {
	if a.meta.Grid.Regular() {
		return nil
	}
	proj, shape := make(chunk.Projection, plan.Rank()), make([]int64, plan.Rank())
	for _, i := range numbers {
		plan.At(i, proj)
		for d, s := range proj {
			shape[d] = s.Size
		}
		s, err := a.use(ctx, shape)
		if err != nil {
			return err
		}
		a.pipes.release(s)
	}
	return nil
}

// sizeAt returns the size in bytes of the decoded chunk at a position in the grid. The
// elements have a fixed size.
func (a *Array) sizeAt(index []int64) int64 {
	if a.meta.Grid.Regular() {
		return a.size
	}
	size := int64(a.meta.Stored.Size)
	for d, n := range index {
		_, length := a.meta.Grid.Chunk(d, n)
		size *= length
	}
	return size
}

func (p *pipes) release(s *shapePipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.users--
}

func (p *pipes) close() {
	for _, s := range p.open {
		_ = s.Close() // nothing is in progress that could fail
	}
}
