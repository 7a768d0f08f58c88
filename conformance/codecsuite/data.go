package codecsuite

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// canary is the byte around buffers that must not change.
const canary = 0xC5

// fence is the number of canaries on each side.
const fence = 64

// guarded gives n bytes between canaries, and a function that reports whether
// those are still there.
func guarded(n int) (buf []byte, whole func() bool) {
	b := make([]byte, n+2*fence)
	for i := range b {
		b[i] = canary
	}
	return b[fence : fence+n : fence+n], func() bool {
		for i := range fence {
			if b[i] != canary || b[len(b)-1-i] != canary {
				return false
			}
		}
		return true
	}
}

// patterns names the kinds of data.
var patterns = [...]string{"zeros", "ramp", "smooth", "noise"}

// words are the elements of variable length: empty, short, long, beyond ASCII.
var words = [...]string{"", "a", "bc", "three", "größe", "\U0001F30D", "a \"quoted\" line\n", strings.Repeat("long ", 12)}

// Words gives the values that elements of variable length have in the checks.
func Words() []string { return append([]string(nil), words[:]...) }

// maxWord is the length in bytes of the longest of words.
const maxWord = 60

// values gives n elements of variable length in the layout of driver.Values.
func values(n int, pattern string, r *rand.Rand) []byte {
	dst := make([]byte, driver.ValuesSize(n, int64(n)*maxWord))
	w, err := driver.NewValuesWriter(dst, n)
	for i := 0; i < n && err == nil; i++ {
		k := 0
		switch pattern {
		case "ramp":
			k = i % len(words)
		case "smooth":
			k = i / 10 % len(words)
		case "noise":
			k = r.IntN(len(words))
		}
		err = w.AddString(words[k])
	}
	if err == nil {
		n, err = w.Done()
	}
	if err != nil {
		panic(err) // the room was reckoned from the words
	}
	return dst[:n]
}

// room is the size of n elements of type t at most.
func room(t dtype.Type, n int) int64 {
	if !t.Fixed() {
		return driver.ValuesSize(n, int64(n)*maxWord)
	}
	return int64(n) * int64(t.Size)
}

// data gives n elements of type t. Floats are whole numbers, so that sums and
// differences of them are exact.
func data(t dtype.Type, n int, pattern string, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	if !t.Fixed() {
		return values(n, pattern, r)
	}
	b := make([]byte, n*t.Size)
	for i := range n {
		v := int64(0)
		switch pattern {
		case "ramp":
			v = int64(i % 100)
		case "smooth":
			v = int64(50 + 40*math.Sin(float64(i)/50) + 3*r.Float64())
		case "noise":
			v = r.Int64() >> (64 - min(8*t.Size, 20))
		}
		put(t, b[i*t.Size:][:t.Size], v)
	}
	return b
}

func put(t dtype.Type, b []byte, v int64) {
	bits := uint64(v)
	switch {
	case t.Kind == dtype.Float && t.Size == 4:
		bits = uint64(math.Float32bits(float32(v)))
	case t.Kind == dtype.Float && t.Size == 8:
		bits = math.Float64bits(float64(v))
	case t.Kind == dtype.Float || t.Kind == dtype.Bool:
		bits = uint64(v) & 1
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], bits)
	for i := range b {
		at := i
		if t.Order == dtype.Big {
			at = len(b) - 1 - i
		}
		b[at] = word[i%8]
	}
}

// encode encodes into a buffer of the promised size, or fails the check.
func (c *opened) encode(t conformance.T, src []byte) []byte {
	dst, whole := guarded(int(c.out.MaxBytes))
	n, err := c.Encode(t.Context(), dst, src)
	if err != nil {
		t.Fatalf("encode %d bytes of %v with %s: %v", len(src), c.in.DType, c.params, err)
	}
	if !whole() {
		t.Errorf("encode writes outside its output")
	}
	if n < 0 || n > len(dst) {
		t.Fatalf("encode claims %d bytes in a buffer of %d", n, len(dst))
	}
	return dst[:n]
}
