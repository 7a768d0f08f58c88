package mapsuite

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// tree contains the keys that the checks of listings store.
var tree = [...]string{".zgroup", "a-b", "a/.zarray", "a/0/0", "a/0/1", "a/1/0", "ab/x", "b", "c/d/e/f"} // never changed

func listChecks() []Check {
	needs := []string{Content, List}
	deep := []string{Content, List, RecursiveList}
	on := func(f func(s *store)) func(conformance.T, *Env) {
		return func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll(tree[:]...)
			f(s)
		}
	}
	flat, all := driver.ListOptions{}, driver.ListOptions{Recursive: true}
	return []Check{
		{ID: "map.list.delimited", Doc: "A listing that is not recursive returns each object and each prefix directly below its prefix once. Prefixes have a trailing slash.", Needs: needs, Refuse: listRefused, Run: on(func(s *store) {
			s.wantList("", flat, ".zgroup", "a-b", "a/", "ab/", "b", "c/")
			s.wantList("a/", flat, "a/.zarray", "a/0/", "a/1/")
			s.wantList("c/d/", flat, "c/d/e/")
		})},
		{ID: "map.list.recursive", Doc: "A recursive listing returns all objects below the prefix and no prefixes.", Needs: deep, Run: on(func(s *store) {
			s.wantList("", all, tree[:]...)
			s.wantList("a/", all, "a/.zarray", "a/0/0", "a/0/1", "a/1/0")
			s.wantList("c/", all, "c/d/e/f")
		})},
		{ID: "map.list.segment-wise", Doc: "A prefix matches whole segments: a/ does not contain ab/x or a-b.", Needs: deep, Run: on(func(s *store) {
			s.wantList("a/", all, "a/.zarray", "a/0/0", "a/0/1", "a/1/0")
			s.wantList("a/0/", all, "a/0/0", "a/0/1")
			s.wantList("ab/", all, "ab/x")
			s.wantList("ab/", flat, "ab/x")
		})},
		{ID: "map.list.literal", Doc: "A prefix is literal: _ % * ? and brackets match only themselves, and matching is case-sensitive.", Needs: needs, Run: listLiteral},
		{ID: "map.list.missing-prefix", Doc: "The listing of a missing prefix is empty.", Needs: needs, Run: on(func(s *store) {
			for _, p := range []string{"x/", "a/x/", "x/y/z/", "A/0/x/"} {
				s.wantList(p, flat)
			}
		})},
		{ID: "map.list.object-prefix", Doc: "A listing with an object as its prefix is empty if nothing is below the object.", Needs: needs, Run: on(func(s *store) {
			s.wantList("b/", flat)
			s.wantList("a/.zarray/", flat)
			s.wantList("a/.zarray/x/", flat)
		})},
		{ID: "map.list.both", Doc: "A name that is both an object and a prefix is listed as both.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			caps := s.m.Capabilities()
			if caps.PrefixExclusive {
				t.Skipf("the driver declares PrefixExclusive, so no name can be both")
			}
			s.putAll("k", "l/m")
			if _, err := s.tryPut("k/x", "k/x"); ncerr.KindOf(err) == ncerr.ErrObjectExists && caps.Latency == driver.Remote {
				t.Skipf("the server refuses a key below an object: %v", err) // the driver cannot know in advance whether its server does
			}
			s.putAll("k/x", "k/y", "k/y/z")
			s.wantList("", flat, "k", "k/", "l/")
			s.wantList("k/", flat, "k/x", "k/y", "k/y/")
			if s.m.Capabilities().RecursiveList {
				s.wantList("", all, "k", "k/x", "k/y", "k/y/z", "l/m")
			}
		}},
		{ID: "map.list.empty-store", Doc: "The listing of an empty store is empty.", Needs: needs, Run: func(t conformance.T, e *Env) {
			e.create(t).wantList("", flat)
		}},
		{ID: "map.list.order", Doc: "If the driver declares ordered listings, entries are in byte order of their keys, whether they are flushed or not; the key of a prefix includes the trailing slash.", Needs: []string{Content, List, OrderedList}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			// Entries that sort just after a prefix, non-ASCII names, and names that
			// UTF-16 orders differently.
			objects := []string{"10", "9", "Z", "a-", "a.b/x", "a/B", "a/b-", "a/b/c", "a/x", "a0", "b/0", "b/~~", "b/ä", "b/日", "b/𝛼/c", "b0/x", "b1", "~", "ä", "～", "𝛼"}
			for i := range objects {
				if i == len(objects)/2 {
					s.flush() // a driver may keep the other objects elsewhere until the next flush
				}
				s.putAll(objects[i*11%len(objects)])
			}
			s.wantList("", flat, "10", "9", "Z", "a-", "a.b/", "a/", "a0", "b/", "b0/", "b1", "~", "ä", "～", "𝛼")
			s.wantList("a/", flat, "a/B", "a/b-", "a/b/", "a/x")
			s.wantList("b/", flat, "b/0", "b/~~", "b/ä", "b/日", "b/𝛼/")
			if s.m.Capabilities().RecursiveList {
				s.wantList("", all, objects...)
			}
		}},
		{ID: "map.list.start-after", Doc: "StartAfter skips all entries up to and including that key.", Needs: needs, Run: on(func(s *store) {
			s.wantList("", driver.ListOptions{StartAfter: "a-b"}, "a/", "ab/", "b", "c/")
			s.wantList("", driver.ListOptions{StartAfter: "a."}, "a/", "ab/", "b", "c/")
			s.wantList("", driver.ListOptions{StartAfter: "a/"}, "ab/", "b", "c/")
			s.wantList("", driver.ListOptions{StartAfter: "a/0/0"}, "ab/", "b", "c/")
			s.wantList("a/", driver.ListOptions{StartAfter: "a/0/0"}, "a/1/")
			s.wantList("", driver.ListOptions{StartAfter: "zzz"})
			s.wantList("", driver.ListOptions{StartAfter: "B"}, "a-b", "a/", "ab/", "b", "c/")
			s.wantList("", driver.ListOptions{StartAfter: "A/0"}, "a-b", "a/", "ab/", "b", "c/")
		})},
		{ID: "map.list.start-after.recursive", Doc: "A recursive listing resumes after any key, whether it exists or not.", Needs: deep, Run: on(func(s *store) {
			for i := range tree {
				s.wantList("", driver.ListOptions{Recursive: true, StartAfter: tree[i]}, tree[i+1:]...)
				s.wantList("", driver.ListOptions{Recursive: true, StartAfter: tree[i] + "\x00"}, tree[i+1:]...)
			}
			s.wantList("a/", driver.ListOptions{Recursive: true, StartAfter: "a/0"}, "a/0/0", "a/0/1", "a/1/0")
			s.wantList("a/", driver.ListOptions{Recursive: true, StartAfter: "A"}, "a/.zarray", "a/0/0", "a/0/1", "a/1/0")
			s.wantList("a/", driver.ListOptions{Recursive: true, StartAfter: "b"})
		})},
		{ID: "map.list.sizes", Doc: "In a listing, a size is correct or -1, and a version or time is unset or equal to the one from Stat.", Needs: deep, Run: on(func(s *store) {
			long := map[string]int{"long/a": 5000, "long/b": 300_000}
			for key, n := range long {
				s.put(key, pattern(1, n))
			}
			for _, opts := range []driver.ListOptions{all, {Recursive: true, Info: true}} {
				for e, err := range s.m.List(s.t.Context(), "", &opts) {
					if err != nil {
						s.t.Fatalf("list: %v", err)
					}
					info, err := s.stat(e.Key)
					if err != nil {
						s.t.Fatalf("stat %q: %v", e.Key, err)
					}
					n, is := long[e.Key]
					if !is {
						n = len(e.Key)
					}
					if e.Info.Size != -1 && e.Info.Size != int64(n) {
						s.t.Errorf("%q has %d bytes, but is listed with size %d", e.Key, n, e.Info.Size)
					}
					if e.Info.Version != "" && e.Info.Version != info.Version || !e.Info.ModTime.IsZero() && !e.Info.ModTime.Equal(info.ModTime) {
						s.t.Errorf("%q is listed with version %q and time %v, but stat returns version %q and time %v", e.Key, e.Info.Version, e.Info.ModTime, info.Version, info.ModTime)
					}
				}
			}
		})},
		{ID: "map.list.beside", Doc: "Other calls work while listings are in progress, even inside the loop of a listing. For a driver in another process, map.lasting.pages has listings that no buffer between the processes holds.", Needs: []string{Write, Delete, List}, Run: besideListing},
		{ID: "map.list.stop", Doc: "A listing can be abandoned at any entry and repeated.", Needs: needs, Run: on(func(s *store) {
			for n := range 4 {
				i := 0
				for _, err := range s.m.List(s.t.Context(), "", &flat) {
					if err != nil {
						s.t.Fatalf("list: %v", err)
					}
					if i++; i > n {
						break
					}
				}
			}
			s.wantList("a/", flat, "a/.zarray", "a/0/", "a/1/")
		})},
		{ID: "map.list.many", Doc: "Listings of more than one page are complete and without duplicates, even if objects that sort before the next entry are deleted or added during the listing.", Needs: needs, Run: listMany},
	}
}

