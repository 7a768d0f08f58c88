package mapsuite

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func concurrencyChecks() []Check {
	w := []string{Write}
	return []Check{
		{ID: "map.concurrent.distinct-keys", Doc: "Writers and readers of different keys do not affect each other.", Needs: w, Run: distinctKeys},
		{ID: "map.concurrent.crowd", Doc: "Sixteen concurrent puts of different objects, and concurrent reads of others, all succeed; a busy driver delays calls instead of failing them.", Needs: w, Run: concurrentPuts},
		{ID: "map.concurrent.reads", Doc: "Sixty-four concurrent reads of whole objects and ranges all succeed, even if no read receives data until every read has allocated its buffer; a driver with a lower limit queues the rest.", Needs: []string{Content}, Run: concurrentReads},
		{ID: "map.concurrent.same-key", Doc: "A reader of an object that is being overwritten sees the old or the new content, never a mixture and never ErrNotFound.", Needs: w, Run: sameKey},
		{ID: "map.concurrent.versions", Doc: "The version that Put returns, and on a local medium the one that Get returns, belongs to the content of that call, even if other calls replace the object at the same time.", Needs: w, Run: versions},
		{ID: "map.concurrent.first-put", Doc: "A read during the first put of an object returns ErrNotFound or the whole object.", Needs: w, Run: firstPut},
		{ID: "map.concurrent.flush", Doc: "Puts during a flush are not lost: the next flush makes them visible.", Needs: w, Run: putWhileFlushing},
		{ID: "map.concurrent.parents", Doc: "The first objects below a new prefix can be stored concurrently.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			for round := 0; round < raceRounds(t)/5 && !t.Failed(); round++ {
				var wg sync.WaitGroup
				start := make(chan struct{})
				for i := range 16 {
					wg.Go(func() { // four objects have the same parent
						<-start
						if _, err := s.tryPut(fmt.Sprintf("new%d/deep/%d/%d", round, i%4, i), "x"); err != nil {
							t.Errorf("put: %v", err)
						}
					})
				}
				close(start)
				wg.Wait()
			}
		}},
		{ID: "map.concurrent.open", Doc: "Opening and closing other handles, for reading and for writing, does not affect concurrent puts.", Needs: w, Run: openWhilePutting},
		{ID: "map.concurrent.delete", Doc: "Concurrent puts and deletes of neighboring keys all succeed.", Needs: []string{Write, Delete}, Run: putAndDelete},
		{ID: "map.concurrent.list", Doc: "Objects that exist throughout a listing are listed exactly once while others are added and deleted, and only keys that were stored are listed.", Needs: []string{Write, Delete, List}, Run: listWhileChanging},
	}
}

// openWhilePutting opens handles while objects are stored in parts. A store that allows
// only one writer may refuse to open another one.
func openWhilePutting(t conformance.T, e *Env) {
	s := e.create(t)
	s.putAll("first")
	s.flush()
	done := make(chan struct{})
	var opened atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			opened.Store(int64(i))
			select {
			case <-done:
				return
			default:
			}
			if m, err := e.open(t.Context(), []driver.Mode{driver.Update, driver.Read}[i%2]); err == nil {
				_ = m.Close(t.Context()) // nothing was written
			}
		}
	})
	var keys []string
	for i, n := 0, 8*raceRounds(t)/10; i < n || i < 10*n && opened.Load() < 20; i++ { // until the puts overlap with enough opens
		key := fmt.Sprintf("a/%d", i)
		s.put(key, pattern(byte(i), 300_000))
		keys = append(keys, key)
	}
	close(done)
	wg.Wait()
	for i, key := range keys {
		s.want(key, pattern(byte(i), 300_000))
	}
	s.wantOwn("first")
}

func distinctKeys(t conformance.T, e *Env) {
	s := e.create(t)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				key := fmt.Sprintf("w%d/%d", w%3, w*100+i)
				content := pattern(byte(w*31+i), 1000+i)
				if i%3 == 0 { // long enough to collide in a shared buffer
					content = pattern(byte(w*31+i), 150_000)
				}
				if _, err := s.tryPut(key, content); err != nil {
					t.Errorf("put %q: %v", key, err)
					return
				}
				s.want(key, content)
			}
		})
	}
	wg.Wait()
}

