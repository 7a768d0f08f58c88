package zarr

import (
	"fmt"
	"math"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// maxRuns is the maximum number of list entries for one dimension of a rectilinear grid.
const maxRuns = 1 << 20

// ChunkGrid returns the grid that divides the array into chunks.
func (a *Array) ChunkGrid() chunk.Grid {
	if a.Grid != nil {
		return *a.Grid
	}
	return chunk.Regular(a.Chunks)
}

// ObjectGrid returns the grid that divides the array into the objects of the store:
// chunks, or the outermost shards.
func (a *Array) ObjectGrid() chunk.Grid {
	if len(a.Shards) == 0 {
		return a.ChunkGrid()
	}
	if g := a.Shards[0].Grid; g != nil {
		return *g
	}
	return chunk.Regular(a.Shards[0].Shape)
}

// ShardGrid returns the grid of the shards of level i. Its lengths count the shards of
// the next level, or the chunks. ok is false if these do not divide the shards evenly.
func (a *Array) ShardGrid(i int) (g chunk.Grid, ok bool) {
	inner := a.Chunks
	if i+1 < len(a.Shards) {
		inner = a.Shards[i+1].Shape
	}
	g = chunk.Regular(a.Shards[i].Shape)
	if i == 0 {
		g = a.ObjectGrid()
	}
	return g.Over(inner)
}

// ParseGrid parses text, the member chunk_shapes of a rectilinear grid. The member is an
// array with an element for each dimension: the length of all chunks, or a list. An element
// of the list is the length of one chunk, or a length and a number of chunks. The error is
// ErrMetadata, ErrLimit for more than 2^20 elements in a list, or an error of
// [chunk.NewGrid].
//
// Source: zarr-extensions, "rectilinear".
func ParseGrid(text string) (chunk.Grid, error) {
	v, err := jsontext.Check(text)
	if err != nil || v.Kind() != jsontext.Array {
		return chunk.Grid{}, ncerr.Errorf(ncerr.ErrMetadata, "", "", "chunk_shapes: expected an array, found %s", clip(text))
	}
	return parseGrid(v)
}

func parseGrid(v jsontext.Value) (chunk.Grid, error) {
	var dims [][]chunk.Run
	err := v.Elems(func(d int, e jsontext.Value) error {
		if d == chunk.MaxRank {
			return ncerr.Errorf(ncerr.ErrLimit, "", "", "chunk_shapes has more than the limit of %d dimensions", chunk.MaxRank)
		}
		runs, err := parseRuns(d, e)
		dims = append(dims, runs)
		return err
	})
	if err != nil {
		return chunk.Grid{}, err
	}
	g, err := chunk.NewGrid(dims)
	if err != nil {
		return g, ncerr.Errorf(ncerr.KindOf(err), "", "", "chunk_shapes: %w", err)
	}
	return g, nil
}

// parseRuns parses the element of chunk_shapes for dimension d.
func parseRuns(d int, v jsontext.Value) (runs []chunk.Run, err error) {
	number := func(e jsontext.Value) (int64, error) {
		n, ok := e.Int64()
		if !ok || n < 1 {
			return 0, ncerr.Errorf(ncerr.ErrBadChunk, "", "", "chunk_shapes: dimension %d: expected an integer from 1 to %d, found %s", d, int64(math.MaxInt64), clip(e))
		}
		return n, nil
	}
	if v.Kind() != jsontext.Array {
		n, err := number(v)
		return []chunk.Run{{Len: n}}, err
	}
	err = v.Elems(func(i int, e jsontext.Value) error {
		pair := []jsontext.Value{e, "1"}
		if i == maxRuns {
			return ncerr.Errorf(ncerr.ErrLimit, "", "", "chunk_shapes: dimension %d has more than the limit of %d elements", d, maxRuns)
		}
		if e.Kind() == jsontext.Array {
			if pair = elements(e); len(pair) != 2 {
				return ncerr.Errorf(ncerr.ErrMetadata, "", "", "chunk_shapes: dimension %d: expected a length and a number of chunks, found %s", d, clip(e))
			}
		}
		length, err := number(pair[0])
		if err != nil {
			return err
		}
		count, err := number(pair[1])
		runs = append(runs, chunk.Run{Len: length, Count: count})
		return err
	})
	return runs, err
}

// ShownGrid formats g for messages: as the chunk shape of a regular grid, or as the member
// chunk_shapes of a rectilinear grid.
func ShownGrid(g chunk.Grid) string {
	if g.Regular() {
		return fmt.Sprint(g.Largest())
	}
	return GridText(g)
}

// GridText returns the member chunk_shapes of a rectilinear grid; see [ParseGrid].
func GridText(g chunk.Grid) string {
	w := &jsontext.Writer{}
	writeGrid(w, g)
	return string(w.Bytes())
}

func writeGrid(w *jsontext.Writer, g chunk.Grid) {
	w.Open('[')
	for _, runs := range g.Runs() {
		if runs[0].Count == 0 {
			w.Int(runs[0].Len)
			continue
		}
		w.Open('[')
		for _, r := range runs {
			if r.Count == 1 {
				w.Int(r.Len)
			} else {
				w.Ints([]int64{r.Len, r.Count})
			}
		}
		w.Close()
	}
	w.Close()
}
