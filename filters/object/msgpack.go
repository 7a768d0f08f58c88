package object

import (
	"encoding/binary"
	"math"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// packReader reads MessagePack.
//
// Source: MessagePack specification, 2013-04.
type packReader struct {
	src  []byte
	at   int
	left []int // number of remaining values of each open list
	bad  error
}

func (r *packReader) err() error { return r.bad }

func (r *packReader) fail(format string, args ...any) {
	if r.bad == nil {
		r.bad = filter.Corrupt("at byte %d: "+format, append([]any{r.at}, args...)...)
	}
}

// take returns the next n bytes, or zeros if the input is too short.
func (r *packReader) take(n uint64) []byte {
	if n > uint64(len(r.src)-r.at) {
		r.fail("expected %d bytes, but only %d are left", n, len(r.src)-r.at)
		r.at = len(r.src)
		return make([]byte, min(n, 8))
	}
	b := r.src[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *packReader) uint(n uint64) uint64 {
	b := r.take(n)
	v := uint64(0)
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}

func (r *packReader) list() int {
	n := uint64(0)
	switch c := r.uint(1); {
	case c>>4 == 0x9:
		n = c & 15
	case c == 0xDC:
		n = r.uint(2)
	case c == 0xDD:
		n = r.uint(4)
	default:
		r.fail("expected an array")
	}
	if n > uint64(len(r.src)-r.at) { // a value has at least one byte
		r.fail("an array of %d values does not fit in %d bytes", n, len(r.src)-r.at)
		n = 0
	}
	r.left = append(r.left, int(n))
	return int(n)
}

func (r *packReader) more() bool {
	top := len(r.left) - 1
	if r.bad != nil || top < 0 {
		return false
	}
	if r.left[top] == 0 {
		r.left = r.left[:top]
		return false
	}
	r.left[top]--
	return true
}

func (r *packReader) ended() bool { return len(r.left) == 0 && r.at == len(r.src) }

func (r *packReader) scalar(buf []byte) (value, []byte) {
	c := r.uint(1)
	switch {
	case c < 0x80:
		return value{kind: integer, i: int64(c)}, buf
	case c >= 0xE0:
		return value{kind: integer, i: int64(int8(c))}, buf
	case c>>5 == 0x5:
		return r.text(buf, c&31)
	case c == 0xC2 || c == 0xC3:
		return value{kind: boolean, i: int64(c & 1)}, buf
	case c >= 0xC4 && c <= 0xC6:
		return r.text(buf, r.uint(1<<(c-0xC4)))
	case c >= 0xD9 && c <= 0xDB:
		return r.text(buf, r.uint(1<<(c-0xD9)))
	case c == 0xCA:
		return value{kind: float, f: dtype.Widen(uint32(r.uint(4)))}, buf
	case c == 0xCB:
		return value{kind: float, f: math.Float64frombits(r.uint(8))}, buf
	case c >= 0xCC && c <= 0xCF:
		u := r.uint(1 << (c - 0xCC))
		if u > math.MaxInt64 {
			return value{kind: unsigned, u: u}, buf
		}
		return value{kind: integer, i: int64(u)}, buf
	case c >= 0xD0 && c <= 0xD3:
		n := uint(1) << (c - 0xD0)
		return value{kind: integer, i: int64(r.uint(uint64(n))<<(64-8*n)) >> (64 - 8*n)}, buf
	}
	return value{}, buf // nil, a list, a map, an extension
}

func (r *packReader) text(buf []byte, n uint64) (value, []byte) {
	b := r.take(n)
	if r.bad != nil {
		return value{}, buf
	}
	return value{kind: text}, append(buf, b...)
}

// packWriter writes MessagePack in its shortest forms.
type packWriter struct {
	dst    []byte
	at     int
	old    bool // whether to omit the str8 form, which was added with the bin type
	single bool // whether floats have 32 bits
	full   bool
}

func (w *packWriter) done() (int, bool) { return w.at, !w.full }
func (w *packWriter) end()              {}

func (w *packWriter) bytes(b []byte) {
	if len(b) > len(w.dst)-w.at {
		w.full = true
		return
	}
	w.at += copy(w.dst[w.at:], b)
}

// head writes a format code, and v as a number of n bytes.
func (w *packWriter) head(code byte, v uint64, n int) {
	b := [9]byte{code}
	binary.BigEndian.PutUint64(b[1:], v<<(64-8*uint(n)))
	w.bytes(b[:1+n])
}

func (w *packWriter) list(n int) {
	switch {
	case n < 16:
		w.head(0x90|byte(n), 0, 0)
	case n <= math.MaxUint16:
		w.head(0xDC, uint64(n), 2)
	default:
		w.head(0xDD, uint64(n), 4)
	}
}

func (w *packWriter) text(s []byte) {
	n := uint64(len(s))
	switch {
	case n < 32:
		w.head(0xA0|byte(n), 0, 0)
	case n <= math.MaxUint8 && !w.old:
		w.head(0xD9, n, 1)
	case n <= math.MaxUint16:
		w.head(0xDA, n, 2)
	default:
		w.head(0xDB, n, 4)
	}
	w.bytes(s)
}

func (w *packWriter) number(v value) {
	switch {
	case v.kind == boolean:
		w.head(0xC2+byte(v.i), 0, 0)
	case v.kind == unsigned:
		w.head(0xCF, v.u, 8)
	case v.kind == float && w.single:
		w.head(0xCA, uint64(dtype.Narrow(v.f)), 4)
	case v.kind == float:
		w.head(0xCB, math.Float64bits(v.f), 8)
	case v.i >= -32 && v.i < 128:
		w.head(byte(v.i), 0, 0)
	case v.i > 0:
		w.integer(0xCC, uint64(v.i), uint64(v.i))
	default:
		w.integer(0xD0, uint64(v.i), 2*uint64(^v.i))
	}
}

// integer writes v in the smallest format whose unsigned range includes size. code is the
// format code of an integer of one byte.
func (w *packWriter) integer(code byte, v, size uint64) {
	switch {
	case size <= math.MaxUint8:
		w.head(code, v, 1)
	case size <= math.MaxUint16:
		w.head(code+1, v, 2)
	case size <= math.MaxUint32:
		w.head(code+2, v, 4)
	default:
		w.head(code+3, v, 8)
	}
}
