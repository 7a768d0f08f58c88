package zip

import (
	"encoding/binary"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Signatures and fixed lengths of the records of a zip archive.
// Source: APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.
const (
	sigLocal   = 0x04034b50
	sigCentral = 0x02014b50
	sigEnd     = 0x06054b50
	sigEnd64   = 0x06064b50
	sigLocator = 0x07064b50
	sigSigned  = 0x05054b50 // digital signature after the directory

	lenLocal   = 30
	lenCentral = 46
	lenEnd     = 22
	lenEnd64   = 56
	lenLocator = 20

	extraZip64 = 1

	methodStored   = 0
	methodDeflated = 8
	methodBzip2    = 12 // supported only for reading

	flagEncrypted = 1 << 0
	flagPatch     = 1 << 5
	flagStrong    = 1 << 6
	flagUTF8      = 1 << 11
	flagMasked    = 1 << 13

	max16 = 0xffff
	max32 = 0xffffffff
)

// maxInflate is the maximum expansion of deflated data, in bytes per byte: a match of
// 258 bytes takes at least two bits.
const maxInflate = 258 * 8 / 2

// maxBunzip is the maximum expansion of bzip2 data: a block of 900,000 bytes, of which
// every five expand to up to 259, takes at least 32 bytes.
const maxBunzip = 900_000 / 5 * 259 / 32

var le = binary.LittleEndian

// corrupt returns an ncerr.ErrCorrupt about the member key, or about the archive if key
// is empty.
func corrupt(op, key, format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, op, key, format, args...)
}

// notZip returns the error for a file that is not a zip archive.
func notZip(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "open", "", "the file is not a zip archive: "+format, args...)
}

// A record holds the entry of one member in the central directory. Its offset is relative
// to the start of the file, including bytes before the archive.
type record struct {
	name    []byte // stored name, including the prefix; aliases the directory
	comment []byte // aliases the directory
	method  uint16
	flags   uint16
	madeBy  uint16
	attrs   uint32 // external attributes
	stamp   uint32 // time in the low half, date in the high half
	crc     uint32
	csize   int64 // compressed size in bytes
	size    int64 // size of the content in bytes
	offset  int64 // offset of the local header
	pos     int   // offset of the record in the directory; set by archive.recordAt
}

// recordLen returns the length of the record at the start of d, or 0 if d does not
// start with a complete record.
func recordLen(d []byte) int {
	if len(d) < lenCentral || le.Uint32(d) != sigCentral {
		return 0
	}
	n := lenCentral + int(le.Uint16(d[28:])) + int(le.Uint16(d[30:])) + int(le.Uint16(d[32:]))
	if n > len(d) {
		return 0
	}
	return n
}

// recordName returns the name in the record at the start of d.
func recordName(d []byte) []byte {
	return d[lenCentral : lenCentral+int(le.Uint16(d[28:]))]
}

// parseRecord parses the record at the start of d, which recordLen has accepted. ok is
// false if its sizes or offset are impossible; the other fields are valid even then.
func parseRecord(d []byte, base int64) (r record, ok bool) {
	n, e, c := int(le.Uint16(d[28:])), int(le.Uint16(d[30:])), int(le.Uint16(d[32:]))
	extra := d[lenCentral+n : lenCentral+n+e]
	r = record{
		name:    d[lenCentral : lenCentral+n],
		comment: d[lenCentral+n+e : lenCentral+n+e+c],
		madeBy:  le.Uint16(d[4:]),
		flags:   le.Uint16(d[8:]),
		method:  le.Uint16(d[10:]),
		stamp:   le.Uint32(d[12:]),
		crc:     le.Uint32(d[16:]),
		attrs:   le.Uint32(d[38:]),
	}
	csize, size, offset := uint64(le.Uint32(d[20:])), uint64(le.Uint32(d[24:])), uint64(le.Uint32(d[42:]))
	if csize == max32 || size == max32 || offset == max32 {
		if csize, size, offset, ok = widen(extra, csize, size, offset); !ok {
			return r, false
		}
	}
	const limit = 1 << 62
	if csize > limit || size > limit || offset > limit {
		return r, false
	}
	r.csize, r.size, r.offset = int64(csize), int64(size), base+int64(offset)
	return r, true
}

// widen replaces each of the three values whose bits are all set by the 64-bit value in
// the zip64 extra field. A missing or short field is accepted for a content size of
// exactly 2^32-1.
func widen(extra []byte, csize, size, offset uint64) (c, s, o uint64, ok bool) {
	wide := findExtra(extra, extraZip64)
	take := func(v uint64) (uint64, bool) {
		if v != max32 {
			return v, true
		}
		if len(wide) < 8 {
			return v, false
		}
		v, wide = le.Uint64(wide), wide[8:]
		return v, true
	}
	absent := wide == nil
	s, ok = take(size)
	if !ok && !absent {
		return 0, 0, 0, false
	}
	if c, ok = take(csize); !ok {
		return 0, 0, 0, false
	}
	o, ok = take(offset)
	return c, s, o, ok
}

// findExtra returns the body of the first extra field with the given id, or nil.
func findExtra(extra []byte, id uint16) []byte {
	for len(extra) >= 4 {
		n := int(le.Uint16(extra[2:]))
		if n > len(extra)-4 {
			return nil
		}
		if le.Uint16(extra) == id {
			return extra[4 : 4+n : 4+n]
		}
		extra = extra[4+n:]
	}
	return nil
}
