package packbits_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/packbits"
)

// TestIntegers checks that integers of one byte are packed as in numcodecs 0.17.1, and
// that other values, which numcodecs would store as 1, are rejected.
func TestIntegers(t *testing.T) {
	t.Parallel()
	plain, coded := []byte{1, 0, 1, 1, 0, 0, 1, 0, 1, 1}, []byte{6, 0xb2, 0xc0}
	for _, kind := range []dtype.Kind{dtype.Uint, dtype.Int, dtype.Bool} {
		in := driver.Spec{Kind: driver.Array, DType: dtype.Type{Kind: kind, Size: 1}, Shape: []int{10}, MaxBytes: 10}
		c, _, err := packbits.Provider().Open(packbits.ID, nil, in)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, 16)
		if n, err := c.Encode(t.Context(), dst, plain); err != nil || !bytes.Equal(dst[:n], coded) {
			t.Errorf("%v: want %x, got %x, %v", in.DType, coded, dst[:n], err)
		}
		if n, err := c.Decode(t.Context(), dst, coded); err != nil || !bytes.Equal(dst[:n], plain) {
			t.Errorf("%v: want %x, got %x, %v", in.DType, plain, dst[:n], err)
		}
		if _, err := c.Encode(t.Context(), dst, []byte{1, 2}); errors.Is(err, ncerr.ErrConvert) != (kind != dtype.Bool) {
			t.Errorf("%v: want ErrConvert for the value 2, got %v", in.DType, err)
		}
	}
	for _, in := range []driver.Spec{
		{Kind: driver.Array, DType: dtype.Type{Kind: dtype.Int, Size: 4}, Shape: []int{2}, MaxBytes: 8},
		{Kind: driver.Blob, DType: dtype.Type{Kind: dtype.Uint, Size: 1}, MaxBytes: 8},
	} {
		if _, _, err := packbits.Provider().Open(packbits.ID, nil, in); !errors.Is(err, ncerr.ErrUnsupported) {
			t.Errorf("%+v: want ErrUnsupported, got %v", in, err)
		}
	}
}
