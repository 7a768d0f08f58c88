package host

import "context"

// gate is a lock for which nobody waits longer than a context lasts: who holds
// it may be waiting for a plugin.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter takes the lock; its error is that of ctx.
func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives the lock back.
func (g gate) leave() { <-g }
