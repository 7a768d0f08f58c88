package file

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// checkNew refuses a key that the file system cannot store under exactly that name, for
// example because one of its prefixes, or the key itself, exists in another spelling.
func (m *Map) checkNew(key string) error {
	if err := checkName(key); err != nil {
		return err
	}
	if m.rewrites && strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII }) {
		return ncerr.Errorf(ncerr.ErrBadName, "", "", "the file system changes names with non-ASCII characters")
	}
	if !m.folds {
		return nil
	}
	exists := func(path string) bool {
		_, err := m.root.Lstat(path)
		return err == nil // writing the key reports other failures
	}
	path, err := otherSpelling(key, exists, m.dirNames)
	switch {
	case err != nil:
		return classify(err)
	case path != "":
		return ncerr.Errorf(ncerr.ErrBadName, "", "", "%q already exists in another spelling, and the file system does not distinguish the two", path)
	}
	return nil
}

// otherSpelling returns the shortest prefix of key, or key itself, that exists although
// its directory lists another name for it. It returns "" if no prefix is affected.
func otherSpelling(key string, exists func(path string) bool, names func(dir string) ([]string, error)) (string, error) {
	for end := range len(key) + 1 {
		if end < len(key) && key[end] != '/' {
			continue
		}
		path := key[:end]
		if !exists(path) {
			return "", nil
		}
		dir, name := split(path)
		held, err := names(dir)
		if err != nil {
			return "", err
		}
		if !slices.Contains(held, name) {
			return path, nil
		}
	}
	return "", nil
}

// probe detects, with a temporary file, whether the file system folds or rewrites names
// and whether it has locks. It is meant for stores without objects.
func (m *Map) probe() error {
	const composed, decomposed = "\u00e9", "e\u0301"
	base := temporaryName() + "-aq"
	name := base + composed
	f, err := m.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_ = f.Close()
	defer func() { _ = m.root.Remove(name) }()
	m.locks, _ = m.lockable(name)
	for _, other := range []string{strings.ToUpper(base) + composed, base + decomposed} {
		_, err := m.root.Lstat(other)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		m.folds = m.folds || err == nil
	}
	names, err := m.dirNames(".")
	m.rewrites = err == nil && !slices.Contains(names, name)
	return err
}

// maxTried is the maximum number of files that detectFromNames tries to lock. It tries
// several, because this process might lack the permission to read some of them.
const maxTried = 16

// detectFromNames detects, from the existing names, whether the file system ignores
// case and has locks. It calls probe, which creates a file, only if it can open none of
// the files it tries.
func (m *Map) detectFromNames() error {
	d, err := m.openDir(".")
	if err != nil {
		return err
	}
	defer d.close()
	var names []string
	known := false // whether m.locks is known
	tried := 0
	err = eachName(d, func(name string, t fs.FileMode) bool {
		if names = append(names, name); t.IsRegular() && !isReserved(name) && !known && tried < maxTried {
			m.locks, known = m.lockable(name)
			tried++
		}
		return true
	})
	if err != nil {
		return err
	}
	if !known {
		if err := m.probe(); err == nil || len(names) == 0 {
			return err
		}
	}
	for _, name := range names {
		other := swapCase(name)
		if other == name || slices.Contains(names, other) {
			continue
		}
		a, errA := m.root.Lstat(name)
		b, errB := m.root.Lstat(other)
		m.folds = errA == nil && errB == nil && os.SameFile(a, b)
		if errA == nil {
			return nil
		}
	}
	return nil
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}
