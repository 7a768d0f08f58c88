package host

import (
	"context"
	"errors"
	"io"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// sharedPut makes one attempt at a put whose body goes into the request
// segment. It reports false when there is no room for it.
func sharedPut(ctx context.Context, s *session, head *pb.PutHead, body driver.Body) (info *pb.Info, fits bool, err error) {
	p := s.p
	if !p.plane.enter() {
		return nil, true, p.lost("is gone", false)
	}
	defer p.plane.leave()
	in, ok := p.plane.request.alloc(body.Size())
	if !ok {
		return nil, false, nil
	}
	t := &ticket{in: &in, request: new(int)}
	mem := p.plane.request.of(in, body.Size())
	var own error
	if guardFault(mem, func() { own = fillBody(mem, body) }) != nil || errors.Is(own, syscall.EFAULT) {
		t.free(p.plane)
		return nil, false, nil // the system has no page for it: level 0
	}
	if own != nil {
		t.free(p.plane)
		return nil, true, ncerr.Wrap("put", string(head.GetKey()), own)
	}
	if err := ctx.Err(); err != nil { // a put that was not sent is not done
		t.free(p.plane)
		return nil, true, err
	}
	job := &pb.StoreJob{
		Handle: s.handle, Operation: &pb.StoreJob_Put{Put: head},
		Body: &pb.Region{Segment: requestSegment, Offset: uint64(in.off), Length: uint64(body.Size()), Generation: in.generation},
	}
	m, err := oneStoreJob(ctx, p, job, t)
	return m.GetInfo(), true, err
}

// oneStoreJob sends one job and waits for its answer; t, its ticket, is free
// afterwards. When ctx ends meanwhile the job is cancelled, and its answer is
// waited for all the same.
func oneStoreJob(ctx context.Context, p *proc, job *pb.StoreJob, t *ticket) (*pb.StoreResult, error) {
	sent := context.WithoutCancel(ctx)
	w := p.watch(sent)
	defer w.end()
	w.carries(job.GetPut().GetSize())
	l, err := p.storeLanes.take()
	if err != nil {
		t.free(p.plane)
		return nil, w.fail(ctx, err)
	}
	l.last++
	job.Id = l.last
	tickets := map[uint64]*ticket{l.last: t}
	defer func() { l.leave(tickets) }()
	if err := l.stream.Send(&pb.StoreBatch{Jobs: []*pb.StoreJob{job}}); err != nil {
		return nil, w.fail(sent, err)
	}
	reply, err := l.untilAnswered(ctx, w, job.GetId())
	if err != nil {
		return nil, w.fail(sent, err)
	}
	m := reply.GetResults()
	if len(m) != 1 || m[0].GetId() != job.GetId() || m[0].GetNeed() != 0 {
		return nil, p.broke(ncerr.Errorf(ncerr.ErrPlugin, "", "", "no answer to a put"))
	}
	delete(tickets, job.GetId())
	t.free(p.plane)
	switch {
	case m[0].GetError() == nil:
		return m[0], nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, wire.FromDetail(m[0].GetError())
}

// fillBody copies the whole body to dst.
func fillBody(dst []byte, body driver.Body) error {
	if mem, ok := body.(driver.Bytes); ok {
		copy(dst, mem)
		return nil
	}
	if n, err := body.ReadAt(dst, 0); n < len(dst) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	return nil
}
