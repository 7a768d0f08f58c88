package array_test

import (
	"runtime"
	"testing"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// TestEncodedBatches checks that all batches together stay within the given memory, unless a
// single chunk needs more.
func TestEncodedBatches(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1, 100, 1 << 16, 1 << 22} {
		for _, memory := range []int64{1, 1 << 16, 1 << 20, 64 << 20} {
			for _, remote := range []bool{false, true} {
				in := codecdriver.Spec{Kind: codecdriver.Array, DType: dtype.Type{Kind: dtype.Uint, Size: 1}, Shape: []int{int(size)}}
				pipe, err := codec.Open(t.Context(), nil, in, nil)
				if err != nil {
					t.Fatal(err)
				}
				a := array.New(&array.Meta{DType: in.DType, Stored: in.DType, Grid: chunk.Regular([]int64{size})}, nil, pipe, &array.Env{MaxChunk: 8 << 20, Remote: remote, InFlight: 64})
				chunks, workers, _ := array.EncodedBatches(a, a, memory)
				if chunks < 1 || workers < 1 || workers*chunks > 1 && workers*(chunks+1)*size > memory {
					t.Errorf("memory %d, chunk size %d: %d workers with batches of %d chunks exceed the memory", memory, size, workers, chunks)
				}
				if most := int64(64); workers > most || !remote && workers > int64(runtime.GOMAXPROCS(0)) {
					t.Errorf("memory %d, chunk size %d: %d workers exceed the limits of the array", memory, size, workers)
				}
				if memory > 1<<22 && size <= 1<<16 && workers < min(2, int64(runtime.GOMAXPROCS(0))) {
					t.Errorf("memory %d, chunk size %d: want at least 2 workers, got %d", memory, size, workers)
				}
			}
		}
	}
}
