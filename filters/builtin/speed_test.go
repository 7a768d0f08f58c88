package builtin_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/filters/builtin"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
)

func step(id, params string) driver.Step { return driver.Step{ID: id, Params: json.RawMessage(params)} }

func blosc(cname string, level, shuffle int) []driver.Step {
	return []driver.Step{step("blosc", fmt.Sprintf(`{"cname":%q,"clevel":%d,"shuffle":%d}`, cname, level, shuffle))}
}

// chains lists filter chains that real arrays use.
var chains = []struct {
	name  string
	steps []driver.Step
}{
	{"raw", nil},
	{"blosc-lz4", blosc("lz4", 5, 1)},
	{"blosc-lz4-bits", blosc("lz4", 5, 2)},
	{"blosc-lz4-noshuffle", blosc("lz4", 5, 0)},
	{"blosc-zstd", blosc("zstd", 3, 1)},
	{"blosc-zlib", blosc("zlib", 5, 1)},
	{"shuffle", []driver.Step{step("shuffle", `{"elementsize":4}`)}},
	{"shuffle+zstd", []driver.Step{step("shuffle", `{"elementsize":4}`), step("zstd", `{"level":1}`)}},
	{"shuffle+zlib", []driver.Step{step("shuffle", `{"elementsize":4}`), step("zlib", `{"level":1}`)}},
	{"zlib", []driver.Step{step("zlib", `{"level":1}`)}},
	{"zstd", []driver.Step{step("zstd", `{"level":1}`)}},
	{"gzip", []driver.Step{step("gzip", `{"level":5}`)}},
	{"delta+zlib", []driver.Step{step("delta", `{"dtype":"<i4"}`), step("zlib", `{"level":1}`)}},
}

// opened returns the pipeline of a chain, and a chunk of n float32 values, plain and
// encoded.
func opened(t testing.TB, steps []driver.Step, n int) (p *codec.Pipeline, plain, enc []byte) {
	t.Helper()
	all := builtin.Provider()
	typ := dtype.Type{Kind: dtype.Float, Size: 4, Order: dtype.Little}
	p, err := codec.Open(t.Context(), steps, driver.Spec{DType: typ, Shape: []int{n}}, func(string) (driver.Provider, error) { return all, nil })
	if err != nil {
		t.Fatal(err)
	}
	plain, enc = field(typ, n), make([]byte, p.MaxEncoded())
	m, err := p.Encode(t.Context(), enc, plain)
	if err != nil {
		t.Fatal(err)
	}
	return p, plain, enc[:m]
}

// TestNoAllocationsPerChunk checks that decoding many chunks allocates no memory per
// chunk.
func TestNoAllocationsPerChunk(t *testing.T) { //nolint:paralleltest // the test measures performance
	if raceOn {
		t.Skip("allocations are not counted under the race detector")
	}
	for _, c := range chains {
		p, plain, enc := opened(t, c.steps, 1<<16)
		dst := make([]byte, len(plain))
		jobs := []driver.Job{{Src: enc}, {Src: enc, Dst: dst}}
		ctx := t.Context()
		sink := func(_ int, out []byte, err error) {
			if err != nil || len(out) != len(plain) {
				t.Errorf("%s: decode: got %d bytes, %v", c.name, len(out), err)
			}
		}
		for i := range jobs {
			got := testing.AllocsPerRun(20, func() { _ = p.DecodeMany(ctx, jobs[i:i+1], sink) })
			if got != 0 {
				t.Errorf("%s: want no allocations per chunk, got %v", c.name, got)
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range chains {
		b.Run(c.name+"/chunk=4MiB", func(b *testing.B) {
			p, plain, enc := opened(b, c.steps, 1<<20)
			dst := make([]byte, len(plain))
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			b.ReportMetric(float64(len(plain))/float64(len(enc)), "ratio")
			for b.Loop() {
				if _, err := p.Decode(b.Context(), dst, enc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range chains {
		b.Run(c.name+"/chunk=4MiB", func(b *testing.B) {
			p, plain, _ := opened(b, c.steps, 1<<20)
			dst := make([]byte, p.MaxEncoded())
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Encode(b.Context(), dst, plain); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// simple lists the codecs whose speed BenchmarkSimple compares with that of a copy.
var simple = []struct{ name, dtype, id, params string }{
	{"packbits", "|b1", "packbits", `{}`},
	{"bitround", "<f4", "bitround", `{"keepbits":9}`},
	{"fixedscaleoffset", "<f4", "fixedscaleoffset", `{"offset":280,"scale":100,"astype":"<i2"}`},
	{"delta", "<i4", "delta", `{}`},
	{"szip", "<i2", "szip", `{"mask":32,"pixels-per-block":16}`},
	{"lzma", "<i2", "lzma", `{"preset":1}`},
}

// BenchmarkSimple encodes and decodes 4 MiB with single codecs, and also copies the data,
// which is a lower bound for any codec.
func BenchmarkSimple(b *testing.B) {
	const size = 4 << 20
	bench := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	from, to := make([]byte, size), make([]byte, size)
	bench("copy", func() error { copy(to, from); return nil })
	for _, s := range simple {
		typ, err := dtype.Parse(s.dtype)
		if err != nil {
			b.Fatal(err)
		}
		c, out := filtertest.Open(b, builtin.Provider(), s.id, s.params, driver.Spec{DType: typ, Shape: []int{size / typ.Size}, MaxBytes: size})
		plain, enc := field(typ, size/typ.Size), make([]byte, out.MaxBytes)
		if typ.Kind == dtype.Bool {
			for i := range plain {
				plain[i] &= 1
			}
		}
		n := 0
		bench(s.name+"/encode", func() (err error) { n, err = c.Encode(b.Context(), enc, plain); return err })
		if n == 0 { // encoding was not selected
			if n, err = c.Encode(b.Context(), enc, plain); err != nil {
				b.Fatal(err)
			}
		}
		bench(s.name+"/decode", func() error { _, err := c.Decode(b.Context(), to, enc[:n]); return err })
	}
}
