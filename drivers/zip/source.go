package zip

import (
	"context"
	"errors"
	"io"
	"os"
)

// reader reads at given positions, which must be inside its content.
type reader interface {
	// readAt fills p from off. If it reads fewer bytes, it returns an error, never
	// io.EOF.
	readAt(ctx context.Context, p []byte, off int64) (int, error)
}

// step is the maximum number of bytes read between two checks of the context.
const step = 16 << 20

// source is the content of one archive, which does not change while it is open. A source
// without a file is empty: the archive has not been written yet.
type source struct {
	f *os.File
	n int64 // size in bytes
}

func (s *source) close() error {
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}

func (s *source) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case s.f == nil:
		return 0, corrupt("read", "", "the archive is empty")
	}
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
