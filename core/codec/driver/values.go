package driver

import (
	"encoding/binary"
	"math"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Values holds the elements of one chunk of variable-length type (dtype.String or
// dtype.VlenBytes). Its layout is used between steps and between the chain and its
// caller.
//
// The number of elements n is the product of the Spec's Shape, and the elements are
// in the Spec's Order. The bytes are
//
//	offset[0] ... offset[n]   n+1 unsigned integers of 4 bytes, little-endian
//	data                      offset[n] bytes
//
// Element i is data[offset[i]:offset[i+1]]. Offsets start at 0 and never decrease. The
// data follows the last offset immediately and ends the chunk, so a chunk has exactly
// [ValuesSize] bytes and its representation is unique. Elements of dtype.String are valid
// UTF-8, may contain any character including NUL, and have no terminator. Elements may be
// empty, but the layout cannot represent null.
//
// In a Spec for this layout, DType.Size is 0, MaxBytes limits the offsets and the data
// together, and Fill is the bytes of one element.
//
// A Values aliases the bytes that it was parsed from, which must not change. It is
// safe for concurrent use.
type Values struct {
	index, data []byte
}

// ValuesSize returns the size in bytes of the layout of n elements with a total of
// data bytes.
func ValuesSize(n int, data int64) int64 { return 4*(int64(n)+1) + data }

// ParseValues parses the layout of n elements in b, which is untrusted. It returns an
// error of kind ncerr.ErrCorrupt if the layout is invalid. It does not check that strings
// are valid UTF-8.
func ParseValues(b []byte, n int) (Values, error) {
	head := ValuesSize(n, 0)
	if n < 0 || int64(len(b)) < head {
		return Values{}, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "%d bytes are too few for the offsets of %d values", len(b), n)
	}
	v := Values{b[:head:head], b[head:]}
	before := uint32(0)
	for i := range n + 1 {
		at := binary.LittleEndian.Uint32(v.index[4*i:])
		if at < before || i == 0 && at != 0 {
			return Values{}, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "offset %d of the values is %d, less than the previous offset %d", i, at, before)
		}
		before = at
	}
	if int64(before) != int64(len(v.data)) {
		return Values{}, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the last offset of the values is %d, but their data has %d bytes", before, len(v.data))
	}
	return v, nil
}

// Len returns the number of elements.
func (v Values) Len() int { return max(len(v.index)/4-1, 0) }

// At returns element i. The result aliases the bytes of v.
func (v Values) At(i int) []byte {
	lo, hi := binary.LittleEndian.Uint32(v.index[4*i:]), binary.LittleEndian.Uint32(v.index[4*i+4:])
	return v.data[lo:hi:hi]
}

// ValuesWriter writes elements in the layout of [Values] to memory of the caller. The
// caller calls Add or Next once for each element in order, and then Done, which returns
// the size. A ValuesWriter is not safe for concurrent use.
type ValuesWriter struct {
	dst      []byte
	n, added int
	at       int // offset of the next element in dst
}

// NewValuesWriter returns a writer of n elements to dst. It fails with
// ncerr.ErrShortBuffer if dst is too short for the offsets.
func NewValuesWriter(dst []byte, n int) (*ValuesWriter, error) {
	if n < 0 || int64(len(dst)) < ValuesSize(n, 0) {
		return nil, ShortBuffer("", len(dst))
	}
	clear(dst[:4])
	return &ValuesWriter{dst: dst, n: n, at: 4 * (n + 1)}, nil
}

// Next returns memory of size bytes for the next element, which the caller fills. It
// fails with ncerr.ErrShortBuffer if the element does not fit in dst, with
// ncerr.ErrLimit if the data exceeds 4 GiB, and with ncerr.ErrCorrupt after n
// elements.
func (w *ValuesWriter) Next(size int) ([]byte, error) {
	end := int64(w.at) + int64(size)
	switch {
	case w.added == w.n:
		return nil, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the chunk has more than the expected %d values", w.n)
	case size < 0 || end > int64(len(w.dst)):
		return nil, ShortBuffer("", len(w.dst))
	case end-ValuesSize(w.n, 0) > math.MaxUint32:
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "the variable-length data of the chunk exceeds 4 GiB")
	}
	room := w.dst[w.at:end:end]
	w.at = int(end)
	w.added++
	binary.LittleEndian.PutUint32(w.dst[4*w.added:], uint32(end-ValuesSize(w.n, 0)))
	return room, nil
}

// Add appends a copy of value. The errors are the same as for [ValuesWriter.Next].
func (w *ValuesWriter) Add(value []byte) error {
	room, err := w.Next(len(value))
	copy(room, value)
	return err
}

// AddString is like Add for a string. It does not check that value is UTF-8.
func (w *ValuesWriter) AddString(value string) error {
	room, err := w.Next(len(value))
	copy(room, value)
	return err
}

// Done returns the number of bytes written to dst. It fails with ncerr.ErrCorrupt if
// fewer than n elements were added.
func (w *ValuesWriter) Done() (int, error) {
	if w.added != w.n {
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the chunk has %d values, not %d", w.added, w.n)
	}
	return w.at, nil
}

// Elements returns the number of elements of a chunk described by s, which is the
// product of its Shape, or 1 for a scalar. It fails with ncerr.ErrLimit if the
// product overflows an int.
func (s Spec) Elements() (int, error) {
	n := 1
	for _, k := range s.Shape {
		if k < 0 || k > 0 && n > math.MaxInt/k {
			return 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "the number of elements of chunk shape %v overflows int", s.Shape)
		}
		n *= k
	}
	return n, nil
}
