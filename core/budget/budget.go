// Package budget limits the memory of concurrent calls.
//
// A [Budget] is a number of bytes that the datasets of a program share. A call acquires the
// memory that it needs once, before it starts, and releases it at its end:
//
//	n, err := b.Acquire(ctx, least, want)
//	if err != nil {
//		return err
//	}
//	defer b.Release(n)
//
// A call that holds memory does not acquire more, so that calls cannot wait for each other.
// It passes a part of what it holds to the calls that it makes itself: see [Budget.Part] and
// [With].
//
// core/array, core/dataset and core/cdl take their memory from a Budget.
package budget

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Budget is an amount of memory. Calls may use five eighths of it. One eighth is for the
// caches of decoded chunks and one for the buffers of writes, which datasets keep between
// calls. One is for the metadata documents of a dataset that is being opened. A nil Budget
// has no limit. A Budget is safe for concurrent use.
type Budget struct {
	size   int64 // of the whole budget, in bytes
	calls  int64 // of the part for calls
	result int64
	cache  Share
	buffer Share

	mu      sync.Mutex
	used    int64
	waiting []*waiter // in the order of their calls to Acquire
}

// waiter is a call that waits for memory.
type waiter struct {
	least, want int64
	ready       chan int64 // receives the number of bytes; has room for it
}

// New returns a Budget of size bytes, which must be positive.
func New(size int64) *Budget {
	b := &Budget{size: size, calls: size - size/shares*3, result: size}
	b.cache.most, b.buffer.most = size/shares, size/shares
	return b
}

// shares is the number of parts of a Budget of which a [Share] is one.
const shares = 8

// Size returns the size of the whole budget in bytes, and math.MaxInt64 for a nil Budget. A
// part has the size of the Budget that it belongs to.
func (b *Budget) Size() int64 {
	if b == nil {
		return math.MaxInt64
	}
	return b.size
}

// ForCalls returns the maximum number of bytes that one call can acquire.
func (b *Budget) ForCalls() int64 {
	if b == nil {
		return math.MaxInt64
	}
	return b.calls
}

// MaxResult returns the maximum size in bytes of a result whose size is known only after
// the call, such as strings of variable length. The caller of a call owns its result, so
// that it is not part of what the call acquires.
func (b *Budget) MaxResult() int64 {
	if b == nil {
		return math.MaxInt64
	}
	return b.result
}

// Acquire waits until least bytes are free and all earlier callers have been served. It
// returns the number of bytes acquired: want, or less if less is free, but at least least.
// The caller passes this number to Release. A want below least means least.
//
// The error is ncerr.ErrLimit if least exceeds what a call can acquire, or that of ctx if it
// ends before the memory is free.
func (b *Budget) Acquire(ctx context.Context, least, want int64) (int64, error) {
	want = max(least, want)
	if b == nil {
		return want, nil
	}
	if least > b.calls {
		return 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "%d bytes of memory are necessary, but the memory limit of %d bytes leaves %d for it", least, b.size, b.calls)
	}
	b.mu.Lock()
	if free := b.calls - b.used; len(b.waiting) == 0 && free >= least {
		n := min(want, free)
		b.used += n
		b.mu.Unlock()
		return n, nil
	}
	w := &waiter{least, want, make(chan int64, 1)}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case n := <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.used -= <-w.ready
	}
	b.serve()
	return 0, ctx.Err()
}

// Release returns n bytes that Acquire has returned.
func (b *Budget) Release(n int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.serve()
}

// serve passes free memory to the first waiters. The caller holds the mutex.
func (b *Budget) serve() {
	for len(b.waiting) > 0 && b.calls-b.used >= b.waiting[0].least {
		w := b.waiting[0]
		b.waiting = slices.Delete(b.waiting, 0, 1)
		n := min(w.want, b.calls-b.used)
		b.used += n
		w.ready <- n
	}
}

// Part returns a Budget for the calls that a caller makes while it holds memory of b: n
// bytes of what it has acquired. result is the MaxResult of these calls, which the caller
// has acquired too. Calls can use all of a part.
func (b *Budget) Part(n, result int64) *Budget {
	return &Budget{size: b.Size(), calls: n, result: result}
}

// partKey is the key of a part in a context.
type partKey struct{}

// With returns a context in which calls take their memory from part.
func With(ctx context.Context, part *Budget) context.Context {
	return context.WithValue(ctx, partKey{}, part)
}

// From returns the Budget that was passed to With, or b if there was no such call.
func From(ctx context.Context, b *Budget) *Budget {
	if part, ok := ctx.Value(partKey{}).(*Budget); ok {
		return part
	}
	return b
}

// Share limits memory of one kind that is kept between calls. It is a part of a Budget, or
// belongs to none (see [NewShare]). The owners of the memory keep it below the limit: before
// they add to it, they free some of their own until enough is free. A nil Share has no limit.
// A Share is safe for concurrent use.
type Share struct {
	most int64
	used atomic.Int64
}

// NewShare returns a Share of most bytes that belongs to no Budget.
func NewShare(most int64) *Share { return &Share{most: most} }

// Documents returns the maximum size in bytes of the metadata documents of one dataset.
func (b *Budget) Documents() int64 {
	if b == nil {
		return math.MaxInt64
	}
	return b.size / shares
}

// Cache returns the share of chunk caches.
func (b *Budget) Cache() *Share {
	if b == nil {
		return nil
	}
	return &b.cache
}

// Buffer returns the share of write buffers.
func (b *Budget) Buffer() *Share {
	if b == nil {
		return nil
	}
	return &b.buffer
}

// Size returns the size of the share in bytes, and math.MaxInt64 for a nil Share.
func (s *Share) Size() int64 {
	if s == nil {
		return math.MaxInt64
	}
	return s.most
}

// Free returns the number of free bytes, which is negative if the owners use too much, and
// math.MaxInt64 for a nil Share.
func (s *Share) Free() int64 {
	if s == nil {
		return math.MaxInt64
	}
	return s.most - s.used.Load()
}

// Add records that n more bytes are in use, or fewer if n is negative.
func (s *Share) Add(n int64) {
	if s != nil {
		s.used.Add(n)
	}
}
