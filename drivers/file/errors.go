package file

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// classify gives an error of the operating system its kind. The path in its
// text is left out, because the caller adds the key. A file that is not there
// becomes ncerr.ErrIO: only absent, which looks closer, may say otherwise.
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
		return ncerr.Errorf(ncerr.ErrPermission, "", "", "a link leaves the store")
	}
	return ncerr.New(kind, "", "", plain(err, ""))
}

// isEscape reports whether os.Root itself, and not the operating system, refused.
func isEscape(err error) bool {
	var p *fs.PathError
	var l *os.LinkError
	return (errors.As(err, &p) || errors.As(err, &l)) && !errors.Is(err, fs.ErrClosed)
}

// plain takes the path out of an error of package os; without an error it
// makes one from text.
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

// occupied reports whether a write failed because a key would become a prefix
// of another: a file where a directory is needed, or the other way round.
func occupied(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) ||
		errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist)
}
