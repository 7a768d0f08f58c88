package server

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// slowMap holds all puts up.
type slowMap struct {
	driver.Map
	atWork atomic.Int64
	gate   chan struct{}
}

func (*slowMap) Capabilities() driver.Capabilities { return driver.Capabilities{} }

func (m *slowMap) Put(context.Context, string, driver.Body, *driver.PutOptions) (driver.Info, error) {
	m.atWork.Add(1)
	<-m.gate
	return driver.Info{}, nil
}

// TestPutsAtWork: the puts of all messages together are at work a few at once.
func TestPutsAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowMap{gate: make(chan struct{})}
		m := newOpenMap(slow)
		var answers atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				m.putMany(t.Context(), make([]driver.PutRequest, 64), func(int, driver.Info, error) { answers.Add(1) })
			})
		}
		synctest.Wait()
		if n := slow.atWork.Load(); n != int64(m.atOnce()) {
			t.Errorf("%d puts are at work, want %d", n, m.atOnce())
		}
		close(slow.gate)
		wg.Wait()
		if n := answers.Load(); n != 3*64 {
			t.Errorf("%d answers", n)
		}
	})
}
