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

// maxLent is the largest number of lent files that may be on their way; it is
// less where the process may have few descriptors. So many fit in the channel:
// a plugin that has to wait for room in it may wait for ever, as files are
// taken out when an answer announces one, and the answers may have to wait for
// files that are still to be lent.
const maxLent = 128

// lentLimit gives how many files may be on their way: one in four of the
// descriptors that the process may have.
func lentLimit() int64 { return min(maxLent, shm.MaxFiles()/4) }

// mayLend counts one more file that may be lent, unless there are too many:
// then the bytes come through the segment. Freeing its ticket ends it.
func (p *plane) mayLend() bool {
	if p.lending.Add(1) <= p.lendMax {
		return true
	}
	p.lending.Add(-1)
	return false
}

// errNoDescriptor says that the system had no descriptor for a lent file. It
// is not the plugin's fault: the bytes are asked for again, at level 0.
var errNoDescriptor = errors.New("no descriptor for a lent file")

// maxRead is the most that one system call is asked for, so that a context
// that has ended is noticed.
const maxRead = 16 << 20

// takeLent gives the file that was sent under a tag. It was sent before the
// answer that announced it, so that it never has to be waited for.
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
		t, f, err := shm.Take(p.channel)
		if err != nil && !errors.Is(err, shm.ErrNoDescriptor) {
			return nil, ncerr.Errorf(ncerr.ErrPlugin, "", "", "an announced file did not come through the channel: %v", err)
		}
		if _, twice := p.lent[t]; t == 0 || t > p.tag.Load() || twice || int64(len(p.lent)) >= p.lendMax {
			if f != nil {
				_ = f.Close()
			}
			return nil, ncerr.Errorf(ncerr.ErrPlugin, "", "", "a file came through the channel that was not asked for")
		}
		p.lent[t] = f
	}
}

// dropLent closes the file of an answer that is not wanted any more.
func (p *plane) dropLent(m *pb.StoreResult, t *pendingJob) {
	if m.GetLent() == nil || t.lend == 0 {
		return
	}
	if f, err := p.takeLent(t.lend); err == nil {
		_ = f.Close()
	}
}

// readLent reads what a read asked for from the file that was lent. It is a
// plain read and never a mapping, as others may shorten the file.
func (p *plane) readLent(ctx context.Context, l *objectRead, m *pb.StoreResult, t *pendingJob) error {
	if t.lend == 0 || m.GetOutput() != nil || m.GetError() != nil {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "a file was lent that was not asked for")
	}
	f, err := p.takeLent(t.lend)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	switch off := m.GetLent().GetOffset(); {
	case err != nil || !st.Mode().IsRegular():
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "what was lent is not a regular file")
	case off < 0 || off > st.Size():
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "bytes at %d of a lent file of %d", off, st.Size())
	}
	return l.fill(ctx, f, m.GetLent().GetOffset())
}

// fill reads all of the object from a file, from the given offset on. Others
// can make a file seem larger than what is in it, so that memory for a large
// one is taken as for one that is sent.
func (l *objectRead) fill(ctx context.Context, f io.ReaderAt, off int64) error {
	for !l.asked {
		step := min(l.want/provenShare-l.n, maxRead) // no more than what has to come
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

// readFull fills dst from the given offset.
func readFull(ctx context.Context, f io.ReaderAt, dst []byte, off int64) (int, error) {
	got := 0
	for got < len(dst) {
		n, err := f.ReadAt(dst[got:min(len(dst), got+maxRead)], off+int64(got))
		got += n
		switch {
		case got == len(dst):
			return got, nil
		case errors.Is(err, io.EOF):
			return got, ncerr.Errorf(ncerr.ErrIO, "", "", "the file became shorter while it was read")
		case err != nil:
			return got, ncerr.New(ncerr.ErrIO, "", "", err)
		}
		if err := ctx.Err(); err != nil {
			return got, err
		}
	}
	return got, nil
}
