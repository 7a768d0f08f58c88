package mapsuite_test

import (
	"context"
	"iter"
	"path"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// sixthTrialDefects are defects of a driver over LevelDB that the suite missed, or found only
// with another check, each with the check that must fail.
var sixthTrialDefects = map[string]trialDefect{
	"returns the length of a range as the size": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		data, info, err := m.Get(ctx, key, o, alloc)
		if err == nil && o.Range != nil {
			info.Size = int64(len(data))
		}
		return data, info, err
	}), "map.get.info"},
	"keeps what Stat returned until the handle changes the object": {func(m driver.Map) driver.Map {
		var kept sync.Map // infos by key
		return &hooked{
			Map: plain{m},
			stat: func(ctx context.Context, key string) (driver.Info, error) {
				if info, ok := kept.Load(key); ok {
					return info.(driver.Info), nil
				}
				info, err := m.Stat(ctx, key)
				if err == nil {
					kept.Store(key, info)
				}
				return info, err
			},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				kept.Delete(key)
				return m.Put(ctx, key, body, o)
			},
			del: func(ctx context.Context, key string, o *driver.DeleteOptions) error {
				kept.Delete(key)
				return m.Delete(ctx, key, o)
			},
		}
	}, "map.stat.fresh"},
	"lists unflushed objects last": {func(m driver.Map) driver.Map {
		unflushed, flushed := map[string]bool{}, false
		return &hooked{
			Map: plain{m},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				unflushed[key] = true
				return m.Put(ctx, key, body, o)
			},
			flush: func(ctx context.Context) error {
				clear(unflushed)
				flushed = true
				return m.Flush(ctx)
			},
			list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
				return func(yield func(driver.Entry, error) bool) {
					if !flushed { // nothing to merge
						m.List(ctx, prefix, o)(yield)
						return
					}
					for _, last := range []bool{false, true} {
						for e, err := range m.List(ctx, prefix, o) {
							if err == nil && unflushed[e.Key] != last {
								continue
							}
							if !yield(e, err) || err != nil {
								return
							}
						}
					}
				}
			},
		}
	}, "map.list.order"},
	"fails to make a parent that another put has made": {func(m driver.Map) driver.Map {
		var mu sync.Mutex
		var looks meeting
		made := map[string]bool{}
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			dir := path.Dir(key)
			mu.Lock()
			exists := made[dir]
			mu.Unlock()
			if looks.call(); !exists {
				looks.wait(2 * allCalls)
				mu.Lock()
				defer mu.Unlock()
				if made[dir] {
					return driver.Info{}, ncerr.Errorf(ncerr.ErrIO, "put", key, "mkdir: file exists")
				}
				made[dir] = true
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.concurrent.parents"},
	"removes an empty parent during a put": {func(m driver.Map) driver.Map {
		var mu sync.Mutex
		var deletions meeting
		objects := map[string]int{} // by parent, which is there if it has an entry
		return &hooked{
			Map: plain{m},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				dir := path.Dir(key)
				mu.Lock()
				objects[dir] += 0
				mu.Unlock()
				deletions.wait(1)
				mu.Lock()
				defer mu.Unlock()
				if _, ok := objects[dir]; !ok {
					return driver.Info{}, ncerr.Errorf(ncerr.ErrIO, "put", key, "no such directory")
				}
				objects[dir]++
				return m.Put(ctx, key, body, o)
			},
			del: func(ctx context.Context, key string, o *driver.DeleteOptions) error {
				defer deletions.call()
				mu.Lock()
				defer mu.Unlock()
				dir := path.Dir(key)
				if objects[dir]--; objects[dir] == 0 {
					delete(objects, dir)
				}
				return m.Delete(ctx, key, o)
			},
		}
	}, "map.concurrent.delete"},
}
