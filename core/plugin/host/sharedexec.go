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

// A message of level 1 contains several jobs, because sending a message takes longer
// than copying the data of a small job. The host adds jobs until they have requestBytes
// of data or the message has requestJobs jobs. If more calls than cores are active,
// busyBytes replaces requestBytes.
const (
	requestBytes = 1 << 20
	busyBytes    = 4 << 20
	requestJobs  = 64
)

// requestsInFlight returns the number of messages that may be in flight, over all
// calls: for each core one that the plugin processes and one that waits. More would
// only evict shared memory from the CPU caches.
func requestsInFlight() int { return 2 * runtime.GOMAXPROCS(0) }

// turnWait limits how long a call without a message in flight waits for a turn. The
// calls that hold the turns may be blocked in sinks that wait for this call.
const turnWait = 100 * time.Millisecond

// maxPending is the largest number of unanswered jobs of one call.
const maxPending = 1024

type (
	codecStream = jobStream[pb.Batch, pb.BatchReply]
	storeStream = jobStream[pb.StoreBatch, pb.StoreBatchReply]
)

// callState is the state of one call that has jobs in flight on a stream.
type callState struct {
	p        *proc
	pending  map[uint64]*pendingJob // unanswered jobs
	requests int                    // messages with unanswered jobs
	turns    chan struct{}          // shared by all calls; one element per message in flight
	held     int                    // turns that this call holds; always 0 for jobs of stores
}

// maySend reports whether another message may be sent.
func (f *callState) maySend() bool {
	return f.requests < requestsInFlight() && len(f.pending) <= maxPending-requestJobs
}

// answered removes an answered job. The caller frees its regions.
func (f *callState) answered(id uint64, t *pendingJob) {
	delete(f.pending, id)
	if *t.request--; *t.request == 0 {
		f.requests--
		f.yield()
	}
}

// yield releases the turns that exceed the number of messages in flight.
func (f *callState) yield() {
	for f.held > f.requests {
		f.held--
		<-f.turns
	}
}

// turn acquires a turn, which is the right to send a message. It returns false if no
// turn is free and messages of this call are in flight. A call without messages in
// flight waits for a turn, and may send without one after turnWait.
func (r *sharedRun) turn(ctx context.Context, w *watch) (bool, error) {
	select {
	case r.turns <- struct{}{}:
		r.held++
		return true, nil
	default:
	}
	if r.requests > 0 {
		return false, nil
	}
	w.pause() // the calls that hold turns enforce the time limit
	defer w.progress()
	timer := time.NewTimer(turnWait)
	defer timer.Stop()
	select {
	case r.turns <- struct{}{}:
		r.held++
		return true, nil
	case <-timer.C:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-r.p.ctx.Done():
		return false, r.p.connectionError(ctx, r.p.ctx.Err())
	}
}

// sharedRun is one attempt at an execution at level 1 of the protocol.
type sharedRun struct {
	callState
	x    *execution
	s    *session
	l    *codecStream
	open []int // jobs not yet sent
}

// shared makes one attempt at the jobs with the given indexes, at level 1. It leaves jobs
// that do not fit in the segments undone.
func (x *execution) shared(ctx context.Context, s *session, indexes []int) error {
	p := s.p
	if !p.plane.enter() {
		return p.lostProcessError("no longer exists", false)
	}
	defer p.plane.leave()
	w := p.watch(ctx)
	defer w.end()
	l, err := p.codecStreams.take()
	if err != nil {
		return w.fail(ctx, err)
	}
	r := &sharedRun{callState: callState{p: p, pending: map[uint64]*pendingJob{}, turns: p.turns}, x: x, s: s, l: l, open: indexes}
	defer r.end()
	return drive(ctx, w, &r.callState, l, func() error { return r.fill(ctx, w) }, func(reply *pb.BatchReply) error {
		for _, result := range reply.GetResults() {
			if err := r.take(result); err != nil {
				return p.killBroken(err)
			}
		}
		return nil
	})
}

// drive calls fill to send jobs and take for each answer, until no job is in flight.
// Jobs that fill has not sent by then do not fit in the segments.
func drive[B, R any](ctx context.Context, w *watch, f *callState, l *jobStream[B, R], fill func() error, take func(*R) error) error {
	for {
		w.progress() // fill blocks if the plugin does not read
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
		w.pause() // the caller's alloc and sink may be slow
		if err := take(reply); err != nil {
			return err
		}
	}
}

