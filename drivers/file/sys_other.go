//go:build !linux

package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// handle is an open file.
type handle struct{ f *os.File }

func (*Map) openFast(string, int) (handle, error) { return handle{}, errNoFastOpen }
func (*Map) statFast(string) (meta, error)        { return meta{}, errNoFastOpen }

func (h handle) stat() (meta, error) {
	info, err := h.f.Stat()
	if err != nil {
		return meta{}, err
	}
	return metaOf(info), nil
}

func (h handle) readAt(p []byte, off int64) (int, error) { return h.f.ReadAt(p, off) }

// file returns the handle as an os.File, which takes ownership of the descriptor.
func (h handle) file(string) *os.File { return h.f }

// descriptor returns the descriptor of the file. The handle keeps ownership.
func (h handle) descriptor() int { return int(h.f.Fd()) }

func (h handle) close() { _ = h.f.Close() }

// setTime sets the modification time.
func (t *temporary) setTime(mtime time.Time) error { return t.dir.Chtimes(t.name, mtime, mtime) }

// renameNew renames the temporary file to the name of an object. It fails if that name
// exists.
func (t *temporary) renameNew(_ *Map, key string) error {
	_, name := split(key)
	return linkNew(t.dir, t.name, name)
}

// eachName calls f with each name in a directory and the type of its file, until f
// returns false.
func eachName(h handle, f func(name string, t fs.FileMode) bool) error {
	d := h.f
	for {
		part, err := d.ReadDir(1024)
		for _, e := range part {
			if !f(e.Name(), e.Type()) {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			if info, e := d.Stat(); e == nil && !info.IsDir() {
				return syscall.ENOTDIR
			}
			return err
		}
	}
}

// isMount reports whether another file system is mounted at dir.
func (m *Map) isMount(dir string) bool { return m.otherDevice(dir) }
