package place

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	markName  = ".nczarr-temporary"
	markText  = "nczarr temporary directory 1\n" // first line of a mark
	maxMark   = 64 << 10                         // maximum size of a mark in bytes
	nameChars = 10                               // random characters in the name of a Temp
)

// Mark describes a temporary directory. It is stored in the directory.
type Mark struct {
	// Target is the path to which the content will be moved. It may be empty.
	Target string `json:"target,omitempty"`
	// Host and PID identify the process that created the directory, for messages. They
	// do not indicate whether the process is alive.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Made is the time at which the directory was created.
	Made time.Time `json:"made"`
}

// Temp is a temporary directory with a mark. It is locked until Remove or Keep is
// called, or the process ends.
type Temp struct {
	Dir  string
	lock *os.File // the directory
}

// NewTemp creates a temporary directory with mode 0700 in parent. Its name consists of
// prefix and 10 random characters. target, if not empty, is stored in the mark.
func NewTemp(parent, prefix, target string) (*Temp, error) {
	for {
		dir := filepath.Join(parent, prefix+rand.Text()[:nameChars])
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		t, err := mark(dir, target)
		if err == nil {
			return t, nil
		}
		// A Sweep may have removed or locked the directory before it was locked here.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errLocked) {
			return nil, join(err, removeMarked(dir))
		}
	}
}

// errLocked reports that another process holds a lock.
var errLocked = errors.New("another process holds the lock")

// mark locks a directory and then writes the mark. A directory with a mark was therefore
// locked by the process that created it.
func mark(dir, target string) (*Temp, error) {
	d, err := openLocked(dir)
	if err != nil {
		return nil, err
	}
	if err := writeMark(filepath.Join(dir, markName), target); err != nil {
		_ = d.Close()
		return nil, err
	}
	return &Temp{Dir: dir, lock: d}, nil
}

func writeMark(path, target string) error {
	host, _ := os.Hostname() // the name is used only in messages
	text, err := json.Marshal(Mark{Target: target, Host: host, PID: os.Getpid(), Made: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(markText + string(text) + "\n")
	return join(err, f.Close())
}

// removeMarked removes a directory that contains only its mark.
func removeMarked(dir string) error {
	if err := os.Remove(filepath.Join(dir, markName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(dir)
}

// sameName reports whether the name of an open file still refers to that file.
func sameName(f *os.File) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(is, named)
}

// fdPath returns a path that refers to the directory even if another process renames it
// or replaces it with a link. On systems without such paths it returns t.Dir.
func (t *Temp) fdPath() string {
	path := fmt.Sprintf("/proc/self/fd/%d", t.lock.Fd())
	is, err := t.lock.Stat()
	if named, err2 := os.Stat(path); err != nil || err2 != nil || !os.SameFile(is, named) {
		return t.Dir
	}
	return path
}

// Remove removes the directory and its content, and releases the lock.
func (t *Temp) Remove() error { return t.removeBy(Remove) }

func (t *Temp) removeBy(remove func(dir string) error) error {
	if runtime.GOOS == "windows" { // Windows cannot remove open files
		return join(t.lock.Close(), remove(t.Dir))
	}
	return join(remove(t.Dir), t.lock.Close())
}

// Keep releases the lock without removing the directory, so that a later Sweep can visit
// it.
func (t *Temp) Keep() error { return t.lock.Close() }

// Found is a temporary directory made by any process.
type Found struct {
	Dir  string
	Mark Mark
	// InUse is set if the process that created the directory or another Sweep holds the
	// lock, or if the file system has no locks.
	InUse bool
}

// Find returns the temporary directories in parent that contain the mark and whose names
// begin with prefix.
func Find(parent, prefix string) ([]Found, error) {
	var out []Found
	err := visit(parent, prefix, func(found Found) { out = append(out, found) })
	return out, err
}

// Sweep calls remove for each temporary directory in parent whose name begins with
// prefix, that contains the mark and that no process has locked. Sweep holds the lock
// during the call. It also removes empty directories with such names, which are left by
// processes that ended before they wrote the mark.
func Sweep(parent, prefix string, remove func(Found)) {
	_ = visit(parent, prefix, func(found Found) { // do nothing if parent is unreadable
		if !found.InUse {
			remove(found)
		}
	})
}

// visit calls f for each temporary directory. The directory is locked during the call
// unless InUse is set.
func visit(parent, prefix string, f func(Found)) error {
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close()
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, prefix)
		if ok && len(rest) == nameChars && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "" {
			visitOne(filepath.Join(parent, name), f)
		}
	}
	return err
}

func visitOne(dir string, f func(Found)) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || !isOwner(info) {
		return
	}
	d, err := os.OpenFile(dir, os.O_RDONLY|directory, 0)
	if err != nil {
		return
	}
	defer d.Close()
	free := lock(d) == nil
	if free && !sameName(d) {
		return // another Sweep has removed the directory
	}
	m, ok := readMark(filepath.Join(dir, markName))
	switch {
	case ok:
		f(Found{Dir: dir, Mark: m, InUse: !free})
	case free:
		removeEmpty(dir)
	}
}

// removeEmpty removes a directory that is empty or contains only an empty mark, because
// its process ended before it wrote the mark.
func removeEmpty(dir string) {
	path := filepath.Join(dir, markName)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 1 {
		return
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		_ = os.Remove(path)
	}
	_ = os.Remove(dir) // Remove fails if the directory is not empty
}

// readMark reads a mark and reports whether it begins with the first line that this
// package writes.
func readMark(path string) (m Mark, ok bool) {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return m, false
	}
	f, err := os.Open(path)
	if err != nil {
		return m, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMark))
	if err != nil {
		return m, false
	}
	rest, ok := strings.CutPrefix(string(text), markText)
	if ok {
		_ = json.Unmarshal([]byte(rest), &m) // a truncated mark is valid too
	}
	return m, ok
}
