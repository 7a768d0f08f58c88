package chunk_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
)

// TestUnits checks that the units of random selections contain each projection once, and
// that a unit contains exactly the projections that lie in it.
func TestUnits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testseed.New(t), 0))
	for range 2000 {
		rank := r.IntN(4)
		var sel chunk.Selection
		chunks, lengths, runs := make([]int64, rank), make([][]int64, rank), make([][]chunk.Run, rank)
		for d := range rank {
			chunks[d], lengths[d] = 1+r.Int64N(4), []int64{1 + r.Int64N(3)}
			if runs[d] = []chunk.Run{{Len: lengths[d][0]}}; r.IntN(2) == 0 {
				runs[d][0].Count = 1
				for range r.IntN(4) {
					n := 1 + r.Int64N(4)
					lengths[d], runs[d] = append(lengths[d], n), append(runs[d], chunk.Run{Len: n, Count: 1})
				}
			}
			sel.Start, sel.Count, sel.Stride = append(sel.Start, r.Int64N(20)), append(sel.Count, r.Int64N(12)), append(sel.Stride, 1+r.Int64N(14))
		}
		plan, err := chunk.NewPlan(sel, chunk.Regular(chunks))
		if err != nil {
			t.Fatal(err)
		}
		units, err := plan.Units(newGrid(t, runs...))
		if err != nil {
			t.Fatal(err)
		}
		unitOf := func(k int64) (unit [4]int64) {
			proj := make(chunk.Projection, rank)
			plan.At(k, proj)
			for d, s := range proj {
				for at := s.Index; ; unit[d]++ { // the last length repeats
					n := lengths[d][min(unit[d], int64(len(lengths[d])-1))]
					if at -= n; at < 0 {
						break
					}
				}
			}
			return unit
		}
		var all []int64
		seen := make(map[[4]int64]bool)
		for i := range units.Len() {
			numbers := units.Append(nil, i)
			if len(numbers) == 0 || !slices.IsSorted(numbers) {
				t.Fatalf("%+v: unit %d has the projections %d, want a sorted list", sel, i, numbers)
			}
			unit := unitOf(numbers[0])
			if seen[unit] {
				t.Fatalf("%+v: unit %d is listed twice", sel, unit)
			}
			seen[unit] = true
			for _, k := range numbers {
				if unitOf(k) != unit {
					t.Fatalf("%+v: projection %d is not in unit %d", sel, k, unit)
				}
			}
			all = append(all, numbers...)
		}
		slices.Sort(all)
		if int64(len(all)) != plan.Len() || len(slices.Compact(all)) != len(all) {
			t.Fatalf("%+v: the units contain %d projections, want each of %d once", sel, len(all), plan.Len())
		}
	}
}
