package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestLatePut uses drivers that store data long after a Put was canceled. Put must not
// return before the data is stored, because late data could overwrite the data of a later
// Put.
func TestLatePut(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*testing.T, string) host.Options{
		"put-late": func(t *testing.T, kind string) host.Options {
			t.Helper()
			return zooOptions(t, kind, "nczarr-driver-zoo")
		},
	}
	if sharedLevel() > 0 {
		kinds["store-put-late"] = planeOptions
	}
	for kind, options := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			opts := options(t, kind)
			ctx := cancelOnLog(t, &opts, "received a put")
			m := open(t, newHost(t, opts), "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
			_, err := m.Put(ctx, "k", driver.Bytes("slow"), &driver.PutOptions{})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("want no error or the caller's cancellation, got %v", err)
			}
			if got, err := get(t.Context(), m, "k"); err != nil || got != "slow" {
				t.Errorf("after the canceled put: want %q, got %q, %v", "slow", got, err)
			}
			if _, err := m.Put(t.Context(), "k", driver.Bytes("fast"), &driver.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(400 * time.Millisecond) // longer than any delay
			if got, err := get(t.Context(), m, "k"); err != nil || got != "fast" {
				t.Errorf("a completed put was overwritten: got %q, %v", got, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := m.Put(ctx, "k", driver.Bytes("none"), &driver.PutOptions{}); err != context.Canceled { //nolint:errorlint // the host must return it unchanged
				t.Errorf("a put with a canceled context: want context.Canceled, got %v", err)
			}
			if got, err := get(t.Context(), m, "k"); err != nil || got != "fast" {
				t.Errorf("a put with a canceled context was performed: got %q, %v", got, err)
			}
		})
	}
}

// TestNeverStored uses a driver that does not answer a canceled put. The host must kill
// the driver and return ErrAmbiguous.
func TestNeverStored(t *testing.T) {
	t.Parallel()
	o := planeOptions(t, "store-put-never")
	ctx := cancelOnLog(t, &o, "received a job and does not answer")
	h := newHost(t, o)
	m := open(t, h, "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
	host.SetCallTimeout(h, 10*time.Second) // much longer than the plugin takes to announce the call
	if _, err := m.Put(ctx, "k", driver.Bytes("1234"), &driver.PutOptions{IfAbsent: true}); !errors.Is(err, ncerr.ErrAmbiguous) {
		t.Errorf("want ErrAmbiguous, got %v", err)
	}
}

// TestEmptyAnswers checks that a put fails if the driver answers it with endless
// messages without results.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	m := open(t, newHost(t, planeOptions(t, "store-put-empty")), "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
	if _, err := m.Put(t.Context(), "k", driver.Bytes("1234"), &driver.PutOptions{}); err == nil || !strings.Contains(err.Error(), "a response without results") {
		t.Errorf("want a protocol violation, got %v", err)
	}
}

// TestDrippingAnswers uses a driver that answers canceled puts slowly, one by one. The
// time limit of one put must apply to all of these answers together.
func TestDrippingAnswers(t *testing.T) {
	t.Parallel()
	o := planeOptions(t, "store-put-drip")
	ctx := cancelOnLog(t, &o, "received puts")
	h := newHost(t, o)
	m := open(t, h, "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
	host.SetCallTimeout(h, 2*time.Second) // the driver takes more than 6 s
	unknown := 0
	_ = m.(driver.PutManyer).PutMany(ctx, numbered(64, 10), func(_ int, _ driver.Info, err error) {
		if errors.Is(err, ncerr.ErrAmbiguous) {
			unknown++
		}
	})
	if unknown == 0 {
		t.Error("the host waited for the answers to all canceled puts")
	}
}
