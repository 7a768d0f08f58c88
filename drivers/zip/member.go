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

// get implements driver.Map.Get for an object of the archive.
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
	start, err := a.locate(ctx, p, entry, r, key)
	if err != nil {
		return nil, info, ncerr.Wrap("get", key, err)
	}
	dst, err := alloc(n)
	if err != nil {
		return nil, info, err
	}
	if r.method == methodStored {
		n, err := a.src.readAt(ctx, dst, start+off)
		if err == nil && int64(n) == r.size {
			err = checkSum(key, crc32.ChecksumIEEE(dst), r.crc)
		}
		return dst[:n], info, ncerr.Wrap("get", key, err)
	}
	got, err := p.inflate(&stream{ctx: ctx, r: a.src, off: start, end: start + r.csize}, dst, off, r, key)
	return dst[:got], info, ncerr.Wrap("get", key, err)
}

// resolveRange returns the part of an object that opts requests, and checks its version
// and the limit.
func resolveRange(key string, opts *driver.GetOptions, info driver.Info) (off, n int64, err error) {
	if opts.IfMatch != "" && opts.IfMatch != info.Version {
		return 0, 0, ncerr.Errorf(ncerr.ErrConflict, "get", key, "the object has version %q, not %q", info.Version, opts.IfMatch)
	}
	n = info.Size
	if opts.Range != nil {
		if off, n, err = opts.Range.Resolve(info.Size); err != nil {
			return 0, 0, ncerr.Wrap("get", key, err)
		}
	}
	if opts.Limit > 0 && n > opts.Limit {
		return 0, 0, ncerr.Errorf(ncerr.ErrLimit, "get", key, "the object has %d bytes, more than the limit of %d", n, opts.Limit)
	}
	return off, n, nil
}

func checkSum(key string, got, want uint32) error {
	if got != want {
		return corrupt("get", key, "the checksum is %08x, not %08x", got, want)
	}
	return nil
}

// check refuses members that cannot be read and those with an impossible record, before
// memory is allocated for them.
func (a *archive) check(r record, op, key string) error {
	if r.flags&(flagEncrypted|flagStrong|flagMasked) != 0 {
		return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "the member is encrypted")
	}
	if r.flags&flagPatch != 0 || r.method != methodStored && r.method != methodDeflated && r.method != methodBzip2 {
		return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "unsupported compression method %d: only stored (0), deflated (8) and bzip2 (12) can be read", r.method)
	}
	if err := a.fits(r, op, key); err != nil {
		return err
	}
	if r.method == methodStored && r.size != r.csize {
		return corrupt(op, key, "the uncompressed member has a size of %d bytes, but a compressed size of %d", r.size, r.csize)
	}
	if r.method == methodDeflated && r.size > (r.csize+1)*maxInflate {
		return corrupt(op, key, "%d bytes of content do not fit in %d compressed bytes", r.size, r.csize)
	}
	if r.method == methodBzip2 && r.size/maxBunzip > r.csize {
		return corrupt(op, key, "%d bytes of content do not fit in %d compressed bytes", r.size, r.csize)
	}
	return nil
}

// fits refuses a member that extends beyond the archive or overlaps another.
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

// locate verifies the local header of a member that fits. It returns the start of the
// member's data in the archive. It reads the header once per entry; entry -1 is
// not cached.
func (a *archive) locate(ctx context.Context, p *pools, entry int, r record, key string) (int64, error) {
	if entry >= 0 {
		if n := a.heads[entry].Load(); n > 0 {
			return r.offset + int64(n), nil
		}
	}
	end, _ := a.limit(r)
	buf := p.scratch(lenLocal + len(r.name))
	defer p.heads.Put(buf)
	if _, err := a.src.readAt(ctx, *buf, r.offset); err != nil {
		return 0, err
	}
	n, err := a.verify(*buf, r, end, key)
	if err != nil {
		return 0, err
	}
	if entry >= 0 {
		a.heads[entry].Store(uint32(n))
	}
	return r.offset + n, nil
}

