package zip

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// staleAge is how long ago a temporary file was last written before it may
// count as left over. The lock alone would do where locks reach every machine
// that sees the directory; not every network file system is like that.
const staleAge = 10 * time.Minute

// tempStem gives what the names of an archive's temporary files begin with.
func tempStem(base string) string { return "." + base[:min(len(base), 64)] + "." }

// tempDigits is the length of what comes between stem and ".tmp".
const tempDigits = 16

// makeTemp makes a file with the permissions of any new file, which
// os.CreateTemp does not. It is locked until it is closed or unlocked, so that
// others see that it is in use.
func makeTemp(dir, base string) (*os.File, error) {
	for {
		name := filepath.Join(dir, fmt.Sprintf("%s%0*x.tmp", tempStem(base), tempDigits, rand.Uint64()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fileError(err)
		}
		free, err := tryLock(f)
		if err != nil || free && sameName(f) {
			return f, nil //nolint:nilerr // without locks nobody sweeps
		}
		_ = discard(f) // another process looked at it before it was locked
	}
}

// sameName reports whether an open file is still the one with its name.
func sameName(f *os.File) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(is, named)
}

// makeHidden makes a file and takes its name away at once, where a file that
// is open can lose its name. Others must discard it.
func makeHidden(dir, base string) (*os.File, error) {
	f, err := makeTemp(dir, base)
	if err == nil {
		_ = os.Remove(f.Name()) // discard tries again
	}
	return f, err
}

// discard closes and deletes a temporary file.
func discard(f *os.File) error {
	err := f.Close()
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// sweep deletes the temporary files of an archive that writers which were
// killed have left: those that nobody has locked and that were last written
// before the time given. What cannot be deleted stays.
func sweep(dir, base string, before time.Time) {
	d, err := os.Open(filepath.Join(dir, "."))
	if err != nil {
		return
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close()
	if err != nil {
		return
	}
	for _, name := range names {
		if isTemp(name, base) {
			sweepOne(filepath.Join(dir, name), before)
		}
	}
}

// isTemp reports whether name is that of a temporary file of the archive base.
func isTemp(name, base string) bool {
	digits, ok := strings.CutPrefix(name, tempStem(base))
	digits, temp := strings.CutSuffix(digits, ".tmp")
	return ok && temp && len(digits) == tempDigits && strings.Trim(digits, "0123456789abcdef") == ""
}

func sweepOne(path string, before time.Time) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
		return
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	is, err := f.Stat()
	free, lockErr := tryLock(f)
	if err != nil || lockErr != nil || !free || !os.SameFile(is, info) || !is.ModTime().Before(before) {
		_ = f.Close()
		return
	}
	_ = discard(f)
}
