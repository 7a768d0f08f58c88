package mapsuite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func getChecks() []Check {
	w := []string{Content}
	return []Check{
		{ID: "map.get.whole", Doc: "Get without a range returns the whole object.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			for i, n := range []int{1, 2, 511, 4095, 4096, 65535, 65536, 65537, 1 << 20, 1<<20 + 1, 2 << 20} {
				key := fmt.Sprintf("k%d", i)
				s.put(key, pattern(1, n))
				s.want(key, pattern(1, n))
			}
		}},
		{ID: "map.get.empty", Doc: "An object of length 0 exists like any other.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("a/empty", "")
			s.want("a/empty", "")
			if s.m.Capabilities().List {
				s.wantList("a/", driver.ListOptions{}, "a/empty")
			}
			if info, err := s.m.Stat(t.Context(), "a/empty"); err != nil || info.Size != 0 {
				t.Errorf("stat of an empty object: want size 0, got %+v, %v", info, err)
			}
		}},
		{ID: "map.get.absent", Doc: "Get and Stat of a missing key fail with ErrNotFound as the outermost kind.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b")
			for _, k := range []string{"x", "a/x", "a/x/y", "b"} {
				s.wantAbsent(k)
			}
			_, _, err := s.tryGet("x", driver.GetOptions{})
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the error for a missing key does not match fs.ErrNotExist: %v", err)
			}
		}},
		{ID: "map.get.prefix", Doc: "Get and Stat of a key that is only a prefix of other keys fail with ErrNotFound.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b/c")
			s.wantAbsent("a")
			s.wantAbsent("a/b")
		}},
		{ID: "map.get.below-object", Doc: "Get and Stat of a key below an object fail with ErrNotFound.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b")
			s.wantAbsent("a/b/c")
			s.wantAbsent("a/b/c/d")
		}},
		{ID: "map.get.info", Doc: "Put, Get and Stat return the same size and version of an object, also a Get of a range.", Needs: w, Run: getInfo},
		{ID: "map.get.version", Doc: "A version, if the driver has versions, changes with the content.", Needs: w, Run: getVersion},
		{ID: "map.get.version.again", Doc: "A version is never reused for different content: not by another handle, not after the object was deleted, and not after the store was replaced or removed.", Needs: []string{Write, Delete}, Run: versionAgain},
		{ID: "map.get.limit", Doc: "A result longer than Limit fails with ErrLimit; a result of exactly Limit bytes is returned.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("k", "123456")
			if got, _, err := s.tryGet("k", driver.GetOptions{Limit: 6}); err != nil || string(got) != "123456" {
				t.Errorf("get with limit 6: want \"123456\", got %q, %v", got, err)
			}
			_, _, err := s.tryGet("k", driver.GetOptions{Limit: 5})
			wantKind(t, "get with limit 5", err, ncerr.ErrLimit)
			s.put("k", "changed after a failed read")
			s.want("k", "changed after a failed read")
		}},
		{ID: "map.get.if-match", Doc: "A read with IfMatch succeeds only if the object has that version.", Needs: []string{Content, IfMatch}, Run: getIfMatch},
		{ID: "map.get.failure", Doc: "If the medium cannot be read, objects do not appear to be missing, empty or full of zeros: a read that fails returns an error other than ErrNotFound, and a listing fails or is complete.", Needs: []string{Content, Breaks}, Run: getFailure},
		{ID: "map.get.many", Doc: "GetMany reports the result of every request exactly once, and the result is the one that Get would return.", Needs: []string{Content, Ranges, GetMany}, Run: getMany},
		{ID: "map.stat.fresh", Doc: "Stat, Get and listings show the current object, even after earlier reads by the same handle, and even if another handle has changed the object when puts are durable.", Needs: []string{Write, Delete}, Run: statFresh},
		{ID: "map.stat.size", Doc: "Stat returns the size of an object of any length.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			for _, n := range []int{0, 1, 70000} {
				key := fmt.Sprint("k", n)
				s.put(key, pattern(3, n))
				if info, err := s.m.Stat(t.Context(), key); err != nil || info.Size != int64(n) {
					t.Errorf("want size %d, got %+v, %v", n, info, err)
				}
			}
		}},
		{ID: "map.stat.unread", Doc: "Stat of a large object does not read the content. A driver in the same process as the suite does not allocate memory for the content either.", Level: conformance.Extended, Needs: []string{Content, Measured}, Run: statUnread},
	}
}

