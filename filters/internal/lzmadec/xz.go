package lzmadec

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/crc64"
	"math"
)

// The filters of xz that this package decodes.
const (
	FilterDelta = 3
	FilterLZMA1 = 0x4000_0000_0000_0001
	FilterLZMA2 = 0x21
)

var (
	magic = []byte{0xFD, '7', 'z', 'X', 'Z', 0}
	ecma  = crc64.MakeTable(crc64.ECMA)
)

// FilterName returns the name of an xz filter that this package does not decode, or "".
func FilterName(id uint64) string {
	// BCJ filters convert relative addresses in machine code to absolute ones.
	names := [...]string{4: "BCJ x86", "BCJ PowerPC", "BCJ IA-64", "BCJ ARM", "BCJ ARM-Thumb", "BCJ SPARC", "BCJ ARM64", "BCJ RISC-V"}
	if id >= uint64(len(names)) {
		return ""
	}
	return names[id]
}

// checkSize holds the size in bytes of each kind of check.
var checkSize = [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}

// IsXZ reports whether src starts like an xz stream.
func IsXZ(src []byte) bool { return bytes.HasPrefix(src, magic) }

// XZ decodes one or more streams of the container and verifies their checks.
func XZ(ctx context.Context, dst, src []byte) (int, error) {
	at := 0
	for first := true; first || len(src) > 0; first = false {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if !first && bytes.HasPrefix(src, make([]byte, 4)) {
			src = src[4:] // padding between streams
			continue
		}
		n, used, err := stream(ctx, dst[at:], src)
		if err != nil {
			return 0, err
		}
		at += n
		src = src[used:]
	}
	return at, nil
}

func crcOK(b []byte, want []byte) bool {
	return crc32.ChecksumIEEE(b) == binary.LittleEndian.Uint32(want)
}

// stream decodes one stream: header, blocks, index, footer.
func stream(ctx context.Context, dst, src []byte) (n, used int, err error) {
	const head, foot = 12, 12
	if len(src) < head+foot || !IsXZ(src) || src[6] != 0 || src[7] > 15 || !crcOK(src[6:8], src[8:]) {
		return 0, 0, ErrCorrupt
	}
	kind := src[7]
	ip := head
	var seen records
	for ip < len(src) && src[ip] != 0 {
		k, unpadded, err := block(ctx, dst[n:], src[ip:], kind)
		if err != nil {
			return 0, 0, err
		}
		seen.add(uint64(unpadded), uint64(k))
		n += k
		ip += (unpadded + 3) &^ 3 // checks are multiples of 4 bytes, so they do not change the padding
	}
	size, err := index(src[ip:], seen)
	if err != nil {
		return 0, 0, err
	}
	ip += size
	if len(src)-ip < foot {
		return 0, 0, ErrCorrupt
	}
	f := src[ip : ip+foot]
	if f[10] != 'Y' || f[11] != 'Z' || f[8] != 0 || f[9] != kind || !crcOK(f[4:10], f) || int64(binary.LittleEndian.Uint32(f[4:])+1)*4 != int64(size) {
		return 0, 0, ErrCorrupt
	}
	return n, ip + foot, nil
}

// records summarizes the sizes of the blocks of a stream by their number and a checksum,
// because a stream may have many blocks.
type records struct{ n, sum uint64 }

// add adds a block's length without padding and its decoded size.
func (r *records) add(unpadded, size uint64) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], unpadded)
	binary.LittleEndian.PutUint64(b[8:], size)
	r.n++
	r.sum = crc64.Update(r.sum, ecma, b[:])
}

// index reads the index, whose records must match the blocks, and returns its
// length.
func index(src []byte, want records) (int, error) {
	if len(src) == 0 {
		return 0, ErrCorrupt
	}
	n, rest, err := number(src[1:])
	if err != nil || n != want.n {
		return 0, ErrCorrupt
	}
	var got records
	for range n {
		var unpadded, size uint64
		if unpadded, rest, err = number(rest); err == nil {
			size, rest, err = number(rest)
		}
		if err != nil {
			return 0, err
		}
		got.add(unpadded, size)
	}
	at := len(src) - len(rest)
	end := (at + 3) &^ 3
	if got != want || len(src)-end < 4 || len(bytes.Trim(src[at:end], "\x00")) > 0 || !crcOK(src[:end], src[end:]) {
		return 0, ErrCorrupt
	}
	return end + 4, nil
}

