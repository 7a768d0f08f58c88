package zip

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// storage reads and replaces the stored archive. All methods except temp and spill are
// called by one goroutine at a time.
type storage interface {
	// look reports whether the archive exists, and remembers its state.
	look(ctx context.Context) (bool, error)
	// probe fails if replace is certain to fail.
	probe(ctx context.Context) error
	// open opens the archive and remembers its state.
	open(ctx context.Context) (source, error)
	// temp creates an empty file, next to the archive if possible.
	temp() (*os.File, error)
	// spill creates an empty file, next to the archive if possible. The file disappears
	// with the process if the system supports that.
	spill() (*os.File, error)
	// replace atomically replaces the archive by the content of tmp and returns the new
	// source. It fails with ncerr.ErrConflict, before it changes anything, if the
	// archive has changed since its state was last remembered. On systems where the
	// open archive must be closed first, replace calls closeOld before the replacement.
	// replace takes ownership of tmp.
	replace(ctx context.Context, tmp *os.File, closeOld func() error) (source, error)
	// remove deletes the archive.
	remove(ctx context.Context) error
}

// fileStorage is a storage in the file system.
type fileStorage struct {
	path string      // path of the archive, with final symbolic links resolved
	sync bool        // whether to sync files and directories
	was  os.FileInfo // last remembered state of the archive; nil if it did not exist
}

func newFileStorage(path string, sync bool) (*fileStorage, error) {
	if path == "" {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open", "", "the path of the archive is empty")
	}
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			return &fileStorage{path: path, sync: sync}, nil //nolint:nilerr // the error means that the path is not a symbolic link
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

func (h *fileStorage) look(context.Context) (bool, error) {
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
func (h *fileStorage) probe(context.Context) error {
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

func (h *fileStorage) open(context.Context) (source, error) {
	f, err := os.Open(h.path)
	if err != nil {
		return nil, fileError(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	h.was = info
	return &fileSource{f: f, n: info.Size()}, nil
}

func (h *fileStorage) temp() (*os.File, error) {
	dir, base := filepath.Split(h.path)
	return makeTemp(dir, base)
}

func (h *fileStorage) spill() (*os.File, error) {
	dir, base := filepath.Split(h.path)
	return makeUnlinked(dir, base)
}

func (h *fileStorage) replace(_ context.Context, tmp *os.File, closeOld func() error) (source, error) {
	src, err := h.swap(tmp, closeOld)
	if err != nil {
		// After a failed swap tmp may already be closed. Its name must be removed.
		_ = tmp.Close()
		_ = os.Remove(tmp.Name())
		return nil, fileError(err)
	}
	return src, nil
}

func (h *fileStorage) swap(tmp *os.File, closeOld func() error) (source, error) {
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
	return &fileSource{f: tmp, n: is.Size()}, h.syncDir()
}

// swapClosed implements swap on systems that cannot rename open files.
func (h *fileStorage) swapClosed(tmp *os.File, closeOld func() error) (source, error) {
	if err := tmp.Close(); err != nil {
		return nil, err
	}
	if err := closeOld(); err != nil {
		return nil, err
	}
	if err := h.rename(tmp.Name()); err != nil {
		return nil, err
	}
	return h.open(context.Background())
}

// unchanged fails if the archive has changed since its state was remembered.
func (h *fileStorage) unchanged() error {
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
func (h *fileStorage) rename(tmp string) error {
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

func (h *fileStorage) syncDir() error {
	if !h.sync || runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Dir(h.path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (h *fileStorage) remove(context.Context) error { return fileError(os.Remove(h.path)) }

// mapStorage is a storage in an object of another Map.
type mapStorage struct {
	m      driver.Map
	key    string
	caps   driver.Capabilities
	was    driver.Info
	exists bool
}

func newMapStorage(m driver.Map, key string) (*mapStorage, error) {
	h := &mapStorage{m: m, key: key, caps: m.Capabilities()}
	switch {
	case key == "":
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open", "", "the key of the archive in its store is empty")
	case !h.caps.Ranges:
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "open", "", "the store of the archive does not support ranges")
	}
	return h, nil
}

func (h *mapStorage) look(ctx context.Context) (bool, error) {
	info, err := h.m.Stat(ctx, h.key)
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		h.was, h.exists = driver.Info{}, false
		return false, nil
	}
	if err != nil {
		return false, err
	}
	h.was, h.exists = info, true
	return true, nil
}

func (h *mapStorage) probe(context.Context) error {
	if !h.caps.Write {
		return ncerr.Errorf(ncerr.ErrReadOnly, "", "", "the store of the archive is read-only")
	}
	return nil
}

func (h *mapStorage) open(context.Context) (source, error) {
	return &mapSource{
		m: h.m, key: h.key, info: h.was,
		match:    h.caps.IfMatch && h.was.Version != "",
		isRemote: h.caps.Latency == driver.Remote,
	}, nil
}

func (h *mapStorage) temp() (*os.File, error)  { return h.spill() }
func (h *mapStorage) spill() (*os.File, error) { return makeUnlinked(os.TempDir(), "nczarr.zip") }

func (h *mapStorage) replace(ctx context.Context, tmp *os.File, _ func() error) (source, error) {
	err := h.put(ctx, tmp)
	if err = errors.Join(err, discard(tmp)); err != nil {
		return nil, err
	}
	return h.open(ctx)
}

// put stores the content of tmp as the object if the object has not changed. The store
// checks this during the write if it can; otherwise put checks it before the write.
func (h *mapStorage) put(ctx context.Context, tmp *os.File) error {
	info, err := tmp.Stat()
	if err != nil {
		return err
	}
	was, existed := h.was, h.exists
	now, err := h.look(ctx)
	is := h.was
	h.was, h.exists = was, existed
	switch {
	case err != nil:
		return err
	case now != existed || is.Size != was.Size || is.Version != was.Version || !is.ModTime.Equal(was.ModTime):
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process has changed the archive since it was read")
	}
	opts := driver.PutOptions{IfAbsent: !existed && h.caps.IfAbsent}
	if existed && h.caps.IfMatch {
		opts.IfMatch = was.Version
	}
	put, err := h.m.Put(ctx, h.key, fileBody{tmp, info.Size()}, &opts)
	if ncerr.KindOf(err) == ncerr.ErrObjectExists && opts.IfAbsent {
		return ncerr.New(ncerr.ErrConflict, "", "", errText(err))
	}
	if err != nil {
		return err
	}
	h.was, h.exists = put, true
	return h.m.Flush(ctx)
}

func (h *mapStorage) remove(ctx context.Context) error {
	if err := h.m.Delete(ctx, h.key, &driver.DeleteOptions{}); err != nil {
		return err
	}
	return h.m.Flush(ctx)
}

// fileBody is a driver.Body with the content of a file.
type fileBody struct {
	*os.File
	n int64
}

// Size implements driver.Body.
func (b fileBody) Size() int64 { return b.n }
