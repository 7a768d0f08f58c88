package mapsuite

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// exactChecks returns the checks of names that are almost equal.
func exactChecks() []Check {
	return []Check{
		{ID: "map.keys.operations", Doc: "Every operation takes a key literally; it never finds, changes or lists a key that differs only in case or Unicode form.", Level: conformance.Extended, Needs: []string{Write, Delete}, Run: keyOperations},
		{ID: "map.list.below", Doc: "A listing returns exactly the entries below its prefix, for any StartAfter, even if the prefix without its slash is an object, the start of a longer name or the last segment of another key.", Needs: []string{Content, List}, Run: listBelow},
		{ID: "map.open.paths", Doc: "A path of a local store is literal: characters that URLs, patterns, command lines or connection strings treat specially have no meaning in it. Such a path names a store of its own, or is refused.", Level: conformance.Extended, Needs: []string{Write, FindsMissing}, Run: openPaths},
		{ID: "map.open.case", Doc: "Paths that differ only in case name different stores, unless the medium ignores case.", Level: conformance.Extended, Needs: []string{Write, FindsMissing}, Run: openCase},
	}
}

// similar contains pairs of keys that a store might confuse.
var similar = [...][2]string{ // never changed
	{"Dir/Temp", "Dir/temp"},
	{"Top/k", "top/k"},
	{"UPPER", "upper"},
	{"d/caf\u00e9", "d/cafe\u0301"},
	{"d/\u00c4", "d/\u00e4"},
	{"d/a b", "d/a%20b"},
	{"d/x+y", "d/x y"},
	{"d/s ", "d/s"},
	{"d/1.0", "d/1"},
}

// keyOperations stores the keys of each pair and calls every operation with both, while
// both exist and while only one exists.
func keyOperations(t conformance.T, e *Env) {
	s := e.create(t)
	turns := 2
	if t.Effort() == conformance.Brief || s.m.Capabilities().Latency == driver.Remote {
		turns = 1
	}
	for _, pair := range similar {
		for i, one := range pair[:turns] {
			other := pair[1-i]
			s.put(one, "the one")
			if _, err := s.tryPut(other, "and the other"); err != nil { // checked by map.keys.case
				t.Logf("%s is refused while %s exists: %v", show(other), show(one), err)
				s.delete(one)
				continue
			}
			s.checkReads(one, "the one")
			s.checkReads(other, "and the other")
			if s.m.Capabilities().IfAbsent {
				_, err := s.m.Put(t.Context(), one, driver.Bytes("x"), &driver.PutOptions{IfAbsent: true})
				wantKind(t, "put if absent "+show(one), err, ncerr.ErrObjectExists)
			}
			s.wantListedOf(pair, one, other)
			s.delete(other)
			s.checkReads(one, "the one")
			s.wantAbsent(other)
			s.wantListedOf(pair, one)
			if s.m.Capabilities().IfAbsent {
				if _, err := s.m.Put(t.Context(), other, driver.Bytes("anew"), &driver.PutOptions{IfAbsent: true}); err != nil {
					t.Errorf("put if absent of %s while %s exists: %v", show(other), show(one), err)
				}
				s.delete(other)
			}
			s.delete(other) // it does not exist
			s.checkReads(one, "the one")
			s.delete(one)
			s.wantAbsent(one)
			if s.wantListedOf(pair); t.Failed() {
				return
			}
		}
	}
}

// checkReads reads a key with every read operation.
func (s *store) checkReads(key, content string) {
	s.want(key, content)
	if info, err := s.stat(key); err != nil || info.Size != int64(len(content)) {
		s.t.Errorf("stat %s: want size %d, got %+v, %v", show(key), len(content), info, err)
	}
	if s.m.Capabilities().Ranges {
		if got, _, err := s.tryRange(key, 1, 3); err != nil || string(got) != content[1:4] {
			s.t.Errorf("range of %s: want %q, got %q, %v", show(key), content[1:4], got, err)
		}
	}
	many, ok := s.m.(driver.GetManyer)
	if !ok {
		return
	}
	err := many.GetMany(s.t.Context(), []driver.GetRequest{{Key: key}}, func(_ int, data []byte, _ driver.Info, err error) {
		if err != nil || string(data) != content {
			s.t.Errorf("get many %s: want %q, got %q, %v", show(key), content, data, err)
		}
	})
	if err != nil {
		s.t.Errorf("get many %s: %v", show(key), err)
	}
}

