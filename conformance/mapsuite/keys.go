package mapsuite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func keyChecks() []Check {
	w := []string{Content}
	return []Check{
		{ID: "map.keys.unicode", Doc: "Keys may contain any Unicode letters and are kept unchanged.", Needs: w, Run: keysRoundTrip("größe/μ", "日本語/温度", "данные", "a b/c d", "𝛼/β")},
		{ID: "map.keys.dots", Doc: "Dots in and around names have no special meaning.", Needs: w, Run: keysRoundTrip(".zgroup", "a/.zarray", "a/0.0.0", "a/...", "a..b", "..a", "v1.2/x", "a/1.", "1", "1.0", "1.1", "1.10", "01.1", "10.0", "10")},
		{ID: "map.keys.deep", Doc: "Keys of many segments work without creating parents.", Needs: w, Run: keysDeep},
		{ID: "map.keys.odd", Doc: "A name that the medium cannot store is refused and never stored under a different name.", Level: conformance.Extended, Needs: w, Run: keysApart(
			"a%2fb", "%", "a+b", "a#b", "a?b", "a&b=c", `a\b`, "c:x", "a*b", `"q"`, "'q'", "<x>", "a|b", "~", "-x", "$x", "a;b", "{x}", "[x]", "@x", "!x", "=", ",", "com1.x", "x.", " y", "y", "y ", "w/ z", "w/z ", "w/z", "0", "00", "007", "7", "-0", "1.0", "1", "1e3", "1000", "0x7")},
		{ID: "map.keys.case", Doc: "Names that differ only in case or Unicode form are distinct keys, or one of them is refused.", Level: conformance.Extended, Needs: w, Run: keysApart(
			"Temp", "temp", "TEMP", "caf\u00e9", "cafe\u0301", "\u212b", "\u00c5", "stra\u00dfe", "STRASSE",
			"join", "jo\u200din", "jo\u00adin", "jo\u200bin", "\ufeffjoin", "\u0131", "i", "\ufb01n", "fin")},
		{ID: "map.keys.escapes", Doc: "URL escapes in keys are literal: different keys stay distinct.", Needs: w, Run: keysApart(
			"a b", "a+b", "a%20b", "a%2Bb", "p%2Fq", "p%2fq", "p/q", "p%252Fq", "%", "%25", "%41", "A", "x%00y", "x%y", "c&amp;d", "c&d", "e;f", "e%3Bf", `g\h`, "g%5Ch", "i?j", "i%3Fj", "k#l", "k%23l", "m=n", "m%3Dn")},
		{ID: "map.keys.long", Doc: "Keys of up to MaxKey bytes, or 65,535 bytes if MaxKey is 0 and the driver can write, can be stored, and keys that differ only in the last byte are distinct.", Needs: w, Run: keysLong},
		{ID: "map.keys.long-names", Doc: "Keys with long segments are distinct, or are refused.", Needs: w, Run: keysLongNames()},
		{ID: "map.keys.apart", Doc: "A key that is a prefix or extension of another key is distinct from it.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("ab/x", "abc")
			for _, k := range []string{"a", "ab", "abc/x", "ab/xy", "b", "x"} {
				s.wantAbsent(k)
			}
			long := "z/0123456789" // stored from the longest name to the shortest
			for n := len(long); n > len("z/"); n-- {
				s.putAll(long[:n], "y"+long[n-1:])
			}
			for n := len(long); n > len("z/"); n-- {
				s.wantOwn(long[:n], "y"+long[n-1:])
			}
		}},
		{ID: "map.keys.opaque", Doc: "Keys that look like the driver's own files have no special meaning.", Level: conformance.Extended, Needs: w, Run: keysApart(
			".tmp", "x.tmp", ".tmp-1", "x~", ".lock", "x.lock", ".#x", "_tmp/x", "lost+found", ".nfs1", "x.part", "__meta/x", "__index__", "_meta", "meta", "index", "data/0", "objects/x")},
		{ID: "map.keys.common", Doc: "Names that programs hide, skip or give to their own files, such as ._x, .DS_Store, Thumbs.db, lost+found, x~, x.tmp, x.part, x.lock, sqlite_x, null and con, are stored, read, listed and deleted like any others.", Needs: w, Run: keysCommon},
	}
}

