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

// staleAge is the age above which an unlocked temporary file is treated as abandoned.
// The age matters on network file systems whose locks do not reach every machine.
const staleAge = 10 * time.Minute

// tempStem returns the prefix of the names of an archive's temporary files.
func tempStem(base string) string { return "." + base[:min(len(base), 64)] + "." }

// tempDigits is the number of digits between the stem and ".tmp".
const tempDigits = 16

// tempName returns the path of a temporary file of the archive base in dir.
func tempName(dir, base string) string {
	return filepath.Join(dir, fmt.Sprintf("%s%0*x.tmp", tempStem(base), tempDigits, rand.Uint64()))
}

// makeTemp creates a file with the default permissions of a new file, unlike
// os.CreateTemp. The file is locked until it is closed or unlocked, which shows other
// processes that it is in use.
func makeTemp(dir, base string) (*os.File, error) {
	for {
		name := tempName(dir, base)
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fileError(err)
		}
		free, err := tryLock(f)
		if err != nil || free && sameName(f) {
			return f, nil //nolint:nilerr // without locks no process removes temporary files
		}
		_ = discard(f) // another process removed the file before it was locked
	}
}

// sameName reports whether the name of an open file still refers to it.
func sameName(f *os.File) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(is, named)
}

// makeUnlinked creates a file without a name, or one whose name it removes immediately,
// if the system allows that for open files. The caller must discard the file.
func makeUnlinked(dir, base string) (*os.File, error) {
	f, err := openUnnamed(dir, base)
	if err == nil {
		return f, nil
	}
	f, err = makeTemp(dir, base)
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

// sweep deletes the temporary files that killed writers of an archive left: those that
// are not locked and were last written before the given time. It ignores files that
// cannot be deleted.
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

// isTemp reports whether name belongs to a temporary file of the archive base.
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
