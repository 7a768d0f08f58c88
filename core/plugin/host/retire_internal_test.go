package host

import (
	"context"
	"errors"
	"testing"
	"time"
)

// endWhileWaiting is a context that is canceled as soon as a call starts to wait for it.
type endWhileWaiting struct {
	context.Context
	end context.CancelFunc
}

func (c endWhileWaiting) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}

// TestRetireStarting checks that retire does not remove a supervisor that is starting a
// process. If it did, Close would not stop the process.
func TestRetireStarting(t *testing.T) {
	t.Parallel()
	h, err := New(&Options{Isolation: Loopback})
	if err != nil {
		t.Fatal(err)
	}
	s := h.hold(h.self, &grantSet{serves: "driver:x/read", role: "driver:x", local: true})
	s.mu.Lock()
	late := time.Now().Add(10 * time.Second) // the start is still delayed when retire is called
	s.deaths = []time.Time{late, late, late}
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := s.acquire(endWhileWaiting{ctx, cancel}); !errors.Is(err, context.Canceled) {
		t.Fatalf("want the caller's context, got %v", err)
	}
	s.leave()
	s.idle.Stop()
	s.retire() // as the timer does during a slow start
	if _, err := s.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	end, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := h.Close(end); err != nil {
		t.Errorf("Close did not stop the process: %v", err)
		s.cur.stop(true)
		_ = h.Close(t.Context())
	}
}
