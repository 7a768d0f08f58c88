package mapsuite_test

import (
	"context"
	"iter"
	"path"
	"strconv"
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

// fifthTrialDefects are defects of a driver over SQLite that the suite missed, or found only
// with another check, each with the check that must fail.
var fifthTrialDefects = map[string]trialDefect{
	"keeps keys in a column of numbers": {func(m driver.Map) driver.Map {
		number := func(key string) string {
			if f, err := strconv.ParseFloat(key, 64); err == nil {
				return strconv.FormatFloat(f, 'g', -1, 64)
			}
			return key
		}
		return &hooked{
			Map: plain{m},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				return m.Put(ctx, number(key), body, o)
			},
			get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
				return m.Get(ctx, number(key), o, alloc)
			},
		}
	}, "map.keys.dots"},
	"refuses more than 64 segments": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if strings.Count(key, "/") >= 64 {
				return driver.Info{}, ncerr.ErrBadName
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.keys.deep"},
	"deletes what an existing key matches as a pattern": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, del: func(ctx context.Context, key string, o *driver.DeleteOptions) error {
			if _, err := m.Stat(ctx, key); err != nil {
				return nil
			}
			pattern := strings.NewReplacer("_", "?", "%", "*").Replace(key)
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if err != nil {
					return err
				}
				if matches, _ := path.Match(pattern, e.Key); matches {
					if err := m.Delete(ctx, e.Key, o); err != nil {
						return err
					}
				}
			}
			return nil
		}}
	}, "map.delete.only"},
	"returns the version that a put replaced": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			old, missing := m.Stat(ctx, key)
			info, err := m.Put(ctx, key, body, o)
			if missing == nil {
				info.Version = old.Version
			}
			return info, err
		}}
	}, "map.get.info"},
	"lists an object under a temporary name": {func(m driver.Map) driver.Map {
		listed := make(chan struct{})
		return &hooked{
			Map: plain{m},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if !strings.Contains(key, "flit") {
					return m.Put(ctx, key, body, o)
				}
				if _, err := m.Put(ctx, key+".upload", body, o); err != nil {
					return driver.Info{}, err
				}
				for range 2 { // the second of these listings began after the put
					select {
					case <-listed:
					case <-time.After(10 * time.Millisecond): // there may be no more listings
					}
				}
				if err := m.Delete(ctx, key+".upload", &driver.DeleteOptions{}); err != nil {
					return driver.Info{}, err
				}
				return m.Put(ctx, key, body, o)
			},
			list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
				return func(yield func(driver.Entry, error) bool) {
					m.List(ctx, prefix, o)(yield)
					select {
					case listed <- struct{}{}:
					case <-time.After(time.Millisecond):
					}
				}
			},
		}
	}, "map.concurrent.list"},
}

// guarded is an Opener whose stores can be opened only with the pin with which they were
// created. Its errors contain the pin that was given.
type guarded struct {
	driver.Opener
	pins map[string]string
}

func (o guarded) Describe() driver.Description {
	d := o.Opener.Describe()
	d.Options = []driver.Option{{Name: "pin", Type: "string", Doc: "opens a store", Secret: true}}
	return d
}

func (o guarded) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	var given struct {
		Pin string `json:"pin"`
	}
	if err := driver.DecodeOptions(spec.Options, &given); err != nil {
		return nil, err
	}
	spec.Options = nil
	m, err := o.Opener.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	if spec.Mode == driver.Create {
		o.pins[spec.Path] = given.Pin
	} else if o.pins[spec.Path] != given.Pin {
		return nil, ncerr.Errorf(ncerr.ErrAuth, "open", spec.Path, "wrong pin %s", given.Pin)
	}
	return m, nil
}

func (o guarded) Remove(ctx context.Context, spec driver.OpenSpec) error {
	spec.Options = nil
	return o.Opener.Remove(ctx, spec)
}

// TestSecretOfStore checks that the suite finds a secret in the error of a store that
// another secret opens.
func TestSecretOfStore(t *testing.T) {
	t.Parallel()
	mustFail(t, inMemory(guarded{memmap.NewOpener(), map[string]string{}}), 10*time.Minute, "map.open.secret")
}

