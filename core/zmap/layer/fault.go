package layer

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// FaultMode says what goes wrong.
type FaultMode uint8

// The faults.
const (
	// Refuse fails without doing anything.
	Refuse FaultMode = iota
	// Lose does the call and then fails, as when an answer is lost; for a
	// write the error is ncerr.ErrAmbiguous.
	Lose
	// Tear does half of the call and then fails: a Get delivers the first half
	// of its bytes, a Put stores the first half of its body, a listing stops
	// after its first entry. Other calls are refused.
	Tear
	// Drop reports success for a write without doing it. Other calls are
	// refused.
	Drop
)

// FaultOptions say when and how [Fault] strikes.
type FaultOptions struct {
	// At is the number of the first call that goes wrong, counted from 1; 0
	// is never.
	At int64
	// For is how many calls in a row go wrong; 0 is one, negative all from At
	// on.
	For int64
	// Mode is what goes wrong.
	Mode FaultMode
	// Err is the error to give; nil is a ncerr.ErrIO.
	Err error
	// Delay is a wait before every call, which ends with the context.
	Delay time.Duration
}

type fault struct {
	driver.Map
	o    FaultOptions
	next atomic.Int64
}

// Fault makes chosen calls go wrong, for tests of what stands above. All
// calls but Capabilities and Close count; a GetMany counts as one and is never
// torn. The returned function gives the number of calls so far.
func Fault(m driver.Map, o FaultOptions) (driver.Map, func() int64) {
	f := &fault{Map: m, o: o}
	return with(f, m, func(many driver.GetManyer) getMany {
		return func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			if strike, err := f.strike(ctx); err != nil || strike {
				return f.failure(err, false)
			}
			return many.GetMany(ctx, reqs, sink)
		}
	}), f.next.Load
}

// strike counts a call and says whether it goes wrong.
func (f *fault) strike(ctx context.Context) (bool, error) {
	n := f.next.Add(1)
	if f.o.Delay > 0 {
		if err := sleep(ctx, f.o.Delay); err != nil {
			return false, err
		}
	}
	last := f.o.At + max(f.o.For, 1) - 1
	return f.o.At > 0 && n >= f.o.At && (n <= last || f.o.For < 0), nil
}

// failure gives the error of a call: ctxErr, or that of the fault.
func (f *fault) failure(ctxErr error, ambiguous bool) error {
	switch {
	case ctxErr != nil:
		return ctxErr
	case f.o.Err != nil:
		return f.o.Err
	case ambiguous:
		return ncerr.Errorf(ncerr.ErrAmbiguous, "", "", "injected fault: the answer is lost")
	}
	return ncerr.Errorf(ncerr.ErrIO, "", "", "injected fault")
}

func (f *fault) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	strike, err := f.strike(ctx)
	if err != nil || strike && (f.o.Mode == Refuse || f.o.Mode == Drop) {
		return nil, driver.Info{}, f.failure(err, false)
	}
	data, info, err := f.Map.Get(ctx, key, opts, alloc)
	if err != nil || !strike {
		return data, info, err
	}
	half := data[:len(data)/2]
	clear(data[len(half):])
	if f.o.Mode == Lose {
		half = nil
	}
	return half, info, f.failure(nil, false)
}

func (f *fault) Stat(ctx context.Context, key string) (driver.Info, error) {
	if strike, err := f.strike(ctx); err != nil || strike {
		return driver.Info{}, f.failure(err, false)
	}
	return f.Map.Stat(ctx, key)
}

func (f *fault) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	strike, err := f.strike(ctx)
	switch {
	case err != nil:
		return driver.Info{}, err
	case !strike:
		return f.Map.Put(ctx, key, body, opts)
	case f.o.Mode == Drop:
		return driver.Info{Size: body.Size()}, nil
	case f.o.Mode == Refuse:
		return driver.Info{}, f.failure(nil, false)
	case f.o.Mode == Tear:
		body = halfBody{body}
	}
	if _, err := f.Map.Put(ctx, key, body, opts); err != nil {
		return driver.Info{}, err
	}
	return driver.Info{}, f.failure(nil, true)
}

// halfBody is the first half of a body.
type halfBody struct{ driver.Body }

func (b halfBody) Size() int64 { return b.Body.Size() / 2 }

func (f *fault) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	strike, err := f.strike(ctx)
	switch {
	case err != nil:
		return err
	case !strike:
		return f.Map.Delete(ctx, key, opts)
	case f.o.Mode == Drop:
		return nil
	case f.o.Mode == Lose:
		if err := f.Map.Delete(ctx, key, opts); err != nil {
			return err
		}
		return f.failure(nil, true)
	}
	return f.failure(nil, false)
}

func (f *fault) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		strike, err := f.strike(ctx)
		if err != nil || strike && f.o.Mode != Tear {
			yield(driver.Entry{}, f.failure(err, false))
			return
		}
		for e, err := range f.Map.List(ctx, prefix, opts) {
			if !yield(e, err) {
				return
			}
			if strike && err == nil {
				break
			}
		}
		if strike {
			yield(driver.Entry{}, f.failure(nil, false))
		}
	}
}

func (f *fault) Flush(ctx context.Context) error {
	strike, err := f.strike(ctx)
	switch {
	case err != nil:
		return err
	case !strike:
		return f.Map.Flush(ctx)
	case f.o.Mode == Drop:
		return nil
	}
	return f.failure(nil, false)
}
