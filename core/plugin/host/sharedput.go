package host

import (
	"context"
	"errors"
	"io"

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
	if err := fillBody(p.plane.request.of(in, body.Size()), body); err != nil {
		t.free(p.plane)
		return nil, true, ncerr.Wrap("put", string(head.GetKey()), err)
	}
	w := p.watch(ctx)
	defer w.end()
	l, err := p.storeLanes.take()
	if err != nil {
		t.free(p.plane)
		return nil, true, w.fail(ctx, err)
	}
	l.last++
	tickets := map[uint64]*ticket{l.last: t}
	defer func() { l.leave(tickets) }()
	err = l.stream.Send(&pb.StoreBatch{Jobs: []*pb.StoreJob{{
		Id: l.last, Handle: s.handle, Operation: &pb.StoreJob_Put{Put: head},
		Body: &pb.Region{Segment: requestSegment, Offset: uint64(in.off), Length: uint64(body.Size()), Generation: in.generation},
	}}})
	if err != nil {
		return nil, true, w.fail(ctx, err)
	}
	reply, err := l.next(w)
	if err != nil {
		return nil, true, w.fail(ctx, err)
	}
	m := reply.GetResults()
	if len(m) != 1 || m[0].GetId() != l.last || m[0].GetNeed() != 0 {
		return nil, true, p.broke(ncerr.Errorf(ncerr.ErrPlugin, "", "", "no answer to a put"))
	}
	delete(tickets, l.last)
	t.free(p.plane)
	if m[0].GetError() != nil {
		return nil, true, wire.FromDetail(m[0].GetError())
	}
	return m[0].GetInfo(), true, nil
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
