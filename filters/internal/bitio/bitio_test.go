package bitio_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/filters/internal/bitio"
)

// TestBits compares the output with the concatenated binary digits of the numbers.
func TestBits(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(r *rapid.T) {
		dst := make([]byte, 400)
		w := bitio.NewWriter(dst)
		want := ""
		for range rapid.IntRange(0, 60).Draw(r, "numbers") {
			n := rapid.UintRange(1, 48).Draw(r, "bits")
			v := rapid.Uint64Max(1<<n-1).Draw(r, "value")
			w.Put(n, v)
			want += fmt.Sprintf("%0*b", n, v)
		}
		want += strings.Repeat("0", -len(want)&7)
		n, err := w.End()
		got := ""
		for _, b := range dst[:n] {
			got += fmt.Sprintf("%08b", b)
		}
		if err != nil || got != want {
			r.Fatalf("want %s, got %s, %v", want, got, err)
		}
	})
}

// TestShort checks that bits that do not fit are an error, and that no byte after dst
// is written.
func TestShort(t *testing.T) {
	t.Parallel()
	var room [3]byte
	w := bitio.NewWriter(room[:2])
	w.Put(16, 0xffff)
	if w.Short() {
		t.Error("two bytes do not fit in a buffer of two bytes")
	}
	w.Put(1, 1)
	if _, err := w.End(); !errors.Is(err, bitio.ErrShort) || !w.Short() || room[2] != 0 {
		t.Errorf("want ErrShort and nothing written after dst, got %v, %x", err, room)
	}
}
