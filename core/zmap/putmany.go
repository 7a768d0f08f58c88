package zmap

import (
	"context"
	"slices"
	"sync"
)

// PutMany performs all requests concurrently. It calls sink once per request, never
// concurrently. Requests for the same key are performed in order, all others in any
// order. Bodies must not change until PutMany returns, and sink must not call the Map.
// Each request has the same result as a [Map.Put], independent of the others. The
// returned error is about the call as a whole: requests for which sink was not called
// were not performed, but after a context error they may have been performed.
func (z *Map) PutMany(ctx context.Context, reqs []PutRequest, sink PutSink) error {
	if err := z.enter(ctx, "put", ""); err != nil {
		return err
	}
	defer z.leave()
	for first := 0; first < len(reqs); {
		n := distinct(reqs[first:])
		err := z.putRun(ctx, reqs[first:first+n], func(i int, info Info, err error) { sink(first+i, info, err) })
		if err != nil {
			return err
		}
		first += n
	}
	return nil
}

// distinct returns the length of the longest prefix of reqs in which all keys differ.
func distinct(reqs []PutRequest) int {
	seen := make(map[string]struct{}) // no size hint, which would be costly for many short runs
	for i := range reqs {
		if seen[reqs[i].Key] = struct{}{}; len(seen) <= i {
			return i
		}
	}
	return len(reqs)
}

// putRun performs requests with distinct keys.
func (z *Map) putRun(ctx context.Context, reqs []PutRequest, sink PutSink) error {
	if z.puts != nil {
		return z.putManyDriver(ctx, reqs, sink)
	}
	var mu sync.Mutex
	return z.each(ctx, len(reqs), func(i int) error {
		info, err := z.put(ctx, reqs[i].Key, reqs[i].Body, reqs[i].Opts)
		mu.Lock()
		defer mu.Unlock()
		sink(i, info, err)
		return nil
	})
}

// putManyDriver performs the requests with the driver's PutMany.
func (z *Map) putManyDriver(ctx context.Context, reqs []PutRequest, sink PutSink) error {
	b := &putBatch{z: z, ctx: ctx, sink: sink}
	for i := range reqs {
		r := &reqs[i]
		if err := z.checkPut(r.Key, r.Body, &r.Opts); err != nil {
			sink(i, Info{}, err)
			continue
		}
		b.reqs, b.index = append(b.reqs, *r), append(b.index, i)
	}
	if len(b.reqs) == 0 {
		return nil
	}
	b.done = make([]bool, len(b.reqs))
	return b.end(z.puts.PutMany(ctx, b.reqs, b.take))
}

// putBatch is the state of one call of the driver's PutMany.
type putBatch struct {
	z     *Map
	ctx   context.Context //nolint:containedctx // the context has the lifetime of the call
	sink  PutSink
	reqs  []PutRequest // requests passed to the driver
	index []int        // indices of reqs in the caller's requests

	mu   sync.Mutex
	done []bool // reports, for each element of reqs, whether it has a result
	over bool   // the driver has returned and must not call the sink
	err  error  // the first contract violation
}

// take is the sink passed to the driver.
func (b *putBatch) take(i int, info Info, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
	case i < 0 || i >= len(b.reqs):
		b.violation("", "returned a result for request %d of %d", i, len(b.reqs))
	case b.done[i]:
		b.violation(b.reqs[i].Key, "returned two results for a request of a batch")
	default:
		b.done[i] = true
		info, err = b.z.stored(b.ctx, b.reqs[i].Key, b.reqs[i].Body, info, err)
		b.sink(b.index[i], info, err)
	}
}

// end returns the result of a PutMany for which the driver returned err.
func (b *putBatch) end(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	missing := slices.Index(b.done, false)
	switch {
	case err != nil:
		return b.z.wrap(b.ctx, "put", "", err)
	case b.err != nil:
		return b.err
	case missing >= 0:
		return b.z.internal("put", b.reqs[missing].Key, "returned no result for a request of a batch")
	}
	return nil
}

func (b *putBatch) violation(key, format string, args ...any) {
	if b.err == nil {
		b.err = b.z.internal("put", key, format, args...)
	}
}