// common contains segments of keys that drivers may skip or use for their own files.
var common = [...]string{ // never changed
	"._x", ".DS_Store", ".AppleDouble", ".Trashes", ".Trash-1000", ".localized", "__MACOSX", "Thumbs.db", "desktop.ini", "$RECYCLE.BIN", "lost+found", "@eaDir", ".snapshot",
	"x~", "#x#", ".#x", ".~x", "~$x", ".x.swp", "x.bak", "x.old", "x.orig", "x.new", "x.tmp", "x.temp", ".tmp", ".tmp-1", "tmp", "temp", "x.part", "x.partial", "x.crdownload", "x.lock", ".lock", "LOCK",
	".git", ".gitignore", ".svn", "CVS", ".nfs0001", ".fuse_hidden01", ".hidden", ".x", "..x", "_x", "__x", "_SUCCESS", "_temporary", "x-wal", "x-shm", "x-journal", "x.db", "index.html", "manifest",
	"sqlite_x", "sqlite_sequence", "pg_x", "sys", "system.x", "__meta__", "metadata", "version", "schema", "format", "root", "header", "free", "log", "CURRENT", "MANIFEST-1", "information_schema", "null", "NULL", "undefined", "true", "nil", "NaN", "__proto__", "constructor", "select", "con", "nul", "aux.x", "com1", "$x", "-x", "--", "@x",
}

// keysCommon stores each name as an object, as a prefix, and below a prefix. It adds names
// that contain the driver's name, in the forms that drivers use for their own files.
func keysCommon(t conformance.T, e *Env) {
	names := common[:]
	for _, form := range []string{"%s", ".%s", "_%s", ".%s-1", ".%s.tmp", "%s.meta"} {
		if name := fmt.Sprintf(form, e.opener.Describe().Name); !slices.Contains(names, name) {
			names = append(names[:len(names):len(names)], name)
		}
	}
	rounds := 2
	if t.Effort() == conformance.Brief {
		rounds = 1
	}
	for round := range rounds { // a name cannot be an object and a prefix in the same store
		e.keepsNames(t, names, round)
	}
}

// keepsNames stores every other name as an object and the others as prefixes, beginning with
// an object in round 0.
func (e *Env) keepsNames(t conformance.T, names []string, round int) {
	s := e.create(t)
	var keys []string
	for i, name := range names {
		if i%2 == round {
			keys = append(keys, name, "1/"+name, name+"-/x", "2/"+name+"/x")
		} else {
			keys = append(keys, name+"/x", "1/"+name+"/x", name+"-", "2/"+name)
		}
	}
	slices.Sort(keys)
	s.putAll(keys...)
	s.wantOwn(keys...)
	prefixes := []string{"", "1/", "2/"}
	if s.m.Capabilities().List {
		s.wantTree(keys, prefixes, nil)
	}
	if !s.m.Capabilities().Delete {
		s.close()
		return
	}
	for i := 0; i < len(keys); i += 2 {
		s.delete(keys[i])
		s.wantAbsent(keys[i])
	}
	var kept []string
	for i := 1; i < len(keys); i += 2 {
		kept = append(kept, keys[i])
	}
	s.wantOwn(kept...)
	if s.m.Capabilities().List {
		s.wantTree(kept, prefixes, nil)
	}
	s.close()
}

// keysRoundTrip returns a check that stores, reads and lists each key, with its own
// name as content.
func keysRoundTrip(keys ...string) func(conformance.T, *Env) {
	return func(t conformance.T, e *Env) { e.create(t).roundTrip(keys...) }
}

// roundTrip stores each key with its own name as content, and reads and lists them.
func (s *store) roundTrip(keys ...string) {
	s.putAll(keys...)
	s.wantOwn(keys...)
	want := map[string]bool{}
	for _, k := range keys {
		want[k] = true
	}
	s.wantListed(want)
}

