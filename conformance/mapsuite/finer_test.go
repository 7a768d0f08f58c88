package mapsuite_test

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// getting returns a function that replaces the Get method of a Map.
func getting(get func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error)) func(driver.Map) driver.Map {
	return func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			return get(m, ctx, key, o, alloc)
		}}
	}
}

// relisting returns a function that changes or drops the entries of listings of a Map.
func relisting(change func(e *driver.Entry) (keep bool)) func(driver.Map) driver.Map {
	return func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for e, err := range m.List(ctx, prefix, o) {
					if (err != nil || change(&e)) && !yield(e, err) {
						return
					}
				}
			}
		}}
	}
}

// TestFinerDefects checks that defects that affect only some calls or another handle are
// found.
func TestFinerDefects(t *testing.T) {
	t.Parallel()
	const piece = 128 << 10
	var mu sync.Mutex
	stats, last := map[string]driver.Info{}, ""
	for name, tc := range map[string]struct {
		plant func(driver.Map) driver.Map
		want  string
	}{
		"corrupts the last byte of a 128 KiB piece": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			if r := o.Range; err == nil && r != nil && len(data) > 0 && r.Offset > 0 && (r.Offset+r.Length)%piece == 0 {
				data[len(data)-1]++
			}
			return data, info, err
		}), "map.get.range.rounded"},
		"fails for a range at the end of the last piece": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if r := o.Range; r != nil && r.Offset > 0 && r.Offset%piece == 0 && r.Length <= 0 {
				if info, err := m.Stat(ctx, key); err == nil && info.Size == r.Offset {
					return nil, info, ncerr.ErrRange
				}
			}
			return m.Get(ctx, key, o, alloc)
		}), "map.get.range.rounded"},
		"shortens ranges past the end of large objects": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if info, err := m.Stat(ctx, key); err == nil && o.Range != nil && o.Range.Offset >= 0 && info.Size > 4<<10 && o.Range.Offset < info.Size {
				r := *o.Range
				r.Length = min(r.Length, info.Size-r.Offset)
				return m.Get(ctx, key, &driver.GetOptions{Range: &r, Limit: o.Limit, IfMatch: o.IfMatch}, alloc)
			}
			return m.Get(ctx, key, o, alloc)
		}), "map.get.range.rounded"},
		"ignores IfMatch in range reads": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if o.Range != nil {
				return m.Get(ctx, key, &driver.GetOptions{Range: o.Range, Limit: o.Limit}, alloc)
			}
			return m.Get(ctx, key, o, alloc)
		}), "map.get.if-match"},
		"numbers versions per handle": {func(m driver.Map) driver.Map {
			n := 0
			return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				info, err := m.Put(ctx, key, body, o)
				n++
				info.Version = strconv.Itoa(n)
				return info, err
			}}
		}, "map.get.version.again"},
		"returns ErrNotFound instead of ErrConflict": {func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if _, err := m.Stat(ctx, key); o.IfMatch != "" && err != nil {
					return driver.Info{}, ncerr.ErrNotFound
				}
				return m.Put(ctx, key, body, o)
			}}
		}, "map.put.if-match.absent"},
		"caches the results of Stat per handle": {func(m driver.Map) driver.Map {
			known := map[string]driver.Info{}
			return &hooked{Map: plain{m}, stat: func(ctx context.Context, key string) (driver.Info, error) {
				mu.Lock()
				defer mu.Unlock()
				info, ok := known[key]
				var err error
				if !ok {
					if info, err = m.Stat(ctx, key); err == nil {
						known[key] = info
					}
				}
				return info, err
			}}
		}, "map.durable.put"},
		"caches the results of Stat across stores": {func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, stat: func(ctx context.Context, key string) (driver.Info, error) {
				info, err := m.Stat(ctx, key)
				mu.Lock()
				defer mu.Unlock()
				if old, ok := stats[key]; ok {
					return old, nil
				}
				if err == nil {
					stats[key] = info
				}
				return info, err
			}}
		}, "map.open.handles"},
		"caches the first listing": {func(m driver.Map) driver.Map {
			var kept []driver.Entry
			return &hooked{Map: plain{m}, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
				return func(yield func(driver.Entry, error) bool) {
					if kept == nil {
						for e := range m.List(ctx, prefix, o) {
							kept = append(kept, e)
						}
					}
					for _, e := range kept {
						if !yield(e, nil) {
							return
						}
					}
				}
			}}
		}, "map.durable.put"},
		"omits keys that start with underscores": {relisting(func(e *driver.Entry) bool { return !strings.HasPrefix(e.Key, "__") }), "map.keys.opaque"},
		"lists the size of the first 4 KiB": {relisting(func(e *driver.Entry) bool {
			e.Info.Size = min(e.Info.Size, 4<<10)
			return true
		}), "map.list.sizes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, inMemory(planted{memmap.NewOpener(), tc.plant}), 10*time.Minute, tc.want)
		})
	}
	t.Run("deletes the latest object when it opens for update", func(t *testing.T) {
		t.Parallel()
		o := opening{Opener: planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				info, err := m.Put(ctx, key, body, o)
				mu.Lock()
				last = key
				mu.Unlock()
				return info, err
			}}
		}}, open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err == nil && spec.Mode == driver.Update {
				mu.Lock()
				defer mu.Unlock()
				_ = m.Delete(ctx, last, &driver.DeleteOptions{})
			}
			return m, err
		}}
		mustFail(t, inMemory(o), 10*time.Minute, "map.concurrent.open")
	})
	t.Run("accepts an option of any type", func(t *testing.T) {
		t.Parallel()
		mustFail(t, inMemory(lenient{memmap.NewOpener()}), 10*time.Minute, "map.open.bad-option")
	})
	t.Run("reuses the options of the previous request for the same key", func(t *testing.T) {
		t.Parallel()
		mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
			return several{m, func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
				for i, r := range reqs {
					if i > 0 && r.Key == reqs[i-1].Key {
						r.Opts = reqs[i-1].Opts
					}
					alloc := r.Alloc
					if alloc == nil {
						alloc = driver.Heap
					}
					data, info, err := m.Get(ctx, r.Key, &r.Opts, alloc)
					sink(i, data, info, err)
				}
				return nil
			}}
		}}), 10*time.Minute, "map.get.many")
	})
}

// lenient accepts any value for its only option.
type lenient struct{ driver.Opener }

func (l lenient) Describe() driver.Description {
	d := l.Opener.Describe()
	d.Options = []driver.Option{{Name: "safe", Type: "bool", Doc: "stores safely"}}
	return d
}

func (l lenient) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	if strings.Contains(string(spec.Options), fmt.Sprintf("%q", "safe")) {
		spec.Options = nil
	}
	return l.Opener.Open(ctx, spec)
}
