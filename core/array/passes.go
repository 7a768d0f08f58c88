package array

import "sync"

// passes limits the memory for chunks of variable-length elements. The decoded size of
// such a chunk is unknown before decoding, and may be up to Limits.MaxChunk. To keep
// all workers together within the limit for one chunk, each chunk in progress has an
// equal share of it. Chunks that need more are deferred to another pass with fewer
// workers. The last pass processes chunks one by one.
type passes struct {
	room     int64   // maximum size of a chunk in this pass in bytes, stored or decoded; size if that is fixed
	chosen   []int64 // numbers of the chunks of this pass; nil means all of the plan
	mu       sync.Mutex
	deferred []int64 // numbers of the chunks that need more room
}

// nextPass prepares the next pass after one with n workers. It returns the number of
// workers of the next pass.
func (t *transfer) nextPass(n int) int {
	if t.batch == 1 {
		n /= 4 // keep both the number of passes and the chunks of the last pass small
	}
	t.batch, t.chosen, t.deferred = 1, t.deferred, nil
	t.next.Store(0)
	return max(1, min(n, len(t.chosen)))
}

// claim returns the next range of chunks for a worker. The range is empty if no chunks
// are left.
func (t *transfer) claim() (first, last int64) {
	k := t.next.Add(t.batch) - t.batch
	switch {
	case t.chosen == nil:
		return k, min(k+t.batch, t.plan.Len())
	case k < int64(len(t.chosen)):
		return t.chosen[k], t.chosen[k] + 1
	}
	return 0, 0
}

// postpone defers chunk i of the batch, which failed, to a pass with more room. It
// returns false if this is the last pass, so that the failure has another cause.
func (w *worker) postpone(i int) bool {
	t := w.t
	if t.room >= t.size {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deferred = append(t.deferred, w.first+int64(i))
	return true
}
