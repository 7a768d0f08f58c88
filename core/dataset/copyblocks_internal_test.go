package dataset

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// TestOverlaps compares overlaps with a count of the chunks in the plans of all blocks.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(testseed.New(t), 1))
	for range 500 {
		lengths := func() []int64 { return []int64{1 + random.Int64N(9), 1 + random.Int64N(9), 1 + random.Int64N(9)} }
		shape, chunks, blockGrid := lengths(), chunk.Regular(lengths()), chunk.Regular(lengths())
		plan, err := chunk.NewPlan(chunk.All(shape), blockGrid)
		if err != nil {
			t.Fatal(err)
		}
		all, want := &blocks{make([]int64, plan.Rank()), plan}, int64(0)
		for i := range plan.Len() {
			inner, err := chunk.NewPlan(all.at(i), chunks)
			if err != nil {
				t.Fatal(err)
			}
			want += inner.Len()
		}
		if got := overlaps(chunks, blockGrid, shape); got != float64(want) {
			t.Fatalf("shape %v, chunks %v, blocks %v: got %v, want %d", shape, chunks.Largest(), blockGrid.Largest(), got, want)
		}
	}
}

// TestOverlapsOfHugeShape checks that the time does not grow with the length of a dimension.
func TestOverlapsOfHugeShape(t *testing.T) {
	t.Parallel()
	shape, chunks, blockGrid := []int64{1 << 60}, chunk.Regular([]int64{1}), chunk.Regular([]int64{1 << 20})
	if got := overlaps(chunks, blockGrid, shape); got != 1<<60 {
		t.Errorf("want 1<<60 pairs, got %v", got)
	}
}

// TestCopyMemory checks when a copy holds more data than usual.
func TestCopyMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to []int64
		memory   int64 // CopyOptions.Memory
		want     int64
	}{
		"chunks that are decoded for each block": {[]int64{1, 1024, 1024}, []int64{128, 64, 64}, 0, 128 << 20},
		"with a limit":                           {[]int64{1, 1024, 1024}, []int64{128, 64, 64}, 64 << 20, 64 << 20},
		"equal chunks":                           {[]int64{1, 1024, 1024}, []int64{1, 1024, 1024}, 0, 64 << 20},
		"larger chunks":                          {[]int64{1, 1024, 1024}, []int64{4, 1024, 1024}, 0, 64 << 20},
		"smaller chunks":                         {[]int64{4, 1024, 1024}, []int64{1, 128, 1024}, 0, 64 << 20},
		"one block in both cases":                {[]int64{1, 1024, 1024}, []int64{128, 1024, 1024}, 0, 64 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, shape := sizedVars(t, c.from, c.to), []int64{128, 1024, 1024}
			copier := newCopier(&CopyOptions{Memory: c.memory})
			if got := copier.memory(p, shape); got != c.want {
				t.Errorf("want %d MiB, got %d", c.want>>20, got>>20)
			}
		})
	}
}

// sizedVars returns a float32 variable and a copy with other chunks.
func sizedVars(t *testing.T, from, to []int64) *pair {
	t.Helper()
	o := Options{Registry: registry.New([]driver.Opener{memmap.NewOpener()})}
	loc, err := ncurl.Parse("mem:a", &ncurl.Env{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	ds, err := Create(t.Context(), loc, &CreateOptions{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ds.Abort(context.WithoutCancel(t.Context())) })
	var dims []*Dim
	for i, n := range []int64{128, 1024, 1024} {
		d, err := ds.Root().DefineDim(string(rune('x'+i)), n, false)
		if err != nil {
			t.Fatal(err)
		}
		dims = append(dims, d)
	}
	p := &pair{}
	for name, v := range map[string]**Var{"from": &p.src, "to": &p.dst} {
		chunks := from
		if name == "to" {
			chunks = to
		}
		if *v, err = ds.Root().DefineVar(t.Context(), name, &VarSpec{Type: dtype.NCFloat, Dims: dims, Chunks: chunks}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// TestEvenBlocks checks that blocks are not larger than their number requires.
func TestEvenBlocks(t *testing.T) {
	t.Parallel()
	p, chunks := sizedVars(t, []int64{1, 1024, 1024}, []int64{128, 64, 64}), chunk.Regular([]int64{128, 64, 64})
	for _, c := range []struct{ memory, want int64 }{ // 16 rows of chunks with 32 MiB each
		{31 << 20, 64}, {95 << 20, 128}, {96 << 20, 192}, {127 << 20, 192}, {191 << 20, 256}, {255 << 20, 384}, {500 << 20, 512}, {512 << 20, 1024},
	} {
		grid, err := p.src.blockGrid(chunks, []int64{128, 1024, 1024}, c.memory)
		if err != nil {
			t.Fatal(err)
		}
		if got := grid.Largest()[1]; got != c.want {
			t.Errorf("%d MiB: want blocks of %d rows, got %d", c.memory>>20, c.want, got)
		}
	}
}
