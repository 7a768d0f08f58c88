package dtype_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func TestSwapBytes(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 2, 4, 8} {
		for n := range 41 {
			b, want := make([]byte, n), make([]byte, n)
			for i := range b {
				b[i], want[i] = byte(i+1), byte(i+1)
			}
			for at := 0; at+width <= n; at += width {
				for k := range width {
					want[at+k] = b[at+width-1-k]
				}
			}
			dtype.SwapBytes(b, width)
			if !bytes.Equal(b, want) {
				t.Errorf("width %d, %d bytes: want %x, got %x", width, n, want, b)
			}
		}
	}
}

func TestSlices(t *testing.T) {
	t.Parallel()
	for nc := dtype.NCByte; nc <= dtype.NCString; nc++ {
		s := dtype.MakeSlice(nc, 5)
		got, ok := dtype.TypeOf(s)
		want := nc
		if nc == dtype.NCChar {
			want = dtype.NCUByte
		}
		if !ok || got != want || dtype.Len(s) != 5 || dtype.Len(dtype.Slice(s, 1, 3)) != 2 {
			t.Errorf("%v: %T is %v of length %d", nc, s, got, dtype.Len(s))
		}
		b, ty, ok := dtype.View(s)
		if ok != (nc != dtype.NCString) || ok && (len(b) != 5*nc.Size() || ty.NC() != want) {
			t.Errorf("%v: view of %d bytes, type %v", nc, len(b), ty)
		}
	}
	s := []int32{1, 2}
	b, _, _ := dtype.View(s)
	binary.NativeEndian.PutUint32(b[4:], 7)
	if s[1] != 7 {
		t.Error("the view does not alias the slice")
	}
	if _, _, ok := dtype.View([]string{"a"}); ok || dtype.Len(5) != 0 || dtype.MakeSlice(dtype.NCNone, 1) != nil {
		t.Error("a type other than a typed slice was accepted")
	}
	if nc, ok := dtype.TypeOf("text"); !ok || nc != dtype.NCChar || dtype.Len("text") != 4 {
		t.Error("TypeOf or Len is wrong for a string")
	}
}

// TestDefaultFill compares the default fill values with those in netcdf.h.
func TestDefaultFill(t *testing.T) {
	t.Parallel()
	for nc, want := range map[dtype.NC]any{
		dtype.NCByte: []int8{-127}, dtype.NCUByte: []uint8{255}, dtype.NCShort: []int16{-32767}, dtype.NCUShort: []uint16{65535},
		dtype.NCInt: []int32{-2147483647}, dtype.NCUInt: []uint32{4294967295},
		dtype.NCInt64: []int64{-9223372036854775806}, dtype.NCUInt64: []uint64{18446744073709551614},
		dtype.NCDouble: []float64{math.Float64frombits(0x479e000000000000)}, dtype.NCFloat: []float32{math.Float32frombits(0x7cf00000)},
		dtype.NCChar: []uint8{0}, dtype.NCString: []string{""},
	} {
		if got := dtype.DefaultFill(nc); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: want %v, got %v", nc, want, got)
		}
	}
	if dtype.DefaultFill(dtype.NCNone) != nil {
		t.Error("NCNone has a fill value")
	}
}

func TestFillBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dtype string
		value any
		want  []byte
		kind  ncerr.Kind
	}{
		{">i2", []int16{258}, []byte{1, 2}, 0},
		{"<f4", []float64{1}, []byte{0, 0, 0x80, 0x3f}, 0},
		{"|S3", "ab", []byte("ab\x00"), 0},
		{"|S3", []string{"ab"}, []byte("ab\x00"), 0},
		{"|S3", "abcd", nil, ncerr.ErrConvert},
		{"|O", "xyz", []byte("xyz"), 0},
		{"|V2", []uint8{1, 2}, []byte{1, 2}, 0},
		{"<i2", []int16{1, 2}, nil, ncerr.ErrInvalid},
		{"<i2", []int16{}, nil, ncerr.ErrInvalid},
		{"|u1", []int32{300}, nil, ncerr.ErrConvert},
		{"<i2", "1", nil, ncerr.ErrBadType},
	} {
		got, err := dtype.FillBytes(typ(t, c.dtype), c.value)
		if ncerr.KindOf(err) != c.kind || !bytes.Equal(got, c.want) {
			t.Errorf("%s %v: want %x %v, got %x, %v", c.dtype, c.value, c.want, c.kind, got, err)
		}
	}
	char := dtype.NCChar.Type(dtype.OrderNone)
	for text, want := range map[string]byte{"x": 'x', "": 0, "\x00": 0, "\xff": 0xff} {
		if got, err := dtype.FillBytes(char, text); err != nil || got[0] != want {
			t.Errorf("%q: want %v, got %v, %v", text, want, got, err)
		}
	}
}

