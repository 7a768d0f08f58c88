package mapsuite_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// outside returns a function that wraps a Map, so that its listings also have the
// entries that add returns for the keys outside the prefix.
func outside(add func(key, prefix string, o *driver.ListOptions) (entry string, ok bool)) func(driver.Map) *hooked {
	return func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for e, err := range m.List(ctx, prefix, o) {
					if !yield(e, err) {
						return
					}
				}
				for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
					key, ok := add(e.Key, prefix, o)
					if err != nil || strings.HasPrefix(e.Key, prefix) || !ok || key <= o.StartAfter {
						continue
					}
					e.Key, e.Prefix = key, strings.HasSuffix(key, "/")
					if !yield(e, nil) {
						return
					}
				}
			}
		}}
	}
}

// folding returns a function that wraps a Map, so that one operation ignores the case
// of keys.
func folding(op string) func(driver.Map) *hooked {
	return func(m driver.Map) *hooked {
		folded := renamed(m, strings.ToLower)
		h := &hooked{Map: m}
		switch op {
		case "stat":
			h.stat = folded.stat
		case "delete":
			h.Map = deleting{m, func(ctx context.Context, key string) error {
				return m.Delete(ctx, strings.ToLower(key), &driver.DeleteOptions{})
			}}
		case "delete any case":
			h.Map = deleting{m, func(ctx context.Context, key string) error {
				return deleteIf(ctx, m, func(k string) bool { return strings.EqualFold(k, key) })
			}}
		case "range":
			h.get = func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
				if o.Range != nil {
					key = strings.ToLower(key)
				}
				return m.Get(ctx, key, o, alloc)
			}
		case "if absent":
			h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if o.IfAbsent {
					for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
						if err == nil && strings.EqualFold(e.Key, key) {
							return driver.Info{}, ncerr.ErrObjectExists
						}
					}
				}
				return m.Put(ctx, key, body, o)
			}
		}
		return h
	}
}

// inexact are Maps that confuse names, each with the check that must fail.
var inexact = map[string]struct {
	plant func(m driver.Map) *hooked
	want  string
}{
	"lists an object below itself": {outside(func(key, prefix string, o *driver.ListOptions) (string, bool) {
		return key, o.Recursive && key+"/" == prefix
	}), "map.list.below"},
	"lists by string prefix below the second level": {outside(func(key, prefix string, o *driver.ListOptions) (string, bool) {
		return key, o.Recursive && strings.Count(prefix, "/") > 1 && strings.HasPrefix(key, strings.TrimSuffix(prefix, "/"))
	}), "map.list.below"},
	"lists keys with the same name below other parents": {outside(func(key, prefix string, o *driver.ListOptions) (string, bool) {
		return key, o.Recursive && strings.Count(prefix, "/") > 1 && strings.Contains(key, "/"+prefix)
	}), "map.list.below"},
	"ignores the prefix when it resumes": {outside(func(key, prefix string, o *driver.ListOptions) (string, bool) {
		return key, !o.Recursive && prefix != "" && o.StartAfter > prefix && !strings.HasPrefix(o.StartAfter, prefix) && !strings.Contains(key, "/")
	}), "map.list.below"},
	"converts keys to lower case in Stat":        {folding("stat"), "map.keys.operations"},
	"converts keys to lower case in Delete":      {folding("delete"), "map.keys.operations"},
	"deletes keys without regard to case":        {folding("delete any case"), "map.keys.operations"},
	"converts keys to lower case in range reads": {folding("range"), "map.keys.operations"},
	"checks IfAbsent without regard to case":     {folding("if absent"), "map.keys.operations"},
	"normalizes keys to one Unicode form in Stat": {func(m driver.Map) *hooked {
		return &hooked{Map: m, stat: renamed(m, func(key string) string { return strings.ReplaceAll(key, "e\u0301", "\u00e9") }).stat}
	}, "map.keys.operations"},
}

// TestInexactNamesAreCaught checks that each defect fails the check written for it.
func TestInexactNamesAreCaught(t *testing.T) {
	t.Parallel()
	for name, tc := range inexact {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map { return tc.plant(plain{m}) }}), 10*time.Minute, tc.want)
		})
	}
	lower := func(spec driver.OpenSpec) driver.OpenSpec { spec.Path = strings.ToLower(spec.Path); return spec }
	mustFail(t, inMemory(opening{
		memmap.NewOpener(),
		func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			return o.Open(ctx, lower(spec))
		},
		func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) error {
			return o.Remove(ctx, lower(spec))
		},
	}), 10*time.Minute, "map.open.case")
	mustFail(t, inMemory(opening{memmap.NewOpener(), nil, func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) error {
		_ = o.Remove(ctx, driver.OpenSpec{Path: strings.Replace(spec.Path, ".case", ".Case", 1)})
		return o.Remove(ctx, spec)
	}}), 10*time.Minute, "map.open.case")
}
