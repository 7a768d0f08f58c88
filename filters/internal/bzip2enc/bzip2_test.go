package bzip2enc_test

import (
	"bytes"
	"compress/bzip2"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/bitio"
	"github.com/seed-695719ce/nczarr/filters/internal/bzip2enc"
)

// inputs returns inputs for all cases that the format distinguishes.
func inputs() map[string][]byte {
	r := rand.New(rand.NewPCG(7, 8))
	noise := make([]byte, 250_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	runs := []byte{}
	for n := range 600 { // around 4 and 255, where runs are split
		runs = append(runs, bytes.Repeat([]byte{byte(n % 3)}, n)...)
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	fibonacci := []byte("b") // many long repeats, the worst case of sorting
	for a := []byte("a"); len(fibonacci) < 60_000; {
		fibonacci, a = append(bytes.Clone(fibonacci), a...), fibonacci
	}
	skewed := []byte{} // frequencies that need codes beyond the length limit
	for i, n := 0, 1; n < 100_000; i, n = i+1, n*2 {
		for range n {
			skewed = append(skewed, byte(i*11))
		}
	}
	r.Shuffle(len(skewed), func(i, j int) { skewed[i], skewed[j] = skewed[j], skewed[i] })
	return map[string][]byte{
		"empty": {}, "one": {7}, "two": {7, 7}, "noise": noise, "runs": runs, "every byte": every,
		"zeros": make([]byte, 1<<20), "period": bytes.Repeat([]byte("abc"), 50_000), "fibonacci": fibonacci, "skewed": skewed,
	}
}

// TestDecoder checks that the standard library decodes the output, for one or more
// blocks.
func TestDecoder(t *testing.T) {
	t.Parallel()
	for name, src := range inputs() {
		for _, level := range []int{1, 9} {
			e := bzip2enc.New(level)
			dst := make([]byte, bzip2enc.MaxEncoded(int64(len(src))))
			for range 2 { // the second round reuses memory
				n, err := e.Encode(t.Context(), dst, src)
				if err != nil {
					t.Fatalf("%s at level %d: %v", name, level, err)
				}
				got, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(dst[:n])))
				if err != nil || !bytes.Equal(src, got) {
					t.Errorf("%s at level %d: the round trip of %d bytes returns %d, or wrong bytes, %v", name, level, len(src), len(got), err)
				}
				if _, err := e.Encode(t.Context(), dst[:n-1], src); !errors.Is(err, bitio.ErrShort) {
					t.Errorf("%s at level %d with a short buffer: want ErrShort, got %v", name, level, err)
				}
			}
		}
	}
}

// TestPython compares sizes and checksums with the output of Python's bz2 module. The
// coding tables may differ, but the checksums must not.
func TestPython(t *testing.T) {
	t.Parallel()
	text := make([]byte, 40)
	for i := range text {
		text[i] = byte(i * i / 7 % 251)
	}
	for name, c := range map[string]struct {
		src    []byte
		level  int
		python string
	}{
		"squares": {text, 1, "425a683131415926535932d364120000007ffe7aa924444421082082081020404040404020100802008020080100202000230c9934d30989930103218c262683046219184cbe588039887a1352ec63a13ba96ce1aee5f08ca74af5df9efd6bfe2ee48a70a12065a6c824"},
		"period":  {bytes.Repeat([]byte("abc"), 40), 9, "425a68393141592653590265098300001381003800200030cc0529a61384c278bb9229c2848013284c18"},
	} {
		want, err := hex.DecodeString(c.python)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, bzip2enc.MaxEncoded(int64(len(c.src))))
		n, err := bzip2enc.New(c.level).Encode(t.Context(), dst, c.src)
		if err != nil || n > len(want)+len(want)/10 {
			t.Errorf("%s: want about %d bytes, got %d, %v", name, len(want), n, err)
		}
		const sums = 4 + 6 + 4 // header, mark and checksum of the block; what follows depends on the order of equal rotations
		if !bytes.Equal(want[:sums], dst[:sums]) {
			t.Errorf("%s: want the head %x, got %x", name, want[:sums], dst[:sums])
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, src := range inputs() {
		f.Add(src[:min(len(src), 5000)])
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		dst := make([]byte, bzip2enc.MaxEncoded(int64(len(src))))
		n, err := bzip2enc.New(1).Encode(t.Context(), dst, src)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(dst[:n])))
		if err != nil || !bytes.Equal(src, got) {
			t.Fatalf("the round trip of %d bytes returns %d, or wrong bytes, %v", len(src), len(got), err)
		}
	})
}
