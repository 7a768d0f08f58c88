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

// exactChecks are about names that are almost the same.
func exactChecks() []Check {
	return []Check{
		{ID: "map.keys.operations", Doc: "Every operation takes a key as it is: none of them finds, changes or lists another that differs in case or form only.", Level: conformance.Extended, Needs: []string{Write, Delete}, Run: keyOperations},
		{ID: "map.list.below", Doc: "A listing gives what is below its prefix and nothing else, whatever the prefix is and wherever it starts: an object, a part of a name, the end of another prefix.", Needs: []string{Content, List}, Run: listBelow},
		{ID: "map.open.case", Doc: "Paths that differ in case only name two stores, unless the medium takes them for one.", Level: conformance.Extended, Needs: []string{Write, FindsMissing}, Run: openCase},
	}
}

// alike are keys that careless media take for one.
var alike = [...][2]string{ // constant
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

// keyOperations puts two such keys and calls everything with each of them,
// while both are there and while one is.
func keyOperations(t conformance.T, e *Env) {
	s := e.create(t)
	turns := 2
	if t.Effort() == conformance.Brief || s.m.Capabilities().Latency == driver.Remote {
		turns = 1
	}
	for _, pair := range alike {
		for i, one := range pair[:turns] {
			other := pair[1-i]
			s.put(one, "the one")
			if _, err := s.tryPut(other, "and the other"); err != nil { // map.keys.case says how
				t.Logf("%s beside %s is refused: %v", show(other), show(one), err)
				s.delete(one)
				continue
			}
			s.exactly(one, "the one")
			s.exactly(other, "and the other")
			if s.m.Capabilities().IfAbsent {
				_, err := s.m.Put(t.Context(), one, driver.Bytes("x"), &driver.PutOptions{IfAbsent: true})
				wantKind(t, "put if absent "+show(one), err, ncerr.ErrObjectExists)
			}
			s.listedBeside(pair, one, other)
			s.delete(other)
			s.exactly(one, "the one")
			s.wantAbsent(other)
			s.listedBeside(pair, one)
			if s.m.Capabilities().IfAbsent {
				if _, err := s.m.Put(t.Context(), other, driver.Bytes("anew"), &driver.PutOptions{IfAbsent: true}); err != nil {
					t.Errorf("put if absent %s beside %s: %v", show(other), show(one), err)
				}
				s.delete(other)
			}
			s.delete(other) // which is not there
			s.exactly(one, "the one")
			s.delete(one)
			s.wantAbsent(one)
			if s.listedBeside(pair); t.Failed() {
				return
			}
		}
	}
}

// exactly reads a key in every way there is.
func (s *store) exactly(key, content string) {
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

// listedBeside checks that of a pair the store has these keys, in every kind of
// listing.
func (s *store) listedBeside(pair [2]string, keys ...string) {
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

// listBelow has prefixes that are objects, that begin or end like others, and
// keys that come right before and behind what is below a prefix.
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
				prefixes[k[:at]+"/"] = true // a part of a name
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

// wantTree checks flat and recursive listings of the prefixes, after each of
// these keys and from the start, in a store that has these keys, sorted.
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
			behind := func(list []string) []string {
				return slices.DeleteFunc(slices.Clone(list), func(k string) bool { return k <= a })
			}
			s.wantList(prefix, driver.ListOptions{StartAfter: a}, behind(next)...)
			if s.m.Capabilities().RecursiveList {
				s.wantList(prefix, driver.ListOptions{Recursive: true, StartAfter: a}, behind(below)...)
			}
		}
		if s.t.Failed() {
			return
		}
	}
}

// openCase makes two stores beside each other, where there may be such: in a
// local directory, or as the driver says.
func openCase(t conformance.T, e *Env) {
	dir, err := os.Stat(filepath.Dir(e.spec.Path))
	if local := err == nil && dir.IsDir(); !strings.Contains(e.spec.Path, "/") || !local && !e.opener.Describe().Siblings {
		return
	}
	upper, lower := *e, *e
	upper.spec.Path += ".Case"
	lower.spec.Path += ".case"
	for _, one := range []*Env{&upper, &lower} {
		t.Cleanup(func() { _ = one.opener.Remove(context.WithoutCancel(t.Context()), one.spec) }) // it may be gone
	}
	s := upper.create(t)
	s.putAll("k")
	s.flush()
	s.close()
	if a, err := os.Stat(upper.spec.Path); err == nil {
		if b, err := os.Stat(lower.spec.Path); err == nil && os.SameFile(a, b) {
			return // the medium takes them for one
		}
	}
	m, err := lower.open(t.Context(), driver.Read)
	if err == nil {
		_ = m.Close(t.Context())
	}
	wantKind(t, "open a path in lower case beside one in upper case", err, ncerr.ErrNoDataset)
	s = lower.create(t)
	s.put("k", "another")
	s.flush()
	s.close()
	upper.mustOpen(t, driver.Read).wantOwn("k")
	wantKind(t, "remove twice", removeTwice(t, &lower), ncerr.ErrNoDataset)
	upper.mustOpen(t, driver.Read).wantOwn("k")
}

func removeTwice(t conformance.T, e *Env) error {
	if err := e.opener.Remove(t.Context(), e.spec); err != nil {
		t.Fatalf("remove: %v", err)
	}
	return e.opener.Remove(t.Context(), e.spec)
}
