package layer

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// RetryOptions holds the options of [Retry].
type RetryOptions struct {
	// Attempts is the maximum number of attempts per call, including the first. 0 means
	// 5.
	Attempts int
	// Base is the maximum wait before the second attempt. It doubles for each further
	// attempt. 0 means 100 ms.
	Base time.Duration
	// Max is the maximum wait before any attempt, unless the server requested a longer
	// wait. 0 means 20 s.
	Max time.Duration
	// Budget is the maximum total wait of one call. If the next wait would exceed it, the
	// call fails. 0 means one minute.
	Budget time.Duration
	// Reserve is the number of retries available to all calls together, in addition to
	// one retry per five successful calls. If all calls to a store fail, the reserve is
	// used up, and calls then return their first error. 0 means 100; a negative value
	// means no limit.
	Reserve int
	// OnRetry, if not nil, is called for each retry before its wait.
	OnRetry func(op, key string, err error, wait time.Duration)
	// Sleep waits for d, or returns the context's error. nil means a real wait. Tests
	// set it.
	Sleep func(ctx context.Context, d time.Duration) error
	// Random returns random numbers in [0, 1). It must be safe for concurrent use. nil
	// means math/rand/v2. Tests set it.
	Random func() float64
}

type retry struct {
	driver.Map
	o       RetryOptions
	ordered bool
	resumes bool // a Get can resume an interrupted read
	tokens  atomic.Int64
}

// retryCost is the number of tokens that a retry uses. A successful call adds one token.
const retryCost = 5

// Retry returns a Map that retries calls that failed with a Retryable error, if a retry
// is harmless. The retried calls are Get, Stat, Delete, Put without a condition, and a
// listing that has not yielded an entry yet or is ordered and can be resumed.
// Conditional Puts, Flush and Close are never retried. The Map waits before each retry,
// for a random time below a limit that doubles (full jitter), but at least for the time
// that the server requested. If the attempts or the budget are used up, it returns the
// last error unchanged. If the context is done during a wait, it returns the context's
// error. A nil opts means the defaults.
//
// A Get that was interrupted resumes at the byte where it stopped, if the object still
// has the same version. If the object has no version or has changed, the Get starts
// again with the same memory, and fails with ncerr.ErrConflict if the length of the
// object differs. An attempt that delivered at least 64 KiB is not counted. After a
// GetMany, the failed requests are retried one by one.
//
// The backoff is implemented here because no library combines it with the wait requested
// by the server, the budget, the reserve and resumed reads.
func Retry(m driver.Map, opts *RetryOptions) driver.Map {
	caps := m.Capabilities()
	r := newRetry(opts)
	r.Map, r.ordered, r.resumes = m, caps.OrderedList, caps.Ranges && caps.IfMatch
	return withGetMany(r, m, r.getMany)
}

func newRetry(opts *RetryOptions) *retry {
	r := &retry{}
	if opts != nil {
		r.o = *opts
	}
	r.o.Attempts = orDefault(r.o.Attempts, 5)
	r.o.Base = orDefault(r.o.Base, 100*time.Millisecond)
	r.o.Max = orDefault(r.o.Max, 20*time.Second)
	r.o.Budget = orDefault(r.o.Budget, time.Minute)
	if r.o.Reserve == 0 {
		r.o.Reserve = 100
	}
	r.tokens.Store(int64(r.o.Reserve) * retryCost)
	if r.o.Sleep == nil {
		r.o.Sleep = sleep
	}
	if r.o.Random == nil {
		r.o.Random = rand.Float64
	}
	return r
}

func orDefault[T int | time.Duration](v, def T) T {
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

// callState is the state of one call that may be retried.
type callState struct {
	r       *retry
	op, key string
	tries   int
	spent   time.Duration
}

// succeeded adds one token for a successful call, up to the size of the reserve.
func (p *callState) succeeded() {
	if n := p.r.tokens.Load(); n < int64(p.r.o.Reserve)*retryCost {
		p.r.tokens.Add(1)
	}
}

// waitRetry reports whether to retry the call that failed with *err, and waits before it
// returns true. If ctx is done, it sets *err to the context's error.
func (p *callState) waitRetry(ctx context.Context, err *error) bool {
	can, after := ncerr.Retry(*err)
	p.tries++
	if !can || p.tries >= p.r.o.Attempts {
		return false
	}
	if own := ctx.Err(); own != nil {
		*err = own
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
	if p.r.o.Reserve > 0 && p.r.tokens.Add(-retryCost) < 0 {
		p.r.tokens.Add(retryCost)
		return false
	}
	p.spent += wait
	if p.r.o.OnRetry != nil {
		p.r.o.OnRetry(p.op, p.key, *err, wait)
	}
	if own := p.r.o.Sleep(ctx, wait); own != nil {
		*err = own
		return false
	}
	return true
}

func (r *retry) Stat(ctx context.Context, key string) (driver.Info, error) {
	p := callState{r: r, op: "stat", key: key}
	for {
		info, err := r.Map.Stat(ctx, key)
		if err == nil {
			p.succeeded()
		}
		if err == nil || !p.waitRetry(ctx, &err) {
			return info, err
		}
	}
}

func (r *retry) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	p := callState{r: r, op: "put", key: key}
	for {
		info, err := r.Map.Put(ctx, key, body, opts)
		if err == nil {
			p.succeeded()
		}
		if err == nil || opts.IfAbsent || opts.IfMatch != "" || !p.waitRetry(ctx, &err) {
			return info, err
		}
	}
}

func (r *retry) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	p := callState{r: r, op: "delete", key: key}
	for {
		err := r.Map.Delete(ctx, key, opts)
		if err == nil {
			p.succeeded()
		}
		if err == nil || !p.waitRetry(ctx, &err) {
			return err
		}
	}
}

func (r *retry) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		p, yielded := callState{r: r, op: "list", key: prefix}, false
		for {
			var failed error
			for e, err := range r.Map.List(ctx, prefix, &o) {
				if failed = err; err != nil {
					break
				}
				if !yield(e, nil) {
					return
				}
				yielded = true
				if r.ordered {
					o.StartAfter = e.Key
				}
			}
			if failed == nil {
				p.succeeded()
				return
			}
			if yielded && !r.ordered || !p.waitRetry(ctx, &failed) {
				yield(driver.Entry{}, failed)
				return
			}
		}
	}
}
