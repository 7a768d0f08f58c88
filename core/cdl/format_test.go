package cdl_test

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// TestPrintf compares appendG with the output of C's printf.
func TestPrintf(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/printf.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for scan := bufio.NewScanner(f); scan.Scan(); {
		fields := strings.Fields(scan.Text())
		if len(fields) != 4 || fields[0] == "#" {
			continue
		}
		lines++
		bits, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		v := math.Float64frombits(bits)
		for i, digits := range []int{7, 15, 3} {
			if got := string(cdl.AppendG(nil, v, digits)); got != fields[1+i] {
				t.Errorf("%%.%dg of %b = %q, want %q", digits, v, got, fields[1+i])
			}
		}
	}
	if lines < 200 {
		t.Fatalf("want at least 200 lines in testdata/printf.txt, got %d", lines)
	}
}

// TestAppendGRule checks the rules of %g on random values: significant digits, the
// choice of the exponent, no trailing zeros.
func TestAppendGRule(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "v")
		digits := rapid.IntRange(1, 20).Draw(t, "digits")
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Skip("not finite")
		}
		got := string(cdl.AppendG(nil, v, digits))
		sci := strconv.FormatFloat(v, 'e', digits-1, 64)
		mant, expText, _ := strings.Cut(sci, "e")
		exp, _ := strconv.Atoi(expText)
		want := ""
		if exp < -4 || exp >= digits {
			if strings.Contains(mant, ".") {
				mant = strings.TrimRight(strings.TrimRight(mant, "0"), ".")
			}
			want = mant + "e" + expText
		} else {
			want = strconv.FormatFloat(v, 'f', max(digits-1-exp, 0), 64)
			if strings.Contains(want, ".") {
				want = strings.TrimRight(strings.TrimRight(want, "0"), ".")
			}
		}
		if got != want {
			t.Fatalf("%%.%dg of %v = %q, want %q", digits, v, got, want)
		}
	})
}

func TestAttrText(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	cases := []struct {
		value any
		want  string
	}{
		{[]int8{0, 127, -128}, "0b, 127b, -128b"},
		{[]int16{-32768}, "-32768s"},
		{[]int32{-2147483647, 0}, "-2147483647, 0"},
		{[]int64{5}, "5LL"},
		{[]uint8{255}, "255UB"},
		{[]uint16{65535}, "65535US"},
		{[]uint32{4294967295}, "4294967295U"},
		{[]uint64{18446744073709551614}, "18446744073709551614ULL"},
		{[]float32{-1e36, 0, 1500, 1234567, 0.5}, "-1.e+36f, 0.f, 1500.f, 1234567.f, 0.5f"},
		{[]float32{float32(math.NaN()), float32(inf), float32(-inf)}, "NaNf, Infinityf, -Infinityf"},
		{[]float64{-1e308, 0, 2.7182818284590455, 1e15, 1e14}, "-1.e+308, 0., 2.71828182845905, 1.e+15, 100000000000000."},
		{[]float64{math.NaN(), inf, -inf}, "NaN, Infinity, -Infinity"},
		{"abcd\tZ$&", `"abcd\tZ$&"`},
		{"x\x00y\x00\x00", `"x\000y"`},
		{"line\nnext\x7f\x01", `"line\nnext\177\001"`},
		{"quote \" ' \\ ü", `"quote \" \' \\ ü"`},
		{"\b\f\r\v", `"\b\f\r\v"`},
		{"", `""`},
		{[]string{"abc", "d\ne"}, `"abc", "d\ne"`},
		{[]string{}, `""`},
		{[]int32{}, `""`},
	}
	for _, c := range cases {
		if got := cdl.AttrText(c.value); got != c.want {
			t.Errorf("attribute %#v = %s, want %s", c.value, got, c.want)
		}
	}
}

func TestEscapeName(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"plain.name-with+all@ok_1": "plain.name-with+all@ok_1",
		"9lives":                   `\9lives`,
		"a b":                      `a\ b`,
		`q"'\x`:                    `q\"\'\\x`,
		"(a,b)[c]{d}":              `\(a\,b\)\[c\]\{d\}`,
		"100%":                     `\100%`,
		"bell\x07":                 `bell\%07`,
		"-minus":                   `\-minus`,
		".dot":                     `\.dot`,
		"%ab":                      `\%25ab`,
		"Καλημέρα":                 "Καλημέρα",
		"":                         "",
	}
	for name, want := range cases {
		if got := cdl.EscapeName(name); got != want {
			t.Errorf("escaped %q = %q, want %q", name, got, want)
		}
		if f, err := cdl.Parse(strings.NewReader("netcdf x { variables: int "+want+"; }"), "x.cdl", nil); name != "" && (err != nil || f.Root.Vars[0].Name != name) {
			t.Errorf("%s is not read back: %v", want, err)
		}
	}
}

