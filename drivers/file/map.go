package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// maxKey is the longest key in bytes: what one system call takes as a path.
const maxKey = 4095

// Map is one open directory tree.
type Map struct {
	root     *os.Root
	dir      *os.File // the root again, for calls that need a descriptor
	path     string   // where the root was found, absolute
	identity fs.FileInfo
	readOnly bool
	sync     bool // durability=fsync

	folds    bool // the file system takes different spellings for one name
	rewrites bool // the file system changes names that are not ASCII
	locks    bool // objects can be locked

	slow     atomic.Bool // the system has no quick way to open below a directory
	lockless atomic.Bool // the file system has no locks

	clock atomic.Int64 // the last time of modification that a Put used
}

var _ driver.Map = (*Map)(nil)

// Capabilities implements driver.Map.
func (m *Map) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Ranges: true, List: true, Write: true, Delete: true, IfAbsent: true, IfMatch: m.readOnly || m.locks,
		RecursiveList: true, OrderedList: true, PrefixExclusive: true,
		Durable: driver.OnPut, MaxKey: maxKey, Latency: driver.Local,
	}
}

// Flush implements driver.Map: every Put has done it already. It fails if the
// root has been replaced since, as what was put is not where others look for it.
func (m *Map) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil || m.readOnly {
		return err
	}
	return m.alive()
}

// Close implements driver.Map.
func (m *Map) Close(context.Context) error { return m.release() }

func (m *Map) release() error {
	var err error
	if m.dir != nil {
		err = m.dir.Close()
	}
	return errors.Join(err, m.root.Close())
}

// alive makes sure that the path still leads to the root that was opened.
func (m *Map) alive() error {
	now, err := os.Stat(m.path)
	switch {
	case err != nil:
		return ncerr.Errorf(ncerr.ErrIO, "", "", "the root of the store is gone: %w", plain(err, ""))
	case !os.SameFile(now, m.identity):
		return ncerr.Errorf(ncerr.ErrIO, "", "", "the root of the store has been replaced")
	}
	return nil
}

// absent judges why a file could not be opened, and says ncerr.ErrNotFound
// only when it is certain that there is no object.
func (m *Map) absent(key string, err error) error {
	if !missing(err) {
		return classify(err)
	}
	if err := m.alive(); err != nil {
		return err
	}
	if info, e := m.root.Lstat(key); e == nil && info.Mode().Type() == fs.ModeSymlink {
		return ncerr.Errorf(ncerr.ErrIO, "", "", "the link points to nothing")
	} else if e != nil && !missing(e) {
		return classify(e)
	}
	return ncerr.ErrNotFound
}

// meta is what the driver wants to know about a file.
type meta struct {
	mode  fs.FileMode
	size  int64
	mtime time.Time
	file  uint64 // file number, 0 where there is none
}

func (x meta) info() driver.Info {
	b := make([]byte, 0, 48)
	b = strconv.AppendInt(b, x.size, 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, x.mtime.UnixNano(), 36)
	b = append(b, '-')
	b = strconv.AppendUint(b, x.file, 36)
	return driver.Info{Size: x.size, Version: string(b), ModTime: x.mtime}
}

// object reports why a file is not an object.
func (x meta) object() error {
	switch {
	case x.mode.IsRegular():
		return nil
	case x.mode.IsDir():
		return ncerr.ErrNotFound
	}
	return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "this is not a regular file (%s)", x.mode.Type())
}

// metaOf reads what package os found out.
func metaOf(info fs.FileInfo) meta {
	return meta{mode: info.Mode(), size: info.Size(), mtime: info.ModTime(), file: fileNumber(info)}
}
