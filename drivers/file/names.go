package file

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// reserved is the prefix of the names of temporary files and directories.
const reserved = ".nczarr.tmp."

func isReserved(name string) bool {
	return len(name) >= len(reserved) && strings.EqualFold(name[:len(reserved)], reserved)
}

// visible reports whether a file name can be a segment of a key.
func visible(name string) bool {
	return !isReserved(name) && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// checkName refuses a key that this driver or the operating system cannot store under
// exactly that name.
func checkName(key string) error {
	for seg := range strings.SplitSeq(key, "/") {
		if isReserved(seg) {
			return ncerr.Errorf(ncerr.ErrBadName, "", "", "names that begin with %q are reserved for temporary files", reserved)
		}
		if why := systemFlaw(seg); why != "" {
			return ncerr.Errorf(ncerr.ErrBadName, "", "", "%q %s", seg, why)
		}
	}
	return nil
}

// split splits a key into its directory, "." for the root, and its last segment.
func split(key string) (dir, name string) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return ".", key
	}
	return key[:i], key[i+1:]
}
