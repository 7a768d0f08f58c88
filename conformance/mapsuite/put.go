package mapsuite

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func putChecks() []Check {
	w := []string{Write}
	overwrite := func(first, second string) func(conformance.T, *Env) {
		return func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("a/k", first)
			s.put("a/k", second)
			s.want("a/k", second)
			if info, err := s.m.Stat(t.Context(), "a/k"); err != nil || info.Size != int64(len(second)) {
				t.Errorf("stat: want size %d, got %+v, %v", len(second), info, err)
			}
		}
	}
	return []Check{
		{ID: "map.put.refused", Doc: "A store that cannot write says so.", Needs: w, Run: overwrite("x", "y"), Refuse: putRefused},
		{ID: "map.put.shorter", Doc: "Overwriting with less leaves no tail.", Needs: w, Run: overwrite(pattern(1, 5000), "short")},
		{ID: "map.put.longer", Doc: "Overwriting with more gives all of it.", Needs: w, Run: overwrite("short", pattern(2, 5000))},
		{ID: "map.put.same-length", Doc: "Overwriting with as much replaces it.", Needs: w, Run: overwrite(pattern(1, 5000), pattern(2, 5000))},
		{ID: "map.put.to-empty", Doc: "Overwriting with nothing leaves an empty object.", Needs: w, Run: overwrite("something", "")},
		{ID: "map.put.from-empty", Doc: "An empty object can be overwritten.", Needs: w, Run: overwrite("", "something")},
		{ID: "map.put.reader", Doc: "A body that is only an io.ReaderAt is stored whole.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			for _, n := range []int{0, 1, 100000, 9<<20 + 3} {
				content := pattern(4, n)
				key := fmt.Sprint("k", n)
				if _, err := s.m.Put(t.Context(), key, readerBody{strings.NewReader(content)}, &driver.PutOptions{}); err != nil {
					t.Fatalf("put of %d bytes: %v", n, err)
				}
				s.want(key, content)
			}
		}},
		{ID: "map.put.body-released", Doc: "The body belongs to the caller again when Put has returned.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			p := []byte("original")
			if _, err := s.m.Put(t.Context(), "k", driver.Bytes(p), &driver.PutOptions{}); err != nil {
				t.Fatalf("put: %v", err)
			}
			copy(p, "scrawled")
			s.want("k", "original")
		}},
		{ID: "map.put.body-fails", Doc: "When the body cannot be read, Put fails and the old content stays.", Needs: w, Run: putBadBody(errBody)},
		{ID: "map.put.body-short", Doc: "When the body ends early, Put fails and the old content stays.", Needs: w, Run: putBadBody(io.EOF)},
		{ID: "map.put.exclusive.below", Doc: "A key below an object is refused, and nothing changes.", Needs: []string{Write, PrefixExclusive}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b")
			for _, k := range []string{"a/b/c", "a/b/c/d"} {
				_, err := s.tryPut(k, "x")
				wantKind(t, "put "+k, err, ncerr.ErrObjectExists)
				s.wantAbsent(k)
			}
			s.wantOwn("a/b")
		}},
		{ID: "map.put.exclusive.above", Doc: "A key that is a prefix of objects is refused until they are gone.", Needs: []string{Write, Delete, PrefixExclusive}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b/c")
			for _, k := range []string{"a", "a/b"} {
				_, err := s.tryPut(k, "x")
				wantKind(t, "put "+k, err, ncerr.ErrObjectExists)
				s.wantAbsent(k)
			}
			s.wantOwn("a/b/c")
			s.delete("a/b/c")
			s.put("a/b", "now free")
			s.want("a/b", "now free")
		}},
	}
}

// putRefused shows that a store that does not declare Write cannot be created,
// or refuses a Put.
func putRefused(t conformance.T, e *Env) {
	m, err := e.open(t.Context(), driver.Create)
	if err == nil {
		s := &store{t: t, m: m}
		t.Cleanup(s.close)
		_, err = s.tryPut("k", "x")
	}
	wantKind(t, "an undeclared write", err, ncerr.ErrUnsupported, ncerr.ErrReadOnly)
}

func putBadBody(cause error) func(conformance.T, *Env) {
	return func(t conformance.T, e *Env) {
		s := e.create(t)
		s.put("old", "old content")
		for _, size := range []int64{10, 300000} {
			for _, k := range []string{"old", "new/k"} {
				_, err := s.m.Put(t.Context(), k, badBody{size: size, good: size / 2, err: cause}, &driver.PutOptions{})
				if err == nil {
					t.Errorf("put %q succeeded with half of its %d bytes", k, size)
				} else if ncerr.KindOf(err) == ncerr.ErrNotFound {
					t.Errorf("put %q: %v", k, err)
				}
			}
		}
		s.want("old", "old content")
		s.wantAbsent("new/k")
		if s.m.Capabilities().RecursiveList {
			s.wantList("", driver.ListOptions{Recursive: true}, "old")
		}
	}
}

