package mapsuite_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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

// listedByPut is a Map that lists pages of objects in the order in which they were last
// stored, as a database does that orders by row id and inserts a new row for each put.
func listedByPut(m driver.Map) driver.Map {
	const page = 100
	var mu sync.Mutex
	stored, last := map[string]int{}, 0
	return &hooked{
		Map: plain{m},
		caps: func() driver.Capabilities {
			c := m.Capabilities()
			c.OrderedList = false
			return c
		},
		put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			info, err := m.Put(ctx, key, body, o)
			mu.Lock()
			defer mu.Unlock()
			last++
			stored[key] = last
			return info, err
		},
		list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for e := range m.List(ctx, prefix, o) {
					if e.Prefix { // prefixes have no row of their own
						m.List(ctx, prefix, o)(yield)
						return
					}
				}
				for after := -1; ; {
					var found []driver.Entry
					at := map[string]int{}
					for e, err := range m.List(ctx, prefix, o) {
						if err != nil {
							yield(driver.Entry{}, err)
							return
						}
						mu.Lock()
						at[e.Key] = stored[e.Key]
						mu.Unlock()
						if at[e.Key] > after {
							found = append(found, e)
						}
					}
					slices.SortFunc(found, func(a, b driver.Entry) int { return cmp.Compare(at[a.Key], at[b.Key]) })
					for i, e := range found {
						if i == page {
							break
						}
						if after = at[e.Key]; !yield(e, nil) {
							return
						}
					}
					if len(found) <= page {
						return
					}
				}
			}
		},
	}
}

// trialDefect is a defect of a driver, with the check that must fail.
type trialDefect struct {
	plant func(driver.Map) driver.Map
	want  string
}

// trialDefects are defects of drivers written by an author who knew only the contract, each
// with the check that must fail.
var trialDefects = map[string]trialDefect{
	"lists pages in the order of puts":                      {listedByPut, "map.list.many"},
	"ends a canceled listing after a page without an error": {relistingPages(500), "map.list.many"},
	"refuses names that its database reserves": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if strings.HasPrefix(path.Base(key), "sqlite_") {
				return driver.Info{}, ncerr.ErrInvalid
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.keys.common"},
	"loses the last block of a range that ends with a block": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		const block = 256 << 10
		data, info, err := m.Get(ctx, key, o, alloc)
		if r := o.Range; err == nil && r != nil && r.Offset >= 0 && len(data) > 0 {
			if end := r.Offset + int64(len(data)); end%block == 0 && end-r.Offset > block {
				clear(data[len(data)-block:])
			}
		}
		return data, info, err
	}), "map.get.range.large"},
	"looks for objects below a key with a pattern": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if below, _ := path.Match(strings.ReplaceAll(key, "_", "?"), path.Dir(e.Key)); below && err == nil {
					return driver.Info{}, ncerr.ErrObjectExists
				}
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.put.exclusive.apart"},
	"takes an object for one above every key that begins with its name": {func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if err == nil && strings.HasPrefix(path.Dir(key), e.Key) && path.Dir(key) != e.Key {
					return driver.Info{}, ncerr.ErrObjectExists
				}
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.put.exclusive.apart"},
}

// relistingPages returns a function that wraps a Map, so that it looks at the context only
// after each page of a listing, and then ends the listing without an error.
func relistingPages(size int) func(driver.Map) driver.Map {
	return func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				n := 0
				for e, err := range m.List(context.WithoutCancel(ctx), prefix, o) {
					if n++; n%size == 0 && ctx.Err() != nil || !yield(e, err) {
						return
					}
				}
			}
		}}
	}
}

// TestTrialDefectsAreCaught checks that each defect fails the check written for it.
func TestTrialDefectsAreCaught(t *testing.T) {
	t.Parallel()
	for _, table := range []map[string]trialDefect{trialDefects, secondTrialDefects, fifthTrialDefects, sixthTrialDefects} {
		for name, tc := range table {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mustFail(t, inMemory(planted{memmap.NewOpener(), tc.plant}), 10*time.Minute, tc.want)
			})
		}
	}
}

