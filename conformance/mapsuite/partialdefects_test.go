package mapsuite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
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

// pagedBy returns a function that wraps a Map, so that it lists pages of size entries and
// continues after the number of entries listed so far.
func pagedBy(size int) func(driver.Map) driver.Map {
	return func(m driver.Map) driver.Map {
		return &hooked{Map: plain{m}, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for from := 0; ; from += size {
					var page []driver.Entry
					at := 0
					for e, err := range m.List(ctx, prefix, o) {
						if err != nil {
							yield(driver.Entry{}, err)
							return
						}
						if at++; at > from && at <= from+size {
							page = append(page, e)
						}
					}
					for _, e := range page {
						if err := ctx.Err(); err != nil {
							yield(driver.Entry{}, err)
							return
						}
						if !yield(e, nil) {
							return
						}
					}
					if len(page) < size {
						return
					}
				}
			}
		}}
	}
}

// TestPartialDefects checks that the suite detects defects that affect only some calls
// or another handle.
func TestPartialDefects(t *testing.T) {
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
		"omits keys that start with underscores":                      {relisting(func(e *driver.Entry) bool { return !strings.HasPrefix(e.Key, "__") }), "map.keys.opaque"},
		"continues a listing after the number of entries so far":      {pagedBy(20), "map.list.many"},
		"continues a listing of large pages after the entries so far": {pagedBy(300), "map.list.many"},
		"continues a long listing after the number of entries so far": {pagedBy(5000), "map.lasting.pages"},
		"reads the object in Stat": {func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, stat: func(ctx context.Context, key string) (driver.Info, error) {
				_, info, err := m.Get(ctx, key, &driver.GetOptions{}, driver.Heap)
				return info, err
			}}
		}, "map.stat.unread"},
		"reads a file as long as the object in Stat": {func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, stat: func(ctx context.Context, key string) (driver.Info, error) {
				info, err := m.Stat(ctx, key)
				if f, e := os.Open("/dev/zero"); e == nil {
					_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(f, info.Size), make([]byte, 4096))
					_ = f.Close()
				}
				return info, err
			}}
		}, "map.stat.unread"},
		"hides files that begin with ._": {relisting(func(e *driver.Entry) bool { return !strings.HasPrefix(path.Base(e.Key), "._") }), "map.keys.common"},
		"hides files and directories that end with ~": {relisting(func(e *driver.Entry) bool {
			return !strings.HasSuffix(strings.TrimSuffix(e.Key, "/"), "~")
		}), "map.keys.common"},
		"refuses Thumbs.db": {func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if strings.HasSuffix(key, "Thumbs.db") {
					return driver.Info{}, ncerr.ErrBadName
				}
				return m.Put(ctx, key, body, o)
			}}
		}, "map.keys.common"},
		"reserves names that begin with its own": {func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if strings.HasPrefix(key, ".mem") {
					return driver.Info{}, ncerr.ErrBadName
				}
				return m.Put(ctx, key, body, o)
			}}
		}, "map.keys.common"},
		"does not read what ends in .lock": {getting(func(m driver.Map, ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if strings.HasSuffix(key, ".lock") {
				return nil, driver.Info{}, ncerr.ErrNotFound
			}
			return m.Get(ctx, key, o, alloc)
		}), "map.keys.common"},
		"does not delete what is hidden": {func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, del: func(ctx context.Context, key string, o *driver.DeleteOptions) error {
				if strings.HasPrefix(path.Base(key), ".") {
					return nil
				}
				return m.Delete(ctx, key, o)
			}}
		}, "map.keys.common"},
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
	for name, o := range map[string]described{
		"refuses a described option":                             {option: driver.Option{Name: "cache", Type: "size", Default: "1MiB"}, allows: func(any) bool { return false }},
		"refuses a described string":                             {option: driver.Option{Name: "color", Type: "string"}, allows: func(any) bool { return false }},
		"refuses false":                                          {option: driver.Option{Name: "safe", Type: "bool", Default: "true"}, allows: func(v any) bool { return v == true }},
		"refuses a size in bytes":                                {option: driver.Option{Name: "cache", Type: "size", Default: "1MiB"}, allows: func(v any) bool { return v == "1MiB" }},
		"describes a default that is not of the type":            {option: driver.Option{Name: "safe", Type: "bool", Default: "yes, mostly"}, allows: func(any) bool { return true }},
		"describes a default below the minimum":                  {option: driver.Option{Name: "page", Type: "int", Default: "0"}, allows: func(v any) bool { return v != 0.0 }},
		"describes an unknown type":                              {option: driver.Option{Name: "page", Type: "number", Default: "1"}, allows: func(any) bool { return true }},
		"reads an option that it does not describe":              {option: driver.Option{Name: "safe", Type: "bool"}, undescribed: "debug", allows: func(any) bool { return true }},
		"reads a dash in the name of an option as an underscore": {option: driver.Option{Name: "page_size", Type: "int", Default: "7"}, undescribed: "page-size", allows: func(any) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Opener, o.option.Doc = memmap.NewOpener(), "an option"
			mustFail(t, inMemory(o), 10*time.Minute, "map.open.options")
		})
	}
	t.Run("describes its options", func(t *testing.T) {
		t.Parallel()
		o := described{memmap.NewOpener(), driver.Option{Name: "page", Type: "int", Default: "7", Doc: "an option"}, "", func(v any) bool { return v == 7.0 }}
		if r := conformance.Run(t.Context(), mapsuite.Suite(), inMemory(o), &conformance.Options{Select: []string{"map.open.options"}, Limit: 10 * time.Minute}); r.Totals.Pass != 1 {
			t.Errorf("a correct driver fails: %+v", r.Results)
		}
	})
	t.Run("reuses the options of the previous request for the same key", func(t *testing.T) {
		t.Parallel()
		mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
			return getManyMap{m, func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
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

// described is an Opener that describes one option and accepts the values for which allows
// returns true. It also accepts the option named undescribed, which it does not describe.
type described struct {
	driver.Opener
	option      driver.Option
	undescribed string
	allows      func(value any) bool
}

func (d described) Describe() driver.Description {
	x := d.Opener.Describe()
	x.Options = []driver.Option{d.option}
	return x
}

func (d described) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	given := map[string]any{}
	if len(spec.Options) > 0 {
		if err := json.Unmarshal(spec.Options, &given); err != nil {
			return nil, err
		}
	}
	for name, value := range given {
		if name != d.undescribed && (name != d.option.Name || !d.allows(value)) {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "option %s is %v", name, value)
		}
	}
	spec.Options = nil
	return d.Opener.Open(ctx, spec)
}

// lenient is an Opener that accepts any value for its only option.
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
