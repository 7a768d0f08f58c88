// Package bitio writes bits, the highest first, for the encoders of bzip2 and of szip's
// Rice codes. It imports only the standard library; packages in filters/internal and
// filters/bz2 import it.
package bitio

import (
	"encoding/binary"
	"errors"
)

// ErrShort is the error for output that does not fit.
var ErrShort = errors.New("the output does not fit")

// Writer writes bits into a slice. It is not safe for concurrent use.
type Writer struct {
	dst   []byte
	at    int
	acc   uint64
	have  uint // number of bits of acc that are not in dst yet, below 32
	short bool
}

// NewWriter returns a Writer that fills dst from its start.
func NewWriter(dst []byte) Writer { return Writer{dst: dst} }

// Put writes the low n bits of v. n is at most 48, and the other bits of v must be zero.
func (w *Writer) Put(n uint, v uint64) {
	if n > 32 {
		w.Put(n-32, v>>32)
		n, v = 32, v&(1<<32-1)
	}
	w.acc = w.acc<<n | v
	w.have += n
	if w.have < 32 {
		return
	}
	w.have -= 32
	if len(w.dst)-w.at < 4 {
		w.short = true
		return
	}
	binary.BigEndian.PutUint32(w.dst[w.at:], uint32(w.acc>>w.have)) // truncation to 32 bits is intended
	w.at += 4
}

// Short reports whether some bits did not fit. The result is final only after End.
func (w *Writer) Short() bool { return w.short }

// End pads the last byte with zeros and returns the length in bytes, or ErrShort.
func (w *Writer) End() (int, error) {
	pad := -w.have & 7
	w.acc <<= pad
	for w.have += pad; w.have > 0 && !w.short; {
		if w.at == len(w.dst) {
			w.short = true
			break
		}
		w.have -= 8
		w.dst[w.at] = byte(w.acc >> w.have)
		w.at++
	}
	if w.short {
		return 0, ErrShort
	}
	return w.at, nil
}