// number reads a variable-length integer and returns the bytes after it.
func number(src []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(src)
	if n <= 0 || n > 9 {
		return 0, nil, ErrCorrupt
	}
	return v, src[n:], nil
}

// block decodes one block. It returns the length of the output, and the length of the input
// without the padding between the data and the check.
func block(ctx context.Context, dst, src []byte, check byte) (n, unpadded int, err error) {
	head := (int(src[0]) + 1) * 4
	if len(src) < head || !crcOK(src[:head-4], src[head-4:]) {
		return 0, 0, ErrCorrupt
	}
	h, err := readHead(src[1 : head-4])
	if err != nil {
		return 0, 0, err
	}
	n, packed, err := LZMA2(ctx, dst, src[head:])
	if err != nil {
		return 0, 0, err
	}
	if h.packed != unknownSize && h.packed != uint64(packed) || h.size != unknownSize && h.size != uint64(n) {
		return 0, 0, ErrCorrupt
	}
	for _, d := range h.deltas {
		DecodeDelta(dst[:n], d)
	}
	used := head + packed
	for ; used%4 != 0; used++ {
		if used >= len(src) || src[used] != 0 {
			return 0, 0, ErrCorrupt
		}
	}
	size := checkSize[check]
	if len(src)-used < size {
		return 0, 0, ErrCorrupt
	}
	return n, head + packed + size, verify(dst[:n], src[used:used+size], check)
}

// blockHead holds the contents of a block header.
type blockHead struct {
	packed, size uint64 // the lengths of input and output, or unknownSize
	deltas       []int  // the distances of delta filters, in decoding order
}

// unknownSize marks an absent size. It is larger than any number of the format.
const unknownSize = math.MaxUint64

// readHead reads the sizes and the filters of a block.
func readHead(b []byte) (h blockHead, err error) {
	if len(b) == 0 || b[0]&0x3C != 0 {
		return h, ErrCorrupt
	}
	flags := b[0]
	b = b[1:]
	h.packed, h.size = unknownSize, unknownSize
	if flags&0x40 != 0 {
		if h.packed, b, err = number(b); err != nil {
			return h, err
		}
	}
	if flags&0x80 != 0 {
		if h.size, b, err = number(b); err != nil {
			return h, err
		}
	}
	h.deltas, err = readFilters(b, int(flags&3))
	return h, err
}

// readFilters reads the left+1 filters of a block. The last one must be LZMA2 and the
// others delta.
func readFilters(h []byte, left int) (deltas []int, err error) {
	for ; left >= 0; left-- {
		id, rest, err := number(h)
		if err != nil {
			return nil, err
		}
		size, rest, err := number(rest)
		if err != nil || size > uint64(len(rest)) {
			return nil, ErrCorrupt
		}
		props := rest[:size]
		h = rest[size:]
		switch {
		case id == FilterLZMA2 && left == 0 && len(props) == 1:
		case id == FilterDelta && left > 0 && len(props) == 1:
			deltas = append([]int{int(props[0]) + 1}, deltas...)
		case id == FilterLZMA2 || id == FilterDelta:
			return nil, ErrCorrupt
		case FilterName(id) != "":
			return nil, fmt.Errorf("the xz filter %s: %w", FilterName(id), ErrUnsupported)
		default:
			return nil, fmt.Errorf("the xz filter %#x: %w", id, ErrUnsupported)
		}
	}
	if len(bytes.Trim(h, "\x00")) > 0 {
		return nil, ErrCorrupt // the padding of the header must be zero
	}
	return deltas, nil
}

// verify checks the checksum of a block. It skips unknown kinds of checks, as the format
// allows.
func verify(data, sum []byte, kind byte) error {
	ok := true
	switch kind {
	case 1:
		ok = crcOK(data, sum)
	case 4:
		ok = crc64.Checksum(data, ecma) == binary.LittleEndian.Uint64(sum)
	case 10:
		got := sha256.Sum256(data)
		ok = bytes.Equal(got[:], sum)
	}
	if !ok {
		return ErrCorrupt
	}
	return nil
}
