package server

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
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// storeExec is the state of one Transfer stream of the driver service.
type storeExec struct {
	d      *driverService
	sh     *shared
	ctx    context.Context //nolint:containedctx // the stream's own, as long as the storeExec
	stream pb.Driver_TransferServer
	wg     sync.WaitGroup
	sem    chan struct{} // one for each read of a remote store under way

	mu   sync.Mutex
	jobs map[uint64]*storeJob // not answered

	sendMu sync.Mutex
	fail   context.CancelCauseFunc
}

// storeJob is one read or write.
type storeJob struct {
	m      *pb.StoreJob
	ctx    context.Context //nolint:containedctx // the job's own, as long as the storeJob
	cancel context.CancelFunc
	asked  bool           // for room; guarded by storeExec.mu
	grant  chan *pb.Grant // room that was given
}

// Transfer implements pb.DriverServer.
func (d *driverService) Transfer(stream pb.Driver_TransferServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	x := &storeExec{
		d: d, sh: d.s.shared.Load(), ctx: ctx, stream: stream, fail: cancel,
		jobs: map[uint64]*storeJob{}, sem: make(chan struct{}, remoteAtOnce),
	}
	if x.sh == nil {
		return wire.Status(ctx, ncerr.Errorf(ncerr.ErrUnsupported, "transfer", "", "the host chose level 0"))
	}
	err := x.receive()
	if err != nil {
		cancel(err)
	}
	x.wg.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return wire.Status(stream.Context(), err)
}

func (x *storeExec) receive() error {
	for {
		b, err := x.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if ended := x.stream.Context().Err(); ended != nil {
				return ended
			}
			return err
		}
		for _, id := range b.GetCancel() {
			x.mu.Lock()
			if j := x.jobs[id]; j != nil {
				j.cancel()
			}
			x.mu.Unlock()
		}
		if err := x.give(b.GetGrants()); err != nil {
			return err
		}
		if err := x.start(b.GetJobs()); err != nil {
			return err
		}
		if x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
	}
}

// give hands room to the jobs that asked for it.
func (x *storeExec) give(grants []*pb.Grant) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, g := range grants {
		j := x.jobs[g.GetId()]
		if j == nil {
			continue // cancelled meanwhile
		}
		if !j.asked {
			return ncerr.Errorf(ncerr.ErrInvalid, "exec", "", "room for job %d, which did not ask for it", g.GetId())
		}
		j.asked = false
		j.grant <- g
	}
	return nil
}

// start registers the jobs of one message and has them done. Reads of a local
// store are done one after the other with one answer, since a wake-up of the host
// costs more than a read, and those of a remote one all at once. Writes are done
// several at once, as some wait for a disk, and have one answer.
func (x *storeExec) start(ms []*pb.StoreJob) error {
	if len(ms) == 0 {
		return nil
	}
	jobs := make([]*storeJob, len(ms))
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, m := range ms {
		if x.jobs[m.GetId()] != nil || len(x.jobs) >= handshake.MaxBatch {
			return ncerr.Errorf(ncerr.ErrInvalid, "exec", "", "job %d is begun already, or %d are at work", m.GetId(), len(x.jobs))
		}
		j := &storeJob{m: m, grant: make(chan *pb.Grant, 1)}
		j.ctx, j.cancel = context.WithCancel(x.ctx)
		jobs[i], x.jobs[m.GetId()] = j, j
	}
	m, release, err := x.d.use(ms[0].GetHandle())
	gets := err == nil && m.many != nil && len(ms) > 1 && all(ms, intoMemory)
	puts := err == nil && len(ms) > 1 && all(ms, isPut)
	remote := err == nil && m.caps.Latency == driver.Remote
	if err == nil {
		release()
	}
	switch {
	case gets:
		x.wg.Go(func() { x.getMany(jobs) })
	case puts:
		x.wg.Go(func() { x.putMany(jobs) })
	case remote:
		for _, j := range jobs {
			x.wg.Go(func() {
				x.sem <- struct{}{}
				defer func() { <-x.sem }()
				x.send(x.do(j))
			})
		}
	default:
		x.wg.Go(func() {
			results := make([]*pb.StoreResult, len(jobs))
			for i, j := range jobs {
				results[i] = x.do(j)
			}
			x.send(results...)
		})
	}
	return nil
}

// all reports whether all jobs are of one store and of one kind.
func all(ms []*pb.StoreJob, kind func(*pb.StoreJob) bool) bool {
	return !slices.ContainsFunc(ms, func(m *pb.StoreJob) bool { return m.GetHandle() != ms[0].GetHandle() || !kind(m) })
}

