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

// file gives the handle as a file, which owns it from then on.
func (h handle) file(string) *os.File { return h.f }

// descriptor returns the descriptor of the file, which stays the handle's.
func (h handle) descriptor() int { return int(h.f.Fd()) }

func (h handle) close() { _ = h.f.Close() }

// setTime sets the time of modification.
func (t *temporary) setTime(mtime time.Time) error { return t.dir.Chtimes(t.name, mtime, mtime) }

// renameNew gives the file the name of an object, unless that name is taken.
func (t *temporary) renameNew(_ *Map, key string) error {
	_, name := split(key)
	return linkNew(t.dir, t.name, name)
}

// eachName calls f with the names in a directory and the types of their files
// until it returns false.
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

// isMount reports whether another file system is mounted at a directory.
func (m *Map) isMount(dir string) bool { return m.otherDevice(dir) }