// listLiteral lists prefixes with characters that are patterns in query languages, next
// to keys that those patterns match. A medium may refuse some of the names.
func listLiteral(t conformance.T, e *Env) {
	s := e.create(t)
	kept := map[string]bool{}
	dirs := []string{"a_b", "axb", "a%b", "aXYb", "a*b", "a?b", "[ab]", "a", "A", "b", "temp", "Temp", "a.b", "^a", "a$", "'x'", "(a|b)", "caf\u00e9", "cafe\u0301"}
	for _, d := range dirs {
		key := d + "/k"
		if _, err := s.tryPut(key, key); err == nil {
			kept[d+"/"] = true
		} else {
			wantKind(t, "put "+key, err, ncerr.ErrBadName, ncerr.ErrObjectExists, ncerr.ErrUnsupported)
		}
	}
	for _, d := range dirs {
		var want []string
		if kept[d+"/"] {
			want = append(want, d+"/k")
		}
		s.wantList(d+"/", driver.ListOptions{}, want...)
		if s.m.Capabilities().RecursiveList {
			s.wantList(d+"/", driver.ListOptions{Recursive: true}, want...)
		}
	}
	s.wantList("", driver.ListOptions{}, slices.Sorted(maps.Keys(kept))...)
}

// besideListing nests more listings than a connection pool has connections, pauses each one
// at its first entry, and makes all other calls meanwhile. A driver that holds a lock or a
// transaction until a listing ends deadlocks here.
func besideListing(t conformance.T, e *Env) {
	s := e.create(t)
	const n = 600
	for i := range n {
		s.put(fmt.Sprintf("d/%03d", i), "")
	}
	var seen map[string]bool
	var nest func(depth int)
	nest = func(depth int) {
		if depth == 0 {
			s.put("k", "old")
			s.want("k", "old")
			s.put("k", pattern(1, 200_000)) // large enough that the store grows
			s.want("k", pattern(1, 200_000))
			if _, err := s.stat("k"); err != nil {
				t.Errorf("stat: %v", err)
			}
			s.delete("k")
			s.wantAbsent("k")
			s.flush()
			seen = map[string]bool{}
			for e, err := range s.m.List(t.Context(), "d/", &driver.ListOptions{}) {
				if err != nil {
					t.Fatalf("list: %v", err)
				}
				seen[e.Key] = true
				s.delete(e.Key) // delete while listing
			}
			return
		}
		t.Step("list", "d/", "with", strconv.Itoa(depth), "nested listings to go")
		entries := 0
		for _, err := range s.m.List(t.Context(), "d/", &driver.ListOptions{}) {
			if err != nil {
				t.Errorf("list: %v", err)
				return
			}
			if entries++; entries == 1 {
				nest(depth - 1)
			}
			if depth%2 == 0 { // abandon half of the listings; the others continue to the end
				break
			}
		}
	}
	nest(20)
	if len(seen) != n {
		t.Errorf("a listing inside other listings returned %d of %d objects", len(seen), n)
	}
}

