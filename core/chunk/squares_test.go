package chunk_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
)

// TestTransposedInSquares compares Scatter and Gather with copies of single elements. It
// copies whole chunks and parts of chunks, which are larger than one square, in transposed
// orders and with various element sizes.
func TestTransposedInSquares(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, elem := range []int{1, 2, 3, 4, 8, 16, 24} {
		for _, order := range [][]int{{2, 1, 0}, {1, 0, 2}, {0, 2, 1}, {2, 0, 1}} {
			shape, chunks := []int64{70, 3, 67}, []int64{70, 3, 67}
			for _, sel := range []chunk.Selection{
				chunk.All(shape),
				{Start: []int64{1, 0, 2}, Count: []int64{68, 2, 40}},
				{Start: []int64{3, 1, 1}, Count: []int64{20, 2, 33}, Stride: []int64{3, 1, 2}},
			} {
				plan, err := chunk.NewPlan(sel, chunk.Regular(chunks))
				if err != nil {
					t.Fatal(err)
				}
				stored := make([]byte, 70*3*67*elem)
				for i := range stored {
					stored[i] = byte(random.Uint32())
				}
				m := chunk.NewMover(plan, sel.Count, chunks, order, elem)
				p := make(chunk.Projection, 3)
				plan.At(0, p)
				got, want := make([]byte, int(sel.Len())*elem), make([]byte, int(sel.Len())*elem)
				m.Scatter(got, stored, p)
				back := bytes.Clone(stored)
				eachSelected(sel, chunks, order, func(out, in int) {
					copy(want[out*elem:(out+1)*elem], stored[in*elem:])
					clear(back[in*elem : (in+1)*elem])
				})
				if !bytes.Equal(got, want) {
					t.Fatalf("wrong result of Scatter for elements of %d bytes, order %v, %+v", elem, order, sel)
				}
				if m.Gather(back, got, p); !bytes.Equal(back, stored) {
					t.Fatalf("wrong result of Gather for elements of %d bytes, order %v, %+v", elem, order, sel)
				}
			}
		}
	}
}

// eachSelected calls f for each selected element, with its positions in the slab and in the
// chunk, counted in elements.
func eachSelected(sel chunk.Selection, chunks []int64, order []int, f func(out, in int)) {
	for n := range int(sel.Len()) {
		index, rest := make([]int64, len(chunks)), int64(n)
		for d := len(chunks) - 1; d >= 0; d-- {
			step := int64(1)
			if sel.Stride != nil {
				step = sel.Stride[d]
			}
			index[d] = sel.Start[d] + rest%sel.Count[d]*step
			rest /= sel.Count[d]
		}
		at := int64(0)
		for _, d := range order {
			at = at*chunks[d] + index[d]
		}
		f(n, int(at))
	}
}
