package zip

import (
	"bufio"
	"context"
	"io"
	"os"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"
)

// copySize is the number of bytes copied at a time.
const copySize = 1 << 20

// Values in the records of new members: made on Unix by version 4.5, a regular file
// that its owner may write and everyone may read, dated 1980-01-01 00:00.
const (
	newMadeBy = 3<<8 | 45
	newAttrs  = 0o100644 << 16
	newStamp  = (1<<5 | 1) << 16
)

// writer writes an archive sequentially to a file.
type writer struct {
	f     *os.File
	w     *bufio.Writer
	off   int64 // position after the last byte written
	dir   []byte
	count uint64
	buf   []byte        // buffer of copySize bytes
	def   *flate.Writer // created when needed
	level int           // compression level of deflate, 0 to store
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.off += int64(n)
	return n, err
}

// copy writes n bytes of r, starting at off.
func (w *writer) copy(ctx context.Context, r reader, off, n int64) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := w.buf[:min(n, copySize)]
		if _, err := r.readAt(ctx, p, off); err != nil {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		off, n = off+int64(len(p)), n-int64(len(p))
	}
	return nil
}

// addRaw writes a member whose data is in r at off, without changing the data.
func (w *writer) addRaw(ctx context.Context, h record, r reader, off int64) error {
	h.offset = w.off
	if _, err := w.Write(localHeader(h, h.csize >= max32 || h.size >= max32)); err != nil {
		return err
	}
	if err := w.copy(ctx, r, off, h.csize); err != nil {
		return err
	}
	w.enter(h)
	return nil
}

// addNew writes a member with the content of c. It deflates the content if the level is
// not 0 and the result is smaller.
func (w *writer) addNew(ctx context.Context, name string, c *change) error {
	h := record{
		name: []byte(name), madeBy: newMadeBy, attrs: newAttrs, stamp: newStamp,
		method: methodStored, crc: c.crc, size: c.size, csize: c.size, offset: w.off,
	}
	if w.level > 0 && c.size > 0 {
		if done, err := w.addDeflated(ctx, h, c); done || err != nil {
			return err
		}
	}
	return w.addRaw(ctx, h, c, 0)
}

// addDeflated writes the member compressed with deflate. If compression does not make the
// member smaller, done is false and the archive is unchanged.
func (w *writer) addDeflated(ctx context.Context, h record, c *change) (done bool, err error) {
	h.method = methodDeflated
	wide := h.size >= max32
	head := int64(len(localHeader(h, wide)))
	if _, err := w.Write(make([]byte, head)); err != nil {
		return false, err
	}
	if w.def == nil {
		if w.def, err = flate.NewWriter(w, w.level); err != nil {
			return false, err
		}
	}
	w.def.Reset(w)
	src := &stream{ctx: ctx, r: c, end: c.size}
	if _, err := io.CopyBuffer(struct{ io.Writer }{w.def}, src, w.buf); err != nil {
		return false, err
	}
	if err := w.def.Close(); err != nil {
		return false, err
	}
	if err := w.w.Flush(); err != nil {
		return false, err
	}
	h.csize = w.off - h.offset - head
	if h.csize >= h.size {
		return false, w.rewind(h.offset)
	}
	if _, err := w.f.WriteAt(localHeader(h, wide), h.offset); err != nil {
		return false, err
	}
	w.enter(h)
	return true, nil
}

// rewind removes everything written at or after off.
func (w *writer) rewind(off int64) error {
	w.off = off
	if err := w.f.Truncate(off); err != nil {
		return err
	}
	_, err := w.f.Seek(off, io.SeekStart)
	return err
}

// enter adds the record of a member to the directory.
func (w *writer) enter(h record) {
	w.dir = appendCentral(w.dir, h)
	w.count++
}

// flagsOf returns the flags of a rewritten member. It clears the flag for a data
// descriptor and sets the UTF-8 flag if the name needs it.
func flagsOf(h record) uint16 {
	const followed = 1 << 3
	flags := h.flags &^ (followed | flagUTF8)
	for _, c := range h.name {
		if c >= utf8.RuneSelf && utf8.Valid(h.name) {
			return flags | flagUTF8
		}
	}
	return flags
}

