package driver

import (
	"encoding/binary"
	"math"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Values are the elements of one chunk of variable-length type (dtype.String
// and dtype.VlenBytes), in the one layout in which they travel between steps,
// and between the chain and its caller.
//
// For n elements, the product of the Spec's Shape, in the Spec's Order, the
// bytes are
//
//	offset[0] ... offset[n]   n+1 unsigned integers of 4 bytes, little-endian
//	data                      offset[n] bytes
//
// Element i is data[offset[i]:offset[i+1]]. Offsets start at 0 and never
// fall; data starts right behind the last of them and ends the chunk, so a
// chunk has exactly [ValuesSize] bytes and one form. Elements of dtype.String
// are valid UTF-8 and may hold any character, NUL too; they are not
// terminated. An empty element is a value: there is no null.
//
// In a Spec, DType.Size is 0, MaxBytes is the ceiling of all of this together,
// and Fill is the bytes of one element as they are.
//
// Values alias the bytes they were parsed from, which must not change. They
// are safe for concurrent use.
type Values struct {
	index, data []byte
}

// ValuesSize is the size in bytes of n elements that have data bytes in all.
func ValuesSize(n int, data int64) int64 { return 4*(int64(n)+1) + data }

// ParseValues checks the layout of n elements in b, which is untrusted; it
// does not check that text is UTF-8. Any fault is ncerr.ErrCorrupt.
func ParseValues(b []byte, n int) (Values, error) {
	head := ValuesSize(n, 0)
	if n < 0 || int64(len(b)) < head {
		return Values{}, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "%d bytes hold no offsets of %d values", len(b), n)
	}
	v := Values{b[:head:head], b[head:]}
	before := uint32(0)
	for i := range n + 1 {
		at := binary.LittleEndian.Uint32(v.index[4*i:])
		if at < before || i == 0 && at != 0 {
			return Values{}, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "offset %d of the values is %d after %d", i, at, before)
		}
		before = at
	}
	if int64(before) != int64(len(v.data)) {
		return Values{}, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the values end at %d, their data at %d", before, len(v.data))
	}
	return v, nil
}

// Len is the number of elements.
func (v Values) Len() int { return max(len(v.index)/4-1, 0) }

// At gives element i; its bytes are shared.
func (v Values) At(i int) []byte {
	lo, hi := binary.LittleEndian.Uint32(v.index[4*i:]), binary.LittleEndian.Uint32(v.index[4*i+4:])
	return v.data[lo:hi:hi]
}

// ValuesWriter lays elements out in memory of the caller. Add is called once
// for each element, in order; then Done gives the size. It is used by one
// goroutine at a time.
type ValuesWriter struct {
	dst      []byte
	n, added int
	at       int // in dst, where the next element goes
}

// NewValuesWriter starts n elements in dst. A dst that cannot even hold the
// offsets is ncerr.ErrShortBuffer.
func NewValuesWriter(dst []byte, n int) (*ValuesWriter, error) {
	if n < 0 || int64(len(dst)) < ValuesSize(n, 0) {
		return nil, ShortBuffer("", len(dst))
	}
	clear(dst[:4])
	return &ValuesWriter{dst: dst, n: n, at: 4 * (n + 1)}, nil
}

// Room gives memory of size bytes for the next element, to be filled by the
// caller. Errors: ncerr.ErrShortBuffer when it does not fit in dst, ErrLimit
// beyond 4 GiB of data, ErrCorrupt for more elements than were announced.
func (w *ValuesWriter) Room(size int) ([]byte, error) {
	end := int64(w.at) + int64(size)
	switch {
	case w.added == w.n:
		return nil, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "more than %d values", w.n)
	case size < 0 || end > int64(len(w.dst)):
		return nil, ShortBuffer("", len(w.dst))
	case end-ValuesSize(w.n, 0) > math.MaxUint32:
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "a chunk holds at most 4 GiB of variable-length data")
	}
	room := w.dst[w.at:end:end]
	w.at = int(end)
	w.added++
	binary.LittleEndian.PutUint32(w.dst[4*w.added:], uint32(end-ValuesSize(w.n, 0)))
	return room, nil
}

// Add appends a copy of value, with the errors of Room.
func (w *ValuesWriter) Add(value []byte) error {
	room, err := w.Room(len(value))
	copy(room, value)
	return err
}

// AddString is Add for text, which is not checked.
func (w *ValuesWriter) AddString(value string) error {
	room, err := w.Room(len(value))
	copy(room, value)
	return err
}

// Done gives the number of bytes of dst that were written. Fewer elements
// than were announced are ncerr.ErrCorrupt.
func (w *ValuesWriter) Done() (int, error) {
	if w.added != w.n {
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "%d values, not %d", w.added, w.n)
	}
	return w.at, nil
}

// Elements is the number of elements of a chunk described by s: the product
// of its Shape, 1 for a scalar. A product beyond int is ncerr.ErrLimit.
func (s Spec) Elements() (int, error) {
	n := 1
	for _, k := range s.Shape {
		if k < 0 || k > 0 && n > math.MaxInt/k {
			return 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "chunk shape %v overflows", s.Shape)
		}
		n *= k
	}
	return n, nil
}
