package host

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

// A message of level 1 has jobs for at least requestBytes of output, and at
// most requestJobs of them: the hand-off costs, not the copy. When more calls
// than there are cores are at work, so that all cores have work anyway, it is
// busyBytes. All calls together have so many messages under way that each core
// of the plugin has one at work and one that waits: more would only make the
// memory cold that host and plugin share.
const (
	requestBytes = 1 << 20
	busyBytes    = 4 << 20
	requestJobs  = 64
)

func requestsInFlight() int { return 2 * runtime.GOMAXPROCS(0) }

// turnWait is how long a call without a message under way waits for its turn at
// most. Those who have the turns may be in sinks that wait for this very call.
const turnWait = 100 * time.Millisecond

// maxFlying is the largest number of unanswered jobs of one call.
const maxPending = 1024

type (
	codecStream = jobStream[pb.Batch, pb.BatchReply]
	storeStream = jobStream[pb.StoreBatch, pb.StoreBatchReply]
)

// flight is the state of one call that has jobs under way in a lane.
type callState struct {
	p        *proc
	pending  map[uint64]*pendingJob // not answered
	requests int                    // messages with jobs that are not answered
	turns    chan struct{}          // of all calls: one for each such message
	turned   int                    // turns that this call has: none for reads
}

// room reports whether another message may be sent.
func (f *callState) room() bool {
	return f.requests < requestsInFlight() && len(f.pending) <= maxPending-requestJobs
}

// answered ends a job; its regions are the caller's to free.
func (f *callState) answered(id uint64, t *pendingJob) {
	delete(f.pending, id)
	if *t.request--; *t.request == 0 {
		f.requests--
		f.yield()
	}
}

// yield gives up turns for which no message is under way.
func (f *callState) yield() {
	for f.turned > f.requests {
		f.turned--
		<-f.turns
	}
}

// turn takes a turn to send a message: at once, or not at all while messages of
// this call are under way. The only one is sent without, when that takes too long.
func (r *sharedRun) turn(ctx context.Context, w *watch) (bool, error) {
	select {
	case r.turns <- struct{}{}:
		r.turned++
		return true, nil
	default:
	}
	if r.requests > 0 {
		return false, nil
	}
	w.pause() // those who have a turn watch the plugin
	defer w.progress()
	timer := time.NewTimer(turnWait)
	defer timer.Stop()
	select {
	case r.turns <- struct{}{}:
		r.turned++
		return true, nil
	case <-timer.C:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-r.p.ctx.Done():
		return false, r.p.gone(ctx, r.p.ctx.Err())
	}
}

// sharedRun is an execution at level 1.
type sharedRun struct {
	callState
	x    *execution
	s    *session
	l    *codecStream
	open []int // jobs that were not sent
}

// shared does the jobs that fit in the segments; the others stay undone.
func (x *execution) shared(ctx context.Context, s *session, open []int) error {
	p := s.p
	if !p.plane.enter() {
		return p.lost("is gone", false)
	}
	defer p.plane.leave()
	w := p.watch(ctx)
	defer w.end()
	l, err := p.codecStreams.take()
	if err != nil {
		return w.fail(ctx, err)
	}
	r := &sharedRun{callState: callState{p: p, pending: map[uint64]*pendingJob{}, turns: p.turns}, x: x, s: s, l: l, open: open}
	defer r.end()
	return drive(ctx, w, &r.callState, l, func() error { return r.fill(ctx, w) }, func(reply *pb.BatchReply) error {
		for _, result := range reply.GetResults() {
			if err := r.take(result); err != nil {
				return p.broke(err)
			}
		}
		return nil
	})
}

// drive sends jobs with fill and hands each answer to take, until none is under
// way: the rest, if any, does not fit.
func drive[B, R any](ctx context.Context, w *watch, f *callState, l *jobStream[B, R], fill func() error, take func(*R) error) error {
	for {
		w.progress() // it may be the plugin that keeps a message from being sent
		if err := fill(); err != nil {
			return err
		}
		if len(f.pending) == 0 {
			return nil
		}
		reply, err := l.next(w)
		if err != nil {
			return w.fail(ctx, err)
		}
		w.pause() // the caller's alloc and sink take their time
		if err := take(reply); err != nil {
			return err
		}
	}
}

// fill sends messages while there is room.
func (r *sharedRun) fill(ctx context.Context, w *watch) error {
	for r.room() && len(r.open) > 0 {
		ok, err := r.turn(ctx, w)
		if err != nil || !ok {
			return err
		}
		sent, err := r.send()
		r.yield()
		if err != nil || !sent {
			return w.fail(ctx, err)
		}
	}
	return nil
}

// end leaves the lane, and gives up the turns of what is not answered.
func (r *sharedRun) end() {
	r.requests = 0
	r.yield()
	r.l.leave(r.pending)
}

// send sends one message; false means that there is no room for its first job
// while others are under way, or that no job is left that fits.
func (r *sharedRun) send() (bool, error) {
	batch := &pb.Batch{}
	count := new(int)
	bytes := int64(0)
	enough := int64(requestBytes)
	if r.p.execs.Load() > int64(runtime.GOMAXPROCS(0)) {
		enough = busyBytes
	}
	for len(r.open) > 0 && bytes < enough && len(batch.GetJobs()) < requestJobs {
		i := r.open[0]
		job := &r.x.jobs[i]
		t := r.reserve(job)
		if t == nil {
			if len(r.pending) > 0 {
				break // wait for room
			}
			r.open = r.open[1:] // larger than the segments: level 0
			continue
		}
		r.open = r.open[1:]
		t.index, t.request = i, count
		*count++
		r.l.last++
		r.pending[r.l.last] = t
		batch.Jobs = append(batch.Jobs, r.message(r.l.last, job, t))
		bytes += max(job.Limit, int64(len(job.Src)))
	}
	if *count == 0 {
		return false, nil
	}
	r.requests++
	return true, r.l.stream.Send(batch)
}