// fill sends messages until maySend returns false or no turn is free.
func (r *sharedRun) fill(ctx context.Context, w *watch) error {
	for r.maySend() && len(r.open) > 0 {
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

// end releases the stream and the turns of unanswered messages.
func (r *sharedRun) end() {
	r.requests = 0
	r.yield()
	r.l.leave(r.pending)
}

// send sends one message. It returns false if it sends no job: the next job has to wait
// for free memory, or all remaining jobs are too large for the segments.
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
				break // wait for free memory
			}
			r.open = r.open[1:] // too large for the segments: level 0 runs it
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

// reserve allocates the regions of a job. It returns nil if the segments have no room.
func (r *sharedRun) reserve(job *codecdriver.Job) *pendingJob {
	plane, limit := r.p.plane, max(0, job.Limit)
	if limit > maxRegion || len(job.Src) > maxRegion {
		return nil
	}
	out, ok := plane.allocResponse(limit)
	if !ok {
		return nil
	}
	t := &pendingJob{out: []region{out}, limit: limit}
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

// message returns the wire form of a job.
func (r *sharedRun) message(id uint64, job *codecdriver.Job, t *pendingJob) *pb.Job {
	return &pb.Job{
		Id: id, Op: r.x.op, Pipeline: r.s.handle, Size: int64(len(job.Src)), Limit: t.limit, Skip: job.Skip, Last: true,
		Payload: &pb.Payload{Content: &pb.Payload_Region{Region: t.input(int64(len(job.Src)))}},
		Output:  t.out[0].message(t.limit),
	}
}

// input returns the wire form of the first n bytes of the input of a job.
func (t *pendingJob) input(n int64) *pb.Region {
	in := t.in
	if t.held != nil {
		in = &t.held.region
	}
	return &pb.Region{Segment: requestSegment, Offset: uint64(in.off), Length: uint64(n), Generation: in.generation}
}

// message returns the wire form of the first n bytes of a response region.
func (r region) message(n int64) *pb.Region {
	return &pb.Region{Segment: responseSegment, Offset: uint64(r.off), Length: uint64(n), Generation: r.generation}
}

// offset returns the offset of b in the segment, and reports whether b is in it.
func (s *segment) offset(b []byte) (int64, bool) {
	if len(b) == 0 || len(s.mem) == 0 {
		return 0, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	base := uintptr(unsafe.Pointer(unsafe.SliceData(s.mem)))
	return int64(at - base), at >= base && at-base < uintptr(len(s.mem))
}

// take checks a result against its job and delivers it.
func (r *sharedRun) take(m *pb.Result) error {
	t := r.pending[m.GetId()]
	if t == nil {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "unexpected result for job %d: the job is complete or was not requested", m.GetId())
	}
	if m.GetError() != nil {
		r.answered(m.GetId(), t)
		t.free(r.p.plane)
		r.x.finish(t.index, nil, wire.FromDetail(m.GetError()))
		return nil
	}
	n, err := t.written(m.GetPayload().GetRegion(), t.limit)
	if err != nil {
		return err
	}
	if n != m.GetSize() || !m.GetLast() {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the output has %d bytes, but its region has %d", m.GetSize(), n)
	}
	r.answered(m.GetId(), t) // before the sink, which may also call the plugin
	defer t.free(r.p.plane)
	return r.deliver(t, n)
}

// written checks that an answer refers to the region of its job, and returns the number
// of bytes written there.
func (t *pendingJob) written(m *pb.Region, limit int64) (int64, error) {
	if len(t.out) == 0 {
		return 0, ncerr.Errorf(ncerr.ErrPlugin, "", "", "the result refers to a region, but the job has no region")
	}
	out := t.out[len(t.out)-1]
	if m.GetSegment() != responseSegment || m.GetOffset() != uint64(out.off) || m.GetGeneration() != out.generation {
		return 0, ncerr.Errorf(ncerr.ErrPlugin, "", "", "the result does not refer to the region of its job")
	}
	if m.GetLength() > uint64(limit) {
		return 0, ncerr.Errorf(ncerr.ErrPlugin, "", "", "the output has %d bytes; the limit is %d", m.GetLength(), limit)
	}
	return int64(m.GetLength()), nil
}

// deliver passes the output of a job to the sink. It copies the output to the caller's
// Dst if it fits there, and otherwise to new memory, because the plugin can change the
// segment. A job with Shared set receives shared memory instead of new memory.
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

// guardFault calls f and returns an error if f faults on an access to mem, which happens
// if the system has no memory for a page of a segment. It does not recover from
// other panics.
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
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "the shared memory of the plugin is not accessible")
	}()
	f()
	return nil
}

// acceptLateResults checks the results of abandoned jobs, and frees the regions of the
// jobs.
func (p *proc) acceptLateResults(r *pb.BatchReply, late map[uint64]*pendingJob) error {
	for _, m := range r.GetResults() {
		t := late[m.GetId()]
		if t == nil {
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "unexpected result for job %d: the job is complete or was not requested", m.GetId())
		}
		delete(late, m.GetId())
		t.free(p.plane)
	}
	return nil
}
