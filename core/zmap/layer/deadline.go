package layer

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// deadline bounds the time of each call.
type deadline struct {
	driver.Map
	d time.Duration
}

// Deadline gives up each Get, Stat, Put, Delete and Flush that takes longer
// than d, and a listing that takes so long for one entry: a driver that never
// answers hangs nobody. The error is a Retryable ncerr.ErrIO, except that of a
// Put with a condition, whose outcome is then unknown: ncerr.ErrAmbiguous. The
// driver has to heed its context; one in a process of its own is given up in
// any case.
func Deadline(m driver.Map, d time.Duration) driver.Map {
	l := &deadline{Map: m, d: d}
	return with(l, m, func(many driver.GetManyer) getMany { return many.GetMany })
}

// errLate is the cause of a context that a deadline ended.
var errLate = errors.New("no answer in time")

// bound gives ctx with the deadline, and a function that ends it and tells
// what the error of the call is.
func (l *deadline) bound(ctx context.Context, kind ncerr.Kind) (context.Context, func(err error) error) {
	in, cancel := context.WithTimeoutCause(ctx, l.d, errLate)
	return in, func(err error) error {
		late := errors.Is(context.Cause(in), errLate)
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return err
		}
		e := ncerr.Errorf(kind, "", "", "no answer after %v", l.d)
		e.Retryable = kind == ncerr.ErrIO
		return e
	}
}

func (l *deadline) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	in, end := l.bound(ctx, ncerr.ErrIO)
	data, info, err := l.Map.Get(in, key, opts, alloc)
	return data, info, end(err)
}

func (l *deadline) Stat(ctx context.Context, key string) (driver.Info, error) {
	in, end := l.bound(ctx, ncerr.ErrIO)
	info, err := l.Map.Stat(in, key)
	return info, end(err)
}

func (l *deadline) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	kind := ncerr.ErrIO
	if opts.IfAbsent || opts.IfMatch != "" {
		kind = ncerr.ErrAmbiguous
	}
	in, end := l.bound(ctx, kind)
	info, err := l.Map.Put(in, key, body, opts)
	return info, end(err)
}

func (l *deadline) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	in, end := l.bound(ctx, ncerr.ErrIO)
	return end(l.Map.Delete(in, key, opts))
}

func (l *deadline) Flush(ctx context.Context) error {
	in, end := l.bound(ctx, ncerr.ErrIO)
	return end(l.Map.Flush(in))
}

func (l *deadline) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		in, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(l.d, func() { cancel(errLate) })
		defer timer.Stop()
		for e, err := range l.Map.List(in, prefix, opts) {
			timer.Stop()
			if err != nil && errors.Is(context.Cause(in), errLate) && ctx.Err() == nil {
				late := ncerr.Errorf(ncerr.ErrIO, "", "", "no entry after %v", l.d)
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
