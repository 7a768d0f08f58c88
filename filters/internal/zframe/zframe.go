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
	opts  []zstd.EOption
	pool  sync.Pool // of *zstd.Encoder
	small sync.Pool // of *zstd.Encoder, for less than smallContent bytes
}

// smallContent is the size from which a frame that is not one segment states
// the size of its content. Decoders of other implementations need it.
//
// Source: RFC 8878, section 3.1.1.1.1, Frame_Content_Size_flag.
const smallContent = 256

// NewEncoder makes an encoder for a level of the reference implementation.
func NewEncoder(level int, checksum, entropy bool) (*Encoder, error) {
	e := &Encoder{opts: []zstd.EOption{
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(checksum),
		zstd.WithZeroFrames(true),
		zstd.WithAllLitEntropyCompression(entropy || level >= 6),
	}}
	first, err := zstd.NewWriter(nil, e.opts...)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInvalid, "", "", err)
	}
	e.pool.Put(first)
	return e, nil
}

// Encode writes one frame to dst.
func (e *Encoder) Encode(dst, src []byte) (int, error) {
	pool, small := &e.pool, len(src) < smallContent
	if small {
		pool = &e.small
	}
	w, ok := pool.Get().(*zstd.Encoder)
	if !ok {
		var err error
		opts := e.opts
		if small {
			opts = append(opts[:len(opts):len(opts)], zstd.WithSingleSegment(true))
		}
		if w, err = zstd.NewWriter(nil, opts...); err != nil {
			return 0, ncerr.New(ncerr.ErrInternal, "", "", err)
		}
	}
	defer pool.Put(w)
	out := w.EncodeAll(src, dst[:0:len(dst)])
	return settle(dst, out)
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
