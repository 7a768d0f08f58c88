package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// getMany performs the reads of one message with the driver's GetMany.
func (x *storeExec) getMany(jobs []*storeJob) {
	m, release, err := x.d.use(jobs[0].m.GetHandle())
	if err != nil {
		x.failAll(jobs, err)
		return
	}
	defer release()
	reqs, dsts := x.requests(jobs)
	ctx, stop := joinContexts(x.ctx, jobs)
	defer stop()
	done := make([]bool, len(jobs))
	err = m.many.GetMany(ctx, reqs, func(i int, data []byte, info driver.Info, err error) {
		if done[i] {
			return
		}
		done[i] = true
		r := &pb.StoreResult{Id: jobs[i].m.GetId()}
		if err := dsts[i].result(r, reqs[i].Key, data, info, err); err != nil {
			r.Error = wire.ToDetail(err)
		}
		x.send(r)
	})
	if err == nil {
		err = ncerr.Errorf(ncerr.ErrInternal, "get", "", "the driver returned no result for a request of a batch")
	}
	var left []*storeJob
	for i, j := range jobs {
		if !done[i] {
			left = append(left, j)
		}
	}
	x.failAll(left, err)
}

// putMany performs the writes of one message.
func (x *storeExec) putMany(jobs []*storeJob) {
	m, release, err := x.d.use(jobs[0].m.GetHandle())
	if err != nil {
		x.failAll(jobs, err)
		return
	}
	defer release()
	var reqs []driver.PutRequest
	var valid []*storeJob
	for _, j := range jobs {
		r, err := x.put(j)
		if err != nil {
			x.failAll([]*storeJob{j}, err)
			continue
		}
		reqs, valid = append(reqs, r), append(valid, j)
	}
	if len(valid) == 0 {
		return
	}
	ctx, stop := joinContexts(x.ctx, valid)
	defer stop()
	a := &answers{x: x}
	defer a.flush()
	m.putMany(ctx, reqs, func(i int, info driver.Info, err error) {
		r := &pb.StoreResult{Id: valid[i].m.GetId()}
		r.Info, r.Error = putAnswer(info, err)
		a.add(r)
	})
}

// answerDelay is how long the result of a put is held back, so that it can be sent with
// other results of the same message. Waking the host takes longer than a fast put, but
// the host must see the progress of slow puts.
const answerDelay = 100 * time.Millisecond

// answers collects and sends the results of one message of puts.
type answers struct {
	x     *storeExec
	mu    sync.Mutex
	ready []*pb.StoreResult // results not yet sent
	timer *time.Timer       // calls flush
}

// add sends r within answerDelay.
func (a *answers) add(r *pb.StoreResult) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ready = append(a.ready, r); len(a.ready) == 1 {
		a.timer = time.AfterFunc(answerDelay, a.flush)
	}
}

// flush sends the results that are ready.
func (a *answers) flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ready) > 0 {
		a.timer.Stop()
		a.x.send(a.ready...)
		a.ready = nil
	}
}

// requests returns the driver's requests for jobs. The Alloc of a request with an
// invalid range fails.
func (x *storeExec) requests(jobs []*storeJob) ([]driver.GetRequest, []*destination) {
	reqs := make([]driver.GetRequest, len(jobs))
	dsts := make([]*destination, len(jobs))
	for i, j := range jobs {
		dsts[i] = &destination{x: x, j: j}
		reqs[i].Alloc = dsts[i].alloc
		var err error
		if reqs[i].Key, reqs[i].Opts, err = wire.GetFromWire(j.m.GetGet()); err != nil {
			reqs[i].Alloc = func(int64) ([]byte, error) { return nil, err }
		}
	}
	return reqs, dsts
}

// joinContexts returns a context for several jobs. The context is done when the stream
// has ended, or when the contexts of all jobs are done.
func joinContexts(ctx context.Context, jobs []*storeJob) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	var left atomic.Int64
	left.Store(int64(len(jobs)))
	for _, j := range jobs {
		context.AfterFunc(j.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, cancel
}

func (x *storeExec) failAll(jobs []*storeJob, err error) {
	results := make([]*pb.StoreResult, len(jobs))
	for i, j := range jobs {
		results[i] = &pb.StoreResult{Id: j.m.GetId(), Error: wire.ToDetail(err)}
	}
	if len(results) > 0 {
		x.send(results...)
	}
}
