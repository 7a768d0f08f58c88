package inflate

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"

	"github.com/seed-695719ce/nczarr/filters/internal/kernel"
)

// Any decodes a zlib stream or a gzip file, depending on how src starts.
func (d *Decoder) Any(ctx context.Context, dst, src []byte) (int, error) {
	if len(src) >= 2 && src[0] == 0x1F && src[1] == 0x8B {
		return d.Gzip(ctx, dst, src)
	}
	return d.Zlib(ctx, dst, src)
}

// Zlib decodes a zlib stream, verifies its checksum and returns the length of the output.
// It ignores bytes after the stream.
func (d *Decoder) Zlib(ctx context.Context, dst, src []byte) (int, error) {
	if len(src) < 2 {
		return 0, errTruncated
	}
	head := binary.BigEndian.Uint16(src)
	switch {
	case head>>8&15 != 8 || head>>12 > 7 || head%31 != 0:
		return 0, corrupt("invalid zlib header")
	case head&0x20 != 0:
		return 0, corrupt("preset dictionaries are not supported")
	}
	n, read, err := d.Deflate(ctx, dst, src[2:])
	if err != nil {
		return 0, err
	}
	tail := src[2+read:]
	if len(tail) < 4 {
		return 0, errTruncated
	}
	if want, got := binary.BigEndian.Uint32(tail), kernel.Adler32(dst[:n]); want != got {
		return 0, corrupt("the checksum is %08x, not %08x", got, want)
	}
	return n, nil
}

// Gzip decodes a gzip file of one or more members, verifies their checksums and lengths
// and returns the length of the output. It accepts zero bytes after a member as padding.
func (d *Decoder) Gzip(ctx context.Context, dst, src []byte) (int, error) {
	total := 0
	for {
		head, err := gzipHeader(src)
		if err != nil {
			return 0, err
		}
		n, read, err := d.Deflate(ctx, dst[total:], src[head:])
		if err != nil {
			return 0, err
		}
		out := dst[total : total+n]
		src = src[head+read:]
		if len(src) < 8 {
			return 0, errTruncated
		}
		if want, got := binary.LittleEndian.Uint32(src), crc32.ChecksumIEEE(out); want != got {
			return 0, corrupt("the checksum is %08x, not %08x", got, want)
		}
		if want := binary.LittleEndian.Uint32(src[4:]); want != uint32(n) { // gzip stores the length modulo 2^32
			return 0, corrupt("the length is %d, not %d", n, want)
		}
		src, total = bytes.TrimLeft(src[8:], "\x00"), total+n
		if len(src) == 0 {
			return total, nil
		}
	}
}

// gzipHeader returns the length of the header at the start of src.
func gzipHeader(src []byte) (int, error) {
	if len(src) < 10 {
		return 0, errTruncated
	}
	if src[0] != 0x1F || src[1] != 0x8B || src[2] != 8 {
		return 0, corrupt("invalid gzip header")
	}
	flags, at := src[3], 10
	if flags&4 != 0 { // extra field
		if len(src) < at+2 {
			return 0, errTruncated
		}
		at += 2 + int(binary.LittleEndian.Uint16(src[at:]))
	}
	for _, bit := range [2]byte{8, 16} { // name, comment
		if flags&bit == 0 {
			continue
		}
		if at > len(src) {
			return 0, errTruncated
		}
		end := bytes.IndexByte(src[at:], 0)
		if end < 0 {
			return 0, errTruncated
		}
		at += end + 1
	}
	if flags&2 != 0 { // header checksum
		if len(src) < at+2 {
			return 0, errTruncated
		}
		if binary.LittleEndian.Uint16(src[at:]) != uint16(crc32.ChecksumIEEE(src[:at])) { // the low half is stored
			return 0, corrupt("wrong checksum of the gzip header")
		}
		at += 2
	}
	if at > len(src) {
		return 0, errTruncated
	}
	return at, nil
}
