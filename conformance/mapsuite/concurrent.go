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
		{ID: "map.concurrent.distinct-keys", Doc: "Writers and readers of different keys do not disturb each other.", Needs: w, Run: distinctKeys},
		{ID: "map.concurrent.crowd", Doc: "Sixteen puts of different objects, begun before any of them ends, and reads of others beside them all succeed: what is busy waits.", Needs: w, Run: crowd},
		{ID: "map.concurrent.same-key", Doc: "A reader of an object that is overwritten sees the old content or the new, never a mixture and never nothing.", Needs: w, Run: sameKey},
		{ID: "map.concurrent.versions", Doc: "A version that Put tells, and on a local medium one that Get tells, belongs to the content that this Put stored or that this Get gave, whatever others do meanwhile.", Needs: w, Run: versions},
		{ID: "map.concurrent.first-put", Doc: "A reader of a new object sees nothing or all of it.", Needs: w, Run: firstPut},
		{ID: "map.concurrent.parents", Doc: "Many first objects below one new prefix can be stored at once.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					if _, err := s.tryPut(fmt.Sprintf("new/deep/%d/x", i%4*10+i), "x"); err != nil {
						t.Errorf("put: %v", err)
					}
				})
			}
			wg.Wait()
		}},
		{ID: "map.concurrent.open", Doc: "Opening and closing other handles, for reading and for writing, takes nothing of what is being put.", Needs: w, Run: openWhilePutting},
		{ID: "map.concurrent.delete", Doc: "Storing and deleting neighbours at once fails for nobody.", Needs: []string{Write, Delete}, Run: putAndDelete},
		{ID: "map.concurrent.list", Doc: "Objects that are there all the time are listed exactly once while others come and go.", Needs: []string{Write, Delete, List}, Run: listWhileChanging},
	}
}

