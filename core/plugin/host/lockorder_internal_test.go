package host

import (
	"testing"
	"time"
)

// TestStartWhileHostIsLocked checks that a locked supervisor can start a process while
// others hold the host's lock and wait for the supervisor.
func TestStartWhileHostIsLocked(t *testing.T) {
	t.Parallel()
	h := &Host{}
	h.mu.Lock()
	defer h.mu.Unlock()
	began := make(chan struct{})
	go func() {
		if err := h.goOwned(func() { close(began) }); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-began:
	case <-time.After(time.Minute):
		t.Error("a start waits for the lock of the host")
	}
}
