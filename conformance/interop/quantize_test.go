package interop_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// hardValues returns zeros, NaN, values whose logarithm is at or next to an integer,
// and random finite values.
func hardValues() []float64 {
	list := []float64{0, math.Copysign(0, -1), math.NaN(), 1, -1, math.Pi, 9.9692099683868690e+36, 1.11111111, 1e-45, 0.1}
	for e := -44; e < 38; e++ {
		for _, v := range []float64{math.Pow10(e), 9.999999 * math.Pow10(e), 2 * math.Pow10(e), math.Ldexp(1, 3*e)} {
			list = append(list, v, -v, math.Nextafter(v, 0), math.Nextafter(v, math.MaxFloat64))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		list = append(list, math.Ldexp(random.Float64()-.5, random.IntN(250)-125))
	}
	return list
}

// TestQuantize checks that quantized values have the same bits as the values that
// libnetcdf writes, in all modes and numbers of digits.
func TestQuantize(t *testing.T) {
	t.Parallel()
	need(t, packages["netcdf4"]...)
	doubles := hardValues()
	floats := make([]float32, len(doubles))
	for i, v := range doubles {
		floats[i] = float32(v)
	}
	for e := -300; e < 300; e += 7 {
		doubles = append(doubles, math.Pow10(e), math.Nextafter(math.Pow10(e), 0))
	}
	// These values reveal the error of a fast logarithm.
	doubles = append(doubles, 1.0000000000000168e+72, 1.000000000000011e+85, 1.0000000000000286e+119, 1.0000000000000325e+147, 1.000000000000024e+166, 1.0000000000000223e+170)
	for _, tc := range []struct {
		kind      string
		maxDigits [4]int
		slice     any
	}{
		{"f4", [4]int{0, 6, 6, 23}, floats},
		{"f8", [4]int{0, 15, 15, 52}, doubles},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
			if err := os.WriteFile(in, little(t, tc.slice), 0o600); err != nil {
				t.Fatal(err)
			}
			must(t, "quantize.py", tc.kind, in, out)
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			checkQuantized(t, tc.slice, tc.maxDigits, want)
		})
	}
}

func checkQuantized(t *testing.T, slice any, maxDigits [4]int, want []byte) {
	t.Helper()
	raw := little(t, slice)
	size := len(raw) / dtype.Len(slice)
	for mode := dtype.BitGroom; mode <= dtype.BitRound; mode++ {
		for digits := 1; digits <= maxDigits[mode]; digits++ {
			var got any = append([]float32(nil), as[float32](slice)...)
			if size == 8 {
				got = append([]float64(nil), as[float64](slice)...)
			}
			if err := (dtype.Quantization{Mode: mode, Digits: digits}).Quantize(got, nil); err != nil {
				t.Fatal(err)
			}
			g, w := little(t, got), want[:len(raw)]
			want = want[len(raw):]
			for i := 0; i < len(raw); i += size {
				if !bytes.Equal(g[i:i+size], w[i:i+size]) {
					t.Errorf("%s %d, value %d, %x: want %x, got %x", mode.Attr(), digits, i/size, raw[i:i+size], w[i:i+size], g[i:i+size])
				}
			}
		}
	}
	if len(want) != 0 {
		t.Errorf("%d extra bytes from the peer", len(want))
	}
}

func as[T any](slice any) []T {
	s, _ := slice.([]T)
	return s
}

func little(t *testing.T, slice any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, slice); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
