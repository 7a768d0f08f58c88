package inflate

import (
	"errors"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// TestManyEmptyBlocks decodes empty blocks with fixed codes, 10 bits each. The tables of
// the fixed codes must be built only once.
func TestManyEmptyBlocks(t *testing.T) {
	t.Parallel()
	src := make([]byte, 1<<20)
	for bit := range len(src)*8/10 - 1 { // each block has 10 bits: not the last one (0), fixed codes (01), end of block
		at := 10*bit + 1
		src[at/8] |= 1 << (at % 8)
	}
	var d Decoder
	decode := func() {
		if n, _, err := d.Deflate(t.Context(), nil, src); n != 0 || !errors.Is(err, ncerr.ErrCorrupt) {
			t.Errorf("want an error, got %d bytes, %v", n, err)
		}
	}
	decode()
	const mark = 0xEE // not a valid code length
	d.lengths[0] = mark
	decode()
	if d.lengths[0] != mark {
		t.Error("the tables were built again")
	}
}
