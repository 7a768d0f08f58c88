package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// slowMap blocks all puts until gate is closed.
type slowMap struct {
	driver.Map
	active atomic.Int64 // number of puts that have begun
	gate   chan struct{}
}

func (*slowMap) Capabilities() driver.Capabilities { return driver.Capabilities{} }

func (m *slowMap) Put(context.Context, string, driver.Body, *driver.PutOptions) (driver.Info, error) {
	m.active.Add(1)
	<-m.gate
	return driver.Info{}, nil
}

// TestConcurrentPutLimit checks that the limit on concurrent puts applies to all messages
// together.
func TestConcurrentPutLimit(t *testing.T) {
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
		if n := slow.active.Load(); n != int64(m.concurrency()) {
			t.Errorf("%d puts are active, want %d", n, m.concurrency())
		}
		close(slow.gate)
		wg.Wait()
		if n := answers.Load(); n != 3*64 {
			t.Errorf("got %d answers, want %d", n, 3*64)
		}
	})
}

// timedMap has a Put that takes as long as its key specifies.
type timedMap struct{ driver.Map }

func (timedMap) Capabilities() driver.Capabilities { return driver.Capabilities{} }

func (timedMap) Put(_ context.Context, key string, _ driver.Body, _ *driver.PutOptions) (driver.Info, error) {
	d, err := time.ParseDuration(key)
	time.Sleep(d)
	return driver.Info{}, err
}

// oneByOne performs the puts of a batch one after the other.
type oneByOne struct{ timedMap }

func (m oneByOne) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	for i, r := range reqs {
		info, err := m.Put(ctx, r.Key, r.Body, &r.Opts)
		sink(i, info, err)
	}
	return nil
}

// replies records the messages that a plugin sends.
type replies struct {
	pb.Driver_TransferServer
	start time.Time
	sent  []string
}

func (s *replies) Send(r *pb.StoreBatchReply) error {
	ids := fmt.Sprint(time.Since(s.start), ":")
	for _, r := range r.GetResults() {
		ids += fmt.Sprint(" ", r.GetId())
		if r.GetError() != nil {
			ids += " failed"
		}
	}
	s.sent = append(s.sent, ids)
	return nil
}

// TestEarlyAnswers checks that the results of slow puts are sent before all puts of a
// message have ended, and that the results of fast puts are sent together.
func TestEarlyAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		m    driver.Map
		puts string
		want string
	}{
		{timedMap{}, "0s 10ms 1s 3s", "100ms: 1 2, 1.1s: 3, 3s: 4"},
		{timedMap{}, "4ms 3ms 2ms 1ms", "4ms: 4 3 2 1"},
		{oneByOne{}, "10ms 20ms 30ms 40ms", "100ms: 1 2 3 4"},
		{oneByOne{}, "1s 10ms 2s 1ms 1ms", "1.1s: 1 2, 3.012s: 3 4 5"},
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &replies{start: time.Now()}
			d := &driverService{maps: map[uint64]*openMap{1: newOpenMap(tc.m)}}
			x := &storeExec{d: d, ctx: t.Context(), stream: out, jobs: map[uint64]*storeJob{}}
			var jobs []*pb.StoreJob
			for i, key := range strings.Fields(tc.puts) {
				jobs = append(jobs, &pb.StoreJob{Id: uint64(i + 1), Handle: 1, Operation: &pb.StoreJob_Put{Put: &pb.PutHead{Key: []byte(key)}}})
			}
			if err := x.start(jobs); err != nil {
				t.Fatal(err)
			}
			x.wg.Wait()
			if got := strings.Join(out.sent, ", "); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.puts, got, tc.want)
			}
		})
	}
}
