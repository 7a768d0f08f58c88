package dataset

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A call does not share a check that began before it, but shares one that began after
// it. It waits no longer than its own context allows.
func TestSharedCheck(t *testing.T) {
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
			t.Errorf("the canceled call: want Canceled, got %v", err)
		}
		for range 3 {
			look(t.Context())
		}
		if calls != 1 {
			t.Errorf("want one check, got %d", calls)
		}
		for range 4 {
			gate <- struct{}{}
			synctest.Wait()
			if len(done) == 4 {
				break
			}
		}
		if len(done) != 4 || calls != 2 {
			t.Errorf("want 4 results of 2 checks, got %d of %d", len(done), calls)
		}
	})
}
