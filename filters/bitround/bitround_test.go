package bitround_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/filters/bitround"
)

// TestIntegersAreUnchanged checks that integers are accepted and not rounded.
func TestIntegersAreUnchanged(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"<i4", ">i8", "|u1", "<u2"} {
		typ, err := dtype.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		in := driver.Spec{Kind: driver.Array, DType: typ, Shape: []int{16 / typ.Size}, MaxBytes: 16}
		c, _, err := bitround.Provider().Open(bitround.ID, json.RawMessage(`{"keepbits": 3}`), in)
		if err != nil {
			t.Fatal(err)
		}
		src := []byte("\x01\x02\x03\x7f\xff\xfe\xfd\x80 and more")
		src, dst := src[:16], make([]byte, 16)
		for name, code := range map[string]func() (int, error){
			"encode": func() (int, error) { return c.Encode(t.Context(), dst, src) },
			"decode": func() (int, error) { return c.Decode(t.Context(), dst, src) },
		} {
			if n, err := code(); err != nil || !bytes.Equal(dst[:n], src) {
				t.Errorf("%s %s: want %x, got %x, %v", name, text, src, dst[:n], err)
			}
		}
	}
}
