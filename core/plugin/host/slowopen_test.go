package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// slowOpen is the state of a driver and a filter whose second Open blocks until unblock
// is closed.
type slowOpen struct {
	driver.Opener
	filters
	opened  chan struct{} // one element for the first Open
	begun   chan struct{} // closed by the second Open
	unblock chan struct{}
}

func newSlowOpen() *slowOpen {
	return &slowOpen{Opener: memmap.NewOpener(), opened: make(chan struct{}, 1), begun: make(chan struct{}), unblock: make(chan struct{})}
}

func (o *slowOpen) wait() {
	select {
	case o.opened <- struct{}{}:
	default:
		close(o.begun)
		<-o.unblock
	}
}

type (
	slowDriver struct{ *slowOpen }
	slowFilter struct{ *slowOpen }
)

func (slowDriver) Describe() driver.Description { return driver.Description{Name: "slow"} }

func (o slowDriver) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	o.wait()
	return o.Opener.Open(ctx, spec)
}

func (o slowFilter) Describe() []codecdriver.Description { return o.filters.Describe() }

func (o slowFilter) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	o.wait()
	return o.filters.Open(id, params, in)
}

// TestOthersOpening checks that a call whose context is done does not wait for
// another call that reopens the same store or pipeline.
func TestOthersOpening(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *host.Host) func(context.Context) error{
		"store": func(t *testing.T, h *host.Host) func(context.Context) error {
			t.Helper()
			m := open(t, h, "slow", driver.OpenSpec{Path: "x", Mode: driver.Create})
			return func(ctx context.Context) error {
				_, err := m.Stat(ctx, "k")
				if ncerr.KindOf(err) == ncerr.ErrNotFound {
					return nil
				}
				return err
			}
		},
		"pipeline": func(t *testing.T, h *host.Host) func(context.Context) error {
			t.Helper()
			pl, _ := pipeline(t, h, 10, codecdriver.Step{ID: "xor"})
			return func(ctx context.Context) error {
				return pl.EncodeMany(ctx, []codecdriver.Job{{Src: []byte("x"), Limit: 10}}, func(int, []byte, error) {})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := newSlowOpen()
			h := newHost(t, host.Options{Isolation: host.Loopback, Builtin: plugin.Builtin{
				Openers: []driver.Opener{slowDriver{slow}}, Providers: []codecdriver.Provider{slowFilter{slow}},
			}})
			call := use(t, h)
			host.BreakAll(h)
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- call(t.Context()) }()
			<-slow.begun
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			go func() { second <- call(ctx) }()
			select {
			case err := <-second:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("want the caller's context, got %v", err)
				}
				close(slow.unblock)
			case <-time.After(2 * time.Minute):
				t.Error("a canceled call waits for another call")
				close(slow.unblock)
				<-second
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOpenCanceled checks that a call whose context is done does not wait for the
// start of a plugin that must describe itself.
func TestOpenCanceled(t *testing.T) {
	t.Parallel()
	opts := zooOptions(t, "sleeps", "nczarr-driver-zoo")
	opts.StartTimeout = time.Hour
	h := newHost(t, opts)
	o, err := h.Driver("zoo")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := o.Open(ctx, driver.OpenSpec{Path: "x"})
		ended <- errors.Join(err, o.Remove(ctx, driver.OpenSpec{Path: "x"}))
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want the caller's context, got %v", err)
		}
	case <-time.After(2 * time.Minute): // much less than StartTimeout
		t.Error("a canceled Open waits for the start of the plugin")
	}
}

// slowBody is a body whose ReadAt takes longer than CallTimeout.
type slowBody struct{ driver.Bytes }

func (b slowBody) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(18 * time.Second)
	return b.Bytes.ReadAt(p, off)
}

// TestSlowBody checks that CallTimeout does not include the time for reading the
// caller's body.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	for _, level := range []host.Isolation{inlineProcess, host.Process} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			h := newHost(t, levelOptions(level))
			m := open(t, h, "file", driver.OpenSpec{Path: t.TempDir() + "/s", Mode: driver.Create})
			host.SetCallTimeout(h, 15*time.Second)
			if _, err := m.Put(t.Context(), "k", slowBody{driver.Bytes("late")}, &driver.PutOptions{}); err != nil {
				t.Error(err)
			}
			host.SetCallTimeout(h, 2*time.Minute)
		})
	}
}
