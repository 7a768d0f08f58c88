package chunk_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
)

// TestPiecesAgainstWhole checks, for any selection and gap, that the pieces scatter to
// the same values as the whole chunk, and that they are in order and inside the chunk.
// With a very large gap there must be only one piece.
func TestPiecesAgainstWhole(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(rt *rapid.T) {
		elem := rapid.SampledFrom([]int{1, 2, 4, 8, 12}).Draw(rt, "elem")
		gap := rapid.SampledFrom([]int64{0, 1, 5, 16, 50, 1 << 40}).Draw(rt, "gap")
		var shape, chunks []int64
		sel := chunk.Selection{}
		size := int64(elem)
		for range rapid.IntRange(0, 4).Draw(rt, "rank") {
			n := rapid.Int64Range(1, 8).Draw(rt, "len")
			start := rapid.Int64Range(0, n-1).Draw(rt, "start")
			step := rapid.Int64Range(1, 3).Draw(rt, "step")
			shape, chunks = append(shape, n), append(chunks, rapid.Int64Range(1, 9).Draw(rt, "chunk"))
			sel.Start, sel.Stride = append(sel.Start, start), append(sel.Stride, step)
			sel.Count = append(sel.Count, rapid.Int64Range(1, (n-1-start)/step+1).Draw(rt, "count"))
			size *= chunks[len(chunks)-1]
		}
		whole := rapid.SliceOfN(rapid.Byte(), int(size), int(size)).Draw(rt, "bytes")
		plan, err := chunk.NewPlan(sel, chunk.Regular(chunks))
		if err != nil {
			rt.Fatal(err)
		}
		m, proj := chunk.NewMover(plan, sel.Count, chunks, nil, elem), make(chunk.Projection, len(chunks))
		got, want := make([]byte, sel.Len()*int64(elem)), make([]byte, sel.Len()*int64(elem))
		for i := range plan.Len() {
			plan.At(i, proj)
			m.Scatter(want, whole, proj)
			p, ok := m.Pieces(proj, gap)
			if !ok || gap == 1<<40 && p.N != 1 {
				rt.Fatalf("Pieces returned %+v, %t", p, ok)
			}
			var packed []byte
			end := int64(0)
			for k := range p.N {
				out, in := m.Piece(k)
				if in < end || in+p.Size > size || out < 0 {
					rt.Fatalf("piece %d of %+v begins at %d, want at least %d in a chunk of %d bytes", k, p, in, end, size)
				}
				end = in + p.Size
				packed = append(packed, whole[in:end]...)
				if p.Direct {
					copy(got[out:], whole[in:end])
				}
			}
			if !p.Direct {
				m.ScatterPieces(got, packed, proj, gap)
			}
		}
		if !bytes.Equal(got, want) {
			rt.Fatalf("shape %v, chunks %v, %+v, gap %d: want %v, got %v", shape, chunks, sel, gap, want, got)
		}
	})
}

// TestPieces checks the number and the size of the pieces for common selections of one
// chunk.
func TestPieces(t *testing.T) {
	t.Parallel()
	chunks := []int64{100, 1000, 1000} // 400 MB in elements of 4 bytes
	for name, c := range map[string]struct {
		start, count []int64
		stride       []int64
		order        []int
		want         chunk.Pieces
	}{
		"an image":             {[]int64{3, 0, 0}, []int64{1, 1000, 1000}, nil, nil, chunk.Pieces{N: 1, Size: 4_000_000, Direct: true}},
		"rows of an image":     {[]int64{3, 10, 0}, []int64{1, 20, 1000}, nil, nil, chunk.Pieces{N: 1, Size: 80_000, Direct: true}},
		"a box of an image":    {[]int64{3, 10, 10}, []int64{1, 20, 30}, nil, nil, chunk.Pieces{N: 1, Size: 19*4000 + 120}},
		"rows of every image":  {[]int64{0, 10, 0}, []int64{100, 20, 1000}, nil, nil, chunk.Pieces{N: 100, Size: 80_000, Direct: true}},
		"a box of every image": {[]int64{0, 10, 10}, []int64{100, 20, 30}, nil, nil, chunk.Pieces{N: 100, Size: 19*4000 + 120}},
		"a series":             {[]int64{0, 5, 5}, []int64{100, 1, 1}, nil, nil, chunk.Pieces{N: 100, Size: 4, Direct: true}},
		"far rows":             {[]int64{0, 0, 0}, []int64{2, 10, 1000}, []int64{1, 100, 1}, nil, chunk.Pieces{N: 20, Size: 4000, Direct: true}},
		"another order":        {[]int64{0, 10, 10}, []int64{100, 20, 30}, nil, []int{2, 1, 0}, chunk.Pieces{}},
	} {
		sel := chunk.Selection{Start: c.start, Count: c.count, Stride: c.stride}
		plan, err := chunk.NewPlan(sel, chunk.Regular(chunks))
		if err != nil {
			t.Fatal(err)
		}
		m, p := chunk.NewMover(plan, sel.Count, chunks, c.order, 4), make(chunk.Projection, 3)
		plan.At(0, p)
		got, ok := m.Pieces(p, 64<<10)
		if ok != (c.want.N > 0) || ok && got != c.want {
			t.Errorf("%s: want %+v, got %+v, %v", name, c.want, got, ok)
		}
	}
}