// verify compares the local header at the start of b with the record and returns the
// length of the header.
func (a *archive) verify(b []byte, r record, end int64, key string) (int64, error) {
	if le.Uint32(b) != sigLocal {
		return 0, corrupt("get", key, "the archive has no member at position %d", r.offset)
	}
	if int(le.Uint16(b[26:])) != len(r.name) || string(b[lenLocal:lenLocal+len(r.name)]) != string(r.name) {
		return 0, corrupt("get", key, "the member at position %d of the archive has another name", r.offset)
	}
	if le.Uint16(b[8:]) != r.method || (le.Uint16(b[6:])^r.flags)&flagEncrypted != 0 {
		return 0, corrupt("get", key, "the compression method in the directory differs from that in the local header")
	}
	n := int64(lenLocal + len(r.name) + int(le.Uint16(b[28:])))
	if r.csize > end-r.offset-n {
		return 0, errMisplaced("get", key)
	}
	return n, nil
}

// pools holds buffers and decoders for reuse.
type pools struct {
	heads     sync.Pool // values of type *[]byte
	inflaters sync.Pool // values of type *inflater
}

// scratch returns a slice of n bytes. The caller returns it to heads.
func (p *pools) scratch(n int) *[]byte {
	buf, _ := p.heads.Get().(*[]byte)
	if buf == nil || cap(*buf) < n {
		b := make([]byte, n, max(n, 256))
		return &b
	}
	*buf = (*buf)[:n]
	return buf
}

// inflater decodes compressed data. It owns its buffers.
type inflater struct {
	in    *bufio.Reader
	flate io.ReadCloser
	out   io.Reader // output of flate or of the decoder of another method
	skip  [32 << 10]byte
}

// inflate decodes the member of record r from s. It copies the content from off into
// dst and uses the rest only for the checksum. It returns the number of bytes copied to
// dst. Content whose length or checksum differs from the record is ncerr.ErrCorrupt.
func (p *pools) inflate(s *stream, dst []byte, off int64, r record, key string) (int, error) {
	z, _ := p.inflaters.Get().(*inflater)
	if z == nil {
		z = &inflater{in: bufio.NewReaderSize(nil, 32<<10)}
		z.flate = flate.NewReader(z.in)
	}
	defer func() {
		z.in.Reset(nil) // drop the reference to the context
		z.out = nil
		p.inflaters.Put(z)
	}()
	z.in.Reset(s)
	if r.method == methodBzip2 {
		z.out = bzip2.NewReader(z.in)
	} else {
		if err := z.flate.(flate.Resetter).Reset(z.in, nil); err != nil { //nolint:forcetypeassert // flate.NewReader documents that its result implements Resetter
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
		return got, corrupt("get", key, "the content is longer than the %d bytes stated in the directory", r.size)
	case !errors.Is(err, io.EOF):
		return got, damaged(key, err)
	}
	return got, checkSum(key, sum, r.crc)
}

// run decodes n bytes into dst, or discards them if dst is nil, and updates the
// checksum. It returns the number of decoded bytes.
func (z *inflater) run(ctx context.Context, sum uint32, dst []byte, n int64) (uint32, int, error) {
	got := 0
	for n > 0 {
		if err := ctx.Err(); err != nil { // a few bytes of source can decode to many, so the source checks the context too rarely
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

// damaged converts a decoding error: errors of the source pass unchanged, and all
// others become ncerr.ErrCorrupt.
func damaged(key string, err error) error {
	var broken flate.CorruptInputError
	var wrong bzip2.StructuralError
	switch {
	case errors.As(err, &broken), errors.As(err, &wrong):
		return corrupt("get", key, "invalid compressed data: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return corrupt("get", key, "compressed data is truncated")
	}
	return err
}
