package server

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
)

// slowCodec blocks all jobs until gate is closed.
type slowCodec struct {
	codecdriver.Codec
	active atomic.Int64 // number of jobs that have begun
	gate   chan struct{}
}

func (c *slowCodec) Decode(context.Context, []byte, []byte) (int, error) {
	c.active.Add(1)
	<-c.gate
	return 1, nil
}

// TestConcurrentGroupLimit checks that groups of all streams together use as many cores as
// there are.
func TestConcurrentGroupLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowCodec{gate: make(chan struct{})}
		s := New(Config{})
		s.shared.Store(&shared{segments: map[uint32]segment{1: {mem: make([]byte, 1), writable: true}}})
		s.codecs.pipelines[1] = &pipeline{ids: []string{"slow"}, codecs: []codecdriver.Codec{slow}, specs: make([]codecdriver.Spec, 2)}
		s.codecs.pipelines[1].specs[0].MaxBytes = 1
		cores := runtime.GOMAXPROCS(0)
		var wg sync.WaitGroup
		var done atomic.Int64
		for range cores + 1 {
			e := &executor{c: &s.codecs, ctx: t.Context(), groups: map[*group]struct{}{}}
			g := &group{jobs: []*pb.Job{{Op: pb.Op_OP_DECODE, Pipeline: 1, Last: true, Limit: 1, Output: &pb.Region{Segment: 1, Length: 1}}}}
			wg.Go(func() {
				if r := e.runGroup(g).GetResults()[0]; r.GetError() == nil && r.GetSize() == 1 {
					done.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := slow.active.Load(); n != int64(cores) {
			t.Errorf("%d jobs are active, want %d", n, cores)
		}
		close(slow.gate)
		wg.Wait()
		if n := done.Load(); n != int64(cores)+1 {
			t.Errorf("got %d results, want %d", n, cores+1)
		}
	})
}