func TestAppendFloat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    float64
		bits int
		want string
	}{
		{math.Pi, 64, "3.141592653589793"},
		{float64(float32(0.1)), 32, "0.1"},
		{1e30, 32, "1e+30"},
		{-999.5, 32, "-999.5"},
		{math.Copysign(0, -1), 64, "-0.0"},
		{9.969209968386869e36, 64, "9.969209968386869e+36"},
		{float64(float32(9.96921e36)), 32, "9.96921e+36"},
		{math.NaN(), 64, `"NaN"`},
		{math.Inf(1), 64, `"Infinity"`},
		{math.Inf(-1), 32, `"-Infinity"`},
	} {
		if got := string(dtype.AppendFloat([]byte("x"), c.f, c.bits)); got != "x"+c.want {
			t.Errorf("want x%s, got %s", c.want, got)
		}
	}
	rapidseed.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		text := string(dtype.AppendFloat(nil, f, 64))
		if strings.HasPrefix(text, `"`) {
			return
		}
		if back, err := strconv.ParseFloat(text, 64); err != nil || math.Float64bits(back) != math.Float64bits(f) {
			t.Fatalf("%v became %s", f, text)
		}
	})
}

// TestRoundTrip checks that decoding and then encoding restores the bytes of every
// integer type, and that every binary16 except NaNs survives conversion to float32.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		nc := rapid.SampledFrom([]dtype.NC{1, 3, 4, 7, 8, 9, 10, 11}).Draw(t, "type")
		ty := nc.Type(rapid.SampledFrom([]dtype.Order{dtype.Little, dtype.Big}).Draw(t, "order"))
		n := rapid.IntRange(0, 600).Draw(t, "n")
		src := rapid.SliceOfN(rapid.Byte(), n*ty.Size, n*ty.Size).Draw(t, "bytes")
		dst := dtype.MakeSlice(nc, n)
		back := make([]byte, len(src))
		if err := dtype.Decode(dst, src, ty); err != nil {
			t.Fatal(err)
		}
		if err := dtype.Encode(back, ty, dst); err != nil || !bytes.Equal(back, src) {
			t.Fatalf("%v: %x became %x, %v", ty, src, back, err)
		}
		if ty.Size <= 4 { // all of these are exact in float64
			wide := make([]float64, n)
			if err := dtype.Decode(wide, src, ty); err != nil {
				t.Fatal(err)
			}
			clear(back)
			if err := dtype.Encode(back, ty, wide); err != nil || !bytes.Equal(back, src) {
				t.Fatalf("%v over float64: %x became %x, %v", ty, src, back, err)
			}
		}
	})
	half := dtype.Type{Kind: dtype.Float, Size: 2, Order: dtype.Big}
	for h := range 1 << 16 {
		src := binary.BigEndian.AppendUint16(nil, uint16(h))
		f, back := make([]float32, 1), make([]byte, 2)
		if err := dtype.Decode(f, src, half); err != nil {
			t.Fatal(err)
		}
		if f[0] != f[0] {
			continue
		}
		if err := dtype.Encode(back, half, f); err != nil || !bytes.Equal(back, src) {
			t.Fatalf("%x is %v and then %x, %v", src, f[0], back, err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	src := make([]byte, 1<<20)
	for _, c := range []struct {
		name, dtype string
		dst         any
	}{
		{"i2 to i2", "<i2", make([]int16, 1<<19)},
		{"swapped i2 to i2", ">i2", make([]int16, 1<<19)},
		{"i2 to f8", "<i2", make([]float64, 1<<19)},
		{"swapped f4 to f8", ">f4", make([]float64, 1<<18)},
		{"f8 to i4", "<f8", make([]int32, 1<<17)},
	} {
		t, err := dtype.Parse(c.dtype)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if err := dtype.Decode(c.dst, src, t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
