// Package zframe encodes and decodes Zstandard frames from one buffer into another.
// filters/zstd and filters/blosc use it.
package zframe

import (
	"errors"
	"math"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/zstdenc"
)

// MaxEncoded returns the largest encoded size of n bytes.
func MaxEncoded(n int64) int64 { return n + n>>8 + 128 }

// ErrNoSize is the error for a frame that does not state the size of its content.
var ErrNoSize = errors.New("the frame does not state its size")

// Size returns the content size in the header of the first frame of src.
func Size(src []byte) (int64, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "%w", err)
	}
	switch {
	case !h.HasFCS:
		return 0, ErrNoSize
	case h.FrameContentSize > math.MaxInt64:
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "invalid content size of %d bytes", h.FrameContentSize)
	}
	return int64(h.FrameContentSize), nil
}

// Encoder encodes frames. It is safe for concurrent use.
type Encoder struct {
	level    int
	checksum bool
	window   int                  // distance in bytes that the encoder of the library looks back; 0 is its default
	pools    [large + 1]sync.Pool // values of type appender, by the class of the content
}

// appender appends src as one frame to dst. It is not safe for concurrent use.
type appender interface {
	Append(dst, src []byte) []byte
}

// library is the encoder of klauspost/compress.
type library struct{ *zstd.Encoder }

func (l library) Append(dst, src []byte) []byte { return l.EncodeAll(src, dst) }

// class groups contents by size, because different encoders suit them.
type class int

const (
	tiny class = iota
	small
	large
)

const (
	// maxTiny is the largest content in bytes whose size a frame states only if it is a
	// single segment. Decoders of other implementations need the size.
	//
	// Source: RFC 8878, section 3.1.1.1.1, Frame_Content_Size_flag.
	maxTiny = 255
	// maxSmall is the largest content in bytes for which the reference implementation
	// uses stronger parameters at level 2.
	maxSmall = 256 << 10
)

// own reports whether zstdenc encodes all chunks.
func (e *Encoder) own() bool { return zstdenc.Lowest <= e.level && e.level <= zstdenc.Highest }

func (e *Encoder) classOf(n int) class {
	switch {
	case e.own():
		return large
	case n <= maxTiny:
		return tiny
	case n <= maxSmall:
		return small
	}
	return large
}

// NewEncoder returns an encoder for a level of the reference implementation. Contents have
// at most the given number of bytes; 0 means that the maximum is unknown.
func NewEncoder(level int, checksum bool, most int64) (*Encoder, error) {
	e := &Encoder{level: level, checksum: checksum}
	if 0 < most && most < libraryWindow { // the encoder has memory for little more than its window, which it never has to move
		e.window = max(zstd.MinWindowSize, 1<<bits.Len64(uint64(most-1)))
	}
	first, err := e.appender(large)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInvalid, "", "", err)
	}
	e.pools[large].Put(first)
	return e, nil
}

// libraryWindow is the smallest default window of the encoders that the library has for the
// levels in use.
const libraryWindow = 4 << 20

// appender returns an encoder whose output is about as small as that of the reference
// implementation, at half its speed or more; docs/explanation/performance.md has
// measurements. At levels 3 to 9, no level of the library makes rounded floats as small in
// that time.
//
// Literals are entropy-coded even in blocks without matches, because shuffled noise
// consists of such blocks. The reference implementation also encodes literals from level
// 1 on, but stores them at negative levels.
func (e *Encoder) appender(c class) (appender, error) {
	if e.own() {
		return zstdenc.New(e.level, e.checksum), nil
	}
	level := zstd.SpeedBestCompression
	switch {
	case e.level < 2 || e.level == 2 && c == large:
		level = zstd.SpeedFastest
	case e.level == 2:
		level = zstd.SpeedDefault
	}
	opts := []zstd.EOption{
		zstd.WithEncoderLevel(level),
		zstd.WithAllLitEntropyCompression(e.level >= 0),
		zstd.WithNoEntropyCompression(e.level < 0),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(e.checksum),
		zstd.WithZeroFrames(true),
	}
	switch {
	case e.window > 0:
		opts = append(opts, zstd.WithWindowSize(e.window), zstd.WithLowerEncoderMem(true))
	case level == zstd.SpeedDefault:
		opts = append(opts, zstd.WithWindowSize(maxSmall))
	}
	if c == tiny {
		opts = append(opts, zstd.WithSingleSegment(true))
	}
	enc, err := zstd.NewWriter(nil, opts...)
	return library{enc}, err
}

// Encode writes one frame to dst.
func (e *Encoder) Encode(dst, src []byte) (int, error) {
	c := e.classOf(len(src))
	a, ok := e.pools[c].Get().(appender)
	if !ok {
		var err error
		if a, err = e.appender(c); err != nil {
			return 0, ncerr.New(ncerr.ErrInternal, "", "", err)
		}
	}
	defer e.pools[c].Put(a)
	return intoDst(dst, a.Append(dst[:0:len(dst)], src))
}

// intoDst copies out to dst if it is in other memory, and returns its length.
func intoDst(dst, out []byte) (int, error) {
	if len(out) > len(dst) {
		return 0, driver.ShortBuffer("", len(dst))
	}
	if len(out) > 0 && &out[0] != &dst[0] {
		copy(dst, out)
	}
	return len(out), nil
}

// Decoder decodes frames. The zero Decoder is ready. It is safe for concurrent use.
type Decoder struct{ pool sync.Pool } // values of type *zstd.Decoder

// maxWindow is the largest accepted window in bytes. No window is allocated; the limit
// also applies to single-segment frames.
const maxWindow = 2 << 30

// Decode decodes all frames of src into dst. It does not allocate memory in proportion to
// the sizes in the frames, because output goes directly to dst.
func (d *Decoder) Decode(dst, src []byte) (int, error) {
	if len(src) == 0 {
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the input is empty")
	}
	r, ok := d.pool.Get().(*zstd.Decoder)
	if !ok {
		var err error
		r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return 0, ncerr.New(ncerr.ErrInternal, "", "", err)
		}
	}
	defer d.pool.Put(r)
	if dst == nil {
		dst = []byte{}
	}
	out, err := r.DecodeAll(src, dst[:0:len(dst)])
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return 0, driver.ShortBuffer("", len(dst))
	case err != nil:
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "%w", err)
	}
	return intoDst(dst, out)
}
