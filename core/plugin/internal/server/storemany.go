package server

import (
	"context"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// getMany performs reads through the driver's own many-form.
func (x *storeExec) getMany(jobs []*storeJob) {
	m, release, err := x.d.use(jobs[0].m.GetHandle())
	if err != nil {
		x.failAll(jobs, err)
		return
	}
	defer release()
	reqs, rooms := x.requests(jobs)
	ctx, stop := together(x.ctx, jobs)
	defer stop()
	done := make([]bool, len(jobs))
	err = m.many.GetMany(ctx, reqs, func(i int, data []byte, info driver.Info, err error) {
		if done[i] {
			return
		}
		done[i] = true
		r := &pb.StoreResult{Id: jobs[i].m.GetId()}
		if err := rooms[i].result(r, reqs[i].Key, data, info, err); err != nil {
			r.Error = wire.ToDetail(err)
		}
		x.send(r)
	})
	if err == nil {
		err = ncerr.Errorf(ncerr.ErrInternal, "get", "", "a request of a batch was never answered")
	}
	var left []*storeJob
	for i, j := range jobs {
		if !done[i] {
			left = append(left, j)
		}
	}
	x.failAll(left, err)
}

// putMany performs writes.
func (x *storeExec) putMany(jobs []*storeJob) {
	m, release, err := x.d.use(jobs[0].m.GetHandle())
	if err != nil {
		x.failAll(jobs, err)
		return
	}
	defer release()
	var reqs []driver.PutRequest
	var able []*storeJob
	for _, j := range jobs {
		r, err := x.put(j)
		if err != nil {
			x.failAll([]*storeJob{j}, err)
			continue
		}
		reqs, able = append(reqs, r), append(able, j)
	}
	if len(able) == 0 {
		return
	}
	ctx, stop := together(x.ctx, able)
	defer stop()
	results := make([]*pb.StoreResult, len(able))
	m.putMany(ctx, reqs, func(i int, info driver.Info, err error) {
		results[i] = &pb.StoreResult{Id: able[i].m.GetId(), Info: wire.InfoToWire(info)}
		if err != nil {
			results[i].Info, results[i].Error = nil, wire.ToDetail(err)
		}
	})
	x.send(results...)
}

// requests makes the driver's requests; a range that cannot be fails its own.
func (x *storeExec) requests(jobs []*storeJob) ([]driver.GetRequest, []*roomFor) {
	reqs := make([]driver.GetRequest, len(jobs))
	rooms := make([]*roomFor, len(jobs))
	for i, j := range jobs {
		rooms[i] = &roomFor{x: x, j: j}
		reqs[i].Alloc = rooms[i].alloc
		var err error
		if reqs[i].Key, reqs[i].Opts, err = wire.GetFromWire(j.m.GetGet()); err != nil {
			reqs[i].Alloc = func(int64) ([]byte, error) { return nil, err }
		}
	}
	return reqs, rooms
}

// together gives one context for several jobs: it ends with the stream, or when those
// of all jobs have ended.
func together(ctx context.Context, jobs []*storeJob) (context.Context, context.CancelFunc) {
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