// TestPutManyReportedEarly checks that the suite finds results that are reported although
// the transaction that stores the objects is rolled back later.
func TestPutManyReportedEarly(t *testing.T) {
	t.Parallel()
	mustFail(t, inMemory(planted{memmap.NewOpener(), writes(func(m driver.Map, ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
		bodies := make([][]byte, len(reqs))
		for i := range reqs {
			body, err := driver.ReadBody(reqs[i].Body)
			if err != nil {
				return err
			}
			bodies[i] = body
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select { // storing takes a while
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
		for i := range reqs {
			var info driver.Info
			var err error
			if ctx.Err() == nil {
				info, err = m.Put(context.WithoutCancel(ctx), reqs[i].Key, driver.Bytes(bodies[i]), &reqs[i].Opts)
			}
			info.Size = reqs[i].Body.Size()
			sink(i, info, err)
		}
		return nil
	})}), 10*time.Minute, "map.put.many.cancel")
}

// TestLargeLeak checks that the suite stops early if every read leaks much memory.
func TestLargeLeak(t *testing.T) {
	t.Parallel()
	const leak, most = 1 << 20, 4 << 30
	var leaked atomic.Int64
	target := inMemory(planted{memmap.NewOpener(), getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		leaked.Add(leak)
		return m.Get(ctx, key, o, alloc)
	})})
	target.Usage = func() (conformance.Usage, error) {
		return conformance.Usage{Descriptors: 1, Memory: 1<<20 + leaked.Load()}, nil
	}
	mustFail(t, target, 10*time.Minute, "map.lasting.open")
	if n := leaked.Load(); n > most {
		t.Errorf("the suite stops after %d leaked bytes, want at most %d", n, int64(most))
	}
}

// TestRecursiveListingHoldsLock checks that the suite finds a driver whose recursive
// listings keep the database locked.
func TestRecursiveListingHoldsLock(t *testing.T) {
	t.Parallel()
	mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		var listings atomic.Int32
		return &hooked{
			Map: plain{m},
			list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
				return func(yield func(driver.Entry, error) bool) {
					if o.Recursive {
						listings.Add(1)
						defer listings.Add(-1)
					}
					m.List(ctx, prefix, o)(yield)
				}
			},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if listings.Load() > 0 {
					return driver.Info{}, ncerr.Errorf(ncerr.ErrIO, "put", key, "the database is locked")
				}
				return m.Put(ctx, key, body, o)
			},
		}
	}}), 10*time.Minute, "map.lasting.pages")
}

// TestRefusedName checks that a driver whose medium cannot store a name with % conforms.
func TestRefusedName(t *testing.T) {
	t.Parallel()
	target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if strings.Contains(key, "%") {
				return driver.Info{}, ncerr.ErrBadName
			}
			return m.Put(ctx, key, body, o)
		}}
	}})
	mustPass(t, target, "map.delete.only", "map.list.literal")
}

// TestShortKeys checks that a driver that declares short keys conforms.
func TestShortKeys(t *testing.T) {
	t.Parallel()
	const most = 255
	target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		return &hooked{
			Map:  plain{m},
			caps: func() driver.Capabilities { c := plain{m}.Capabilities(); c.MaxKey = most; return c },
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if len(key) > most {
					return driver.Info{}, ncerr.ErrBadName
				}
				return m.Put(ctx, key, body, o)
			},
		}
	}})
	mustPass(t, target, "map.keys.deep", "map.keys.long")
}

// mustPass runs checks and fails if any of them does not pass.
func mustPass(t *testing.T, target *mapsuite.Target, checks ...string) {
	t.Helper()
	r := conformance.Run(t.Context(), mapsuite.Suite(), target, &conformance.Options{Select: checks, Seed: 5, Limit: 10 * time.Minute})
	if len(r.Results) != len(checks) {
		t.Errorf("want %d results, got %d", len(checks), len(r.Results))
	}
	for _, x := range r.Results {
		if x.Status != conformance.StatusPass {
			t.Errorf("%s: %s %s", x.ID, x.Status, x.Message)
		}
	}
}
