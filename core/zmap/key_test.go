package zmap_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

var goodKeys = []string{
	"a", "a/b", ".zgroup", "a/.zarray", "temp/0.0", "...", "a..b", ".a", "a.", "..a/b..",
	"größe/μ", "日本語", "a b", `a\b`, "C:", "%2e", "a\u00a0b", "\u2028",
}

var badKeys = []string{
	"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/../b", "a/..", "..//",
	"a\x00b", "a\n", "\x7f", "a\u0085b", "\xff", "a\xc3", "\xed\xa0\x80",
}

func TestValidKey(t *testing.T) {
	t.Parallel()
	for _, k := range goodKeys {
		if err := zmap.ValidKey(k); err != nil {
			t.Errorf("ValidKey(%q): %v", k, err)
		}
	}
	for _, k := range badKeys {
		if err := zmap.ValidKey(k); !errors.Is(err, ncerr.ErrBadName) {
			t.Errorf("%q: want ErrBadName, got %v", k, err)
		}
	}
}

// slowValid is a simple implementation of ValidKey's rule.
func slowValid(key string) bool {
	if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return false
	}
	for s := range strings.SplitSeq(key, "/") {
		if s == "" || s == "." || s == ".." {
			return false
		}
	}
	return true
}

func FuzzKey(f *testing.F) {
	for _, k := range append(goodKeys, badKeys...) {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, key string) {
		want := slowValid(key)
		if got := zmap.ValidKey(key) == nil; got != want {
			t.Errorf("%q: want %v, got %v", key, want, got)
		}
	})
}
