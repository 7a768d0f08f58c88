package layer

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// call describes a call that has ended.
type call struct {
	op    string
	key   string
	bytes int64 // bytes delivered or stored
	items int   // requests of a GetMany or PutMany, entries of a listing
	took  time.Duration
	first time.Duration // time until the response of a Get began; 0 if none began
	err   error
}

// observed is a Map that reports every call when it ends.
type observed struct {
	driver.Map
	report func(ctx context.Context, c call)
}

func observe(m driver.Map, report func(ctx context.Context, c call)) driver.Map {
	o := &observed{Map: m, report: report}
	l := withGetMany(o, m, func(many driver.GetManyer) getMany {
		return func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			start, bytes := time.Now(), int64(0)
			err := many.GetMany(ctx, reqs, func(i int, data []byte, info driver.Info, err error) {
				if err == nil {
					bytes += int64(len(data))
				}
				sink(i, data, info, err)
			})
			report(ctx, call{op: "get many", bytes: bytes, items: len(reqs), took: time.Since(start), err: err})
			return err
		}
	})
	return withPutMany(l, m, func(puts driver.PutManyer) putMany {
		return func(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
			start := time.Now()
			starts, timed := make([]time.Time, len(reqs)), slices.Clone(reqs)
			for i := range timed {
				starts[i] = start
				timed[i].OnStart = func() {
					starts[i] = time.Now()
					reqs[i].Start()
				}
			}
			err := puts.PutMany(ctx, timed, func(i int, info driver.Info, err error) {
				if i >= 0 && i < len(reqs) { // otherwise the layers above report the violation
					report(ctx, putCall(reqs[i].Key, reqs[i].Body, starts[i], err))
				}
				sink(i, info, err)
			})
			report(ctx, call{op: opPutMany, items: len(reqs), took: time.Since(start), err: err})
			return err
		}
	})
}

// opPutMany is the operation of the report about a whole PutMany, which follows the
// reports about its puts.
const opPutMany = "put many"

// putCall returns the report about a put that began at start.
func putCall(key string, body driver.Body, start time.Time, err error) call {
	c := call{op: "put", key: key, took: time.Since(start), err: err}
	if err == nil {
		c.bytes = body.Size()
	}
	return c
}

func (o *observed) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	start, first := time.Now(), time.Duration(0)
	data, info, err := o.Map.Get(ctx, key, opts, func(n int64) ([]byte, error) {
		first = max(time.Since(start), 1)
		return alloc(n)
	})
	o.report(ctx, call{op: "get", key: key, bytes: int64(len(data)), took: time.Since(start), first: first, err: err})
	return data, info, err
}

func (o *observed) Stat(ctx context.Context, key string) (driver.Info, error) {
	start := time.Now()
	info, err := o.Map.Stat(ctx, key)
	o.report(ctx, call{op: "stat", key: key, took: time.Since(start), err: err})
	return info, err
}

func (o *observed) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	start := time.Now()
	info, err := o.Map.Put(ctx, key, body, opts)
	o.report(ctx, putCall(key, body, start, err))
	return info, err
}

func (o *observed) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	start := time.Now()
	err := o.Map.Delete(ctx, key, opts)
	o.report(ctx, call{op: "delete", key: key, took: time.Since(start), err: err})
	return err
}

func (o *observed) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		c, start := call{op: "list", key: prefix}, time.Now()
		defer func() {
			c.took = time.Since(start)
			o.report(ctx, c)
		}()
		for e, err := range o.Map.List(ctx, prefix, opts) {
			if c.err = err; err == nil {
				c.items++
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (o *observed) Flush(ctx context.Context) error {
	start := time.Now()
	err := o.Map.Flush(ctx)
	o.report(ctx, call{op: "flush", took: time.Since(start), err: err})
	return err
}

func (o *observed) Close(ctx context.Context) error {
	start := time.Now()
	err := o.Map.Close(ctx)
	o.report(ctx, call{op: "close", took: time.Since(start), err: err})
	return err
}

// Log returns a Map that logs one record at level Debug for each call when it ends. The
// attributes are op, key, bytes, items, took and error; those that do not apply are
// omitted. A listing is logged when it ends, and took includes the time that its
// consumer spends on entries.
func Log(m driver.Map, logger *slog.Logger) driver.Map {
	return observe(m, func(ctx context.Context, c call) {
		if !logger.Enabled(ctx, slog.LevelDebug) {
			return
		}
		attrs := []slog.Attr{slog.String("op", c.op)}
		if c.key != "" {
			attrs = append(attrs, slog.String("key", c.key))
		}
		if c.bytes > 0 {
			attrs = append(attrs, slog.Int64("bytes", c.bytes))
		}
		if c.items > 0 {
			attrs = append(attrs, slog.Int("items", c.items))
		}
		attrs = append(attrs, slog.Duration("took", c.took))
		if c.err != nil {
			attrs = append(attrs, slog.String("error", c.err.Error()))
		}
		logger.LogAttrs(ctx, slog.LevelDebug, "zmap", attrs...)
	})
}

// Counts counts the calls to a Map. It is safe for concurrent use.
type Counts struct {
	Get, GetMany, Stat, Put, Delete, List, Flush atomic.Int64 // calls; Put also counts the writes of a PutMany
	PutMany                                      atomic.Int64 // calls
	Items                                        atomic.Int64 // requests of GetMany and entries of listings
	Failed                                       atomic.Int64 // calls that failed
	BytesRead, BytesWritten                      atomic.Int64 // content of successful calls
}

// Calls returns the number of all calls. Each write of a PutMany counts as a call.
func (n *Counts) Calls() int64 {
	return n.Get.Load() + n.GetMany.Load() + n.Stat.Load() + n.Put.Load() + n.Delete.Load() + n.List.Load() + n.Flush.Load()
}

// Count returns a Map that counts the calls to m and their bytes. It also returns the
// counters.
func Count(m driver.Map) (driver.Map, *Counts) {
	n := &Counts{}
	return observe(m, func(_ context.Context, c call) {
		if c.op != opPutMany {
			n.Items.Add(int64(c.items))
		}
		if c.err != nil {
			n.Failed.Add(1)
			c.bytes = 0
		}
		switch c.op {
		case "get":
			n.Get.Add(1)
			n.BytesRead.Add(c.bytes)
		case "get many":
			n.GetMany.Add(1)
			n.BytesRead.Add(c.bytes)
		case "stat":
			n.Stat.Add(1)
		case "put":
			n.Put.Add(1)
			n.BytesWritten.Add(c.bytes)
		case opPutMany:
			n.PutMany.Add(1)
		case "delete":
			n.Delete.Add(1)
		case "list":
			n.List.Add(1)
		case "flush":
			n.Flush.Add(1)
		}
	}), n
}
