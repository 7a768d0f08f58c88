package nczarr

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A look that began before somebody came is not shared with him, one that begins
// after is; and nobody waits longer than its own context lets it.
func TestLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l sharedCheck
		gate, calls := make(chan struct{}), 0
		f := func() error { calls++; <-gate; return nil }
		done := make(chan error, 5)
		look := func(ctx context.Context) {
			go func() { done <- l.do(ctx, f) }()
			synctest.Wait()
		}
		look(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		look(ctx)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the first that waits is cancelled: %v", err)
		}
		for range 3 {
			look(t.Context())
		}
		if calls != 1 {
			t.Errorf("%d looks at once", calls)
		}
		for range 4 {
			gate <- struct{}{}
			synctest.Wait()
			if len(done) == 4 {
				break
			}
		}
		if len(done) != 4 || calls != 2 {
			t.Errorf("%d answers of %d looks", len(done), calls)
		}
	})
}
