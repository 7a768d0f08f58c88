package host

import "context"

// gate is a lock. A context can cancel its acquisition, because the goroutine that
// holds the lock may wait for a plugin.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter acquires the lock, or returns the error of ctx.
func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave releases the lock.
func (g gate) leave() { <-g }
