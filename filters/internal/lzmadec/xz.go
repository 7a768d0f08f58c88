package lzmadec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/crc64"
)

// The filters of xz that are decoded.
const (
	FilterDelta = 3
	FilterLZMA1 = 0x4000_0000_0000_0001
	FilterLZMA2 = 0x21
)

var (
	magic = []byte{0xFD, '7', 'z', 'X', 'Z', 0}
	ecma  = crc64.MakeTable(crc64.ECMA)
)

// FilterName gives the name of a filter that the format knows and this package
// does not decode, or nothing.
func FilterName(id uint64) string {
	// BCJ filters turn the addresses in machine code into absolute ones.
	names := [...]string{4: "BCJ x86", "BCJ PowerPC", "BCJ IA-64", "BCJ ARM", "BCJ ARM-Thumb", "BCJ SPARC", "BCJ ARM64", "BCJ RISC-V"}
	if id >= uint64(len(names)) {
		return ""
	}
	return names[id]
}

// checkSize gives the size of each kind of check.
var checkSize = [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}

// IsXZ reports whether src begins as an xz stream does.
func IsXZ(src []byte) bool { return bytes.HasPrefix(src, magic) }

// XZ decodes one or more streams of the container, and verifies their checks.
func XZ(dst, src []byte) (int, error) {
	at := 0
	for first := true; first || len(src) > 0; first = false {
		if !first && bytes.HasPrefix(src, make([]byte, 4)) {
			src = src[4:] // padding between streams
			continue
		}
		n, used, err := stream(dst[at:], src)
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

// stream decodes one stream: head, blocks, index, foot.
func stream(dst, src []byte) (n, used int, err error) {
	const head, foot = 12, 12
	if len(src) < head+foot || !IsXZ(src) || src[6] != 0 || src[7] > 15 || !crcOK(src[6:8], src[8:]) {
		return 0, 0, ErrCorrupt
	}
	kind := src[7]
	ip, blocks := head, 0
	for ip < len(src) && src[ip] != 0 {
		k, used, err := block(dst[n:], src[ip:], kind)
		if err != nil {
			return 0, 0, err
		}
		n += k
		ip += used
		blocks++
	}
	size, err := index(src[ip:], blocks)
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

// index skips the index and checks the number of its records and its CRC.
func index(src []byte, blocks int) (int, error) {
	if len(src) == 0 {
		return 0, ErrCorrupt
	}
	ip := 1
	n, k := varint(src[ip:])
	if k == 0 || n != uint64(blocks) {
		return 0, ErrCorrupt
	}
	ip += k
	for range 2 * blocks {
		_, k := varint(src[ip:])
		if k == 0 {
			return 0, ErrCorrupt
		}
		ip += k
	}
	ip = (ip + 3) &^ 3
	if len(src)-ip < 4 || !crcOK(src[:ip], src[ip:]) {
		return 0, ErrCorrupt
	}
	return ip + 4, nil
}

// varint reads a number of xz and gives its length, 0 when it is damaged.
func varint(src []byte) (uint64, int) {
	v, n := binary.Uvarint(src)
	if n <= 0 || n > 9 {
		return 0, 0
	}
	return v, n
}

// block decodes one block and gives the lengths of output and input.
func block(dst, src []byte, check byte) (n, used int, err error) {
	head := (int(src[0]) + 1) * 4
	if len(src) < head || !crcOK(src[:head-4], src[head-4:]) {
		return 0, 0, ErrCorrupt
	}
	deltas, err := blockHead(src[1 : head-4])
	if err != nil {
		return 0, 0, err
	}
	n, packed, err := LZMA2(dst, src[head:])
	if err != nil {
		return 0, 0, err
	}
	for _, d := range deltas {
		Undelta(dst[:n], d)
	}
	used = head + packed
	for ; used%4 != 0; used++ {
		if used >= len(src) || src[used] != 0 {
			return 0, 0, ErrCorrupt
		}
	}
	size := checkSize[check]
	if len(src)-used < size {
		return 0, 0, ErrCorrupt
	}
	return n, used + size, verify(dst[:n], src[used:used+size], check)
}

// blockHead reads the filters of a block, of which the last must be LZMA2. It
// gives the distances of delta filters, in the order of decoding.
func blockHead(h []byte) (deltas []int, err error) {
	if len(h) == 0 || h[0]&0x3C != 0 {
		return nil, ErrCorrupt
	}
	flags := h[0]
	h = h[1:]
	for _, bit := range []byte{0x40, 0x80} {
		if flags&bit != 0 {
			_, k := varint(h)
			if k == 0 {
				return nil, ErrCorrupt
			}
			h = h[k:]
		}
	}
	for left := int(flags & 3); left >= 0; left-- {
		id, k := varint(h)
		if k == 0 {
			return nil, ErrCorrupt
		}
		h = h[k:]
		size, k := varint(h)
		if k == 0 || size > uint64(len(h)-k) {
			return nil, ErrCorrupt
		}
		props := h[k : k+int(size)]
		h = h[k+int(size):]
		switch {
		case id == FilterLZMA2 && left == 0 && len(props) == 1:
		case id == FilterDelta && left > 0 && len(props) == 1:
			deltas = append([]int{int(props[0]) + 1}, deltas...)
		case id == FilterLZMA2 || id == FilterDelta:
			return nil, ErrCorrupt
		case FilterName(id) != "":
			return nil, fmt.Errorf("the filter %s: %w", FilterName(id), ErrUnsupported)
		default:
			return nil, fmt.Errorf("the filter %#x: %w", id, ErrUnsupported)
		}
	}
	return deltas, nil
}

// verify compares the check of a block; kinds that are not known are skipped,
// as the format allows.
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
