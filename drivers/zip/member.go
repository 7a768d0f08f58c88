package zip

import (
	"bufio"
	"compress/bzip2"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// joinMax is the longest member of a remote archive that is read in one
// request together with its local header, in bytes.
const joinMax = 4 << 20

// get reads an object of the archive, as driver.Map.Get says.
func (a *archive) get(ctx context.Context, p *pools, entry int, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	r, ok := a.record(entry)
	if !ok {
		return nil, driver.Info{}, badRecord("get", key)
	}
	info := a.infoOf(entry, r)
	off, n, err := resolveRange(key, opts, info)
	if err != nil {
		return nil, info, err
	}
	if err := a.check(r, "get", key); err != nil {
		return nil, info, err
	}
	from, start, err := a.locate(ctx, p, entry, r, key)
	if err != nil {
		return nil, info, ncerr.Wrap("get", key, err)
	}
	dst, err := alloc(n)
	if err != nil {
		return nil, info, err
	}
	if r.method == methodStored {
		n, err := from.readAt(ctx, dst, start+off)
		if err == nil && int64(n) == r.size {
			err = checkSum("get", key, crc32.ChecksumIEEE(dst), r.crc)
		}
		return dst[:n], info, ncerr.Wrap("get", key, err)
	}
	got, err := p.inflate(&stream{ctx: ctx, r: from, off: start, end: start + r.csize}, dst, off, r, key, a.src.remote())
	return dst[:got], info, ncerr.Wrap("get", key, err)
}

// want gives the part of an object that opts ask for and holds it against the
// version and the limit.
func resolveRange(key string, opts *driver.GetOptions, info driver.Info) (off, n int64, err error) {
	if opts.IfMatch != "" && opts.IfMatch != info.Version {
		return 0, 0, ncerr.Errorf(ncerr.ErrConflict, "get", key, "version %q, expected %q", info.Version, opts.IfMatch)
	}
	n = info.Size
	if opts.Range != nil {
		if off, n, err = opts.Range.Resolve(info.Size); err != nil {
			return 0, 0, ncerr.Wrap("get", key, err)
		}
	}
	if opts.Limit > 0 && n > opts.Limit {
		return 0, 0, ncerr.Errorf(ncerr.ErrLimit, "get", key, "%d bytes, the limit is %d", n, opts.Limit)
	}
	return off, n, nil
}

func checkSum(op, key string, got, want uint32) error {
	if got != want {
		return corrupt(op, key, "checksum %08x, the archive says %08x", got, want)
	}
	return nil
}

// check refuses members that cannot be read and those whose record cannot be
// true, before any memory is taken for them.
func (a *archive) check(r record, op, key string) error {
	if r.flags&(flagEncrypted|flagStrong|flagMasked) != 0 {
		return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "the member is encrypted")
	}
	if r.flags&flagPatch != 0 || r.method != methodStored && r.method != methodDeflated && r.method != methodBzip2 {
		return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "the member is compressed by method %d; only stored (0), deflated (8) and bzip2 (12) can be read", r.method)
	}
	if err := a.fits(r, op, key); err != nil {
		return err
	}
	if r.method == methodStored && r.size != r.csize {
		return corrupt(op, key, "stored with %d bytes, takes %d", r.size, r.csize)
	}
	if r.method == methodDeflated && r.size > (r.csize+1)*maxInflate {
		return corrupt(op, key, "%d bytes cannot come out of %d", r.size, r.csize)
	}
	if r.method == methodBzip2 && r.size/maxBunzip > r.csize {
		return corrupt(op, key, "%d bytes cannot come out of %d", r.size, r.csize)
	}
	return nil
}

// fits refuses a member that is not wholly in the archive or overlaps another.
func (a *archive) fits(r record, op, key string) error {
	end, ok := a.limit(r)
	if room := end - lenLocal - int64(len(r.name)) - r.offset; !ok || room < 0 || r.csize > room {
		return errMisplaced(op, key)
	}
	return nil
}

func errMisplaced(op, key string) error {
	return corrupt(op, key, "the member does not fit in the archive or overlaps another")
}

// locate verifies the local header of a member that fits, and gives the start
// of its data and what to read it from. A header is read once per entry; entry
// -1 has no memory.
func (a *archive) locate(ctx context.Context, p *pools, entry int, r record, key string) (reader, int64, error) {
	if entry >= 0 {
		if n := a.heads[entry].Load(); n > 0 {
			return a.src, r.offset + int64(n), nil
		}
	}
	end, _ := a.limit(r)
	head := int64(lenLocal + len(r.name))
	ask := head
	if a.src.remote() && head+r.csize <= joinMax {
		ask = min(head+r.csize+256, end-r.offset) // the local extra field is rarely as long as this
	}
	buf := p.scratch(int(ask))
	if _, err := a.src.readAt(ctx, *buf, r.offset); err != nil {
		return nil, 0, err
	}
	n, err := a.verify(*buf, r, end, key)
	if err != nil {
		return nil, 0, err
	}
	if entry >= 0 {
		a.heads[entry].Store(uint32(n))
	}
	if r.csize > 0 && n+r.csize <= ask {
		return window{b: *buf, off: r.offset}, r.offset + n, nil
	}
	p.heads.Put(buf)
	return a.src, r.offset + n, nil
}

