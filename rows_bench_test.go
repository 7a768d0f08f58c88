package nczarr_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr"
)

// BenchmarkRows reads a chunk of 4 MiB with shuffle and zstd as a whole and row by row,
// with and without the cache of decoded chunks.
func BenchmarkRows(b *testing.B) {
	const rows, columns = 1024, 1024
	path := filepath.Join(b.TempDir(), "rows.zarr")
	ds := must(nczarr.Create(b.Context(), path))
	v := must(ds.DefineVar(b.Context(), "v", nczarr.VarSpec{
		Type: nczarr.Float32, Dims: []string{"y", "x"}, Shape: []int64{rows, columns}, Chunks: []int64{rows, columns},
		Codecs: []nczarr.Codec{nczarr.Shuffle{}, nczarr.Zstd{Level: 1}},
	}))
	values := make([]float32, rows*columns)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the data need not be secret
	for i := range values {
		values[i] = float32(random.IntN(4000)) / 100
	}
	if err := nczarr.Write(b.Context(), v, values); err != nil {
		b.Fatal(err)
	}
	if err := ds.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		cache int64
		step  int64
	}{{"whole", 0, rows}, {"rows", 32 << 20, 1}, {"uncached", 0, 1}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(rows * columns * 4)
			out := make([]float32, c.step*columns)
			for b.Loop() {
				ds := must(nczarr.Open(b.Context(), path, nczarr.ChunkCache(c.cache)))
				v := must(ds.Var("v"))
				for y := int64(0); y < rows; y += c.step {
					if _, err := nczarr.ReadInto(b.Context(), v, out, nczarr.Span(y, y+c.step), nczarr.All); err != nil {
						b.Fatal(fmt.Errorf("row %d: %w", y, err))
					}
				}
				if err := ds.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
