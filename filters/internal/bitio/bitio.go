// Package bitio writes bits, the highest first, as the encoders of bzip2 and of
// szip's Rice codes do. It imports the standard library only; the packages
// beside it call it.
package bitio

import "errors"

// ErrShort is the error for output that does not fit.
var ErrShort = errors.New("the output does not fit")

// Writer writes bits into a slice, and counts none that has no room. It is for
// one goroutine.
type Writer struct {
	dst   []byte
	at    int
	acc   uint64
	have  uint
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
	for w.have >= 8 {
		w.have -= 8
		if w.at == len(w.dst) {
			w.short = true
			continue
		}
		w.dst[w.at] = byte(w.acc >> w.have)
		w.at++
	}
}

// Short reports whether something did not fit.
func (w *Writer) Short() bool { return w.short }

// End fills the last byte with zeros and gives the length in bytes, or
// ErrShort.
func (w *Writer) End() (int, error) {
	if w.have > 0 {
		w.Put(8-w.have, 0)
	}
	if w.short {
		return 0, ErrShort
	}
	return w.at, nil
}
