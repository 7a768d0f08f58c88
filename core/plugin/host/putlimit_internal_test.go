//go:build linux

package host

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// putPlugin is a plugin that calls serve for each message of puts. heads are the heads
// of the puts, and answer answers the next n puts.
type putPlugin struct {
	pb.DriverClient
	serve   func(ctx context.Context, heads []*pb.PutHead, answer func(n int))
	largest int // size of the largest message
}

// PutMany implements pb.DriverClient.
func (l *putPlugin) PutMany(ctx context.Context, in *pb.PutManyRequest, _ ...grpc.CallOption) (*pb.PutManyReply, error) {
	l.largest = max(l.largest, proto.Size(in))
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

// putStream is a stream to a putPlugin. The plugin answers canceled puts immediately.
type putStream struct {
	grpc.ClientStream
	ctx     context.Context
	plugin  *putPlugin
	replies chan *pb.StoreBatchReply
}

// Send implements grpc.BidiStreamingClient.
func (s *putStream) Send(b *pb.StoreBatch) error {
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
	s.plugin.largest = max(s.plugin.largest, proto.Size(b))
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
func (s *putStream) Recv() (*pb.StoreBatchReply, error) {
	select {
	case r := <-s.replies:
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// putProc returns a process at the given level that performs puts with serve. Its
// CallTimeout is 2 s.
func putProc(t *testing.T, level int, serve func(ctx context.Context, heads []*pb.PutHead, answer func(n int))) (*proc, *putPlugin) {
	t.Helper()
	p := newInertProc(t)
	plugin := &putPlugin{serve: serve}
	p.level, p.driver = level, plugin
	p.supervisor.host.opts.CallTimeout = 2 * time.Second
	p.storeStreams.open = func(ctx context.Context) (grpc.BidiStreamingClient[pb.StoreBatch, pb.StoreBatchReply], error) {
		return &putStream{ctx: ctx, plugin: plugin, replies: make(chan *pb.StoreBatchReply, maxQueue)}, nil
	}
	return p, plugin
}

// putAll makes one attempt at puts and returns the number of results.
func putAll(t *testing.T, p *proc, reqs []driver.PutRequest) (stored int, err error) {
	t.Helper()
	x := &writing{m: &remoteMap{supervisor: p.supervisor}, all: make([]write, len(reqs))}
	x.sink = func(_ int, _ driver.Info, err error) {
		if stored++; err != nil {
			t.Error(err)
		}
	}
	for i := range x.all {
		x.all[i].PutRequest = &reqs[i]
	}
	err = x.attempt(t.Context(), &session{p: p, handle: math.MaxUint64, putsMany: true})
	return stored, err
}

// putsOfSize returns n puts with bodies of the given size.
func putsOfSize(n, size int) []driver.PutRequest {
	reqs := make([]driver.PutRequest, n)
	for i := range reqs {
		reqs[i] = driver.PutRequest{Key: fmt.Sprint("k", i), Body: driver.Bytes(make([]byte, size))}
	}
	return reqs
}

// sleep sleeps for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// TestPutTimeLimit checks that the time limit of a message grows with the number and the
// size of its puts, that the limit decreases with each answer, and that the host kills the
// plugin when the limit has passed.
func TestPutTimeLimit(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context, heads []*pb.PutHead, answer func(int)) {
		sleep(ctx, time.Duration(len(heads))*1500*time.Millisecond)
		answer(len(heads))
	}
	hang := func(ctx context.Context, _ []*pb.PutHead, _ func(int)) { <-ctx.Done() }
	for name, tc := range map[string]struct {
		level, puts, size int
		serve             func(context.Context, []*pb.PutHead, func(int))
		stored            int
		killed            time.Duration // when the plugin is killed; 0 for never
	}{
		"slow, level 0":      {level: 0, puts: 64, serve: slow, stored: 64},
		"slow, level 1":      {level: 1, puts: 64, serve: slow, stored: 64},
		"slow, two messages": {level: 1, puts: 128, serve: slow, stored: 128},
		"hangs, level 0":     {level: 0, puts: 64, serve: hang, killed: 128 * time.Second},
		"hangs, level 1":     {level: 1, puts: 64, serve: hang, killed: 128 * time.Second},
		"hangs, with bodies": {level: 0, puts: 2, size: 96 << 10, serve: hang, killed: 10 * time.Second},
		"hangs in the last put": {level: 1, puts: 64, serve: func(ctx context.Context, _ []*pb.PutHead, answer func(int)) {
			sleep(ctx, 100*time.Second)
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
				p, _ := putProc(t, tc.level, tc.serve)
				start := time.Now()
				stored, err := putAll(t, p, putsOfSize(tc.puts, tc.size))
				took := time.Since(start)
				if stored != tc.stored || (err != nil) != (tc.killed > 0) {
					t.Errorf("want %d results, got %d after %v, %v", tc.stored, stored, took, err)
				}
				if tc.killed > 0 && (took != tc.killed || !strings.Contains(err.Error(), "and was killed")) {
					t.Errorf("want a kill after %v, got %v after %v", tc.killed, err, took)
				}
				synctest.Wait() // wait until late answers have freed their regions
			})
		})
	}
}

// TestPutMessageSize checks that messages of puts with long keys and versions do not exceed
// the size of a part, and that many puts with short keys and versions still share a
// message.
func TestPutMessageSize(t *testing.T) {
	t.Parallel()
	for level := range 2 {
		var messages atomic.Int64
		p, plugin := putProc(t, level, func(_ context.Context, heads []*pb.PutHead, answer func(int)) {
			messages.Add(1)
			answer(len(heads))
		})
		reqs := putsOfSize(2*handshake.MaxPuts, 1)
		if stored, err := putAll(t, p, reqs); stored != len(reqs) || err != nil || messages.Load() != 2 {
			t.Errorf("level %d: want %d results in 2 messages, got %d in %d, %v", level, len(reqs), stored, messages.Load(), err)
		}
		for i := range reqs {
			reqs[i].Key += strings.Repeat("k", 1<<16-10)
			reqs[i].Opts = driver.PutOptions{IfAbsent: true, IfMatch: strings.Repeat("v", 1<<10)}
		}
		if stored, err := putAll(t, p, reqs); stored != len(reqs) || err != nil || plugin.largest > handshake.MaxPart {
			t.Errorf("level %d: want %d results in messages of at most %d bytes, got %d in messages of up to %d bytes, %v", level, len(reqs), handshake.MaxPart, stored, plugin.largest, err)
		}
		w := write{PutRequest: &driver.PutRequest{Key: "k", Body: driver.Bytes{}, Opts: driver.PutOptions{IfAbsent: true, IfMatch: "v"}}}
		head := w.head(&session{handle: math.MaxUint64})
		head.Size = math.MaxInt64
		job := &pb.StoreJob{
			Id: math.MaxUint64, Handle: math.MaxUint64, Operation: &pb.StoreJob_Put{Put: head},
			Body: &pb.Region{Segment: math.MaxUint32, Offset: math.MaxUint64, Length: math.MaxUint64, Generation: math.MaxUint32},
		}
		item := &pb.PutItem{Head: head, Payload: &pb.Payload{Content: &pb.Payload_Inline{Inline: []byte{1}}}}
		if n := max(proto.Size(job), proto.Size(item)) + 20; n > w.cost() { // the lengths may have 5 bytes instead of 1
			t.Errorf("a put has up to %d bytes, but its cost is %d", n, w.cost())
		}
	}
}

// TestPutStart checks that OnStart is called when the message of a put is sent.
func TestPutStart(t *testing.T) {
	t.Parallel()
	for level, atOnce := range []int{1, min(requestsInFlight(), maxPending/handshake.MaxPuts)} { // number of messages in flight
		synctest.Test(t, func(t *testing.T) {
			p, _ := putProc(t, level, func(ctx context.Context, heads []*pb.PutHead, answer func(int)) {
				sleep(ctx, time.Second)
				answer(len(heads))
			})
			reqs := putsOfSize((atOnce+1)*handshake.MaxPuts, 0)
			begin, started := time.Now(), make([]int, len(reqs))
			for i := range reqs {
				reqs[i].OnStart = func() { started[i] += 1 + int(time.Since(begin)/time.Second) }
			}
			if stored, err := putAll(t, p, reqs); stored != len(reqs) || err != nil {
				t.Errorf("level %d: want %d results, got %d, %v", level, len(reqs), stored, err)
			}
			for i, got := range started {
				if want := 1 + i/(atOnce*handshake.MaxPuts); got != want {
					t.Fatalf("level %d: put %d started in second %d, want %d", level, i, got, want)
				}
			}
		})
	}
}
