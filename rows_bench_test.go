package nczarr_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr"
)

// The shape of the only chunk in the benchmarks. The chunk has 4 MiB.
const rows, columns = 1024, 1024

// chunkValues returns values for the chunk.
func chunkValues() []float32 {
	values := make([]float32, rows*columns)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the data need not be secret
	for i := range values {
		values[i] = float32(random.IntN(4000)) / 100
	}
	return values
}

// writeRows creates a dataset with one chunk, and writes step rows at a time.
func writeRows(b *testing.B, path string, values []float32, step int64, options ...nczarr.Option) {
	b.Helper()
	ds := must(nczarr.Create(b.Context(), path, append(options, nczarr.Replace())...))
	v := must(ds.DefineVar(b.Context(), "v", nczarr.VarSpec{
		Type: nczarr.Float32, Dims: []string{"y", "x"}, Shape: []int64{rows, columns}, Chunks: []int64{rows, columns},
		Codecs: []nczarr.Codec{nczarr.Shuffle{}, nczarr.Zstd{Level: 1}},
	}))
	for y := int64(0); y < rows; y += step {
		if err := nczarr.Write(b.Context(), v, values[y*columns:(y+step)*columns], nczarr.Span(y, y+step), nczarr.All); err != nil {
			b.Fatal(fmt.Errorf("row %d: %w", y, err))
		}
	}
	if err := ds.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWriteRows writes a chunk of 4 MiB with shuffle and zstd as a whole and row by
// row, with and without the write buffer.
func BenchmarkWriteRows(b *testing.B) {
	path, values := filepath.Join(b.TempDir(), "rows.zarr"), chunkValues()
	for _, c := range []struct {
		name   string
		buffer int64
		step   int64
	}{{"whole", 0, rows}, {"rows", 32 << 20, 1}, {"unbuffered", 0, 1}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(rows * columns * 4)
			for b.Loop() {
				writeRows(b, path, values, c.step, nczarr.WriteBuffer(c.buffer))
			}
		})
	}
}

// BenchmarkRows reads a chunk of 4 MiB as a whole and row by row, with and without the
// cache of decoded chunks.
func BenchmarkRows(b *testing.B) {
	path := filepath.Join(b.TempDir(), "rows.zarr")
	writeRows(b, path, chunkValues(), rows)
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
