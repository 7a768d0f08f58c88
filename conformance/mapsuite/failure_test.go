package mapsuite_test

import (
	"context"
	"iter"
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

// TestFailureAsAbsence checks that map.get.failure passes for a Map that returns the error of
// a broken store, and fails for Maps that report a missing object, zeros or success instead.
func TestFailureAsAbsence(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		get, stat error
		list      bool // List returns an empty listing instead of the failure
		zeros     bool // Get returns partial content padded with zeros
		deletes   bool // Delete still succeeds
		empty     bool // Get and Stat return an empty object
		passes    bool
	}{
		"returns ErrIO":            {get: ncerr.ErrIO, stat: ncerr.ErrIO, passes: true},
		"reports absence in Get":   {get: ncerr.ErrNotFound, stat: ncerr.ErrIO},
		"reports absence in Stat":  {get: ncerr.ErrIO, stat: ncerr.ErrNotFound},
		"returns an empty listing": {get: ncerr.ErrIO, stat: ncerr.ErrIO, list: true},
		"returns zeros in Get":     {stat: ncerr.ErrIO, zeros: true},
		"deletes successfully":     {get: ncerr.ErrIO, stat: ncerr.ErrIO, deletes: true},
		"returns empty objects":    {get: ncerr.ErrIO, empty: true},
		"ignores the damage":       {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
				return &hooked{
					Map: plain{m},
					get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
						if broken.Load() && tc.empty && key == "a/l" {
							data, err := alloc(0)
							return data, driver.Info{}, err
						}
						if broken.Load() && tc.get != nil {
							return nil, driver.Info{}, tc.get
						}
						data, info, err := m.Get(ctx, key, o, alloc)
						if broken.Load() && tc.zeros {
							clear(data[len(data)/2:])
						}
						return data, info, err
					},
					del: func(ctx context.Context, key string, o *driver.DeleteOptions) error {
						if broken.Load() && !tc.deletes {
							return ncerr.ErrIO
						}
						return m.Delete(ctx, key, o)
					},
					stat: func(ctx context.Context, key string) (driver.Info, error) {
						if broken.Load() && tc.stat != nil {
							return driver.Info{}, tc.stat
						}
						return m.Stat(ctx, key)
					},
					list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
						if broken.Load() && tc.list {
							return func(func(driver.Entry, error) bool) {}
						}
						return m.List(ctx, prefix, o)
					},
				}
			}})
			target.Break = func(context.Context, driver.OpenSpec) error { broken.Store(true); return nil }
			if !tc.passes {
				mustFail(t, target, 10*time.Minute, "map.get.failure")
				return
			}
			if r := conformance.Run(t.Context(), mapsuite.Suite(), target, &conformance.Options{Select: []string{"map.get.failure"}, Limit: 10 * time.Minute}); r.Totals.Pass != 1 {
				t.Errorf("a correct driver fails: %+v", r.Results)
			}
		})
	}
}

// TestLeakOfContent checks that the suite detects a process that keeps all content it has
// read.
func TestLeakOfContent(t *testing.T) {
	t.Parallel()
	var kept atomic.Int64
	target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			kept.Add(int64(len(data)))
			return data, info, err
		}}
	}})
	target.Usage = func() (conformance.Usage, error) {
		return conformance.Usage{Memory: kept.Load(), Descriptors: -1}, nil
	}
	mustFail(t, target, 10*time.Minute, "map.lasting.open")
}

// TestLeaksOfAbandonedCalls checks that the suite detects a process that leaks a descriptor
// for each canceled read and for each abandoned listing.
func TestLeaksOfAbandonedCalls(t *testing.T) {
	t.Parallel()
	var reads, listings atomic.Int64
	target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		return &hooked{
			Map: plain{m},
			get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
				data, info, err := m.Get(ctx, key, o, alloc)
				if ctx.Err() != nil {
					reads.Add(1)
				}
				return data, info, err
			},
			list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
				return func(yield func(driver.Entry, error) bool) {
					for e, err := range m.List(ctx, prefix, o) {
						if !yield(e, err) {
							listings.Add(1)
							return
						}
					}
				}
			},
		}
	}})
	for id, held := range map[string]*atomic.Int64{"map.lasting.open": &reads, "map.lasting.pages": &listings} {
		target.Usage = func() (conformance.Usage, error) {
			return conformance.Usage{Memory: -1, Descriptors: int(held.Load())}, nil
		}
		mustFail(t, target, 10*time.Minute, id)
	}
}

// TestCrashInPut checks that the suite detects a process that overwrites objects in two
// steps, by killing it between them.
func TestCrashInPut(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	alive, die := context.WithCancel(t.Context())
	target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		mu.Lock()
		process := alive
		mu.Unlock()
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if b, ok := body.(driver.Bytes); ok && len(b) > 1<<20 {
				if _, err := m.Put(ctx, key, b[:len(b)/2], o); err != nil {
					return driver.Info{}, err
				}
				select {
				case <-process.Done():
					return driver.Info{}, ncerr.ErrPlugin
				case <-time.After(20 * time.Millisecond): // about as long as storing the rest takes
				}
			}
			return m.Put(ctx, key, body, o)
		}}
	}})
	target.Crash = func() error {
		mu.Lock()
		defer mu.Unlock()
		die()
		alive, die = context.WithCancel(t.Context())
		return nil
	}
	mustFail(t, target, 10*time.Minute, "map.durable.unflushed.crash")
}

// TestLeaksOfAnOpenStore checks that the suite detects a process that frees the resources of
// reads only in Close.
func TestLeaksOfAnOpenStore(t *testing.T) {
	t.Parallel()
	for name, perRead := range map[string]conformance.Usage{"goroutine": {Memory: 2500, Descriptors: -1}, "descriptor": {Memory: -1, Descriptors: 1}} {
		var total atomic.Int64
		target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
			var own atomic.Int64
			return &hooked{
				Map: plain{m},
				get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
					own.Add(1)
					total.Add(1)
					return m.Get(ctx, key, o, alloc)
				},
				close: func(ctx context.Context) error {
					total.Add(-own.Load())
					return m.Close(ctx)
				},
			}
		}})
		target.Usage = func() (conformance.Usage, error) {
			n := total.Load()
			return conformance.Usage{Memory: max(perRead.Memory*n, min(perRead.Memory, 0)), Descriptors: max(perRead.Descriptors*int(n), min(perRead.Descriptors, 0))}, nil
		}
		t.Log(name)
		mustFail(t, target, 10*time.Minute, "map.lasting.open")
		if r := conformance.Run(t.Context(), mapsuite.Suite(), target, &conformance.Options{Select: []string{"map.lasting.leaks"}, Limit: 10 * time.Minute}); r.Totals.Pass != 1 {
			t.Errorf("map.lasting.leaks fails though Close frees everything: %+v", r.Results)
		}
	}
}
