package zmap

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// GetMany performs all requests, in any order and concurrently. It calls sink once per
// request, never concurrently. A request without Alloc is read into memory of the Map.
// The data passed to sink is valid only until sink returns. The errors passed to sink are
// the same as for [Map.Get]. The returned error is about the call as a whole: requests
// for which sink was not called were not performed.
func (z *Map) GetMany(ctx context.Context, reqs []GetRequest, sink GetSink) error {
	if err := z.enter(ctx, "get", ""); err != nil {
		return err
	}
	defer z.leave()
	if z.many != nil && z.direct(reqs) {
		return z.getManyDriver(ctx, reqs, sink)
	}
	var mu sync.Mutex
	return z.eachWorker(ctx, len(reqs), func() func(int) error {
		var own []byte // reused for each request of this worker
		grow := func(n int64) ([]byte, error) {
			if int64(cap(own)) < n {
				own = make([]byte, n)
			}
			return own[:n], nil
		}
		return func(i int) error {
			alloc := reqs[i].Alloc
			if alloc == nil {
				alloc = grow
			}
			data, info, err := z.get(ctx, reqs[i].Key, &reqs[i].Opts, alloc)
			mu.Lock()
			defer mu.Unlock()
			sink(i, data, info, err)
			return nil
		}
	})
}

// direct reports whether the driver can perform all requests unchanged. If the driver
// cannot compare versions, the Map compares them, as for Get.
func (z *Map) direct(reqs []GetRequest) bool {
	return z.caps.Ranges || !slices.ContainsFunc(reqs, func(r GetRequest) bool { return r.Opts.Range != nil })
}

// batch is the state of one GetMany of the driver. Batches are pooled like guards.
type batch struct {
	z     *Map
	ctx   context.Context //nolint:containedctx // the context has the lifetime of the call
	sink  GetSink
	fn    GetSink      // b.take, created once
	reqs  []GetRequest // requests passed to the driver
	guard []*guard     // one guard per element of reqs; nil once the request has a result
	index []int        // indices of reqs in the caller's requests

	mu   sync.Mutex
	over bool  // the driver has returned and must not call the sink
	fail bool  // a request failed, so the batch is not reused
	err  error // the first contract violation
}

func newBatch() *batch {
	b := &batch{}
	b.fn = b.take
	return b
}

// getManyDriver performs the requests with the driver's GetMany.
func (z *Map) getManyDriver(ctx context.Context, reqs []GetRequest, sink GetSink) error {
	b := z.batches.Get().(*batch) //nolint:forcetypeassert // the pool contains only *batch
	b.z, b.ctx, b.sink = z, ctx, sink
	for i := range reqs {
		r := &reqs[i]
		if err := z.checkGet(r.Key, &r.Opts); err != nil {
			sink(i, nil, Info{}, err)
			continue
		}
		g := z.guards.Get().(*guard) //nolint:forcetypeassert // the pool contains only *guard
		g.set(z, &r.Opts, r.Alloc)
		d := GetRequest{Key: r.Key, Opts: g.opts}
		if r.Alloc != nil {
			d.Alloc = g.fn
		}
		b.reqs, b.guard, b.index = append(b.reqs, d), append(b.guard, g), append(b.index, i)
	}
	if len(b.reqs) == 0 {
		return nil
	}
	err := z.many.GetMany(ctx, b.reqs, b.fn)
	return b.end(err)
}

// end returns the result of a GetMany for which the driver returned err. It returns the
// batch to the pool if everything succeeded.
func (b *batch) end(err error) error {
	b.mu.Lock()
	b.over = true
	missing := slices.IndexFunc(b.guard, func(g *guard) bool { return g != nil })
	breach, fail := b.err, b.fail
	b.mu.Unlock()
	switch {
	case err != nil:
		return b.z.wrap(b.ctx, "get", "", err)
	case breach != nil:
		return breach
	case missing >= 0:
		return b.z.internal("get", b.reqs[missing].Key, "returned no result for a request of a batch")
	}
	if !fail { // back to the pool; no goroutine holds the lock
		z := b.z
		clear(b.reqs)
		*b = batch{fn: b.fn, reqs: b.reqs[:0], guard: b.guard[:0], index: b.index[:0]}
		z.batches.Put(b)
	}
	return nil
}

// take is the sink passed to the driver.
func (b *batch) take(i int, data []byte, info Info, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return
	case i < 0 || i >= len(b.reqs):
		b.violation("", "returned a result for request %d of %d", i, len(b.reqs))
		return
	case b.guard[i] == nil:
		b.violation(b.reqs[i].Key, "returned two results for a request of a batch")
		return
	}
	g := b.guard[i]
	b.guard[i] = nil
	if b.reqs[i].Alloc == nil { // the driver's own memory: only the length can be checked
		g.mem, g.calls = data, 1
		if g.limit > 0 && int64(len(data)) > g.limit {
			g.err = ncerr.Errorf(ncerr.ErrLimit, "", "", "the result has %d bytes, more than the limit of %d", len(data), g.limit)
		}
	}
	data, info, err = g.finish(b.ctx, b.z, b.reqs[i].Key, data, info, err)
	b.sink(b.index[i], data, info, err)
	if err != nil {
		b.fail = true
		return
	}
	g.clear()
	b.z.guards.Put(g)
}

func (b *batch) violation(key, format string, args ...any) {
	if b.err == nil {
		b.err = b.z.internal("get", key, format, args...)
	}
}

// each calls f(0) to f(n-1), with concurrency suited to the store's latency. It returns
// the first error, after which it starts no more calls.
func (z *Map) each(ctx context.Context, n int, f func(i int) error) error {
	return z.eachWorker(ctx, n, func() func(int) error { return f })
}

// eachWorker is like each, but creates a function for every worker. It stops early with
// the context's error if ctx is done.
func (z *Map) eachWorker(ctx context.Context, n int, worker func() func(i int) error) error {
	workers := runtime.GOMAXPROCS(0)
	if z.caps.Latency == driver.Remote {
		workers = z.inFlight
	}
	workers = min(workers, n)
	var next atomic.Int64
	var failed atomic.Pointer[error]
	run := func() {
		f := worker()
		for failed.Load() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			err := ctx.Err()
			if err == nil {
				err = f(i)
			}
			if err != nil {
				failed.CompareAndSwap(nil, &err)
				return
			}
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(run)
	}
	func() {
		defer wg.Wait() // also if f panics, because the other workers use memory of the caller
		if workers > 0 {
			run()
		}
	}()
	if p := failed.Load(); p != nil {
		return *p
	}
	return nil
}
