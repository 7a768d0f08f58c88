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

// maxQueue is the number of messages that may wait in a lane: one for each of
// the jobs of a call, and as many that ask for room.
const maxQueue = 2 * maxPending

// maxQueued is the size in bytes of the messages that may wait in a lane: they
// have names of regions and errors in them, never data.
const maxQueued = 2 * handshake.MaxMessage

// lanes are the long-lived streams of one service to one process.
type streamPool[B, R any] struct {
	p    *proc
	open func(ctx context.Context) (grpc.BidiStreamingClient[B, R], error)
	// cancel makes the message that cancels jobs.
	cancel func(ids []uint64) *B
	// settle takes a late answer: it frees the regions of the jobs that are
	// answered, and deletes them. Its error says that the plugin lied.
	acceptLate func(r *R, late map[uint64]*pendingJob) error

	mu   sync.Mutex
	idle []*jobStream[B, R]
}

// lane is one stream. One call uses it at a time; jobs that a call leaves
// behind keep their regions, and the lane, until the plugin has answered them.
type jobStream[B, R any] struct {
	of     *streamPool[B, R]
	stream grpc.BidiStreamingClient[B, R]
	last   uint64 // id of the last job; of the user's

	mu      sync.Mutex
	queue   []*R
	queued  int // bytes in it
	wake    chan struct{}
	err     error                  // the stream has ended
	late    map[uint64]*pendingJob // left behind; nil while the lane has a user or is idle
	cancels bool                   // their cancellation is being sent
	timer   *time.Timer            // ends the plugin when they are not answered
}

// ticket is what the host knows about a job that was sent. Nothing of it comes
// from the plugin.
type pendingJob struct {
	index   int        // of the job in its call
	request *int       // jobs of the same message that are not answered
	in      *region    // of the request segment
	held    *lentInput // or the caller's own region there
	out     []region   // of the response segment; the last one counts
	room    int64      // bytes that the output may have
	lend    uint64     // tag of the file that may be lent
	inline  bool       // to be done again at level 0
	asked   bool       // it has asked for room
}

// free gives the regions of a job back.
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

// take gives an idle lane, or opens one.
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
	l := &jobStream[B, R]{of: s, stream: stream, wake: make(chan struct{}, 1)}
	if !s.p.own(l.receive) {
		return nil, context.Canceled
	}
	return l, nil
}

// put makes the lane idle. Nothing of it is unanswered.
func (s *streamPool[B, R]) put(l *jobStream[B, R]) {
	l.mu.Lock()
	extra := len(l.queue)
	l.mu.Unlock()
	if extra > 0 {
		s.p.markBroken("it answered more than it was asked")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, l)
}

// receive takes all messages of the stream. The process owns its goroutine.
func (l *jobStream[B, R]) receive() {
	for {
		r, err := l.stream.Recv()
		l.mu.Lock()
		switch {
		case err != nil:
			l.err = err
			l.stopTimer()
		case l.late != nil:
			err = l.acceptLate(r)
		case len(l.queue) >= maxQueue:
			err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "%d answers that nobody waits for", maxQueue)
		case l.queued+sizeOf(r) > maxQueued:
			err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "more than %d bytes of answers that nobody waits for", maxQueued)
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
				l.of.p.abandoned()
			}
			return
		case err != nil:
			l.of.p.markBroken(err.Error())
		case free:
			l.of.put(l)
		}
	}
}

// sizeOf gives the size of a message on the wire.
func sizeOf(m any) int {
	if m, ok := m.(proto.Message); ok {
		return proto.Size(m)
	}
	return 0
}

// settle takes a late answer; mu is held.
func (l *jobStream[B, R]) acceptLate(r *R) error { return l.of.acceptLate(r, l.late) }

// drained reports whether everything that was left behind is answered, and
// ends that state; mu is held.
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

// next waits for the next message. Its error is that of the stream, or of the
// watch's context.
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

// untilAnswered waits for the next message, and cancels the jobs that ids gives,
// those under way, when ctx ends before. The watch's context is another one.
func (l *jobStream[B, R]) untilAnswered(ctx context.Context, w *watch, ids func() []uint64) (*R, error) {
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		_ = l.stream.Send(l.of.cancel(ids())) // the receiving side says what is wrong
	})
	r, err := l.next(w)
	if !stop() {
		<-cancelled // one sends at a time; a plugin that does not read is ended by the watch
	}
	return r, err
}

// leave ends the use of the lane. Jobs that are not answered stay behind with
// their regions, which are used again only when the plugin has answered; a
// plugin that does not do so in time is ended.
func (l *jobStream[B, R]) leave(unanswered map[uint64]*pendingJob) {
	if len(unanswered) == 0 {
		l.mu.Lock()
		ended := l.err != nil
		l.mu.Unlock()
		if !ended {
			l.of.put(l)
		}
		return
	}
	p := l.of.p
	ids := slices.Collect(maps.Keys(unanswered)) // before they are the receiver's
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		p.abandoned()
		return
	}
	l.late, l.cancels = unanswered, true
	if idle := p.supervisor.host.opts.CallTimeout; idle > 0 {
		l.timer = time.AfterFunc(idle, func() { p.markBroken("it does not let go of cancelled jobs") })
	}
	var lie error
	for _, r := range l.queue {
		if err := l.acceptLate(r); err != nil {
			lie = err
		}
	}
	l.queue, l.queued = nil, 0
	l.mu.Unlock()
	if lie != nil {
		p.markBroken(lie.Error())
		return
	}
	p.own(func() { l.sendCancel(ids) })
}

// abandoned ends a process that has ended a stream with jobs unanswered, whose
// regions can be given to nobody as long as it runs. Mostly it is its death that
// ended the stream.
func (p *proc) abandoned() {
	p.own(func() {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-p.child.ended():
		case <-timer.C:
			p.markBroken("it ended a stream with jobs that it has not answered")
		}
	})
}

// sendCancel cancels jobs that were left behind.
func (l *jobStream[B, R]) sendCancel(ids []uint64) {
	_ = l.stream.Send(l.of.cancel(ids)) // the receiving side says what is wrong
	l.mu.Lock()
	l.cancels = false
	free := l.drained()
	l.mu.Unlock()
	if free {
		l.of.put(l)
	}
}
