package layer

import (
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// RemoteOptions holds the options of [Remote]. Zero fields have the default value.
type RemoteOptions struct {
	// Retry configures the retries of failed calls.
	Retry RetryOptions
	// InFlight is the maximum number of concurrent calls. The limit starts at half of
	// InFlight and then adapts to the store. 0 means 64.
	InFlight int
	// CallTimeout is the maximum time of one attempt, excluding the time allowed for
	// content; see [Deadline]. 0 means 5 minutes. Drivers close stalled connections
	// earlier.
	CallTimeout time.Duration
	// Cache, if not nil, configures a cache on the local disk.
	Cache *CacheOptions
}

// Remote configures access to a high-latency store. From the inside out it adds a
// deadline per attempt, an adaptive limit on concurrent calls, retries and the disk
// cache. It removes the GetMany of m, so that each read is counted, limited and retried
// separately. The portable Map makes the reads concurrently.
func Remote(m driver.Map, o RemoteOptions) (driver.Map, error) {
	m = Deadline(withoutMany{m}, orDefault(o.CallTimeout, 5*time.Minute))
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

// withoutMany is a Map without GetMany and PutMany.
type withoutMany struct{ driver.Map }
