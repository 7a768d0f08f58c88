package layer

import (
	"context"
	"iter"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// AdaptOptions holds the options of [Adapt]. Zero fields have the default value.
type AdaptOptions struct {
	Min   int // minimum number of concurrent calls; default 4
	Max   int // maximum number of concurrent calls; default 64
	Start int // initial number of concurrent calls; default 16
}

func (o AdaptOptions) withDefaults() AdaptOptions {
	if o.Max <= 0 {
		o.Max = 64
	}
	if o.Min <= 0 {
		o.Min = 4
	}
	if o.Start <= 0 {
		o.Start = 16
	}
	o.Min = min(o.Min, o.Max)
	o.Start = min(max(o.Start, o.Min), o.Max)
	return o
}

// limit is a Map whose calls pass through a gate.
type limit struct {
	driver.Map
	gate *gate
}

// Limit returns a Map that allows at most n concurrent calls; n is at least 1. Other
// calls wait in order of arrival, or until their context is done. A GetMany is one call,
// so its sink must not call the Map. A listing is counted only while it waits for its
// next entry.
func Limit(m driver.Map, n int) driver.Map {
	n = max(n, 1)
	return Adapt(m, AdaptOptions{Min: n, Max: n, Start: n})
}

// Adapt is like [Limit], with a number of concurrent calls between Min and Max that
// adapts to the store. The number grows as long as more concurrency does not delay
// responses. It decreases by a third if the store reports overload with a Retryable
// error.
func Adapt(m driver.Map, o AdaptOptions) driver.Map {
	o = o.withDefaults()
	l := &limit{Map: m, gate: &gate{o: o, limit: float64(o.Start)}}
	return withGetMany(l, m, func(many driver.GetManyer) getMany {
		return func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			if err := l.gate.enter(ctx); err != nil {
				return err
			}
			err := many.GetMany(ctx, reqs, sink)
			l.gate.leave(outcome(0, err))
			return err
		}
	})
}

// outcome returns the sample for a call whose response began after latency.
func outcome(latency time.Duration, err error) sample {
	if err == nil {
		return sample{latency: latency}
	}
	again, _ := ncerr.Retry(err)
	return sample{throttled: again}
}

func (l *limit) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) (data []byte, info driver.Info, err error) {
	if err := l.gate.enter(ctx); err != nil {
		return nil, driver.Info{}, err
	}
	start, first := time.Now(), time.Duration(0)
	defer func() { l.gate.leave(outcome(first, err)) }()
	return l.Map.Get(ctx, key, opts, func(n int64) ([]byte, error) {
		first = time.Since(start)
		return alloc(n)
	})
}

func (l *limit) Stat(ctx context.Context, key string) (info driver.Info, err error) {
	if err := l.gate.enter(ctx); err != nil {
		return driver.Info{}, err
	}
	start := time.Now()
	defer func() { l.gate.leave(outcome(time.Since(start), err)) }()
	return l.Map.Stat(ctx, key)
}

func (l *limit) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (info driver.Info, err error) {
	if err := l.gate.enter(ctx); err != nil {
		return driver.Info{}, err
	}
	start := time.Now()
	defer func() { l.gate.leave(outcome(time.Since(start), err)) }()
	return l.Map.Put(ctx, key, body, opts)
}

func (l *limit) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) (err error) {
	if err := l.gate.enter(ctx); err != nil {
		return err
	}
	defer func() { l.gate.leave(outcome(0, err)) }()
	return l.Map.Delete(ctx, key, opts)
}

func (l *limit) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := l.gate.enter(ctx); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		held := true
		defer func() {
			if held {
				l.gate.leave(sample{})
			}
		}()
		for e, err := range l.Map.List(ctx, prefix, opts) {
			l.gate.leave(outcome(0, err))
			held = false
			if !yield(e, err) || err != nil {
				return
			}
			if err := l.gate.enter(ctx); err != nil {
				yield(driver.Entry{}, err)
				return
			}
			held = true
		}
	}
}

func (l *limit) Flush(ctx context.Context) (err error) {
	if err := l.gate.enter(ctx); err != nil {
		return err
	}
	defer func() { l.gate.leave(outcome(0, err)) }()
	return l.Map.Flush(ctx)
}