func listMany(t conformance.T, e *Env) {
	s := e.create(t)
	long := 180 // because a transport may run far ahead of the caller if entries are short
	if most := s.m.Capabilities().MaxKey; most > 0 {
		long = min(long, max(0, most-len("big/c.1202.")))
	}
	var want []string
	for i := range 1203 {
		key := fmt.Sprintf("big/c.%d.%s", i, strings.Repeat("x", long))
		s.put(key, "")
		want = append(want, key)
	}
	for i := range 1100 {
		s.put(fmt.Sprintf("wide/%d/x", i), "")
	}
	slices.Sort(want)
	s.wantList("big/", driver.ListOptions{}, want...)
	s.wantList("", driver.ListOptions{}, "big/", "wide/")
	if n := len(s.keys("wide/", driver.ListOptions{})); n != 1100 {
		t.Errorf("want 1100 prefixes, got %d", n)
	}
	if s.m.Capabilities().RecursiveList {
		if n := len(s.keys("", driver.ListOptions{Recursive: true})); n != 2303 {
			t.Errorf("want 2303 objects, got %d", n)
		}
		s.wantMany("big/", driver.ListOptions{Recursive: true}, want)
	}
	rest := want[700:]
	s.wantList("big/", driver.ListOptions{StartAfter: want[699]}, rest...)
	s.abandonListings("big/")
	s.cancelListing("big/", len(want), false)
	s.wantList("big/", driver.ListOptions{}, want...)
	s.wantSteady("big/", want, 300)
}

