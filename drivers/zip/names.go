package zip

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reason says why a member of the archive is no object of the store.
type reason uint8

const (
	wanted reason = iota
	isDirectory
	isEmptyName
	isAbsolute
	isDotted
	isEmptySegment
	isBackslash
	isControl
	isNotUTF8
	isSymlink
	isOutside
)

var reasonText = [...]string{
	wanted:         "",
	isDirectory:    "directory entry",
	isEmptyName:    "empty name",
	isAbsolute:     "absolute name",
	isDotted:       `"." or ".." in the name`,
	isEmptySegment: "empty segment in the name",
	isBackslash:    "backslash in the name",
	isControl:      "control character in the name",
	isNotUTF8:      "name is not UTF-8",
	isSymlink:      "symbolic link",
	isOutside:      "outside the prefix of the dataset",
}

// judgeRecord says whether the member whose directory record starts at d is
// an object.
func judgeRecord(d []byte) reason {
	const unix, kind, link = 3, 0o170000, 0o120000
	if d[5] == unix && le.Uint16(d[40:])&kind == link {
		return isSymlink
	}
	return judgeName(recordName(d))
}

// judgeName says whether a member's name is a legal key.
func judgeName(name []byte) reason {
	if len(name) == 0 {
		return isEmptyName
	}
	if name[0] == '/' {
		return isAbsolute
	}
	high, dots, start := false, true, 0
	for i, c := range name {
		switch class[c] {
		case plain:
			dots = false
		case dot:
		case slash:
			if i == start {
				return isEmptySegment
			}
			if dots && i-start <= 2 {
				return isDotted
			}
			start, dots = i+1, true
		case multi:
			high, dots = true, false
		case backslash:
			return isBackslash
		case control:
			return isControl
		}
	}
	if high {
		if why := judgeUnicode(name); why != wanted {
			return why
		}
	}
	if start == len(name) {
		return isDirectory
	}
	if dots && len(name)-start <= 2 {
		return isDotted
	}
	return wanted
}

func judgeUnicode(name []byte) reason {
	if !utf8.Valid(name) {
		return isNotUTF8
	}
	if bytes.IndexFunc(name, unicode.IsControl) >= 0 {
		return isControl
	}
	return wanted
}

// The classes of bytes that judgeName tells apart.
const (
	plain = iota
	dot
	slash
	multi
	backslash
	control
)

var class = func() (t [256]uint8) {
	for i := range t {
		switch {
		case i < 0x20 || i == 0x7f:
			t[i] = control
		case i >= 0x80:
			t[i] = multi
		}
	}
	t['.'], t['/'], t['\\'] = dot, slash, backslash
	return t
}()

// isRootDocument reports whether name, a last segment, is a metadata document
// that marks the root of a dataset.
func isRootDocument(name []byte) bool {
	switch string(name) {
	case ".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json", ".nczarr", ".nczgroup":
		return true
	}
	return false
}

// prefixFinder watches the names of all objects of an archive and decides on
// the top-level directory that is the root of the dataset.
type prefixFinder struct {
	top     []byte // the one top-level directory so far, without slash
	none    bool   // it is certain that there is no prefix
	hasRoot bool   // top has a metadata document directly inside
}

func (f *prefixFinder) add(name []byte) {
	if f.none {
		return
	}
	if n := len(f.top); n > 0 {
		if len(name) <= n+1 || name[n] != '/' || string(name[:n]) != string(f.top) {
			f.none = true
			return
		}
		f.hasRoot = f.hasRoot || isRootDocument(name[n+1:])
		return
	}
	i := bytes.IndexByte(name, '/')
	if i < 0 {
		f.none = true
		return
	}
	f.top = name[:i]
	f.hasRoot = isRootDocument(name[i+1:])
}

// prefix gives the prefix with its slash, or "".
func (f *prefixFinder) prefix() string {
	if f.none || !f.hasRoot {
		return ""
	}
	return string(f.top) + "/"
}

// prefixMark begins the comment of an archive whose names alone would suggest
// another prefix than it has. The prefix follows, with its slash if any.
const prefixMark = "nczarr prefix="

// markedPrefix gives the prefix that the comment of an archive states.
func markedPrefix(comment []byte) (prefix string, ok bool) {
	rest, ok := bytes.CutPrefix(comment, []byte(prefixMark))
	if !ok || len(rest) > 0 && judgeName(rest) != isDirectory {
		return "", false
	}
	return string(rest), true
}

// markPrefix gives the comment of an archive with the given prefix whose names
// suggest the prefix found. The words of somebody else are kept.
func markPrefix(comment []byte, prefix, found string) []byte {
	_, ours := markedPrefix(comment)
	switch {
	case len(comment) > 0 && !ours:
		return comment
	case prefix == found:
		return nil
	}
	return []byte(prefixMark + prefix)
}

// isDocument reports whether key is a metadata document: these are written
// before everything else.
func isDocument(key string) bool {
	base := key[strings.LastIndexByte(key, '/')+1:]
	return strings.HasPrefix(base, ".z") || strings.HasPrefix(base, ".nc") || base == "zarr.json"
}

// compareWritten is the order of members in a new archive: metadata documents
// first, then depth first with a directory's own objects before those below.
func compareWritten(a, b string) int {
	if da, db := isDocument(a), isDocument(b); da != db {
		if da {
			return -1
		}
		return 1
	}
	i := strings.LastIndexByte(a, '/') + 1
	j := strings.LastIndexByte(b, '/') + 1
	if c := compareDirs(a[:i], b[:j]); c != 0 {
		return c
	}
	return strings.Compare(a[i:], b[j:])
}

// compareDirs compares byte by byte with the slash below every other byte, so
// that a directory is followed by its own subdirectories.
func compareDirs(a, b string) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x == '/' || y != '/' && x < y {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}
