package layer

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// FaultMode is a kind of fault.
type FaultMode uint8

// The faults.
const (
	// Refuse fails without performing the call.
	Refuse FaultMode = iota
	// Lose performs the call and then fails, as if the response was lost. For a write
	// the error is ncerr.ErrAmbiguous. Stat, List and Flush fail as with Refuse.
	Lose
	// Tear performs half of the call and then fails. A Get delivers the first half of its
	// bytes, a Put stores the first half of its body, and a listing stops after its first
	// entry. Other calls fail as with Refuse.
	Tear
	// Drop reports success for a write or a Flush without performing it. Other calls
	// fail as with Refuse.
	Drop
)

// FaultOptions controls when and how [Fault] makes calls fail.
type FaultOptions struct {
	// At is the number of the first call that fails, counted from 1. 0 means never.
	At int64
	// For is the number of consecutive calls that fail. 0 means one; a negative value
	// means all calls from At on.
	For int64
	// Mode is the kind of fault.
	Mode FaultMode
	// Err is the error to return; nil means ncerr.ErrIO, or ncerr.ErrAmbiguous for a
	// write that was performed at least in part.
	Err error
	// Delay is the wait before every call. It ends early if the context is done.
	Delay time.Duration
}

type fault struct {
	driver.Map
	o    FaultOptions
	next atomic.Int64
}

// Fault returns a Map in which selected calls fail, for tests of the code above it. All
// calls except Capabilities and Close are counted. A GetMany is one call, and every
// fault in it acts like Refuse. The returned function returns the number of calls so
// far.
func Fault(m driver.Map, o FaultOptions) (driver.Map, func() int64) {
	f := &fault{Map: m, o: o}
	return withGetMany(f, m, func(many driver.GetManyer) getMany {
		return func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			if faulty, err := f.count(ctx); err != nil || faulty {
				return f.failure(err, false)
			}
			return many.GetMany(ctx, reqs, sink)
		}
	}), f.next.Load
}

// count registers a call and reports whether it fails.
func (f *fault) count(ctx context.Context) (bool, error) {
	n := f.next.Add(1)
	if f.o.Delay > 0 {
		if err := sleep(ctx, f.o.Delay); err != nil {
			return false, err
		}
	}
	last := f.o.At + max(f.o.For, 1) - 1
	return f.o.At > 0 && n >= f.o.At && (n <= last || f.o.For < 0), nil
}

// failure returns the error for a call: ctxErr, or the injected error.
func (f *fault) failure(ctxErr error, ambiguous bool) error {
	switch {
	case ctxErr != nil:
		return ctxErr
	case f.o.Err != nil:
		return f.o.Err
	case ambiguous:
		return ncerr.Errorf(ncerr.ErrAmbiguous, "", "", "injected fault: response lost")
	}
	return ncerr.Errorf(ncerr.ErrIO, "", "", "injected fault")
}

func (f *fault) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	faulty, err := f.count(ctx)
	if err != nil || faulty && (f.o.Mode == Refuse || f.o.Mode == Drop) {
		return nil, driver.Info{}, f.failure(err, false)
	}
	data, info, err := f.Map.Get(ctx, key, opts, alloc)
	if err != nil || !faulty {
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
	if faulty, err := f.count(ctx); err != nil || faulty {
		return driver.Info{}, f.failure(err, false)
	}
	return f.Map.Stat(ctx, key)
}

func (f *fault) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	faulty, err := f.count(ctx)
	switch {
	case err != nil:
		return driver.Info{}, err
	case !faulty:
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

// halfBody is the first half of a Body.
type halfBody struct{ driver.Body }

func (b halfBody) Size() int64 { return b.Body.Size() / 2 }

func (f *fault) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	faulty, err := f.count(ctx)
	switch {
	case err != nil:
		return err
	case !faulty:
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
		faulty, err := f.count(ctx)
		if err != nil || faulty && f.o.Mode != Tear {
			yield(driver.Entry{}, f.failure(err, false))
			return
		}
		for e, err := range f.Map.List(ctx, prefix, opts) {
			if !yield(e, err) {
				return
			}
			if faulty && err == nil {
				break
			}
		}
		if faulty {
			yield(driver.Entry{}, f.failure(nil, false))
		}
	}
}

func (f *fault) Flush(ctx context.Context) error {
	faulty, err := f.count(ctx)
	switch {
	case err != nil:
		return err
	case !faulty:
		return f.Map.Flush(ctx)
	case f.o.Mode == Drop:
		return nil
	}
	return f.failure(nil, false)
}
