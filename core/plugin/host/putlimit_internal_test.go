//go:build linux

package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// plays is a plugin that calls serve with the heads of each message of puts and a function
// that answers the next n of them.
type plays struct {
	pb.DriverClient
	serve func(ctx context.Context, heads []*pb.PutHead, answer func(n int))
}

// PutMany implements pb.DriverClient.
func (l *plays) PutMany(ctx context.Context, in *pb.PutManyRequest, _ ...grpc.CallOption) (*pb.PutManyReply, error) {
	heads := make([]*pb.PutHead, len(in.GetItems()))
	for i, item := range in.GetItems() {
		heads[i] = item.GetHead()
	}
	r := &pb.PutManyReply{}
	l.serve(ctx, heads, func(n int) {
		for _, h := range heads[len(r.Results):][:n] {
			r.Results = append(r.Results, &pb.PutResult{Info: &pb.Info{Size: h.GetSize()}})
		}
	})
	return r, ctx.Err()
}

// playsStream is a stream to a plays. The plugin answers cancelled puts at once.
type playsStream struct {
	grpc.ClientStream
	ctx     context.Context //nolint:containedctx // that of the stream
	plugin  *plays
	replies chan *pb.StoreBatchReply
}

// Send implements grpc.BidiStreamingClient.
func (s *playsStream) Send(b *pb.StoreBatch) error {
	reply := func(ids []uint64, size func(int) int64) {
		r := &pb.StoreBatchReply{}
		for i, id := range ids {
			r.Results = append(r.Results, &pb.StoreResult{Id: id, Info: &pb.Info{Size: size(i)}})
		}
		s.replies <- r
	}
	if len(b.GetCancel()) > 0 {
		reply(b.GetCancel(), func(int) int64 { return 0 })
		return nil
	}
	heads, ids := make([]*pb.PutHead, len(b.GetJobs())), make([]uint64, len(b.GetJobs()))
	for i, j := range b.GetJobs() {
		heads[i], ids[i] = j.GetPut(), j.GetId()
	}
	go s.plugin.serve(s.ctx, heads, func(n int) {
		sizes := heads
		reply(ids[:n], func(i int) int64 { return sizes[i].GetSize() })
		heads, ids = heads[n:], ids[n:]
	})
	return nil
}

// Recv implements grpc.BidiStreamingClient.
func (s *playsStream) Recv() (*pb.StoreBatchReply, error) {
	select {
	case r := <-s.replies:
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// playsProc returns a process of the given level that performs puts with serve. A call may
// go 2 s without an answer.
func playsProc(t *testing.T, level int, serve func(ctx context.Context, heads []*pb.PutHead, answer func(n int))) *proc {
	t.Helper()
	p := stillProc(t)
	plugin := &plays{serve: serve}
	p.level, p.driver = level, plugin
	p.supervisor.host.opts.CallTimeout = 2 * time.Second
	p.storeStreams.open = func(ctx context.Context) (grpc.BidiStreamingClient[pb.StoreBatch, pb.StoreBatchReply], error) {
		return &playsStream{ctx: ctx, plugin: plugin, replies: make(chan *pb.StoreBatchReply, maxQueue)}, nil
	}
	return p
}

// putAll makes one attempt at n puts with bodies of the given size, and returns the number
// of those that succeeded.
func putAll(t *testing.T, p *proc, n, size int) (stored int, err error) {
	t.Helper()
	x := &writing{m: &remoteMap{supervisor: p.supervisor}, all: make([]write, n)}
	x.sink = func(_ int, _ driver.Info, err error) {
		if stored++; err != nil {
			t.Error(err)
		}
	}
	for i := range x.all {
		x.all[i].PutRequest = &driver.PutRequest{Key: fmt.Sprint("k", i), Body: driver.Bytes(make([]byte, size))}
	}
	return stored, x.attempt(t.Context(), &session{p: p, handle: 1, putsMany: true})
}

// pass lets d pass unless ctx ends.
func pass(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// TestPutTimeLimit checks that each put of a message has the time of one call, that
// the limit ends a plugin that hangs, and that it shrinks with each answer.
func TestPutTimeLimit(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context, heads []*pb.PutHead, answer func(int)) {
		pass(ctx, time.Duration(len(heads))*1500*time.Millisecond)
		answer(len(heads))
	}
	hang := func(ctx context.Context, _ []*pb.PutHead, _ func(int)) { <-ctx.Done() }
	for name, tc := range map[string]struct {
		level, puts, size int
		serve             func(context.Context, []*pb.PutHead, func(int))
		stored            int
		killed            time.Duration // when the plugin is killed; 0 for never
	}{
		"slow, level 0":          {level: 0, puts: 64, serve: slow, stored: 64},
		"slow, level 1":          {level: 1, puts: 64, serve: slow, stored: 64},
		"slow, two messages":     {level: 1, puts: 128, serve: slow, stored: 128},
		"hangs, level 0":         {level: 0, puts: 64, serve: hang, killed: 128 * time.Second},
		"hangs, level 1":         {level: 1, puts: 64, serve: hang, killed: 128 * time.Second},
		"hangs, bytes under way": {level: 0, puts: 2, size: 96 << 10, serve: hang, killed: 10 * time.Second},
		"hangs in the last put": {level: 1, puts: 64, serve: func(ctx context.Context, _ []*pb.PutHead, answer func(int)) {
			pass(ctx, 100*time.Second)
			answer(63)
			<-ctx.Done()
		}, stored: 63, killed: 102 * time.Second},
		"hangs after many bytes": {level: 1, puts: 11, size: 1 << 20, serve: func(ctx context.Context, heads []*pb.PutHead, answer func(int)) {
			if string(heads[0].GetKey()) != "k10" {
				answer(1)
				return
			}
			<-ctx.Done()
		}, stored: 10, killed: 34 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := playsProc(t, tc.level, tc.serve)
				start := time.Now()
				stored, err := putAll(t, p, tc.puts, tc.size)
				took := time.Since(start)
				if stored != tc.stored || (err != nil) != (tc.killed > 0) {
					t.Errorf("stored %d after %v, %v", stored, took, err)
				}
				if tc.killed > 0 && (took != tc.killed || !strings.Contains(err.Error(), "and was killed")) {
					t.Errorf("killed after %v, want %v: %v", took, tc.killed, err)
				}
				synctest.Wait() // late answers free their regions
			})
		})
	}
}
