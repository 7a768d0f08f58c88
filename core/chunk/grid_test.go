package chunk_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func newGrid(t interface{ Fatal(...any) }, dims ...[]chunk.Run) chunk.Grid {
	g, err := chunk.NewGrid(dims)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGridAgainstList checks that Find, Chunk and Len agree with a list of all chunks,
// including chunks beyond the listed runs, where the last length repeats.
func TestGridAgainstList(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		var runs []chunk.Run
		var starts, lengths []int64
		sum := int64(0)
		add := func(n int64) {
			starts, lengths = append(starts, sum), append(lengths, n)
			sum += n
		}
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			r := chunk.Run{Len: rapid.Int64Range(1, 4).Draw(t, "length"), Count: rapid.Int64Range(1, 3).Draw(t, "count")}
			runs = append(runs, r)
			for range r.Count {
				add(r.Len)
			}
		}
		g := newGrid(t, []chunk.Run{{Len: 2}}, runs)
		if g.Covered(0) != math.MaxInt64 || g.Covered(1) != sum {
			t.Fatalf("%v covers %d and %d", runs, g.Covered(0), g.Covered(1))
		}
		if want := []int64{2, slices.Max(lengths)}; !slices.Equal(g.Largest(), want) {
			t.Fatalf("%v: largest %v, want %v", runs, g.Largest(), want)
		}
		for range 5 {
			add(lengths[len(lengths)-1])
		}
		for n := range lengths {
			if start, length := g.Chunk(1, int64(n)); start != starts[n] || length != lengths[n] {
				t.Fatalf("%v: chunk %d: got %d, %d; want %d, %d", runs, n, start, length, starts[n], lengths[n])
			}
			for i := starts[n]; i < starts[n]+lengths[n]; i++ {
				if index, start, length := g.Find(1, i); index != int64(n) || start != starts[n] || length != lengths[n] {
					t.Fatalf("%v: index %d: got %d, %d, %d; want %d, %d, %d", runs, i, index, start, length, n, starts[n], lengths[n])
				}
				if got := g.Len(1, i+1); got != int64(n)+1 {
					t.Fatalf("%v: %d indices: got %d chunks, want %d", runs, i+1, got, n+1)
				}
			}
		}
		if g.Len(1, 0) != 0 {
			t.Fatalf("0 indices: got %d chunks, want 0", g.Len(1, 0))
		}
	})
}

func TestNewGrid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dims [][]chunk.Run
		want [][]chunk.Run
	}{
		"rank 0":         {nil, nil},
		"regular":        {[][]chunk.Run{{{Len: 3}}, {{Len: 1}}}, nil},
		"merged":         {[][]chunk.Run{{{3, 1}, {3, 2}, {1, 1}, {3, 1}}}, [][]chunk.Run{{{3, 3}, {1, 1}, {3, 1}}}},
		"one run":        {[][]chunk.Run{{{3, 2}}, {{Len: 4}}}, [][]chunk.Run{{{3, 2}}, {{Len: 4}}}},
		"very many":      {[][]chunk.Run{{{1, 1e18}, {2, 1e18}}}, [][]chunk.Run{{{1, 1e18}, {2, 1e18}}}},
		"largest length": {[][]chunk.Run{{{math.MaxInt64, 1}}}, [][]chunk.Run{{{math.MaxInt64, 1}}}},
	} {
		g := newGrid(t, c.dims...)
		if got := g.Runs(); !slices.EqualFunc(got, c.want, slices.Equal[[]chunk.Run]) {
			t.Errorf("%s: want %v, got %v", name, c.want, got)
		}
		if g.Regular() != (c.want == nil) || g.Rank() != len(c.dims) {
			t.Errorf("%s: regular %t, rank %d", name, g.Regular(), g.Rank())
		}
		if !g.Equal(newGrid(t, c.dims...)) || g.Equal(newGrid(t, append(c.dims, []chunk.Run{{Len: 1}})...)) || g.Equal(newGrid(t, append(c.dims[:max(len(c.dims)-1, 0):max(len(c.dims)-1, 0)], []chunk.Run{{2, 2}, {5, 1}})...)) {
			t.Errorf("%s: wrong result of Equal", name)
		}
	}
	for name, c := range map[string]struct {
		runs []chunk.Run
		kind error
	}{
		"none":                    {nil, ncerr.ErrBadChunk},
		"length 0":                {[]chunk.Run{{0, 1}}, ncerr.ErrBadChunk},
		"negative length":         {[]chunk.Run{{1, 1}, {-1, 1}}, ncerr.ErrBadChunk},
		"count 0 beside others":   {[]chunk.Run{{1, 1}, {Len: 1}}, ncerr.ErrBadChunk},
		"count 0 before others":   {[]chunk.Run{{Len: 1}, {1, 1}}, ncerr.ErrBadChunk},
		"negative count":          {[]chunk.Run{{1, -1}}, ncerr.ErrBadChunk},
		"sum beyond int64":        {[]chunk.Run{{1, math.MaxInt64}, {2, 1}}, ncerr.ErrLimit},
		"product beyond int64":    {[]chunk.Run{{math.MaxInt64/2 + 1, 2}}, ncerr.ErrLimit},
		"sum beyond int64, equal": {[]chunk.Run{{math.MaxInt64, 1}, {math.MaxInt64, 1}}, ncerr.ErrLimit},
	} {
		if _, err := chunk.NewGrid([][]chunk.Run{{{Len: 1}}, c.runs}); !errors.Is(err, c.kind) {
			t.Errorf("%s: want %v, got %v", name, c.kind, err)
		}
	}
}

