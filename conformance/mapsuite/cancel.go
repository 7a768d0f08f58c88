package mapsuite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func cancelChecks() []Check {
	w := []string{Write}
	return []Check{
		{ID: "map.cancel.before", Doc: "A call with a canceled context returns the context's error or completes; it never does only part of its work.", Needs: w, Run: cancelBefore},
		{ID: "map.cancel.get", Doc: "A Get whose context is canceled during the call returns the object or the context's error, never ErrNotFound. Bytes returned with the error are a prefix of the object.", Needs: []string{Content}, Run: cancelGet},
		{ID: "map.cancel.put", Doc: "A Put whose context is canceled during the call stores all or nothing.", Needs: w, Run: cancelPut},
		{ID: "map.cancel.put.late", Doc: "Nothing is stored after Put has returned, even if its context is canceled.", Needs: w, Run: latePut},
		{ID: "map.cancel.list", Doc: "A listing stops soon after its context is canceled.", Needs: []string{Write, List}, Run: cancelList},
		{ID: "map.cancel.usable", Doc: "A store remains usable after canceled calls.", Needs: w, Run: func(t conformance.T, e *Env) {
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

// ended fails the check unless err is nil or the context's error. An error with a kind
// fails it, even if its cause is the context's error.
func ended(ctx context.Context, t conformance.T, what string, err error) {
	if err != nil && (!errors.Is(err, ctx.Err()) || !ncerr.IsContext(err)) {
		t.Errorf("%s: want success or %v, got %v", what, ctx.Err(), err)
	}
}

// cancelGet cancels calls to Get, some in the alloc callback and the others at various
// times.
func cancelGet(t conformance.T, e *Env) {
	s := e.create(t)
	content := pattern(4, 300_000)
	s.put("a/k", content)
	began := time.Now()
	s.want("a/k", content)
	took := time.Since(began)
	const n = 60
	for i := 0; i < n && !t.Failed(); i++ {
		ctx, cancel := context.WithCancel(t.Context())
		alloc := driver.Heap
		if i%2 == 0 {
			alloc = func(n int64) ([]byte, error) { cancel(); return make([]byte, n), nil }
		} else {
			time.AfterFunc(took*time.Duration(i)/n, cancel)
		}
		t.Step("get", "a/k")
		got, _, err := s.m.Get(ctx, "a/k", &driver.GetOptions{}, alloc)
		cancel()
		if ended(ctx, t, "get", err); err == nil && string(got) != content {
			t.Errorf("get returns no error, but %d wrong bytes %s", len(got), show(string(got)))
		}
		if !strings.HasPrefix(content, string(got)) { // the caller may resume after the returned bytes
			t.Errorf("get returns %v with %d bytes that are not a prefix of the object", err, len(got))
		}
	}
	s.want("a/k", content)
}

func cancelBefore(t conformance.T, e *Env) {
	s := e.create(t)
	s.put("k", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data, _, err := s.m.Get(ctx, "k", &driver.GetOptions{}, driver.Heap)
	ended(ctx, t, "get", err)
	if err == nil && string(data) != "old" {
		t.Errorf("get with a canceled context returns %q", data)
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
	if !s.m.Capabilities().List {
		return
	}
	seen := 0
	var last error
	for _, err := range s.m.List(ctx, "", &driver.ListOptions{}) {
		if last = err; err == nil {
			seen++
		}
	}
	ended(ctx, t, "list", last)
	if last == nil && seen != 1 {
		t.Errorf("list with a canceled context: want an error or 1 entry, got %d entries and no error", seen)
	}
}

// latePut cancels puts at many times and then checks repeatedly that their results do not
// change.
func latePut(t conformance.T, e *Env) {
	s := e.create(t)
	n := 24
	if t.Effort() == conformance.Thorough {
		n = 72
	}
	long := pattern(2, 8<<20) // takes a while to store
	for i := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		s.put("late/long", "old")
		_, err := s.m.Put(ctx, "late/long", cancelingBody{driver.Bytes(long), int64(len(long)) - 1, cancel}, &driver.PutOptions{})
		cancel()
		ended(ctx, t, "put of 8 MiB", err)
		if i%2 == 0 {
			s.put("late/long", "last")
		}
		first, _, err := s.tryGet("late/long", driver.GetOptions{})
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		if i%2 == 0 && string(first) != "last" {
			t.Errorf("a canceled put replaced the content of a later put")
		}
		for range 5 {
			time.Sleep(20 * time.Millisecond)
			if s.want("late/long", string(first)); t.Failed() {
				t.Logf("the content was correct when Put returned")
				return
			}
		}
	}
	old, fresh, last := pattern(1, 30_000), pattern(2, 30_000), pattern(3, 30_000)
	key := func(i int) string { return fmt.Sprintf("late/%d", i) }
	for i := range n {
		s.put(key(i), old)
	}
	began := time.Now()
	s.put("late/timed", fresh)
	took := time.Since(began)
	want := make([]string, n)
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		body := driver.Body(driver.Bytes(fresh))
		switch i % 3 {
		case 0: // cancel when the body has been read
			body = cancelingBody{driver.Bytes(fresh), int64(len(fresh)) - 1, cancel}
		case 1: // cancel during the call
			time.AfterFunc(took*time.Duration(i)/time.Duration(n), cancel)
		default: // cancel when Put starts to read the body
			body = cancelingBody{driver.Bytes(fresh), 0, cancel}
		}
		t.Step("put", key(i))
		_, err := s.m.Put(ctx, key(i), body, &driver.PutOptions{})
		cancel()
		ended(ctx, t, "put "+key(i), err)
		got, _, err := s.tryGet(key(i), driver.GetOptions{})
		if want[i] = string(got); err != nil || want[i] != old && want[i] != fresh {
			t.Errorf("get %q: want the old or the new content, got %d bytes %s, %v", key(i), len(got), show(string(got)), err)
		}
		if i%2 == 0 { // the canceled put must not replace this one
			s.put(key(i), last)
			want[i] = last
		}
	}
	rereads := 20
	if t.Effort() == conformance.Brief {
		rereads = 3
	}
	for range rereads { // work that continues in the background needs a moment
		for i := range n {
			if s.want(key(i), want[i]); t.Failed() {
				t.Logf("the content was correct when Put returned")
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// cancelingBody cancels a context when a byte beyond its first limit bytes is read.
type cancelingBody struct {
	driver.Bytes
	limit  int64
	cancel context.CancelFunc
}

func (b cancelingBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.limit {
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
		_, err := s.m.Put(ctx, key, cancelingBody{driver.Bytes(fresh), int64(len(fresh)) / 2, cancel}, &driver.PutOptions{})
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
	began := time.Now()
	s.put("c/timed", fresh)
	took := time.Since(began)
	const n = 24
	for i := 0; i < n && !t.Failed(); i++ { // cancel while the driver stores the content
		s.put("a/old", old)
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(took*time.Duration(i)/n, cancel)
		t.Step("put", "a/old")
		_, err := s.m.Put(ctx, "a/old", driver.Bytes(fresh), &driver.PutOptions{})
		timer.Stop()
		cancel()
		ended(ctx, t, "put", err)
		got, _, gerr := s.tryGet("a/old", driver.GetOptions{})
		if gerr != nil || string(got) != fresh && (err == nil || string(got) != old) {
			t.Errorf("after a put that returned %v: want the old or the new content, got %d bytes %s, %v", err, len(got), show(string(got)), gerr)
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
		t.Errorf("the canceled listing ended without an error after %d of 300 entries", n)
	}
	for _, at := range []int{1, 150, 300} { // the caller stops at the entry at which it cancels
		s.stopListing("d/", at)
	}
}

// stopListing cancels a listing at an entry and stops there. Go panics if the driver yields
// anything afterwards.
func (s *store) stopListing(prefix string, at int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			s.t.Errorf("the listing continues after its context was canceled and its caller stopped at entry %d: %v", at, r)
		}
	}()
	s.t.Step("list", prefix)
	n := 0
	for _, err := range s.m.List(ctx, prefix, &driver.ListOptions{}) {
		if err != nil {
			s.t.Errorf("list %q: %v", prefix, err)
			return
		}
		if n++; n == at {
			cancel()
			return
		}
	}
}