// TestConditionsOfEachHandle checks that the suite detects a driver that checks conditions
// under a lock of the handle, so that two handles can both succeed.
func TestConditionsOfEachHandle(t *testing.T) {
	t.Parallel()
	mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		var mu sync.Mutex
		return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			mu.Lock()
			defer mu.Unlock()
			info, err := m.Stat(ctx, key)
			switch {
			case o.IfAbsent && err == nil:
				return driver.Info{}, ncerr.ErrObjectExists
			case o.IfMatch != "" && info.Version != o.IfMatch:
				return driver.Info{}, ncerr.ErrConflict
			}
			if !unconditional(o) {
				time.Sleep(time.Millisecond) // another handle stores the object meanwhile
			}
			return m.Put(ctx, key, body, &driver.PutOptions{})
		}}
	}}), 10*time.Minute, "map.put.if-absent.race", "map.put.if-match.race")
}

// inDirectory is a target of stores in memory, each with a directory at its path.
func inDirectory(t *testing.T, name func(path string) string) *mapsuite.Target {
	var n atomic.Int64
	dir := t.TempDir()
	o := opening{
		memmap.NewOpener(),
		func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			spec.Path = name(spec.Path)
			m, err := o.Open(ctx, spec)
			if err == nil && spec.Mode.Writable() {
				err = os.MkdirAll(spec.Path, 0o777)
			}
			return m, err
		},
		func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) error {
			spec.Path = name(spec.Path)
			return errors.Join(o.Remove(ctx, spec), os.RemoveAll(spec.Path))
		},
	}
	return &mapsuite.Target{Opener: o, NewSpec: func() (driver.OpenSpec, func(), error) {
		return driver.OpenSpec{Path: filepath.Join(dir, fmt.Sprint("s", n.Add(1)))}, nil, nil
	}}
}

// TestPathsAreLiteral checks that the suite detects drivers that interpret characters of a
// path, and passes a driver that does not.
func TestPathsAreLiteral(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"ends the path at a question mark": func(p string) string { p, _, _ = strings.Cut(p, "?"); return p },
		"ends the path at a number sign":   func(p string) string { p, _, _ = strings.Cut(p, "#"); return p },
		"unescapes the path":               func(p string) string { return strings.ReplaceAll(p, "%41", "A") },
		"ends the path at a semicolon":     func(p string) string { p, _, _ = strings.Cut(p, ";"); return p },
		"turns spaces into plus signs":     func(p string) string { return strings.ReplaceAll(p, " ", "+") },
		"removes quotes":                   func(p string) string { return strings.ReplaceAll(p, "'", "") },
		"expands variables":                func(p string) string { return os.Expand(p, func(string) string { return "" }) },
		"trims spaces":                     strings.TrimSpace,
	} {
		t.Log(name)
		mustFail(t, inDirectory(t, change), 10*time.Minute, "map.open.paths")
	}
	whole := inDirectory(t, func(p string) string { return p })
	if r := conformance.Run(t.Context(), mapsuite.Suite(), whole, &conformance.Options{Select: []string{"map.open.paths"}, Limit: 10 * time.Minute}); r.Totals.Pass != 1 {
		t.Errorf("a correct driver fails: %+v", r.Results)
	}
}

// TestLeaksOfSomeReads checks that the suite detects a process that leaks only for reads
// that fail, or that keeps the content of objects that were replaced.
func TestLeaksOfSomeReads(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]func(version string, n int, err error, seen *sync.Map) conformance.Usage{
		"a descriptor for each failed range": func(_ string, _ int, err error, _ *sync.Map) conformance.Usage {
			if err != nil && ncerr.KindOf(err) == ncerr.ErrRange {
				return conformance.Usage{Descriptors: 1}
			}
			return conformance.Usage{}
		},
		"a descriptor for each conflict": func(_ string, _ int, err error, _ *sync.Map) conformance.Usage {
			if err != nil && ncerr.KindOf(err) == ncerr.ErrConflict {
				return conformance.Usage{Descriptors: 1}
			}
			return conformance.Usage{}
		},
		"the content of each version": func(version string, n int, _ error, seen *sync.Map) conformance.Usage {
			if _, twice := seen.LoadOrStore(version, true); !twice {
				return conformance.Usage{Memory: int64(n)}
			}
			return conformance.Usage{}
		},
	} {
		var descriptors, memory atomic.Int64
		var seen sync.Map
		target := inMemory(planted{memmap.NewOpener(), getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			u := kept(info.Version, len(data), err, &seen)
			descriptors.Add(int64(u.Descriptors))
			memory.Add(u.Memory)
			return data, info, err
		})})
		target.Usage = func() (conformance.Usage, error) {
			return conformance.Usage{Descriptors: int(descriptors.Load()), Memory: memory.Load()}, nil
		}
		t.Log(name)
		mustFail(t, target, 10*time.Minute, "map.lasting.open")
	}
}
