package layer

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// RetryOptions are the options of [Retry]; nil means the defaults.
type RetryOptions struct {
	// Attempts is the largest number of tries of one call, the first included;
	// 0 is 5.
	Attempts int
	// Base is the longest wait before the second try; it doubles for each
	// further one. 0 is 100 ms.
	Base time.Duration
	// Max is the longest wait before any try, unless the server asks for a
	// longer one; 0 is 20 s.
	Max time.Duration
	// Budget is the longest time that one call may spend waiting; a wait that
	// would exceed it is not begun. 0 is one minute.
	Budget time.Duration
	// Sleep waits, or gives the context's error; nil really waits. For tests.
	Sleep func(ctx context.Context, d time.Duration) error
	// Random gives numbers from 0 up to but not including 1; nil is a good
	// source. It must be safe for concurrent use. For tests.
	Random func() float64
}

type retry struct {
	driver.Map
	o       RetryOptions
	ordered bool
}

// Retry repeats calls that failed with an error marked Retryable, if a
// repetition cannot do harm: Get, Stat, Delete, Put without a condition, and
// a listing that has given nothing yet, or is in order and so can be resumed.
// Conditional Puts, Flush and Close are never repeated. Before each repetition
// it waits a random time between nothing and a limit that doubles (full
// jitter), and at least as long as the server asked for. When attempts or
// budget are used up, the last error is given as it was.
//
// A Get that failed half way is read again from its beginning into the same
// memory; when the object has another length by then, that is
// ncerr.ErrConflict. After a GetMany, requests that failed are repeated one by
// one.
func Retry(m driver.Map, opts *RetryOptions) driver.Map {
	r := &retry{Map: m, ordered: m.Capabilities().OrderedList}
	if opts != nil {
		r.o = *opts
	}
	r.o.Attempts = orElse(r.o.Attempts, 5)
	r.o.Base = orElse(r.o.Base, 100*time.Millisecond)
	r.o.Max = orElse(r.o.Max, 20*time.Second)
	r.o.Budget = orElse(r.o.Budget, time.Minute)
	if r.o.Sleep == nil {
		r.o.Sleep = sleep
	}
	if r.o.Random == nil {
		r.o.Random = rand.Float64
	}
	return with(r, m, r.getMany)
}

func orElse[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause is the state of one call that may be repeated.
type pause struct {
	r     *retry
	tries int
	spent time.Duration
}

// again reports whether the call that failed with err is to be repeated, and
// has waited then.
func (p *pause) again(ctx context.Context, err error) bool {
	can, after := ncerr.Retry(err)
	p.tries++
	if !can || p.tries >= p.r.o.Attempts || ctx.Err() != nil {
		return false
	}
	ceiling := p.r.o.Max
	if shift := p.tries - 1; shift < 32 && p.r.o.Base <= ceiling>>shift {
		ceiling = p.r.o.Base << shift
	}
	wait := max(time.Duration(p.r.o.Random()*float64(ceiling)), after)
	if wait > p.r.o.Budget-p.spent {
		return false
	}
	p.spent += wait
	return p.r.o.Sleep(ctx, wait) == nil
}

// sameAgain gives each repetition the memory of the first try.
func sameAgain(alloc driver.Alloc) driver.Alloc {
	var mem []byte
	asked := false
	return func(n int64) ([]byte, error) {
		if asked {
			if n != int64(len(mem)) {
				return nil, ncerr.Errorf(ncerr.ErrConflict, "", "", "%d bytes at first, %d when read again", len(mem), n)
			}
			return mem, nil
		}
		p, err := alloc(n)
		if err == nil {
			mem, asked = p, true
		}
		return p, err
	}
}

func (r *retry) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	return r.get(ctx, pause{r: r}, key, opts, sameAgain(alloc))
}

func (r *retry) get(ctx context.Context, p pause, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	for {
		data, info, err := r.Map.Get(ctx, key, opts, alloc)
		if err == nil || !p.again(ctx, err) {
			return data, info, err
		}
	}
}

func (r *retry) Stat(ctx context.Context, key string) (driver.Info, error) {
	p := pause{r: r}
	for {
		info, err := r.Map.Stat(ctx, key)
		if err == nil || !p.again(ctx, err) {
			return info, err
		}
	}
}

func (r *retry) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	p := pause{r: r}
	for {
		info, err := r.Map.Put(ctx, key, body, opts)
		if err == nil || opts.IfAbsent || opts.IfMatch != "" || !p.again(ctx, err) {
			return info, err
		}
	}
}

func (r *retry) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	p := pause{r: r}
	for {
		err := r.Map.Delete(ctx, key, opts)
		if err == nil || !p.again(ctx, err) {
			return err
		}
	}
}

func (r *retry) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		p, given := pause{r: r}, false
		for {
			var failed error
			for e, err := range r.Map.List(ctx, prefix, &o) {
				if failed = err; err != nil {
					break
				}
				if !yield(e, nil) {
					return
				}
				given = true
				if r.ordered {
					o.StartAfter = e.Key
				}
			}
			if failed == nil {
				return
			}
			if given && !r.ordered || !p.again(ctx, failed) {
				yield(driver.Entry{}, failed)
				return
			}
		}
	}
}

// getMany holds back what may be repeated and does it one by one afterwards.
func (r *retry) getMany(many driver.GetManyer) getMany {
	return func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		mine := make([]driver.GetRequest, len(reqs))
		for i := range reqs {
			mine[i] = reqs[i]
			if reqs[i].Alloc != nil {
				mine[i].Alloc = sameAgain(reqs[i].Alloc)
			}
		}
		done, held := make([]bool, len(reqs)), make([]error, len(reqs))
		failed := many.GetMany(ctx, mine, func(i int, data []byte, info driver.Info, err error) {
			if can, _ := ncerr.Retry(err); can {
				held[i] = err
				return
			}
			done[i] = true
			sink(i, data, info, err)
		})
		for i := range mine {
			if done[i] {
				continue
			}
			if err := r.late(ctx, i, mine[i], held[i], failed, sink); err != nil {
				return err
			}
		}
		return nil
	}
}

// late repeats a request of a batch that failed with err, or was not done
// because the whole batch failed. Its error is for the call as a whole.
func (r *retry) late(ctx context.Context, i int, req driver.GetRequest, err, failed error, sink driver.GetSink) error {
	cause := err
	if cause == nil {
		cause = failed
	}
	p := pause{r: r}
	switch {
	case cause == nil: // never answered: the layers above will say so
		return nil
	case p.again(ctx, cause):
		if req.Alloc == nil {
			req.Alloc = driver.Heap
		}
		data, info, err := r.get(ctx, p, req.Key, &req.Opts, req.Alloc)
		sink(i, data, info, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		sink(i, nil, driver.Info{}, err)
	default:
		return failed
	}
	return nil
}
