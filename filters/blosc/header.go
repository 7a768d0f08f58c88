package blosc

import (
	"encoding/binary"
	"math"

	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// headerSize is the length of a frame's header in bytes.
const headerSize = 16

// The flags of a frame.
const (
	flagShuffle    = 1 << 0
	flagCopied     = 1 << 1 // the blocks are not compressed
	flagBitShuffle = 1 << 2
	flagReserved   = 1 << 3
	flagWhole      = 1 << 4 // blocks are not split into streams
)

// Formats of the inner codecs, stored in the upper bits of the flags.
const (
	formatBloscLZ = iota
	formatLZ4
	formatSnappy
	formatZlib
	formatZstd
)

// Limits of the format.
const (
	maxSplit   = 16  // largest element of split blocks
	minStream  = 128 // smallest stream of a split block
	maxBytes   = math.MaxInt32 - headerSize
	formatVers = 2
	innerVers  = 1 // format version of every inner codec
)

// header is the header of a frame.
//
// Source: c-blosc 1.21, README_HEADER.
type header struct {
	version, inner byte
	flags          byte
	typesize       int
	size           int // decoded size in bytes
	block          int // decoded size of a block in bytes
	total          int // size of the frame in bytes
}

// parseHeader reads the header of src and checks that its sizes are consistent with
// each other and with the length of src.
func parseHeader(src []byte) (header, error) {
	if len(src) < headerSize {
		return header{}, filter.Corrupt("a frame of %d bytes is too short for a header", len(src))
	}
	num := func(at int) int { return int(int32(binary.LittleEndian.Uint32(src[at:]))) } // the format stores signed integers
	h := header{
		version: src[0], inner: src[1], flags: src[2], typesize: int(src[3]),
		size: num(4), block: num(8), total: num(12),
	}
	switch {
	case h.version != formatVers || h.flags&flagReserved != 0:
		return h, filter.Corrupt("unknown frame version %d with flags %#x", h.version, h.flags)
	case !h.copied() && h.inner != innerVers:
		return h, filter.Corrupt("unknown inner codec version %d", h.inner)
	case h.size < 0 || h.size > maxBytes:
		return h, filter.Corrupt("the decoded size of %d bytes is invalid", h.size)
	case h.total < headerSize || h.total > len(src):
		return h, filter.Corrupt("the frame has %d bytes, but the input has only %d", h.total, len(src))
	case h.typesize == 0:
		return h, filter.Corrupt("the element size is 0")
	case h.size > 0 && (h.block <= 0 || h.block > h.size):
		return h, filter.Corrupt("invalid block size of %d bytes for %d decoded bytes", h.block, h.size)
	case h.copied() && h.total != h.size+headerSize:
		return h, filter.Corrupt("the frame stores %d bytes, but its decoded size is %d", h.total-headerSize, h.size)
	case !h.copied() && h.blocks() > (h.total-headerSize)/4:
		return h, filter.Corrupt("%d blocks do not fit in a frame of %d bytes", h.blocks(), h.total)
	}
	return h, nil
}

func (h *header) put(dst []byte) {
	dst[0], dst[1], dst[2], dst[3] = formatVers, innerVers, h.flags, byte(h.typesize)
	binary.LittleEndian.PutUint32(dst[4:], uint32(h.size))
	binary.LittleEndian.PutUint32(dst[8:], uint32(h.block))
	binary.LittleEndian.PutUint32(dst[12:], uint32(h.total))
}

func (h *header) copied() bool { return h.flags&flagCopied != 0 }
func (h *header) format() int  { return int(h.flags >> 5) }

// blocks returns the number of blocks.
func (h *header) blocks() int {
	if h.size == 0 {
		return 0
	}
	return (h.size-1)/h.block + 1
}

// blockSize returns the decoded size of block i.
func (h *header) blockSize(i int) int { return min(h.block, h.size-i*h.block) }

// streams returns the number of streams of block i.
func (h *header) streams(i int) int {
	if h.flags&flagWhole == 0 && h.typesize <= maxSplit && h.block/h.typesize >= minStream && h.blockSize(i) == h.block {
		return h.typesize
	}
	return 1
}

// shuffled and bitShuffled report whether the blocks are shuffled by bytes or by bits.
func (h *header) shuffled() bool { return h.flags&flagShuffle != 0 && h.typesize > 1 }

func (h *header) bitShuffled() bool { return h.flags&flagBitShuffle != 0 && h.block >= h.typesize }
