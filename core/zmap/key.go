package zmap

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// ValidKey reports whether key may name an object: not empty, valid UTF-8, no
// control characters, and segments between single slashes that are neither
// empty nor "." nor "..". Otherwise the error is ncerr.ErrBadName.
func ValidKey(key string) error {
	if why := keyFlaw(key); why != "" {
		return ncerr.Errorf(ncerr.ErrBadName, "check key", key, "%s", why)
	}
	return nil
}

// ValidPrefix reports whether prefix is empty or a valid key followed by one
// slash. Otherwise the error is ncerr.ErrBadName.
func ValidPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	body, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return ncerr.Errorf(ncerr.ErrBadName, "check prefix", prefix, "no slash at the end")
	}
	if why := keyFlaw(body); why != "" {
		return ncerr.Errorf(ncerr.ErrBadName, "check prefix", prefix, "%s", why)
	}
	return nil
}

// Path gives the form of key or prefix that people see, with a leading slash.
// The root is "/".
func Path(key string) string { return "/" + key }

// Key gives the key that a path such as "/a/b" stands for; "/" stands for the
// root, the empty prefix. A path without the leading slash, or one whose rest
// is not a valid key, is ncerr.ErrBadName.
func Key(path string) (string, error) {
	key, ok := strings.CutPrefix(path, "/")
	if !ok {
		return "", ncerr.Errorf(ncerr.ErrBadName, "check path", path, "no slash at the start")
	}
	if key == "" {
		return "", nil
	}
	if why := keyFlaw(key); why != "" {
		return "", ncerr.Errorf(ncerr.ErrBadName, "check path", path, "%s", why)
	}
	return key, nil
}

// keyFlaw gives the reason why key is not valid, or nothing.
func keyFlaw(key string) string {
	if key == "" {
		return "empty key"
	}
	start := 0 // of the current segment
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
			return "control character"
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRuneInString(key[i:])
			if r == utf8.RuneError && n == 1 {
				return "not UTF-8"
			}
			if unicode.IsControl(r) {
				return "control character"
			}
			i += n
		}
	}
	return segmentFlaw(key[start:])
}

func segmentFlaw(s string) string {
	switch s {
	case "":
		return "empty segment, or a slash at an end"
	case ".", "..":
		return "segment of dots"
	}
	return ""
}

// normPrefix gives prefix with its trailing slash, which callers may leave out.
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
