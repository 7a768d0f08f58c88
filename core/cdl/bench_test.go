package cdl_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/open"
)

// benchText returns CDL with a variable of 200,000 values of the given type.
func benchText(typ string) string {
	var b strings.Builder
	b.WriteString("netcdf x { dimensions: n = 1000 ; m = 200 ; variables: " + typ + " v(n, m) ; data: v = ")
	for i := range 200000 {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString([]string{"1.25", "-273.15", "1.2345678e-05", "100000"}[i%4])
	}
	b.WriteString(" ; }")
	return b.String()
}

func BenchmarkWrite(b *testing.B) {
	for _, typ := range []string{"float", "double"} {
		b.Run(typ, func(b *testing.B) {
			r := newRegistry()
			f, err := cdl.Parse(strings.NewReader(benchText(typ)), "x.cdl", nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := cdl.Generate(b.Context(), f, "mem:x", r.create()); err != nil {
				b.Fatal(err)
			}
			ds, err := open.Open(b.Context(), "mem:x", &r.create().Options)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := cdl.Write(b.Context(), io.Discard, ds, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	text := benchText("double")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cdl.Parse(strings.NewReader(text), "x.cdl", nil); err != nil {
			b.Fatal(err)
		}
	}
}

// bigText writes CDL with about 100 MB of values of three types.
func bigText(path string) error {
	h, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(h, 1<<20)
	fmt.Fprintln(w, "netcdf big { dimensions: a = 10 ; b = 5 ; c = 5 ; x = 1000 ; y = 1000 ; variables: float v(a, x, y) ; int w(b, x, y) ; double z(c, x, y) ; data:")
	state := uint32(1)
	for _, v := range []struct {
		name   string
		n      int
		format string
	}{{"v", 10e6, "%.7g"}, {"w", 5e6, "%.0f"}, {"z", 5e6, "%.15g"}} {
		fmt.Fprintf(w, " %s = ", v.name)
		for i := range v.n {
			if i > 0 {
				fmt.Fprint(w, []string{", ", ",\n"}[i%10/9])
			}
			state = state*1664525 + 1013904223
			fmt.Fprintf(w, v.format, float64(int32(state))/65536)
		}
		fmt.Fprintln(w, " ;")
	}
	fmt.Fprintln(w, "}")
	if err := w.Flush(); err != nil {
		return err
	}
	return h.Close()
}

// BenchmarkAgainstNetCDF compares Parse and Generate with ncgen, and Write with ncdump,
// on 100 MB of values. The metrics are the ratios of the running times.
func BenchmarkAgainstNetCDF(b *testing.B) {
	dir := b.TempDir()
	in, out := filepath.Join(dir, "big.cdl"), filepath.Join(dir, "big.nc")
	if err := bigText(in); err != nil {
		b.Fatal(err)
	}
	r := newRegistry()
	took := func(f func() error) time.Duration {
		b.Helper()
		from := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		return time.Since(from)
	}
	for b.Loop() {
		gen := took(func() error {
			h, err := os.Open(in)
			if err != nil {
				return err
			}
			defer h.Close() // opened for reading only
			f, err := cdl.Parse(h, in, nil)
			if err != nil {
				return err
			}
			return cdl.Generate(b.Context(), f, "file://"+filepath.Join(dir, "big.zarr"), r.create())
		})
		ncgen := took(exec.Command("ncgen", "-k", "nc4", "-o", out, in).Run)
		dump := took(func() error {
			ds, err := open.Open(b.Context(), "file://"+filepath.Join(dir, "big.zarr"), &r.create().Options)
			if err != nil {
				return err
			}
			return cdl.Write(b.Context(), io.Discard, ds, nil)
		})
		ncdump := took(exec.Command("ncdump", out).Run)
		b.ReportMetric(float64(ncgen)/float64(gen), "ncgen/gen")
		b.ReportMetric(float64(ncdump)/float64(dump), "ncdump/dump")
	}
}
