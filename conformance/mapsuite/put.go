package mapsuite

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strconv"
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
	overwrite := func(sizes ...int) func(conformance.T, *Env) {
		return func(t conformance.T, e *Env) {
			s := e.create(t)
			for i, n := range sizes {
				content := pattern(byte(i+1), n)
				s.put("a/k", content)
				s.want("a/k", content)
				if info, err := s.m.Stat(t.Context(), "a/k"); err != nil || info.Size != int64(len(content)) {
					t.Errorf("stat: want size %d, got %+v, %v", len(content), info, err)
				}
			}
		}
	}
	return []Check{
		{ID: "map.put.refused", Doc: "A store that cannot write refuses a put.", Needs: w, Run: overwrite(1, 1), Refuse: putRefused},
		{ID: "map.put.shorter", Doc: "Overwriting with shorter content leaves no old bytes.", Needs: w, Run: overwrite(3<<20, 1<<20+5, 5000, 5)},
		{ID: "map.put.longer", Doc: "Overwriting with longer content stores all of it.", Needs: w, Run: overwrite(5, 5000, 1<<20+5, 3<<20)},
		{ID: "map.put.same-length", Doc: "Overwriting with content of the same length replaces it, even if only one byte differs.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			for _, at := range []int{0, 1, 2500, 4999} {
				content := []byte(pattern(1, 5000))
				s.put("a/k", string(content))
				content[at]++
				s.put("a/k", string(content))
				s.want("a/k", string(content))
			}
			overwrite(5000, 5000)(t, e)
		}},
		{ID: "map.put.contents", Doc: "Content is opaque: Get returns exactly the bytes that Put stored.", Needs: []string{Content}, Run: contents},
		{ID: "map.put.to-empty", Doc: "Overwriting with empty content leaves an empty object.", Needs: w, Run: overwrite(9, 0)},
		{ID: "map.put.from-empty", Doc: "An empty object can be overwritten.", Needs: w, Run: overwrite(0, 9)},
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
		{ID: "map.put.body-released", Doc: "Put does not use the body after it returns.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			p := []byte("original")
			if _, err := s.m.Put(t.Context(), "k", driver.Bytes(p), &driver.PutOptions{}); err != nil {
				t.Fatalf("put: %v", err)
			}
			if string(p) != "original" {
				t.Errorf("put changes its body to %q", p)
			}
			copy(p, "scrawled")
			for i := range 5 { // these puts may reuse the body's memory
				s.put(fmt.Sprint("other", i), "scrawled")
			}
			s.want("k", "original")
		}},
		{ID: "map.put.body-fails", Doc: "When the body cannot be read, Put fails and the old content is kept.", Needs: w, Run: putBadBody(errBody)},
		{ID: "map.put.body-short", Doc: "When the body ends early, Put fails and the old content is kept.", Needs: w, Run: putBadBody(io.EOF)},
		{ID: "map.put.exclusive.below", Doc: "A put of a key below an object is refused and changes nothing.", Needs: []string{Write, PrefixExclusive}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b")
			for _, k := range []string{"a/b/c", "a/b/c/d"} {
				_, err := s.tryPut(k, "x")
				wantKind(t, "put "+k, err, ncerr.ErrObjectExists)
				s.wantAbsent(k)
			}
			s.wantOwn("a/b")
		}},
		{ID: "map.put.exclusive.above", Doc: "A put of a key that is a prefix of objects is refused until they are deleted.", Needs: []string{Write, Delete, PrefixExclusive}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b/c", "a/b-c", "a/b.d", "a/b0") // only the first is below a/b
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
		{ID: "map.put.exclusive.apart", Doc: "A put is not refused because of objects whose keys only resemble a key above or below it: matching is by segments, literal and case-sensitive.", Needs: []string{Write, PrefixExclusive}, Run: exclusiveApart},
		{ID: "map.put.exclusive.race", Doc: "An object and an object below it are never both stored, even if they are put concurrently, through one or several handles.", Needs: []string{Write, PrefixExclusive}, Run: exclusiveRace},
	}
}