// wantListedOf checks that listings of every kind contain exactly keys, which are zero, one
// or both keys of pair.
func (s *store) wantListedOf(pair [2]string, keys ...string) {
	if !s.m.Capabilities().List {
		return
	}
	prefixes := []string{""}
	for _, k := range pair {
		prefixes = append(prefixes, k[:strings.LastIndexByte(k, '/')+1])
	}
	slices.Sort(prefixes)
	s.wantTree(keys, slices.Compact(prefixes), pair[:1])
}

// listBelow lists prefixes that are objects, or that begin or end like other keys. The
// store also has keys that sort just before and just after the entries of a prefix.
func listBelow(t conformance.T, e *Env) {
	s := e.create(t)
	kept := map[string]bool{}
	for _, key := range []string{
		"k", "k0", "k-", "k.x/y", "kk/k", "kk/kk", "m/k", "m/k-", "m/k0/x", "m/kk", "m/m/k", "m/m/m/k", "m/mm/k", "m0", "m-", "m!/x", "mm/k", "n/m/k", "n/m/m/k",
		"o/p/q.r", "o/p/q/r-", "o/p/q/r/s", "o/p/q/r0", "o/p/q0/r/s", "o/p0", "p/q/r/s", "q/r/s", "M/k", "~",
	} {
		if _, err := s.tryPut(key, key); err == nil {
			kept[key] = true
		} else {
			wantKind(t, "put "+key, err, ncerr.ErrBadName, ncerr.ErrObjectExists, ncerr.ErrUnsupported)
		}
	}
	keys := slices.Sorted(maps.Keys(kept))
	prefixes := map[string]bool{"": true, "x/": true}
	for _, k := range keys {
		for at := range len(k) {
			if k[at] == '/' {
				prefixes[k[:at+1]] = true
			} else if k[:at] != "" && k[at-1] != '/' {
				prefixes[k[:at]+"/"] = true // part of a name
			}
		}
		prefixes[k+"/"], prefixes[k+"/k/"] = true, true
		prefixes[k[strings.LastIndexByte(k, '/')+1:]+"/"] = true
	}
	sorted := slices.Sorted(maps.Keys(prefixes))
	s.wantTree(keys, sorted, nil)
	if t.Effort() == conformance.Brief || s.m.Capabilities().Latency == driver.Remote {
		sorted = []string{"", "k/", "m/", "m/m/", "o/p/q/", "x/"}
	}
	s.wantTree(keys, sorted, []string{"!", "M", "k", "k/", "kz", "m", "m/", "m/k", "m/m/k", "m/m0", "m0", "mz", "o/p/q/r/", "zz"})
}

// wantTree checks flat and recursive listings of the prefixes, from the start and after
// each key of after. The store holds keys, which are sorted.
func (s *store) wantTree(keys, prefixes, after []string) {
	for _, prefix := range prefixes {
		var below, next []string
		for _, k := range keys {
			rest, ok := strings.CutPrefix(k, prefix)
			if !ok {
				continue
			}
			below = append(below, k)
			if i := strings.IndexByte(rest, '/'); i >= 0 {
				k = prefix + rest[:i+1]
			}
			next = append(next, k)
		}
		slices.Sort(below)
		slices.Sort(next)
		next = slices.Compact(next)
		for _, a := range append([]string{""}, after...) {
			rest := func(list []string) []string {
				return slices.DeleteFunc(slices.Clone(list), func(k string) bool { return k <= a })
			}
			s.wantList(prefix, driver.ListOptions{StartAfter: a}, rest(next)...)
			if s.m.Capabilities().RecursiveList {
				s.wantList(prefix, driver.ListOptions{Recursive: true, StartAfter: a}, rest(below)...)
			}
		}
		if s.t.Failed() {
			return
		}
	}
}

