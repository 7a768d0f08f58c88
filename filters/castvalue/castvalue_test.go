package castvalue_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/castvalue"
)

// TestCasts casts single values. The expected values follow from the specification. nil is
// an error.
func TestCasts(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		from, to, params string
		value            any
		want             any
	}{
		{"<f8", "|i1", ``, []float64{2.5}, []int8{2}},
		{"<f8", "|i1", `"rounding":"nearest-away"`, []float64{2.5}, []int8{3}},
		{"<f8", "|i1", `"rounding":"nearest-away"`, []float64{-2.5}, []int8{-3}},
		{"<f8", "|i1", `"rounding":"towards-zero"`, []float64{-2.7}, []int8{-2}},
		{"<f8", "|i1", `"rounding":"towards-positive"`, []float64{-2.7}, []int8{-2}},
		{"<f8", "|i1", `"rounding":"towards-negative"`, []float64{-2.2}, []int8{-3}},
		{"<f8", "|i1", ``, []float64{128}, nil},
		{"<f8", "|i1", ``, []float64{127.4}, []int8{127}},
		{"<f8", "|i1", `"out_of_range":"clamp"`, []float64{128}, []int8{127}},
		{"<f8", "|i1", `"out_of_range":"clamp"`, []float64{-1e30}, []int8{-128}},
		{"<f8", "|i1", `"out_of_range":"wrap"`, []float64{128}, []int8{-128}},
		{"<f8", "<i2", `"out_of_range":"wrap"`, []float64{-32769}, []int16{32767}},
		{"<f8", "|u1", ``, []float64{-0.4}, []uint8{0}},
		{"<f8", "|u1", `"out_of_range":"clamp"`, []float64{inf}, nil},
		{"<f8", "|u1", `"out_of_range":"wrap"`, []float64{nan}, nil},
		{"<f8", "|u1", `"scalar_map":{"encode":[["NaN",7],["NaN",8]]}`, []float64{nan}, []uint8{7}},
		{"<f8", "|u1", `"scalar_map":{"encode":[["+Infinity",9],[300,1]]}`, []float64{inf}, []uint8{9}},
		{"<f8", "|u1", `"scalar_map":{"encode":[[300,1]]}`, []float64{300}, []uint8{1}},
		{"<i4", "|u1", `"out_of_range":"wrap"`, []int32{-1}, []uint8{255}},
		{"<i4", "|u1", `"out_of_range":"clamp"`, []int32{-1}, []uint8{0}},
		{"<i4", "|u1", ``, []int32{256}, nil},
		{"<u8", "<i8", ``, []uint64{1 << 63}, nil},
		{"<u8", "<i8", `"out_of_range":"clamp"`, []uint64{math.MaxUint64}, []int64{math.MaxInt64}},
		{"<i8", "<u8", `"out_of_range":"wrap"`, []int64{-1}, []uint64{math.MaxUint64}},
		{"<i8", "<f8", ``, []int64{1<<53 + 1}, []float64{1 << 53}},
		{"<i8", "<f8", `"rounding":"towards-positive"`, []int64{1<<53 + 1}, []float64{1<<53 + 2}},
		{"<i8", "<f8", `"rounding":"nearest-away"`, []int64{-(1<<53 + 1)}, []float64{-(1<<53 + 2)}},
		{"<i8", "<f4", ``, []int64{1<<24 + 1}, []float32{1 << 24}},
		{"<i8", "<f4", ``, []int64{1<<60 + 1<<36 + 1}, []float32{1<<60 + 1<<37}}, // not rounded twice
		{"<f8", "<f4", ``, []float64{0.1}, []float32{0.1}},
		{"<f8", "<f4", `"rounding":"towards-zero"`, []float64{0.1}, []float32{math.Nextafter32(0.1, 0)}},
		{"<f8", "<f4", `"rounding":"towards-negative"`, []float64{-1e-46}, []float32{-math.SmallestNonzeroFloat32}},
		{"<f8", "<f4", ``, []float64{1e39}, nil},
		{"<f8", "<f4", `"out_of_range":"clamp"`, []float64{-1e39}, []float32{float32(math.Inf(-1))}},
		{"<f8", "<f4", ``, []float64{math.Copysign(0, -1)}, []float32{float32(math.Copysign(0, -1))}},
		{"<f8", "<f4", ``, []float64{inf}, []float32{float32(inf)}},
	} {
		from, to := parse(t, c.from), parse(t, c.to)
		src := make([]byte, from.Size)
		if err := dtype.Encode(src, from, c.value); err != nil {
			t.Fatal(err)
		}
		params := `{"data_type":"` + c.to + `"`
		if c.params != "" {
			params += "," + c.params
		}
		codec, out, err := castvalue.Provider().Open(castvalue.ID, json.RawMessage(params+"}"), driver.Spec{DType: from, Shape: []int{1}, MaxBytes: int64(from.Size)})
		if err != nil || out.DType != to || out.MaxBytes != int64(to.Size) {
			t.Errorf("%s: %v %+v", params, err, out)
			continue
		}
		dst, want := make([]byte, to.Size), make([]byte, to.Size)
		n, err := codec.Encode(t.Context(), dst, src)
		if c.want == nil {
			if ncerr.KindOf(err) != ncerr.ErrConvert {
				t.Errorf("%v as %s: want ErrConvert, got %v, %v", c.value, params, dst, err)
			}
			continue
		}
		if eerr := dtype.Encode(want, to, c.want); eerr != nil {
			t.Fatal(eerr)
		}
		if err != nil || n != len(want) || !bytes.Equal(dst, want) {
			t.Errorf("%v as %s: want %v, got %x, %v", c.value, params, c.want, dst, err)
		}
	}
}

// TestDecode checks that decoding uses its own map and the same rules.
func TestDecode(t *testing.T) {
	t.Parallel()
	from := parse(t, ">i2")
	params := `{"data_type":"<f4","rounding":"towards-zero","scalar_map":{"decode":[["0x7fc00001",-5]]}}`
	codec, _, err := castvalue.Provider().Open(castvalue.ID, json.RawMessage(params), driver.Spec{DType: from, Shape: []int{2}, MaxBytes: 4})
	if err != nil {
		t.Fatal(err)
	}
	src, dst := make([]byte, 8), make([]byte, 4)
	if err := dtype.Encode(src, parse(t, "<f4"), []float32{float32(math.NaN()), 3.9}); err != nil {
		t.Fatal(err)
	}
	got := make([]int16, 2)
	if _, err := codec.Decode(t.Context(), dst, src); err != nil || dtype.Decode(got, dst, from) != nil || got[0] != -5 || got[1] != 3 {
		t.Errorf("want -5 and 3, got %v, %v", got, err)
	}
	if err := dtype.Encode(src, parse(t, "<f4"), []float32{1e6, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := codec.Decode(t.Context(), dst, src); ncerr.KindOf(err) != ncerr.ErrCorrupt {
		t.Errorf("want ErrCorrupt, got %v", err)
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