// verify compares the local header at the start of b with the record and gives
// its length.
func (a *archive) verify(b []byte, r record, end int64, key string) (int64, error) {
	if le.Uint32(b) != sigLocal {
		return 0, corrupt("get", key, "no member at position %d of the archive", r.offset)
	}
	if int(le.Uint16(b[26:])) != len(r.name) || string(b[lenLocal:lenLocal+len(r.name)]) != string(r.name) {
		return 0, corrupt("get", key, "the member at position %d of the archive has another name", r.offset)
	}
	if le.Uint16(b[8:]) != r.method || (le.Uint16(b[6:])^r.flags)&flagEncrypted != 0 {
		return 0, corrupt("get", key, "directory and member disagree on the method")
	}
	n := int64(lenLocal + len(r.name) + int(le.Uint16(b[28:])))
	if r.csize > end-r.offset-n {
		return 0, errMisplaced("get", key)
	}
	return n, nil
}

// pools keeps what reads take again and again. Made by newPools.
type pools struct {
	heads     sync.Pool // *[]byte
	inflaters sync.Pool // *inflater
}

// scratch gives a slice of n bytes; put it back into heads.
func (p *pools) scratch(n int) *[]byte {
	buf, _ := p.heads.Get().(*[]byte)
	if buf == nil || cap(*buf) < n {
		b := make([]byte, n, max(n, 256))
		return &b
	}
	*buf = (*buf)[:n]
	return buf
}

// inflater is a decoder of compressed data with its buffers.
type inflater struct {
	in    *bufio.Reader
	flate io.ReadCloser
	out   io.Reader // flate, or what decodes another method
	skip  [32 << 10]byte
}

// inflate decodes the member of record r from s. The content from off on goes
// into dst, the rest only into the checksum; content that is longer or shorter
// than the record says is ncerr.ErrCorrupt, and so is a wrong checksum. It
// gives the number of bytes that landed in dst.
func (p *pools) inflate(s *stream, dst []byte, off int64, r record, key string, remote bool) (int, error) {
	z, _ := p.inflaters.Get().(*inflater)
	if z == nil {
		size := 32 << 10
		if remote {
			size = 1 << 20
		}
		z = &inflater{in: bufio.NewReaderSize(nil, size)}
		z.flate = flate.NewReader(z.in)
	}
	defer func() {
		z.in.Reset(nil) // let go of the context
		z.out = nil
		p.inflaters.Put(z)
	}()
	z.in.Reset(s)
	if r.method == methodBzip2 {
		z.out = bzip2.NewReader(z.in)
	} else {
		if err := z.flate.(flate.Resetter).Reset(z.in, nil); err != nil { //nolint:forcetypeassert // promised by package flate
			return 0, err
		}
		z.out = z.flate
	}
	sum, _, err := z.run(s.ctx, 0, nil, off)
	if err != nil {
		return 0, damaged(key, err)
	}
	sum, got, err := z.run(s.ctx, sum, dst, int64(len(dst)))
	if err != nil {
		return got, damaged(key, err)
	}
	rest := r.size - off - int64(len(dst))
	if sum, _, err = z.run(s.ctx, sum, nil, rest); err != nil {
		return got, damaged(key, err)
	}
	switch n, err := io.ReadFull(z.out, z.skip[:1]); {
	case n > 0:
		return got, corrupt("get", key, "compressed data of more than the %d bytes that the archive says", r.size)
	case !errors.Is(err, io.EOF):
		return got, damaged(key, err)
	}
	return got, checkSum("get", key, sum, r.crc)
}

// run decodes n bytes into dst, or nowhere when dst is nil, and carries the
// checksum on. It gives the number of bytes that landed.
func (z *inflater) run(ctx context.Context, sum uint32, dst []byte, n int64) (uint32, int, error) {
	got := 0
	for n > 0 {
		if err := ctx.Err(); err != nil { // the source, of which little may make much, looks too rarely
			return sum, got, err
		}
		into := z.skip[:min(n, int64(len(z.skip)))]
		if dst != nil {
			into = dst[got:min(len(dst), got+len(z.skip))]
		}
		k, err := io.ReadFull(z.out, into)
		sum = crc32.Update(sum, crc32.IEEETable, into[:k])
		n -= int64(k)
		got += k
		if err != nil {
			return sum, got, err
		}
	}
	return sum, got, nil
}

// damaged makes of a failure to decode what it means: what the source said
// comes through, all else is broken data.
func damaged(key string, err error) error {
	var broken flate.CorruptInputError
	var wrong bzip2.StructuralError
	switch {
	case errors.As(err, &broken), errors.As(err, &wrong):
		return corrupt("get", key, "broken compressed data: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return corrupt("get", key, "compressed data end too early")
	}
	return err
}
