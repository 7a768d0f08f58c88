package layer

import (
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// RemoteOptions are the options of [Remote]; zero members take the defaults.
type RemoteOptions struct {
	// Retry says how failed calls are repeated.
	Retry RetryOptions
	// InFlight bounds the number of calls at once, which begins with half of
	// it and then follows the store; 0 is 64.
	InFlight int
	// CallTimeout is the longest time of one try of one call, content having
	// the time of its length besides: see [Deadline]; 0 is 5 minutes. Drivers
	// have shorter times for a connection on which nothing moves.
	CallTimeout time.Duration
	// Cache, when not nil, keeps what was read on the local disk.
	Cache *CacheOptions
}

// Remote puts the layers around a Map whose store takes tens of milliseconds
// to answer: from the inside a deadline for each try, a number of tries at
// once that follows the store, repetition, and the cache. A fast path for many
// reads is hidden, so that each read is counted, limited and repeated by
// itself; the portable Map makes them at once.
func Remote(m driver.Map, o RemoteOptions) (driver.Map, error) {
	m = Deadline(single{m}, orElse(o.CallTimeout, 5*time.Minute))
	n := o.InFlight
	if n <= 0 {
		n = 64
	}
	m = Adapt(m, AdaptOptions{Max: n, Start: (n + 1) / 2})
	m = Retry(m, &o.Retry)
	if o.Cache == nil {
		return m, nil
	}
	return Cache(m, *o.Cache)
}

// single hides the fast path for many reads.
type single struct{ driver.Map }
