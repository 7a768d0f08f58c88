package codecsuite

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// canary is the value of the bytes around a guarded buffer.
const canary = 0xC5

// guardSize is the number of canary bytes on each side of a buffer.
const guardSize = 64

// guarded returns n bytes between canaries, and a function that reports whether the
// canaries are unchanged. The capacity of buf includes canaries, because a codec must not
// write beyond the length of its output.
func guarded(n int) (buf []byte, whole func() bool) {
	b := bytes.Repeat([]byte{canary}, n+2*guardSize)
	return b[guardSize : guardSize+n], func() bool {
		for i := range guardSize {
			if b[i] != canary || b[len(b)-1-i] != canary {
				return false
			}
		}
		return true
	}
}

// patterns lists the kinds of data. "bits" has random bit patterns, "special" has
// values that arithmetic may change, and "signs" has a single negative zero among
// zeros. The others hold small integers. Large chunks also use "runs", short runs of
// random values, and lossy codecs use "fine", smooth values that are not whole numbers, so
// that a difference in rounding is visible.
var patterns = [...]string{"zeros", "ramp", "smooth", "noise", "bits", "special", "signs"}

// words are the elements of variable length: empty, short, long, non-ASCII, with a
// trailing NUL, and with a byte order mark and white space at the ends.
var words = [...]string{"", "a", "bc", "three", "größe", "\U0001F30D", "a \"quoted\" line\n", strings.Repeat("long ", 12), "a\x00", "\ufeffmark\r\n", " \t"}

// Words returns the values that elements of variable length have in the checks.
func Words() []string { return append([]string(nil), words[:]...) }

// maxWord is an upper bound for the length of a word in bytes.
const maxWord = 60

// values returns n elements of variable length in the layout of driver.Values.
func values(n int, pattern string, r *rand.Rand) []byte {
	dst := make([]byte, driver.ValuesSize(n, int64(n)*maxWord))
	w, err := driver.NewValuesWriter(dst, n)
	for i := 0; i < n && err == nil; i++ {
		k := 0
		switch pattern {
		case "ramp":
			k = i % len(words)
		case "smooth", "fine", "runs":
			k = i / 10 % len(words)
		case "noise", "bits", "special":
			k = r.IntN(len(words))
		}
		err = w.AddString(words[k])
	}
	if err == nil {
		n, err = w.Done()
	}
	if err != nil {
		panic(err) // the size was computed from the words
	}
	return dst[:n]
}

// room returns the largest size in bytes of n elements of type t.
func room(t dtype.Type, n int) int64 {
	if !t.Fixed() {
		return driver.ValuesSize(n, int64(n)*maxWord)
	}
	return int64(n) * int64(t.Size)
}

// special returns the bits of values of type t that a codec might change by mistake:
// zeros of both signs, NaNs with several payloads, infinities, subnormal and extreme
// numbers, fractions, and integers of more than 32 and 53 bits.
func special(t dtype.Type) []uint64 {
	switch {
	case t.Kind == dtype.Float && t.Size == 4:
		list := []uint64{0x7FC00000, 0x7FC00001, 0xFFC12345, 0x7F800001, 1, 0x807FFFFF, 0x7CF00000}
		for _, v := range []float64{0, math.Copysign(0, -1), 0.5, 271.15, -3.75, 0.001, 1e38, -1e-38, 16777217, math.Inf(1), math.Inf(-1)} {
			list = append(list, uint64(math.Float32bits(float32(v))))
		}
		return list
	case t.Kind == dtype.Float && t.Size == 8:
		list := []uint64{0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8123456789ABC, 0x7FF0000000000001, 1, 0x800FFFFFFFFFFFFF, 0x479E000000000000}
		for _, v := range []float64{0, math.Copysign(0, -1), 0.5, 271.15, -3.75, 0.001, 1e300, -1e-300, 1<<53 + 2, math.Pi, math.Inf(1), math.Inf(-1)} {
			list = append(list, math.Float64bits(v))
		}
		return list
	}
	list := []uint64{0, 1, math.MaxUint64, 1 << 63, math.MaxInt64, 3_000_000_000, 9_007_199_254_740_993, 0x80, 0x8000, 0x7FFF, 0x80000000, 0x0102030405060708}
	return append(list, 0x81, 0x8001, 0x80000001, 0x8000000000000002, math.MaxUint64-1) // default fill values of netCDF
}