// concurrentPuts puts objects concurrently. The first read of a body waits until all
// puts have started and other objects have been read once. The wait has a timeout,
// because a driver may serialize puts. Reads of the other objects continue until the
// puts end. To act like several programs, it reads through two handles and, in every
// second round, puts through two handles.
func concurrentPuts(t conformance.T, e *Env) {
	const writers = 16
	s := e.create(t)
	var old []string
	for i := range 8 {
		old = append(old, fmt.Sprintf("old/%d", i))
	}
	s.putAll(old...)
	s.flush()
	readers, handles := []*store{s, e.mustOpen(t, driver.Read)}, []*store{s}
	if s.m.Capabilities().Durable == driver.OnPut { // another handle may also write
		handles = append(handles, e.mustOpen(t, driver.Update))
	}
	rounds := 4
	if t.Effort() == conformance.Brief {
		rounds = 2
	}
	var r barrier
	for round := 0; round < rounds && !t.Failed(); round++ {
		var keys, contents []string
		for i := range writers {
			keys = append(keys, fmt.Sprintf("crowd/%d/%d", i%4, i))
			contents = append(contents, pattern(byte(round*writers+i), 5000+i))
		}
		look := readerGroup{t: t, handles: readers, keys: old}
		bodies, end := r.bodies(contents)
		var puts sync.WaitGroup
		t.Step("put", strconv.Itoa(writers), "objects concurrently")
		for i, body := range bodies {
			body := &gatedBody{Bytes: driver.Bytes(contents[i]), pass: func() {
				_, _ = body.ReadAt(make([]byte, 1), 0) // the read waits for the other puts
				look.once()
			}}
			puts.Go(func() {
				if _, err := handles[i*(round%2)%len(handles)].m.Put(t.Context(), keys[i], body, &driver.PutOptions{}); err != nil {
					t.Errorf("put %q with %d concurrent puts: %v", keys[i], writers-1, err)
				} else if s.m.Capabilities().Durable == driver.OnPut {
					readers[1].want(keys[i], contents[i])
				}
			})
		}
		puts.Wait()
		end()
		look.end()
		for i := range keys {
			s.want(keys[i], contents[i])
		}
	}
}

// putWhileFlushing puts objects from several goroutines while another one flushes.
func putWhileFlushing(t conformance.T, e *Env) {
	const writers, each = 4, 40
	s := e.create(t)
	var puts, flushes sync.WaitGroup
	var done atomic.Bool
	flushes.Go(func() {
		for !done.Load() && !t.Failed() {
			if err := s.m.Flush(t.Context()); err != nil {
				t.Errorf("flush with %d concurrent puts: %v", writers, err)
			}
		}
	})
	t.Step("put", strconv.Itoa(writers*each), "objects and flush concurrently")
	var keys []string
	for g := range writers {
		for i := range each {
			keys = append(keys, fmt.Sprintf("f/%d/%d", g, i))
		}
		own := keys[g*each:]
		puts.Go(func() {
			for _, key := range own {
				if _, err := s.tryPut(key, key); err != nil {
					t.Errorf("put %q during a flush: %v", key, err)
					return
				}
			}
		})
	}
	puts.Wait()
	done.Store(true)
	flushes.Wait()
	s.flush()
	s.wantOwn(keys...)
	again := e.mustOpen(t, driver.Read)
	again.wantOwn(keys...)
}

// concurrentReads reads objects with an alloc that returns when all reads have called it, or
// after a timeout if the driver allows fewer reads. To act like several programs, it reads
// through two handles.
func concurrentReads(t conformance.T, e *Env) {
	const readers, size = 64, 300_000
	s := e.create(t)
	contents := make([]string, readers)
	for i := range contents {
		contents[i] = pattern(byte(i), size+i)
		if i%4 >= 2 { // short enough for scratch memory
			contents[i] = contents[i][:3000+(i%4-2)*57_000+i]
		}
		s.put(fmt.Sprintf("d%d/%d", i%5, i), contents[i])
	}
	s.flush()
	handles := []*store{s, e.mustOpen(t, driver.Read)}
	ranges := s.m.Capabilities().Ranges
	var r barrier
	for round := 0; round < 4 && !t.Failed(); round++ {
		pass, end := r.round(readers)
		var reads sync.WaitGroup
		t.Step("get", strconv.Itoa(readers), "objects concurrently")
		for i, want := range contents {
			key, o := fmt.Sprintf("d%d/%d", i%5, i), &driver.GetOptions{}
			if ranges && i%2 == 1 {
				at, n := 10*i, len(want)/3
				o.Range = &driver.Range{Offset: int64(at), Length: int64(n)}
				want = want[at:][:n]
			}
			reads.Go(func() {
				got, _, err := handles[i*(round%2)%len(handles)].m.Get(t.Context(), key, o, func(n int64) ([]byte, error) {
					pass()
					return make([]byte, n), nil
				})
				if err != nil {
					t.Errorf("get %q with %d concurrent reads: %v", key, readers-1, err)
				} else if string(got) != want {
					t.Errorf("get %q with %d concurrent reads: want %d bytes %s, got %d bytes %s", key, readers-1, len(want), show(want), len(got), show(string(got)))
				}
			})
		}
		reads.Wait()
		end()
	}
	var reads sync.WaitGroup
	t.Step("get", "short objects concurrently")
	for g := range 16 {
		reads.Go(func() {
			for n := 0; n < 100 && !t.Failed(); n++ {
				i := (4*(g+n) + 2 + n%2) % readers
				handles[n/2%2].want(fmt.Sprintf("d%d/%d", i%5, i), contents[i])
			}
		})
	}
	reads.Wait()
}

