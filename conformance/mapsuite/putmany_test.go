package mapsuite_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// self starts this test binary as a plugin.
var self plugin.Self

func TestMain(m *testing.M) {
	self = plugin.Main(putDrivers())
	os.Exit(m.Run())
}

// putDefects are defective implementations of PutMany, each with the check that must
// fail.
var putDefects = []struct { // never changed
	name, want string
	puts       func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error
}{
	{"swallows-errors", "map.put.many", eachPut(func(_ int, r driver.PutRequest, put putFunc) (driver.Info, error) {
		if info, err := put(r); err == nil {
			return info, nil
		}
		return driver.Info{Size: r.Body.Size()}, nil
	})},
	{"wrong-key", "map.put.many", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
		return eachPut(func(i int, r driver.PutRequest, put putFunc) (driver.Info, error) {
			if i%16 == 8 && i+8 < len(reqs) { // neither request has a condition
				r.Key = reqs[i+8].Key
			}
			return put(r)
		})(m, ctx, reqs, sink)
	}},
	{"stores-twice", "map.put.many", eachPut(func(i int, r driver.PutRequest, put putFunc) (driver.Info, error) {
		if i == 0 {
			if _, err := put(driver.PutRequest{Key: r.Key + "0", Body: r.Body}); err != nil {
				return driver.Info{}, err
			}
		}
		return put(r)
	})},
	{"ignores-if-match", "map.put.many", eachPut(func(_ int, r driver.PutRequest, put putFunc) (driver.Info, error) {
		r.Opts.IfMatch = ""
		return put(r)
	})},
	{"ignores-if-absent", "map.put.many", eachPut(func(_ int, r driver.PutRequest, put putFunc) (driver.Info, error) {
		r.Opts.IfAbsent = false
		return put(r)
	})},
	{"one-version", "map.put.many", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
		version := ""
		return eachPut(func(_ int, r driver.PutRequest, put putFunc) (driver.Info, error) {
			info, err := put(r)
			if version == "" {
				version = info.Version
			}
			info.Version = version
			return info, err
		})(m, ctx, reqs, sink)
	}},
	{"stops-at-error", "map.put.many", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
		var failed error
		return eachPut(func(_ int, r driver.PutRequest, put putFunc) (driver.Info, error) {
			if failed != nil {
				return driver.Info{}, failed
			}
			info, err := put(r)
			failed = err
			return info, err
		})(m, ctx, reqs, sink)
	}},
	{"first-error", "map.put.many", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
		for i, r := range reqs {
			info, err := m.Put(ctx, r.Key, r.Body, &r.Opts)
			if err != nil {
				return err
			}
			sink(i, info, nil)
		}
		return nil
	}},
	{"all-or-nothing", "map.put.many", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
		for _, r := range reqs {
			if _, err := m.Stat(ctx, r.Key); err == nil && r.Opts.IfAbsent {
				for i := range reqs {
					sink(i, driver.Info{}, ncerr.ErrObjectExists)
				}
				return nil
			}
		}
		return m.(driver.PutManyer).PutMany(ctx, reqs, sink) // memmap implements it
	}},
}

type putFunc func(r driver.PutRequest) (driver.Info, error)

// eachPut returns a PutMany that makes the puts one by one.
func eachPut(f func(i int, r driver.PutRequest, put putFunc) (driver.Info, error)) func(driver.Map, context.Context, []driver.PutRequest, driver.PutSink) error {
	return func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
		for i, r := range reqs {
			info, err := f(i, r, func(r driver.PutRequest) (driver.Info, error) { return m.Put(ctx, r.Key, r.Body, &r.Opts) })
			sink(i, info, err)
		}
		return nil
	}
}

// putManyMap is a Map with a replaced PutMany method.
type putManyMap struct {
	driver.Map
	puts func(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error
}

func (w putManyMap) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	return w.puts(ctx, reqs, sink)
}

func writes(puts func(driver.Map, context.Context, []driver.PutRequest, driver.PutSink) error) func(driver.Map) driver.Map {
	return func(m driver.Map) driver.Map {
		return putManyMap{m, func(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
			return puts(m, ctx, reqs, sink)
		}}
	}
}

// named is a driver with another name.
type named struct {
	driver.Opener
	name string
}

