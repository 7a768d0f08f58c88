package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

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
	ctx    context.Context //nolint:containedctx // the context has the lifetime of the stream
	stream pb.Driver_TransferServer
	wg     sync.WaitGroup
	sem    chan struct{} // limits concurrent reads of a remote store

	mu   sync.Mutex
	jobs map[uint64]*storeJob // by id; jobs without a response

	sendMu sync.Mutex
	fail   context.CancelCauseFunc
}

// storeJob is one read or write.
type storeJob struct {
	m      *pb.StoreJob
	ctx    context.Context //nolint:containedctx // the context has the lifetime of the job
	cancel context.CancelFunc
	waits  bool           // the job waits for a larger region; guarded by storeExec.mu
	grant  chan *pb.Grant // the larger region
}

// Transfer implements pb.DriverServer.
func (d *driverService) Transfer(stream pb.Driver_TransferServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	x := &storeExec{
		d: d, sh: d.s.shared.Load(), ctx: ctx, stream: stream, fail: cancel,
		jobs: map[uint64]*storeJob{}, sem: make(chan struct{}, remoteConcurrency),
	}
	if x.sh == nil {
		return wire.Status(ctx, ncerr.Errorf(ncerr.ErrUnsupported, "transfer", "", "the host has not configured level 1"))
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
		if err := x.grantRegions(b.GetGrants()); err != nil {
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

// grantRegions passes larger regions to the jobs that requested them.
func (x *storeExec) grantRegions(grants []*pb.Grant) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, g := range grants {
		j := x.jobs[g.GetId()]
		if j == nil {
			continue // the job was canceled before the grant arrived
		}
		if !j.waits {
			return ncerr.Errorf(ncerr.ErrInvalid, "exec", "", "job %d did not request a larger region", g.GetId())
		}
		j.waits = false
		j.grant <- g
	}
	return nil
}

// start registers the jobs of one message and starts them. Several reads into regions use
// the driver's GetMany if the driver implements it. Other reads of a local store run in
// sequence and their results are sent in one message, because waking the host takes longer
// than a read. Other reads of a remote store run concurrently. Several writes also run
// concurrently, because some wait for a disk, and the results of writes that end within
// answerDelay are combined.
func (x *storeExec) start(ms []*pb.StoreJob) error {
	if len(ms) == 0 {
		return nil
	}
	jobs := make([]*storeJob, len(ms))
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, m := range ms {
		if x.jobs[m.GetId()] != nil || len(x.jobs) >= handshake.MaxBatch {
			return ncerr.Errorf(ncerr.ErrInvalid, "exec", "", "job %d already exists, or the stream has the maximum of %d active jobs", m.GetId(), len(x.jobs))
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

// all reports whether kind returns true for all jobs and all jobs use the same store.
func all(ms []*pb.StoreJob, kind func(*pb.StoreJob) bool) bool {
	return !slices.ContainsFunc(ms, func(m *pb.StoreJob) bool { return m.GetHandle() != ms[0].GetHandle() || !kind(m) })
}

// intoMemory reports whether a job is a read that does not accept a lent file.
func intoMemory(m *pb.StoreJob) bool { return m.GetGet() != nil && m.GetLend() == 0 }

func isPut(m *pb.StoreJob) bool { return m.GetPut() != nil }

// send sends results in one or more messages. It removes the jobs of the results,
// except for requests for a larger region.
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
	for len(results) > 0 {
		n := fitting(results)
		if err := x.stream.Send(&pb.StoreBatchReply{Results: results[:n]}); err != nil {
			x.fail(err)
			return
		}
		results = results[n:]
	}
}

// fitting returns the number of leading results that fit in one message.
func fitting(results []*pb.StoreResult) int {
	size := 0
	for n, r := range results {
		if size += proto.Size(r) + itemCost; size > handshake.MaxPart && n > 0 {
			return n
		}
	}
	return len(results)
}

// do performs one job and returns its result.
func (x *storeExec) do(j *storeJob) *pb.StoreResult {
	r := &pb.StoreResult{Id: j.m.GetId()}
	m, release, err := x.d.use(j.m.GetHandle())
	if err == nil {
		defer release()
		switch {
		case j.m.GetGet() != nil:
			err = x.read(j, m, r)
		case j.m.GetPut() != nil:
			r.Info, r.Error = putAnswer(x.write(j, m))
		default:
			err = ncerr.Errorf(ncerr.ErrUnsupported, "exec", "", "the job contains no operation")
		}
	}
	if err != nil {
		r.Error = wire.ToDetail(err)
	}
	return r
}

// read performs one read. It lends the file to the host if possible, and reads into the
// region otherwise.
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
	dst := &destination{x: x, j: j}
	data, info, err := m.Get(j.ctx, key, &opts, dst.alloc)
	return dst.result(r, key, data, info, err)
}

// destination is the memory for the result of one read.
type destination struct {
	x         *storeExec
	j         *storeJob
	requested int64 // size requested by the driver, plus 1; 0 before the request
	output    *pb.Region
}

// result fills in the response to a read and returns its error.
func (dst *destination) result(r *pb.StoreResult, key string, data []byte, info driver.Info, err error) error {
	if dst.requested == 0 {
		if err == nil {
			err = ncerr.Errorf(ncerr.ErrInternal, "get", key, "the driver returned data without calling alloc")
		}
		return err
	}
	r.Head = &pb.GetHead{Info: wire.InfoToWire(info), Length: dst.requested - 1}
	r.Output = withLength(dst.output, len(data))
	return err
}

// alloc returns the first n bytes of the region of the job. If the region is too small,
// alloc requests a larger one from the host and waits for it.
func (dst *destination) alloc(n int64) ([]byte, error) {
	x, j := dst.x, dst.j
	if limit := x.d.s.maxObject.Load(); n < 0 || n > limit {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "the object has %d bytes, more than the limit of %d", n, limit)
	}
	dst.output = j.m.GetGet().GetOutput()
	if n > int64(dst.output.GetLength()) {
		x.mu.Lock()
		j.waits = true
		x.mu.Unlock()
		x.send(&pb.StoreResult{Id: j.m.GetId(), Need: n})
		select {
		case g := <-j.grant:
			dst.output = g.GetOutput()
		case <-j.ctx.Done():
			return nil, j.ctx.Err()
		}
	}
	mem, err := x.sh.region(dst.output, true)
	if err != nil {
		return nil, err
	}
	if n > int64(len(mem)) {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "the region has %d bytes, not %d", len(mem), n)
	}
	dst.requested = n + 1
	return mem[:n:n], nil
}

// write performs one put.
func (x *storeExec) write(j *storeJob, m *openMap) (driver.Info, error) {
	req, err := x.put(j)
	if err != nil {
		return driver.Info{}, err
	}
	return m.Put(j.ctx, req.Key, req.Body, &req.Opts)
}

// put returns the put of a job. Its body aliases the region.
func (x *storeExec) put(j *storeJob) (driver.PutRequest, error) {
	head := j.m.GetPut()
	body, err := x.sh.region(j.m.GetBody(), false)
	if err == nil && int64(len(body)) != head.GetSize() {
		err = ncerr.Errorf(ncerr.ErrInvalid, "put", string(head.GetKey()), "the object has %d bytes, not the announced %d", len(body), head.GetSize())
	}
	return putRequest(head, driver.Bytes(body)), err
}
