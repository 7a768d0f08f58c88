package layer

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// deadline is a Map that limits the time of each call.
type deadline struct {
	driver.Map
	d time.Duration
}

// Deadline returns a Map that abandons each Get, Stat, Put, Delete and Flush that takes
// longer than d, and each listing that takes longer than d to return its next entry. A
// call with content has additional time to transfer it (see driver.TransferTime): for a
// Put this time is added at the start; for a Get the call to alloc restarts the timer with
// d plus this time. The error is a Retryable ncerr.ErrIO, or ncerr.ErrAmbiguous for a
// conditional Put, whose outcome is unknown. Calls therefore return even if the driver never
// responds, provided that it observes its context or runs in its own process.
func Deadline(m driver.Map, d time.Duration) driver.Map {
	l := &deadline{Map: m, d: d}
	return withGetMany(l, m, func(many driver.GetManyer) getMany { return many.GetMany })
}

// errDeadline is the cause of a context that was canceled at a deadline.
var errDeadline = errors.New("no response in time")

// timed is the state of one call with a deadline.
type timed struct {
	ctx   context.Context //nolint:containedctx // the context has the lifetime of the call
	outer context.Context //nolint:containedctx // the caller's context has the lifetime of the call
	end   context.CancelCauseFunc
	timer *time.Timer
	d     time.Duration
	kind  ncerr.Kind // kind of the error after the deadline
}

// begin starts the timer of a call that sends n bytes of content.
func (l *deadline) begin(ctx context.Context, n int64, kind ncerr.Kind) *timed {
	c := &timed{outer: ctx, d: l.d + driver.TransferTime(n), kind: kind}
	c.ctx, c.end = context.WithCancelCause(ctx)
	c.timer = time.AfterFunc(c.d, func() { c.end(errDeadline) })
	return c
}

// done stops the timer and returns the error for the call.
func (c *timed) done(err error) error {
	c.timer.Stop()
	late := errors.Is(context.Cause(c.ctx), errDeadline)
	c.end(nil)
	if err == nil || !late || c.outer.Err() != nil {
		return err
	}
	e := ncerr.Errorf(c.kind, "", "", "no response after %v", c.d)
	e.Retryable = c.kind == ncerr.ErrIO
	return e
}

func (l *deadline) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	c := l.begin(ctx, 0, ncerr.ErrIO)
	data, info, err := l.Map.Get(c.ctx, key, opts, func(n int64) ([]byte, error) {
		c.d = l.d + driver.TransferTime(n)
		c.timer.Reset(c.d)
		return alloc(n)
	})
	return data, info, c.done(err)
}

func (l *deadline) Stat(ctx context.Context, key string) (driver.Info, error) {
	c := l.begin(ctx, 0, ncerr.ErrIO)
	info, err := l.Map.Stat(c.ctx, key)
	return info, c.done(err)
}

func (l *deadline) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	kind := ncerr.ErrIO
	if opts.IfAbsent || opts.IfMatch != "" {
		kind = ncerr.ErrAmbiguous
	}
	c := l.begin(ctx, body.Size(), kind)
	info, err := l.Map.Put(c.ctx, key, body, opts)
	return info, c.done(err)
}

func (l *deadline) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	c := l.begin(ctx, 0, ncerr.ErrIO)
	return c.done(l.Map.Delete(c.ctx, key, opts))
}

func (l *deadline) Flush(ctx context.Context) error {
	c := l.begin(ctx, 0, ncerr.ErrIO)
	return c.done(l.Map.Flush(c.ctx))
}

func (l *deadline) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		in, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(l.d, func() { cancel(errDeadline) })
		defer timer.Stop()
		for e, err := range l.Map.List(in, prefix, opts) {
			timer.Stop()
			if err != nil && errors.Is(context.Cause(in), errDeadline) && ctx.Err() == nil {
				late := ncerr.Errorf(ncerr.ErrIO, "", "", "the listing returned no entry within %v", l.d)
				late.Retryable = true
				e, err = driver.Entry{}, late
			}
			if !yield(e, err) || err != nil {
				return
			}
			timer.Reset(l.d)
		}
	}
}
