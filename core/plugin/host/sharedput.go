package host

import (
	"context"
	"errors"
	"maps"
	"slices"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// sharedWrites is a set of puts at level 1 over one stream.
type sharedWrites struct {
	callState
	x        *writing
	s        *session
	l        *storeStream
	left     []int // puts not yet sent
	canceled bool
}

// shared makes one attempt at the puts with the given indexes. It copies their bodies
// to the request segment. Puts that do not fit there remain undone. When ctx is done,
// it sends no more puts, cancels the puts that it sent, and still waits for their
// answers.
func (x *writing) shared(ctx context.Context, s *session, indexes []int) error {
	p := s.p
	if !p.plane.enter() {
		return p.lostProcessError("no longer exists", false)
	}
	defer p.plane.leave()
	sent := context.WithoutCancel(ctx)
	w := p.watch(sent)
	defer w.end()
	l, err := p.storeStreams.take()
	if err != nil {
		return w.fail(ctx, err)
	}
	r := &sharedWrites{callState: callState{p: p, pending: map[uint64]*pendingJob{}}, x: x, s: s, l: l, left: indexes}
	defer func() { l.leave(r.pending) }()
	for {
		if !r.canceled { // after the cancellation, one time limit covers all answers
			r.expectAnswers(w) // fill blocks if the plugin does not read
		}
		if err := r.fill(ctx, w); err != nil {
			return w.fail(sent, err)
		}
		if len(r.pending) == 0 {
			return nil
		}
		reply, err := r.next(ctx, w)
		if err != nil {
			return w.fail(sent, err)
		}
		if !r.canceled {
			w.pause() // the sink may be slow
		}
		if len(reply.GetResults()) == 0 {
			return p.killBroken(ncerr.Errorf(ncerr.ErrPlugin, "", "", "received a response without results"))
		}
		for _, m := range reply.GetResults() {
			if err := r.take(ctx, m); err != nil {
				return p.killBroken(err)
			}
		}
	}
}

// next waits for the next answers. When ctx is done it cancels the puts in flight and
// continues to wait. The context of w must not end with ctx.
func (r *sharedWrites) next(ctx context.Context, w *watch) (*pb.StoreBatchReply, error) {
	if r.canceled {
		return r.l.next(w)
	}
	canceled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(canceled)
		r.canceled = true
		r.expectAnswers(w)
		_ = r.l.stream.Send(r.l.pool.cancel(slices.Collect(maps.Keys(r.pending)))) // the receiver reports the error
	})
	reply, err := r.l.next(w)
	if !stop() {
		<-canceled // only one goroutine may send; the watch kills a plugin that does not read
	}
	return reply, err
}

// expectAnswers restarts the time limit of the next answer. The plugin may answer all puts of a
// message together, so the limit is that of the message with the most puts. Canceled
// puts have the limit of a single put.
func (r *sharedWrites) expectAnswers(w *watch) {
	puts, bytes := 1, int64(0)
	for _, t := range r.pending {
		puts = max(puts, *t.request)
		bytes += r.x.all[t.index].Body.Size()
	}
	if r.canceled {
		puts = 1
	}
	w.expect(puts, bytes)
}

// maySend reports whether another message may be sent.
func (r *sharedWrites) maySend() bool {
	return r.callState.maySend() && !(r.x.single && r.requests > 0)
}

// fill sends messages until maySend returns false or ctx is done.
func (r *sharedWrites) fill(ctx context.Context, w *watch) error {
	for r.maySend() && len(r.left) > 0 && ctx.Err() == nil {
		if sent, err := r.send(ctx, w); err != nil || !sent {
			return err
		}
	}
	return nil
}

// send sends one message of puts. See sharedRun.send. Puts not yet sent when ctx is done
// are left undone.
func (r *sharedWrites) send(ctx context.Context, w *watch) (bool, error) {
	batch := &pb.StoreBatch{}
	count := new(int)
	bytes, size := int64(0), 0
	most := handshake.MaxPuts
	if r.x.single {
		most = 1
	}
	for len(r.left) > 0 && bytes < requestBytes && len(batch.GetJobs()) < most {
		i := r.left[0]
		put := &r.x.all[i]
		if size += put.cost(); size > handshake.MaxPart && *count > 0 {
			break
		}
		t := &pendingJob{index: i, request: count, held: r.holdBody(put.Body)}
		if t.held == nil {
			in, ok := r.p.plane.request.alloc(put.Body.Size())
			if !ok && len(r.pending) > 0 {
				break // wait for free memory
			}
			if !ok || !r.copyBody(w, i, &in) {
				r.left = r.left[1:]
				continue // level 0 performs the put, or the put has failed
			}
			t.in = &in
		}
		r.left = r.left[1:]
		*count++
		r.l.last++
		r.pending[r.l.last] = t
		batch.Jobs = append(batch.Jobs, &pb.StoreJob{
			Id: r.l.last, Handle: r.s.handle, Operation: &pb.StoreJob_Put{Put: put.head(r.s)},
			Body: t.input(put.Body.Size()),
		})
		bytes += put.Body.Size()
	}
	if ctx.Err() != nil || *count == 0 {
		for _, job := range batch.GetJobs() { // the message is not sent
			r.pending[job.GetId()].free(r.p.plane)
			delete(r.pending, job.GetId())
		}
		return false, nil // the caller still waits for the puts that were sent
	}
	for _, job := range batch.GetJobs() {
		r.x.sending(r.pending[job.GetId()].index)
	}
	r.requests++
	r.expectAnswers(w)
	return true, r.l.stream.Send(batch)
}

// holdBody returns the lent region that contains the body, or nil.
func (r *sharedWrites) holdBody(body driver.Body) *lentInput {
	mem, _ := body.(driver.Bytes)
	return r.p.plane.holdInput(mem)
}

// copyBody copies the body of a put to its region. It frees the region and returns false if
// the system has no memory for the region, or if the body cannot be read. In the latter
// case the put has failed.
func (r *sharedWrites) copyBody(w *watch, i int, in *region) bool {
	put := &r.x.all[i]
	mem := r.p.plane.request.of(*in, put.Body.Size())
	w.pause() // reading the body and the sink may be slow
	defer w.progress()
	var own error
	fault := guardFault(mem, func() { own = fillBody(mem, put.Body) })
	if fault == nil && own == nil {
		return true
	}
	r.p.plane.request.free(*in)
	if fault == nil && !errors.Is(own, syscall.EFAULT) {
		r.x.finish(i, r.s, driver.Info{}, ncerr.Wrap("put", put.Key, own))
	}
	return false
}

// take checks an answer against its put and delivers it. If the put failed and ctx is
// done, take leaves the put undone. An error means that the plugin violated the
// protocol.
func (r *sharedWrites) take(ctx context.Context, m *pb.StoreResult) error {
	t := r.pending[m.GetId()]
	if t == nil || m.GetNeed() != 0 {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "received a result for an unknown put")
	}
	r.answered(m.GetId(), t)
	t.free(r.p.plane)
	if ended := ctx.Err() != nil; ended && m.GetError() != nil {
		return nil
	}
	return r.x.answered(t.index, r.s, m.GetInfo(), m.GetError())
}
