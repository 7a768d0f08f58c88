package file

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// errLocked is returned if the lock is held through another open file.
var errLocked = errors.New("locked by another process")

// openFailure wraps the reason why hold cannot lock an object: it does not exist, this
// process cannot open it, or its file system has no locks.
type openFailure struct{ error }

func (u openFailure) Unwrap() error { return u.error }

// hold locks the object at key and returns its handle and metadata. Until the handle is
// closed, no process replaces or removes the object through this driver. hold locks the
// object and not its directory, because the directory is locked while a dataset is
// created in it.
func (m *Map) hold(ctx context.Context, key string) (h handle, x meta, err error) {
	for {
		if err = ctx.Err(); err != nil {
			return handle{}, meta{}, err
		}
		if h, err = m.openAs(key, nonblock); outOfResources(err) {
			return handle{}, meta{}, err
		} else if err != nil {
			return handle{}, meta{}, openFailure{err}
		}
		x, err = h.stat()
		if err == nil {
			err = x.object()
		}
		if err != nil {
			h.close()
			if outOfResources(err) {
				return handle{}, meta{}, err
			}
			return handle{}, meta{}, openFailure{err}
		}
		if err = wait(ctx, h); err == nil {
			var now meta
			if now, err = m.stat(key); err == nil && now.info().Version == x.info().Version {
				return h, x, nil
			}
		} else if !ncerr.IsContext(err) && !outOfResources(err) {
			err = openFailure{err}
		}
		h.close()
		if err != nil && !missing(err) {
			return handle{}, meta{}, err
		}
	}
}

// wait locks an open file, and waits while another process holds the lock.
func wait(ctx context.Context, h handle) error {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		if err := flock(h.descriptor()); !errors.Is(err, errLocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// lockable reports whether the file system can lock a file that is open for reading
// only. File systems that cannot, such as NFS, do not replace open files atomically
// either. known is false if the file cannot be opened.
func (m *Map) lockable(name string) (locks, known bool) {
	h, err := m.openAs(name, nonblock)
	if err != nil {
		return false, false
	}
	defer h.close()
	err = flock(h.descriptor())
	return err == nil || errors.Is(err, errLocked), true
}

// outOfResources reports whether err is unrelated to the file: the process ran out of
// descriptors or memory, or the disk failed.
func outOfResources(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EIO)
}

// matches fails if the version of an object differs from want. An empty want matches
// any version.
func matches(info driver.Info, want string) error {
	if want == "" || info.Version == want {
		return nil
	}
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "the object has version %q, not %q", info.Version, want)
}
