package remote_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// meetingStore is a remote store that answers requests for chunks only when enough of
// them are in progress. It stores no chunks; they are all zeros.
type meetingStore struct {
	driver.Map
	want int64
	size int64

	arrived    *atomic.Int64 // requests that have arrived
	allArrived chan struct{} // closed when want requests have arrived
}

func (c *meetingStore) Capabilities() driver.Capabilities {
	caps := c.Map.Capabilities()
	caps.Latency = driver.Remote
	return caps
}

// wait blocks until enough requests have arrived.
func (c *meetingStore) wait(ctx context.Context) error {
	if c.arrived.Add(1) == c.want {
		close(c.allArrived)
	}
	select {
	case <-c.allArrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func isChunk(key string) bool { return strings.HasPrefix(key, "data/") && !strings.Contains(key, "/.") }

func (c *meetingStore) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if !isChunk(key) {
		return c.Map.Get(ctx, key, o, alloc)
	}
	if err := c.wait(ctx); err != nil {
		return nil, driver.Info{}, err
	}
	mem, err := alloc(c.size)
	return mem, driver.Info{Size: c.size, Version: "1"}, err
}

func (c *meetingStore) Put(ctx context.Context, key string, b driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if !isChunk(key) {
		return c.Map.Put(ctx, key, b, o)
	}
	return driver.Info{Size: b.Size(), Version: "1"}, c.wait(ctx)
}

// TestInFlight checks that with the default options 32 chunks of 4 MiB are in flight at
// a time from the first response on, in both directions. These 128 MiB are enough for
// 2.5 GB/s with a latency of 50 ms. With fewer requests the test would time out.
func TestInFlight(t *testing.T) {
	t.Parallel()
	const inFlight, side = 32, 2048
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	reg := registry.New([]driver.Opener{memmap.NewOpener()})
	c := &meetingStore{size: side * side}
	o := dataset.Options{Registry: reg, SingleWriter: true, Wrap: func(m driver.Map) driver.Map {
		clone := *c
		clone.Map = m
		return &clone
	}}
	reset := func() { c.want, c.arrived, c.allArrived = inFlight, new(atomic.Int64), make(chan struct{}) }
	reset()
	values := make([]int8, inFlight*side*side)
	if err := fill(ctx, "mem:flight#mode=nczarr", o, inFlight, side, values); err != nil {
		t.Fatalf("write, %d of %d chunks in flight: %v", c.arrived.Load(), inFlight, err)
	}
	reset()
	ds, err := open.Open(ctx, "mem:flight#mode=nczarr", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ds.Close(context.WithoutCancel(t.Context())) })
	v, err := ds.Root().Var("data")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Read(ctx, v.All(), values); err != nil {
		t.Fatalf("read, %d of %d chunks in flight: %v", c.arrived.Load(), inFlight, err)
	}
}

// fill creates a dataset of one variable with n square chunks.
func fill(ctx context.Context, url string, o dataset.Options, n, side int64, values []int8) error {
	ds, err := open.Create(ctx, url, &dataset.CreateOptions{Options: o})
	if err != nil {
		return err
	}
	var dims []*dataset.Dim
	for i, length := range []int64{n, side, side} {
		d, err := ds.Root().DefineDim(string(rune('x'+i)), length, false)
		if err != nil {
			return err
		}
		dims = append(dims, d)
	}
	v, err := ds.Root().DefineVar(ctx, "data", &dataset.VarSpec{Type: dtype.NCByte, Dims: dims, Chunks: []int64{1, side, side}})
	if err != nil {
		return err
	}
	if err := v.Write(ctx, v.All(), values); err != nil {
		return err
	}
	return ds.Close(ctx)
}
