package number_test

import (
	"math"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/number"
)

// TestHalf goes through all 65536 values, and rounds between neighbours.
func TestHalf(t *testing.T) {
	t.Parallel()
	half, _ := number.Parse("<f2")
	var b [2]byte
	last := math.Inf(-1)
	for i := range 0x7C00 {
		number.PutBits(half, b[:], uint64(i))
		f := number.Float(half, b[:])
		if f <= last {
			t.Fatalf("value %d is not above the one before", i)
		}
		for _, sign := range []float64{1, -1} {
			number.PutFloat(half, b[:], sign*f)
			if got := number.Float(half, b[:]); got != sign*f {
				t.Fatalf("%v comes back as %v", sign*f, got)
			}
		}
		if i > 0 { // halfway goes to the even one
			number.PutFloat(half, b[:], (f+last)/2)
			if want := uint64(i - i%2); number.Bits(half, b[:]) != want {
				t.Fatalf("between %v and %v: want %#x, got %#x", last, f, want, number.Bits(half, b[:]))
			}
		}
		last = f
	}
	for in, want := range map[float64]uint64{65519: 0x7BFF, 65520: 0x7C00, math.Inf(-1): 0xFC00, 1e-9: 0} {
		number.PutFloat(half, b[:], in)
		if got := number.Bits(half, b[:]); got != want {
			t.Errorf("%v: want %#x, got %#x", in, want, got)
		}
	}
	number.PutFloat(half, b[:], math.NaN())
	if !math.IsNaN(number.Float(half, b[:])) {
		t.Error("NaN is lost")
	}
	// What numpy converts them to, and back.
	for bits, want := range map[uint64]uint64{
		0x7E00: 0x7FF8_0000_0000_0000, 0xFE00: 0xFFF8_0000_0000_0000, 0x7C01: 0x7FF0_0400_0000_0000,
		0x7D55: 0x7FF5_5400_0000_0000, 0xFFFF: 0xFFFF_FC00_0000_0000,
	} {
		number.PutBits(half, b[:], bits)
		f := number.Float(half, b[:])
		number.PutFloat(half, b[:], f)
		if got := math.Float64bits(f); got != want || number.Bits(half, b[:]) != bits {
			t.Errorf("NaN %#x: want %#x and back, got %#x and %#x", bits, want, got, number.Bits(half, b[:]))
		}
	}
	number.PutFloat(half, b[:], math.Float64frombits(0x7FF0_0000_0000_0001))
	if got := number.Bits(half, b[:]); got != 0x7C01 {
		t.Errorf("NaN with a small payload: want 0x7c01, got %#x", got)
	}
}

func TestCast(t *testing.T) {
	t.Parallel()
	cases := []struct {
		from, to string
		in, want float64
	}{
		{"<i4", ">i2", -5, -5},
		{"<i4", "|u1", 257, 1},
		{"|u1", "<f8", 200, 200},
		{"<f8", "<i4", -2.9, -2},
		{"<f8", "|i1", 1000, 127},
		{"<f8", "|i1", -1000, -128},
		{"<f8", "|u1", -3, 0},
		{"<f8", "<u8", 1e30, math.MaxUint64},
		{"<f8", ">f4", 0.5, 0.5},
		{"<f8", "|b1", 3, 1},
		{"<i2", "|b1", 256, 1},
		{"<f8", "<i8", math.NaN(), 0},
		{"<u8", "<f8", 1 << 63, 1 << 63},
	}
	for _, c := range cases {
		from, ok1 := number.Parse(c.from)
		to, ok2 := number.Parse(c.to)
		if !ok1 || !ok2 {
			t.Fatal(c)
		}
		var a, b [8]byte
		number.PutFloat(from, a[:], c.in)
		number.Cast(to, b[:], from, a[:])
		if got := number.Float(to, b[:]); got != c.want {
			t.Errorf("%v as %s, then %s: want %v, got %v", c.in, c.from, c.to, c.want, got)
		}
	}
	if _, ok := number.Parse("|S4"); ok {
		t.Error("text is no number")
	}
}
