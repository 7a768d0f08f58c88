//go:build linux

package host

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"

	"google.golang.org/grpc"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// discardStream is a stream that discards sent messages and ends immediately.
type discardStream[B, R any] struct{ grpc.ClientStream }

func (discardStream[B, R]) Send(*B) error     { return nil }
func (discardStream[B, R]) Recv() (*R, error) { return nil, io.EOF }

// inertChild implements child for a process that does nothing.
type inertChild struct{ end chan struct{} }

func (s inertChild) pid() int                                 { return 1 }
func (inertChild) dirProblem() string                         { return "" }
func (s inertChild) ended() <-chan struct{}                   { return s.end }
func (inertChild) exitStatus() string                         { return "" }
func (inertChild) awaitOutput()                               {}
func (inertChild) terminate()                                 {}
func (inertChild) shutdown(context.Context, *grpc.ClientConn) {}
func (inertChild) kill()                                      {}
func (inertChild) release()                                   {}

// newInertProc returns a process at level 1 without a plugin. It checks at the end of the
// test that all regions are free.
func newInertProc(t *testing.T) *proc {
	t.Helper()
	h := &Host{opts: (&Options{}).withDefaults()}
	s := &supervisor{host: h, program: &program{name: "still"}, set: &grantSet{}, log: slog.New(slog.DiscardHandler)}
	p := newProc(s, inertChild{make(chan struct{})}, nil, newLogSink(s.log))
	p.level = 1
	var err error
	if p.plane, err = newPlane(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.plane.response.used != 0 || p.plane.request.used != 0 {
			t.Errorf("%d response regions and %d request regions were not freed", p.plane.response.used, p.plane.request.used)
		}
		p.cancel()
		p.plane.closeSent()
		p.plane.close()
	})
	return p
}

// falsify returns a copy of out in which at most one field is changed, or nil. how selects
// the field, and by is a number from which the change is computed.
func falsify(out *pb.Region, how, by byte) *pb.Region {
	m := &pb.Region{Segment: out.GetSegment(), Offset: out.GetOffset(), Length: out.GetLength(), Generation: out.GetGeneration()}
	switch how % 8 {
	case 0:
		m.Offset += uint64(by) << 12
	case 1:
		m.Offset -= uint64(by)
	case 2:
		m.Length = uint64(by)
	case 3:
		m.Length = ^uint64(0) - uint64(by)
	case 4:
		m.Segment += uint32(by)
	case 5:
		m.Generation += uint32(by)
	case 6:
		return nil
	}
	return m
}

const canary = "________"

// FuzzStoreReplies answers reads at level 1 with wrong ids, regions, lengths, heads and
// requests for larger regions, and more than once. It checks that the host accepts no
// wrong data, reports at most one result per read and writes only to the destinations.
// Four bytes of the input encode one answer.
func FuzzStoreReplies(f *testing.F) {
	f.Add([]byte{0, 7, 0, 0, 1, 7, 0, 0, 2, 7, 0, 0})
	f.Add([]byte{0, 2, 8, 0x10, 0, 2, 8, 0x10})
	f.Add([]byte{0, 7, 9, 0x01, 0, 7, 9, 0x01, 1, 3, 1, 0x40, 9, 0, 0, 0})
	f.Add([]byte{0, 7, 200, 0x04, 0, 7, 0, 0x20, 1, 6, 0, 0x80, 2, 7, 0, 0x02})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newInertProc(t)
		ctx := t.Context()
		w := p.watch(ctx)
		defer w.end()
		stream := &storeStream{pool: p.storeStreams, stream: discardStream[pb.StoreBatch, pb.StoreBatchReply]{}}
		bufs := make([][]byte, 3)
		all := make([]objectRead, len(bufs))
		ended := make([]int, len(bufs))
		for i := range all {
			bufs[i] = []byte("--------" + canary)
			all[i] = objectRead{key: "k", opts: driver.GetOptions{Limit: 1 << 20}, trust: trusted, alloc: driver.Into(bufs[i][:8:8])}
		}
		r := &sharedReads{callState: callState{p: p, pending: map[uint64]*pendingJob{}}, m: &remoteMap{supervisor: p.supervisor}, s: &session{p: p}, l: stream, all: all, open: []int{0, 1, 2}}
		r.done = func(i int, err error) {
			if ended[i]++; err == nil && (all[i].n != all[i].want || !bytes.Equal(all[i].data(), bytes.Repeat([]byte("x"), 8))) {
				t.Errorf("read %d: got %q of %d announced bytes", i, all[i].data(), all[i].want)
			}
		}
		if sent, err := r.send(); !sent || err != nil {
			t.Fatal(err)
		}
		for range 64 { // longer inputs cover no further cases
			if len(data) < 4 || r.take(ctx, w, r.answer(data[:4])) != nil {
				break
			}
			data = data[4:]
		}
		for i, n := range ended {
			if n > 1 || string(bufs[i][8:]) != canary {
				t.Errorf("read %d: got %d results and the memory %q", i, n, bufs[i])
			}
		}
		for _, left := range r.pending {
			left.free(p.plane)
		}
	})
}

