package host

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

// inline makes one attempt at the jobs with the given indexes, at level 0 over a new
// stream. Results may arrive in any order.
func (x *execution) inline(ctx context.Context, s *session, indexes []int) error {
	w := s.p.watch(ctx)
	stream, err := s.p.codec.Exec(w.ctx)
	if err != nil {
		defer w.end()
		return w.fail(ctx, err)
	}
	for _, i := range indexes {
		x.out[i].sent = true
	}
	var sender sync.WaitGroup
	sender.Go(func() { x.send(stream, s.handle, indexes) })
	defer sender.Wait()
	defer w.end() // runs before Wait and unblocks the sender
	for err == nil {
		w.progress()
		var r *pb.BatchReply
		if r, err = stream.Recv(); err != nil {
			break
		}
		w.pause() // the sink may be slow
		content := func(r *pb.Result) bool { return r.GetLast() || len(r.GetPayload().GetInline()) > 0 }
		if err := w.countMessage(slices.ContainsFunc(r.GetResults(), content)); err != nil {
			return s.p.killBroken(err)
		}
		for _, result := range r.GetResults() {
			if err := x.take(result); err != nil {
				return s.p.killBroken(err)
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return w.fail(ctx, err)
	}
	if left := len(x.undone(indexes)); left > 0 {
		return s.p.killBroken(ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin sent no result for %d of %d jobs", left, len(indexes)))
	}
	return nil
}

// jobCost is the approximate encoded size of a job without its payload, in bytes.
const jobCost = 64

// send sends the jobs with the given indexes in messages of at most MaxPart bytes. It
// ignores errors: if sending fails, the stream has ended and the receiver reports the
// cause.
func (x *execution) send(stream pb.Codec_ExecClient, handle uint64, indexes []int) {
	var batch pb.Batch
	size := 0
	flush := func() bool {
		err := stream.Send(&batch)
		batch, size = pb.Batch{}, 0
		return err == nil
	}
	for _, i := range indexes {
		job := x.jobs[i]
		src := job.Src
		for first := true; first || len(src) > 0; first = false {
			if size+jobCost >= handshake.MaxPart || len(batch.Jobs) == handshake.MaxBatch {
				if !flush() {
					return
				}
			}
			n := min(len(src), handshake.MaxPart-size)
			m := &pb.Job{Id: uint64(i) + 1, Payload: wire.Bytes(src[:n]), Last: n == len(src)}
			if first {
				m.Op, m.Pipeline, m.Size, m.Limit, m.Skip = x.op, handle, int64(len(src)), max(0, job.Limit), job.Skip
			}
			batch.Jobs = append(batch.Jobs, m)
			src, size = src[n:], size+n+jobCost
		}
	}
	if len(batch.Jobs) == 0 || flush() {
		_ = stream.CloseSend() // the receiver reports the error
	}
}

// take checks a part of a result against its job and stores it.
func (x *execution) take(r *pb.Result) error {
	if r.GetId() == 0 || r.GetId() > uint64(len(x.jobs)) || x.out[r.GetId()-1].done || !x.out[r.GetId()-1].sent {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "unexpected result for job %d: the job is complete or was not requested", r.GetId())
	}
	i := int(r.GetId() - 1)
	job, out := &x.jobs[i], &x.out[i]
	if r.GetError() != nil {
		x.finish(i, nil, wire.FromDetail(r.GetError()))
		return nil
	}
	part, err := wire.Inline(r.GetPayload(), handshake.MaxPart)
	if err != nil {
		return err
	}
	if !out.begun {
		size := r.GetSize()
		if size < 0 || size > job.Limit {
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the output has %d bytes; the limit is %d", size, job.Limit)
		}
		if r.GetLast() && int64(len(part)) == size && size > int64(len(job.Dst)) {
			x.finish(i, part, nil) // the sink receives the memory of the message without a copy
			return nil
		}
		out.begun, out.size = true, size
		if size <= int64(len(job.Dst)) {
			out.buf = job.Dst[:size]
		}
	}
	if int64(len(part)) > out.size-int64(out.n) {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the output exceeds the announced %d bytes", out.size)
	}
	out.add(part, trusted/int64(len(x.jobs)))
	if !r.GetLast() {
		return nil
	}
	if int64(out.n) != out.size {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "received %d bytes of an output, but %d were announced", out.n, out.size)
	}
	x.finish(i, out.buf, nil)
	return nil
}

// add appends a part of the output. It allocates memory for the whole output
// immediately if the output has at most trust bytes, and otherwise when 1/provenShare
// of it has arrived.
func (o *output) add(part []byte, trust int64) {
	have := int64(o.n + len(part))
	if int64(len(o.buf)) < o.size && (o.size <= trust || have >= o.size/provenShare) {
		whole := make([]byte, o.size)
		copy(whole, o.buf)
		o.buf = whole
	}
	if int64(len(o.buf)) == o.size {
		copy(o.buf[o.n:], part)
	} else {
		o.buf = append(o.buf, part...)
	}
	o.n = int(have)
}
