package zip

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// reader reads at given positions, which must be inside its content.
type reader interface {
	// readAt fills p from off. If it reads fewer bytes, it returns an error, never
	// io.EOF.
	readAt(ctx context.Context, p []byte, off int64) (int, error)
}

// source provides the bytes of one archive, which do not change while it is open.
type source interface {
	reader
	size() int64
	// remote reports whether every read requires a request, so that reads should be
	// combined.
	remote() bool
	close() error
}

// step is the maximum number of bytes read between two checks of the context.
const step = 16 << 20

// fileSource is an archive in the file system.
type fileSource struct {
	f *os.File
	n int64
}

func (s *fileSource) size() int64  { return s.n }
func (s *fileSource) remote() bool { return false }
func (s *fileSource) close() error { return s.f.Close() }

func (s *fileSource) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	return readFile(ctx, s.f, p, off)
}

// readFile fills p from f at off. An end of file is ncerr.ErrCorrupt, because callers
// only read bytes that existed when the file was opened.
func readFile(ctx context.Context, f io.ReaderAt, p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		n, err := f.ReadAt(p[done:min(len(p), done+step)], off+int64(done))
		done += n
		if err != nil && done < len(p) {
			if errors.Is(err, io.EOF) {
				return done, corrupt("read", "", "the archive became shorter while it was open")
			}
			return done, err
		}
	}
	return done, nil
}

// mapSource is an archive in an object of another Map.
type mapSource struct {
	m        driver.Map
	key      string
	info     driver.Info // state of the object when the archive was opened
	match    bool        // whether m supports IfMatch
	isRemote bool
}

func (s *mapSource) size() int64  { return s.info.Size }
func (s *mapSource) remote() bool { return s.isRemote }
func (s *mapSource) close() error { return nil }

func (s *mapSource) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	opts := driver.GetOptions{Range: &driver.Range{Offset: off, Length: int64(len(p))}}
	if s.match {
		opts.IfMatch = s.info.Version
	}
	got, info, err := s.m.Get(ctx, s.key, &opts, driver.Into(p))
	switch {
	case err != nil && replaced(err):
		return 0, ncerr.New(ncerr.ErrConflict, "read archive", s.key, errText(err))
	case err != nil:
		return len(got), err
	case info.Size != s.info.Size || info.Version != s.info.Version:
		return 0, ncerr.Errorf(ncerr.ErrConflict, "read archive", s.key, "the archive was replaced while it was open")
	case len(got) != len(p):
		return len(got), ncerr.Errorf(ncerr.ErrIO, "read archive", s.key, "read %d bytes instead of %d", len(got), len(p))
	}
	return len(p), nil
}

// replaced reports whether err means that the archive has changed. Such an error must
// not look like a missing member.
func replaced(err error) bool {
	switch ncerr.KindOf(err) {
	case ncerr.ErrNotFound, ncerr.ErrRange, ncerr.ErrConflict:
		return true
	}
	return false
}

// errText returns an error with the text of err but without its kind.
func errText(err error) error { return errors.New(err.Error()) }

// emptySource is the source of an archive that has not been written yet.
type emptySource struct{}

func (emptySource) size() int64  { return 0 }
func (emptySource) remote() bool { return false }
func (emptySource) close() error { return nil }
func (emptySource) readAt(_ context.Context, p []byte, _ int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return 0, corrupt("read", "", "the archive is empty")
}

// window is a part of an archive that has already been read.
type window struct {
	b   []byte
	off int64
}

func (w window) readAt(_ context.Context, p []byte, off int64) (int, error) {
	from := off - w.off
	if from < 0 || from > int64(len(w.b)) {
		return 0, corrupt("read", "", "position %d is outside the buffer", off)
	}
	n := copy(p, w.b[from:])
	if n < len(p) {
		return n, corrupt("read", "", "the buffer is %d bytes too short", len(p)-n)
	}
	return n, nil
}

// stream reads a part of a reader sequentially.
type stream struct {
	ctx      context.Context //nolint:containedctx // the context has the lifetime of one call
	r        reader
	off, end int64
}

func (s *stream) Read(p []byte) (int, error) {
	if s.off >= s.end {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.end-s.off)]
	n, err := s.r.readAt(s.ctx, p, s.off)
	s.off += int64(n)
	return n, err
}