// answer decodes four bytes into an answer.
func (r *sharedReads) answer(b []byte) *pb.StoreResult {
	m := &pb.StoreResult{Id: uint64(b[0]) + 1}
	out := &pb.Region{}
	if t := r.pending[m.GetId()]; t != nil && len(t.out) > 0 {
		out = t.out[len(t.out)-1].message(8)
		copy(r.p.plane.response.of(t.out[len(t.out)-1], 8), "xxxxxxxx")
	}
	m.Output = falsify(out, b[1], b[2])
	n := int64(8)
	if b[3]&0x01 != 0 {
		n = int64(b[2]) - 4
	}
	m.Head = &pb.GetHead{Info: &pb.Info{Size: n}, Length: n}
	if b[3]&0x40 != 0 {
		m.Head.Length = 1<<62 + n
	}
	if b[3]&0x02 != 0 {
		m.Head = nil
	}
	if b[3]&0x04 != 0 {
		m.Need = int64(b[2])<<12 - 1<<16
	}
	if b[3]&0x10 != 0 {
		m.Error = &pb.ErrorDetail{Kind: uint32(b[2]), Message: "no"}
	}
	if b[3]&0x20 != 0 {
		m.Lent = &pb.Lent{Offset: int64(b[2]) - 8}
	}
	return m
}

// FuzzCodecReplies is like FuzzStoreReplies, but tests codecs.
func FuzzCodecReplies(f *testing.F) {
	f.Add([]byte{0, 7, 0, 0, 1, 7, 0, 0, 2, 7, 0, 0})
	f.Add([]byte{0, 2, 8, 0x08, 0, 7, 0, 0})
	f.Add([]byte{0, 3, 1, 0x01, 1, 6, 0, 0x02, 2, 0, 1, 0x04})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newInertProc(t)
		bufs := make([][]byte, 3)
		x := &execution{r: &remotePipeline{supervisor: p.supervisor}, jobs: make([]codecdriver.Job, len(bufs)), out: make([]output, len(bufs))}
		ended := make([]int, len(bufs))
		for i := range bufs {
			bufs[i] = []byte("--------" + canary)
			x.jobs[i] = codecdriver.Job{Src: []byte("src"), Dst: bufs[i][:8:8], Limit: 8}
		}
		x.sink = func(i int, out []byte, err error) {
			if ended[i]++; len(out) > 8 || err == nil && len(bytes.Trim(out, "x")) > 0 {
				t.Errorf("job %d: %q, %v", i, out, err)
			}
		}
		r := &sharedRun{callState: callState{p: p, pending: map[uint64]*pendingJob{}}, x: x, s: &session{p: p}, open: []int{0, 1, 2}}
		r.l = &codecStream{pool: p.codecStreams, stream: discardStream[pb.Batch, pb.BatchReply]{}}
		if sent, err := r.send(); !sent || err != nil {
			t.Fatal(err)
		}
		for range 64 {
			if len(data) < 4 || r.take(r.answer(data[:4])) != nil {
				break
			}
			data = data[4:]
		}
		for i, n := range ended {
			if n > 1 || string(bufs[i][8:]) != canary {
				t.Errorf("job %d: got %d results and the memory %q", i, n, bufs[i])
			}
		}
		for _, left := range r.pending {
			left.free(p.plane)
		}
	})
}

// answer decodes four bytes into an answer.
func (r *sharedRun) answer(b []byte) *pb.Result {
	m := &pb.Result{Id: uint64(b[0]) + 1, Size: 8, Last: b[3]&0x01 == 0}
	out := &pb.Region{}
	if t := r.pending[m.GetId()]; t != nil && len(t.out) > 0 {
		out = t.out[0].message(8)
		copy(r.p.plane.response.of(t.out[0], 8), "xxxxxxxx")
	}
	m.Payload = &pb.Payload{Content: &pb.Payload_Region{Region: falsify(out, b[1], b[2])}}
	if b[3]&0x02 != 0 {
		m.Payload = &pb.Payload{Content: &pb.Payload_Inline{Inline: []byte("inline")}}
	}
	if b[3]&0x04 != 0 {
		m.Error = &pb.ErrorDetail{Kind: uint32(b[2])}
	}
	if b[3]&0x08 != 0 {
		m.Size = int64(b[2])
	}
	if b[3]&0x10 != 0 {
		m.Size = -int64(b[2])
	}
	return m
}