// readerGroup reads keys, each of which holds its own name, while puts are running.
type readerGroup struct {
	t       conformance.T
	handles []*store
	keys    []string

	start   sync.Once
	seen    chan struct{} // closed when every reader has read once, or after a timeout
	done    atomic.Bool
	reading sync.WaitGroup
}

// once starts the readers and returns when all keys have been read once. It stops waiting
// after a timeout, because a driver may block the readers until the caller's put returns.
func (o *readerGroup) once() {
	o.start.Do(func() {
		o.seen = make(chan struct{})
		var first sync.WaitGroup
		first.Add(len(o.keys))
		for i := range o.keys {
			o.reading.Go(func() {
				o.read(i)
				for first.Done(); !o.done.Load() && !o.t.Failed(); {
					o.read(i)
				}
			})
		}
		seen := sync.OnceFunc(func() { close(o.seen) })
		time.AfterFunc(gateTimeout, seen)
		o.reading.Go(func() { first.Wait(); seen() })
	})
	<-o.seen
}

func (o *readerGroup) read(i int) {
	h, key := o.handles[i%len(o.handles)], o.keys[i]
	h.want(key, key)
	if info, err := h.stat(key); err != nil || info.Size != int64(len(key)) {
		o.t.Errorf("stat %q: want size %d, got %+v, %v", key, len(key), info, err)
	}
	if i == 0 && h.m.Capabilities().List {
		h.wantMany("old/", driver.ListOptions{}, o.keys)
	}
}

// end stops the readers and waits for them.
func (o *readerGroup) end() {
	o.done.Store(true)
	o.reading.Wait()
}

// minOverlaps is the number of rounds of a race that must overlap with a read, and maxRounds
// the maximum number of rounds.
const minOverlaps, maxRounds = 100, 20_000

// keyRace is a race between a writer of one key and readers.
type keyRace struct {
	key      string
	exists   bool // the object exists before the race
	rounds   int  // minimum number of rounds
	contents []string
}

// read reads the object once and reports whether the result is allowed.
func (c keyRace) read(t conformance.T, s *store) bool {
	got, info, err := s.tryGet(c.key, driver.GetOptions{})
	if err != nil {
		return c.absent(t, "get", err)
	}
	is := func(content string) bool { return content == string(got) }
	if !slices.ContainsFunc(c.contents, is) || info.Size != int64(len(got)) {
		t.Errorf("get %q: want one of the stored contents, got %d bytes %s, size %d", c.key, len(got), show(string(got)), info.Size)
		return false
	}
	return true
}

// stat is like read but calls Stat, which is fast enough to observe short-lived states.
func (c keyRace) stat(t conformance.T, s *store) bool {
	info, err := s.stat(c.key)
	if err != nil {
		return c.absent(t, "stat", err)
	}
	long := func(content string) bool { return int64(len(content)) == info.Size }
	if !slices.ContainsFunc(c.contents, long) {
		t.Errorf("stat %q returned size %d, which is not the size of any stored content", c.key, info.Size)
		return false
	}
	return true
}

func (c keyRace) absent(t conformance.T, op string, err error) bool {
	switch {
	case ncerr.KindOf(err) != ncerr.ErrNotFound:
		t.Errorf("%s %q: %v", op, c.key, err)
		return false
	case c.exists:
		t.Errorf("%s %q: not found during an overwrite; readers would return fill values", op, c.key)
	}
	return !c.exists
}

