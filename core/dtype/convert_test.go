package dtype_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func typ(t *testing.T, s string) dtype.Type {
	t.Helper()
	ty, err := dtype.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return ty
}

// decodeCases has expected values that were computed by hand, or with NumPy where noted.
var decodeCases = []struct {
	name  string
	dtype string
	src   []byte
	want  any // also determines the type of the destination
	kind  ncerr.Kind
	text  string // required part of the error
}{
	{name: "copy le", dtype: "<i4", src: []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, want: []int32{1, -1}},
	{name: "swap be", dtype: ">i4", src: []byte{0, 0, 0, 1, 0x80, 0, 0, 0}, want: []int32{1, math.MinInt32}},
	{name: "be i2 to f8", dtype: ">i2", src: []byte{1, 0, 0xff, 0xfe}, want: []float64{256, -2}},
	{name: "u1 to i8", dtype: "|u1", src: []byte{0, 255}, want: []int64{0, 255}},
	{name: "i1 to f4", dtype: "|i1", src: []byte{0x80, 0x7f}, want: []float32{-128, 127}},
	{name: "f8 to i4 truncates", dtype: "<f8", src: f8(1.9, -1.9, 2147483647.5), want: []int32{1, -1, 2147483647}},
	{name: "f8 to i4 over", dtype: "<f8", src: f8(0, 2147483648), want: []int32{0, 0}, kind: ncerr.ErrConvert, text: "element 1: 2.147483648e+09 does not fit in int"},
	{name: "f8 NaN to i4", dtype: "<f8", src: f8(math.NaN()), want: []int32{0}, kind: ncerr.ErrConvert, text: "NaN"},
	{name: "f8 to u1, fraction below zero", dtype: "<f8", src: f8(-0.9), want: []uint8{0}},
	{name: "f8 to u8 top", dtype: "<f8", src: f8(18446744073709549568), want: []uint64{18446744073709549568}},
	{name: "f8 to u8 over", dtype: "<f8", src: f8(18446744073709551616), want: []uint64{0}, kind: ncerr.ErrConvert},
	{name: "f8 to i8 low", dtype: "<f8", src: f8(-9223372036854775808), want: []int64{math.MinInt64}},
	{name: "f8 to f4 over", dtype: "<f8", src: f8(1e39), want: []float32{0}, kind: ncerr.ErrConvert},
	{name: "f8 to f4 Inf", dtype: "<f8", src: f8(math.Inf(-1)), want: []float32{float32(math.Inf(-1))}},
	{name: "i8 to f8 rounds", dtype: "<i8", src: binary.LittleEndian.AppendUint64(nil, math.MaxInt64), want: []float64{9223372036854775807}},
	{name: "i4 to u4 negative", dtype: "<i4", src: []byte{0xff, 0xff, 0xff, 0xff}, want: []uint32{0}, kind: ncerr.ErrConvert, text: "element 0: -1 does not fit in uint"},
	{name: "u8 to i8 over", dtype: "<u8", src: bytes.Repeat([]byte{0xff}, 8), want: []int64{0}, kind: ncerr.ErrConvert},
	{name: "bool", dtype: "|b1", src: []byte{1, 0}, want: []uint8{1, 0}},
	{name: "bool to f4", dtype: "|b1", src: []byte{1, 0}, want: []float32{1, 0}},
	{name: "bool 2", dtype: "|b1", src: []byte{2}, want: []uint8{0}, kind: ncerr.ErrConvert},
	{name: "half (numpy)", dtype: "<f2", src: []byte{0x00, 0x3c, 0x01, 0x00, 0xff, 0x7b, 0x00, 0xfc, 0x00, 0x80}, want: []float32{1, 5.9604645e-08, 65504, float32(math.Inf(-1)), float32(math.Copysign(0, -1))}},
	{name: "half be", dtype: ">f2", src: []byte{0xc0, 0x00}, want: []float64{-2}},
	{name: "half to int", dtype: "<f2", src: []byte{0x00, 0x7c}, want: []int16{0}, kind: ncerr.ErrConvert},
	{name: "datetime", dtype: ">M8[ns]", src: []byte{0, 0, 0, 0, 0, 0, 1, 0}, want: []int64{256}},
	{name: "bytes", dtype: "|S3", src: []byte("ab\x00\x00\x00\x00\x00b\x00xyz"), want: []string{"ab", "", "\x00b", "xyz"}},
	{name: "bytes, not UTF-8", dtype: "|S2", src: []byte{0xb0, 'C'}, want: []string{"\xb0C"}},
	{name: "unicode le", dtype: "<U2", src: []byte{0xe9, 0, 0, 0, 0, 0, 0, 0, 0x00, 0xf6, 1, 0, 'x', 0, 0, 0}, want: []string{"é", "😀x"}},
	{name: "unicode be", dtype: ">U1", src: []byte{0, 0, 0x20, 0xac}, want: []string{"€"}},
	{name: "unicode surrogate", dtype: "<U1", src: []byte{0, 0xd8, 0, 0}, want: []string{""}, kind: ncerr.ErrConvert, text: "0xd800"},
	{name: "unicode too big", dtype: "<U1", src: []byte{0, 0, 0x11, 0}, want: []string{""}, kind: ncerr.ErrConvert},
	{name: "raw", dtype: "|V2", src: []byte{1, 2, 3, 4}, want: []uint8{1, 2, 3, 4}},
	{name: "text to number", dtype: "|S4", src: []byte("1234"), want: []int32{0}, kind: ncerr.ErrBadType},
	{name: "text bytes to uint8", dtype: "|S1", src: []byte("1"), want: []uint8{0}, kind: ncerr.ErrBadType},
	{name: "number to text", dtype: "<i4", src: []byte{1, 0, 0, 0}, want: []string{""}, kind: ncerr.ErrBadType},
	{name: "complex", dtype: "<c8", src: make([]byte, 8), want: []float64{0}, kind: ncerr.ErrBadType},
	{name: "objects", dtype: "|O", src: nil, want: []string{}, kind: ncerr.ErrBadType},
	{name: "short", dtype: "<i4", src: make([]byte, 7), want: []int32{0, 0}, kind: ncerr.ErrInvalid},
	{name: "long", dtype: "<i4", src: make([]byte, 12), want: []float64{0, 0}, kind: ncerr.ErrInvalid},
	{name: "empty", dtype: "<i4", src: nil, want: []float64{}},
	{name: "no slice", dtype: "<i4", src: make([]byte, 4), want: struct{}{}, kind: ncerr.ErrBadType},
}

