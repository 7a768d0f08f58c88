package chunk_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
)

// TestSpansAtTheEndsOfInt64 checks the spans of selections in dimensions of up to
// math.MaxInt64 elements with arbitrary-precision arithmetic. Every selected index must
// be in the span of its chunk and in no other span.
func TestSpansAtTheEndsOfInt64(t *testing.T) {
	t.Parallel()
	wide := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, math.MaxInt64), rapid.Int64Range(math.MaxInt64-100, math.MaxInt64))
	rapidseed.Check(t, func(t *rapid.T) {
		n, size := wide.Draw(t, "length"), wide.Draw(t, "chunk")
		start := min(wide.Draw(t, "start"), n) - 1
		step := wide.Draw(t, "stride")
		most := (n-1-start)/step + 1
		sel := chunk.Selection{Start: []int64{start}, Count: []int64{min(most, wide.Draw(t, "count"))}, Stride: []int64{step}}
		if err := sel.Check([]int64{n}); err != nil {
			t.Fatal(err)
		}
		p, err := chunk.NewPlan(sel, chunk.Regular([]int64{size}))
		if err != nil {
			t.Fatal(err)
		}
		at := func(i int64) *big.Int { // array index of the selected index i
			k := new(big.Int).Mul(big.NewInt(i), big.NewInt(step))
			return k.Add(k, big.NewInt(start))
		}
		proj := make(chunk.Projection, 1)
		check := func(k int64) chunk.Span {
			p.At(k, proj)
			s := proj[0]
			if s.N < 1 || s.Out < 0 || s.Out > sel.Count[0]-s.N || s.First < 0 || s.First >= size {
				t.Fatalf("chunk %d of %d: the span %+v is out of range", k, p.Len(), s)
			}
			lo := new(big.Int).Mul(big.NewInt(s.Index), big.NewInt(size))
			first := new(big.Int).Add(lo, big.NewInt(s.First))
			if first.Cmp(at(s.Out)) != 0 {
				t.Fatalf("chunk %d: %+v begins at %v, not at %v", k, s, first, at(s.Out))
			}
			end := new(big.Int).Add(lo, big.NewInt(size))
			if at(s.Out+s.N-1).Cmp(end) >= 0 || s.Out+s.N < sel.Count[0] && at(s.Out+s.N).Cmp(end) < 0 {
				t.Fatalf("chunk %d: the span %+v ends outside the chunk or too early", k, s)
			}
			return s
		}
		if s := check(0); s.Out != 0 {
			t.Fatalf("the first span begins at %d, want 0", s.Out)
		}
		if s := check(p.Len() - 1); s.Out+s.N != sel.Count[0] {
			t.Fatalf("the last span ends at %d, want %d", s.Out+s.N, sel.Count[0])
		}
		k := rapid.Int64Range(0, p.Len()-1).Draw(t, "k")
		if s := check(k); k+1 < p.Len() && s.Out+s.N != check(k+1).Out {
			t.Fatalf("spans %d and %d are not adjacent", k, k+1)
		}
	})
}