// openWhilePutting opens handles all the time beside puts of objects that are stored
// in pieces. A store that has one writer refuses them.
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
				_ = m.Close(t.Context()) // it has not changed anything
			}
		}
	})
	var keys []string
	for i, n := 0, 8*rivalry(t)/10; i < n || i < 10*n && opened.Load() < 20; i++ { // so that they meet
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
				if i%3 == 0 { // long enough to meet others in any buffer that is shared
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

// crowd puts objects whose bodies wait until all puts have begun, or have shown
// that they wait for each other, and until others have been read once; reading
// goes on until the puts have ended. As several programs do, it reads through
// two handles, and puts through two in every second round.
func crowd(t conformance.T, e *Env) {
	const writers = 16
	s := e.create(t)
	var old []string
	for i := range 8 {
		old = append(old, fmt.Sprintf("old/%d", i))
	}
	s.putAll(old...)
	s.flush()
	readers, handles := []*store{s, e.mustOpen(t, driver.Read)}, []*store{s}
	if s.m.Capabilities().Durable == driver.OnPut { // others may write beside it
		handles = append(handles, e.mustOpen(t, driver.Update))
	}
	rounds := 4
	if t.Effort() == conformance.Brief {
		rounds = 2
	}
	var r rally
	for round := 0; round < rounds && !t.Failed(); round++ {
		var keys, contents []string
		for i := range writers {
			keys = append(keys, fmt.Sprintf("crowd/%d/%d", i%4, i))
			contents = append(contents, pattern(byte(round*writers+i), 5000+i))
		}
		look := onlookers{t: t, handles: readers, keys: old}
		bodies, end := r.bodies(contents)
		var puts sync.WaitGroup
		t.Doing("put", strconv.Itoa(writers), "objects at once")
		for i, body := range bodies {
			body := &gatedBody{Bytes: driver.Bytes(contents[i]), pass: func() {
				_, _ = body.ReadAt(make([]byte, 1), 0) // which waits for the others
				look.once()
			}}
			puts.Go(func() {
				if _, err := handles[i*(round%2)%len(handles)].m.Put(t.Context(), keys[i], body, &driver.PutOptions{}); err != nil {
					t.Errorf("put %q beside %d others: %v", keys[i], writers-1, err)
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

// onlookers read keys, each of which holds its own name, while others write.
type onlookers struct {
	t       conformance.T
	handles []*store
	keys    []string

	start   sync.Once
	seen    chan struct{} // closed when each has read once, or would not wait for it
	done    atomic.Bool
	reading sync.WaitGroup
}

// once starts them, and returns when all keys have been read once. A driver may
// let them wait for whoever calls it.
func (o *onlookers) once() {
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
		time.AfterFunc(gatePatience, seen)
		o.reading.Go(func() { first.Wait(); seen() })
	})
	<-o.seen
}

func (o *onlookers) read(i int) {
	h, key := o.handles[i%len(o.handles)], o.keys[i]
	h.want(key, key)
	if info, err := h.stat(key); err != nil || info.Size != int64(len(key)) {
		o.t.Errorf("stat %q: want size %d, got %+v, %v", key, len(key), info, err)
	}
	if i == 0 && h.m.Capabilities().List {
		h.wantMany("old/", driver.ListOptions{}, o.keys)
	}
}

// end returns when they have stopped.
func (o *onlookers) end() {
	o.done.Store(true)
	o.reading.Wait()
}

// beside is how many rounds of a race must have met a read, and most is how
// many rounds there are at most.
const beside, most = 100, 20_000

// contest is a race between a writer of one key and readers.
type contest struct {
	key      string
	there    bool // the object exists before
	rounds   int  // at least
	contents []string
}

// read checks what one reader sees, and reports whether the rule is kept.
func (c contest) read(t conformance.T, s *store) bool {
	got, info, err := s.tryGet(c.key, driver.GetOptions{})
	if err != nil {
		return c.absent(t, "get", err)
	}
	is := func(content string) bool { return content == string(got) }
	if !slices.ContainsFunc(c.contents, is) || info.Size != int64(len(got)) {
		t.Errorf("get %q: a mixture was read: %d bytes %s, size %d", c.key, len(got), show(string(got)), info.Size)
		return false
	}
	return true
}

// look is read without the content: it is quick enough to see what is there
// for a moment only.
func (c contest) look(t conformance.T, s *store) bool {
	info, err := s.stat(c.key)
	if err != nil {
		return c.absent(t, "stat", err)
	}
	long := func(content string) bool { return int64(len(content)) == info.Size }
	if !slices.ContainsFunc(c.contents, long) {
		t.Errorf("stat %q: no content has the size %d", c.key, info.Size)
		return false
	}
	return true
}

func (c contest) absent(t conformance.T, op string, err error) bool {
	switch {
	case ncerr.KindOf(err) != ncerr.ErrNotFound:
		t.Errorf("%s %q: %v", op, c.key, err)
		return false
	case c.there:
		t.Errorf("%s %q: absent while it is overwritten: a reader would take that for fill values", op, c.key)
	}
	return !c.there
}

// run runs the writer for its rounds beside readers of the key. It goes on
// until enough rounds met a read: readers may begin late, and run seldom.
func (c contest) run(t conformance.T, s *store, write func(content string, round int) error) {
	var done atomic.Bool
	var reads atomic.Int64
	var wg sync.WaitGroup
	for _, see := range []func(conformance.T, *store) bool{c.read, c.look, c.read} {
		wg.Go(func() {
			for !done.Load() && see(t, s) {
				reads.Add(1)
				runtime.Gosched()
			}
		})
	}
	last, met := int64(0), 0
	for r := 0; (r < c.rounds || met < min(c.rounds, beside)) && r < most && !t.Failed(); r++ {
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

// overwrites is how often one key is overwritten beside its readers.
func overwrites(t conformance.T) int {
	switch t.Effort() {
	case conformance.Brief:
		return 30
	case conformance.Thorough:
		return 1000
	}
	return 250
}

// sameKey overwrites with contents of one length, as chunks have it, of
// different lengths, and with long ones, which media store in parts.
func sameKey(t conformance.T, e *Env) {
	s := e.create(t)
	for _, kind := range []struct {
		key               string
		size, more, share int
	}{{"a/equal", 40_000, 0, 1}, {"a/different", 40_000, 3000, 1}, {"a/long", 3 << 20, 0, 25}} {
		key := kind.key
		c := contest{key: key, there: true, rounds: max(10, overwrites(t)/kind.share)}
		for tag := range 7 {
			c.contents = append(c.contents, pattern(byte(tag*30), kind.size+tag*kind.more))
		}
		if _, err := s.tryPut(key, c.contents[0]); err != nil {
			t.Fatalf("put: %v", err)
		}
		c.run(t, s, func(content string, round int) error {
			if round%25 > 0 {
				_, err := s.tryPut(key, content)
				return err
			}
			return c.during(t, s, content)
		})
	}
}

// during puts content, and reads while the body is read for the first time.
// The driver may hold a lock that the reader waits for.
func (c contest) during(t conformance.T, s *store, content string) error {
	var wg sync.WaitGroup
	body := &gatedBody{Bytes: driver.Bytes(content), pass: func() {
		read := make(chan struct{})
		wg.Go(func() { defer close(read); c.read(t, s) })
		select {
		case <-read:
		case <-time.After(gatePatience):
		}
	}}
	t.Doing("put", c.key)
	_, err := s.m.Put(t.Context(), c.key, body, &driver.PutOptions{})
	wg.Wait()
	return err
}

// versions lets several writers and readers have one key. Whatever tells a
// version and a content together tells the same of it: who reads, and then puts
// under the version that was given, loses nothing then.
func versions(t conformance.T, e *Env) {
	s := e.create(t)
	const key = "a/k"
	if s.put(key, "0").Version == "" {
		return // there are none
	}
	var mu sync.Mutex
	belongs := map[string]string{}
	note := func(who, version, content string) {
		mu.Lock()
		defer mu.Unlock()
		if old, seen := belongs[version]; seen && old != content {
			t.Errorf("%s: version %q is of %s, and was of %s", who, version, show(content), show(old))
		}
		belongs[version] = content
	}
	conditional := s.m.Capabilities().IfMatch
	readable := s.m.Capabilities().Latency != driver.Remote // servers such as versitygw read content and version one after the other
	const readersThere, rounds = 3, 20
	var early atomic.Int64 // readers with rounds left; writers continue until it is 0
	if readable {
		early.Store(readersThere)
	}
	var still sync.RWMutex // held by a reader while it looks for a version: the writers wait, and come when it reads
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	for w := range 3 {
		writers.Go(func() {
			for i := 0; (i < overwrites(t)/2 || early.Load() > 0) && !t.Failed(); i++ {
				content := fmt.Sprintf("%d by %d", i, w)
				still.RLock()
				info, err := s.tryPut(key, content)
				still.RUnlock()
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				note("put", info.Version, content)
			}
		})
	}
	for range readersThere {
		readers.Go(func() {
			for i := 0; readable && !done.Load() && !t.Failed(); i++ {
				if i == rounds {
					early.Add(-1)
				}
				got, info, err := s.tryGet(key, driver.GetOptions{})
				if err != nil {
					t.Errorf("get: %v", err)
					return
				}
				note("get", info.Version, string(got))
				if !conditional {
					continue
				}
				still.Lock()
				seen, err := s.stat(key)
				still.Unlock()
				if err != nil {
					t.Errorf("stat: %v", err)
					return
				}
				got, info, err = s.tryGet(key, driver.GetOptions{IfMatch: seen.Version})
				switch {
				case err != nil:
					wantKind(t, "get of a version that has gone", err, ncerr.ErrConflict)
				default:
					note("get of a version", seen.Version, string(got))
					note("get of a version", info.Version, string(got))
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
		c := contest{key: fmt.Sprintf("new%d/k", r), rounds: 1, contents: []string{pattern(byte(r), 20_000+r*100)}}
		c.run(t, s, func(content string, _ int) error {
			if r%2 == 0 {
				return c.during(t, s, content)
			}
			_, err := s.tryPut(c.key, content)
			return err
		})
	}
}

// gatePatience is how long a body waits for others: a driver may read it
// under a lock that the others wait for.
const gatePatience = 20 * time.Millisecond

// gatedBody calls pass before it is read for the first time.
type gatedBody struct {
	driver.Bytes
	once sync.Once
	pass func()
}

func (b *gatedBody) ReadAt(p []byte, off int64) (int, error) {
	b.once.Do(b.pass)
	return b.Bytes.ReadAt(p, off)
}

func putAndDelete(t conformance.T, e *Env) {
	s := e.create(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			key := fmt.Sprintf("shared/deep/%d", w)
			for range 40 {
				if _, err := s.tryPut(key, "x"); err != nil {
					t.Errorf("put %q: %v", key, err)
					return
				}
				if err := s.m.Delete(t.Context(), key, &driver.DeleteOptions{}); err != nil {
					t.Errorf("delete %q: %v", key, err)
					return
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
				t.Errorf("%q was listed %d times", key, seen[key])
			}
		}
	}
	done.Store(true)
	wg.Wait()
}
