package blosc

import (
	"context"
	"encoding/binary"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"

	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/kernel"
)

// scratch is reusable memory for encoding or decoding one block at a time.
type scratch struct {
	a, b []byte
	lz4  lz4.CompressorCCompat
	hc   lz4.CompressorHC
	lz   lzTable
}

func (c *Codec) take() *scratch {
	if s, ok := c.pool.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

func grow(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	return (*b)[:n]
}

// Decode decodes one frame. The header describes the frame, so the parameters of the
// codec are not used.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	h, err := parseHeader(src)
	if err != nil {
		return 0, err
	}
	if h.size > len(dst) {
		return 0, filter.Short(dst)
	}
	dst, src = dst[:h.size], src[:h.total]
	if h.copied() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return copy(dst, src[headerSize:]), nil
	}
	s := c.take()
	defer c.pool.Put(s)
	for i := range h.blocks() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		at := i * h.block
		if err := c.block(s, &h, i, dst[at:at+h.blockSize(i)], src); err != nil {
			return 0, err
		}
	}
	return h.size, nil
}

// DecodedSize returns the decoded size in the frame's header.
func (c *Codec) DecodedSize(src []byte) (int64, error) {
	h, err := parseHeader(src)
	return int64(h.size), err
}

// block decodes block i into out, which has the decoded size of the block. Shuffled data
// is decoded into scratch memory, which stays in the CPU cache, and unshuffled from
// there.
func (c *Codec) block(s *scratch, h *header, i int, out, src []byte) error {
	into := out
	if h.shuffled() || h.bitShuffled() {
		into = grow(&s.a, len(out))
	}
	at := int(int32(binary.LittleEndian.Uint32(src[headerSize+4*i:]))) // the format stores signed integers
	if at < headerSize+4*h.blocks() || at > len(src) {
		return filter.Corrupt("block %d has the invalid offset %d", i, at)
	}
	rest, streams := src[at:], h.streams(i)
	size := len(out) / streams
	for k := range streams {
		part := into[k*size : (k+1)*size]
		if k == streams-1 {
			part = into[k*size:]
		}
		if len(rest) < 4 {
			return filter.Corrupt("block %d is truncated", i)
		}
		n := int(int32(binary.LittleEndian.Uint32(rest))) // the format stores signed integers
		rest = rest[4:]
		if n < 0 || n > len(rest) {
			return filter.Corrupt("block %d has a stream of %d bytes, but only %d are left", i, n, len(rest))
		}
		if n == len(part) {
			copy(part, rest[:n])
		} else if err := c.stream(h.format(), part, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	switch {
	case h.shuffled():
		kernel.Unshuffle(out, into, h.typesize)
	case h.bitShuffled():
		kernel.BitUnshuffle(out, into, grow(&s.b, len(out)), h.typesize)
	}
	return nil
}

// stream decodes one stream, which must fill dst exactly.
func (c *Codec) stream(format int, dst, src []byte) error {
	n, err := 0, error(nil)
	switch format {
	case formatBloscLZ:
		return blosclz(dst, src)
	case formatLZ4:
		n, err = lz4.UncompressBlock(src, dst)
	case formatSnappy:
		return snappy(dst, src)
	case formatZlib:
		d := c.inflate.Get()
		n, err = d.Zlib(context.Background(), dst, src)
		c.inflate.Put(d)
	case formatZstd:
		n, err = c.zstd.Decode(dst, src)
	default:
		return filter.Corrupt("unknown inner codec %d", format)
	}
	if err != nil {
		return filter.Corrupt("inner codec: %w", err)
	}
	if n != len(dst) {
		return filter.Corrupt("a stream decodes to %d bytes, not %d", n, len(dst))
	}
	return nil
}

func snappy(dst, src []byte) error {
	n, err := s2.DecodedLen(src)
	if err != nil || n != len(dst) {
		return filter.Corrupt("a stream has a decoded size of %d bytes, not %d", n, len(dst))
	}
	if extended(src) {
		return filter.Corrupt("a copy has distance 0")
	}
	out, err := s2.Decode(dst, src)
	if err != nil {
		return filter.Corrupt("inner codec: %w", err)
	}
	if len(out) > 0 && &out[0] != &dst[0] {
		copy(dst, out)
	}
	return nil
}

// extended reports whether a Snappy stream has a copy of distance 0. Snappy
// does not allow it, but the decoder also accepts S2, in which such a copy repeats the
// previous distance.
func extended(src []byte) bool {
	_, at := binary.Uvarint(src)
	for at >= 0 && at < len(src) {
		tag := int(src[at])
		switch n := tag >> 2; {
		case tag&3 == 1:
			if tag>>5 == 0 && at+1 < len(src) && src[at+1] == 0 {
				return true
			}
			at += 2
		case tag&3 != 0:
			at += [4]int{2: 3, 3: 5}[tag&3]
		case n < 60:
			at += 2 + n
		default: // the next n-59 bytes hold the length minus one
			var b [4]byte
			copy(b[:n-59], src[at+1:])
			at += n - 59 + 2 + int(binary.LittleEndian.Uint32(b[:]))
		}
	}
	return false
}
