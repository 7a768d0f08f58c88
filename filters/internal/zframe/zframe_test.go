package zframe_test

import (
	"bytes"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/zframe"
)

// Every frame states the size of its content: libnetcdf refuses others.
func TestFramesStateTheirSize(t *testing.T) {
	t.Parallel()
	e, err := zframe.NewEncoder(3, false, false)
	if err != nil {
		t.Fatal(err)
	}
	var d zframe.Decoder
	for _, n := range []int{0, 1, 4, 31, 32, 255, 256, 257, 5000, 1 << 17} {
		src := bytes.Repeat([]byte{1, 2, 3, 7}, n/4+1)[:n]
		buf := make([]byte, zframe.MaxEncoded(int64(n)))
		k, err := e.Encode(buf, src)
		if err != nil {
			t.Fatal(err)
		}
		size, err := zframe.Size(buf[:k])
		if err != nil || size != int64(n) {
			t.Errorf("%d bytes: the frame states %d, %v", n, size, err)
		}
		out := make([]byte, n)
		if m, err := d.Decode(out, buf[:k]); err != nil || m != n || !bytes.Equal(out, src) {
			t.Errorf("%d bytes: came back as %d, %v", n, m, err)
		}
	}
}
