package host

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
)

// maxLent limits the number of lent files in transit, so that all of them fit in the
// channel. A plugin that had to wait for room in the channel could deadlock: the host
// receives files only after the answers that announce them, and the plugin may lend
// further files before it sends these answers.
const maxLent = 128

// mayLend reserves room for one more lent file in transit. It returns false if the
// limit is reached; the read then uses the segment. Freeing the pendingJob ends the
// reservation.
func (p *plane) mayLend() bool {
	if p.lending.Add(1) <= p.lendMax {
		return true
	}
	p.lending.Add(-1)
	return false
}

// errNoDescriptor is returned if the host had no free descriptor for a lent file. The
// read is then repeated at level 0.
var errNoDescriptor = errors.New("no free descriptor for a file from the plugin")

// maxRead limits the bytes read in one system call, so that a read ends soon after its
// context is done.
const maxRead = 16 << 20

// takeLent returns the file that was sent with a tag. It does not block, because a
// plugin sends the file before the answer that announces it.
func (p *plane) takeLent(tag uint64) (*os.File, error) {
	p.lentMu.Lock()
	defer p.lentMu.Unlock()
	for {
		if f, ok := p.lent[tag]; ok {
			delete(p.lent, tag)
			if f == nil {
				return nil, errNoDescriptor
			}
			return f, nil
		}
		t, f, err := shm.Receive(p.channel)
		if err != nil && !errors.Is(err, shm.ErrNoDescriptor) {
			return nil, ncerr.Errorf(ncerr.ErrPlugin, "", "", "cannot receive the file that the plugin announced: %v", err)
		}
		if _, twice := p.lent[t]; t == 0 || t > p.tag.Load() || twice || int64(len(p.lent)) >= p.lendMax {
			if f != nil {
				_ = f.Close()
			}
			return nil, ncerr.Errorf(ncerr.ErrPlugin, "", "", "received a file that was not requested")
		}
		p.lent[t] = f
	}
}

// dropLent closes the lent file, if any, of an answer that the host discards.
func (p *plane) dropLent(m *pb.StoreResult, t *pendingJob) {
	if m.GetLent() == nil || t.lend == 0 {
		return
	}
	if f, err := p.takeLent(t.lend); err == nil {
		_ = f.Close()
	}
}

// readLent reads the requested bytes from a lent file. It does not map the file,
// because another process may truncate it.
func (p *plane) readLent(ctx context.Context, l *objectRead, m *pb.StoreResult, t *pendingJob) error {
	if t.lend == 0 || m.GetOutput() != nil || m.GetError() != nil {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the result refers to a file that was not requested")
	}
	f, err := p.takeLent(t.lend)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	switch off := m.GetLent().GetOffset(); {
	case err != nil || !st.Mode().IsRegular():
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the file from the plugin is not a regular file")
	case off < 0 || off > st.Size():
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "offset %d is beyond the end of the file from the plugin, which has %d bytes", off, st.Size())
	}
	return l.fill(ctx, f, m.GetLent().GetOffset())
}

// fill reads the object from a file, starting at off. The file may contain less data
// than the plugin announced, so fill allocates memory as reserve does.
func (l *objectRead) fill(ctx context.Context, f io.ReaderAt, off int64) error {
	for !l.allocated {
		step := min(l.want/provenShare-l.n, maxRead) // read only the share that reserve requires
		l.early = slices.Grow(l.early, int(step))
		n, err := readFull(ctx, f, l.early[l.n:l.n+step], off+l.n)
		l.n += int64(n)
		l.early = l.early[:l.n]
		if err != nil {
			return errCaller{err}
		}
		if err := l.reserve(0); err != nil {
			return err
		}
	}
	n, err := readFull(ctx, f, l.dst[l.n:], off+l.n)
	l.n += int64(n)
	if err != nil {
		return errCaller{err}
	}
	return nil
}

// readFull fills dst with the bytes of f that start at off.
func readFull(ctx context.Context, f io.ReaderAt, dst []byte, off int64) (int, error) {
	got := 0
	for got < len(dst) {
		n, err := f.ReadAt(dst[got:min(len(dst), got+maxRead)], off+int64(got))
		got += n
		switch {
		case got == len(dst):
			return got, nil
		case errors.Is(err, io.EOF):
			return got, ncerr.Errorf(ncerr.ErrIO, "", "", "the file was truncated while it was read")
		case err != nil:
			return got, ncerr.New(ncerr.ErrIO, "", "", err)
		}
		if err := ctx.Err(); err != nil {
			return got, err
		}
	}
	return got, nil
}
