package deflate_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/deflate"
)

func floats(n int) []byte {
	r := rand.New(rand.NewPCG(2, 2))
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(280+r.NormFloat64())))
	}
	return b
}

// TestFloatsGetSmaller checks that unshuffled floats are compressed by a Huffman code
// even without matches.
func TestFloatsGetSmaller(t *testing.T) {
	t.Parallel()
	src := floats(50_000)
	for _, level := range []int{1, 5, 9} {
		for _, room := range []int{int(deflate.MaxEncoded(int64(len(src)))), len(src) - 1} {
			dst := make([]byte, room)
			n, err := deflate.New(deflate.Zlib, level).Encode(t.Context(), dst, src)
			if err != nil || n > len(src)*9/10 {
				t.Errorf("level %d, buffer of %d bytes: %d bytes are encoded as %d, %v", level, room, len(src), n, err)
				continue
			}
			r, err := zlib.NewReader(bytes.NewReader(dst[:n]))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(src, got) {
				t.Errorf("level %d: round trip returns different bytes, %v", level, err)
			}
		}
	}
}

func TestGzipHeader(t *testing.T) {
	t.Parallel()
	for _, src := range [][]byte{nil, []byte("some text"), floats(1000)} {
		dst := make([]byte, deflate.MaxEncoded(int64(len(src))))
		n, err := deflate.New(deflate.Gzip, 5).Encode(t.Context(), dst, src)
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(dst[:n]))
		if err != nil {
			t.Fatal(err)
		}
		if !r.ModTime.IsZero() || r.Name != "" {
			t.Errorf("want no name and no time, got %q, %v", r.Name, r.ModTime)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(src, got) {
			t.Errorf("round trip returns different bytes, %v", err)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	src := floats(1000)
	for _, room := range []int{0, 1, 100, 2000} {
		_, err := deflate.New(deflate.Zlib, 6).Encode(t.Context(), make([]byte, room), src)
		if ncerr.KindOf(err) != ncerr.ErrShortBuffer {
			t.Errorf("buffer of %d bytes: want ErrShortBuffer, got %v", room, err)
		}
	}
}