func f8(v ...float64) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

func blank(like any) any {
	v := reflect.ValueOf(like)
	if v.Kind() != reflect.Slice {
		return like
	}
	return reflect.MakeSlice(v.Type(), v.Len(), v.Len()).Interface()
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, c := range decodeCases {
		// An odd address selects the code for unaligned data.
		for _, shift := range []int{0, 1} {
			buf := make([]byte, len(c.src)+shift)
			copy(buf[shift:], c.src)
			dst := blank(c.want)
			err := dtype.Decode(dst, buf[shift:], typ(t, c.dtype))
			if ncerr.KindOf(err) != c.kind {
				t.Errorf("%s: want kind %v, got %v", c.name, c.kind, err)
				continue
			}
			if c.text != "" && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: want %q in %q", c.name, c.text, err)
			}
			if err == nil && !sameValues(dst, c.want) {
				t.Errorf("%s: want %v, got %v", c.name, c.want, dst)
			}
		}
	}
}

// sameValues reports whether a and b have the same type and values. It compares the bits
// of numbers, so that -0 and NaN are compared exactly.
func sameValues(a, b any) bool {
	x, _, ok1 := dtype.View(a)
	y, _, ok2 := dtype.View(b)
	if ok1 && ok2 {
		return reflect.TypeOf(a) == reflect.TypeOf(b) && bytes.Equal(x, y)
	}
	return reflect.DeepEqual(a, b)
}

