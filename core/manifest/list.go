package manifest

import (
	"context"
	"iter"

	"github.com/seed-695719ce/nczarr/core/zmap"
)

// Chunk is a stored chunk.
type Chunk struct {
	Index []int64 // position in the grid
	Key   string
	Size  int64 // size in bytes as stored; -1 if only a Stat of the object at its Location tells it
}

// Chunks implements Source. It skips keys that are not chunk keys. The sequence ends
// with ncerr.ErrMetadata if no chunk of the grid was found but one exists under a key
// with the other dimension_separator.
func (c *Computed) Chunks(ctx context.Context, grid []int64) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		found, other := false, ""
		for e, err := range c.m.List(ctx, c.prefix, &zmap.ListOptions{Recursive: true, Info: true}) {
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			name := e.Key[len(c.prefix):]
			index := c.keys.Parse(name, c.rank)
			if index == nil {
				if other == "" && c.rank > 1 && Within(c.keys.Other().Parse(name, c.rank), grid) {
					other = e.Key
				}
				continue
			}
			found = found || Within(index, grid)
			if !yield(Chunk{Index: index, Key: e.Key, Size: e.Info.Size}, nil) {
				return
			}
		}
		if !found && other != "" {
			yield(Chunk{}, c.wrongSeparator(other))
		}
	}
}

// Within reports whether index lies in grid. It returns false for a nil index.
func Within(index, grid []int64) bool {
	if index == nil || len(index) != len(grid) {
		return false
	}
	for d, n := range grid {
		if index[d] >= n {
			return false
		}
	}
	return true
}

// Remove implements Writer.
func (c *Computed) Remove(ctx context.Context, chunks []Chunk, _ []int64) error {
	for i := range chunks {
		if err := c.m.Delete(ctx, chunks[i].Key); err != nil {
			return err
		}
	}
	return nil
}