// versionNeeded returns the version of the format required to read a member.
func versionNeeded(h record, wide bool) uint16 {
	switch {
	case wide:
		return 45
	case h.method == methodStored:
		return 10
	}
	return 20
}

// localHeader returns the local header of h. wide puts the sizes into a zip64 field.
func localHeader(h record, wide bool) []byte {
	csize, size, extra := uint32(h.csize), uint32(h.size), uint16(0)
	if wide {
		csize, size, extra = max32, max32, 20
	}
	b := le.AppendUint32(nil, sigLocal)
	b = le.AppendUint16(b, versionNeeded(h, wide))
	b = le.AppendUint16(b, flagsOf(h))
	b = le.AppendUint16(b, h.method)
	b = le.AppendUint32(b, h.stamp)
	b = le.AppendUint32(b, h.crc)
	b = le.AppendUint32(b, csize)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(h.name)))
	b = le.AppendUint16(b, extra)
	b = append(b, h.name...)
	if wide {
		b = le.AppendUint16(b, extraZip64)
		b = le.AppendUint16(b, 16)
		b = le.AppendUint64(b, uint64(h.size))
		b = le.AppendUint64(b, uint64(h.csize))
	}
	return b
}

// appendCentral appends the directory record of h to b.
func appendCentral(b []byte, h record) []byte {
	var extra []byte
	narrow := func(v int64) uint32 {
		if v < max32 {
			return uint32(v)
		}
		extra = le.AppendUint64(extra, uint64(v))
		return max32
	}
	size := narrow(h.size) // the zip64 field stores size, csize and offset in this order
	csize := narrow(h.csize)
	offset := narrow(h.offset)
	wide := len(extra) > 0
	if wide {
		head := le.AppendUint16(le.AppendUint16(nil, extraZip64), uint16(len(extra)))
		extra = append(head, extra...)
	}
	b = le.AppendUint32(b, sigCentral)
	b = le.AppendUint16(b, h.madeBy)
	b = le.AppendUint16(b, versionNeeded(h, wide))
	b = le.AppendUint16(b, flagsOf(h))
	b = le.AppendUint16(b, h.method)
	b = le.AppendUint32(b, h.stamp)
	b = le.AppendUint32(b, h.crc)
	b = le.AppendUint32(b, csize)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(h.name)))
	b = le.AppendUint16(b, uint16(len(extra)))
	b = le.AppendUint16(b, uint16(len(h.comment)))
	b = le.AppendUint32(b, 0) // disk number and internal attributes
	b = le.AppendUint32(b, h.attrs)
	b = le.AppendUint32(b, offset)
	b = append(b, h.name...)
	b = append(b, extra...)
	return append(b, h.comment...)
}

// endRecords returns the end records of an archive whose directory d ends at position
// end.
func endRecords(d *directory, end int64) (b []byte) {
	size := int64(len(d.raw))
	count, size32, start := uint16(min(d.count, max16)), uint32(min(size, max32)), uint32(min(d.start, max32))
	if count == max16 || size32 == max32 || start == max32 {
		b = le.AppendUint32(b, sigEnd64)
		b = le.AppendUint64(b, lenEnd64-12)
		b = le.AppendUint16(b, newMadeBy)
		b = le.AppendUint16(b, 45)
		b = le.AppendUint64(b, 0) // disk numbers
		b = le.AppendUint64(b, d.count)
		b = le.AppendUint64(b, d.count)
		b = le.AppendUint64(b, uint64(size))
		b = le.AppendUint64(b, uint64(d.start))
		b = le.AppendUint32(b, sigLocator)
		b = le.AppendUint32(b, 0)
		b = le.AppendUint64(b, uint64(end))
		b = le.AppendUint32(b, 1)
	}
	b = le.AppendUint32(b, sigEnd)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, count)
	b = le.AppendUint16(b, count)
	b = le.AppendUint32(b, size32)
	b = le.AppendUint32(b, start)
	b = le.AppendUint16(b, uint16(len(d.comment)))
	return append(b, d.comment...)
}