// exclusiveApart puts pairs of keys neither of which is a prefix of the other, in both
// orders. A driver that treats keys as patterns, compares them as plain strings or ignores
// case would find that one is a prefix.
func exclusiveApart(t conformance.T, e *Env) {
	s := e.create(t)
	for i, pair := range [][2]string{
		{"a_b", "axb/c"},
		{"a%b", "axyb/c"},
		{"a*b", "axyb/c"},
		{"a?b", "axb/c"},
		{"a.b", "axb/c"},
		{"[ab]", "a/c"},
		{"ab+", "abb/c"},
		{"a", "ab/c"},
		{"a", "a.b/c"},
		{"a", "a-b"},
		{"ab", "a/b"},
		{"a/b", "a/bc/d"},
		{"b", "a/b/c"},
		{"a/b", "x/a/b/c"},
		{`a\b`, "ab/c"},
		{"a/_", "a/b/c"},
	} {
		for k, dir := range []string{fmt.Sprintf("%d/up/", i), fmt.Sprintf("%d/down/", i)} {
			one, two := dir+pair[k], dir+pair[1-k]
			if _, err := s.tryPut(one, one); err != nil {
				wantKind(t, "put "+show(one), err, ncerr.ErrBadName, ncerr.ErrUnsupported) // the medium may refuse a name
				continue
			}
			if _, err := s.tryPut(two, two); err != nil {
				wantKind(t, fmt.Sprintf("put %s while %s exists", show(two), show(one)), err, ncerr.ErrBadName, ncerr.ErrUnsupported)
				continue
			}
			s.wantOwn(one, two)
		}
	}
	exclusiveCase(t, s)
}

// exclusiveCase puts keys that would be a prefix of one another only if case were ignored. A
// medium that ignores case may refuse them.
func exclusiveCase(t conformance.T, s *store) {
	s.putAll("Case")
	allowed := []ncerr.Kind{ncerr.ErrBadName, ncerr.ErrUnsupported}
	if _, err := s.tryPut("case", "case"); err != nil {
		allowed = append(allowed, ncerr.ErrObjectExists)
	} else {
		s.wantOwn("Case", "case")
	}
	s.putAll("Up/k", "down")
	for _, key := range []string{"up", "Down/k"} {
		if _, err := s.tryPut(key, key); err != nil {
			wantKind(t, "put "+key+" next to a key that differs in case", err, allowed...)
		}
	}
}

// exclusiveRace puts an object and objects below it concurrently.
func exclusiveRace(t conformance.T, e *Env) {
	s := e.create(t)
	r := barrier{other: e.otherWriter(s)}
	for round := 0; round < raceRounds(t) && !t.Failed(); round++ {
		above := fmt.Sprintf("race/%d", round)
		keys := slices.Repeat([]string{above, above + "/x", above, above + "/y/z"}, 4)
		won := r.race(t, s, round, keys, keys, driver.PutOptions{}, ncerr.ErrObjectExists)
		if slices.ContainsFunc(won, func(i int) bool { return i%2 == 0 }) && slices.ContainsFunc(won, func(i int) bool { return i%2 == 1 }) {
			t.Errorf("round %d: an object and an object below it were both stored", round)
		}
		for _, i := range won {
			s.wantOwn(keys[i])
		}
	}
}

