package zip

import (
	"bytes"
	"context"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// maxDirectory is the maximum size of the central directory in bytes, enough for
// several million members.
const maxDirectory = 1 << 30

// tailSize is the number of bytes read in one call from the end of an archive. They
// include the longest possible archive comment and, for most archives, the whole
// directory.
const tailSize = 128 << 10

// directory is the central directory of an archive as stored in the file.
type directory struct {
	raw     []byte // concatenated records
	start   int64  // offset of the first record in the file
	base    int64  // number to add to the offsets in the records
	count   uint64 // number of records according to the end record
	wide    bool   // count is exact; otherwise only its low 16 bits are known
	comment []byte // comment of the archive
}

// tail holds the last bytes of an archive.
type tail struct {
	b   []byte
	off int64
}

// at returns n bytes of the tail from position pos of the file, or nil if the tail does
// not contain all of them.
func (t tail) at(pos, n int64) []byte {
	from := pos - t.off
	if from < 0 || n < 0 || from+n > int64(len(t.b)) {
		return nil
	}
	return t.b[from : from+n]
}

// readDirectory finds and reads the central directory of src with one read of the end
// of the archive and, if the directory is longer, one read of the directory.
func readDirectory(ctx context.Context, src *source) (*directory, error) {
	if src.n < lenEnd {
		return nil, notZip("a file of %d bytes is too short", src.n)
	}
	n := min(src.n, tailSize)
	t := tail{b: make([]byte, n), off: src.n - n}
	if _, err := src.readAt(ctx, t.b, t.off); err != nil {
		return nil, err
	}
	end := bytes.LastIndex(t.b, []byte{'P', 'K', 5, 6})
	if end < 0 || len(t.b)-end < lenEnd {
		return nil, notZip("no end record in the last %d of %d bytes; is the file truncated?", len(t.b), src.n)
	}
	d := &directory{}
	size, offset, endPos, err := d.readEnd(ctx, src, t, end)
	if err != nil {
		return nil, err
	}
	if err := d.place(ctx, src, t, size, offset, endPos); err != nil {
		return nil, err
	}
	return d, nil
}

// readEnd parses the end record at t.b[end:], and the zip64 end record if one exists.
// It returns the size and offset of the directory and the position after it.
func (d *directory) readEnd(ctx context.Context, src *source, t tail, end int) (size, offset uint64, endPos int64, err error) {
	b := t.b[end:]
	n := int(le.Uint16(b[20:]))
	if lenEnd+n > len(b) {
		return 0, 0, 0, notZip("the archive comment is truncated")
	}
	d.comment = bytes.Clone(b[lenEnd : lenEnd+n])
	endPos = t.off + int64(end)
	d.count = uint64(le.Uint16(b[10:]))
	size, offset = uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:]))
	if d.count == max16 || size == max32 || offset == max32 {
		b64, pos, err := findEnd64(ctx, src, t, endPos)
		if err != nil {
			return 0, 0, 0, err
		}
		if b64 != nil {
			d.count, d.wide = le.Uint64(b64[32:]), true
			size, offset = le.Uint64(b64[40:]), le.Uint64(b64[48:])
			if le.Uint32(b64[16:]) != 0 || le.Uint32(b64[20:]) != 0 {
				return 0, 0, 0, errSplit()
			}
			return size, offset, pos, nil
		}
	}
	if le.Uint16(b[4:]) != 0 || le.Uint16(b[6:]) != 0 {
		return 0, 0, 0, errSplit()
	}
	return size, offset, endPos, nil
}

func errSplit() error {
	return ncerr.Errorf(ncerr.ErrUnsupported, "open", "", "the archive is split over several files")
}

// findEnd64 returns the zip64 end record to which the locator before the end record
// points, and its position. If the archive has a preamble, the zip64 end record is
// directly before the locator instead. Without a locator, findEnd64 returns nil.
func findEnd64(ctx context.Context, src *source, t tail, endPos int64) ([]byte, int64, error) {
	locPos := endPos - lenLocator
	loc, err := readPart(ctx, src, t, locPos, lenLocator)
	if err != nil || loc == nil || le.Uint32(loc) != sigLocator {
		return nil, 0, err
	}
	named := le.Uint64(loc[8:])
	for _, pos := range []int64{int64(min(named, 1<<62)), locPos - lenEnd64} {
		if pos > locPos-lenEnd64 {
			continue
		}
		b, err := readPart(ctx, src, t, pos, lenEnd64)
		if err != nil {
			return nil, 0, err
		}
		if b != nil && le.Uint32(b) == sigEnd64 {
			return b, pos, nil
		}
	}
	return nil, 0, notZip("the zip64 end record is missing")
}

// readPart returns n bytes at pos, from the tail if possible. It returns nil for a
// negative position.
func readPart(ctx context.Context, src *source, t tail, pos, n int64) ([]byte, error) {
	if pos < 0 {
		return nil, nil
	}
	if b := t.at(pos, n); b != nil {
		return b, nil
	}
	b := make([]byte, n)
	_, err := src.readAt(ctx, b, pos)
	return b, err
}

// place checks the position of the directory and reads it. The directory ends where the
// end record starts. If its start then differs from the stated one, the archive has a
// preamble, which shifts every offset.
func (d *directory) place(ctx context.Context, src *source, t tail, size, offset uint64, endPos int64) error {
	if size > uint64(endPos) || offset > uint64(endPos)-size {
		return notZip("a directory of %d bytes at %d does not fit before position %d", size, offset, endPos)
	}
	n := int64(size)
	if n > maxDirectory {
		return ncerr.Errorf(ncerr.ErrLimit, "open", "", "the directory of the archive has %d bytes, more than the limit of %d", n, maxDirectory)
	}
	if d.wide && d.count > size/lenCentral || !d.wide && d.count*lenCentral > size {
		return notZip("%d members do not fit in a directory of %d bytes", d.count, size)
	}
	d.start = endPos - n
	d.base = d.start - int64(offset)
	if err := d.load(ctx, src, t, n); err != nil {
		return err
	}
	if d.base > 0 && n >= 4 && le.Uint32(d.raw) != sigCentral {
		d.start, d.base = int64(offset), 0
		return d.load(ctx, src, t, n)
	}
	return nil
}

func (d *directory) load(ctx context.Context, src *source, t tail, n int64) error {
	raw, err := readPart(ctx, src, t, d.start, n)
	if err != nil {
		return err
	}
	d.raw = raw
	if cap(raw) > len(raw) { // raw is part of the tail: release the rest
		d.raw = bytes.Clone(raw)
	}
	return nil
}