func conditionChecks() []Check {
	return []Check{
		{ID: "map.put.if-absent", Doc: "IfAbsent stores only where there is nothing.", Needs: []string{Write, IfAbsent}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			o := &driver.PutOptions{IfAbsent: true}
			if _, err := s.m.Put(t.Context(), "a/k", driver.Bytes("first"), o); err != nil {
				t.Fatalf("put of a new key: %v", err)
			}
			_, err := s.m.Put(t.Context(), "a/k", driver.Bytes("second"), o)
			wantKind(t, "put of an existing key", err, ncerr.ErrObjectExists)
			s.want("a/k", "first")
			s.put("empty", "")
			_, err = s.m.Put(t.Context(), "empty", driver.Bytes("x"), o)
			wantKind(t, "an empty object is an object", err, ncerr.ErrObjectExists)
		}, Refuse: conditionRefused(driver.PutOptions{IfAbsent: true})},
		{ID: "map.put.if-absent.race", Doc: "Of many puts with IfAbsent exactly one wins, and its content is there.", Needs: []string{Write, IfAbsent}, Run: ifAbsentRace},
		{ID: "map.put.if-match", Doc: "IfMatch replaces only that version.", Needs: []string{Write, IfMatch}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			v1 := s.put("k", "one").Version
			info, err := s.m.Put(t.Context(), "k", driver.Bytes("two"), &driver.PutOptions{IfMatch: v1})
			if err != nil {
				t.Fatalf("the version matches: %v", err)
			}
			if info.Version == v1 {
				t.Errorf("the version has not changed: %q", v1)
			}
			_, err = s.m.Put(t.Context(), "k", driver.Bytes("three"), &driver.PutOptions{IfMatch: v1})
			wantKind(t, "an old version", err, ncerr.ErrConflict)
			s.want("k", "two")
		}, Refuse: conditionRefused(driver.PutOptions{IfMatch: "1"})},
		{ID: "map.put.if-match.absent", Doc: "IfMatch on an absent key stores nothing.", Needs: []string{Write, IfMatch}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			v := s.put("k", "x").Version
			_, err := s.m.Put(t.Context(), "none", driver.Bytes("y"), &driver.PutOptions{IfMatch: v})
			wantKind(t, "no object", err, ncerr.ErrConflict, ncerr.ErrNotFound)
			s.wantAbsent("none")
		}},
		{ID: "map.put.if-match.race", Doc: "Of many puts under one version at most one wins, so that none is lost.", Needs: []string{Write, IfMatch}, Run: ifMatchRace},
	}
}

// conditionRefused shows that an undeclared condition is refused, never
// ignored.
func conditionRefused(o driver.PutOptions) func(conformance.T, *Env) {
	return func(t conformance.T, e *Env) {
		m, err := e.open(t.Context(), driver.Create)
		if err != nil {
			return // nothing can be stored here at all
		}
		s := &store{t: t, m: m}
		t.Cleanup(s.close)
		if _, err := s.tryPut("k", "old"); err != nil {
			return
		}
		_, err = s.m.Put(t.Context(), "k", driver.Bytes("new"), &o)
		wantKind(t, "an undeclared condition", err, ncerr.ErrUnsupported)
		s.want("k", "old")
	}
}

// racers is how many puts race, and rivalry how often.
const racers = 8

func rivalry(t conformance.T) int {
	if t.Effort() == conformance.Brief {
		return 10
	}
	return 100
}

// rally is a point at which the bodies of racing puts meet. Whoever checks its
// condition before it reads the body has by then let all of them through.
type rally struct {
	met    atomic.Bool // all have met once: bodies are not read under a lock
	missed int         // rounds in which not all met
}

// missable is how many rounds the bodies may miss each other before they are
// taken to be read under a lock, and nobody waits any more. They wait longer
// each time: a slow machine needs that.
const missable = 5

// bodies returns the bodies of one round, and a function to call at its end.
func (r *rally) bodies(contents []string) (bodies []driver.Body, end func()) {
	var waiting atomic.Int64
	all := make(chan struct{})
	var alone atomic.Bool
	patience := gatePatience << r.missed
	switch {
	case r.met.Load():
		patience = time.Second
	case r.missed >= missable:
		alone.Store(true)
	}
	bodies = make([]driver.Body, len(contents))
	for i, content := range contents {
		bodies[i] = &gatedBody{Bytes: driver.Bytes(content), pass: func() {
			if waiting.Add(1) == int64(len(contents)) {
				close(all)
			}
			if alone.Load() {
				return
			}
			select {
			case <-all:
				r.met.Store(true)
			case <-time.After(patience):
				alone.Store(true)
			}
		}}
	}
	return bodies, func() {
		if alone.Load() {
			r.missed = min(r.missed+1, missable)
		}
	}
}