// ticket gives regions for a job, nil when there are none.
func (r *sharedRun) reserve(job *codecdriver.Job) *pendingJob {
	plane, room := r.p.plane, max(0, job.Limit)
	if room > maxRegion || len(job.Src) > maxRegion {
		return nil
	}
	out, ok := plane.answerRoom(room)
	if !ok {
		return nil
	}
	t := &pendingJob{out: []region{out}, room: room}
	if t.held = plane.holdInput(job.Src); t.held != nil {
		return t
	}
	in, ok := plane.request.alloc(int64(len(job.Src)))
	if !ok {
		t.free(plane)
		return nil
	}
	t.in = &in
	mem := plane.request.of(in, int64(len(job.Src)))
	if guardFault(mem, func() { copy(mem, job.Src) }) != nil {
		t.free(plane)
		return nil
	}
	return t
}

// message gives the job for the wire.
func (r *sharedRun) message(id uint64, job *codecdriver.Job, t *pendingJob) *pb.Job {
	in := t.in
	if t.held != nil {
		in = &t.held.region
	}
	src := &pb.Region{Segment: requestSegment, Offset: uint64(in.off), Length: uint64(len(job.Src)), Generation: in.generation}
	return &pb.Job{
		Id: id, Op: r.x.op, Pipeline: r.s.handle, Size: int64(len(job.Src)), Limit: t.room, Skip: job.Skip, Last: true,
		Payload: &pb.Payload{Content: &pb.Payload_Region{Region: src}},
		Output:  t.out[0].message(t.room),
	}
}

// message names the first n bytes of a response region.
func (r region) message(n int64) *pb.Region {
	return &pb.Region{Segment: responseSegment, Offset: uint64(r.off), Length: uint64(n), Generation: r.generation}
}

// offset gives the place of b in the segment, if it lies there.
func (s *segment) offset(b []byte) (int64, bool) {
	if len(b) == 0 || len(s.mem) == 0 {
		return 0, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	base := uintptr(unsafe.Pointer(unsafe.SliceData(s.mem)))
	return int64(at - base), at >= base && at-base < uintptr(len(s.mem))
}

// take checks a result against what is known of its job, and hands it over.
func (r *sharedRun) take(m *pb.Result) error {
	t := r.pending[m.GetId()]
	if t == nil {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "a result for job %d, which is done or was not asked for", m.GetId())
	}
	if m.GetError() != nil {
		r.answered(m.GetId(), t)
		t.free(r.p.plane)
		r.x.finish(t.index, nil, wire.FromDetail(m.GetError()))
		return nil
	}
	n, err := t.written(m.GetPayload().GetRegion(), t.room)
	if err != nil {
		return err
	}
	if n != m.GetSize() || !m.GetLast() {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "an output of %d bytes with %d of them", m.GetSize(), n)
	}
	r.answered(m.GetId(), t) // before the sink, which may call the plugin too
	defer t.free(r.p.plane)
	return r.deliver(t, n)
}

// written checks the region of an answer, which must be that of its job, and
// gives the number of bytes in it.
func (t *pendingJob) written(m *pb.Region, room int64) (int64, error) {
	if len(t.out) == 0 {
		return 0, ncerr.Errorf(ncerr.ErrPlugin, "", "", "a region where none was given")
	}
	out := t.out[len(t.out)-1]
	if m.GetSegment() != responseSegment || m.GetOffset() != uint64(out.off) || m.GetGeneration() != out.generation {
		return 0, ncerr.Errorf(ncerr.ErrPlugin, "", "", "an answer in another region than that of the job")
	}
	if m.GetLength() > uint64(room) {
		return 0, ncerr.Errorf(ncerr.ErrPlugin, "", "", "an output of %d bytes where at most %d were asked for", m.GetLength(), room)
	}
	return int64(m.GetLength()), nil
}

// deliver hands the output of a job over: in the caller's memory, lent where
// the caller only copies it, else in a private copy, because the plugin can
// change what is in the segment.
func (r *sharedRun) deliver(t *pendingJob, n int64) error {
	job := &r.x.jobs[t.index]
	shared := r.p.plane.response.of(t.out[0], n)
	return guardFault(shared, func() {
		out := shared
		switch {
		case job.Dst != nil && int64(len(job.Dst)) >= n:
			out = job.Dst[:copy(job.Dst, shared)]
		case !job.Shared:
			out = append([]byte{}, shared...)
		}
		r.x.finish(t.index, out, nil)
	})
}

// guardFault calls f, and turns a fault in mem into an error: the system may
// refuse a page of a segment when memory is out. Other panics pass.
func guardFault(mem []byte, f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		at, ok := r.(interface{ Addr() uintptr })
		base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
		if !ok || at.Addr() < base || at.Addr() >= base+uintptr(len(mem)) {
			panic(r)
		}
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "its shared memory cannot be reached")
	}()
	f()
	return nil
}

// settleCodec takes late results.
func (p *proc) acceptLateResults(r *pb.BatchReply, late map[uint64]*pendingJob) error {
	for _, m := range r.GetResults() {
		t := late[m.GetId()]
		if t == nil {
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "a result for job %d, which is done or was not asked for", m.GetId())
		}
		delete(late, m.GetId())
		t.free(p.plane)
	}
	return nil
}
