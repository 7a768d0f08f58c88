package server

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

// group is a set of jobs with regions from one message. One worker runs the jobs in
// sequence and sends the results in one message, because waking the host takes as long as
// decoding a small chunk.
type group struct {
	jobs    []*pb.Job
	dropped map[uint64]bool    // canceled jobs; this and the fields below are guarded by executor.groupMu
	current uint64             // id of the running job
	cancel  context.CancelFunc // cancels the current job
}

// startGroup runs the jobs in one new goroutine. It blocks until a worker is free.
func (e *executor) startGroup(jobs []*pb.Job) {
	g := &group{jobs: jobs}
	select {
	case e.sem <- struct{}{}:
	case <-e.ctx.Done():
		return
	}
	e.groupMu.Lock()
	e.groups[g] = struct{}{}
	e.groupMu.Unlock()
	e.wg.Go(func() {
		defer func() { <-e.sem }()
		reply := e.runGroup(g)
		e.groupMu.Lock()
		delete(e.groups, g)
		e.groupMu.Unlock()
		e.sendMu.Lock()
		err := e.stream.Send(reply)
		e.sendMu.Unlock()
		if err != nil {
			e.fail(err)
		}
	})
}

// runGroup runs the jobs of g. At most one group for each core runs at a time, over all
// streams, because each has buffers and encoders of its own. After the stream has ended it does
// not wait: all jobs are canceled, and none calls a codec.
func (e *executor) runGroup(g *group) *pb.BatchReply {
	select {
	case e.c.cores <- struct{}{}: // does not deadlock, because a running job waits for nothing
		defer func() { <-e.c.cores }()
	case <-e.ctx.Done():
	}
	buf := e.c.pool.Get().(*scratch) //nolint:forcetypeassert // the pool contains only *scratch
	defer e.c.pool.Put(buf)
	reply := &pb.BatchReply{Results: make([]*pb.Result, len(g.jobs))}
	for i, m := range g.jobs {
		reply.Results[i] = e.answer(g, m, buf)
	}
	return reply
}

// drop cancels the waiting and running jobs with the given ids in all active groups.
func (e *executor) drop(ids []uint64) {
	if len(ids) == 0 {
		return
	}
	e.groupMu.Lock()
	defer e.groupMu.Unlock()
	for g := range e.groups {
		for _, id := range ids {
			if g.dropped == nil {
				g.dropped = map[uint64]bool{}
			}
			g.dropped[id] = true
			if g.current == id && g.cancel != nil {
				g.cancel()
			}
		}
	}
}

// begin makes m the current job of g and returns its context. It fails with
// context.Canceled if the host has canceled the job.
func (e *executor) begin(g *group, m *pb.Job) (context.Context, context.CancelFunc, error) {
	e.groupMu.Lock()
	defer e.groupMu.Unlock()
	if g.dropped[m.GetId()] {
		return nil, nil, context.Canceled
	}
	ctx, cancel := context.WithCancel(e.ctx)
	g.current, g.cancel = m.GetId(), cancel
	return ctx, cancel, nil
}

// answer runs one job and returns its result.
func (e *executor) answer(g *group, m *pb.Job, buf *scratch) *pb.Result {
	out, err := e.doShared(g, m, buf)
	r := &pb.Result{Id: m.GetId(), Last: true}
	if err != nil {
		r.Error = wire.ToDetail(err)
		return r
	}
	r.Size = int64(len(out))
	r.Payload = &pb.Payload{Content: &pb.Payload_Region{Region: withLength(m.GetOutput(), len(out))}}
	return r
}

func (e *executor) doShared(g *group, m *pb.Job, buf *scratch) ([]byte, error) {
	ctx, cancel, err := e.begin(g, m)
	if err != nil {
		return nil, err
	}
	defer cancel()
	sh := e.c.s.shared.Load()
	dst, err := sh.region(m.GetOutput(), true)
	if err != nil {
		return nil, err
	}
	src := m.GetPayload().GetInline()
	if r := m.GetPayload().GetRegion(); r != nil {
		if src, err = sh.region(r, false); err != nil {
			return nil, err
		}
	}
	limit := e.c.s.maxObject.Load()
	switch {
	case !m.GetLast() || int64(len(src)) != m.GetSize():
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "exec", "", "job %d has %d bytes, not the announced %d", m.GetId(), len(src), m.GetSize())
	case m.GetSize() > limit || m.GetLimit() < 0:
		return nil, ncerr.Errorf(ncerr.ErrLimit, "exec", "", "the job has %d bytes, more than the limit of %d", m.GetSize(), limit)
	case m.GetOp() != pb.Op_OP_ENCODE && m.GetOp() != pb.Op_OP_DECODE:
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "exec", "", "unknown operation %d", m.GetOp())
	}
	p, err := e.c.get(m.GetPipeline())
	if err != nil {
		return nil, err
	}
	return p.run(ctx, m.GetOp(), m.GetSkip(), src, dst, m.GetLimit(), buf)
}
