package cdl_test

import (
	"io"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// benchText has a variable of 200,000 values of one type.
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
			ds, err := nczarr.Open(b.Context(), "mem:x", &r.create().Options)
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