// intoMemory reports whether a job reads, and not into a file that is lent.
func intoMemory(m *pb.StoreJob) bool { return m.GetGet() != nil && m.GetLend() == 0 }

func isPut(m *pb.StoreJob) bool { return m.GetPut() != nil }

// send sends answers; the jobs are over with it.
func (x *storeExec) send(results ...*pb.StoreResult) {
	x.mu.Lock()
	for _, r := range results {
		if j := x.jobs[r.GetId()]; j != nil && r.GetNeed() == 0 {
			j.cancel()
			delete(x.jobs, r.GetId())
		}
	}
	x.mu.Unlock()
	x.sendMu.Lock()
	defer x.sendMu.Unlock()
	if err := x.stream.Send(&pb.StoreBatchReply{Results: results}); err != nil {
		x.fail(err)
	}
}

// do does one job and gives its answer.
func (x *storeExec) do(j *storeJob) *pb.StoreResult {
	r := &pb.StoreResult{Id: j.m.GetId()}
	m, release, err := x.d.use(j.m.GetHandle())
	if err == nil {
		defer release()
		switch {
		case j.m.GetGet() != nil:
			err = x.read(j, m, r)
		case j.m.GetPut() != nil:
			err = x.write(j, m, r)
		default:
			err = ncerr.Errorf(ncerr.ErrUnsupported, "exec", "", "unknown operation")
		}
	}
	if err != nil {
		r.Error = wire.ToDetail(err)
	}
	return r
}

// read performs one read: the file is lent, or its bytes go to the region.
func (x *storeExec) read(j *storeJob, m *openMap, r *pb.StoreResult) error {
	if j.m.GetLend() != 0 && m.lender != nil {
		err := x.lend(j, m, r)
		if ncerr.KindOf(err) != ncerr.ErrUnsupported {
			return err
		}
	}
	key, opts, err := wire.GetFromWire(j.m.GetGet())
	if err != nil {
		return err
	}
	room := &roomFor{x: x, j: j}
	data, info, err := m.Get(j.ctx, key, &opts, room.alloc)
	return room.result(r, key, data, info, err)
}

// roomFor is the destination of one read.
type roomFor struct {
	x      *storeExec
	j      *storeJob
	asked  int64 // what the driver asked for, plus 1
	output *pb.Region
}

// result fills in the answer to a read, and gives its error.
func (room *roomFor) result(r *pb.StoreResult, key string, data []byte, info driver.Info, err error) error {
	if room.asked == 0 {
		if err == nil {
			err = ncerr.Errorf(ncerr.ErrInternal, "get", key, "the driver delivered without asking for memory")
		}
		return err
	}
	r.Head = &pb.GetHead{Info: wire.InfoToWire(info), Length: room.asked - 1}
	r.Output = wrote(room.output, len(data))
	return err
}

// alloc gives the region of the job; when that is too small it asks the host
// for a larger one, and waits.
func (room *roomFor) alloc(n int64) ([]byte, error) {
	x, j := room.x, room.j
	if limit := x.d.s.maxObject.Load(); n < 0 || n > limit {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "an object of %d bytes, more than the limit of %d", n, limit)
	}
	room.output = j.m.GetGet().GetOutput()
	if n > int64(room.output.GetLength()) {
		x.mu.Lock()
		j.asked = true
		x.mu.Unlock()
		x.send(&pb.StoreResult{Id: j.m.GetId(), Need: n})
		select {
		case g := <-j.grant:
			room.output = g.GetOutput()
		case <-j.ctx.Done():
			return nil, j.ctx.Err()
		}
	}
	mem, err := x.sh.region(room.output, true)
	if err != nil {
		return nil, err
	}
	if n > int64(len(mem)) {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "room for %d bytes where %d were asked for", len(mem), n)
	}
	room.asked = n + 1
	return mem[:n:n], nil
}

// write performs one put.
func (x *storeExec) write(j *storeJob, m *openMap, r *pb.StoreResult) error {
	req, err := x.put(j)
	if err != nil {
		return err
	}
	info, err := m.Put(j.ctx, req.Key, req.Body, &req.Opts)
	if err == nil {
		r.Info = wire.InfoToWire(info)
	}
	return err
}

// put gives the put of a job, straight from the region.
func (x *storeExec) put(j *storeJob) (driver.PutRequest, error) {
	head := j.m.GetPut()
	body, err := x.sh.region(j.m.GetBody(), false)
	if err == nil && int64(len(body)) != head.GetSize() {
		err = ncerr.Errorf(ncerr.ErrInvalid, "put", string(head.GetKey()), "%d of the announced %d bytes came", len(body), head.GetSize())
	}
	return putRequest(head, driver.Bytes(body)), err
}
