package mapsuite_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

var errBusy = errors.New("database is busy")

// busy contains defective Maps, which fail with errBusy instead of waiting.
var busy = map[string]func(m driver.Map) *hooked{ // never changed
	"fails if another transaction is open": func(m driver.Map) *hooked {
		var mu sync.Mutex
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if !mu.TryLock() {
				return driver.Info{}, errBusy
			}
			defer mu.Unlock()
			return m.Put(ctx, key, reread{body}, o) // the body is read in the transaction
		}}
	},
	"fails if another transaction is open after the body was read": func(m driver.Map) *hooked {
		var mu sync.Mutex
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			fresh, err := driver.ReadBody(reread{body})
			if err != nil {
				return driver.Info{}, err
			}
			if !mu.TryLock() {
				return driver.Info{}, ncerr.New(ncerr.ErrIO, "put", key, errBusy)
			}
			defer mu.Unlock()
			runtime.Gosched() // let other goroutines run during the transaction
			return m.Put(ctx, key, driver.Bytes(fresh), o)
		}}
	},
	"fails reads during many writes": func(m driver.Map) *hooked {
		var writing atomic.Int64
		return &hooked{
			Map: m,
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				writing.Add(1)
				defer writing.Add(-1)
				return m.Put(ctx, key, reread{body}, o)
			},
			get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
				if writing.Load() > 8 {
					return nil, driver.Info{}, errBusy
				}
				return m.Get(ctx, key, o, alloc)
			},
		}
	},
	"fails if another handle writes": func() func(m driver.Map) *hooked {
		var all sync.Mutex
		return func(m driver.Map) *hooked {
			var mu sync.Mutex
			return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				mu.Lock()
				defer mu.Unlock()
				if !all.TryLock() {
					return driver.Info{}, errBusy
				}
				defer all.Unlock()
				return m.Put(ctx, key, reread{body}, o)
			}}
		}
	}(),
	"fails if all 12 connections are in use": func(m driver.Map) *hooked {
		inUse := make(chan struct{}, 12)
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			select {
			case inUse <- struct{}{}:
			default:
				return driver.Info{}, errBusy
			}
			defer func() { <-inUse }()
			return m.Put(ctx, key, reread{body}, o)
		}}
	},
}

// crowded contains defective Maps, which fail or hang if several reads are in progress.
var crowded = map[string]func(m driver.Map) driver.Map{ // never changed
	"fails if 16 connections are in use": getting(limited(16, errBusy)),
	"fails if 4 connections are in use":  getting(limited(4, ncerr.ErrIO)),
	"fails if 60 connections are in use": getting(limited(60, errBusy)),
	"hangs if each read needs a second connection": func() func(driver.Map) driver.Map {
		inUse := make(chan struct{}, 8)
		return getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			take := func() error {
				select {
				case inUse <- struct{}{}:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := take(); err != nil {
				return nil, driver.Info{}, err
			}
			defer func() { <-inUse }()
			return m.Get(ctx, key, o, func(n int64) ([]byte, error) {
				mem, err := alloc(n)
				if err == nil {
					err = take()
				}
				if err == nil {
					defer func() { <-inUse }()
				}
				return mem, err
			})
		})
	}(),
}

// limited returns a Get that fails with full if n other calls are in progress.
func limited(n int, full error) func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	inUse := make(chan struct{}, n)
	return func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		select {
		case inUse <- struct{}{}:
		default:
			return nil, driver.Info{}, full
		}
		defer func() { <-inUse }()
		return m.Get(ctx, key, o, alloc)
	}
}

// TestCrowdedReads checks that map.concurrent.reads fails for each Map in crowded, and that
// it passes for a driver that delays reads.
func TestCrowdedReads(t *testing.T) {
	t.Parallel()
	for name, plant := range crowded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, inMemory(planted{memmap.NewOpener(), plant}), limitFor(name), "map.concurrent.reads")
		})
	}
	var mu sync.Mutex
	waiting := planted{memmap.NewOpener(), getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		mu.Lock()
		defer mu.Unlock()
		return m.Get(ctx, key, o, alloc)
	})}
	if r := conformance.Run(t.Context(), mapsuite.Suite(), inMemory(waiting), &conformance.Options{Select: []string{"map.concurrent.reads"}, Limit: 10 * time.Minute}); r.Totals.Pass != 1 {
		t.Errorf("a driver that reads one object at a time fails: %+v", r.Results)
	}
}

// TestBusyIsCaught checks that map.concurrent.crowd fails for each Map in busy.
func TestBusyIsCaught(t *testing.T) {
	t.Parallel()
	for name, plant := range busy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map { return plant(plain{m}) }}), 10*time.Minute, "map.concurrent.crowd")
		})
	}
}
