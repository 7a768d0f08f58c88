package host

import (
	"testing"
	"time"
)

// TestStartWhileHostIsLocked checks that goOwned does not acquire Host.mu. A supervisor
// calls goOwned with its own mu held, while another goroutine may hold Host.mu and wait
// for the supervisor's mu.
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
		t.Error("goOwned waits for Host.mu")
	}
}
