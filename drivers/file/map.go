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

// maxKey is the maximum length of a key in bytes: the longest path that a system call
// accepts.
const maxKey = 4095

// Map is one open directory tree.
type Map struct {
	root     *os.Root
	dir      *os.File // descriptor of the root
	path     string   // absolute path of the root
	identity fs.FileInfo
	readOnly bool
	sync     bool // whether the option durability is fsync

	folds    bool // the file system does not distinguish some spellings
	rewrites bool // the file system changes names that are not ASCII
	locks    bool // the file system can lock objects

	slow     atomic.Bool // the system cannot open paths below a directory in one call
	lockless atomic.Bool // the file system has no locks

	clock atomic.Int64 // the latest modification time that a Put used
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

// Flush implements driver.Map. Every Put has already written its object. Flush fails if
// the root has been replaced, because other processes would not find the new objects.
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

// alive checks that the path still leads to the root that was opened.
func (m *Map) alive() error {
	now, err := os.Stat(m.path)
	switch {
	case err != nil:
		return ncerr.Errorf(ncerr.ErrIO, "", "", "cannot access the root of the store: %w", plain(err, ""))
	case !os.SameFile(now, m.identity):
		return ncerr.Errorf(ncerr.ErrIO, "", "", "the root of the store was replaced")
	}
	return nil
}

// absent returns the error for a file that could not be opened. It returns
// ncerr.ErrNotFound only if the object certainly does not exist.
func (m *Map) absent(key string, err error) error {
	if !missing(err) {
		return classify(err)
	}
	if err := m.alive(); err != nil {
		return err
	}
	if info, e := m.root.Lstat(key); e == nil && info.Mode().Type() == fs.ModeSymlink {
		return ncerr.Errorf(ncerr.ErrIO, "", "", "the target of the symbolic link does not exist")
	} else if e != nil && !missing(e) {
		return classify(e)
	}
	return ncerr.ErrNotFound
}

// meta holds the file metadata that the driver uses.
type meta struct {
	mode  fs.FileMode
	size  int64
	mtime time.Time
	file  uint64 // file number, 0 if unknown
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

// object returns nil for a regular file, and otherwise the reason why the file is not
// an object.
func (x meta) object() error {
	switch {
	case x.mode.IsRegular():
		return nil
	case x.mode.IsDir():
		return ncerr.ErrNotFound
	}
	return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the object is not a regular file (mode %s)", x.mode.Type())
}

// metaOf converts a FileInfo of package os.
func metaOf(info fs.FileInfo) meta {
	return meta{mode: info.Mode(), size: info.Size(), mtime: info.ModTime(), file: fileNumber(info)}
}
