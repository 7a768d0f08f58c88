// Package zframe encodes and decodes Zstandard frames from one buffer into
// another. It stands below filters/zstd and filters/blosc.
package zframe

import (
	"errors"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/zstdenc"
)

// MaxEncoded is the largest size in bytes of n bytes encoded.
func MaxEncoded(n int64) int64 { return n + n>>8 + 128 }

// ErrNoSize says that a frame does not state the size of its content.
var ErrNoSize = errors.New("the frame does not state its size")

// Size gives the size that the first frame of src states.
func Size(src []byte) (int64, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "%w", err)
	}
	switch {
	case !h.HasFCS:
		return 0, ErrNoSize
	case h.FrameContentSize > math.MaxInt64:
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the frame claims %d bytes", h.FrameContentSize)
	}
	return int64(h.FrameContentSize), nil
}

// Encoder makes frames. It is safe for concurrent use.
type Encoder struct {
	level    int
	checksum bool
	pools    [large + 1]sync.Pool // of appender, by the class of the content
}

// appender appends src as one frame to dst. It is for one goroutine.
type appender interface {
	Append(dst, src []byte) []byte
}

// library is the encoder of klauspost/compress.
type library struct{ *zstd.Encoder }

func (l library) Append(dst, src []byte) []byte { return l.EncodeAll(src, dst) }

// class groups contents by their size, since encoders for them differ.
type class int

const (
	tiny class = iota
	small
	large
)

const (
	// maxTiny is the largest content in bytes of which a frame would not state
	// the size unless it is one segment. Decoders of other implementations
	// need it.
	//
	// Source: RFC 8878, section 3.1.1.1.1, Frame_Content_Size_flag.
	maxTiny = 255
	// maxSmall is the largest content in bytes for which the reference
	// implementation takes stronger parameters at levels 2 and 3.
	maxSmall = 256 << 10
)

// own reports whether a class is encoded by zstdenc. From level 4 to 9, all
// are.
func (e *Encoder) own(c class) bool {
	return e.level == 3 && c != large || 4 <= e.level && e.level <= zstdenc.Highest
}

func (e *Encoder) classOf(n int) class {
	switch {
	case e.own(large): // and so are the others
		return large
	case n <= maxTiny:
		return tiny
	case n <= maxSmall:
		return small
	}
	return large
}

// NewEncoder makes an encoder for a level of the reference implementation.
func NewEncoder(level int, checksum bool) (*Encoder, error) {
	e := &Encoder{level: level, checksum: checksum}
	first, err := e.appender(large)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInvalid, "", "", err)
	}
	e.pools[large].Put(first)
	return e, nil
}

// appender makes an encoder whose sizes come close to those of the reference
// implementation at half of its speed or more, as
// docs/explanation/performance.md has them. From level 4 to 9, and at level 3
// for small contents, the library has none that makes rounded floats as small.
//
// Literals are entropy-coded even in blocks without matches, for that is what
// noise behind a shuffle is. The reference implementation does so from level 1
// on, and codes no literals below 0.
func (e *Encoder) appender(c class) (appender, error) {
	if e.own(c) {
		return zstdenc.New(e.level, e.checksum), nil
	}
	level := zstd.SpeedBestCompression
	switch {
	case e.level < 2 || e.level == 2 && c == large:
		level = zstd.SpeedFastest
	case e.level < 4:
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
	return settle(dst, a.Append(dst[:0:len(dst)], src))
}

// settle puts an output that may have been moved to other memory into dst.
func settle(dst, out []byte) (int, error) {
	if len(out) > len(dst) {
		return 0, driver.ShortBuffer("", len(dst))
	}
	if len(out) > 0 && &out[0] != &dst[0] {
		copy(dst, out)
	}
	return len(out), nil
}

// Decoder decodes frames. The zero Decoder is ready. It is safe for
// concurrent use.
type Decoder struct{ pool sync.Pool } // of *zstd.Decoder

// maxWindow is the largest window in bytes that is accepted. None is
// allocated; it also bounds frames that are one segment.
const maxWindow = 2 << 30

// Decode decodes all frames of src into dst. No memory in proportion to what
// a frame claims is taken: output goes to dst and nowhere else.
func (d *Decoder) Decode(dst, src []byte) (int, error) {
	if len(src) == 0 {
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "no frame")
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
	return settle(dst, out)
}
