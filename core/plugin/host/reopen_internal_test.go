package host

import (
	"context"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// TestImmediateDeath checks that calls do not panic if each process ends as soon as the
// store is reopened in it. The calls may fail.
func TestImmediateDeath(t *testing.T) {
	t.Parallel()
	h, err := New(&Options{Isolation: Loopback, Builtin: plugin.Builtin{Openers: []driver.Opener{memmap.NewOpener()}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.WithoutCancel(t.Context())) })
	o, err := h.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	d, err := o.Open(t.Context(), driver.OpenSpec{Path: "x", Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	m := d.(*remoteMap)
	for range 200 {
		m.mu.Lock()
		p := m.sess.p
		m.mu.Unlock()
		p.stop(true)
		ended := make(chan struct{})
		var ending sync.WaitGroup
		ending.Go(func() {
			for {
				m.mu.Lock()
				s := m.sess
				m.mu.Unlock()
				select {
				case <-ended:
					return
				default:
				}
				if s.p != p {
					s.p.stop(true)
					return
				}
			}
		})
		_, _ = m.Stat(t.Context(), "k") // any error is acceptable
		close(ended)
		ending.Wait()
	}
}
