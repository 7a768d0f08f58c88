package dtype_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// TestTextOfRaw checks that opaque elements of any length do not convert to or from
// strings.
func TestTextOfRaw(t *testing.T) {
	t.Parallel()
	raw := dtype.Type{Kind: dtype.Raw, Size: 8}
	for _, n := range []int{0, 1, 3} {
		if err := dtype.Decode(make([]string, n), make([]byte, n), raw); ncerr.KindOf(err) != ncerr.ErrBadType {
			t.Errorf("decode %d: want ErrBadType, got %v", n, err)
		}
		if err := dtype.Encode(make([]byte, n), raw, make([]string, n)); ncerr.KindOf(err) != ncerr.ErrBadType {
			t.Errorf("encode %d: want ErrBadType, got %v", n, err)
		}
	}
}
