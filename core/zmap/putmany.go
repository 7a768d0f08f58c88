package zmap

import (
	"context"
	"slices"
	"sync"
)

// PutMany performs all requests, several at once, and calls sink once for each,
// from one goroutine at a time. Requests of one key are performed in their order;
// the others in any. Bodies must not change until PutMany returns, and sink must
// not call the Map. What sink gets is what Put returns: each request succeeds or
// fails by itself. The error of PutMany is for the call as a whole: after it,
// requests whose sink was not called have not been done, except that after the
// error of the context they may have been.
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

// distinct returns how many of the requests, from the first on, have keys that differ.
func distinct(reqs []PutRequest) int {
	seen := make(map[string]struct{}) // without a size: it would cost as much for each run of a key that comes again
	for i := range reqs {
		if seen[reqs[i].Key] = struct{}{}; len(seen) <= i {
			return i
		}
	}
	return len(reqs)
}

// putRun performs requests whose keys differ.
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

// putManyDriver uses the driver's own many-form.
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

// putBatch is one PutMany on its way through the driver.
type putBatch struct {
	z     *Map
	ctx   context.Context //nolint:containedctx // lives as long as the call
	sink  PutSink
	reqs  []PutRequest // for the driver
	index []int        // of reqs in what the caller gave

	mu   sync.Mutex
	done []bool // of reqs: answered
	over bool   // the driver has returned: it may not call any more
	err  error  // the first breach of contract
}

// take is the sink that the driver gets.
func (b *putBatch) take(i int, info Info, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
	case i < 0 || i >= len(b.reqs):
		b.breach("", "answered request %d of %d", i, len(b.reqs))
	case b.done[i]:
		b.breach(b.reqs[i].Key, "answered a request of a batch twice")
	default:
		b.done[i] = true
		info, err = b.z.stored(b.ctx, b.reqs[i].Key, b.reqs[i].Body, info, err)
		b.sink(b.index[i], info, err)
	}
}

// end judges the driver's PutMany, which returned err.
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
		return b.z.internal("put", b.reqs[missing].Key, "a request of a batch was never answered")
	}
	return nil
}

func (b *putBatch) breach(key, format string, args ...any) {
	if b.err == nil {
		b.err = b.z.internal("put", key, format, args...)
	}
}
