package host

import (
	"cmp"
	"context"
	"errors"
	"math/bits"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// maxGuess is the largest region allocated for a read before its size is known.
const maxGuess = 16 << 20

// lendAbove is the size in bytes of the smallest read for which a plugin may lend a
// file. Opening, sending and closing a file takes about as long as copying that many
// bytes.
const lendAbove = 256 << 10

// sharedReads is a set of reads at level 1 over one stream.
type sharedReads struct {
	callState
	m    *remoteMap
	s    *session
	l    *storeStream
	all  []objectRead
	open []int                // reads not yet sent
	done func(i int, e error) // called at the end of each read
}

// sharedGet makes one attempt at the reads with the given indexes in all, and stores the
// results there. It calls done for each completed read. Reads that do not fit in the
// segments remain undone.
func (m *remoteMap) sharedGet(ctx context.Context, s *session, all []objectRead, indexes []int, done func(int, error)) error {
	p := s.p
	if !p.plane.enter() {
		return p.lostProcessError("no longer exists", false)
	}
	defer p.plane.leave()
	w := p.watch(ctx)
	defer w.end()
	l, err := p.storeStreams.take()
	if err != nil {
		return w.fail(ctx, err)
	}
	r := &sharedReads{callState: callState{p: p, pending: map[uint64]*pendingJob{}}, m: m, s: s, l: l, all: all, open: indexes, done: done}
	defer func() { l.leave(r.pending) }()
	return drive(ctx, w, &r.callState, l, func() error { return r.fill(ctx, w) }, func(reply *pb.StoreBatchReply) error {
		for _, result := range reply.GetResults() {
			if err := r.take(ctx, w, result); err != nil {
				return err
			}
		}
		return nil
	})
}

// fill sends messages until maySend returns false. Reads do not acquire turns, because a
// slow store needs many concurrent reads.
func (r *sharedReads) fill(ctx context.Context, w *watch) error {
	for r.maySend() && len(r.open) > 0 {
		if sent, err := r.send(); err != nil || !sent {
			return w.fail(ctx, err)
		}
	}
	return nil
}

// send sends one message of reads. See sharedRun.send.
func (r *sharedReads) send() (bool, error) {
	batch := &pb.StoreBatch{}
	count := new(int)
	bytes := int64(0)
	for len(r.open) > 0 && bytes < requestBytes && len(batch.GetJobs()) < requestJobs {
		i := r.open[0]
		n := r.m.expect(&r.all[i].opts)
		t := r.reserve(n)
		if t == nil {
			if len(r.pending) > 0 {
				break // wait for free memory
			}
			r.open = r.open[1:]
			continue
		}
		r.open = r.open[1:]
		t.index, t.request = i, count
		*count++
		r.l.last++
		r.pending[r.l.last] = t
		spec := wire.GetToWire(r.all[i].key, r.all[i].opts)
		if len(t.out) > 0 {
			spec.Output = t.out[0].message(t.limit)
		}
		batch.Jobs = append(batch.Jobs, &pb.StoreJob{
			Id: r.l.last, Handle: r.s.handle, Lend: t.lend, Operation: &pb.StoreJob_Get{Get: spec},
		})
		bytes += n
	}
	if *count == 0 {
		return false, nil
	}
	r.requests++
	return true, r.l.stream.Send(batch)
}

// reserve allocates the region for a read of about n bytes, or a tag if the plugin may
// lend the file instead. It returns nil if the segment has no room.
func (r *sharedReads) reserve(n int64) *pendingJob {
	if r.s.lends && n >= lendAbove && r.p.plane.mayLend() {
		return &pendingJob{lend: r.p.plane.tag.Add(1)}
	}
	out, ok := r.p.plane.allocResponse(n)
	if !ok {
		return nil
	}
	return &pendingJob{out: []region{out}, limit: out.size}
}

// expect returns the expected size of a read: the requested length, or the size of the
// largest object so far if the length is not limited.
func (m *remoteMap) expect(o *driver.GetOptions) int64 {
	if o.Range != nil && o.Range.Length >= 0 {
		return o.Range.Length
	}
	return max(minRegion, m.guess.Load())
}

// learn updates the size of the largest object so far, rounded up to a power of two and
// limited to maxGuess.
func (m *remoteMap) learn(n int64) {
	for n = min(n, maxGuess); ; {
		old := m.guess.Load()
		if n <= old || m.guess.CompareAndSwap(old, 1<<bits.Len64(uint64(n-1))) {
			return
		}
	}
}

// take handles the answer to a read or its request for a larger region. An error ends
// the call.
func (r *sharedReads) take(ctx context.Context, w *watch, m *pb.StoreResult) error {
	t := r.pending[m.GetId()]
	if t == nil {
		return r.p.killBroken(ncerr.Errorf(ncerr.ErrPlugin, "", "", "unexpected result for read %d: the read is complete or was not requested", m.GetId()))
	}
	if m.GetNeed() != 0 {
		w.progress()
		defer w.pause()
		if err := r.grant(m.GetId(), t, m.GetNeed()); err != nil {
			return r.p.killBroken(err)
		}
		return nil
	}
	l := &r.all[t.index]
	defer t.free(r.p.plane)
	defer r.answered(m.GetId(), t)
	if t.inline {
		r.p.plane.dropLent(m, t)
		return nil // the read is repeated at level 0
	}
	err := r.storeAnswer(ctx, l, m, t)
	if errors.Is(err, errNoDescriptor) {
		l.restart()
		return nil // the read is repeated at level 0
	}
	if err != nil {
		if err = fault(r.p, err); ncerr.KindOf(err) == ncerr.ErrPlugin {
			return err
		}
	} else if m.GetError() != nil {
		err = wire.FromDetail(m.GetError())
	}
	l.done = true
	r.m.learn(l.n)
	r.done(t.index, err)
	return nil
}

// grant allocates a larger region for a read. If no memory is free it cancels the read,
// which is then repeated at level 0.
func (r *sharedReads) grant(id uint64, t *pendingJob, need int64) error {
	limit := r.all[t.index].opts.Limit
	if t.requestedMore || need < 0 || need <= t.limit || limit > 0 && need > limit {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin requests %d bytes of shared memory for read %d, whose limit is %d", need, id, limit)
	}
	t.requestedMore = true
	out, ok := r.p.plane.allocResponse(need)
	if !ok {
		t.inline = true
		return r.sendControl(&pb.StoreBatch{Cancel: []uint64{id}})
	}
	t.out, t.limit = append(t.out, out), need
	return r.sendControl(&pb.StoreBatch{Grants: []*pb.Grant{{Id: id, Output: out.message(need)}}})
}

// sendControl sends a message without jobs. It always returns nil: if sending fails,
// the stream has ended and the receiver reports the cause.
func (r *sharedReads) sendControl(b *pb.StoreBatch) error {
	_ = r.l.stream.Send(b)
	return nil
}

// storeAnswer checks an answer against its read and stores the data. An error means
// that the plugin violated the protocol, except for an errCaller, ErrConflict or
// errNoDescriptor.
func (r *sharedReads) storeAnswer(ctx context.Context, l *objectRead, m *pb.StoreResult, t *pendingJob) error {
	if m.GetHead() == nil {
		if m.GetError() == nil || m.GetLent() != nil {
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the result of a read has no header")
		}
		return nil
	}
	if m.GetLent() != nil {
		if err := l.begin(m.GetHead(), 0, false); err != nil {
			r.p.plane.dropLent(m, t)
			return err
		}
		return r.p.plane.readLent(ctx, l, m, t)
	}
	n, err := t.written(m.GetOutput(), t.limit)
	if err != nil {
		return err
	}
	if err := l.begin(m.GetHead(), n, false); err != nil {
		return err
	}
	if n > l.want || m.GetError() == nil && n != l.want {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "received %d bytes, but %d were announced", n, l.want)
	}
	out := r.p.plane.response.of(t.out[len(t.out)-1], n)
	var own error
	err = guardFault(out, func() { own = l.store(out) })
	return cmp.Or(err, own)
}

// acceptLateReplies checks the answers to abandoned jobs of a store, and frees the
// regions of the answered jobs.
func (p *proc) acceptLateReplies(r *pb.StoreBatchReply, late map[uint64]*pendingJob) error {
	for _, m := range r.GetResults() {
		t := late[m.GetId()]
		switch {
		case t == nil:
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "unexpected result for job %d: the job is complete or was not requested", m.GetId())
		case m.GetNeed() != 0 && t.requestedMore:
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "job %d requests a larger region twice", m.GetId())
		case m.GetNeed() != 0:
			t.requestedMore = true // the read was canceled, so an answer follows
		default:
			p.plane.dropLent(m, t)
			delete(late, m.GetId())
			t.free(p.plane)
		}
	}
	return nil
}
