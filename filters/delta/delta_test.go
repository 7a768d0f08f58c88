package delta_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/delta"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
)

var integers = []string{"|b1", "|i1", "|u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8", "<M8[s]", ">m8[ns]"}

// TestIntegersRoundTrip checks that arbitrary bits survive a round trip, in every type
// and byte order.
func TestIntegersRoundTrip(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(r *rapid.T) {
		name := rapid.SampledFrom(integers).Draw(r, "type")
		typ, err := dtype.Parse(name)
		if err != nil {
			r.Fatal(err)
		}
		n := rapid.IntRange(0, 50).Draw(r, "n")
		src := rapid.SliceOfN(rapid.Byte(), n*typ.Size, n*typ.Size).Draw(r, "src")
		c, err := delta.New(typ, typ)
		if err != nil {
			r.Fatal(err)
		}
		enc, dst := make([]byte, len(src)), make([]byte, len(src))
		if _, err := c.Encode(t.Context(), enc, src); err != nil {
			r.Fatal(err)
		}
		if k, err := c.Decode(t.Context(), dst, enc); err != nil || k != len(src) || !bytes.Equal(src, dst) {
			r.Fatalf("%s: want %x, got %x, %v", name, src, dst, err)
		}
	})
}

// TestKnownDifferences compares encoded elements with differences computed by hand.
func TestKnownDifferences(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		params     string
		plain, enc []byte
	}{
		"i2 little":  {`{"dtype":"<i2"}`, []byte{10, 0, 12, 0, 9, 0}, []byte{10, 0, 2, 0, 0xFD, 0xFF}},
		"i2 big":     {`{"dtype":">i2"}`, []byte{0, 10, 0, 12, 0, 9}, []byte{0, 10, 0, 2, 0xFF, 0xFD}},
		"i4 as i1":   {`{"dtype":"<i4","astype":"|i1"}`, []byte{5, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0}, []byte{5, 0xFF, 3}},
		"u1 wraps":   {`{"dtype":"|u1"}`, []byte{1, 0, 255}, []byte{1, 255, 255}},
		"f4":         {`{"dtype":"<f4"}`, []byte{0, 0, 0x80, 0x3F, 0, 0, 0x40, 0x40}, []byte{0, 0, 0x80, 0x3F, 0, 0, 0, 0x40}},
		"f4 as >f8":  {`{"dtype":"<f4","astype":">f8"}`, []byte{0, 0, 0x80, 0x3F, 0, 0, 0x40, 0x40}, []byte{0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0}},
		"f2":         {`{"dtype":"<f2"}`, []byte{0, 0x3C, 0, 0x42}, []byte{0, 0x3C, 0, 0x40}},
		"bool":       {`{"dtype":"|b1"}`, []byte{1, 1, 0, 1}, []byte{1, 0, 1, 1}},
		"minus zero": {`{"dtype":"<f4"}`, []byte{0, 0, 0, 0x80}, []byte{0, 0, 0, 0x80}},
	}
	for name, c := range cases {
		in := driver.Spec{DType: dtype.Type{Kind: dtype.Uint, Size: 1}, Shape: []int{len(c.plain)}, MaxBytes: int64(len(c.plain))}
		d, out := filtertest.Open(t, delta.Provider(), delta.ID, c.params, in)
		if out.MaxBytes != int64(len(c.enc)) {
			t.Errorf("%s: want %d bytes out, got %d", name, len(c.enc), out.MaxBytes)
		}
		enc, dst := make([]byte, len(c.enc)), make([]byte, len(c.plain))
		if _, err := d.Encode(t.Context(), enc, c.plain); err != nil || !bytes.Equal(c.enc, enc) {
			t.Errorf("%s: encode: want %x, got %x, %v", name, c.enc, enc, err)
		}
		if _, err := d.Decode(t.Context(), dst, c.enc); err != nil || !bytes.Equal(c.plain, dst) {
			t.Errorf("%s: decode: want %x, got %x, %v", name, c.plain, dst, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	text := driver.Spec{DType: dtype.Type{Kind: dtype.Bytes, Size: 3}, Shape: []int{4}, MaxBytes: 12}
	if _, _, err := delta.Provider().Open("delta", nil, text); ncerr.KindOf(err) != ncerr.ErrUnsupported {
		t.Errorf("text: want ErrUnsupported, got %v", err)
	}
	if _, _, err := delta.Provider().Open("delta", []byte(`{"dtype":"<i8"}`), text); ncerr.KindOf(err) != ncerr.ErrUnsupported {
		t.Errorf("12 bytes as <i8: want ErrUnsupported, got %v", err)
	}
	typ := dtype.Type{Kind: dtype.Int, Size: 4, Order: dtype.Little}
	c, err := delta.New(typ, typ)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Decode(t.Context(), make([]byte, 8), make([]byte, 7)); ncerr.KindOf(err) != ncerr.ErrCorrupt {
		t.Errorf("7 bytes: want ErrCorrupt, got %v", err)
	}
}

// TestSumsInTheWiderType checks that the sum keeps bits that an element cannot hold. The
// expected values come from numcodecs 0.17.
func TestSumsInTheWiderType(t *testing.T) {
	t.Parallel()
	in := driver.Spec{Kind: driver.Array, DType: dtype.Type{Kind: dtype.Int, Size: 4, Order: dtype.Little}, Shape: []int{3}, MaxBytes: 12}
	c, _, err := delta.Provider().Open("delta", []byte(`{"dtype":"<i4","astype":"<f4"}`), in)
	if err != nil {
		t.Fatal(err)
	}
	src := []byte{0, 0, 0x40, 0x3F, 0, 0, 0x40, 0x3F, 0, 0, 0x40, 0x3F} // three times 0.75
	dst := make([]byte, 12)
	if n, err := c.Decode(t.Context(), dst, src); err != nil || n != 12 {
		t.Fatal(n, err)
	}
	if want := []byte{0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}; !bytes.Equal(want, dst) {
		t.Errorf("want %v, got %v", want, dst)
	}
}

// TestWrappedDifferencesAsFloat checks that uint8 elements survive if their
// differences, which wrap around (5-10 is 251), are stored as floats.
func TestWrappedDifferencesAsFloat(t *testing.T) {
	t.Parallel()
	in := driver.Spec{Kind: driver.Array, DType: dtype.Type{Kind: dtype.Uint, Size: 1}, Shape: []int{300}, MaxBytes: 300}
	c, out, err := delta.Provider().Open("delta", []byte(`{"dtype":"|u1","astype":"<f4"}`), in)
	if err != nil {
		t.Fatal(err)
	}
	src := make([]byte, 300)
	for i := range src {
		src[i] = byte(i * i * 7)
	}
	enc, dst := make([]byte, out.MaxBytes), make([]byte, 300)
	n, err := c.Encode(t.Context(), enc, src)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Decode(t.Context(), dst, enc[:n]); err != nil || !bytes.Equal(src, dst) {
		t.Errorf("want %v, got %v, %v", src[:8], dst[:8], err)
	}
}
