package layer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// busyOpener is an Opener that always fails with a retryable error.
type busyOpener struct{}

func (busyOpener) Describe() driver.Description { return driver.Description{Name: "busy"} }
func (busyOpener) Open(context.Context, driver.OpenSpec) (driver.Map, error) {
	return nil, busy(0)
}
func (busyOpener) Remove(context.Context, driver.OpenSpec) error { return busy(0) }

// TestRetryCanceled checks that a call that is canceled while it waits for a retry
// returns the context's error, not the store's.
func TestRetryCanceled(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, m driver.Map, o driver.Opener) error{
		"get": func(ctx context.Context, m driver.Map, _ driver.Opener) error {
			_, _, err := m.Get(ctx, "k", &driver.GetOptions{}, driver.Heap)
			return err
		},
		"stat": func(ctx context.Context, m driver.Map, _ driver.Opener) error {
			_, err := m.Stat(ctx, "k")
			return err
		},
		"put": func(ctx context.Context, m driver.Map, _ driver.Opener) error {
			_, err := m.Put(ctx, "k", driver.Bytes("x"), &driver.PutOptions{})
			return err
		},
		"delete": func(ctx context.Context, m driver.Map, _ driver.Opener) error {
			return m.Delete(ctx, "k", &driver.DeleteOptions{})
		},
		"open": func(ctx context.Context, _ driver.Map, o driver.Opener) error {
			_, err := o.Open(ctx, driver.OpenSpec{})
			return err
		},
		"remove": func(ctx context.Context, _ driver.Map, o driver.Opener) error {
			return o.Remove(ctx, driver.OpenSpec{})
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		o := layer.RetryOptions{OnRetry: func(string, string, error, time.Duration) { cancel() }}
		_, m, _ := rig(t, o, busy(0))
		if err := call(ctx, m, layer.RetryOpener(busyOpener{}, &o)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: want the caller's context, got %v", name, err)
		}
		cancel()
	}
}

// lostOpener creates the store in its first call, but returns a retryable error, as if the
// response was lost. Later calls return err.
type lostOpener struct {
	busyOpener
	err   error
	calls *int
}

func (o lostOpener) Open(context.Context, driver.OpenSpec) (driver.Map, error) {
	if *o.calls++; *o.calls == 1 {
		return nil, busy(0)
	}
	return nil, o.err
}

// TestRetryCreateExclusive checks that a retry does not report the store of its own first
// attempt as one that existed before.
func TestRetryCreateExclusive(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode      driver.Mode
		err, want ncerr.Kind
	}{
		{driver.CreateExclusive, ncerr.ErrExists, ncerr.ErrAmbiguous},
		{driver.CreateExclusive, ncerr.ErrAuth, ncerr.ErrAuth},
		{driver.Read, ncerr.ErrExists, ncerr.ErrExists},
	} {
		o := layer.RetryOptions{Sleep: func(context.Context, time.Duration) error { return nil }}
		_, err := layer.RetryOpener(lostOpener{err: tc.err, calls: new(int)}, &o).Open(t.Context(), driver.OpenSpec{Path: "p", Mode: tc.mode})
		if ncerr.KindOf(err) != tc.want {
			t.Errorf("mode %v, %v after a lost response: want %v, got %v", tc.mode, tc.err, tc.want, err)
		}
	}
}