// data returns n elements of type t.
func data(t dtype.Type, n int, pattern string, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	if !t.Fixed() {
		return values(n, pattern, r)
	}
	b := make([]byte, n*t.Size)
	switch {
	case pattern == "runs":
		return runs(t, b, r)
	case pattern == "signs" && n > 0 && t.Kind != dtype.Bool:
		top := n / 2 * t.Size
		switch text := t.Kind == dtype.Unicode; {
		case text && t.Order != dtype.Big: // the low byte of the last character, because not every number is a character
			top += t.Size - 4
		case text || t.Order != dtype.Big:
			top += t.Size - 1
		}
		b[top] = 0x80
		return b
	}
	if t.Kind != dtype.Bool && (pattern == "bits" || pattern == "special") {
		list := special(t)
		for i := range n {
			v := r.Uint64()
			if pattern == "special" {
				v = list[r.IntN(len(list))]
			}
			putBits(t, b[i*t.Size:][:t.Size], v)
		}
		return b
	}
	switch pattern {
	case "ramp":
		const period = 100
		for i := range min(n, period) {
			put(t, b[i*t.Size:][:t.Size], int64(i))
		}
		repeat(b, period*t.Size)
	case "smooth", "fine":
		for i := range n {
			v := 50 + 40*math.Sin(float64(i)/50) + 3*r.Float64()
			if pattern == "fine" && t.Kind == dtype.Float {
				t.PutFloat(b[i*t.Size:], v)
			} else {
				put(t, b[i*t.Size:][:t.Size], int64(v))
			}
		}
	case "noise", "bits", "special":
		for i := range n {
			put(t, b[i*t.Size:][:t.Size], r.Int64()>>(64-min(8*t.Size, 20)))
		}
	}
	return b
}

// repeat fills b with copies of its first n bytes.
func repeat(b []byte, n int) {
	for n < len(b) {
		n += copy(b[n:], b[:n])
	}
}

// runs fills b with runs of up to 24 equal elements and repeats them every megabyte.
func runs(t dtype.Type, b []byte, r *rand.Rand) []byte {
	part := b[:min(len(b), 1<<20/t.Size*t.Size)]
	for at := 0; at < len(part); {
		v := r.Uint64()
		if t.Kind == dtype.Bool {
			v &= 1
		}
		for end := min(at+(1+r.IntN(24))*t.Size, len(part)); at < end; at += t.Size {
			putBits(t, part[at:at+t.Size], v)
		}
	}
	repeat(b, len(part))
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
	putBits(t, b, bits)
}

// putBits writes bits as one element, truncated if the element is shorter and repeated
// if it is longer.
func putBits(t dtype.Type, b []byte, bits uint64) {
	var order binary.ByteOrder = binary.LittleEndian
	if t.Order == dtype.Big {
		order = binary.BigEndian
	}
	switch len(b) {
	case 1:
		b[0] = byte(bits)
	case 2:
		order.PutUint16(b, uint16(bits))
	case 4:
		order.PutUint32(b, uint32(bits))
	case 8:
		order.PutUint64(b, bits)
	default:
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], bits)
		for n := copy(b, word[:]); n < len(b); n += copy(b[n:], word[:]) {
		}
		if t.Order == dtype.Big {
			slices.Reverse(b)
		}
	}
}

// encode encodes src into a buffer of the promised size. It fails the check on an error.
func (c *opened) encode(t conformance.T, src []byte) []byte {
	enc, err := c.tryEncode(t, src)
	if err != nil {
		t.Fatalf("encode %d bytes of %v with %s: %v", len(src), c.in.DType, c.params, err)
	}
	return enc
}

// tryEncode is like encode but returns the error from Encode.
func (c *opened) tryEncode(t conformance.T, src []byte) ([]byte, error) {
	t.Step("encode", strconv.Itoa(len(src)), "bytes of", c.in.DType.String(), "with", string(c.params))
	dst, whole := guarded(int(c.out.MaxBytes))
	n, err := c.safeEncode(t.Context(), dst, src)
	if !whole() {
		t.Errorf("encode writes outside its output buffer")
	}
	if err != nil {
		return nil, err
	}
	if n < 0 || n > len(dst) {
		t.Fatalf("encode returns a length of %d bytes for a buffer of %d", n, len(dst))
	}
	return dst[:n], nil
}

// encodeAgain encodes src into a buffer filled with different bytes. The result must be
// enc.
func (c *opened) encodeAgain(t conformance.T, src, enc []byte) {
	dst := bytes.Repeat([]byte{^byte(canary)}, int(c.out.MaxBytes))
	n, err := c.Encode(t.Context(), dst, src)
	if err != nil {
		t.Errorf("encode %s with %s again: %v", describeSpec(c.in), c.params, err)
	} else if got := dst[:max(0, min(n, len(dst)))]; n != len(enc) || !bytes.Equal(enc, got) {
		t.Errorf("encode %s with %s depends on the previous content of the buffer: %s", describeSpec(c.in), c.params, describeDifference(enc, got))
	}
}
