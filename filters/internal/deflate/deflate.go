// Package deflate encodes zlib and gzip frames for filters/zlib, filters/gzip and
// filters/blosc. Package filters/internal/inflate decodes them.
package deflate

import (
	stdgzip "compress/gzip"
	stdzlib "compress/zlib"
	"context"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Format is the frame around the DEFLATE data.
type Format uint8

// The formats. Gzip headers have no name and no time.
const (
	Zlib Format = iota
	Gzip
)

// MaxEncoded returns the largest encoded size of n bytes.
func MaxEncoded(n int64) int64 { return n + n>>10 + 64 }

// Encoder encodes at one level. It is safe for concurrent use.
type Encoder struct {
	format Format
	level  int
	fast   sync.Pool // values of type *stream
	second sync.Pool // values of type *stream with the writers of the standard library
	spare  sync.Pool // values of type *[]byte
}

// New returns an encoder. level is -1 (the default of the library), 0 (stored) or 1
// to 9.
func New(format Format, level int) *Encoder {
	return &Encoder{format: format, level: level}
}

type resetter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// stream writes into a slice of fixed length.
type stream struct {
	w   resetter
	dst []byte
	n   int
}

func (s *stream) Write(p []byte) (int, error) {
	n := copy(s.dst[s.n:], p)
	s.n += n
	if n < len(p) {
		return n, ncerr.ErrShortBuffer
	}
	return n, nil
}

func (s *stream) encode(dst, src []byte) (int, error) {
	s.dst, s.n = dst, 0
	defer func() { s.dst = nil }()
	s.w.Reset(s)
	if g, ok := s.w.(*gzip.Writer); ok {
		g.ModTime = time.Unix(0, 0) // the zero time.Time is not the zero time of the format
	}
	_, err := s.w.Write(src)
	if err == nil {
		err = s.w.Close()
	}
	if err != nil {
		if s.n == len(dst) {
			err = driver.ShortBuffer("", len(dst))
		}
		return 0, err
	}
	return s.n, nil
}

// barelyShrank reports whether the fast encoder reduced at least 256 bytes by at most
// one percent. plain is the size before encoding, and n the size after it. The encoder
// barely shrinks unshuffled floats, although a Huffman code alone can compress their
// skewed distribution of bytes.
func barelyShrank(n, plain int) bool { return plain >= 256 && n >= plain-plain/100 }

// Encode encodes src into dst and returns the length.
func (e *Encoder) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s, ok := e.fast.Get().(*stream)
	if !ok {
		s = new(stream)
		if err := e.make(s); err != nil {
			return 0, err
		}
	}
	n, err := s.encode(dst, src)
	e.fast.Put(s)
	switch {
	case e.level == 0:
		return n, err
	case err != nil && len(src) >= 256 && len(dst) < len(src):
		n = len(dst) + 1 // the second encoder may produce output that fits
	case err != nil || !barelyShrank(n, len(src)):
		return n, err
	}
	m, better := e.encodeSecond(dst, src, n)
	if better == nil {
		return m, nil
	}
	return n, err
}

// encodeSecond tries the standard library's encoder. It stores the result in dst if it
// has fewer than n bytes. Otherwise it leaves dst unchanged and returns an error.
func (e *Encoder) encodeSecond(dst, src []byte, n int) (int, error) {
	s, ok := e.second.Get().(*stream)
	if !ok {
		s = new(stream)
		if err := e.makeSecond(s); err != nil {
			return 0, err
		}
	}
	defer e.second.Put(s)
	spare, ok := e.spare.Get().(*[]byte)
	if !ok {
		spare = new([]byte)
	}
	defer e.spare.Put(spare)
	if cap(*spare) < n {
		*spare = make([]byte, n)
	}
	m, err := s.encode((*spare)[:n-1], src)
	if err != nil {
		return 0, err
	}
	return copy(dst, (*spare)[:m]), nil
}

func (e *Encoder) make(s *stream) (err error) {
	if e.format == Gzip {
		s.w, err = gzip.NewWriterLevel(s, e.level)
	} else {
		s.w, err = zlib.NewWriterLevel(s, e.level)
	}
	return err
}

// makeSecond creates a writer with the lowest level. The gain comes from the Huffman
// code; higher levels only search longer for matches that do not exist.
func (e *Encoder) makeSecond(s *stream) (err error) {
	if e.format == Gzip {
		s.w, err = stdgzip.NewWriterLevel(s, stdgzip.BestSpeed)
	} else {
		s.w, err = stdzlib.NewWriterLevel(s, stdzlib.BestSpeed)
	}
	return err
}
