package store_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

func parse(t *testing.T, url string, create bool) *ncurl.Location {
	t.Helper()
	loc, err := ncurl.Parse(url, &ncurl.Env{Create: create})
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TestOpen writes and reads a store in each mode, and removes it.
func TestOpen(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	wrapped := 0
	o := &store.Options{
		Registry: registry.New([]driver.Opener{file.New(), zip.New(), memmap.NewOpener()}),
		Wrap: func(m driver.Map) driver.Map {
			wrapped++
			return layer.Log(m, slog.New(slog.DiscardHandler))
		},
	}
	for _, url := range []string{filepath.Join(dir, "x.zarr"), filepath.Join(dir, "x.zip"), "mem:x"} {
		loc := parse(t, url, true)
		if _, err := store.Open(ctx, loc, driver.Read, o); url != "mem:x" && !errors.Is(err, ncerr.ErrNoDataset) {
			t.Errorf("%s: want no dataset, got %v", url, err)
		}
		s, err := store.Open(ctx, loc, driver.Create, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(ctx, "a/b", driver.Bytes("text"), nil); err != nil {
			t.Error(err)
		}
		if err := errors.Join(s.Flush(ctx), s.Close(ctx)); err != nil {
			t.Error(err)
		}
		if s, err = store.Open(ctx, loc, driver.Read, o); err != nil {
			t.Fatal(err)
		}
		if body, _, err := s.ReadAll(ctx, "a/b", 0); string(body) != "text" || err != nil {
			t.Errorf("%s: got %q, %v", url, body, err)
		}
		if s.Path() != loc.Path || !s.ReadOnly() {
			t.Errorf("%s: got path %q, read-only %t", url, s.Path(), s.ReadOnly())
		}
		if err := errors.Join(s.Close(ctx), s.Remove(ctx)); err != nil {
			t.Error(err)
		}
		if err := s.Remove(ctx); !errors.Is(err, ncerr.ErrNoDataset) {
			t.Errorf("%s: want no dataset after Remove, got %v", url, err)
		}
	}
	if wrapped != 6 {
		t.Errorf("Wrap was called %d times, want 6", wrapped)
	}
	loc := parse(t, filepath.Join(dir, "y")+"#driver=tape", false)
	if _, err := store.Open(ctx, loc, driver.Read, o); !errors.Is(err, ncerr.ErrUnsupported) || !strings.Contains(err.Error(), "tape") {
		t.Errorf("want an error with the name of the driver, got %v", err)
	}
}

// closing fails the test's expectations if the driver's Map stays open.
type closing struct {
	driver.Map
	closed *int
}

func (c closing) Capabilities() driver.Capabilities {
	return driver.Capabilities{Latency: driver.Remote}
}

func (c closing) Close(ctx context.Context) error {
	*c.closed++
	return c.Map.Close(ctx)
}

// TestOpenFails checks that Open closes the driver's Map if a layer fails.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	closed := 0
	o := &store.Options{
		Registry: registry.New([]driver.Opener{memmap.NewOpener()}),
		Wrap:     func(m driver.Map) driver.Map { return closing{m, &closed} },
		Remote:   layer.RemoteOptions{Cache: &layer.CacheOptions{Dir: "relative\x00"}},
	}
	if _, err := store.Open(t.Context(), parse(t, "mem:x", true), driver.Create, o); err == nil {
		t.Error("Open succeeded with an invalid cache directory")
	}
	if closed != 1 {
		t.Errorf("the Map was closed %d times, want once", closed)
	}
}
