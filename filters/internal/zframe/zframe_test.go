package zframe_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/zframe"
)

// levels has one level of every group of levels with the same encoder.
var levels = []int{-3, 1, 3, 4, 6, 7, 9, 10}

// TestFramesStateTheirSize checks that every frame states the size of its content.
// libnetcdf rejects frames without a size.
func TestFramesStateTheirSize(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		e, err := zframe.NewEncoder(level, false, 0)
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
				t.Errorf("level %d, %d bytes: the frame states a size of %d, %v", level, n, size, err)
			}
			out := make([]byte, n)
			if m, err := d.Decode(out, buf[:k]); err != nil || m != n || !bytes.Equal(out, src) {
				t.Errorf("level %d, %d bytes: round trip returns %d bytes, %v", level, n, m, err)
			}
		}
	}
}

// nibbles returns n bytes of noise without matches, whose literals need half a byte each.
func nibbles(seed uint64, n int) []byte {
	r, b := rand.New(rand.NewPCG(seed, 0)), make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint64() >> 60)
	}
	return b
}

// TestFramesAreDeterministic checks that a frame depends only on its content, not on what
// the encoder did before.
func TestFramesAreDeterministic(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		var want []byte
		for i := range 3 {
			e, err := zframe.NewEncoder(level, false, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, zframe.MaxEncoded(70_000))
			for j := range i { // fill the tables of the encoder
				if _, err := e.Encode(got, nibbles(uint64(j), 70_000)); err != nil {
					t.Fatal(err)
				}
			}
			n, err := e.Encode(got, nibbles(40, 60_000))
			if err != nil {
				t.Fatal(err)
			}
			if got = got[:n]; i == 0 {
				want = got
			} else if !bytes.Equal(want, got) {
				t.Errorf("level %d: want the same %d bytes after %d other frames, got %d that differ", level, len(want), i, len(got))
			}
		}
	}
}

// TestNoiseOfHalfAByte checks that literals are entropy-coded in content without matches,
// as after a shuffle, at the levels at which the reference implementation entropy-codes
// them. From level 4 on, the encoder finds matches of four bytes in this content and
// reaches 54 percent of the size.
func TestNoiseOfHalfAByte(t *testing.T) {
	t.Parallel()
	const n = 50_000
	for _, level := range levels {
		e, err := zframe.NewEncoder(level, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		k, err := e.Encode(make([]byte, zframe.MaxEncoded(n)), nibbles(1, n))
		if err != nil {
			t.Fatal(err)
		}
		if half := k < n*55/100; half != (level > 0) {
			t.Errorf("level %d: %d bytes are encoded as %d", level, n, k)
		}
	}
}

// TestStrongerForSmallContents checks that level 2 uses a stronger encoder for contents of
// at most 256 KiB, like the reference implementation.
func TestStrongerForSmallContents(t *testing.T) {
	t.Parallel()
	src := make([]byte, 256<<10+1)
	for i := range src { // each value occurs earlier, at a different distance
		src[i] = byte(i / 8 * (i / 1024) >> (i % 4))
	}
	encoded := func(level int, src []byte) []byte {
		e, err := zframe.NewEncoder(level, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, zframe.MaxEncoded(int64(len(src))))
		n, err := e.Encode(buf, src)
		if err != nil {
			t.Fatal(err)
		}
		return buf[:n]
	}
	if !bytes.Equal(encoded(2, src), encoded(1, src)) {
		t.Error("want the output of level 1 for level 2 and more than 256 KiB")
	}
	if bytes.Equal(encoded(2, src[1:]), encoded(1, src[1:])) {
		t.Error("want different output than level 1 for level 2 and 256 KiB")
	}
}

// TestShortDestination checks that Encode fails if the destination is too short, and
// writes no byte after it.
func TestShortDestination(t *testing.T) {
	t.Parallel()
	src := nibbles(2, 10_000)
	for _, level := range levels {
		e, err := zframe.NewEncoder(level, true, 0)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, zframe.MaxEncoded(int64(len(src))))
		if n, err := e.Encode(buf[:3000], src); err == nil {
			t.Errorf("level %d: want an error, got %d bytes", level, n)
		}
		if !bytes.Equal(buf[3000:], make([]byte, len(buf)-3000)) {
			t.Errorf("level %d: bytes after the destination were written", level)
		}
	}
}