// contents stores content that a medium might interpret, truncate, or confuse with
// content that has the same start or end.
func contents(t conformance.T, e *Env) {
	s := e.create(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	zipped := new(bytes.Buffer)
	z := gzip.NewWriter(zipped)
	if _, err := z.Write([]byte("plain")); err != nil || z.Close() != nil {
		t.Fatalf("gzip: %v", err)
	}
	long, head := pattern(1, 100_000), pattern(2, 2_000)
	for i, content := range []string{
		string(every), "\x00", "\x00\x00\x00\x00", "a\x00", "\x00a", "{\x00}", strings.Repeat("\x00", 70_000), long + strings.Repeat("\x00", 5_000),
		strings.Repeat("\x00", 5_000) + long, strings.Repeat("\x00", 400_000) + head, head + strings.Repeat("\x00", 300_000) + head,
		"\n", "a\n", "a\r\nb\r\n", "\r", " a ", "\t", "\ufeffa", "\xff\xfea\x00", "\xc3\x28\xff", "\xed\xa0\x80", "e\u0301", "\u00e9",
		"{ \"b\": 1.0,  \"a\": [ 1e3, \"<\" ], \"a\": null }\n", "[ ]", "null", "true", "0", "-0", "1e5", "\"quoted\"", "'single'", "NaN",
		zipped.String(), "\x28\xb5\x2f\xfd", "PK\x03\x04", "PK\x05\x06" + strings.Repeat("\x00", 18), "SQLite format 3\x00", "\x89HDF\r\n\x1a\n",
		"YWJj", "abc=", "0x00", "%41", "a%00b", "&amp;", "\\x41", "\\n", "${HOME}", "../x", "#!/bin/sh\n", "\x1a", "\x04", "\x7f",
		long + "1", long + "2", "1" + long, "2" + long, head + strings.Repeat("1", 50_000), head + strings.Repeat("2", 50_000),
	} {
		key := fmt.Sprintf("c/%d", i)
		s.put(key, content)
		s.want(key, content)
	}
	document := "{ \"b\" : 1.0,\n \"a\" : 12345678901234567890, \"\\u0041\" : \"<&>\" }"
	for _, name := range []string{".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"} {
		s.put("d/"+name, document)
		s.want("d/"+name, document)
	}
}

// putRefused checks that a store that does not declare Write cannot be created or refuses
// a Put.
func putRefused(t conformance.T, e *Env) {
	m, err := e.open(t.Context(), driver.Create)
	if err == nil {
		s := &store{t: t, m: m}
		t.Cleanup(s.close)
		_, err = s.tryPut("k", "x")
	}
	wantKind(t, "put, which the driver does not declare", err, ncerr.ErrUnsupported, ncerr.ErrReadOnly)
}

func putBadBody(cause error) func(conformance.T, *Env) {
	return func(t conformance.T, e *Env) {
		s := e.create(t)
		s.put("old", "old content")
		for _, size := range []int64{10, 300000} {
			for _, k := range []string{"old", "new/k"} {
				_, err := s.m.Put(t.Context(), k, badBody{size: size, readable: size / 2, err: cause}, &driver.PutOptions{})
				if err == nil {
					t.Errorf("put %q: want an error, because only half of the %d bytes of the body can be read, got none", k, size)
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
		{ID: "map.put.if-absent", Doc: "A put with IfAbsent succeeds only if the key is missing.", Needs: []string{Write, IfAbsent}, Run: func(t conformance.T, e *Env) {
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
			wantKind(t, "put with IfAbsent of an existing empty object", err, ncerr.ErrObjectExists)
		}, Refuse: conditionRefused(driver.PutOptions{IfAbsent: true})},
		{ID: "map.put.if-absent.race", Doc: "Of many concurrent puts with IfAbsent, through one or several handles, exactly one succeeds, and its content is stored.", Needs: []string{Write, IfAbsent}, Run: ifAbsentRace},
		{ID: "map.put.if-match", Doc: "A put with IfMatch succeeds only if the object has that version.", Needs: []string{Write, IfMatch}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			v1 := s.put("k", "one").Version
			info, err := s.m.Put(t.Context(), "k", driver.Bytes("two"), &driver.PutOptions{IfMatch: v1})
			if err != nil {
				t.Fatalf("put with the current version: %v", err)
			}
			if info.Version == v1 {
				t.Errorf("put of new content: want a new version, got %q again", v1)
			}
			_, err = s.m.Put(t.Context(), "k", driver.Bytes("three"), &driver.PutOptions{IfMatch: v1})
			wantKind(t, "put with an old version", err, ncerr.ErrConflict)
			s.want("k", "two")
			s.flush()
			if _, err = s.m.Put(t.Context(), "k", driver.Bytes("four"), &driver.PutOptions{IfMatch: info.Version}); err != nil {
				t.Errorf("put with the version that Put returned before a flush: %v", err)
			}
			for _, v := range otherVersions(s, "k") {
				_, err = s.m.Put(t.Context(), "k", driver.Bytes("five"), &driver.PutOptions{IfMatch: v})
				wantKind(t, fmt.Sprintf("put with version %q, which never existed", v), err, ncerr.ErrConflict)
			}
			s.want("k", "four")
		}, Refuse: conditionRefused(driver.PutOptions{IfMatch: "1"})},
		{ID: "map.put.if-match.others", Doc: "After another handle has replaced or deleted an object, IfMatch with the earlier version fails.", Needs: []string{Write, Delete, IfMatch, DurableOnPut}, Run: ifMatchOthers},
		{ID: "map.put.if-match.absent", Doc: "A put with IfMatch of a missing key fails with ErrConflict and stores nothing.", Needs: []string{Write, IfMatch}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			v := s.put("k", "x").Version
			_, err := s.m.Put(t.Context(), "none", driver.Bytes("y"), &driver.PutOptions{IfMatch: v})
			wantKind(t, "put with IfMatch of a missing key", err, ncerr.ErrConflict)
			s.wantAbsent("none")
		}},
		{ID: "map.put.if-match.race", Doc: "Of many concurrent puts with IfMatch and the same version, through one or several handles, at most one succeeds, so that no update is lost.", Needs: []string{Write, IfMatch}, Run: ifMatchRace},
	}
}

// conditionRefused checks that an undeclared condition is refused, not ignored.
func conditionRefused(o driver.PutOptions) func(conformance.T, *Env) {
	return func(t conformance.T, e *Env) {
		m, err := e.open(t.Context(), driver.Create)
		if err != nil {
			return // this Map cannot store objects
		}
		s := &store{t: t, m: m}
		t.Cleanup(s.close)
		if _, err := s.tryPut("k", "old"); err != nil {
			return
		}
		_, err = s.m.Put(t.Context(), "k", driver.Bytes("new"), &o)
		wantKind(t, "put with a condition that the driver does not declare", err, ncerr.ErrUnsupported)
		s.want("k", "old")
	}
}

// racers is the number of concurrent puts in a race.
const racers = 8

// raceRounds returns the number of rounds of a race.
func raceRounds(t conformance.T) int {
	if t.Effort() == conformance.Brief {
		return 10
	}
	return 100
}

// barrier makes the bodies of racing puts, or the alloc callbacks of reads, wait for each
// other. A driver that checks a condition before it reads the body has then checked it for
// all puts before any of them stores its content.
type barrier struct {
	other  *store      // a second handle for racing puts, or nil
	met    atomic.Bool // all calls of a round have met, so the driver does not hold a lock during a call
	missed int         // rounds in which not all calls met
}

// otherWriter returns a second handle for writing to the store of s, or nil if a put may
// return before other programs can see the object.
func (e *Env) otherWriter(s *store) *store {
	if s.m.Capabilities().Durable != driver.OnPut {
		return nil
	}
	return e.mustOpen(s.t, driver.Update)
}

// maxMissed is the number of rounds in which the calls may fail to meet. After that the
// driver is assumed to hold a lock during a call, and the calls no longer wait. The timeout
// doubles after each missed round, for slow machines.
const maxMissed = 5

// bodies returns the bodies of one round and a function to call at its end.
func (r *barrier) bodies(contents []string) (bodies []driver.Body, end func()) {
	pass, end := r.round(len(contents))
	for _, content := range contents {
		bodies = append(bodies, &gatedBody{Bytes: driver.Bytes(content), pass: pass})
	}
	return bodies, end
}

// round returns a function that blocks until n calls have called it, and a function to call
// at the end of the round.
func (r *barrier) round(n int) (pass, end func()) {
	var waiting atomic.Int64
	all := make(chan struct{})
	var skip atomic.Bool // calls no longer wait
	timeout := gateTimeout << r.missed
	switch {
	case r.met.Load():
		timeout = time.Second
	case r.missed >= maxMissed:
		skip.Store(true)
	}
	pass = func() {
		if waiting.Add(1) == int64(n) {
			close(all)
		}
		if skip.Load() {
			return
		}
		select {
		case <-all:
			r.met.Store(true)
		case <-time.After(timeout):
			skip.Store(true)
		}
	}
	return pass, func() {
		if skip.Load() {
			r.missed = min(r.missed+1, maxMissed)
		}
	}
}

// putConcurrently puts the contents under one key and condition concurrently, and
// returns the indexes of those that succeeded.
func (r *barrier) putConcurrently(t conformance.T, s *store, round int, key string, contents []string, o driver.PutOptions, loser ncerr.Kind) []int {
	return r.race(t, s, round, slices.Repeat([]string{key}, len(contents)), contents, o, loser)
}

// race is like putConcurrently with a separate key for each content. Every second round
// uses plain bodies, which do not wait for each other. Half of the rounds use two handles, if
// the driver has made its puts durable for others when they return.
func (r *barrier) race(t conformance.T, s *store, round int, keys, contents []string, o driver.PutOptions, loser ncerr.Kind) []int {
	bodies, end := r.bodies(contents)
	defer end()
	handles := []*store{s}
	if r.other != nil && round%4 >= 2 {
		handles = append(handles, r.other)
	}
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
			_, err := handles[i/2%len(handles)].m.Put(t.Context(), keys[i], body, &o)
			if won[i] = err == nil; err != nil {
				wantKind(t, "concurrent put of an object that another caller puts", err, loser)
			}
		})
	}
	t.Step("put", keys[0], "several times concurrently")
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
	r := barrier{other: e.otherWriter(s)}
	for round := 0; round < raceRounds(t) && !t.Failed(); round++ {
		key := fmt.Sprintf("race/%d", round)
		var contents []string
		for i := range racers {
			contents = append(contents, pattern(byte(i), 2000+i))
		}
		winners := r.putConcurrently(t, s, round, key, contents, driver.PutOptions{IfAbsent: true}, ncerr.ErrObjectExists)
		if len(winners) != 1 {
			t.Errorf("round %d: want 1 successful put, got %d", round, len(winners))
			continue
		}
		s.want(key, contents[winners[0]])
	}
}