// wantSteady changes a store during four listings, each of which must return every
// remaining key of keys once. During the first, it overwrites each of the first n entries
// when it is listed. During the second, it adds objects that sort before the current entry,
// at each of the first n entries. During the third, it deletes every other key at the first
// entry, because a transport may run ahead of its caller. During the fourth, it deletes each
// entry when it is listed. A driver that continues a listing by the number of entries so
// far, by looking up the last entry, or in the order in which objects were stored, skips or
// repeats keys. The keys are in byte order.
func (s *store) wantSteady(prefix string, keys []string, n int) {
	if caps := s.m.Capabilities(); !caps.Write || !caps.Delete {
		return
	}
	for _, step := range []struct {
		what   string
		change func(key string, seen int)
	}{
		{"it is overwritten", func(key string, seen int) {
			if seen <= n {
				s.put(key, "")
			}
		}},
		{"objects before it are added", func(_ string, seen int) {
			if seen <= n {
				s.put(prefix+"!"+strconv.Itoa(seen), "")
			}
		}},
		{"its neighbors are deleted", func(_ string, seen int) {
			if seen > 1 {
				return
			}
			var kept []string
			for i, key := range keys {
				if i%2 == 0 {
					kept = append(kept, key)
				} else {
					s.delete(key)
				}
			}
			keys = kept
		}},
		{"objects before it are deleted", func(key string, _ int) { s.delete(key) }},
	} {
		listed := map[string]int{}
		s.t.Step("list", prefix)
		for e, err := range s.m.List(s.t.Context(), prefix, &driver.ListOptions{}) {
			if err != nil {
				s.t.Fatalf("list %s: %v", show(prefix), err)
			}
			listed[e.Key]++
			step.change(e.Key, len(listed))
		}
		for _, key := range keys {
			if listed[key] != 1 {
				s.t.Errorf("list %s: %s is listed %d times while %s", show(prefix), show(key), listed[key], step.what)
				return
			}
		}
	}
}

// listRefused checks that an undeclared listing fails rather than being empty.
func listRefused(t conformance.T, e *Env) {
	m, err := e.fresh(t.Context(), driver.Create)
	if err != nil {
		return // this Map cannot store objects
	}
	s := &store{t: t, m: m}
	t.Cleanup(s.close)
	var last error
	for _, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
		last = err
	}
	wantKind(t, "list, which the driver does not declare", last, ncerr.ErrUnsupported)
}
