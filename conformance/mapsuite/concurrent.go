package mapsuite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func concurrencyChecks() []Check {
	w := []string{Write}
	return []Check{
		{ID: "map.concurrent.distinct-keys", Doc: "Writers and readers of different keys do not disturb each other.", Needs: w, Run: distinctKeys},
		{ID: "map.concurrent.same-key", Doc: "A reader sees the old content or the new, never a mixture.", Needs: w, Run: sameKey},
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
		{ID: "map.concurrent.delete", Doc: "Storing and deleting neighbours at once fails for nobody.", Needs: []string{Write, Delete}, Run: putAndDelete},
		{ID: "map.concurrent.list", Doc: "Objects that are there all the time are listed exactly once while others come and go.", Needs: []string{Write, Delete, List}, Run: listWhileChanging},
	}
}

func distinctKeys(t conformance.T, e *Env) {
	s := e.create(t)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				key := fmt.Sprintf("w%d/%d", w%3, w*100+i)
				content := pattern(byte(w*31+i), 1000+i)
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

// whole reports whether content is one of the patterns that the writers store.
func whole(content []byte) bool {
	if len(content) == 0 {
		return false
	}
	tag := content[0]
	return string(content) == pattern(tag, 20000+int(tag)*100)
}

// beside is how many rounds of a race must have had a read, if there are so many.
const beside = 20

// race runs a writer until it has done n rounds, beside readers of one key. It
// goes on until enough of them met a read: readers may begin late, and run
// seldom.
func race(t conformance.T, s *store, key string, n int, write func(round int) error) {
	var done atomic.Bool
	var reads atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !done.Load() {
				got, info, err := s.tryGet(key, driver.GetOptions{})
				switch {
				case err != nil && ncerr.KindOf(err) != ncerr.ErrNotFound:
					t.Errorf("get: %v", err)
					return
				case err == nil && (!whole(got) || info.Size != int64(len(got))):
					t.Errorf("a mixture was read: %d bytes %s, size %d", len(got), show(string(got)), info.Size)
					return
				}
				reads.Add(1)
				runtime.Gosched()
			}
		})
	}
	last, met := int64(0), 0
	for r := 0; r < n || met < min(n, beside) && !t.Failed(); r++ {
		if err := write(r); err != nil {
			t.Errorf("write: %v", err)
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

func sameKey(t conformance.T, e *Env) {
	s := e.create(t)
	put := func(r int) error {
		tag := r % 7 * 30
		_, err := s.tryPut("a/k", pattern(byte(tag), 20000+tag*100))
		return err
	}
	if err := put(0); err != nil {
		t.Fatalf("put: %v", err)
	}
	race(t, s, "a/k", 150, put)
}

func firstPut(t conformance.T, e *Env) {
	s := e.create(t)
	for r := range 20 {
		key := fmt.Sprintf("new%d/k", r)
		race(t, s, key, 1, func(int) error {
			_, err := s.tryPut(key, pattern(byte(r), 20000+r*100))
			return err
		})
	}
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

func cancelChecks() []Check {
	w := []string{Write}
	return []Check{
		{ID: "map.cancel.before", Doc: "A call with an ended context gives its error or finishes, and leaves nothing half done.", Needs: w, Run: cancelBefore},
		{ID: "map.cancel.put", Doc: "A Put whose context ends meanwhile stores all or nothing.", Needs: w, Run: cancelPut},
		{ID: "map.cancel.list", Doc: "A listing stops soon after its context has ended.", Needs: []string{Write, List}, Run: cancelList},
		{ID: "map.cancel.usable", Doc: "A store works on after calls were cancelled.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("k", "old")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 20 {
				_, _, _ = s.m.Get(ctx, "k", &driver.GetOptions{}, driver.Heap)
				_, _ = s.m.Put(ctx, "other", driver.Bytes("x"), &driver.PutOptions{})
			}
			s.want("k", "old")
			s.put("k", "new")
			s.want("k", "new")
		}},
	}
}

// ended reports an error that is neither nil nor the context's own.
func ended(ctx context.Context, t conformance.T, what string, err error) {
	if err != nil && !errors.Is(err, ctx.Err()) {
		t.Errorf("%s: want success or %v, got %v", what, ctx.Err(), err)
	}
}

func cancelBefore(t conformance.T, e *Env) {
	s := e.create(t)
	s.put("k", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data, _, err := s.m.Get(ctx, "k", &driver.GetOptions{}, driver.Heap)
	ended(ctx, t, "get", err)
	if err == nil && string(data) != "old" {
		t.Errorf("get gives %q", data)
	}
	_, err = s.m.Stat(ctx, "none")
	if ncerr.KindOf(err) != ncerr.ErrNotFound {
		ended(ctx, t, "stat", err)
	}
	_, err = s.m.Put(ctx, "k", driver.Bytes("new"), &driver.PutOptions{})
	ended(ctx, t, "put", err)
	want := "old"
	if err == nil {
		want = "new"
	}
	s.want("k", want)
}

// cancellingBody ends a context when it has been read to the middle.
type cancellingBody struct {
	driver.Bytes
	cancel context.CancelFunc
}

func (b cancellingBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(len(b.Bytes))/2 {
		b.cancel()
	}
	return b.Bytes.ReadAt(p, off)
}

func cancelPut(t conformance.T, e *Env) {
	s := e.create(t)
	old, fresh := pattern(1, 50000), pattern(2, 4<<20)
	for _, key := range []string{"a/old", "b/new"} {
		if key == "a/old" {
			s.put(key, old)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.m.Put(ctx, key, cancellingBody{driver.Bytes(fresh), cancel}, &driver.PutOptions{})
		cancel()
		ended(ctx, t, "put "+key, err)
		switch {
		case err == nil:
			s.want(key, fresh)
		case key == "a/old":
			s.want(key, old)
		default:
			s.wantAbsent(key)
		}
	}
}

func cancelList(t conformance.T, e *Env) {
	s := e.create(t)
	for i := range 300 {
		s.put(fmt.Sprintf("d/%d", i), "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range s.m.List(ctx, "d/", &driver.ListOptions{}) {
		if last = err; err != nil {
			break
		}
		if n++; n == 1 {
			cancel()
		}
	}
	ended(ctx, t, "list", last)
	if last == nil && n != 300 {
		t.Errorf("the listing ended without an error after %d of 300 entries", n)
	}
}