func (n named) Describe() driver.Description {
	d := n.Opener.Describe()
	d.Name = n.name
	return d
}

// putDrivers returns memory drivers: a correct one, and one with each of putDefects.
func putDrivers() plugin.Builtin {
	b := plugin.Builtin{Openers: []driver.Opener{memmap.NewOpener()}}
	for _, d := range putDefects {
		b.Openers = append(b.Openers, named{planted{memmap.NewOpener(), writes(d.puts)}, d.name})
	}
	return b
}

// TestPutDefectsAreCaught checks that each defect is found in this process, through the
// plugin protocol, and in a separate process with and without shared memory.
func TestPutDefectsAreCaught(t *testing.T) {
	t.Parallel()
	ways := map[string]*host.Options{
		"in this process": nil, "loopback": {Isolation: host.Loopback}, "process": {Isolation: host.Process},
		"process without shared memory": {Isolation: host.Process, InlineOnly: true},
	}
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			find := putDriverHere
			if o != nil {
				find = hosted(t, *o)
			}
			r := conformance.Run(t.Context(), mapsuite.Suite(), find("mem"), &conformance.Options{Select: []string{"map.put.many*"}, Limit: 10 * time.Minute})
			if !r.OK() || r.Totals.Pass != 3 {
				t.Errorf("a correct driver fails: %+v, %+v", r.Totals, r.Results)
			}
			for _, d := range putDefects {
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					mustFail(t, find(d.name), 10*time.Minute, d.want)
				})
			}
		})
	}
}

// putDriverHere returns a target with a driver of putDrivers in this process.
func putDriverHere(name string) *mapsuite.Target {
	for _, o := range putDrivers().Openers {
		if o.Describe().Name == name {
			return inMemory(o)
		}
	}
	return nil
}

// hosted returns a function that finds drivers of putDrivers through a plugin host.
func hosted(t *testing.T, o host.Options) func(name string) *mapsuite.Target {
	o.Self, o.Builtin, o.StartTimeout, o.TempDir, o.MaxMemory = self, putDrivers(), 2*time.Minute, t.TempDir(), -1
	dir := t.TempDir()
	o.Roots = []string{dir}
	h, err := host.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	var n atomic.Int64
	return func(name string) *mapsuite.Target {
		opener, err := h.Driver(name)
		if err != nil {
			t.Fatal(err)
		}
		return &mapsuite.Target{Opener: opener, NewSpec: func() (driver.OpenSpec, func(), error) {
			return driver.OpenSpec{Path: filepath.Join(dir, fmt.Sprint("s", n.Add(1)))}, nil, nil
		}}
	}
}

// TestPutManyDefectsInProcess checks that the suite detects defects that occur only in
// the process of the caller.
func TestPutManyDefectsInProcess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		want string
		puts func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error
	}{
		"drops the last of every 16 requests": {"map.put.many", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
			if len(reqs) > 0 && len(reqs)%16 == 0 {
				reqs = reqs[:len(reqs)-1]
			}
			return m.(driver.PutManyer).PutMany(ctx, reqs, sink) // memmap implements it
		}},
		"reports results before it stores": {"map.put.many.cancel", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
			for i, r := range reqs {
				sink(i, driver.Info{Size: r.Body.Size()}, nil)
			}
			return m.(driver.PutManyer).PutMany(ctx, reqs, func(int, driver.Info, error) {})
		}},
		"stores after it returned": {"map.put.many.cancel", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
			for i, r := range reqs {
				if ctx.Err() != nil {
					body, _ := driver.ReadBody(r.Body)
					body = bytes.Clone(body)
					time.AfterFunc(10*time.Millisecond, func() { _, _ = m.Put(context.WithoutCancel(ctx), r.Key, driver.Bytes(body), &r.Opts) })
					continue
				}
				info, err := m.Put(ctx, r.Key, r.Body, &r.Opts)
				sink(i, info, err)
			}
			return ctx.Err()
		}},
		"clears the bodies": {"map.put.many.released", func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
			err := m.(driver.PutManyer).PutMany(ctx, reqs, sink)
			for _, r := range reqs {
				if b, ok := r.Body.(driver.Bytes); ok {
					clear(b)
				}
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, inMemory(planted{memmap.NewOpener(), writes(tc.puts)}), 10*time.Minute, tc.want)
		})
	}
}