// run runs the writer and three readers of the key concurrently. It continues until
// enough rounds overlap with a read, because readers may start late and run rarely.
func (c keyRace) run(t conformance.T, s *store, write func(content string, round int) error) {
	var done atomic.Bool
	var reads atomic.Int64
	var wg sync.WaitGroup
	for _, see := range []func(conformance.T, *store) bool{c.read, c.stat, c.read} {
		wg.Go(func() {
			for !done.Load() && see(t, s) {
				reads.Add(1)
				runtime.Gosched()
			}
		})
	}
	last, met := int64(0), 0
	for r := 0; (r < c.rounds || met < min(c.rounds, minOverlaps)) && r < maxRounds && !t.Failed(); r++ {
		if err := write(c.contents[r%len(c.contents)], r); err != nil {
			t.Errorf("put %q: %v", c.key, err)
			break
		}
		if now := reads.Load(); now > last {
			last, met = now, met+1
		}
		runtime.Gosched()
	}
	done.Store(true)
	wg.Wait()
}

// overwrites returns how often one key is overwritten while it is read.
func overwrites(t conformance.T) int {
	switch t.Effort() {
	case conformance.Brief:
		return 30
	case conformance.Thorough:
		return 1000
	}
	return 250
}

// sameKey overwrites an object with contents of equal length, as chunks often have,
// with contents of different lengths, and with long contents, which media store in
// parts.
func sameKey(t conformance.T, e *Env) {
	s := e.create(t)
	for _, kind := range []struct {
		key           string
		size          int
		step          int // difference between the sizes of the contents
		roundsDivisor int
	}{{"a/equal", 40_000, 0, 1}, {"a/different", 40_000, 3000, 1}, {"a/long", 3 << 20, 0, 25}} {
		key := kind.key
		c := keyRace{key: key, exists: true, rounds: max(10, overwrites(t)/kind.roundsDivisor)}
		for tag := range 7 {
			c.contents = append(c.contents, pattern(byte(tag*30), kind.size+tag*kind.step))
		}
		if _, err := s.tryPut(key, c.contents[0]); err != nil {
			t.Fatalf("put: %v", err)
		}
		c.run(t, s, func(content string, round int) error {
			if round%25 > 0 {
				_, err := s.tryPut(key, content)
				return err
			}
			return c.readDuringPut(t, s, content)
		})
	}
}

// readDuringPut puts content and reads the object when the body is first read. It stops
// waiting for the read after a timeout, because the driver may hold a lock.
func (c keyRace) readDuringPut(t conformance.T, s *store, content string) error {
	var wg sync.WaitGroup
	body := &gatedBody{Bytes: driver.Bytes(content), pass: func() {
		read := make(chan struct{})
		wg.Go(func() { defer close(read); c.read(t, s) })
		select {
		case <-read:
		case <-time.After(gateTimeout):
		}
	}}
	t.Step("put", c.key)
	_, err := s.m.Put(t.Context(), c.key, body, &driver.PutOptions{})
	wg.Wait()
	return err
}

