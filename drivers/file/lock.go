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

// unopened is why there is nothing to lock: no object, or none that this process
// can open, or one on another file system, without locks.
type unopened struct{ error }

func (u unopened) Unwrap() error { return u.error }

// hold locks the object that a key has, and returns what is known about it. No
// process replaces or removes it through this driver before it is closed. The
// object is locked, and not its directory: that is locked while a dataset is made
// in it.
func (m *Map) hold(ctx context.Context, key string) (h handle, x meta, err error) {
	for {
		if err = ctx.Err(); err != nil {
			return handle{}, meta{}, err
		}
		if h, err = m.openAs(key, nonblock); scarce(err) {
			return handle{}, meta{}, err
		} else if err != nil {
			return handle{}, meta{}, unopened{err}
		}
		x, err = h.stat()
		if err == nil {
			err = x.object()
		}
		if err != nil {
			h.close()
			if scarce(err) {
				return handle{}, meta{}, err
			}
			return handle{}, meta{}, unopened{err}
		}
		if err = wait(ctx, h); err == nil {
			var now meta
			if now, err = m.stat(key); err == nil && now.info().Version == x.info().Version {
				return h, x, nil
			}
		} else if !ncerr.IsContext(err) && !scarce(err) {
			err = unopened{err}
		}
		h.close()
		if err != nil && !missing(err) {
			return handle{}, meta{}, err
		}
	}
}

// wait locks an open file, as soon as nobody else has it locked.
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

// lockable reports whether the file system can lock a file for one that only reads
// it. Those that cannot, as that of NFS, do not replace open files in one step
// either. known is not set if the file cannot be opened.
func (m *Map) lockable(name string) (locks, known bool) {
	h, err := m.openAs(name, nonblock)
	if err != nil {
		return false, false
	}
	defer h.close()
	err = flock(h.descriptor())
	return err == nil || errors.Is(err, errLocked), true
}

// scarce reports whether an error says nothing about a file: descriptors or memory have
// run out, or the disk has failed.
func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EIO)
}

// matches fails if an object has another version than the one that is wanted,
// which is empty for any.
func matches(info driver.Info, want string) error {
	if want == "" || info.Version == want {
		return nil
	}
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "version %q, expected %q", info.Version, want)
}
