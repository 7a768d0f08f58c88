package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

const (
	copyBuffer = 1 << 20 // size of the buffer for bodies that are not in memory
	attempts   = 100     // number of tries if other processes remove directories or files concurrently
)

// Put implements driver.Map.
func (m *Map) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	if m.readOnly {
		return driver.Info{}, ncerr.ErrReadOnly
	}
	if opts.IfMatch != "" && !m.locks {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "IfMatch requires locks, which the file system does not support")
	}
	if err := ctx.Err(); err != nil {
		return driver.Info{}, err
	}
	if err := m.checkNew(key); err != nil {
		return driver.Info{}, err
	}
	if opts.IfMatch != "" { // checked before anything is written; replace compares again under the lock
		info, err := m.Stat(ctx, key)
		if err == nil || ncerr.KindOf(err) == ncerr.ErrNotFound {
			err = matches(info, opts.IfMatch)
		}
		if err != nil {
			return driver.Info{}, err
		}
	}
	x, err := m.put(ctx, key, body, opts)
	for i := 1; i < attempts && errors.Is(err, errSwept); i++ {
		x, err = m.put(ctx, key, body, opts)
	}
	if err != nil {
		return driver.Info{}, m.putError(err)
	}
	return x.info(), nil
}

// put makes one attempt to write the object.
func (m *Map) put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (meta, error) {
	dirName, name := split(key)
	t, err := m.temporary(dirName, name)
	if err != nil {
		return meta{}, err
	}
	defer t.discard()
	x, err := t.fill(ctx, body, m.nextModTime())
	if err == nil {
		err = t.commit(ctx, m, key, name, opts, &x)
	}
	return x, err
}

// putError adds the kind to the error from a failed write.
func (m *Map) putError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dead := m.alive(); dead != nil {
			return dead
		}
	case ncerr.KindOf(err) != ncerr.ErrIO || ncerr.IsContext(err):
		return err
	case occupied(err):
		return ncerr.Errorf(ncerr.ErrObjectExists, "", "", "the key conflicts with an existing object or prefix: %w", plain(err, ""))
	}
	return classify(err)
}

// nextModTime returns the modification time for a new file: the current time, but later
// than the time of every earlier Put.
func (m *Map) nextModTime() time.Time {
	for {
		last, now := m.clock.Load(), time.Now().UnixNano()/100*100 // most file systems have a resolution of 100 ns or better
		now = max(now, last+100)
		if m.clock.CompareAndSwap(last, now) {
			return time.Unix(0, now)
		}
	}
}

// temporary is a file that becomes an object by being renamed.
type temporary struct {
	dir  *os.Root // the directory of the object
	name string
	f    *os.File
	held int // descriptor that holds the lock on the file, or noLock
	sync bool
	made bool // whether directories were created for the object
}

// noLock is the value of held for a file that is not locked.
const noLock = -1

// errSwept is returned if another writer removed a temporary file between its creation
// and its locking.
var errSwept = errors.New("another process removed the temporary file")

func temporaryName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // the call never fails
	return reserved + hex.EncodeToString(b[:])
}

// temporaryFor returns the name of the temporary file for an object. The name is fixed,
// so that the next writer of the object finds the file of a killed one.
func temporaryFor(object string) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, object) // the call never fails
	return reserved + hex.EncodeToString(h.Sum(nil))
}

// temporary creates an empty file in a directory, and creates the directory if needed.
func (m *Map) temporary(dirName, object string) (*temporary, error) {
	t := &temporary{held: noLock, sync: m.sync}
	var err error
	for range attempts {
		if t.dir, err = m.root.OpenRoot(dirName + "/."); err == nil {
			if err = t.create(m, object); err == nil {
				return t, nil
			}
			_ = t.dir.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) || dirName == "." {
			return nil, err
		}
		err := m.root.MkdirAll(dirName, 0o777) // fails with ErrNotExist or ErrExist if another process removes a directory concurrently
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		t.made = true
	}
	return nil, err
}

// create creates and locks the file with the name that temporaryFor returns for the
// object. A concurrent second writer of the object, and every writer on a file system
// without locks, uses a random name, which no other writer looks for.
func (t *temporary) create(m *Map, object string) error {
	if m.lockless.Load() {
		return t.open(temporaryName())
	}
	err := t.open(temporaryFor(object))
	switch {
	case errors.Is(err, fs.ErrExist):
		sweep(t.dir, t.name)
		return t.open(temporaryName())
	case err != nil:
		return err
	}
	if t.held, err = lock(t.f); err == nil {
		return nil
	}
	_ = t.f.Close()
	if !errors.Is(err, errLocked) { // otherwise another writer is removing the file
		m.lockless.Store(true)
		_ = t.dir.Remove(t.name)
	}
	return t.open(temporaryName())
}

func (t *temporary) open(name string) (err error) {
	t.name = name
	t.f, err = t.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	return err
}