func TestDecodeLongRunsNameTheIndex(t *testing.T) {
	t.Parallel()
	src := make([]int32, 1000)
	src[777] = 70000
	b, ty, _ := dtype.View(src)
	for _, order := range []dtype.Order{dtype.Little, dtype.Big} {
		enc := append([]byte(nil), b...)
		ot := ty.WithOrder(order)
		if order != dtype.Native {
			dtype.SwapBytes(enc, 4)
		}
		err := dtype.Decode(make([]int16, len(src)), enc, ot)
		if err == nil || !strings.Contains(err.Error(), "element 777: 70000") {
			t.Errorf("%v: want an error about element 777, got %v", ot, err)
		}
	}
	err := dtype.Encode(make([]byte, 2000), dtype.NCShort.Type(dtype.Big), src)
	if !errors.Is(err, ncerr.ErrConvert) || !strings.Contains(err.Error(), "element 777") {
		t.Errorf("want ErrConvert about element 777, got %v", err)
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		dtype string
		src   any
		want  []byte
		kind  ncerr.Kind
	}{
		{"be", ">u2", []uint16{1, 0xfffe}, []byte{0, 1, 0xff, 0xfe}, 0},
		{"f8 to be i2", ">i2", []float64{258.9}, []byte{1, 2}, 0},
		{"i4 to u1", "|u1", []int32{256}, []byte{0}, ncerr.ErrConvert},
		{"bool", "|b1", []int64{0, 1}, []byte{0, 1}, 0},
		{"bool 2", "|b1", []uint8{2}, []byte{0}, ncerr.ErrConvert},
		{"half", "<f2", []float64{1, 65504, 5.9604645e-08, math.Inf(1)}, []byte{0, 0x3c, 0xff, 0x7b, 1, 0, 0, 0x7c}, 0},
		{"half over", "<f2", []float32{65520}, []byte{0, 0}, ncerr.ErrConvert},
		{"half rounds down to max", "<f2", []float32{65519}, []byte{0xff, 0x7b}, 0},
		{"bytes", "|S3", []string{"ab", "abc", ""}, []byte("ab\x00abc\x00\x00\x00"), 0},
		{"bytes too long", "|S3", []string{"abcd"}, make([]byte, 3), ncerr.ErrConvert},
		{"bytes ending in NUL", "|S3", []string{"a\x00"}, make([]byte, 3), ncerr.ErrConvert},
		{"unicode", ">U2", []string{"é"}, []byte{0, 0, 0, 0xe9, 0, 0, 0, 0}, 0},
		{"unicode too long", "<U1", []string{"ab"}, make([]byte, 4), ncerr.ErrConvert},
		{"unicode, bad UTF-8", "<U1", []string{"\xff"}, make([]byte, 4), ncerr.ErrConvert},
		{"number as text", "|S3", []int32{1}, make([]byte, 3), ncerr.ErrBadType},
		{"text as number", "<i4", []string{"1"}, make([]byte, 4), ncerr.ErrBadType},
		{"length", "<i4", []int32{1}, make([]byte, 8), ncerr.ErrInvalid},
	} {
		dst := make([]byte, len(c.want))
		err := dtype.Encode(dst, typ(t, c.dtype), c.src)
		if ncerr.KindOf(err) != c.kind {
			t.Errorf("%s: want kind %v, got %v", c.name, c.kind, err)
		} else if err == nil && !bytes.Equal(dst, c.want) {
			t.Errorf("%s: want %x, got %x", c.name, c.want, dst)
		}
	}
}

// TestHalfRoundTrip checks that every binary16, including all NaN payloads, survives
// conversion to float32 and back.
func TestHalfRoundTrip(t *testing.T) {
	t.Parallel()
	half := dtype.Type{Kind: dtype.Float, Size: 2, Order: dtype.Big}
	in, out := make([]byte, 2<<16), make([]byte, 2<<16)
	for i := range 1 << 16 {
		in[2*i], in[2*i+1] = byte(i>>8), byte(i)
	}
	floats := make([]float32, 1<<16)
	if err := dtype.Decode(floats, in, half); err != nil {
		t.Fatal(err)
	}
	if err := dtype.Encode(out, half, floats); err != nil {
		t.Fatal(err)
	}
	for i := range 1 << 16 {
		if in[2*i] != out[2*i] || in[2*i+1] != out[2*i+1] {
			t.Errorf("%x became %x", in[2*i:2*i+2], out[2*i:2*i+2])
		}
	}
}
