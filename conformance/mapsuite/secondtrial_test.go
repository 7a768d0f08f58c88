package mapsuite_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// withSimilarVersion returns the current version of an object in place of version if one of
// them begins with the other. The current version may have only one character.
func withSimilarVersion(ctx context.Context, m driver.Map, key, version string) string {
	info, err := m.Stat(ctx, key)
	if version != "" && err == nil && (strings.HasPrefix(info.Version, version) || strings.HasPrefix(version, info.Version)) {
		return info.Version
	}
	return version
}

var wasted atomic.Pointer[[]byte] // memory that a defect allocates

// secondTrialDefects are defects of a driver over bbolt that the suite missed, each with the
// check that must fail.
var secondTrialDefects = map[string]trialDefect{
	"wraps the context's error": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		if ctx.Err() != nil {
			return nil, driver.Info{}, ncerr.New(ncerr.ErrIO, "get", key, ctx.Err())
		}
		return m.Get(ctx, key, o, alloc)
	}), "map.cancel.before"},
	"yields the context's error after the caller stopped": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for e, err := range m.List(ctx, prefix, o) {
					if yield(e, err) {
						continue
					}
					if err == nil && ctx.Err() != nil {
						yield(driver.Entry{}, ctx.Err())
					}
					return
				}
			}
		}}
	}, "map.cancel.list"},
	"ignores that a canceled commit stored nothing": {writes(func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
		for i := range reqs {
			body, err := driver.ReadBody(reqs[i].Body)
			if err != nil {
				return err
			}
			reqs[i].Body = driver.Bytes(body)
		}
		err := m.(driver.PutManyer).PutMany(ctx, reqs, sink) // memmap implements it
		if ctx.Err() != nil {
			for i := range reqs {
				sink(i, driver.Info{Size: reqs[i].Body.Size()}, nil)
			}
			return nil
		}
		return err
	}), "map.put.many.cancel"},
	"returns memory of its own from GetMany": {reads(func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		for i, r := range reqs {
			data, info, err := m.Get(ctx, r.Key, &r.Opts, driver.Heap)
			sink(i, data, info, err)
		}
		return nil
	}), "map.get.many"},
	"returns a checksum of a whole read": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		data, info, err := m.Get(ctx, key, o, alloc)
		info.CRC32C = "AAAAAA=="
		return data, info, err
	}), "map.get.info"},
	"compares the beginning of a version in a read": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		similar := *o
		similar.IfMatch = withSimilarVersion(ctx, m, key, o.IfMatch)
		return m.Get(ctx, key, &similar, alloc)
	}), "map.get.if-match"},
	"compares the beginning of a version in a write": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			similar := *o
			similar.IfMatch = withSimilarVersion(ctx, m, key, o.IfMatch)
			return m.Put(ctx, key, body, &similar)
		}}
	}, "map.put.if-match"},
	"allocates the length of a range": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		if o.Range != nil && o.Range.Length > 0 {
			memory := make([]byte, min(o.Range.Length, 128<<20))
			wasted.Store(&memory)
		}
		return m.Get(ctx, key, o, alloc)
	}), "map.get.range.huge"},
	"ignores the case of keys above a key": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if n := len(e.Key); err == nil && n < len(key) && key[n] == '/' && strings.EqualFold(key[:n], e.Key) {
					return driver.Info{}, ncerr.ErrObjectExists
				}
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.put.exclusive.apart"},
	"reserves an object at the root": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if key == ".DS_Store" {
				return driver.Info{}, ncerr.ErrBadName
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.keys.common"},
	"does not declare its longest key": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if len(key) > 1<<15 {
				return driver.Info{}, ncerr.ErrBadName
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.keys.long"},
}

// TestContextOfOpen checks that the suite detects a driver that uses the context of Open in
// later calls.
func TestContextOfOpen(t *testing.T) {
	t.Parallel()
	mustFail(t, inMemory(opening{Opener: memmap.NewOpener(), open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
		m, err := o.Open(ctx, spec)
		return &hooked{Map: plain{m}, put: func(_ context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if ctx.Err() != nil {
				return driver.Info{}, ctx.Err()
			}
			return m.Put(ctx, key, body, o)
		}}, err
	}}), 10*time.Minute, "map.get.whole")
}

// TestReadingChangesNothing checks that the suite detects a driver that changes files of a
// store that it opens for reading.
func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(dir string) error{
		"adds a file":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "reader"), nil, 0o666) },
		"sets a time":  func(dir string) error { return os.Chtimes(dir, time.Time{}, time.Unix(1e9, 0)) },
		"sets a mode":  func(dir string) error { return os.Chmod(dir, 0o700) },
		"does nothing": func(string) error { return nil },
	} {
		t.Log(name)
		target := inDirectory(t, func(p string) string { return p })
		target.Opener = opening{Opener: target.Opener, open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err == nil && spec.Mode == driver.Read {
				err = change(spec.Path)
			}
			return m, err
		}}
		if name != "does nothing" {
			mustFail(t, target, 10*time.Minute, "map.open.read-only")
		} else if r := conformance.Run(t.Context(), mapsuite.Suite(), target, &conformance.Options{Select: []string{"map.open.read-only"}, Limit: 10 * time.Minute}); r.Totals.Pass != 1 {
			t.Errorf("a correct driver fails: %+v", r.Results)
		}
	}
}

// TestLeakOfFailedOpen checks that the suite detects a descriptor that is left open when a
// store is missing.
func TestLeakOfFailedOpen(t *testing.T) {
	t.Parallel()
	var descriptors atomic.Int64
	target := inMemory(opening{Opener: memmap.NewOpener(), open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
		m, err := o.Open(ctx, spec)
		if errors.Is(err, ncerr.ErrNoDataset) {
			descriptors.Add(1)
		}
		return m, err
	}})
	target.Usage = func() (conformance.Usage, error) {
		return conformance.Usage{Descriptors: int(descriptors.Load()), Memory: 1 << 20}, nil
	}
	mustFail(t, target, 10*time.Minute, "map.lasting.leaks")
}