// ifMatchRace makes concurrent puts to one object under the same version. At most one
// of them may succeed; a store may also refuse all puts of a round.
func ifMatchRace(t conformance.T, e *Env) {
	s := e.create(t)
	r := barrier{other: e.otherWriter(s)}
	content := "x"
	s.put("n", content)
	idle := 0
	for round := 0; round < raceRounds(t) && !t.Failed(); round++ {
		data, info, err := s.tryGet("n", driver.GetOptions{})
		if err != nil || string(data) != content {
			t.Errorf("round %d: want %s, got %s, %v", round, show(content), show(string(data)), err)
			return
		}
		var contents []string
		for i := range racers {
			contents = append(contents, content+string(rune('a'+i)))
		}
		winners := r.putConcurrently(t, s, round, "n", contents, driver.PutOptions{IfMatch: info.Version}, ncerr.ErrConflict)
		switch {
		case len(winners) > 1:
			t.Errorf("round %d: want at most 1 successful put with the same version, got %d of %d", round, len(winners), racers)
		case len(winners) == 1:
			content, idle = contents[winners[0]], 0
		default:
			if idle++; idle == 10 {
				t.Errorf("no put with the current version succeeded in 10 rounds")
			}
		}
	}
	s.want("n", content)
}

// ifMatchOthers tests conditional puts through one handle while another handle changes
// the object.
func ifMatchOthers(t conformance.T, e *Env) {
	s := e.create(t)
	other := e.mustOpen(t, driver.Update)
	wantConflict := func(what, version string) {
		_, err := s.m.Put(t.Context(), "k", driver.Bytes("mine"), &driver.PutOptions{IfMatch: version})
		wantKind(t, "put with a version that "+what, err, ncerr.ErrConflict)
	}
	for range 2 { // in the second round the handle may have cached content from the other handle
		put := s.put("k", "one").Version
		theirs := other.put("k", "two").Version
		wantConflict("others have replaced", put)
		s.want("k", "two")
		if _, err := s.m.Put(t.Context(), "k", driver.Bytes("three"), &driver.PutOptions{IfMatch: theirs}); err != nil {
			t.Errorf("put with the version that another handle returned: %v", err)
		}
		_, info, err := s.tryGet("k", driver.GetOptions{})
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		other.put("k", "four")
		wantConflict("others have replaced since it was read", info.Version)
		_, _, err = s.tryGet("k", driver.GetOptions{IfMatch: info.Version})
		wantKind(t, "get with a version that others have replaced", err, ncerr.ErrConflict)
		put = s.put("k", "five").Version
		other.delete("k")
		wantConflict("others have deleted", put)
		s.wantAbsent("k")
	}
}