// keysDeep stores keys of up to 301 segments, or as many as MaxKey allows.
func keysDeep(t conformance.T, e *Env) {
	s := e.create(t)
	parents := 300
	if most := s.m.Capabilities().MaxKey; most > 0 {
		parents = min(parents, (most-1)/2)
	}
	var keys []string
	for _, n := range []int{parents, min(64, parents), min(29, parents)} {
		keys = append(keys, fmt.Sprintf("%s%d", strings.Repeat("d/", n), len(keys)))
	}
	s.roundTrip(keys...)
}

// keysApart returns a check that stores each key with its own name as content. The driver
// may refuse a key, but must not confuse it with another.
func keysApart(keys ...string) func(conformance.T, *Env) {
	return func(t conformance.T, e *Env) {
		s := e.create(t)
		var kept []string
		for _, k := range keys {
			_, err := s.tryPut(k, k)
			if err == nil {
				kept = append(kept, k)
				continue
			}
			wantKind(t, "put "+show(k), err, ncerr.ErrBadName, ncerr.ErrObjectExists, ncerr.ErrUnsupported)
			t.Logf("%s refused: %v", show(k), err)
		}
		s.wantOwn(kept...)
		set := map[string]bool{}
		for _, k := range kept {
			set[k] = true
		}
		s.wantListed(set)
	}
}

// wantListed checks that exactly these keys are listed, once each.
func (s *store) wantListed(want map[string]bool) {
	if !s.m.Capabilities().RecursiveList {
		return
	}
	listed := map[string]int{}
	for _, k := range s.keys("", driver.ListOptions{Recursive: true}) {
		if listed[k]++; !want[k] {
			s.t.Errorf("%s is listed but was not stored", show(k))
		}
	}
	for k := range want {
		if listed[k] != 1 {
			s.t.Errorf("%s is listed %d times", show(k), listed[k])
		}
	}
}

// keysLong stores pairs of keys of equal length that differ in the last byte.
func keysLong(t conformance.T, e *Env) {
	s := e.create(t)
	limit := s.m.Capabilities().MaxKey
	sure := min(limit, 1<<16) // keys up to this length must work
	switch {
	case limit == 0 && e.openWriter != nil: // the limit of the writer is unknown
		limit, sure = 1<<16, 1024
	case limit == 0: // the portable Map lists no longer keys
		limit, sure = 1<<16-1, 1<<16-1
	}
	lengths := []int{100, 127, 128, 200, 201, 254, 255, 256, 257, 511, 512, 513, 1000, 1023, 1024, 1025, 2000, 2047, 2048, 2049, 4000, 4096, 4097, 8192, sure - 1, sure}
	kept := map[string]bool{}
	for _, n := range lengths {
		if n > limit {
			continue
		}
		for _, end := range []string{"1", "2"} {
			key := strings.Repeat(strings.Repeat("k", 99)+"/", n/100+1)[:n-2] + "e" + end
			if _, err := s.tryPut(key, key); err == nil {
				kept[key] = true
			} else if n <= sure {
				t.Errorf("put of a key of %d bytes: %v", n, err)
			} else if ncerr.KindOf(err) == ncerr.ErrNotFound { // any other kind is a valid refusal
				t.Errorf("put of a key of %d bytes: %v", n, err)
			}
		}
	}
	s.wantOwn(slices.Sorted(maps.Keys(kept))...)
	s.wantListed(kept)
}

// keysLongNames returns a check like keysLong for long segments, whose length media
// limit separately.
func keysLongNames() func(conformance.T, *Env) {
	var keys []string
	for _, n := range []int{63, 64, 99, 100, 127, 128, 199, 200, 201, 250, 254, 255, 256, 300, 500, 1000} {
		for _, end := range []string{"1", "2"} {
			keys = append(keys, strings.Repeat("n", n-1)+end, "d/"+strings.Repeat("n", n-1)+end)
		}
	}
	return keysApart(keys...)
}