// TestFullPrecision checks that every float and double is read back unchanged.
func TestFullPrecision(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		f := rapid.Float32().Draw(t, "f")
		if back, err := strconv.ParseFloat(cdl.FloatText(float64(f), 32, 7, true), 32); err == nil && float32(back) != f {
			t.Fatalf("float %v was read back as %v", f, back)
		}
		d := rapid.Float64().Draw(t, "d")
		if back, err := strconv.ParseFloat(cdl.FloatText(d, 64, 15, true), 64); err == nil && back != d {
			t.Fatalf("double %v was read back as %v", d, back)
		}
	})
	if got := cdl.FloatText(0.1, 64, 15, true); got != "0.1" {
		t.Errorf("0.1 in full precision: want 0.1, got %s", got)
	}
	if got := cdl.FloatText(1e6, 32, 7, true); got != "1000000" {
		t.Errorf("1e6 in full precision: want 1000000, got %s", got)
	}
}

// TestSame checks ncdump's rule for values equal to the fill value.
func TestSame(t *testing.T) {
	t.Parallel()
	inf, nan, eps := math.Inf(1), math.NaN(), 0x1p-52
	cases := []struct {
		v, fill float64
		want    bool
	}{
		{1, 1, true},
		{1, 1 + eps, true},
		{1, 1 + 3*eps, false},
		{nan, nan, true},
		{nan, 1, false},
		{1, nan, false},
		{inf, inf, true},
		{-inf, inf, false},
		{-1, 1, false},
		{0, 0, true},
		{0, 1e-300, false},
	}
	for _, c := range cases {
		if got := cdl.Same(c.v, c.fill, eps); got != c.want {
			t.Errorf("same(%v, %v) = %v", c.v, c.fill, got)
		}
	}
	if !cdl.Same32(9.96921e36, 9.9692099683868690e+36) || cdl.Same32(9.9691e36, 9.9692099683868690e+36) {
		t.Error("same32 is wrong close to the default fill value")
	}
}

// TestSlabsCover checks that slabs cover an array exactly once, in row-major order,
// within the limit, and along chunk boundaries if the split dimension allows.
func TestSlabsCover(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.Int64Range(1, 9), 0, 4).Draw(t, "shape")
		chunks := rapid.SliceOfN(rapid.Int64Range(1, 5), len(shape), len(shape)).Draw(t, "chunks")
		limit := rapid.Int64Range(1, 100).Draw(t, "limit")
		next, total := int64(0), int64(1)
		for _, n := range shape {
			total *= n
		}
		for _, sel := range cdl.Slabs(shape, chunks, limit) {
			if n := sel.Len(); n < 1 || n > limit {
				t.Fatalf("a slab has %d elements, more than the limit of %d", n, limit)
			}
			first, weight, run := int64(0), int64(1), true // run: all later dimensions are whole
			for d := len(shape) - 1; d >= 0; d-- {
				first += sel.Start[d] * weight
				weight *= shape[d]
				if !run && sel.Count[d] != 1 {
					t.Fatalf("%v of %v is not contiguous in row-major order", sel, shape)
				}
				run = run && sel.Count[d] == shape[d]
			}
			if first != next {
				t.Fatalf("slab at %d, want %d", first, next)
			}
			next += sel.Len()
		}
		if next != total {
			t.Fatalf("%d elements in slabs, want %d", next, total)
		}
	})
	if n := len(cdl.Slabs([]int64{1 << 40, 1 << 40}, nil, 1<<60)); n != 1<<20 {
		t.Errorf("huge array: want %d slabs, got %d", 1<<20, n)
	}
}

func TestOwnFormat(t *testing.T) {
	t.Parallel()
	cases := []struct {
		format string
		nc     dtype.NC
		v      any
		want   string
	}{
		{"%.2f", dtype.NCFloat, 2.345, "2.35"},
		{"%5.1e K", dtype.NCDouble, 2.345, "2.3e+00 K"},
		{"%g", dtype.NCDouble, 123456789.0, "1.23457e+08"},
		{"%x", dtype.NCShort, int64(-1), "ffffffff"},
		{"%llx", dtype.NCInt64, int64(-1), "ffffffffffffffff"},
		{"%u", dtype.NCInt, int64(-1), "4294967295"},
		{"%i", dtype.NCByte, int64(-1), "-1"},
		{"%03d", dtype.NCUByte, uint64(7), "007"},
	}
	for _, c := range cases {
		if got, ok := cdl.OwnFormat(c.format, c.nc, c.v); !ok || got != c.want {
			t.Errorf("%q of %v = %q, want %q", c.format, c.v, got, c.want)
		}
	}
	for _, bad := range []string{"", "text", "%d", "%s", "%.2", "%", "%f%f", "%%", "%999f", "%n", "%*f"} {
		if got, ok := cdl.OwnFormat(bad, dtype.NCFloat, 1.0); ok {
			t.Errorf("%q was accepted as a format of floats: %q", bad, got)
		}
	}
}
