package chunk

import (
	"math"
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// A Run is a sequence of chunks that have the same length along one dimension.
type Run struct {
	Len   int64
	Count int64 // number of chunks; 0 means all chunks of the dimension
}

// A Grid divides an array into chunks. In a regular grid, all chunks have the same shape.
// In a rectilinear grid, the chunks along a dimension can have different lengths, specified
// as a list of runs. Beyond the listed chunks the last length repeats, so that each
// index is in a chunk. A Grid is immutable. The zero Grid has rank 0.
//
// Source: Zarr v3, "Regular grids"; zarr-extensions, "rectilinear".
type Grid struct {
	chunks []int64 // the largest chunk length of each dimension
	runs   [][]run // the runs of each dimension; nil if the grid is regular
}

type run struct {
	Run
	first int64 // position of its first chunk in the grid
	start int64 // first index of that chunk
}

// Regular returns the grid of chunks of one shape, which must not be modified.
func Regular(chunks []int64) Grid { return Grid{chunks: chunks} }

// NewGrid returns the grid with the given runs of each dimension. The error is
// ErrBadChunk for a dimension without runs, a length below 1, or a Count below 1 unless
// it is 0 in the only run of a dimension. It is ErrLimit if the lengths of a dimension
// add up to more than 2^63-1.
func NewGrid(dims [][]Run) (Grid, error) {
	g := Grid{chunks: make([]int64, len(dims))}
	all, regular := make([][]run, len(dims)), true
	for d, list := range dims {
		if len(list) == 0 {
			return Grid{}, ncerr.Errorf(ncerr.ErrBadChunk, "", "", "dimension %d has no chunk lengths", d)
		}
		first, start := int64(0), int64(0)
		for i, r := range list {
			switch {
			case r.Len < 1:
				return Grid{}, ncerr.Errorf(ncerr.ErrBadChunk, "", "", "dimension %d: invalid chunk length %d", d, r.Len)
			case r.Count < 1 && (r.Count < 0 || len(list) > 1):
				return Grid{}, ncerr.Errorf(ncerr.ErrBadChunk, "", "", "dimension %d: invalid number of chunks %d", d, r.Count)
			case r.Count > (math.MaxInt64-start)/r.Len:
				return Grid{}, ncerr.Errorf(ncerr.ErrLimit, "", "", "dimension %d: the chunk lengths add up to more than the limit of %d", d, int64(math.MaxInt64))
			}
			g.chunks[d] = max(g.chunks[d], r.Len)
			if i > 0 && all[d][len(all[d])-1].Len == r.Len {
				all[d][len(all[d])-1].Count += r.Count
			} else {
				all[d] = append(all[d], run{r, first, start})
			}
			first, start = first+r.Count, start+r.Count*r.Len
		}
		regular = regular && list[0].Count == 0
	}
	if !regular {
		g.runs = all
	}
	return g, nil
}

// Rank returns the number of dimensions.
func (g Grid) Rank() int { return len(g.chunks) }

// Largest returns the largest chunk length of each dimension, which is the shape of all
// chunks of a regular grid. The result must not be modified.
func (g Grid) Largest() []int64 { return g.chunks }

// Regular reports whether the grid is regular.
func (g Grid) Regular() bool { return g.runs == nil }

// Runs returns the runs of each dimension. Neighboring runs have different lengths. The
// result is nil if the grid is regular.
func (g Grid) Runs() [][]Run {
	var dims [][]Run
	for _, list := range g.runs {
		runs := make([]Run, len(list))
		for i := range list {
			runs[i] = list[i].Run
		}
		dims = append(dims, runs)
	}
	return dims
}

// Times returns the grid whose chunk lengths in dimension d are by[d] times those of g.
// The lengths must not overflow.
func (g Grid) Times(by []int64) Grid {
	return g.scale(func(d int, n int64) int64 { return n * by[d] })
}

// Over returns the grid whose chunk lengths in dimension d are those of g divided by
// by[d]. ok is false if a length is below 1 or not a multiple of by[d].
func (g Grid) Over(by []int64) (out Grid, ok bool) {
	if len(by) != g.Rank() || slices.ContainsFunc(append(slices.Clone(by), g.chunks...), func(n int64) bool { return n < 1 }) {
		return Grid{}, false
	}
	ok = true
	out = g.scale(func(d int, n int64) int64 {
		ok = ok && n%by[d] == 0
		return n / by[d]
	})
	return out, ok
}

func (g Grid) scale(f func(d int, n int64) int64) Grid {
	out := Grid{chunks: slices.Clone(g.chunks)}
	for d, n := range g.chunks {
		out.chunks[d] = f(d, n)
	}
	for d, list := range g.runs {
		list = slices.Clone(list)
		for i := range list {
			list[i].Len, list[i].start = f(d, list[i].Len), f(d, list[i].start)
		}
		out.runs = append(out.runs, list)
	}
	return out
}

// Equal reports whether both grids have the same runs.
func (g Grid) Equal(h Grid) bool {
	return slices.Equal(g.chunks, h.chunks) && slices.EqualFunc(g.runs, h.runs, slices.Equal[[]run])
}

// varies returns the runs of a dimension whose chunks differ in length, and nil for
// other dimensions.
func (g Grid) varies(d int) []run {
	if g.runs == nil || len(g.runs[d]) < 2 {
		return nil
	}
	return g.runs[d]
}

// Covered returns the sum of the chunk lengths that are listed for dimension d, or
// math.MaxInt64 if one length applies to all chunks.
func (g Grid) Covered(d int) int64 {
	if g.runs == nil || g.runs[d][0].Count == 0 {
		return math.MaxInt64
	}
	last := &g.runs[d][len(g.runs[d])-1]
	return last.start + last.Count*last.Len
}

// Uncovered returns the first dimension in which the listed chunk lengths do not cover
// an array of the given shape, or -1.
func (g Grid) Uncovered(shape []int64) int {
	for d, n := range shape {
		if g.Covered(d) < n {
			return d
		}
	}
	return -1
}

// Find returns the chunk of dimension d that contains index i: its position in the grid,
// its first index and its length.
func (g Grid) Find(d int, i int64) (index, start, length int64) {
	if runs := g.varies(d); runs != nil {
		r := &runs[search(runs, i, func(r *run) int64 { return r.start })]
		k := (i - r.start) / r.Len
		return r.first + k, r.start + k*r.Len, r.Len
	}
	n := g.chunks[d]
	return i / n, i - i%n, n
}

// Chunk returns the first index and the length of the chunk of dimension d at a position
// in the grid.
func (g Grid) Chunk(d int, index int64) (start, length int64) {
	if runs := g.varies(d); runs != nil {
		r := &runs[search(runs, index, func(r *run) int64 { return r.first })]
		return r.start + (index-r.first)*r.Len, r.Len
	}
	return index * g.chunks[d], g.chunks[d]
}

// Last returns the position in the grid of the last chunk of dimension d that has only
// indices below 2^63-1. Find and Chunk do not support larger positions.
func (g Grid) Last(d int) int64 {
	if runs := g.varies(d); runs != nil {
		r := &runs[len(runs)-1]
		return r.first + (math.MaxInt64-r.start)/r.Len - 1
	}
	return math.MaxInt64/g.chunks[d] - 1
}

// Len returns the number of chunks that n indices of dimension d need.
func (g Grid) Len(d int, n int64) int64 {
	if n == 0 {
		return 0
	}
	last, _, _ := g.Find(d, n-1)
	return last + 1
}

// search returns the index of the last element of a sorted list whose key is at most k.
// The key of the first element is 0.
func search[T any](list []T, k int64, key func(*T) int64) int {
	lo, hi := 0, len(list)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; key(&list[mid]) <= k {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
