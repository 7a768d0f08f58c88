package mapsuite

import (
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func keyChecks() []Check {
	w := []string{Content}
	return []Check{
		{ID: "map.keys.unicode", Doc: "Keys may hold any letters; they come back as they were given.", Needs: w, Run: keysRoundTrip("größe/μ", "日本語/温度", "данные", "a b/c d", "𝛼/β")},
		{ID: "map.keys.dots", Doc: "Dots inside and around names mean nothing.", Needs: w, Run: keysRoundTrip(".zgroup", "a/.zarray", "a/0.0.0", "a/...", "a..b", "..a", "v1.2/x", "a/1.")},
		{ID: "map.keys.deep", Doc: "Keys of many segments work without preparation.", Needs: w, Run: keysRoundTrip(strings.Repeat("d/", 30)+"x", strings.Repeat("d/", 29)+"y")},
		{ID: "map.keys.odd", Doc: "A name that the medium cannot hold is refused as a bad name; none is stored as another.", Level: conformance.Extended, Needs: w, Run: keysApart(
			"a%2fb", "%", "a+b", "a#b", "a?b", "a&b=c", `a\b`, "c:x", "a*b", `"q"`, "'q'", "<x>", "a|b", "~", "-x", "$x", "a;b", "{x}", "[x]", "@x", "!x", "=", ",", "com1.x", "x.")},
		{ID: "map.keys.case", Doc: "Names that differ in case or in Unicode form only are kept apart, or one of them is refused.", Level: conformance.Extended, Needs: w, Run: keysApart(
			"Temp", "temp", "TEMP", "caf\u00e9", "cafe\u0301", "\u212b", "\u00c5", "stra\u00dfe", "STRASSE")},
		{ID: "map.keys.long", Doc: "Keys up to MaxKey bytes, or 1024 when it is unlimited, work.", Needs: w, Run: keysLong},
		{ID: "map.keys.apart", Doc: "A name that begins like another is another.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("ab/x", "abc")
			for _, k := range []string{"a", "ab", "abc/x", "ab/xy", "b", "x"} {
				s.wantAbsent(k)
			}
		}},
		{ID: "map.keys.opaque", Doc: "The driver gives no meaning to what looks like its own files.", Level: conformance.Extended, Needs: w, Run: keysApart(
			".tmp", "x.tmp", ".tmp-1", "x~", ".lock", "x.lock", ".#x", "_tmp/x", "lost+found", ".nfs1", "x.part")},
	}
}

// keysRoundTrip stores each key with its own name as content.
func keysRoundTrip(keys ...string) func(conformance.T, *Env) {
	return func(t conformance.T, e *Env) {
		s := e.create(t)
		s.putAll(keys...)
		s.wantOwn(keys...)
		if !s.m.Capabilities().RecursiveList {
			return
		}
		listed := map[string]int{}
		for _, k := range s.keys("", driver.ListOptions{Recursive: true}) {
			listed[k]++
		}
		for _, k := range keys {
			if listed[k] != 1 {
				t.Errorf("%q is listed %d times", k, listed[k])
			}
		}
		if len(listed) != len(keys) {
			t.Errorf("want %d keys listed, got %d: %v", len(keys), len(listed), listed)
		}
	}
}

// keysApart stores each key with its own name as content; a key may be
// refused, but none may take another's place.
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
			wantKind(t, "put "+k, err, ncerr.ErrBadName, ncerr.ErrObjectExists, ncerr.ErrUnsupported)
			t.Logf("%q is refused: %v", k, err)
		}
		s.wantOwn(kept...)
	}
}

func keysLong(t conformance.T, e *Env) {
	s := e.create(t)
	n := s.m.Capabilities().MaxKey
	if n == 0 || n > 1<<16 {
		n = 1024
	}
	for _, n := range []int{n - 1, n} {
		key := strings.Repeat(strings.Repeat("k", 99)+"/", n/100+1)[:n]
		if strings.HasSuffix(key, "/") {
			key = key[:n-1] + "e"
		}
		if n%2 == 0 {
			key = "z" + key[1:]
		}
		s.put(key, "long")
		s.want(key, "long")
	}
}
