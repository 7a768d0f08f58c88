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
	// Reserve is the number of repetitions that all calls together may make
	// beyond one for every five calls that went well: when a store fails as a
	// whole, calls end with their first error instead of knocking on and on. 0
	// is 100, negative is no limit.
	Reserve int
	// OnRetry, when not nil, is told of each repetition before its wait.
	OnRetry func(op, key string, err error, wait time.Duration)
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
	resumes bool // a Get can go on where it broke
	tokens  atomic.Int64
}

// A repetition costs retryCost tokens; a call that goes well gives one back.
const retryCost = 5

// Retry repeats calls that failed with an error marked Retryable, if a
// repetition cannot do harm: Get, Stat, Delete, Put without a condition, and
// a listing that has given nothing yet, or is in order and so can be resumed.
// Conditional Puts, Flush and Close are never repeated. Before each repetition
// it waits a random time between nothing and a limit that doubles (full
// jitter), and at least as long as the server asked for. When attempts or
// budget are used up, the last error is given as it was; a call whose context
// ends during a wait gives the context's.
//
// A Get that broke half way goes on from the byte where it broke, on condition
// that the object still has the same version. Without versions, or when the
// object has changed, it is read again from its beginning into the same memory;
// when it has another length by then, that is ncerr.ErrConflict. A try that
// brought at least 64 KiB does not count. After a GetMany, requests that failed
// are repeated one by one.
//
// The waits are computed here and not by a library: the whole of it is one
// shift and one random number, and what is worth having around it (the server's
// own wait, the budget, the reserve, resuming) no library has in this form.
func Retry(m driver.Map, opts *RetryOptions) driver.Map {
	caps := m.Capabilities()
	r := newRetry(opts)
	r.Map, r.ordered, r.resumes = m, caps.OrderedList, caps.Ranges && caps.IfMatch
	return with(r, m, r.getMany)
}

func newRetry(opts *RetryOptions) *retry {
	r := &retry{}
	if opts != nil {
		r.o = *opts
	}
	r.o.Attempts = orElse(r.o.Attempts, 5)
	r.o.Base = orElse(r.o.Base, 100*time.Millisecond)
	r.o.Max = orElse(r.o.Max, 20*time.Second)
	r.o.Budget = orElse(r.o.Budget, time.Minute)
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
	r       *retry
	op, key string
	tries   int
	spent   time.Duration
}

// well gives back what a call that went well is worth.
func (p *pause) well() {
	if n := p.r.tokens.Load(); n < int64(p.r.o.Reserve)*retryCost {
		p.r.tokens.Add(1)
	}
}

// again reports whether the call that failed with err is to be repeated, and
// has waited then. Where it would be but for the end of ctx, that is the error.
func (p *pause) again(ctx context.Context, err *error) bool {
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
	p := pause{r: r, op: "stat", key: key}
	for {
		info, err := r.Map.Stat(ctx, key)
		if err == nil {
			p.well()
		}
		if err == nil || !p.again(ctx, &err) {
			return info, err
		}
	}
}

func (r *retry) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	p := pause{r: r, op: "put", key: key}
	for {
		info, err := r.Map.Put(ctx, key, body, opts)
		if err == nil {
			p.well()
		}
		if err == nil || opts.IfAbsent || opts.IfMatch != "" || !p.again(ctx, &err) {
			return info, err
		}
	}
}

func (r *retry) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	p := pause{r: r, op: "delete", key: key}
	for {
		err := r.Map.Delete(ctx, key, opts)
		if err == nil {
			p.well()
		}
		if err == nil || !p.again(ctx, &err) {
			return err
		}
	}
}

func (r *retry) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		p, given := pause{r: r, op: "list", key: prefix}, false
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
				p.well()
				return
			}
			if given && !r.ordered || !p.again(ctx, &failed) {
				yield(driver.Entry{}, failed)
				return
			}
		}
	}
}
