package zmap

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// ValidKey fails with ncerr.ErrBadName if key cannot name an object. A valid key is not
// empty, is valid UTF-8 without control characters, and consists of segments separated by
// single slashes. No segment is empty, "." or "..".
func ValidKey(key string) error {
	if why := keyFlaw(key); why != "" {
		return ncerr.Errorf(ncerr.ErrBadName, "check key", key, "%s", why)
	}
	return nil
}

// Path returns the form of a key or prefix for messages, which has a leading slash. The
// root is "/".
func Path(key string) string { return "/" + key }

// keyFlaw returns the reason why key is invalid, or "".
func keyFlaw(key string) string {
	if key == "" {
		return "the key is empty"
	}
	start := 0 // start of the current segment
	for i := 0; i < len(key); {
		c := key[i]
		switch {
		case c == '/':
			if why := segmentFlaw(key[start:i]); why != "" {
				return why
			}
			start = i + 1
			i++
		case c < 0x20 || c == 0x7f:
			return "the key contains a control character"
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRuneInString(key[i:])
			if r == utf8.RuneError && n == 1 {
				return "the key is not UTF-8"
			}
			if unicode.IsControl(r) {
				return "the key contains a control character"
			}
			i += n
		}
	}
	return segmentFlaw(key[start:])
}

func segmentFlaw(s string) string {
	switch s {
	case "":
		return "the key has an empty segment, or a leading or trailing slash"
	case ".", "..":
		return `the key has a "." or ".." segment`
	}
	return ""
}

// normPrefix checks prefix and returns it with a trailing slash. The slash is optional in
// the argument. An empty prefix stays empty.
func normPrefix(op, prefix string) (string, error) {
	if prefix == "" {
		return "", nil
	}
	body := strings.TrimSuffix(prefix, "/")
	if why := keyFlaw(body); why != "" {
		return "", ncerr.Errorf(ncerr.ErrBadName, op, prefix, "%s", why)
	}
	if len(body) < len(prefix) {
		return prefix, nil
	}
	return prefix + "/", nil
}
