package server

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// slowMap blocks all puts until gate is closed.
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

// TestPutsAtWork checks that the number of concurrent puts is limited over all
// messages.
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
			t.Errorf("%d puts are active, want %d", n, m.atOnce())
		}
		close(slow.gate)
		wg.Wait()
		if n := answers.Load(); n != 3*64 {
			t.Errorf("%d answers", n)
		}
	})
}