// versions runs several writers and readers of one key. All calls must return the same
// content with the same version. Otherwise a conditional put based on a read could lose an
// update.
func versions(t conformance.T, e *Env) {
	s := e.create(t)
	const key = "a/k"
	if s.put(key, "0").Version == "" {
		t.Skipf("the driver has no versions")
	}
	var mu sync.Mutex
	belongs := map[string]string{}
	record := func(who, version, content string) {
		mu.Lock()
		defer mu.Unlock()
		if old, seen := belongs[version]; seen && old != content {
			t.Errorf("%s: version %q was returned for %s and earlier for %s", who, version, show(content), show(old))
		}
		belongs[version] = content
	}
	conditional := s.m.Capabilities().IfMatch
	readable := s.m.Capabilities().Latency != driver.Remote // servers such as versitygw do not read content and version atomically
	const numReaders, rounds, gets = 3, 20, 8               // a driver that reads content and version separately is rarely interrupted in between
	var unfinished atomic.Int64                             // readers with rounds left; writers continue until it is 0
	if readable {
		unfinished.Store(numReaders)
	}
	var pause sync.RWMutex // a reader holds it during Stat, so that waiting writers write between its Stat and its Get
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	for w := range 3 {
		writers.Go(func() {
			for i := 0; (i < overwrites(t)/2 || unfinished.Load() > 0) && !t.Failed(); i++ {
				content := fmt.Sprintf("%d by %d", i, w)
				pause.RLock()
				info, err := s.tryPut(key, content)
				pause.RUnlock()
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				record("put", info.Version, content)
			}
		})
	}
	for range numReaders {
		readers.Go(func() {
			for i := 0; readable && !done.Load() && !t.Failed(); i++ {
				if i == rounds {
					unfinished.Add(-1)
				}
				for range gets {
					got, info, err := s.tryGet(key, driver.GetOptions{})
					if err != nil {
						t.Errorf("get: %v", err)
						return
					}
					record("get", info.Version, string(got))
				}
				if !conditional {
					continue
				}
				pause.Lock()
				seen, err := s.stat(key)
				pause.Unlock()
				if err != nil {
					t.Errorf("stat: %v", err)
					return
				}
				got, info, err := s.tryGet(key, driver.GetOptions{IfMatch: seen.Version})
				switch {
				case err != nil:
					wantKind(t, "get of a replaced version", err, ncerr.ErrConflict)
				default:
					record("get of a version", seen.Version, string(got))
					record("get of a version", info.Version, string(got))
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
}

func firstPut(t conformance.T, e *Env) {
	s := e.create(t)
	for r := range 20 {
		c := keyRace{key: fmt.Sprintf("new%d/k", r), rounds: 1, contents: []string{pattern(byte(r), 20_000+r*100)}}
		c.run(t, s, func(content string, _ int) error {
			if r%2 == 0 {
				return c.readDuringPut(t, s, content)
			}
			_, err := s.tryPut(c.key, content)
			return err
		})
	}
}

// gateTimeout is how long a body waits for other calls, which may need a lock that the
// driver holds while it reads the body.
const gateTimeout = 20 * time.Millisecond

// gatedBody calls pass before its first read.
type gatedBody struct {
	driver.Bytes
	once sync.Once
	pass func()
}

func (b *gatedBody) ReadAt(p []byte, off int64) (int, error) {
	b.once.Do(b.pass)
	return b.Bytes.ReadAt(p, off)
}

// putAndDelete puts and deletes two objects below each of several prefixes, so that a
// prefix often loses its last object while another one is put.
func putAndDelete(t conformance.T, e *Env) {
	const prefixes = 3
	s := e.create(t)
	var wg sync.WaitGroup
	for w := range 2 * prefixes {
		wg.Go(func() {
			key := fmt.Sprintf("shared/deep%d/%d", w%prefixes, w)
			for i := 0; i < raceRounds(t)*4/5 && !t.Failed(); i++ {
				if _, err := s.tryPut(key, "x"); err != nil {
					t.Errorf("put %q: %v", key, err)
					return
				}
				if err := s.m.Delete(t.Context(), key, &driver.DeleteOptions{}); err != nil {
					t.Errorf("delete %q: %v", key, err)
					return
				}
				for range (i + w) % 4 { // lets the others get ahead, so that calls meet at all of their stages
					if _, err := s.stat(key); ncerr.KindOf(err) != ncerr.ErrNotFound {
						t.Errorf("stat %q after its deletion: want ErrNotFound, got %v", key, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func listWhileChanging(t conformance.T, e *Env) {
	s := e.create(t)
	for i := range 200 {
		s.put(fmt.Sprintf("d/keep%d", i), "")
	}
	stored := map[string]bool{}
	for i := range 200 {
		stored[fmt.Sprintf("d/keep%d", i)] = true
		stored[fmt.Sprintf("d/flit%d", i%20)] = true
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !done.Load(); i++ {
			key := fmt.Sprintf("d/flit%d", i%20)
			if _, err := s.tryPut(key, "x"); err != nil {
				t.Errorf("put: %v", err)
				return
			}
			if err := s.m.Delete(t.Context(), key, &driver.DeleteOptions{}); err != nil {
				t.Errorf("delete: %v", err)
				return
			}
		}
	})
	for range 15 {
		seen := map[string]int{}
		for _, k := range s.keys("d/", driver.ListOptions{}) {
			seen[k]++
		}
		for i := range 200 {
			if key := fmt.Sprintf("d/keep%d", i); seen[key] != 1 {
				t.Errorf("%q is listed %d times", key, seen[key])
			}
		}
		for key := range seen {
			if !stored[key] {
				t.Errorf("%q is listed but was never stored", key)
			}
		}
	}
	done.Store(true)
	wg.Wait()
}
