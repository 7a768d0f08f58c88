package dtype_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// TestQuantizeBits compares the result with the bits in netcdf-c's own tests for three
// significant digits (nc_test4/tst_quantize.c).
func TestQuantizeBits(t *testing.T) {
	t.Parallel()
	in := []float32{1.11111111, 1.0, 9.99999999, 12345.67, .1234567}
	for _, tc := range []struct {
		mode dtype.QuantizeMode
		want []uint32
	}{
		{dtype.BitGroom, []uint32{0x3f8e3000, 0x3f800fff, 0x41200000, 0x4640efff, 0x3dfcd000}},
		{dtype.GranularBitRound, []uint32{0x3f8e0000, 0x3f800000, 0x41200000, 0x46410000, 0x3dfc0000}},
	} {
		got := append([]float32(nil), in...)
		if err := (dtype.Quantization{Mode: tc.mode, Digits: 3}).Quantize(got, nil); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if b := math.Float32bits(got[i]); b != tc.want[i] {
				t.Errorf("mode %d, %v: want %#x, got %#x", tc.mode, in[i], tc.want[i], b)
			}
		}
	}
}

// TestQuantizeKeeps checks that fill values, zeros, infinities and the payloads of NaNs
// never change, and that finite values remain finite.
func TestQuantizeKeeps(t *testing.T) {
	t.Parallel()
	odd := math.Float64frombits(0x7ff800000000beef)
	kept := []float64{-999.123456789, 0, math.Copysign(0, -1), odd, math.Inf(1), math.Inf(-1)}
	for mode := dtype.BitGroom; mode <= dtype.BitRound; mode++ {
		got := append(append([]float64(nil), kept...), math.MaxFloat64, -math.MaxFloat64)
		if err := (dtype.Quantization{Mode: mode, Digits: 2}).Quantize(got, []float64{kept[0]}); err != nil {
			t.Fatal(err)
		}
		for i, v := range kept {
			if math.Float64bits(got[i]) != math.Float64bits(v) {
				t.Errorf("mode %d: %v became %v", mode, v, got[i])
			}
		}
		for _, v := range got[len(kept):] {
			if math.IsInf(v, 0) {
				t.Errorf("mode %d: the largest value became infinite", mode)
			}
		}
	}
}

// TestQuantizeError checks that the rounding error is within the precision of the
// requested digits, and that a second BitGroom does not change the values. It does not
// check the error of subnormal numbers, which have fewer bits.
func TestQuantizeError(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(-1e30, 1e30).Draw(t, "v")
		digits := rapid.IntRange(1, 15).Draw(t, "digits")
		for _, q := range []dtype.Quantization{{Mode: dtype.BitGroom, Digits: digits}, {Mode: dtype.GranularBitRound, Digits: digits}} {
			got := []float64{v, v}
			if err := q.Quantize(got, nil); err != nil {
				t.Fatal(err)
			}
			for _, g := range got {
				if math.Abs(v) >= 0x1p-1022 && math.Abs(g-v) > .5*math.Pow10(-digits+1)*math.Abs(v)*(1+1e-9) {
					t.Errorf("%+v: %v became %v", q, v, g)
				}
			}
			again := append([]float64(nil), got...)
			if err := q.Quantize(again, nil); err != nil {
				t.Fatal(err)
			}
			if q.Mode == dtype.BitGroom && (again[0] != got[0] || again[1] != got[1]) {
				t.Errorf("%+v: %v became %v the second time", q, got, again)
			}
		}
	})
}

func TestQuantizeCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		q    dtype.Quantization
		nc   dtype.NC
		want error
	}{
		{dtype.Quantization{}, dtype.NCString, nil},
		{dtype.Quantization{Mode: dtype.BitGroom, Digits: 6}, dtype.NCFloat, nil},
		{dtype.Quantization{Mode: dtype.BitGroom, Digits: 7}, dtype.NCFloat, ncerr.ErrInvalid},
		{dtype.Quantization{Mode: dtype.GranularBitRound, Digits: 15}, dtype.NCDouble, nil},
		{dtype.Quantization{Mode: dtype.GranularBitRound}, dtype.NCDouble, ncerr.ErrInvalid},
		{dtype.Quantization{Mode: dtype.BitRound, Digits: 52}, dtype.NCDouble, nil},
		{dtype.Quantization{Mode: dtype.BitRound, Digits: 24}, dtype.NCFloat, ncerr.ErrInvalid},
		{dtype.Quantization{Mode: dtype.BitRound, Digits: 3}, dtype.NCInt, ncerr.ErrBadType},
		{dtype.Quantization{Mode: 9, Digits: 3}, dtype.NCFloat, ncerr.ErrInvalid},
		{dtype.Quantization{Digits: 3}, dtype.NCFloat, ncerr.ErrInvalid},
	} {
		if err := tc.q.Check(tc.nc); !errors.Is(err, tc.want) {
			t.Errorf("%+v of %s: want %v, got %v", tc.q, tc.nc, tc.want, err)
		}
	}
}
