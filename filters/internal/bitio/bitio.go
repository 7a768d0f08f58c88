// Package bitio writes bits, the highest first, as the encoders of bzip2 and of
// szip's Rice codes do. It imports the standard library only; the packages
// beside it call it.
package bitio

import (
	"encoding/binary"
	"errors"
)

// ErrShort is the error for output that does not fit.
var ErrShort = errors.New("the output does not fit")

// Writer writes bits into a slice. It is for one goroutine.
type Writer struct {
	dst   []byte
	at    int
	acc   uint64
	have  uint // bits of acc that are not in dst yet, below 32
	short bool
}

// NewWriter gives a writer that fills dst from its beginning.
func NewWriter(dst []byte) Writer { return Writer{dst: dst} }

// Put writes the low n bits of v, at most 48; the others must be zero.
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
	binary.BigEndian.PutUint32(w.dst[w.at:], uint32(w.acc>>w.have)) // 32 bits are wanted
	w.at += 4
}

// Short reports whether something did not fit; it may be known at End only.
func (w *Writer) Short() bool { return w.short }

// End fills the last byte with zeros and gives the length in bytes, or
// ErrShort.
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
