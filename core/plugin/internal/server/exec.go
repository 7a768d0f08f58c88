package server

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

// firstAlloc limits the memory, in bytes, that is allocated for a job's input before the
// data arrives. Further memory is allocated as data arrives.
const firstAlloc = 64 << 20

// job is one chunk whose input is being received.
type job struct {
	head *pb.Job // its first part
	src  []byte
}

// executor is the state of one Exec stream.
type executor struct {
	c      *codecService
	ctx    context.Context //nolint:containedctx // the context has the lifetime of the stream
	stream pb.Codec_ExecServer

	open map[uint64]*job // by id; jobs with incomplete input
	sem  chan struct{}   // limits concurrent jobs and groups
	wg   sync.WaitGroup

	groupMu sync.Mutex
	groups  map[*group]struct{} // active groups

	sendMu sync.Mutex
	fail   context.CancelCauseFunc
}

func (c *codecService) Exec(stream pb.Codec_ExecServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	e := &executor{
		c: c, ctx: ctx, stream: stream, fail: cancel,
		open:   map[uint64]*job{},
		groups: map[*group]struct{}{},
		sem:    make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	err := e.receive()
	if err != nil {
		cancel(err)
	}
	e.wg.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return wire.Status(stream.Context(), err)
}

// receive reads batches until the host ends the stream, and starts each job when its
// input is complete. It blocks while all workers are busy, so that the host cannot send
// more data than they process.
func (e *executor) receive() error {
	for {
		b, err := e.stream.Recv()
		if errors.Is(err, io.EOF) {
			if len(e.open) > 0 {
				return ncerr.Errorf(ncerr.ErrInvalid, "exec", "", "the stream ended with %d incomplete jobs", len(e.open))
			}
			return nil
		}
		if err != nil {
			if ended := e.stream.Context().Err(); ended != nil {
				return ended
			}
			return err
		}
		if err := e.batch(b); err != nil {
			return err
		}
		if e.ctx.Err() != nil {
			return context.Cause(e.ctx)
		}
	}
}

// batch handles one message. It adds inline parts to their jobs, and starts all jobs
// with regions as one group.
func (e *executor) batch(b *pb.Batch) error {
	e.drop(b.GetCancel())
	var grouped []*pb.Job
	for _, m := range b.GetJobs() {
		if m.GetOutput() != nil {
			grouped = append(grouped, m)
		} else if err := e.part(m); err != nil {
			return err
		}
	}
	if len(grouped) > 0 {
		e.startGroup(grouped)
	}
	return nil
}

// part adds a part to its job and starts the job after the last part.
func (e *executor) part(m *pb.Job) error {
	payload, err := wire.Inline(m.GetPayload(), handshake.MaxPart)
	if err != nil {
		return err
	}
	j := e.open[m.GetId()]
	if j == nil {
		limit := e.c.s.maxObject.Load()
		switch {
		case len(e.open) >= handshake.MaxBatch:
			return ncerr.Errorf(ncerr.ErrLimit, "exec", "", "the stream has more incomplete jobs than the limit of %d", handshake.MaxBatch)
		case m.GetSize() < 0 || m.GetSize() > limit || m.GetLimit() < 0:
			return ncerr.Errorf(ncerr.ErrLimit, "exec", "", "the job has %d bytes, more than the limit of %d", m.GetSize(), limit)
		case m.GetOp() != pb.Op_OP_ENCODE && m.GetOp() != pb.Op_OP_DECODE:
			return ncerr.Errorf(ncerr.ErrUnsupported, "exec", "", "unknown operation %d", m.GetOp())
		}
		j = &job{head: m}
		if !m.GetLast() {
			j.src = make([]byte, 0, min(m.GetSize(), firstAlloc))
			e.open[m.GetId()] = j
		}
	}
	if int64(len(payload)) > j.head.GetSize()-int64(len(j.src)) {
		return ncerr.Errorf(ncerr.ErrInvalid, "exec", "", "job %d has more than the announced %d bytes", m.GetId(), j.head.GetSize())
	}
	if j.src == nil {
		j.src = payload // the message is not used again
	} else {
		j.src = append(j.src, payload...)
	}
	if !m.GetLast() {
		return nil
	}
	delete(e.open, m.GetId())
	if int64(len(j.src)) != j.head.GetSize() {
		return ncerr.Errorf(ncerr.ErrInvalid, "exec", "", "job %d has %d bytes, not the announced %d", m.GetId(), len(j.src), j.head.GetSize())
	}
	e.start(j)
	return nil
}

// start runs j in a new goroutine. It blocks until a worker is free.
func (e *executor) start(j *job) {
	select {
	case e.sem <- struct{}{}:
	case <-e.ctx.Done():
		return
	}
	e.wg.Go(func() {
		defer func() { <-e.sem }()
		buf := e.c.pool.Get().(*scratch) //nolint:forcetypeassert // the pool contains only *scratch
		defer e.c.pool.Put(buf)
		out, err := e.run(j, buf)
		if err := e.send(j.head.GetId(), out, err); err != nil {
			e.fail(err)
		}
	})
}

func (e *executor) run(j *job, buf *scratch) ([]byte, error) {
	p, err := e.c.get(j.head.GetPipeline())
	if err != nil {
		return nil, err
	}
	return p.run(e.ctx, j.head.GetOp(), j.head.GetSkip(), j.src, nil, j.head.GetLimit(), buf)
}

// send sends one job's result in parts.
func (e *executor) send(id uint64, out []byte, err error) error {
	var failed *pb.ErrorDetail
	if err != nil {
		failed, out = wire.ToDetail(err), nil
	}
	size := int64(len(out))
	for first := true; first || len(out) > 0; first = false {
		part := out[:min(len(out), handshake.MaxPart)]
		out = out[len(part):]
		m := &pb.Result{Id: id, Last: len(out) == 0, Error: failed}
		if first {
			m.Size = size
		}
		if failed == nil {
			m.Payload = wire.Bytes(part)
		}
		e.sendMu.Lock()
		err := e.stream.Send(&pb.BatchReply{Results: []*pb.Result{m}})
		e.sendMu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
