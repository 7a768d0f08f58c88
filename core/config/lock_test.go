package config_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"pgregory.net/rapid"
)

var digest = strings.Repeat("0123456789abcdef", 4)

const wantLock = `# Plugins that may be launched: version, and SHA-256 of the executable by platform.
format = 1

[plugins."nczarr-driver-tape"]
version = "1.2.0"
sha256."darwin/arm64" = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
sha256."linux/amd64" = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

[plugins."nczarr-filter-a.b"]
version = "v0.0.0-20260101-abcdef+meta"
sha256."linux/arm64" = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
`

func TestLockGolden(t *testing.T) {
	t.Parallel()
	var l config.Lock
	l.Set(config.LockedPlugin{Name: "nczarr-filter-a.b", Version: "old", SHA256: map[string]string{"linux/arm64": digest}})
	l.Set(config.LockedPlugin{Name: "nczarr-driver-tape", Version: "1.2.0", SHA256: map[string]string{"linux/amd64": digest, "darwin/arm64": digest}})
	l.Set(config.LockedPlugin{Name: "gone", Version: "1", SHA256: map[string]string{"linux/arm64": digest}})
	l.Set(config.LockedPlugin{Name: "nczarr-filter-a.b", Version: "v0.0.0-20260101-abcdef+meta", SHA256: map[string]string{"linux/arm64": digest}})
	if !l.Remove("gone") || l.Remove("gone") {
		t.Error("Remove is wrong about what was there")
	}
	got, err := l.Marshal()
	if err != nil || string(got) != wantLock {
		t.Fatalf("want\n%s\ngot %v\n%s", wantLock, err, got)
	}
	back, err := config.ParseLock("plugins.lock", got)
	if err != nil || !reflect.DeepEqual(back.Plugins, l.Plugins) {
		t.Errorf("want %+v\n got %+v, %v", l, back, err)
	}
	if p, ok := back.Find("nczarr-driver-tape"); !ok || p.Version != "1.2.0" {
		t.Errorf("Find: %+v, %v", p, ok)
	}
	if _, ok := back.Find("nczarr"); ok {
		t.Error("Find finds what is not there")
	}
}

func TestParseLockErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                                      `"l": invalid argument: the line "format = 1" is missing`,
		"format = 2":                                            `"l:1": invalid argument: this version reads format 1 only`,
		"format = \"1\"":                                        `"l:1": invalid argument: this version reads format 1 only`,
		"format = 1\nplugin = 1":                                `"l:2": invalid argument: unknown key "plugin"; did you mean "plugins"?`,
		"format = 1\nplugins = 1":                               `"l:2": invalid argument: plugins must be a table`,
		"format = 1\n[plugins]\na = 1":                          `"l:3": invalid argument: plugins.a must be a table`,
		"format = 1\n[plugins.a]":                               `"l:2": invalid argument: plugin "a": a version is needed`,
		"format = 1\n[plugins.a]\nversion = 1":                  `"l:3": invalid argument: want a string, found an integer`,
		"format = 1\n[plugins.a]\nversion = \"1\"":              `"l:2": invalid argument: plugin "a": at least one sha256 is needed`,
		"format = 1\n[plugins.a]\nversion = \"a b\"":            `"l:2": invalid argument: plugin "a": a version is needed, in printable`,
		"format = 1\n[plugins.\".a\"]\nversion = \"1\"":         `"l:2": invalid argument: plugin ".a": the name may have`,
		"format = 1\n[plugins.a]\nverson = \"1\"":               `"l:3": invalid argument: unknown key "verson"; did you mean "version"?`,
		"format = 1\n[plugins.a]\nsha256 = \"1\"":               `"l:3": invalid argument: want a table of platforms, found a string`,
		"format = 1\n[plugins.a]\n\nsha256.\"linux/x\" = \"1\"": `"l:4": invalid argument: the sha256 for linux/x is not 64 lower-case`,
		"format = 1\n[plugins.a.sha256]\n\"linux/x\" = 1":       `"l:3": invalid argument: the sha256 for linux/x is not 64 lower-case`,
		"format = 1\n[plugins.a.sha256]\nlinux = \"1\"":         `"l:3": invalid argument: "linux" is not a platform such as "linux/amd64"`,
		"format = 1\n[plugins.a]\nversion=\"1\"\n[plugins.a]":   `"l:4": invalid argument: `,
	} {
		_, err := config.ParseLock("l", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "read configuration "+want) || ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("%q\nwant %q\n got %v", text, want, err)
		}
	}
}

func TestMarshalErrors(t *testing.T) {
	t.Parallel()
	sums := map[string]string{"linux/amd64": digest}
	for name, plugins := range map[string][]config.LockedPlugin{
		"twice":      {{"a", "1", sums}, {"a", "2", sums}},
		"no name":    {{"", "1", sums}},
		"bad name":   {{"a/b", "1", sums}},
		"no version": {{"a", "", sums}},
		"upper case": {{"a", "1", map[string]string{"linux/amd64": strings.ToUpper(digest)}}},
	} {
		if got, err := (&config.Lock{Plugins: plugins}).Marshal(); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("%s: got %v, %s", name, err, got)
		}
	}
}

// TestLockIsDeterministic: the order in which pins are set does not show, and
// what is written is read back.
func TestLockIsDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-z][a-z0-9._-]{0,6}`), rapid.ID[string]).Draw(t, "names")
		var a, b config.Lock
		pin := func(name string) config.LockedPlugin {
			return config.LockedPlugin{Name: name, Version: "v" + name, SHA256: map[string]string{"linux/amd64": digest, "plan9/arm": digest}}
		}
		for _, n := range names {
			a.Set(pin(n))
		}
		for _, n := range rapid.Permutation(names).Draw(t, "order") {
			b.Set(pin(n))
		}
		x, err1 := a.Marshal()
		y, err2 := b.Marshal()
		if err1 != nil || err2 != nil || !bytes.Equal(x, y) {
			t.Fatalf("%v %v\n%s\n%s", err1, err2, x, y)
		}
		back, err := config.ParseLock("l", x)
		if err != nil || !reflect.DeepEqual(back.Plugins, a.Plugins) {
			t.Fatalf("%v\nwant %+v\n got %+v", err, a.Plugins, back)
		}
	})
}
