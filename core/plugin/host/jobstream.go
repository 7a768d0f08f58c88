package host

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
)

// maxQueue limits the number of received messages that a call has not read yet: for
// each job one answer and one request for a larger region.
const maxQueue = 2 * maxPending

// maxQueued limits the total size, in bytes, of received messages that a call has not
// read yet. They contain regions and errors, but no data.
const maxQueued = 2 * handshake.MaxMessage

// streamPool holds the long-lived streams of one service to one process.
type streamPool[B, R any] struct {
	p    *proc
	open func(ctx context.Context) (grpc.BidiStreamingClient[B, R], error)
	// cancel returns the message that cancels jobs.
	cancel func(ids []uint64) *B
	// acceptLate handles an answer to abandoned jobs: it frees the regions of the
	// answered jobs and deletes the jobs from late. An error means that the plugin
	// violated the protocol.
	acceptLate func(r *R, late map[uint64]*pendingJob) error

	mu   sync.Mutex
	idle []*jobStream[B, R]
}

// jobStream is one stream, used by one call at a time. After the call, the stream and
// the regions of abandoned jobs are not reused until the plugin has answered the jobs.
type jobStream[B, R any] struct {
	pool   *streamPool[B, R]
	stream grpc.BidiStreamingClient[B, R]
	last   uint64 // id of the last job; owned by the current user

	mu      sync.Mutex
	queue   []*R                   // received messages that the call has not read
	queued  int                    // bytes in queue
	wake    chan struct{}          // receives a value after each message and at the end
	err     error                  // set when the stream has ended
	late    map[uint64]*pendingJob // abandoned jobs; nil while the stream is in use or idle
	cancels bool                   // a cancel message is being sent
	timer   *time.Timer            // kills a plugin that does not answer abandoned jobs
}

// pendingJob is the host's record of a job that was sent. The host checks answers
// against it, so it contains no data from the plugin.
type pendingJob struct {
	index         int        // index of the job in its call
	request       *int       // number of unanswered jobs of the same message
	in            *region    // input in the request segment, or nil
	held          *lentInput // lent region that contains the input, or nil
	out           []region   // output in the response segment; the last region is in use
	limit         int64      // largest output in bytes
	lend          uint64     // tag of the file that may be lent, or 0
	inline        bool       // the job must be repeated at level 0
	requestedMore bool       // the job has requested a larger region
}

// free releases the regions of a job.
func (t *pendingJob) free(p *plane) {
	if t.in != nil {
		p.request.free(*t.in)
	}
	if t.held != nil {
		p.dropInput(t.held)
	}
	for _, r := range t.out {
		p.freeResponse(r)
	}
	if t.lend != 0 {
		p.lending.Add(-1)
	}
	t.in, t.held, t.out, t.lend = nil, nil, nil, 0
}

// take returns an idle stream, or opens a new one. The caller must call leave on it.
func (s *streamPool[B, R]) take() (*jobStream[B, R], error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		l := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	stream, err := s.open(s.p.ctx)
	if err != nil {
		return nil, err
	}
	l := &jobStream[B, R]{pool: s, stream: stream, wake: make(chan struct{}, 1)}
	if !s.p.goOwned(l.receive) {
		return nil, context.Canceled
	}
	return l, nil
}

// put makes the stream idle. All of its jobs must be answered. put kills a plugin that
// has sent further answers.
func (s *streamPool[B, R]) put(l *jobStream[B, R]) {
	l.mu.Lock()
	extra := len(l.queue)
	l.mu.Unlock()
	if extra > 0 {
		s.p.markBroken("the plugin sent more results than requested")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, l)
}

