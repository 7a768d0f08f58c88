package packbits_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/packbits"
)

// TestV3 decodes chunks that zarrs 0.23.0 wrote, and encodes them again.
func TestV3(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, params, encoded string
		values, decoded      any // decoded is nil if it equals values
	}{
		{"<i2", `{"first_bit":0,"last_bit":9,"padding_encoding":"last_byte"}`, "c5cbe374be7cfb0f04", []int16{-59, 242, -178, -263, -132, -2}, nil},
		{">i2", `{"last_bit":9,"padding_encoding":"last_byte"}`, "c5cbe374be7cfb0f04", []int16{-59, 242, -178, -263, -132, -2}, nil},
		{"|b1", `{"padding_encoding":"first_byte"}`, "020e", []uint8{0, 1, 1, 1, 0, 0}, nil},
		{
			"<u4", `{"first_bit":3,"last_bit":20}`, "4758e8b6784023e149a7c2bdb301",
			[]uint32{170050110, 3086052821, 2270273598, 1963539489, 2754483512, 3307431802},
			[]uint32{170050110 & 0x1FFFF8, 3086052821 & 0x1FFFF8, 2270273598 & 0x1FFFF8, 1963539489 & 0x1FFFF8, 2754483512 & 0x1FFFF8, 3307431802 & 0x1FFFF8},
		},
	} {
		typ, err := dtype.Parse(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		want := c.values
		if c.decoded != nil {
			want = c.decoded
		}
		src, dst := make([]byte, 6*typ.Size), make([]byte, 6*typ.Size)
		decoded := make([]byte, 6*typ.Size)
		encoded, err := hex.DecodeString(c.encoded)
		if err != nil || dtype.Encode(src, typ, c.values) != nil || dtype.Encode(decoded, typ, want) != nil {
			t.Fatal(c, err)
		}
		codec, out, err := packbits.V3Provider().Open(packbits.V3ID, json.RawMessage(c.params), driver.Spec{DType: typ, Shape: []int{6}, MaxBytes: int64(len(src))})
		if err != nil || out.MaxBytes != int64(len(encoded)) {
			t.Fatal(c.params, out.MaxBytes, err)
		}
		if n, err := codec.Decode(t.Context(), dst, encoded); err != nil || !bytes.Equal(dst[:n], decoded) {
			t.Errorf("%s %s: want %x, got %x, %v", c.typ, c.params, decoded, dst, err)
		}
		got := bytes.Repeat([]byte{0xFF}, len(encoded))
		if n, err := codec.Encode(t.Context(), got, src); err != nil || !bytes.Equal(got[:n], encoded) {
			t.Errorf("%s %s: want %x, got %x, %v", c.typ, c.params, encoded, got, err)
		}
		for _, bad := range [][]byte{encoded[1:], append(encoded, 0)} {
			if _, err := codec.Decode(t.Context(), dst, bad); ncerr.KindOf(err) != ncerr.ErrCorrupt {
				t.Errorf("%s %s: decoding %x: want ErrCorrupt, got %v", c.typ, c.params, bad, err)
			}
		}
	}
}
