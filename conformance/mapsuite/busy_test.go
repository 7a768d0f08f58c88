package mapsuite_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

var errBusy = errors.New("database is busy")

// busy are Maps that fail with errBusy instead of waiting.
var busy = map[string]func(m driver.Map) *hooked{ // constant
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
		free := make(chan struct{}, 12)
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			select {
			case free <- struct{}{}:
			default:
				return driver.Info{}, errBusy
			}
			defer func() { <-free }()
			return m.Put(ctx, key, reread{body}, o)
		}}
	},
}

// TestBusyIsCaught checks that map.concurrent.crowd finds each defect of busy.
func TestBusyIsCaught(t *testing.T) {
	t.Parallel()
	for name, plant := range busy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map { return plant(plain{m}) }}), 10*time.Minute, "map.concurrent.crowd")
		})
	}
}
