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

// home is the place where an archive lives. Its methods but temp and spill are
// called by one goroutine at a time.
type home interface {
	// look reports whether there is an archive, and remembers its state.
	look(ctx context.Context) (bool, error)
	// probe fails when it is known already that replace would.
	probe(ctx context.Context) error
	// open opens the archive and remembers its state.
	open(ctx context.Context) (source, error)
	// temp makes a new empty file, beside the archive where that is possible.
	temp() (*os.File, error)
	// spill makes a new empty file that goes with the process where the system
	// can do that, beside the archive where that is possible.
	spill() (*os.File, error)
	// replace puts the content of tmp in the archive's place, in one step, and
	// gives it as the new source. It fails with ncerr.ErrConflict, before
	// anything is touched, when the archive is not what it was when its state
	// was last remembered. closeOld is called before the archive that is open has
	// to be closed, on systems where that is so; tmp belongs to replace.
	replace(ctx context.Context, tmp *os.File, closeOld func() error) (source, error)
	// remove deletes the archive.
	remove(ctx context.Context) error
}

// fileHome is a place in the file system.
type fileHome struct {
	path string      // with symbolic links at its end resolved
	sync bool        // wait for the disk
	was  os.FileInfo // state of the archive; nil when there was none
}

func newFileHome(path string, sync bool) (*fileHome, error) {
	if path == "" {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open", "", "no path of an archive")
	}
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			return &fileHome{path: path, sync: sync}, nil //nolint:nilerr // it is no link
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return nil, ncerr.Errorf(ncerr.ErrIO, "open", "", "too many symbolic links")
}

// fileError gives the failures of the file system that people meet their kind.
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

func (h *fileHome) look(context.Context) (bool, error) {
	info, err := os.Stat(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		h.was = nil
		return false, nil
	}
	if err != nil {
		return false, fileError(err)
	}
	if !info.Mode().IsRegular() {
		return true, notZip("it is no regular file but a %s", kindOf(info.Mode()))
	}
	h.was = info
	return true, nil
}

func kindOf(m fs.FileMode) string {
	if m.IsDir() {
		return "directory"
	}
	return "device, pipe or socket"
}

// probe finds out early that the archive may not be written or its directory
// not be changed. It deletes what killed writers have left there.
func (h *fileHome) probe(context.Context) error {
	if h.was != nil {
		f, err := os.OpenFile(h.path, os.O_RDWR, 0)
		if err != nil {
			return fileError(err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	f, err := h.temp()
	if err != nil {
		return err
	}
	dir, base := filepath.Split(h.path)
	sweep(dir, base, time.Now().Add(-staleAge))
	return discard(f)
}

func (h *fileHome) open(context.Context) (source, error) {
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

func (h *fileHome) temp() (*os.File, error) {
	dir, base := filepath.Split(h.path)
	return makeTemp(dir, base)
}

func (h *fileHome) spill() (*os.File, error) {
	dir, base := filepath.Split(h.path)
	return makeHidden(dir, base)
}

func (h *fileHome) replace(_ context.Context, tmp *os.File, closeOld func() error) (source, error) {
	src, err := h.swap(tmp, closeOld)
	if err != nil {
		// After a failed swap tmp may be closed already; what counts is that
		// its name goes.
		_ = tmp.Close()
		_ = os.Remove(tmp.Name())
		return nil, fileError(err)
	}
	return src, nil
}

func (h *fileHome) swap(tmp *os.File, closeOld func() error) (source, error) {
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
	unlock(tmp) // it is the archive now
	return &fileSource{f: tmp, n: is.Size()}, h.syncDir()
}

// swapClosed is swap where open files cannot be renamed.
func (h *fileHome) swapClosed(tmp *os.File, closeOld func() error) (source, error) {
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

// unchanged holds the archive against its remembered state.
func (h *fileHome) unchanged() error {
	now, err := os.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if h.was != nil {
			return ncerr.Errorf(ncerr.ErrConflict, "", "", "the archive was removed meanwhile")
		}
		return nil
	case err != nil:
		return err
	case h.was == nil:
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "somebody else has made an archive meanwhile")
	case !os.SameFile(now, h.was) || now.Size() != h.was.Size() || !now.ModTime().Equal(h.was.ModTime()):
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "somebody else has written the archive meanwhile")
	}
	return nil
}

// rename moves the file tmp to the archive's path. Where there was no archive
// a hard link comes first, which unlike a rename replaces nothing.
func (h *fileHome) rename(tmp string) error {
	if h.was == nil {
		err := os.Link(tmp, h.path)
		if err == nil {
			_ = os.Remove(tmp) // the archive is in place; a second name does no harm
			return nil
		}
		if errors.Is(err, fs.ErrExist) {
			return ncerr.Errorf(ncerr.ErrConflict, "", "", "somebody else has made an archive meanwhile")
		}
		// A file system without hard links: unchanged has looked just now.
	}
	return os.Rename(tmp, h.path)
}

func (h *fileHome) syncDir() error {
	if !h.sync || runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Dir(h.path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (h *fileHome) remove(context.Context) error { return fileError(os.Remove(h.path)) }

// mapHome is an object of another Map.
type mapHome struct {
	m      driver.Map
	key    string
	caps   driver.Capabilities
	was    driver.Info
	exists bool
}

func newMapHome(m driver.Map, key string) (*mapHome, error) {
	h := &mapHome{m: m, key: key, caps: m.Capabilities()}
	switch {
	case key == "":
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open", "", "no key of the archive in the store around it")
	case !h.caps.Ranges:
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "open", "", "the store around the archive cannot read ranges")
	}
	return h, nil
}

func (h *mapHome) look(ctx context.Context) (bool, error) {
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

func (h *mapHome) probe(context.Context) error {
	if !h.caps.Write {
		return ncerr.Errorf(ncerr.ErrReadOnly, "", "", "the store around the archive cannot be written")
	}
	return nil
}

func (h *mapHome) open(context.Context) (source, error) {
	return &mapSource{
		m: h.m, key: h.key, info: h.was,
		match: h.caps.IfMatch && h.was.Version != "",
		isRemote:   h.caps.Latency == driver.Remote,
	}, nil
}

func (h *mapHome) temp() (*os.File, error)  { return h.spill() }
func (h *mapHome) spill() (*os.File, error) { return makeHidden(os.TempDir(), "nczarr.zip") }

func (h *mapHome) replace(ctx context.Context, tmp *os.File, _ func() error) (source, error) {
	err := h.put(ctx, tmp)
	if err = errors.Join(err, discard(tmp)); err != nil {
		return nil, err
	}
	return h.open(ctx)
}

// put stores the content of tmp as the object, on the condition that it is
// what it was: by the store itself where it can, else by looking first.
func (h *mapHome) put(ctx context.Context, tmp *os.File) error {
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
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "somebody else has written the archive meanwhile")
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

func (h *mapHome) remove(ctx context.Context) error {
	if err := h.m.Delete(ctx, h.key, &driver.DeleteOptions{}); err != nil {
		return err
	}
	return h.m.Flush(ctx)
}

// fileBody is a file as the body of a Put.
type fileBody struct {
	*os.File
	n int64
}

// Size implements driver.Body.
func (b fileBody) Size() int64 { return b.n }
