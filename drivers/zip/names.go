package zip

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reason explains why a member of the archive is not an object of the store.
type reason uint8

const (
	isObject reason = iota
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
	isObject:       "",
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

// classifyRecord returns isObject if the member of the directory record at d is an
// object, and otherwise the reason why it is not.
func classifyRecord(d []byte) reason {
	const unix, kind, link = 3, 0o170000, 0o120000
	if d[5] == unix && le.Uint16(d[40:])&kind == link {
		return isSymlink
	}
	return classifyName(recordName(d))
}

// classifyName returns isObject if the name of a member is a valid key, and otherwise
// the reason why it is not.
func classifyName(name []byte) reason {
	if len(name) == 0 {
		return isEmptyName
	}
	if name[0] == '/' {
		return isAbsolute
	}
	if isPlain(name) {
		return isObject
	}
	if why := classifyBytes(name); why != isObject {
		return why
	}
	for {
		i := bytes.IndexByte(name, '/')
		if i < 0 {
			break
		}
		if why := classifySegment(name[:i]); why != isObject {
			return why
		}
		if name = name[i+1:]; len(name) == 0 {
			return isDirectory
		}
	}
	return classifySegment(name)
}

func classifySegment(s []byte) reason {
	switch {
	case len(s) == 0:
		return isEmptySegment
	case len(s) <= 2 && s[0] == '.' && s[len(s)-1] == '.':
		return isDotted
	}
	return isObject
}

// intendedKey returns the key that the name of an invalid member suggests, or "" if it
// suggests a directory or no certain key. Some programs write backslashes, a leading
// slash, or "." for their working directory. U+FFFD replaces characters that keys
// cannot contain.
func intendedKey(name []byte) string {
	var key []byte
	for s := range bytes.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch string(s) {
		case ".":
		case "..":
			return ""
		default:
			key = append(append(key, '/'), s...)
		}
	}
	if len(key) == 0 || bytes.HasSuffix(name, []byte{'\\'}) || bytes.HasSuffix(name, []byte{'/'}) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(string(key[1:]), string(unicode.ReplacementChar)))
}

// isPlain reports whether name is certainly a valid key. It checks, eight bytes at a
// time, that every byte is between space and tilde and is not a backslash, and that no
// slash precedes a slash or dot.
func isPlain(name []byte) bool {
	n := len(name)
	if n < 8 || name[0] == '.' || name[0] == '/' || name[n-1] == '/' {
		return false
	}
	const tops = 0x8080808080808080
	var bad, before uint64
	for i := 0; i+8 <= n; i += 8 {
		var b uint64
		b, before = suspects(le.Uint64(name[i:]), before)
		bad |= b
	}
	last, _ := suspects(le.Uint64(name[n-8:]), 0)
	return (bad|last)&tops == 0
}

// suspects marks the bytes of w that need further checks, in their top bits. before and
// next carry a slash at the end of one word to the next word.
func suspects(w, before uint64) (bad, next uint64) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	back, del, slash, dot := w^(ones*'\\'), w^(ones*0x7f), w^(ones*'/'), w^(ones*'.')
	slash = (slash - ones) &^ slash & tops
	dot = (dot - ones) &^ dot & tops
	bad = w | (w-ones*0x20)&^w | (back-ones)&^back | (del-ones)&^del
	return bad | (slash<<8|before)&(slash|dot), slash >> 56
}

// classifyBytes checks for bytes that keys cannot contain.
func classifyBytes(name []byte) reason {
	high := false
	for _, c := range name {
		switch {
		case c == '\\':
			return isBackslash
		case c < 0x20 || c == 0x7f:
			return isControl
		}
		high = high || c >= utf8.RuneSelf
	}
	switch {
	case !high:
		return isObject
	case !utf8.Valid(name):
		return isNotUTF8
	case bytes.IndexFunc(name, unicode.IsControl) >= 0:
		return isControl
	}
	return isObject
}

// prefixFinder examines the names of all objects of an archive and determines the
// top-level directory of the dataset.
type prefixFinder struct {
	docs    []string // last segments of the keys of metadata documents; empty if unknown
	top     []byte   // the only top-level directory so far, without slash
	none    bool     // whether the names exclude a prefix
	hasRoot bool     // whether top directly contains a metadata document
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
		f.hasRoot = f.hasRoot || f.isDocument(name[n+1:])
		return
	}
	i := bytes.IndexByte(name, '/')
	if i < 0 {
		f.none = true
		return
	}
	f.top = name[:i]
	f.hasRoot = f.isDocument(name[i+1:])
}

func (f *prefixFinder) isDocument(name []byte) bool {
	return slices.ContainsFunc(f.docs, func(doc string) bool { return doc == string(name) })
}

// prefix returns the prefix with its slash, or "". sure reports whether a reader with
// the list of documents finds the same prefix.
func (f *prefixFinder) prefix() (prefix string, sure bool) {
	if f.none || !f.hasRoot {
		return "", f.none || len(f.top) == 0 || len(f.docs) > 0
	}
	return string(f.top) + "/", true
}

// prefixMark starts the comment of an archive whose names alone would suggest another
// prefix. The prefix follows, with its slash if not empty.
const prefixMark = "nczarr prefix="

// markedPrefix returns the prefix in the comment of an archive.
func markedPrefix(comment []byte) (prefix string, ok bool) {
	rest, ok := bytes.CutPrefix(comment, []byte(prefixMark))
	if !ok || len(rest) > 0 && classifyName(rest) != isDirectory {
		return "", false
	}
	return string(rest), true
}

// markPrefix returns the comment for an archive with the given prefix. found and sure
// are the results of prefixFinder.prefix. A comment from another program is kept.
func markPrefix(comment []byte, prefix, found string, sure bool) []byte {
	_, ours := markedPrefix(comment)
	switch {
	case len(comment) > 0 && !ours:
		return comment
	case prefix == found && sure:
		return nil
	}
	return []byte(prefixMark + prefix)
}

// compareWritten defines the order of members in a new archive, separately for metadata
// documents and other members: depth first, with a directory's own objects before those
// of its subdirectories.
func compareWritten(a, b string) int {
	i := strings.LastIndexByte(a, '/') + 1
	j := strings.LastIndexByte(b, '/') + 1
	if c := compareDirs(a[:i], b[:j]); c != 0 {
		return c
	}
	return strings.Compare(a[i:], b[j:])
}

// compareDirs compares byte by byte and sorts the slash before every other byte, so
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
