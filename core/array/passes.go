package array

import "sync"

// passes limits the memory for chunks of variable-length elements: see runVaried. The size
// of such a chunk is unknown before decoding, and may be up to Limits.MaxChunk.
type passes struct {
	room     int64   // maximum size in bytes of a chunk, stored or decoded, in this pass; transfer.size if elements have a fixed size
	last     bool    // the pass processes chunks one by one, or with all the room that a chunk may need
	chosen   []int64 // numbers of the chunks of this pass; nil means all chunks of the plan
	mu       sync.Mutex
	deferred []int64 // numbers of the chunks that need more room
}

// nextPass prepares the pass that follows a pass with n workers, and returns its number
// of workers.
func (t *transfer) nextPass(n int) int {
	if t.batch == 1 {
		n /= 4 // keep both the number of passes and the chunks of the last pass small
	}
	t.batch, t.chosen, t.deferred = 1, t.deferred, nil
	t.next.Store(0)
	n = max(1, min(n, len(t.chosen)))
	t.last = n == 1
	return n
}

// claim appends to dst the numbers of the next chunks for a worker. It appends nothing
// if no chunks are left.
func (t *transfer) claim(dst []int64) []int64 {
	switch {
	case t.chosen != nil:
		if k := t.next.Add(1) - 1; k < int64(len(t.chosen)) {
			dst = append(dst, t.chosen[k])
		}
	case t.units != nil:
		k := t.next.Add(t.claimed) - t.claimed
		for i := k; i < min(k+t.claimed, t.units.Len()); i++ {
			dst = t.units.Append(dst, i)
			if t.target != nil && t.a.env.OnPartialWrite != nil && !t.units.Covers(i, t.bounds) {
				t.a.env.OnPartialWrite()
			}
		}
	default:
		k := t.next.Add(t.batch) - t.batch
		for i := k; i < min(k+t.batch, t.plan.Len()); i++ {
			dst = append(dst, i)
		}
	}
	return dst
}

// postpone defers chunk i of the batch, which failed, to a pass with more room. It
// returns false in the last pass, because the failure must have another cause.
func (w *worker) postpone(i int) bool {
	t := w.t
	if t.last || t.room >= t.size {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deferred = append(t.deferred, w.numbers[i])
	return true
}
