package zip

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// storage reads and replaces the archive in the file system. All methods except temp and
// spill are called by one goroutine at a time.
type storage struct {
	path string      // path of the archive, with final symbolic links resolved
	sync bool        // whether to sync files and directories
	was  os.FileInfo // last remembered state of the archive; nil if it did not exist
}

func newStorage(path string, sync bool) (*storage, error) {
	if path == "" {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open", "", "the path of the archive is empty")
	}
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			return &storage{path: path, sync: sync}, nil //nolint:nilerr // the error means that the path is not a symbolic link
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return nil, ncerr.Errorf(ncerr.ErrIO, "open", "", "too many symbolic links")
}

// fileError sets the kind of the common file system errors.
func fileError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return ncerr.New(ncerr.ErrPermission, "", "", err)
	case errors.Is(err, fs.ErrNotExist):
		return ncerr.New(ncerr.ErrIO, "", "", err)
	}
	return err
}

// look reports whether the archive exists, and remembers its state.
func (h *storage) look() (bool, error) {
	info, err := os.Stat(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		h.was = nil
		return false, nil
	}
	if err != nil {
		return false, fileError(err)
	}
	if info.IsDir() {
		return true, notZip("the path is a directory")
	}
	if !info.Mode().IsRegular() {
		return true, notZip("the path is a device, pipe or socket")
	}
	h.was = info
	return true, nil
}

// probe checks early whether the archive can be written and its directory changed. It
// deletes the temporary files of killed writers.
func (h *storage) probe() error {
	if h.was != nil {
		f, err := os.OpenFile(h.path, os.O_RDWR, 0)
		if err != nil {
			return fileError(err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	f, err := h.spill()
	if err != nil {
		return err
	}
	dir, base := filepath.Split(h.path)
	sweep(dir, base, time.Now().Add(-staleAge))
	return discard(f)
}

// open opens the archive and remembers its state.
func (h *storage) open() (*source, error) {
	f, err := os.Open(h.path)
	if err != nil {
		return nil, fileError(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	h.was = info
	return &source{f: f, n: info.Size()}, nil
}

// temp creates an empty file next to the archive.
func (h *storage) temp() (*os.File, error) {
	dir, base := filepath.Split(h.path)
	return makeTemp(dir, base)
}

// spill creates an empty file next to the archive. The file disappears with the process if
// the system supports that.
func (h *storage) spill() (*os.File, error) {
	dir, base := filepath.Split(h.path)
	return makeUnlinked(dir, base)
}

// replace atomically replaces the archive by the content of tmp and returns the new source.
// It fails with ncerr.ErrConflict, before it changes anything, if the archive has changed
// since its state was last remembered. On systems where the open archive must be closed
// first, replace calls closeOld before the replacement. replace takes ownership of tmp.
func (h *storage) replace(tmp *os.File, closeOld func() error) (*source, error) {
	src, err := h.swap(tmp, closeOld)
	if err != nil {
		// After a failed swap tmp may already be closed. Its name must be removed.
		_ = tmp.Close()
		_ = os.Remove(tmp.Name())
		return nil, fileError(err)
	}
	return src, nil
}

func (h *storage) swap(tmp *os.File, closeOld func() error) (*source, error) {
	if h.was != nil {
		if err := tmp.Chmod(h.was.Mode().Perm()); err != nil && runtime.GOOS != "windows" {
			return nil, err
		}
	}
	if h.sync {
		if err := tmp.Sync(); err != nil {
			return nil, err
		}
	}
	if err := h.unchanged(); err != nil {
		return nil, err
	}
	if closeOld != nil {
		return h.swapClosed(tmp, closeOld)
	}
	is, err := tmp.Stat()
	if err != nil {
		return nil, err
	}
	if err := h.rename(tmp.Name()); err != nil {
		return nil, err
	}
	h.was = is
	unlock(tmp) // the temporary file has become the archive
	return &source{f: tmp, n: is.Size()}, h.syncDir()
}

// swapClosed implements swap on systems that cannot rename open files.
func (h *storage) swapClosed(tmp *os.File, closeOld func() error) (*source, error) {
	if err := tmp.Close(); err != nil {
		return nil, err
	}
	if err := closeOld(); err != nil {
		return nil, err
	}
	if err := h.rename(tmp.Name()); err != nil {
		return nil, err
	}
	return h.open()
}

// unchanged fails if the archive has changed since its state was remembered.
func (h *storage) unchanged() error {
	now, err := os.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if h.was != nil {
			return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process has removed the archive since it was read")
		}
		return nil
	case err != nil:
		return err
	case h.was == nil:
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process has created the archive")
	case !os.SameFile(now, h.was) || now.Size() != h.was.Size() || !now.ModTime().Equal(h.was.ModTime()):
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process has changed the archive since it was read")
	}
	return nil
}

// rename moves the file tmp to the archive's path. If no archive existed, it first
// tries a hard link, which unlike a rename does not replace a file.
func (h *storage) rename(tmp string) error {
	if h.was == nil {
		err := os.Link(tmp, h.path)
		if err == nil {
			_ = os.Remove(tmp) // the archive is in place; a leftover second name is harmless
			return nil
		}
		if errors.Is(err, fs.ErrExist) {
			return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process has created the archive")
		}
		// The file system has no hard links; unchanged checked the path just before.
	}
	return os.Rename(tmp, h.path)
}

func (h *storage) syncDir() error {
	if !h.sync || runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Dir(h.path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove deletes the archive.
func (h *storage) remove() error { return fileError(os.Remove(h.path)) }