// TestPlanOfLongRuns checks the projections of plans over runs of very many chunks, and that
// At does not allocate.
func TestPlanOfLongRuns(t *testing.T) { //nolint:paralleltest // the test counts allocations and must run alone
	g := newGrid(t, []chunk.Run{{1, 1e18}, {3, 1e18}, {5, 1}})
	n := int64(4e18 + 5)
	for _, c := range []struct {
		step, k int64
		want    chunk.Span
	}{
		{1, 1e18 + 7, chunk.Span{Index: 1e18 + 7, N: 3, Out: 1e18 + 21, Size: 3}},
		{2, 7, chunk.Span{Index: 14, N: 1, Out: 7, Size: 1}}, // every second chunk of the first run
		{2, 5e17, chunk.Span{Index: 1e18, N: 2, Out: 5e17, Size: 3}},
		{2, 5e17 + 1, chunk.Span{Index: 1e18 + 1, First: 1, N: 1, Out: 5e17 + 2, Size: 3}},
		{2, 15e17, chunk.Span{Index: 2e18, N: 3, Out: 2e18, Size: 5}},
		{3e18, 1, chunk.Span{Index: 1e18 + int64(2e18)/3, First: int64(2e18) % 3, N: 1, Out: 1, Size: 3}},
		{4e18, 1, chunk.Span{Index: 2e18, N: 1, Out: 1, Size: 5}}, // no index in the second run
	} {
		sel := chunk.Selection{Start: []int64{0}, Count: []int64{(n-1)/c.step + 1}, Stride: []int64{c.step}}
		p, err := chunk.NewPlan(sel, g)
		if err != nil {
			t.Fatal(err)
		}
		proj := make(chunk.Projection, 1)
		if allocs := testing.AllocsPerRun(100, func() { p.At(c.k, proj) }); allocs != 0 {
			t.Errorf("%v allocations for each projection", allocs)
		}
		if proj[0] != c.want {
			t.Errorf("stride %d, projection %d: want %+v, got %+v", c.step, c.k, c.want, proj[0])
		}
		if p.At(p.Len()-1, proj); proj[0].Out+proj[0].N != sel.Count[0] {
			t.Errorf("stride %d: last span %+v", c.step, proj[0])
		}
	}
}

// TestGridLast checks that the last chunk ends at 2^63-1 or before, and that the chunk after
// it would end later.
func TestGridLast(t *testing.T) {
	t.Parallel()
	regular := [][]chunk.Run{{{Len: 1}}, {{Len: 3}}, {{Len: 1 << 40}}, {{Len: math.MaxInt64}}}
	for _, runs := range append(regular, []chunk.Run{{Len: 5, Count: 2}, {Len: 1 << 61, Count: 1}, {Len: 7, Count: 1}}, []chunk.Run{{Len: 1, Count: 1 << 62}, {Len: 2, Count: 1 << 60}}) {
		g := newGrid(t, runs)
		start, length := g.Chunk(0, g.Last(0))
		if start < 0 || length > math.MaxInt64-start {
			t.Errorf("%v: chunk %d starts at %d and has length %d", runs, g.Last(0), start, length)
		}
		if end := start + length; length <= math.MaxInt64-end {
			t.Errorf("%v: chunk %d ends at %d, so it is not the last", runs, g.Last(0), end)
		}
	}
}