// together puts the contents at one time under one condition, and returns the
// racers that won. Every second round has plain bodies.
func (r *rally) together(t conformance.T, s *store, round int, key string, contents []string, o driver.PutOptions, loser ncerr.Kind) []int {
	bodies, end := r.bodies(contents)
	defer end()
	won := make([]bool, len(contents))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range contents {
		body := bodies[i]
		if round%2 == 1 {
			body = driver.Bytes(contents[i])
		}
		wg.Go(func() {
			<-start
			_, err := s.m.Put(t.Context(), key, body, &o)
			if won[i] = err == nil; err != nil {
				wantKind(t, "a loser", err, loser)
			}
		})
	}
	t.Doing("put", key, "several times at once")
	close(start)
	wg.Wait()
	var winners []int
	for i := range won {
		if won[i] {
			winners = append(winners, i)
		}
	}
	return winners
}

func ifAbsentRace(t conformance.T, e *Env) {
	s := e.create(t)
	var r rally
	for round := 0; round < rivalry(t) && !t.Failed(); round++ {
		key := fmt.Sprintf("race/%d", round)
		var contents []string
		for i := range racers {
			contents = append(contents, pattern(byte(i), 2000+i))
		}
		winners := r.together(t, s, round, key, contents, driver.PutOptions{IfAbsent: true}, ncerr.ErrObjectExists)
		if len(winners) != 1 {
			t.Errorf("round %d: %d winners", round, len(winners))
			continue
		}
		s.want(key, contents[winners[0]])
	}
}

// ifMatchRace appends to an object under the version that all racers have
// read. A store may let nobody win, and then they try again.
func ifMatchRace(t conformance.T, e *Env) {
	s := e.create(t)
	var r rally
	content := "x"
	s.put("n", content)
	idle := 0
	for round := 0; round < rivalry(t) && !t.Failed(); round++ {
		data, info, err := s.tryGet("n", driver.GetOptions{})
		if err != nil || string(data) != content {
			t.Errorf("round %d: want %s, got %s, %v", round, show(content), show(string(data)), err)
			return
		}
		var contents []string
		for i := range racers {
			contents = append(contents, content+string(rune('a'+i)))
		}
		winners := r.together(t, s, round, "n", contents, driver.PutOptions{IfMatch: info.Version}, ncerr.ErrConflict)
		switch {
		case len(winners) > 1:
			t.Errorf("round %d: %d of %d puts under one version succeeded, so all but one are lost", round, len(winners), racers)
		case len(winners) == 1:
			content, idle = contents[winners[0]], 0
		default:
			if idle++; idle == 10 {
				t.Errorf("in 10 rounds nobody could put under the current version")
			}
		}
	}
	s.want("n", content)
}

func deleteChecks() []Check {
	needs := []string{Write, Delete}
	return []Check{
		{ID: "map.delete.gone", Doc: "A deleted object is absent and can be stored anew.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b", "a/c")
			s.delete("a/b")
			s.wantAbsent("a/b")
			s.wantOwn("a/c")
			s.put("a/b", "again")
			s.want("a/b", "again")
		}, Refuse: func(t conformance.T, e *Env) {
			m, err := e.open(t.Context(), driver.Create)
			if err != nil {
				return // nothing can be stored here at all
			}
			s := &store{t: t, m: m}
			t.Cleanup(s.close)
			if _, err := s.tryPut("k", "k"); err != nil {
				return
			}
			err = m.Delete(t.Context(), "k", &driver.DeleteOptions{})
			wantKind(t, "an undeclared delete", err, ncerr.ErrUnsupported)
			s.wantOwn("k")
		}},
		{ID: "map.delete.absent", Doc: "Deleting what is not there is no error.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b")
			for _, k := range []string{"x", "a/x", "x/y/z", "a/b/c"} {
				s.delete(k)
			}
			s.delete("a/b")
			s.delete("a/b")
		}},
		{ID: "map.delete.prefix", Doc: "Deleting a key that is only a prefix removes nothing.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b/c", "a/d")
			if err := s.m.Delete(t.Context(), "a/b", &driver.DeleteOptions{}); err != nil {
				t.Errorf("delete of a prefix: %v", err)
			}
			s.wantOwn("a/b/c", "a/d")
		}},
		{ID: "map.delete.unlists", Doc: "When its last object is gone, a prefix is gone.", Needs: []string{Write, Delete, List}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b/c", "a/b/d", "e")
			s.delete("a/b/c")
			s.wantList("a/", driver.ListOptions{}, "a/b/")
			s.delete("a/b/d")
			s.wantList("a/", driver.ListOptions{})
			s.wantList("", driver.ListOptions{}, "e")
		}},
	}
}