// openCase creates two stores next to each other, in a local directory or where the
// driver supports siblings.
func openCase(t conformance.T, e *Env) {
	dir, err := os.Stat(filepath.Dir(e.spec.Path))
	if local := err == nil && dir.IsDir(); !strings.Contains(e.spec.Path, "/") || !local && !e.opener.Describe().Siblings {
		t.Skipf("no store next to %q can be named: it is not in a local directory, and the driver does not declare siblings", e.spec.Path)
	}
	upper, lower := *e, *e
	upper.spec.Path += ".Case"
	lower.spec.Path += ".case"
	for _, one := range []*Env{&upper, &lower} {
		t.Cleanup(func() { _ = one.opener.Remove(context.WithoutCancel(t.Context()), one.spec) }) // the store might no longer exist
	}
	s := upper.create(t)
	s.putAll("k")
	s.flush()
	s.close()
	if a, err := os.Stat(upper.spec.Path); err == nil {
		if b, err := os.Stat(lower.spec.Path); err == nil && os.SameFile(a, b) {
			t.Skipf("the medium ignores case")
		}
	}
	m, err := lower.open(t.Context(), driver.Read)
	if err == nil {
		_ = m.Close(t.Context())
	}
	wantKind(t, "open a path in lower case next to one in upper case", err, ncerr.ErrNoDataset)
	s = lower.create(t)
	s.put("k", "another")
	s.flush()
	s.close()
	upper.mustOpen(t, driver.Read).wantOwn("k")
	if err := lower.opener.Remove(t.Context(), lower.spec); err != nil {
		t.Fatalf("remove: %v", err)
	}
	wantKind(t, "remove again", lower.opener.Remove(t.Context(), lower.spec), ncerr.ErrNoDataset)
	upper.mustOpen(t, driver.Read).wantOwn("k")
}

// oddEnds end the paths of stores that a driver might confuse with each other.
var oddEnds = [...]string{ // never changed
	".a?mode=x", ".a", ".b#x", ".b", ".c%41", ".cA", ".d e", ".d+e", ".f*", ".ff", ".h;x=1", ".h", ".i'x'", ".j&k=[l]", ".\u00e4", ".a\u0308", ".k$HOME", ".k${HOME}", ".k", ".l ", ".l",
}

// openPaths creates stores next to each other in a local directory, whose paths end in
// oddEnds, and reads, replaces and removes them.
func openPaths(t conformance.T, e *Env) {
	if dir, err := os.Stat(filepath.Dir(e.spec.Path)); err != nil || !dir.IsDir() || !strings.Contains(e.spec.Path, "/") {
		t.Skipf("%q is not in a local directory", e.spec.Path)
	}
	plain := e.create(t)
	plain.flush()
	plain.close()
	_, err := os.Lstat(e.spec.Path)
	onDisk := err == nil // not if the driver keeps stores in memory
	var stores []Env
	for _, end := range oddEnds {
		o := *e
		o.spec.Path += end
		t.Cleanup(func() { _ = o.opener.Remove(context.WithoutCancel(t.Context()), o.spec) }) // the store might no longer exist
		t.Step("open in mode create-exclusive", end)
		m, err := o.open(t.Context(), driver.CreateExclusive)
		if err != nil {
			wantKind(t, "create a store whose path ends in "+show(end), err, ncerr.ErrBadName, ncerr.ErrInvalid, ncerr.ErrUnsupported)
			t.Logf("%s refused: %v", show(end), err)
			continue
		}
		s := &store{t: t, m: m}
		s.put("k", end)
		s.flush()
		s.close()
		if _, err := os.Lstat(o.spec.Path); onDisk && err != nil {
			t.Errorf("a store whose path ends in %s is not at this path: %v", show(end), err)
		}
		stores = append(stores, o)
	}
	for i := range stores {
		o := &stores[i]
		end := strings.TrimPrefix(o.spec.Path, e.spec.Path)
		s := o.mustOpen(t, driver.Read)
		s.want("k", end)
		if s.close(); t.Failed() {
			return
		}
		if i%3 > 0 {
			continue
		}
		if err := o.opener.Remove(t.Context(), o.spec); err != nil {
			t.Errorf("remove a store whose path ends in %s: %v", show(end), err)
		}
		if _, err := os.Lstat(o.spec.Path); err == nil {
			t.Errorf("a store whose path ends in %s is still there after it was removed", show(end))
		}
	}
}