func deleteChecks() []Check {
	needs := []string{Write, Delete}
	return []Check{
		{ID: "map.delete.gone", Doc: "A deleted object no longer exists and can be stored again.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b", "a/c")
			s.delete("a/b")
			s.wantAbsent("a/b")
			s.wantOwn("a/c")
			s.put("a/b", "again")
			s.want("a/b", "again")
			for i, content := range []string{"", pattern(1, 3<<20), "x"} {
				key := fmt.Sprintf("d/%d", i)
				s.put(key, content)
				s.delete(key)
				s.wantAbsent(key)
			}
			for i := range 50 { // detects work that continues after Delete returns
				s.delete("a/b")
				s.wantAbsent("a/b")
				s.put("a/b", strconv.Itoa(i))
				s.want("a/b", strconv.Itoa(i))
			}
		}, Refuse: func(t conformance.T, e *Env) {
			m, err := e.open(t.Context(), driver.Create)
			if err != nil {
				return // this Map cannot store objects
			}
			s := &store{t: t, m: m}
			t.Cleanup(s.close)
			if _, err := s.tryPut("k", "k"); err != nil {
				return
			}
			err = m.Delete(t.Context(), "k", &driver.DeleteOptions{})
			wantKind(t, "delete, which the driver does not declare", err, ncerr.ErrUnsupported)
			s.wantOwn("k")
		}},
		{ID: "map.delete.absent", Doc: "Deleting a missing key succeeds.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b")
			for _, k := range []string{"x", "a/x", "x/y/z", "a/b/c"} {
				s.delete(k)
			}
			s.delete("a/b")
			s.delete("a/b")
		}},
		{ID: "map.delete.only", Doc: "Deleting a key, existing or missing, removes no other key.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			keys := []string{"a", "ab", "abc", "ab-", "ab.d/x", "b", "A", "a_", "d/e", "d/ef", "d/f"}
			if _, err := s.tryPut("a%", "a%"); err == nil {
				keys = append(keys, "a%")
			} else {
				wantKind(t, `put "a%"`, err, ncerr.ErrBadName, ncerr.ErrUnsupported) // the medium may refuse a name
			}
			for _, gone := range []string{"ab", "aa", "a_", "a%", "b%", "d/e", "d/ee"} {
				s.putAll(keys...)
				s.delete(gone)
				for _, k := range keys {
					if k != gone {
						s.wantOwn(k)
					}
				}
			}
		}},
		{ID: "map.delete.prefix", Doc: "Deleting a key that is only a prefix removes nothing.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b/c", "a/d")
			if err := s.m.Delete(t.Context(), "a/b", &driver.DeleteOptions{}); err != nil {
				t.Errorf("delete of a prefix: %v", err)
			}
			s.wantOwn("a/b/c", "a/d")
		}},
		{ID: "map.delete.unlists", Doc: "A prefix disappears from listings when its last object is deleted.", Needs: []string{Write, Delete, List}, Run: func(t conformance.T, e *Env) {
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
