package host_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestLyingHead uses drivers that announce an object of 1 GiB and send a few bytes. The
// host must not allocate memory for the whole object.
func TestLyingHead(t *testing.T) { //nolint:paralleltest // the test measures the allocations of the process
	one := func(ctx context.Context, m driver.Map) error {
		data, _, err := m.Get(ctx, "k", &driver.GetOptions{}, driver.Heap)
		if len(data) > 0 {
			t.Errorf("want no data, got %d bytes", len(data))
		}
		return err
	}
	many := func(ctx context.Context, m driver.Map) error {
		var own error
		err := m.(driver.GetManyer).GetMany(ctx, make([]driver.GetRequest, 4), func(_ int, _ []byte, _ driver.Info, err error) { own = errors.Join(own, err) })
		return errors.Join(err, own)
	}
	kinds := map[string]func(context.Context, driver.Map) error{"get-huge": one, "many-huge": many}
	if sharedLevel() > 0 {
		kinds["store-huge"], kinds["store-huge-many"], kinds["store-huge-error"] = one, many, one
	}
	for kind, call := range kinds { //nolint:paralleltest // the subtests run in sequence
		t.Run(kind, func(t *testing.T) {
			opts := zooOptions(t, kind, "nczarr-driver-zoo")
			if strings.HasPrefix(kind, "store-") {
				opts = planeOptions(t, kind)
			}
			m := open(t, newHost(t, opts), "zoo", driver.OpenSpec{Path: "x"})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := call(t.Context(), m)
			runtime.ReadMemStats(&after)
			if err == nil || kind != "store-huge-error" && !errors.Is(err, ncerr.ErrPlugin) {
				t.Errorf("want ErrPlugin, got %v", err)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 192<<20 {
				t.Errorf("the host allocated %d MiB for a few bytes", allocated>>20)
			}
		})
	}
}

// TestLargeObjects checks reads of objects for which the host allocates memory only after
// a part of the data has arrived.
func TestLargeObjects(t *testing.T) { //nolint:paralleltest // other tests measure the allocations of the process
	dir := t.TempDir()
	want := bytes.Repeat([]byte("0123456789abcde\n"), 70<<16)
	want[len(want)-1] = '!'
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, level := range []host.Isolation{inlineProcess, host.Process} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			m := open(t, newHost(t, levelOptions(level)), "file", driver.OpenSpec{Path: dir})
			calls := 0
			got, _, err := m.Get(t.Context(), "a", &driver.GetOptions{}, func(n int64) ([]byte, error) {
				calls++
				return make([]byte, n), nil
			})
			if err != nil || calls != 1 || !bytes.Equal(got, want) {
				t.Errorf("want %d bytes and one call of alloc, got %d and %d, %v", len(want), len(got), calls, err)
			}
			reqs := []driver.GetRequest{{Key: "a"}, {Key: "b", Alloc: driver.Into(make([]byte, len(want)))}}
			err = m.(driver.GetManyer).GetMany(t.Context(), reqs, func(i int, data []byte, _ driver.Info, err error) {
				if err != nil || !bytes.Equal(data, want) {
					t.Errorf("read %d: got %d bytes, %v", i, len(data), err)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
