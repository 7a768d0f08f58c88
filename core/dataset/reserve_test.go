package dataset_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// TestCopyWithConversions copies variables whose values are converted when they are read and
// written, with chunks of other shapes and with little and much memory.
func TestCopyWithConversions(t *testing.T) {
	t.Parallel()
	const n = 4096
	quantize := dtype.Quantization{Mode: dtype.BitGroom, Digits: 3}
	for name, spec := range map[string]dataset.VarSpec{
		"reversed":  {Type: dtype.NCDouble, Order: dtype.Big},
		"quantized": {Type: dtype.NCDouble, Order: dtype.Big, Quantize: quantize},
	} {
		for _, chunks := range []int64{256, 512, 384} { // each of the first two contains chunks of the source
			for _, memory := range []int64{64 << 10, 100 << 10, 1 << 20, 0} {
				t.Run(fmt.Sprint(name, chunks, memory), func(t *testing.T) {
					t.Parallel()
					at := fmt.Sprintf("mem:conversions-%s-%d-%d", name, chunks, memory)
					src, o, spec := create(t, at+"-src", inMemory()), inMemory(), spec
					if memory > 0 {
						o.Budget = budget.New(memory)
					}
					dst := create(t, at+"-dst", o)
					spec.Dims, spec.Chunks = []*dataset.Dim{dim(t, src.Root(), "x", n, false)}, []int64{256}
					v := define(t, src.Root(), "v", &spec)
					values := make([]float64, n)
					for i := range values {
						values[i] = float64(i) * 1.01
					}
					write(t, v, v.All(), values)
					want, err := dataset.Get[float64](t.Context(), v, v.All())
					if err != nil {
						t.Fatal(err)
					}
					err = dataset.Copy(t.Context(), dst.Root(), src.Root(), &dataset.CopyOptions{
						Memory: memory / 2, Chunks: func(*dataset.Var) ([]int64, error) { return []int64{chunks}, nil },
					})
					if err != nil {
						t.Fatal(err)
					}
					closeDataset(t, dst)
					o.Budget = nil
					w := variable(t, open(t, at+"-dst", o), "v")
					if got, err := dataset.Get[float64](t.Context(), w, w.All()); err != nil || !slices.Equal(got, want) {
						t.Errorf("the values of the copy differ: %v", err)
					}
				})
			}
		}
	}
}

// TestWriteBesideBufferedChunks checks that a write with reserved memory does not fail if the
// buffer has received, since the reservation, chunks of another variable that need more memory.
func TestWriteBesideBufferedChunks(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Budget = budget.New(8 << 20)
	ds := create(t, "mem:beside", o)
	x := dim(t, ds.Root(), "x", 1<<16, false)
	small := define(t, ds.Root(), "small", &dataset.VarSpec{Type: dtype.NCDouble, Order: dtype.Big, Dims: []*dataset.Dim{x}, Chunks: []int64{64}})
	large := define(t, ds.Root(), "large", &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{x}, Chunks: []int64{1 << 16}})
	part := chunk.Selection{Start: []int64{1}, Count: []int64{2}}
	inner, done, err := small.Reserve(t.Context(), 64)
	if err != nil {
		t.Fatal(err)
	}
	write(t, large, part, []float64{1, 2})
	if err := small.Write(inner, part, []float64{3, 4}); err != nil {
		t.Error(err)
	}
	done()
	for v, want := range map[*dataset.Var][]float64{small: {3, 4}, large: {1, 2}} {
		if got, err := dataset.Get[float64](t.Context(), v, part); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v", v.Path(), got, err)
		}
	}
}
