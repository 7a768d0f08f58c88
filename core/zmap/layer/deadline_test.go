package layer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// slowLink begins its response after the time head, and transfers content in the time
// body.
type slowLink struct {
	driver.Map
	head, body time.Duration
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slowLink) Put(ctx context.Context, _ string, body driver.Body, _ *driver.PutOptions) (driver.Info, error) {
	return driver.Info{Size: body.Size()}, wait(ctx, s.head+s.body)
}

func (s slowLink) Get(ctx context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if err := wait(ctx, s.head); err != nil {
		return nil, driver.Info{}, err
	}
	mem, err := alloc(16 << 20)
	if err != nil {
		return nil, driver.Info{}, err
	}
	return mem, driver.Info{Size: 16 << 20}, wait(ctx, s.body)
}

// TestDeadlineOfContent checks that a slow transfer is not abandoned after the time for
// a call without content, and that a call that never ends is abandoned.
func TestDeadlineOfContent(t *testing.T) {
	t.Parallel()
	const d, forever = 10 * time.Second, 1000 * time.Hour
	body := make(driver.Bytes, 16<<20) // 512 s at 32 KiB per second
	for name, tc := range map[string]struct {
		link   slowLink
		opts   driver.PutOptions
		isGet  bool
		want   ncerr.Kind
		within time.Duration
	}{
		"slow put":                {link: slowLink{body: 500 * time.Second}},
		"slow conditional put":    {link: slowLink{body: 500 * time.Second}, opts: driver.PutOptions{IfAbsent: true}},
		"stalled put":             {link: slowLink{body: forever}, want: ncerr.ErrIO, within: 523 * time.Second},
		"stalled conditional put": {link: slowLink{body: forever}, opts: driver.PutOptions{IfMatch: "v"}, want: ncerr.ErrAmbiguous, within: 523 * time.Second},
		"slow get":                {link: slowLink{head: 9 * time.Second, body: 500 * time.Second}, isGet: true},
		"stalled get":             {link: slowLink{head: 9 * time.Second, body: forever}, isGet: true, want: ncerr.ErrIO, within: 532 * time.Second},
		"get without a response":  {link: slowLink{head: forever}, isGet: true, want: ncerr.ErrIO, within: 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, start := layer.Deadline(tc.link, d), time.Now() // on the fake clock of synctest
				var err error
				if tc.isGet {
					_, _, err = m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
				} else {
					_, err = m.Put(t.Context(), "k", body, &tc.opts)
				}
				if ncerr.KindOf(err) != tc.want {
					t.Errorf("want %v, got %v", tc.want, err)
				}
				if took := time.Since(start); tc.within > 0 && took > tc.within {
					t.Errorf("the call was abandoned after %v, later than expected", took)
				}
			})
		})
	}
}

// TestDeadlineOfTheCaller checks that the caller's own context error is returned
// unchanged.
func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m := layer.Deadline(slowLink{head: time.Hour}, time.Minute)
		if _, err := m.Put(ctx, "k", driver.Bytes("x"), &driver.PutOptions{}); err != context.DeadlineExceeded { //nolint:errorlint // the contract is to return the identical error
			t.Errorf("want context.DeadlineExceeded, got %v", err)
		}
	})
}