// sweep removes a temporary file unless it is locked. An unlocked file belongs to a
// dead writer.
func sweep(dir *os.Root, name string) {
	if info, err := dir.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|nonblock, 0)
	if err != nil {
		return
	}
	defer f.Close()
	held, err := lock(f)
	if err != nil {
		return
	}
	defer unlock(held)
	is, err := f.Stat()
	named, nameErr := dir.Lstat(name)
	if err == nil && nameErr == nil && os.SameFile(is, named) { // otherwise its writer has renamed the file
		_ = dir.Remove(name)
	}
}

// fill writes the body and sets the modification time.
func (t *temporary) fill(ctx context.Context, body driver.Body, mtime time.Time) (meta, error) {
	if err := t.write(ctx, body); err != nil {
		return meta{}, err
	}
	if err := t.setTime(mtime); err != nil {
		return meta{}, err
	}
	if t.sync {
		if err := t.f.Sync(); err != nil {
			return meta{}, err
		}
	}
	info, err := t.f.Stat()
	if err != nil {
		return meta{}, err
	}
	if t.held != noLock && isUnlinked(info) {
		return meta{}, errSwept
	}
	f := t.f
	t.f = nil
	return metaOf(info), f.Close()
}

func (t *temporary) write(ctx context.Context, body driver.Body) error {
	size := body.Size()
	whole, inMemory := body.(driver.Bytes)
	var buf []byte
	if !inMemory {
		buf = make([]byte, min(copyBuffer, size))
	}
	for off := int64(0); off < size; {
		var part []byte
		if inMemory {
			part = whole[off:min(off+maxRead, size)]
		} else {
			part = buf[:min(int64(len(buf)), size-off)]
			if _, err := io.ReadFull(io.NewSectionReader(body, off, int64(len(part))), part); err != nil {
				return ncerr.Errorf(ncerr.ErrIO, "", "", "read body: %w", err)
			}
		}
		if _, err := t.f.Write(part); err != nil {
			return err
		}
		off += int64(len(part))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// commit renames the file to the object. x holds the metadata of the file and is
// updated if its time changes.
func (t *temporary) commit(ctx context.Context, m *Map, key, name string, opts *driver.PutOptions, x *meta) error {
	err := t.move(ctx, m, key, name, opts, x)
	if err != nil && occupied(err) && m.prune(key) {
		err = t.move(ctx, m, key, name, opts, x) // prune removed the directories in the way, which had no objects
	}
	if err != nil {
		return err
	}
	t.name = ""
	if !t.sync {
		return nil
	}
	if err := m.syncDirs(key, t.made); err != nil { // the object exists, but may not survive a power failure
		return ncerr.New(ncerr.ErrAmbiguous, "", "", plain(err, ""))
	}
	return nil
}

// move renames the file to the object's name. It locks the object that it replaces,
// even without a condition; otherwise a Put that has already compared the version could
// overwrite the new object.
func (t *temporary) move(ctx context.Context, m *Map, key, name string, opts *driver.PutOptions, x *meta) error {
	if opts.IfAbsent {
		return t.renameNew(m, key)
	}
	for m.locks {
		err := t.replace(ctx, m, key, name, opts.IfMatch, x)
		switch {
		case opts.IfMatch != "":
			if err = m.absent(key, err); ncerr.KindOf(err) == ncerr.ErrNotFound {
				err = matches(driver.Info{}, opts.IfMatch)
			}
			return err
		case !errors.As(err, new(openFailure)):
			return err
		case !missing(err): // a directory, or a file that this process cannot read
			return t.dir.Rename(t.name, name)
		}
		if err = t.renameNew(m, key); err == nil || outOfResources(err) {
			return err
		}
		if info, e := t.dir.Lstat(name); !errors.Is(err, fs.ErrExist) || e == nil && !info.Mode().IsRegular() {
			break // a dangling link, or a file system without exclusive rename
		}
	}
	return t.dir.Rename(t.name, name)
}

// replace replaces an existing object with the file, if the object has the given
// version.
func (t *temporary) replace(ctx context.Context, m *Map, key, name, version string, x *meta) error {
	old, was, err := m.hold(ctx, key)
	if err != nil {
		return err
	}
	defer old.close()
	if err := matches(was.info(), version); err != nil {
		return err
	}
	if !x.mtime.After(was.mtime) {
		if *x, err = t.setLater(was.mtime); err != nil {
			return err
		}
	}
	return t.dir.Rename(t.name, name)
}

// setLater sets a modification time later than the time of the file to be replaced, so
// that no version is used twice: another process or another clock may have set the old
// time. It tries increasing steps, because file systems differ in their time
// resolution.
func (t *temporary) setLater(than time.Time) (x meta, err error) {
	if t.f, err = t.dir.OpenFile(t.name, os.O_WRONLY, 0); err != nil {
		return meta{}, err
	}
	for step := 100 * time.Nanosecond; !x.mtime.After(than); step *= 10 {
		if err := t.setTime(than.Add(step)); err != nil {
			return meta{}, err
		}
		info, err := t.f.Stat()
		if err != nil {
			return meta{}, err
		}
		if x = metaOf(info); step > time.Minute {
			return meta{}, ncerr.Errorf(ncerr.ErrIO, "", "", "the file system cannot store a time later than %v", than)
		}
	}
	if t.sync {
		err = t.f.Sync()
	}
	f := t.f
	t.f = nil
	return x, errors.Join(err, f.Close())
}

// discard removes the file unless it has become an object, and releases the lock.
func (t *temporary) discard() {
	if t.f != nil {
		if info, err := t.f.Stat(); t.held != noLock && (err != nil || isUnlinked(info)) {
			t.name = "" // another writer may already use that name
		}
		_ = t.f.Close()
	}
	if t.name != "" {
		_ = t.dir.Remove(t.name)
	}
	if t.held != noLock {
		unlock(t.held)
	}
	_ = t.dir.Close()
}

// linkNew implements renameNew with a second hard link.
func linkNew(dir *os.Root, from, to string) error {
	if err := dir.Link(from, to); err != nil {
		return err
	}
	return dir.Remove(from)
}

// syncDirs syncs the directory of key. If all is set, it also syncs every parent
// directory up to the root.
func (m *Map) syncDirs(key string, all bool) error {
	for {
		dir, _ := split(key)
		d, err := m.root.Open(dir)
		if err != nil {
			return err
		}
		err = syncDir(d)
		_ = d.Close()
		if err != nil || dir == "." || !all {
			return err
		}
		key = dir
	}
}

// syncDir syncs a directory if the system supports it.
func syncDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, fs.ErrInvalid) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Delete implements driver.Map. It also removes directories that become empty.
func (m *Map) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	if m.readOnly {
		return ncerr.ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkName(key); err != nil {
		return err
	}
	info, err := m.root.Lstat(key)
	if err == nil {
		if t := info.Mode().Type(); t != 0 && t != fs.ModeSymlink {
			return nil // a prefix, or a file that cannot be an object
		}
		err = m.remove(ctx, key, info)
	}
	if missing(err) {
		return m.alive()
	}
	if err != nil {
		return classify(err)
	}
	if m.sync {
		if err := m.syncDirs(key, false); err != nil {
			return classify(err)
		}
	}
	for dir, _ := split(key); dir != "."; dir, _ = split(dir) {
		if !m.removeDir(dir) {
			break
		}
	}
	return nil
}

// remove removes the file of an object, or a link, while it holds the lock of the
// object.
func (m *Map) remove(ctx context.Context, key string, was fs.FileInfo) error {
	if m.locks {
		h, _, err := m.hold(ctx, key)
		switch {
		case err == nil:
			defer h.close()
		case !errors.As(err, new(openFailure)) || missing(err) && was.Mode().IsRegular():
			return err
		}
	}
	return m.root.Remove(key)
}

// removeDir removes an empty directory and reports whether it did. It never removes a
// link.
func (m *Map) removeDir(dir string) bool {
	info, err := m.root.Lstat(dir)
	return err == nil && info.IsDir() && m.root.Remove(dir) == nil
}

// prune removes a tree of directories without files, and reports whether it removed all
// of it.
func (m *Map) prune(dir string) bool {
	info, err := m.root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	entries, err := m.readDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.dir || !m.prune(dir+"/"+e.name) {
			return false
		}
	}
	return m.removeDir(dir)
}

