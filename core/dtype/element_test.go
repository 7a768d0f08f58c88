package dtype_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// TestHalf checks all finite binary16 values, rounding between neighbors, and NaNs.
func TestHalf(t *testing.T) {
	t.Parallel()
	half := parse(t, "<f2")
	var b [2]byte
	last := math.Inf(-1)
	for i := range 0x7C00 {
		half.PutBits(b[:], uint64(i))
		f := half.Float(b[:])
		if f <= last {
			t.Fatalf("value %d is not greater than the previous one", i)
		}
		for _, sign := range []float64{1, -1} {
			half.PutFloat(b[:], sign*f)
			if got := half.Float(b[:]); got != sign*f {
				t.Fatalf("%v was read back as %v", sign*f, got)
			}
		}
		if i > 0 { // a tie rounds to even
			half.PutFloat(b[:], (f+last)/2)
			if want := uint64(i - i%2); half.Bits(b[:]) != want {
				t.Fatalf("between %v and %v: want %#x, got %#x", last, f, want, half.Bits(b[:]))
			}
		}
		last = f
	}
	for in, want := range map[float64]uint64{65519: 0x7BFF, 65520: 0x7C00, math.Inf(-1): 0xFC00, 1e-9: 0} {
		half.PutFloat(b[:], in)
		if got := half.Bits(b[:]); got != want {
			t.Errorf("%v: want %#x, got %#x", in, want, got)
		}
	}
	half.PutFloat(b[:], math.NaN())
	if !math.IsNaN(half.Float(b[:])) {
		t.Error("NaN was not preserved")
	}
	// NumPy converts these NaNs to the same bits.
	for bits, want := range map[uint64]uint64{
		0x7E00: 0x7FF8_0000_0000_0000, 0xFE00: 0xFFF8_0000_0000_0000, 0x7C01: 0x7FF0_0400_0000_0000,
		0x7D55: 0x7FF5_5400_0000_0000, 0xFFFF: 0xFFFF_FC00_0000_0000,
	} {
		half.PutBits(b[:], bits)
		f := half.Float(b[:])
		half.PutFloat(b[:], f)
		if got := math.Float64bits(f); got != want || half.Bits(b[:]) != bits {
			t.Errorf("NaN %#x: want %#x and back, got %#x and %#x", bits, want, got, half.Bits(b[:]))
		}
	}
	half.PutFloat(b[:], math.Float64frombits(0x7FF0_0000_0000_0001))
	if got := half.Bits(b[:]); got != 0x7C01 {
		t.Errorf("NaN with a small payload: want 0x7c01, got %#x", got)
	}
}

func parse(t *testing.T, text string) dtype.Type {
	t.Helper()
	typ, err := dtype.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func TestPutFloat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		to       string
		in, want float64
	}{
		{"<i4", -2.9, -2},
		{"|i1", 1000, 127},
		{"|i1", -1000, -128},
		{"|u1", -3, 0},
		{"<u8", 1e30, math.MaxUint64},
		{">f4", 0.5, 0.5},
		{"|b1", 3, 1},
		{"|b1", 0, 0},
		{"<i8", math.NaN(), 0},
	} {
		to, b := parse(t, c.to), [8]byte{}
		to.PutFloat(b[:], c.in)
		if got := to.Float(b[:]); got != c.want {
			t.Errorf("%v as %s: want %v, got %v", c.in, c.to, c.want, got)
		}
	}
}

// TestConvertElements compares Convert with the conversion of single elements, for all pairs
// of types.
func TestConvertElements(t *testing.T) {
	t.Parallel()
	const n = 600 // more than two blocks
	all := []string{"|b1", "|i1", "|u1", "<i2", ">i2", "<u2", ">u4", "<i4", ">i8", "<u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<M8[s]"}
	for _, a := range all {
		from := parse(t, a)
		src := make([]byte, n*from.Size+1)[1:] // unaligned
		for i := range n {
			from.PutFloat(src[i*from.Size:], float64(i%100))
		}
		for _, b := range all {
			to := parse(t, b)
			got, want := make([]byte, n*to.Size), make([]byte, n*to.Size)
			for i := range n {
				to.PutFloat(want[i*to.Size:], from.Float(src[i*from.Size:]))
			}
			if i := dtype.Convert(got, to, src, from); i >= 0 || !bytes.Equal(got, want) {
				t.Errorf("%s to %s: %d, want %x, got %x", a, b, i, want[:64], got[:64])
			}
		}
	}
	if parse(t, "|S4").Numeric() || (dtype.Type{Kind: dtype.Int, Size: 3}).Numeric() {
		t.Error("text or a 3-byte integer is numeric")
	}
}

// TestConvertEdges checks rounding, and the index of the first element that does not
// fit.
func TestConvertEdges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		in, want uint64 // bits of the last of 301 elements
		fits     bool
	}{
		{"<i8", "<f4", 1<<60 + 1<<36 + 1, uint64(math.Float32bits(1<<60 + 1<<37)), true}, // rounded once
		{"<f8", "<f2", math.Float64bits(1 + 0x1p-11 + 0x1p-30), 0x3C01, true},            // rounded once
		{"<f8", "<f4", 0x7FF0_4000_0000_0000, 0x7F82_0000, true},                         // a NaN keeps its bits
		{"<f4", "|b1", 0x8000_0000, 0, true},
		{"<f4", "|b1", 0x7FC0_0000, 1, true},
		{"|b1", "<i2", 7, 7, true},
		{"<f8", "<u8", math.Float64bits(-0.5), 0, true},
		{"<f8", "<u8", math.Float64bits(-1), 0, false},
		{"<f8", "<i8", math.Float64bits(-0x1p63), 1 << 63, true},
		{"<f8", "<i8", math.Float64bits(0x1p63), 0, false},
		{"<f8", "<i4", math.Float64bits(-2147483648.9), 1 << 31, true},
		{"<f8", "<i4", math.Float64bits(2147483648), 0, false},
		{"<f8", "<f4", math.Float64bits(1e300), 0, false},
		{"<f8", "<f4", math.Float64bits(math.Inf(1)), 0x7F80_0000, true},
		{"<f4", "<f2", uint64(math.Float32bits(65520)), 0, false},
		{"<f4", "<i2", 0x7FC0_0000, 0, false},
		{"<u8", "<i8", 1 << 63, 0, false},
		{"<i8", "<u8", 1 << 63, 0, false},
		{"<i4", "|u1", 300, 0, false},
		{"<u8", "<u4", 1 << 32, 0, false},
	} {
		from, to := parse(t, c.from), parse(t, c.to)
		const last = 300
		src, dst := make([]byte, (last+1)*from.Size), make([]byte, (last+1)*to.Size)
		from.PutBits(src[last*from.Size:], c.in)
		switch i := dtype.Convert(dst, to, src, from); {
		case !c.fits && i != last:
			t.Errorf("%s %#x to %s: want element %d, got %d", c.from, c.in, c.to, last, i)
		case c.fits && (i >= 0 || to.Bits(dst[last*to.Size:]) != c.want):
			t.Errorf("%s %#x to %s: want %#x, got %#x, %d", c.from, c.in, c.to, c.want, to.Bits(dst[last*to.Size:]), i)
		}
	}
}

// TestGenericTimes checks that String writes no brackets for a time without a unit,
// because NumPy rejects empty brackets.
func TestGenericTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"<m8": "<m8", ">M8": ">M8", "<m8[]": "<m8", "<M8[25s]": "<M8[25s]"} {
		if got := parse(t, text).String(); got != want {
			t.Errorf("%s: want %s, got %s", text, want, got)
		}
	}
}