func getInfo(t conformance.T, e *Env) {
	s := e.create(t)
	before := time.Now().Add(-time.Hour)
	put := s.put("a/k", "1234")
	if caps := s.m.Capabilities(); caps.Write {
		put = s.put("a/k", "12345") // replaces an object
	}
	_, get, err := s.tryGet("a/k", driver.GetOptions{})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	stat, err := s.stat("a/k")
	if err != nil {
		t.Fatalf("stat: %v", err)
	}
	if again, err := s.stat("a/k"); err != nil || !again.ModTime.Equal(stat.ModTime) {
		t.Errorf("stat of an unchanged object: want ModTime %v, got %v, %v", stat.ModTime, again.ModTime, err)
	}
	infos := map[string]driver.Info{"put": put, "get": get}
	if s.m.Capabilities().Ranges {
		for _, r := range []driver.Range{{Offset: 1, Length: 2}, {Offset: 3, Length: -1}, {Offset: -2, Length: -1}} {
			name := fmt.Sprintf("get of range %+v", r)
			_, info, err := s.tryRange("a/k", r.Offset, r.Length)
			if infos[name] = info; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, info := range infos {
		if info.Size != stat.Size || info.Version != stat.Version {
			t.Errorf("%s returns %+v, stat returns %+v", name, info, stat)
		}
		if !info.ModTime.IsZero() && (info.ModTime.Before(before) || info.ModTime.After(time.Now().Add(time.Hour))) {
			t.Errorf("%s returns the ModTime %v, which is not the current time", name, info.ModTime)
		}
		if info.CRC32C != "" {
			t.Errorf("%s returns the CRC32C %q without an error", name, info.CRC32C)
		}
	}
}

// sameSums are pairs of contents of equal length with equal checksums: CRC-32 as in zip,
// CRC-32C, Adler-32, and 32-bit FNV-1 and FNV-1a.
var sameSums = [][2]string{ // never changed
	{"plumless", "buckeroo"}, {"qvyisrte", "ixafgfvo"}, {"bdb", "cbc"}, {"givyovlg", "tehtzimj"}, {"fshjqjir", "nohiosbk"},
}

// getVersion stores many contents that differ little. Versions made from the size, the
// first bytes, a short checksum, a coarse time or a small counter would repeat.
func getVersion(t conformance.T, e *Env) {
	s := e.create(t)
	seen := map[string]string{}
	put := func(content string) {
		v := s.put("k", content).Version
		if old, twice := seen[v]; twice && v != "" && old != content {
			t.Errorf("version %q was returned for %s and for %s", v, show(old), show(content))
		}
		seen[v] = content
	}
	long := pattern(8, 20_000)
	for _, content := range []string{"one", "two", "six", "three", long + "1", long + "2", "1" + long, "2" + long} {
		put(content)
	}
	if s.m.Capabilities().IfMatch { // without IfMatch a repeated version cannot lose a write, and an archive may use its checksums
		for _, two := range sameSums {
			put(two[0])
			put(two[1])
		}
	}
	more := 300
	if t.Effort() == conformance.Brief {
		more = 30
	}
	for i := 0; i < more && !t.Failed(); i++ {
		put(fmt.Sprintf("%04d", i))
	}
	if s.m.Capabilities().Delete {
		for _, content := range []string{"again", "anew", "then", "later"} {
			s.delete("k")
			put(content)
		}
	}
	if s.m.Capabilities().Write { // another handle must continue the sequence
		s.flush()
		s.close()
		s = e.mustOpen(t, driver.Update)
		put("by another handle")
	}
}

// versionAgain writes one key through handles that do not share state.
func versionAgain(t conformance.T, e *Env) {
	seen := map[string]string{}
	n := 0
	put := func(s *store, what string) {
		content := fmt.Sprintf("%04d", n)
		n++
		v := s.put("k", content).Version
		if before, twice := seen[v]; twice && v != "" {
			t.Errorf("version %q of the object stored %s is also that of the object stored %s", v, what, before)
		}
		seen[v] = what
		s.flush()
	}
	s := e.create(t)
	put(s, "by the first handle")
	for range 3 {
		s.close()
		s = e.mustOpen(t, driver.Update)
		put(s, "by another handle")
		s.delete("k")
		s.flush()
		s.close()
		s = e.mustOpen(t, driver.Update)
		put(s, "after a deletion")
	}
	s.close()
	s = e.create(t)
	put(s, "after the store was replaced")
	s.close()
	if err := e.opener.Remove(t.Context(), e.spec); err != nil {
		t.Fatalf("remove: %v", err)
	}
	put(e.create(t), "after the store was removed")
}

// statUnread counts the bytes that the driver's process reads during Stat. For a driver in
// this process it also counts allocated bytes. Other goroutines may read or allocate at
// the same time, so the check uses the lowest of several counts.
func statUnread(t conformance.T, e *Env) {
	s := e.create(t)
	size := int64(24 << 20)
	if limit := s.m.Capabilities().MaxObject; limit > 0 {
		size = min(size, limit)
	}
	s.put("a/large", pattern(6, int(size)))
	s.flush()
	count := func() int64 {
		u, err := e.usage()
		if err != nil || u.Read < 0 {
			t.Skipf("the system does not count the bytes that a process reads: %+v, %v", u, err)
		}
		if e.ownProcess {
			u.Read += int64(allocated())
		}
		return u.Read
	}
	for _, h := range []*store{s, e.mustOpen(t, driver.Read)} {
		least := size
		for try := 0; try < 40 && least >= size/2; try++ {
			time.Sleep(time.Duration(try) * time.Millisecond) // let other goroutines finish
			before := count()
			if info, err := h.stat("a/large"); err != nil || info.Size != size {
				t.Fatalf("stat: want size %d, got %+v, %v", size, info, err)
			}
			least = min(least, count()-before)
		}
		if least >= size/2 {
			t.Errorf("each stat of an object of %d bytes reads or allocates at least %d bytes", size, least)
			return
		}
	}
}

// statFresh reads before and after every change, to detect a stale cache.
func statFresh(t conformance.T, e *Env) {
	s := e.create(t)
	listed := func() int64 {
		if !s.m.Capabilities().List {
			return -1
		}
		for e, err := range s.m.List(t.Context(), "a/", &driver.ListOptions{}) {
			if err == nil && e.Key == "a/k" {
				return e.Info.Size
			}
		}
		return -1
	}
	s.wantAbsent("a/k")
	versions := map[string]string{}
	for _, content := range []string{"first", "the second", "", "the 4th", "seventh"} {
		s.put("a/k", content)
		for range 2 {
			s.want("a/k", content)
			info, err := s.stat("a/k")
			if err != nil || info.Size != int64(len(content)) {
				t.Errorf("stat after put of %q: want size %d, got %+v, %v", content, len(content), info, err)
			}
			if old, seen := versions[info.Version]; seen && info.Version != "" && old != content {
				t.Errorf("stat after put of %q returns the version of %q", content, old)
			}
			versions[info.Version] = content
			if n := listed(); n >= 0 && n != int64(len(content)) {
				t.Errorf("list after put of %q: want size %d, got %d", content, len(content), n)
			}
		}
	}
	s.delete("a/k")
	s.wantAbsent("a/k")
	s.put("a/k", "again")
	s.want("a/k", "again")
	if s.m.Capabilities().Durable != driver.OnPut {
		return
	}
	other := e.mustOpen(t, driver.Update)
	old, _ := s.stat("a/k")
	info := other.put("a/k", "by another handle")
	s.want("a/k", "by another handle")
	if got, err := s.stat("a/k"); err != nil || got.Size != info.Size || got.Version == old.Version && old.Version != "" {
		t.Errorf("stat after another handle has replaced the object: want size %d and a new version, got %+v, %v; before: %+v", info.Size, got, err, old)
	}
	if n := listed(); n >= 0 && n != info.Size {
		t.Errorf("list after another handle has replaced the object: want size %d, got %d", info.Size, n)
	}
	other.delete("a/k")
	s.wantAbsent("a/k")
}

func getIfMatch(t conformance.T, e *Env) {
	s := e.create(t)
	first := s.put("k", "first").Version
	if first == "" {
		t.Fatalf("IfMatch is declared, but Put returns no version")
	}
	if got, _, err := s.tryGet("k", driver.GetOptions{IfMatch: first}); err != nil || string(got) != "first" {
		t.Errorf("get of the current version: want \"first\", got %q, %v", got, err)
	}
	s.put("k", "other")
	got, _, err := s.tryGet("k", driver.GetOptions{IfMatch: first})
	wantKind(t, "get of an old version", err, ncerr.ErrConflict)
	if len(got) > 0 {
		t.Errorf("get of an old version returns the content %q", got)
	}
	if s.m.Capabilities().Ranges {
		for _, r := range []driver.Range{{Offset: 1, Length: 2}, {Offset: 2, Length: -1}, {Offset: -2, Length: -1}} {
			_, _, err = s.tryGet("k", driver.GetOptions{IfMatch: first, Range: &r})
			wantKind(t, fmt.Sprintf("get range %+v of an old version", r), err, ncerr.ErrConflict)
		}
	}
	for _, v := range append(otherVersions(s, "k"), "not a version of this store") {
		_, _, err = s.tryGet("k", driver.GetOptions{IfMatch: v})
		wantKind(t, fmt.Sprintf("get of version %q, which never existed", v), err, ncerr.ErrConflict)
	}
	_, _, err = s.tryGet("none", driver.GetOptions{IfMatch: first})
	wantKind(t, "get of a missing key", err, ncerr.ErrNotFound)
}

// otherVersions returns versions that differ little from the current one of key.
func otherVersions(s *store, key string) []string {
	info, err := s.stat(key)
	if err != nil || info.Version == "" {
		s.t.Fatalf("stat %q: want a version, got %+v, %v", key, info, err)
	}
	v := info.Version
	others := []string{v + "0", "0" + v}
	if len(v) > 1 {
		others = append(others, v[:len(v)-1], v[1:])
	}
	return others
}

// getFailure breaks the medium while a handle is open, reads through that handle, and
// then opens and reads through other handles.
func getFailure(t conformance.T, e *Env) {
	s := e.create(t)
	contents := map[string]string{"a/k": pattern(3, 200_000), "a/l": "small"}
	if t.Effort() == conformance.Thorough {
		for i := range 3000 { // more than one page of a listing
			contents[fmt.Sprintf("a/more/%04d", i)] = "one of many"
		}
	}
	for key, content := range contents {
		s.put(key, content)
	}
	s.flush()
	s.close()
	before := e.mustOpen(t, driver.Read)
	before.want("a/l", contents["a/l"])
	t.Step("break the store")
	if err := e.breakStore(t.Context(), e.spec); err != nil {
		t.Fatalf("break the store: %v", err)
	}
	failures := 0
	checkError := func(what string, err error) {
		if err != nil {
			failures++
		}
		if err != nil && ncerr.KindOf(err) == ncerr.ErrNotFound {
			t.Errorf("%s: the failure is reported as a missing object: %v", what, err)
		}
	}
	readAll := func(s *store) {
		for _, key := range []string{"a/k", "a/l"} {
			got, _, err := s.tryGet(key, driver.GetOptions{})
			if checkError("get "+key, err); err == nil && bytes.Contains(got, make([]byte, 64)) {
				t.Errorf("get %s returns zeros instead of an error", key)
			} else if err == nil && len(got) == 0 {
				t.Errorf("get %s returns an empty object instead of an error", key)
			}
			info, err := s.stat(key)
			if checkError("stat "+key, err); err == nil && info.Size == 0 {
				t.Errorf("stat %s returns size 0 instead of an error", key)
			}
		}
		if !s.m.Capabilities().List {
			return
		}
		listed := 0
		var failed error
		for e, err := range s.m.List(t.Context(), "a/", &driver.ListOptions{Recursive: s.m.Capabilities().RecursiveList}) {
			if failed = err; err == nil && !e.Prefix || e.Key == "a/more/" {
				listed++
			}
		}
		if checkError("list a/", failed); failed == nil && listed != len(contents) && (s.m.Capabilities().RecursiveList || listed != 3) {
			t.Errorf("list a/ returns %d of %d objects and no error", listed, len(contents))
		}
	}
	readAll(before)
	for _, mode := range []driver.Mode{driver.Read, driver.Update} {
		t.Step("open in mode", modeName(mode))
		m, err := e.open(t.Context(), mode)
		if checkError("open in mode "+modeName(mode), err); ncerr.KindOf(err) == ncerr.ErrNoDataset {
			t.Errorf("open in mode %s: the failure is reported as a missing store: %v", modeName(mode), err)
		}
		if err != nil {
			continue
		}
		after := &store{t: t, m: m}
		t.Cleanup(func() { after.m = nil; _ = m.Close(t.Context()) }) // the close may fail too
		readAll(after)
		if mode == driver.Update && m.Capabilities().Delete {
			if m.Delete(t.Context(), "a/l", &driver.DeleteOptions{}) == nil {
				if _, err := after.stat("a/l"); ncerr.KindOf(err) != ncerr.ErrNotFound {
					t.Errorf("stat after a successful delete of a/l: want ErrNotFound, got %v", err)
				}
			}
		}
	}
	if failures == 0 {
		t.Errorf("all calls succeeded, so the store was not made unreadable")
	}
}

func getMany(t conformance.T, e *Env) {
	s := e.create(t)
	var versions, old []string
	counts := []int{1, 2, 16, 100, 128}
	if t.Effort() != conformance.Brief {
		counts = append(counts, 1100) // SQL statements have at most 999 parameters, and requests of some stores have at most 1,000 keys
	}
	for i := range counts[len(counts)-1] {
		key := fmt.Sprintf("c/%d", i)
		if old = append(old, ""); i%8 == 6 {
			old[i] = s.put(key, "replaced").Version
		}
		versions = append(versions, s.put(key, pattern(byte(i), 100+i)).Version)
	}
	for _, n := range counts {
		s.getMany(versions[:n], old)
	}
}

// sizeOf returns the size of an object that getMany stores.
func sizeOf(key string) int64 {
	i, _ := strconv.Atoi(key[2:])
	return int64(100 + i)
}

// getMany makes one request per element of versions, with every kind of option.
func (s *store) getMany(versions, old []string) {
	many, ok := s.m.(driver.GetManyer)
	if !ok {
		s.t.Fatalf("the Map no longer implements GetMany")
	}
	reqs, want := make([]driver.GetRequest, len(versions)), make([]string, len(versions))
	memory := make([][]byte, len(versions))
	for i := range reqs {
		r, content := driver.GetRequest{Key: fmt.Sprintf("c/%d", i)}, pattern(byte(i), 100+i)
		if i%2 == 0 {
			r.Alloc = func(n int64) ([]byte, error) { memory[i] = make([]byte, n); return memory[i], nil }
		}
		switch i % 8 {
		case 1:
			r.Opts.Range = &driver.Range{Offset: 10, Length: 20}
			content = content[10:30]
		case 2:
			r.Opts.Range = &driver.Range{Offset: -7, Length: -1}
			content = content[len(content)-7:]
		case 3:
			r.Key, content = "none", ncerr.ErrNotFound.Name()
		case 4:
			r.Opts.Range = &driver.Range{Offset: 90, Length: 10_000}
			content = ncerr.ErrRange.Name()
		case 7: // every second of these requests reads another part of the previous object
			if i%16 == 7 {
				break
			}
			r.Key, content = fmt.Sprintf("c/%d", i-1), pattern(byte(i-1), 100+i-1)
			reqs[i-1].Opts = driver.GetOptions{Range: &driver.Range{Offset: 0, Length: 2}}
			want[i-1], content = content[:2], content[2:5]
			r.Opts.Range = &driver.Range{Offset: 2, Length: 3}
		case 5:
			r.Opts.Limit, content = 50, ncerr.ErrLimit.Name()
		case 6:
			if s.m.Capabilities().IfMatch {
				r.Opts.IfMatch, content = old[i], ncerr.ErrConflict.Name()
			}
		}
		reqs[i], want[i] = r, content
	}
	got, calls, errs := make([]string, len(reqs)), make([]int, len(reqs)), make([]error, len(reqs))
	var inside atomic.Int64
	s.t.Step("get many", strconv.Itoa(len(reqs)))
	err := many.GetMany(s.t.Context(), reqs, func(i int, data []byte, info driver.Info, err error) {
		if inside.Add(1) > 1 {
			s.t.Errorf("the sink is called again before the previous call has returned")
		}
		if i < 0 || i >= len(reqs) {
			s.t.Errorf("the sink is called with index %d for %d requests: %d bytes, %v", i, len(reqs), len(data), err)
			inside.Add(-1)
			return
		}
		runtime.Gosched()
		got[i] = string(data)
		calls[i]++
		switch errs[i] = err; {
		case err != nil:
			got[i] = ncerr.KindOf(err).Name()
		case info.Size != sizeOf(reqs[i].Key):
			s.t.Errorf("%s: want the size of the whole object, %d, got %d", request(reqs, i), sizeOf(reqs[i].Key), info.Size)
		case reqs[i].Alloc != nil && (len(data) == 0 || memory[i] == nil || &memory[i][0] != &data[0]):
			s.t.Errorf("%s: the data is not in the memory that alloc returned", request(reqs, i))
		}
		inside.Add(-1)
	})
	if err != nil {
		s.t.Errorf("get many, %d requests: %v", len(reqs), err)
	}
	wrong := 0
	for i := 0; i < len(want) && wrong < 8; i++ { // report at most 8
		if calls[i] == 1 && got[i] == want[i] {
			continue
		}
		wrong++
		switch {
		case calls[i] == 0:
			s.t.Errorf("%s: want %s, but the sink was not called for it", request(reqs, i), show(want[i]))
		case errs[i] != nil:
			s.t.Errorf("%s: want %s in one call of the sink, got %s in %d calls: %v", request(reqs, i), show(want[i]), got[i], calls[i], errs[i])
		default:
			s.t.Errorf("%s: want %s in one call of the sink, got %s in %d calls", request(reqs, i), show(want[i]), show(got[i]), calls[i])
		}
	}
}

// request describes request i of a GetMany.
func request(reqs []driver.GetRequest, i int) string {
	r := &reqs[i]
	text := fmt.Sprintf("request %d of %d, get %q", i, len(reqs), r.Key)
	if r.Opts.Range != nil {
		text += fmt.Sprintf(", range %+v", *r.Opts.Range)
	}
	if r.Opts.Limit > 0 {
		text += fmt.Sprintf(", limit %d", r.Opts.Limit)
	}
	if r.Opts.IfMatch != "" {
		text += fmt.Sprintf(", version %q", r.Opts.IfMatch)
	}
	return text
}
