package blosc

import (
	"context"
	"encoding/binary"

	"github.com/klauspost/compress/s2"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/kernel"
)

// l1 is the unit of block sizes in bytes.
const l1 = 32 << 10

// prefersLargeBlocks reports whether an inner codec compresses better with large
// blocks.
func prefersLargeBlocks(name string) bool { return name == "lz4hc" || name == "zlib" || name == "zstd" }

// blockSize returns the size of blocks in bytes. The size is close to the one in c-blosc
// 1.21, so that the sizes of frames are comparable.
func (p Params) blockSize(typesize, total int) int {
	if total < typesize {
		return 1
	}
	size := total
	if p.BlockSize > 0 {
		size = max(p.BlockSize, minStream)
	} else if total >= l1 {
		size = l1
		if prefersLargeBlocks(p.CName) {
			size *= 2
		}
		size = size * [10]int{1, 2, 4, 8, 16, 16, 32, 32, 32, 32}[p.CLevel] / 4
		if p.CLevel == 9 && prefersLargeBlocks(p.CName) {
			size *= 2
		}
	}
	if p.split(typesize, size) {
		size = min(size, 1<<18) * typesize
		size = min(max(size, 1<<16), 1<<20)
	}
	size = min(size, total)
	if size > typesize {
		size -= size % typesize
	}
	return size
}

// split reports whether each block is encoded as one stream per byte of the element.
func (p Params) split(typesize, block int) bool {
	return p.CName != "zstd" && p.CLevel > 0 && typesize <= maxSplit && block/typesize >= minStream
}

func (p Params) format() byte {
	return map[string]byte{"blosclz": formatBloscLZ, "lz4": formatLZ4, "lz4hc": formatLZ4, "snappy": formatSnappy, "zlib": formatZlib, "zstd": formatZstd}[p.CName]
}

// Encode writes src as one frame. Incompressible data is stored unchanged in a frame of
// len(src)+16 bytes.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(src) > maxBytes {
		return 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "a frame can contain at most %d bytes, got %d", maxBytes, len(src))
	}
	h := header{typesize: c.typesize, size: len(src), flags: c.params.format() << 5}
	h.block = c.params.blockSize(h.typesize, h.size)
	switch c.shuffle {
	case ByteShuffle:
		h.flags |= flagShuffle
	case BitShuffle:
		h.flags |= flagBitShuffle
	}
	if !c.params.split(h.typesize, h.block) {
		h.flags |= flagWhole
	}
	n := 0
	if c.params.CLevel > 0 && len(src) >= minStream {
		room := min(len(dst), len(src)+headerSize-1)
		var err error
		if n, err = c.encodeBlocks(ctx, &h, dst[:room], src); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		h.flags |= flagCopied
		if n = headerSize + len(src); n > len(dst) {
			return 0, filter.Short(dst)
		}
		copy(dst[headerSize:], src)
	}
	h.total = n
	h.put(dst)
	return n, nil
}

// encodeBlocks writes everything after the header and returns the length of the frame, or
// 0 if it does not fit in dst.
func (c *Codec) encodeBlocks(ctx context.Context, h *header, dst, src []byte) (int, error) {
	s := c.take()
	defer c.pool.Put(s)
	at := headerSize + 4*h.blocks()
	if at > len(dst) {
		return 0, nil
	}
	for i := range h.blocks() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		binary.LittleEndian.PutUint32(dst[headerSize+4*i:], uint32(at))
		n, err := c.encodeBlock(s, h, i, dst[at:], src[i*h.block:][:h.blockSize(i)])
		if n == 0 || err != nil {
			return 0, err
		}
		at += n
	}
	return at, nil
}

func (c *Codec) encodeBlock(s *scratch, h *header, i int, dst, src []byte) (int, error) {
	in := src
	switch {
	case h.shuffled():
		in = grow(&s.a, len(src))
		kernel.Shuffle(in, src, h.typesize)
	case h.bitShuffled():
		in = grow(&s.a, len(src))
		kernel.BitShuffle(in, src, grow(&s.b, len(src)), h.typesize)
	}
	at, streams := 0, h.streams(i)
	size := len(in) / streams
	for k := range streams {
		part := in[k*size : (k+1)*size]
		if len(dst)-at < 4 {
			return 0, nil
		}
		room := dst[at+4:]
		n, err := c.encodeStream(s, room[:min(len(room), len(part)-1)], part)
		if err != nil {
			return 0, err
		}
		if n == 0 { // the stream does not get smaller, so it is stored
			if n = len(part); n > len(room) {
				return 0, nil
			}
			copy(room, part)
		}
		binary.LittleEndian.PutUint32(dst[at:], uint32(n))
		at += 4 + n
	}
	return at, nil
}

// encodeStream returns the length of the encoded stream, or 0 if it does not fit in dst.
func (c *Codec) encodeStream(s *scratch, dst, src []byte) (n int, err error) {
	switch c.params.CName {
	case "blosclz":
		n = blosclzEncode(dst, src, &s.lz, c.params.CLevel)
	case "lz4":
		s.lz4.Acceleration = 10 - c.params.CLevel
		n, err = s.lz4.CompressBlock(src, dst)
	case "lz4hc":
		s.hc.Level = 1 << (8 + max(c.params.CLevel, 1))
		n, err = s.hc.CompressBlock(src, dst)
	case "snappy":
		tmp := grow(&s.b, s2.MaxEncodedLen(len(src)))
		if n = len(s2.EncodeSnappy(tmp, src)); n > len(dst) {
			return 0, nil
		}
		copy(dst, tmp[:n])
	case "zlib":
		n, err = c.deflate.Encode(context.Background(), dst, src)
	case "zstd":
		n, err = c.zenc.Encode(dst, src)
	}
	if err != nil {
		return 0, nil //nolint:nilerr // the encoders fail only if the output does not fit
	}
	return n, nil
}