// receive receives all messages of the stream. It runs in a goroutine that proc.finish
// waits for.
func (l *jobStream[B, R]) receive() {
	for {
		r, err := l.stream.Recv()
		l.mu.Lock()
		switch {
		case err != nil:
			l.err = err
			l.stopTimer()
		case l.late != nil:
			err = l.pool.acceptLate(r, l.late)
		case len(l.queue) >= maxQueue:
			err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "received %d unexpected results", maxQueue)
		case l.queued+sizeOf(r) > maxQueued:
			err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "received more than %d bytes of unexpected results", maxQueued)
		default:
			l.queue = append(l.queue, r)
			l.queued += sizeOf(r)
		}
		ended, free, left := l.err != nil, l.drained(), len(l.late) > 0
		l.mu.Unlock()
		select {
		case l.wake <- struct{}{}:
		default:
		}
		switch {
		case ended:
			if left {
				l.pool.p.killAbandoned()
			}
			return
		case err != nil:
			l.pool.p.markBroken(err.Error())
		case free:
			l.pool.put(l)
		}
	}
}

// sizeOf returns the wire size of a message.
func sizeOf(m any) int {
	if m, ok := m.(proto.Message); ok {
		return proto.Size(m)
	}
	return 0
}

// drained ends the wait for abandoned jobs if all of them are answered, and reports
// whether it did. The caller holds mu. If drained returns true, the caller must unlock mu
// and pass the stream to put.
func (l *jobStream[B, R]) drained() bool {
	if l.late == nil || len(l.late) > 0 || l.cancels || l.err != nil {
		return false
	}
	l.late = nil
	l.stopTimer()
	return true
}

func (l *jobStream[B, R]) stopTimer() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// next waits for the next message. It fails if the stream has ended or the context of w
// is done.
func (l *jobStream[B, R]) next(w *watch) (*R, error) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			r := l.queue[0]
			l.queue = l.queue[1:]
			l.queued -= sizeOf(r)
			if len(l.queue) == 0 {
				l.queue = nil
			}
			l.mu.Unlock()
			return r, nil
		}
		err := l.err
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-l.wake:
		case <-w.ctx.Done():
			return nil, w.ctx.Err()
		}
	}
}

// leave ends the use of the stream by a call. It cancels unanswered jobs, whose regions
// are freed only after the plugin has answered. It kills a plugin that does not answer
// in time.
func (l *jobStream[B, R]) leave(unanswered map[uint64]*pendingJob) {
	if len(unanswered) == 0 {
		l.mu.Lock()
		ended := l.err != nil
		l.mu.Unlock()
		if !ended {
			l.pool.put(l)
		}
		return
	}
	p := l.pool.p
	ids := slices.Collect(maps.Keys(unanswered)) // copied here, because the receiver owns unanswered once l.late is set
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		p.killAbandoned()
		return
	}
	l.late, l.cancels = unanswered, true
	if idle := p.supervisor.host.opts.CallTimeout; idle > 0 {
		l.timer = time.AfterFunc(idle, func() { p.markBroken("the plugin sent no results for canceled jobs") })
	}
	var violation error
	for _, r := range l.queue {
		if err := l.pool.acceptLate(r, l.late); err != nil {
			violation = err
		}
	}
	l.queue, l.queued = nil, 0
	l.mu.Unlock()
	if violation != nil {
		p.markBroken(violation.Error())
		return
	}
	p.goOwned(func() { l.sendCancel(ids) })
}

// killAbandoned kills a process that ended a stream with unanswered jobs, because the
// process may still write to their regions. It first waits up to a second for the process
// to end by itself, because a stream usually ends when its process dies.
func (p *proc) killAbandoned() {
	p.goOwned(func() {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-p.child.ended():
		case <-timer.C:
			p.markBroken("the plugin ended a stream before it sent all results")
		}
	})
}

// sendCancel cancels abandoned jobs. It makes the stream idle if they are already
// answered.
func (l *jobStream[B, R]) sendCancel(ids []uint64) {
	_ = l.stream.Send(l.pool.cancel(ids)) // the receiver reports the error
	l.mu.Lock()
	l.cancels = false
	free := l.drained()
	l.mu.Unlock()
	if free {
		l.pool.put(l)
	}
}
