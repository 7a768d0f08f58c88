package array

import "sync"

// passes bounds what chunks of variable-length elements take. How much one
// decodes to is not known before it is decoded, and may be Limits.MaxChunk. So
// that all workers together take no more than one chunk may, each chunk under
// way has an equal share of that. Those that need more are left for another
// pass with fewer at once, the last of which goes through them one by one.
type passes struct {
	room     int64   // the largest chunk of this pass in bytes, stored or decoded; size if that is fixed
	chosen   []int64 // numbers of the chunks of this pass; nil for all of the plan
	mu       sync.Mutex
	deferred []int64 // numbers of the chunks that need more room
}

// again prepares the next pass, after one of n workers, and returns how many
// workers it has.
func (t *transfer) again(n int) int {
	if t.batch == 1 {
		n /= 4 // few passes in all, and few chunks one by one
	}
	t.batch, t.chosen, t.deferred = 1, t.deferred, nil
	t.next.Store(0)
	return max(1, min(n, len(t.chosen)))
}

// claim returns the range of chunks that a worker does next; it is empty when
// none are left.
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

// postpone leaves chunk i of the batch, which failed, for a pass with more room.
// It reports whether one follows: otherwise the failure had another reason.
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
