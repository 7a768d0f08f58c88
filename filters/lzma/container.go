package lzma

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"hash/crc64"
	"math/bits"

	"github.com/seed-695719ce/nczarr/filters/internal/lzmadec"
)

// The kinds of xz checks.
const (
	checkNone   = 0
	checkCRC32  = 1
	checkCRC64  = 4
	checkSHA256 = 10
)

// container writes src as xz with one block, or without blocks if src is empty. The
// checksum covers plain, which is src before the delta filters.
//
// Source: The .xz File Format 1.2.1, sections 2 to 4.
func (c *Codec) container(ctx context.Context, w *window, src, plain []byte) error {
	kind := byte(checkCRC64)
	if c.params.Check >= 0 {
		kind = byte(c.params.Check)
	}
	flags := []byte{0, kind}
	put := func(b []byte) error { _, err := w.Write(b); return err }
	if err := put(withCRC(append([]byte("\xFD7zXZ\x00"), flags...), 6)); err != nil {
		return err
	}
	index := []byte{0, 0}
	if len(src) > 0 {
		from := w.at
		if err := put(c.blockHead(len(src))); err != nil {
			return err
		}
		z, err := c.writer(w, len(src))
		if err != nil {
			return err
		}
		if err := writeAll(ctx, z, src); err != nil {
			return err
		}
		packed := w.at - from
		if err := put(append(make([]byte, -packed&3), checkOf(plain, kind)...)); err != nil {
			return err
		}
		index[1] = 1
		index = binary.AppendUvarint(index, uint64(packed+len(checkOf(nil, kind))))
		index = binary.AppendUvarint(index, uint64(len(src)))
	}
	index = withCRC(append(index, make([]byte, -len(index)&3)...), 0)
	if err := put(index); err != nil {
		return err
	}
	foot := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	foot = append(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(foot)), foot...)
	return put(append(foot, "YZ"...))
}

// withCRC appends the CRC-32 of b[from:] to b.
func withCRC(b []byte, from int) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[from:]))
}

// blockHead returns the header of the block, with its filters.
func (c *Codec) blockHead(n int) []byte {
	h := []byte{0, byte(len(c.deltas))}
	for _, d := range c.deltas {
		h = append(h, lzmadec.FilterDelta, 1, byte(d-1))
	}
	h = append(h, lzmadec.FilterLZMA2, 1, dictionaryByte(c.dictionary(n)))
	h = append(h, make([]byte, -len(h)&3)...)
	h[0] = byte(len(h) / 4)
	return withCRC(h, 0)
}

// dictionaryByte returns the code of the smallest dictionary size that is at least n.
// Sizes are 2 or 3 times a power of two.
func dictionaryByte(n int) byte {
	const smallest = 12 // bits
	if n <= 1<<smallest {
		return 0
	}
	k := bits.Len(uint(n - 1)) // n is at most 1<<k
	if n <= 3<<(k-2) {
		return byte(2*(k-smallest) - 1)
	}
	return byte(2 * (k - smallest))
}

func checkOf(b []byte, kind byte) []byte {
	switch kind {
	case checkCRC32:
		return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))
	case checkCRC64:
		return binary.LittleEndian.AppendUint64(nil, crc64.Checksum(b, crc64.MakeTable(crc64.ECMA)))
	case checkSHA256:
		sum := sha256.Sum256(b)
		return sum[:]
	}
	return nil
}
