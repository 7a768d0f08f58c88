package file

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// classify returns err with its ncerr kind and without the path. The caller adds the key.
// A missing file becomes ncerr.ErrIO. Only Map.absent, which makes further checks,
// returns ncerr.ErrNotFound.
func classify(err error) error {
	if err == nil || ncerr.IsContext(err) || ncerr.KindOf(err) != ncerr.ErrIO {
		return err
	}
	if e := (*ncerr.Error)(nil); errors.As(err, &e) {
		return err
	}
	kind := ncerr.ErrIO
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		kind = errnoKind(errno)
	case isEscape(err):
		return ncerr.Errorf(ncerr.ErrPermission, "", "", "a symbolic link leads out of the store")
	}
	return ncerr.New(kind, "", "", plain(err, ""))
}

// isEscape reports whether err comes from os.Root rather than from the operating system.
func isEscape(err error) bool {
	var p *fs.PathError
	var l *os.LinkError
	return (errors.As(err, &p) || errors.As(err, &l)) && !errors.Is(err, fs.ErrClosed)
}

// plain strips the path from an error of package os. If err is nil, it returns a new
// error with the given message.
func plain(err error, text string) error {
	if err == nil {
		return errors.New(text)
	}
	for {
		var p *fs.PathError
		var l *os.LinkError
		switch {
		case errors.As(err, &p) && p.Err != nil:
			err = p.Err
		case errors.As(err, &l) && l.Err != nil:
			err = l.Err
		default:
			return err
		}
	}
}

// occupied reports whether a write failed because one key would become a prefix of
// another: a file exists where a directory is needed, or a directory where a file is
// needed.
func occupied(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) ||
		errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist)
}
