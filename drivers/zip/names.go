package zip

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reason says why a member of the archive is no object of the store.
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
	isObject:         "",
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

// classifyRecord says whether the member whose directory record starts at d is
// an object.
func classifyRecord(d []byte) reason {
	const unix, kind, link = 3, 0o170000, 0o120000
	if d[5] == unix && le.Uint16(d[40:])&kind == link {
		return isSymlink
	}
	return classifyName(recordName(d))
}

// classifyName says whether a member's name is a legal key.
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

// intendedKey gives the key that whoever wrote a member of this name can only
// have meant, "" where that is not certain and for a directory: programs write
// backslashes, a slash in front, and "." for the directory that they were
// started in. U+FFFD stands for what no key can have.
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

// isPlain reports whether name is beyond doubt a legal key. It looks at eight
// bytes at once for all from space to tilde but the backslash, and for slashes
// without a slash or dot behind them.
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

// suspects marks the bytes of w that need a closer look, in their top bits.
// before and next carry a slash at the end of one word to the following one.
func suspects(w, before uint64) (bad, next uint64) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	back, del, slash, dot := w^(ones*'\\'), w^(ones*0x7f), w^(ones*'/'), w^(ones*'.')
	slash = (slash - ones) &^ slash & tops
	dot = (dot - ones) &^ dot & tops
	bad = w | (w-ones*0x20)&^w | (back-ones)&^back | (del-ones)&^del
	return bad | (slash<<8|before)&(slash|dot), slash >> 56
}

// classifyBytes looks for bytes that no key may have.
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
	if high {
		return classifyUnicode(name)
	}
	return isObject
}

func classifyUnicode(name []byte) reason {
	if !utf8.Valid(name) {
		return isNotUTF8
	}
	if bytes.IndexFunc(name, unicode.IsControl) >= 0 {
		return isControl
	}
	return isObject
}

// prefixFinder watches the names of all objects of an archive and decides on
// the top-level directory that is the root of the dataset.
type prefixFinder struct {
	docs    []string // last segments of the keys of metadata documents; empty when they are not known
	top     []byte   // the one top-level directory so isRemote, without slash
	none    bool     // it is certain that there is no prefix
	hasRoot bool     // top has a metadata document directly inside
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

// prefix gives the prefix with its slash, or "". sure says that whoever knows the
// documents finds the same.
func (f *prefixFinder) prefix() (prefix string, sure bool) {
	if f.none || !f.hasRoot {
		return "", f.none || len(f.top) == 0 || len(f.docs) > 0
	}
	return string(f.top) + "/", true
}

// prefixMark begins the comment of an archive whose names alone would suggest
// another prefix than it has. The prefix follows, with its slash if any.
const prefixMark = "nczarr prefix="

// markedPrefix gives the prefix that the comment of an archive states.
func markedPrefix(comment []byte) (prefix string, ok bool) {
	rest, ok := bytes.CutPrefix(comment, []byte(prefixMark))
	if !ok || len(rest) > 0 && classifyName(rest) != isDirectory {
		return "", false
	}
	return string(rest), true
}

// markPrefix gives the comment of an archive with the given prefix whose names
// suggest the prefix found, for sure or not. The words of somebody else are kept.
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

// compareWritten is the order of members in a new archive, behind the metadata
// documents, and among these: depth first with a directory's own objects before
// those below.
func compareWritten(a, b string) int {
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