// wipe removes everything below the root, without following links. It moves everything
// into a temporary directory before it deletes the first file. It removes nothing if the
// store contains something that cannot be an object.
func (m *Map) wipe(ctx context.Context) error {
	entries, err := m.dirNames(".")
	if err == nil {
		err = m.onlyObjects(".")
	}
	if err == nil {
		err = ctx.Err() // the last check: a half-removed store is useless
	}
	if err != nil || len(entries) == 0 {
		return err
	}
	trash := temporaryName()
	if err := m.root.Mkdir(trash, 0o700); err != nil {
		return err
	}
	for _, name := range entries {
		if err := m.root.Rename(name, trash+"/"+name); err != nil {
			return err
		}
	}
	return m.root.RemoveAll(trash)
}

// onlyObjects checks that a directory contains only objects, links, temporary files and
// directories of these. Anything else may belong to another program.
func (m *Map) onlyObjects(dir string) error {
	d, err := m.openDir(dir)
	if err != nil {
		return err
	}
	defer d.close()
	var dirs []string
	strange := ""
	err = eachName(d, func(name string, t fs.FileMode) bool {
		full := path.Join(dir, name)
		switch {
		case !isReserved(name) && !visible(name):
			strange = fmt.Sprintf("%q, which cannot be the name of an object", full)
		case t.IsDir() && m.isMount(full):
			strange = fmt.Sprintf("the mount point %q", full)
		case t.IsDir():
			dirs = append(dirs, full)
		case !t.IsRegular() && t != fs.ModeSymlink:
			strange = fmt.Sprintf("%q, which is not a regular file (%s)", full, t)
		}
		return strange == ""
	})
	if strange != "" {
		return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the directory contains %s; nothing was deleted", strange)
	}
	for _, sub := range dirs {
		if err == nil {
			err = m.onlyObjects(sub)
		}
	}
	return err
}
