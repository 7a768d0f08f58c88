package scaleoffset_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/scaleoffset"
)

// TestScaleOffset encodes and decodes elements in the arithmetic of their type. The encoded
// values are those of zarr-python 3.4.2. No encoded values means an error.
func TestScaleOffset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, params    string
		plain, encoded any
	}{
		{"<f4", `{"offset":5,"scale":0.1}`, []float32{0, 1.5, 16.5}, []float32{-0.5, -0.35, 1.15}},
		{">f8", `{"scale":4}`, []float64{0.25, math.Inf(1)}, []float64{1, math.Inf(1)}},
		{"<f4", `{"scale":1e30}`, []float32{1e30}, nil},
		{"<u2", `{"offset":1000}`, []uint16{1000, 1255, 65535}, []uint16{0, 255, 64535}},
		{"<u2", `{"offset":1000}`, []uint16{999}, nil},
		{">i4", `{"offset":-3,"scale":-2}`, []int32{-3, 4, -10}, []int32{0, -14, 14}},
		{"|i1", `{"scale":-1}`, []int8{-128}, nil},
		{"|i1", `{"offset":100}`, []int8{-29}, nil},
		{"<u8", `{"offset":9223372036854775809}`, []uint64{math.MaxUint64}, []uint64{1<<63 - 2}},
		{"<i8", `{"offset":9007199254740993}`, []int64{9007199254740994}, []int64{1}},
		{"<i8", `{"scale":3}`, []int64{math.MaxInt64}, nil},
	} {
		typ, err := dtype.Parse(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		n := dtype.Len(c.plain) * typ.Size
		codec, _, err := scaleoffset.Provider().Open(scaleoffset.ID, json.RawMessage(c.params), driver.Spec{DType: typ, Shape: []int{dtype.Len(c.plain)}, MaxBytes: int64(n)})
		if err != nil {
			t.Fatal(c.params, err)
		}
		plain, dst := make([]byte, n), make([]byte, n)
		if err := dtype.Encode(plain, typ, c.plain); err != nil {
			t.Fatal(err)
		}
		_, err = codec.Encode(t.Context(), dst, plain)
		if c.encoded == nil {
			if ncerr.KindOf(err) != ncerr.ErrConvert {
				t.Errorf("%s %s of %v: want ErrConvert, got %x, %v", c.typ, c.params, c.plain, dst, err)
			}
			continue
		}
		encoded := make([]byte, n)
		if eerr := dtype.Encode(encoded, typ, c.encoded); eerr != nil {
			t.Fatal(eerr)
		}
		if err != nil || !bytes.Equal(dst, encoded) {
			t.Errorf("%s %s of %v: want %x, got %x, %v", c.typ, c.params, c.plain, encoded, dst, err)
		}
		if _, err = codec.Decode(t.Context(), dst, encoded); typ.Kind != dtype.Float && (err != nil || !bytes.Equal(dst, plain)) {
			t.Errorf("%s %s decodes %v to %x, %v, want %x", c.typ, c.params, c.encoded, dst, err, plain)
		}
	}
}

// TestRemainder checks that a stored integer that is not a multiple of the scale is an
// error.
func TestRemainder(t *testing.T) {
	t.Parallel()
	typ := dtype.Type{Kind: dtype.Uint, Size: 1}
	codec, _, err := scaleoffset.Provider().Open(scaleoffset.ID, json.RawMessage(`{"scale":3}`), driver.Spec{DType: typ, Shape: []int{1}, MaxBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := codec.Decode(t.Context(), make([]byte, 1), []byte{4}); ncerr.KindOf(err) != ncerr.ErrCorrupt {
		t.Errorf("want ErrCorrupt, got %v", err)
	}
}
