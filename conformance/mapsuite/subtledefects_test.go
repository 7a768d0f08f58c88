package mapsuite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// storing returns a function that wraps a Map, so that f changes the content before it is
// stored.
func storing(f func([]byte) []byte) func(driver.Map) *hooked {
	return func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			b, err := driver.ReadBody(body)
			if err != nil {
				return driver.Info{}, err
			}
			return m.Put(ctx, key, driver.Bytes(f(slices.Clone(b))), o)
		}}
	}
}

// versioning returns a function that wraps a Map, so that f changes the version returned by
// Put.
func versioning(f func(content []byte, version string) string) func(driver.Map) *hooked {
	return func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			info, err := m.Put(ctx, key, body, o)
			if b, e := driver.ReadBody(body); e == nil && err == nil {
				info.Version = f(b, info.Version)
			}
			return info, err
		}}
	}
}

// ranging returns a function that wraps a Map, so that f changes the range to read.
func ranging(f func(r driver.Range, size int64) driver.Range) func(driver.Map) *hooked {
	return func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if info, err := m.Stat(ctx, key); err == nil && o.Range != nil {
				r := f(*o.Range, info.Size)
				o = &driver.GetOptions{Range: &r, Limit: o.Limit, IfMatch: o.IfMatch}
			}
			return m.Get(ctx, key, o, alloc)
		}}
	}
}

// deleting is a Map with a replaced Delete method.
type deleting struct {
	driver.Map
	del func(ctx context.Context, key string) error
}

func (d deleting) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	return d.del(ctx, key)
}

// listing returns a function that wraps a Map, so that f changes the entries of a listing.
func listing(f func([]driver.Entry) []driver.Entry) func(driver.Map) *hooked {
	return func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				var all []driver.Entry
				for e, err := range m.List(ctx, prefix, o) {
					if err != nil {
						yield(driver.Entry{}, err)
						return
					}
					all = append(all, e)
				}
				for _, e := range f(all) {
					if !yield(e, nil) {
						return
					}
				}
			}
		}}
	}
}

// getManyMap is a Map with a replaced GetMany method.
type getManyMap struct {
	driver.Map
	many func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error
}

func (s getManyMap) GetMany(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
	return s.many(ctx, reqs, sink)
}

// manyDefects are defective implementations of GetMany.
var manyDefects = map[string]func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error{ // never changed
	"handles only the first 999 requests": func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		return m.(driver.GetManyer).GetMany(ctx, reqs[:min(len(reqs), 999)], sink) // memmap implements it
	},
	"drops the last of every 16 requests": func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		if len(reqs) > 0 && len(reqs)%16 == 0 {
			reqs = reqs[:len(reqs)-1]
		}
		return m.(driver.GetManyer).GetMany(ctx, reqs, sink) // memmap implements it
	},
	"ignores limits": func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		reqs = slices.Clone(reqs)
		for i := range reqs {
			reqs[i].Opts.Limit = 0
		}
		return m.(driver.GetManyer).GetMany(ctx, reqs, sink) // memmap implements it
	},
	"ignores versions": func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		reqs = slices.Clone(reqs)
		for i := range reqs {
			reqs[i].Opts.IfMatch = ""
		}
		return m.(driver.GetManyer).GetMany(ctx, reqs, sink) // memmap implements it
	},
	"copies data to its own memory": func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		return m.(driver.GetManyer).GetMany(ctx, reqs, func(i int, data []byte, info driver.Info, err error) { // memmap implements it
			sink(i, bytes.Clone(data), info, err)
		})
	},
	"calls the sink concurrently": func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		var wg sync.WaitGroup
		for i, r := range reqs {
			wg.Go(func() {
				alloc := r.Alloc
				if alloc == nil {
					alloc = driver.Heap
				}
				data, info, err := m.Get(ctx, r.Key, &r.Opts, alloc)
				sink(i, data, info, err)
			})
		}
		wg.Wait()
		return nil
	},
}

// subtleDefects are defective Maps, each with the check that must fail.
var subtleDefects = map[string]struct {
	plant func(m driver.Map) *hooked
	want  string
}{
	"uses 8-bit versions": {func() func(m driver.Map) *hooked {
		var n atomic.Uint64
		return versioning(func([]byte, string) string { return strconv.FormatUint(n.Add(1)&0xFF, 10) })
	}(), "map.get.version"},
	"computes versions from the first 4 KiB": {versioning(func(b []byte, _ string) string {
		return fmt.Sprint(len(b), crc32.ChecksumIEEE(b[:min(len(b), 4096)]))
	}), "map.get.version"},
	"uses checksums as versions": {versioning(func(b []byte, _ string) string {
		return fmt.Sprint(len(b), crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}), "map.get.version"},
	"invalidates versions at each flush": {func(m driver.Map) *hooked {
		flushes := 0
		h := versioning(func(_ []byte, v string) string { return fmt.Sprint(v, ".", flushes) })(m)
		put := h.put
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if o.IfMatch != "" {
				v, n, _ := strings.Cut(o.IfMatch, ".")
				if n != strconv.Itoa(flushes) {
					return driver.Info{}, ncerr.ErrConflict
				}
				o = &driver.PutOptions{IfMatch: v}
			}
			return put(ctx, key, body, o)
		}
		h.flush = func(ctx context.Context) error { flushes++; return m.Flush(ctx) }
		return h
	}, "map.put.if-match"},
	"keeps partial content after cancellation": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			b, ok := body.(driver.Bytes)
			if !ok || len(b) < 1<<20 {
				return m.Put(ctx, key, body, o)
			}
			select {
			case <-ctx.Done():
				_, _ = m.Put(context.WithoutCancel(ctx), key, b[:len(b)/2], o)
				return driver.Info{}, ctx.Err()
			case <-time.After(20 * time.Millisecond): // about as long as storing the rest takes
				return m.Put(ctx, key, body, o)
			}
		}}
	}, "map.cancel.put"},
	"restarts version numbers after a deletion": {func(m driver.Map) *hooked {
		n := 0
		return versioning(func([]byte, string) string { n++; return strconv.Itoa(n) })(deleting{m, func(ctx context.Context, key string) error {
			n = 0
			return m.Delete(ctx, key, &driver.DeleteOptions{})
		}})
	}, "map.get.version"},
	"repeats a block of long ranges": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			if err == nil && o.Range != nil && o.Range.Offset > 0 && len(data) > 1<<20 {
				copy(data[2<<18:3<<18], data[1<<18:])
			}
			return data, info, err
		}}
	}, "map.get.range.large"},
	"normalizes JSON documents": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			b, err := driver.ReadBody(body)
			var doc any
			if err == nil && strings.HasSuffix(key, "/zarr.json") && json.Unmarshal(b, &doc) == nil {
				b, err = json.Marshal(doc)
			}
			if err != nil {
				return driver.Info{}, err
			}
			return m.Put(ctx, key, driver.Bytes(b), o)
		}}
	}, "map.put.contents"},
	"refuses versions that are not its own": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if _, err := strconv.ParseUint(o.IfMatch, 10, 64); err != nil && o.IfMatch != "" {
				return nil, driver.Info{}, ncerr.ErrInvalid
			}
			return m.Get(ctx, key, o, alloc)
		}}
	}, "map.get.if-match"},
	"stops writing after a read that fails": {func(m driver.Map) *hooked {
		stuck := false
		return &hooked{
			Map: m,
			get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
				data, info, err := m.Get(ctx, key, o, alloc)
				stuck = stuck || err != nil && ncerr.KindOf(err) == ncerr.ErrLimit
				return data, info, err
			},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if stuck {
					return driver.Info{}, ncerr.ErrIO
				}
				return m.Put(ctx, key, body, o)
			},
		}
	}, "map.get.limit"},
	"loses puts during a flush": {func(m driver.Map) *hooked {
		var flushing atomic.Bool
		return &hooked{
			Map: m,
			flush: func(ctx context.Context) error {
				flushing.Store(true)
				defer flushing.Store(false)
				for range 100 {
					runtime.Gosched()
				}
				return m.Flush(ctx)
			},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				for strings.HasPrefix(key, "f/0/") && !flushing.Load() {
					runtime.Gosched() // until a flush has begun
				}
				if flushing.Load() {
					return driver.Info{}, nil
				}
				return m.Put(ctx, key, body, o)
			},
		}
	}, "map.concurrent.flush"},
	"continues a listing after the entry that follows a deleted one": {func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				last := ""
				for {
					var page []driver.Entry
					skip := last != ""
					for e, err := range m.List(ctx, prefix, o) {
						if err != nil {
							yield(e, err)
							return
						}
						if e.Key >= last && len(page) < 100 {
							if !skip {
								page = append(page, e)
							}
							skip = false
						}
					}
					for _, e := range page {
						if err := ctx.Err(); err != nil {
							yield(driver.Entry{}, err)
							return
						}
						if last = e.Key; !yield(e, nil) {
							return
						}
					}
					if len(page) < 100 {
						return
					}
				}
			}
		}}
	}, "map.list.many"},
	"shares scratch memory between short reads": {func(m driver.Map) *hooked {
		var mu sync.Mutex
		scratch := make([]byte, 64<<10)
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, driver.Heap)
			if err != nil {
				return nil, info, err
			}
			if len(data) <= len(scratch) {
				mu.Lock()
				n := copy(scratch, data)
				mu.Unlock()
				data = scratch[:n]
			}
			dst, err := alloc(int64(len(data)))
			if err == nil {
				mu.Lock()
				copy(dst, data)
				mu.Unlock()
			}
			return dst, info, err
		}}
	}, "map.concurrent.reads"},
	"keeps the end of an old object above 1 MiB": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			b, err := driver.ReadBody(body)
			if err != nil {
				return driver.Info{}, err
			}
			if old, _, err := m.Get(ctx, key, &driver.GetOptions{}, driver.Heap); err == nil && len(b) > 1<<20 && len(old) > len(b) {
				b = slices.Concat(b, old[len(b):])
			}
			return m.Put(ctx, key, driver.Bytes(b), o)
		}}
	}, "map.put.shorter"},
	"drops the last byte of whole mebibytes": {storing(func(b []byte) []byte {
		if len(b) > 0 && len(b)%(1<<20) == 0 {
			b = b[:len(b)-1]
		}
		return b
	}), "map.get.whole"},
	"omits empty objects from listings": {listing(func(all []driver.Entry) []driver.Entry {
		return slices.DeleteFunc(all, func(e driver.Entry) bool { return !e.Prefix && e.Info.Size == 0 })
	}), "map.get.empty"},
	"compacts JSON": {storing(func(b []byte) []byte {
		var out bytes.Buffer
		if json.Compact(&out, b) == nil {
			return out.Bytes()
		}
		return b
	}), "map.put.contents"},
	"converts CRLF to LF":    {storing(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }), "map.put.contents"},
	"replaces invalid UTF-8": {storing(func(b []byte) []byte { return bytes.ToValidUTF8(b, []byte("?")) }), "map.put.contents"},
	"trims trailing zeros":   {storing(func(b []byte) []byte { return bytes.TrimRight(b, "\x00") }), "map.put.contents"},
	"deduplicates contents by their first 1024 bytes": {func() func(m driver.Map) *hooked {
		seen := map[string][]byte{}
		return storing(func(b []byte) []byte {
			if len(b) < 1024 {
				return b
			}
			head := strconv.Itoa(len(b)) + string(b[:1024])
			if seen[head] == nil {
				seen[head] = b
			}
			return seen[head]
		})
	}(), "map.put.contents"},
	"deduplicates contents by a 16-bit checksum": {func() func(m driver.Map) *hooked {
		seen := map[uint32][]byte{}
		return storing(func(b []byte) []byte {
			sum := crc32.ChecksumIEEE(b) & 0xFFFF
			if seen[sum] == nil {
				seen[sum] = b
			}
			return seen[sum]
		})
	}(), "map.lasting.pages"},
	"skips puts with the same first and last bytes": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			old, info, err := m.Get(ctx, key, &driver.GetOptions{}, driver.Heap)
			b, e := driver.ReadBody(body)
			if err == nil && e == nil && len(old) == len(b) && len(b) > 20 && string(old[:10]) == string(b[:10]) && string(old[len(b)-10:]) == string(b[len(b)-10:]) {
				return info, nil
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.put.same-length"},
	"modifies the body": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			info, err := m.Put(ctx, key, body, o)
			if b, ok := body.(driver.Bytes); ok && len(b) > 0 {
				b[0]++
			}
			return info, err
		}}
	}, "map.put.body-released"},
	"checks for conflicting prefixes without a lock": {func(m driver.Map) *hooked {
		flat := func(key string) string { return strings.ReplaceAll(key, "/", "|") }
		h := renamed(m, flat)
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if err == nil && (strings.HasPrefix(e.Key, flat(key+"/")) || strings.HasPrefix(flat(key), e.Key+"|")) {
					return driver.Info{}, ncerr.ErrObjectExists
				}
			}
			b, err := driver.ReadBody(reread{body})
			if err != nil {
				return driver.Info{}, err
			}
			return m.Put(ctx, flat(key), driver.Bytes(b), o)
		}
		return h
	}, "map.put.exclusive.race"},
	"takes any string prefix for a parent key": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if err == nil && e.Key != key && strings.HasPrefix(e.Key, key) {
					return driver.Info{}, ncerr.ErrObjectExists
				}
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.keys.apart"},
	"delays deletion until the next put": {func(m driver.Map) *hooked {
		gone := ""
		return &hooked{Map: deleting{m, func(_ context.Context, key string) error { gone = key; return nil }}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if gone != "" {
				_ = m.Delete(ctx, gone, &driver.DeleteOptions{})
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.delete.gone"},
	"does not delete empty objects": {func(m driver.Map) *hooked {
		return &hooked{Map: deleting{m, func(ctx context.Context, key string) error {
			if info, err := m.Stat(ctx, key); err == nil && info.Size == 0 {
				return nil
			}
			return m.Delete(ctx, key, &driver.DeleteOptions{})
		}}}
	}, "map.delete.gone"},
	"deletes every key with the prefix": {func(m driver.Map) *hooked {
		return &hooked{Map: deleting{m, func(ctx context.Context, key string) error {
			return deleteIf(ctx, m, func(k string) bool { return strings.HasPrefix(k, key) })
		}}}
	}, "map.delete.only"},
	"deletes the next key if the key does not exist": {func(m driver.Map) *hooked {
		return &hooked{Map: deleting{m, func(ctx context.Context, key string) error {
			found := false
			return deleteIf(ctx, m, func(k string) bool {
				first := k >= key && !found
				found = found || first
				return first
			})
		}}}
	}, "map.delete.only"},
	"sorts keys in UTF-16 order": {listing(func(all []driver.Entry) []driver.Entry {
		slices.SortFunc(all, func(a, b driver.Entry) int {
			return slices.Compare(utf16.Encode([]rune(a.Key)), utf16.Encode([]rune(b.Key)))
		})
		return all
	}), "map.list.order"},
	"skips the key after a prefix": {listing(func(all []driver.Entry) []driver.Entry {
		return slices.DeleteFunc(all, func(e driver.Entry) bool { return e.Key == "a0" })
	}), "map.list.order"},
	"lists a prefix twice": {listing(func(all []driver.Entry) []driver.Entry {
		for i, e := range all {
			if e.Key == "b/" {
				return slices.Insert(all, i, e)
			}
		}
		return all
	}), "map.list.order"},
	"normalizes prefixes to one Unicode form": {func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return m.List(ctx, strings.ReplaceAll(prefix, "e\u0301", "\u00e9"), o)
		}}
	}, "map.list.literal"},
	"resumes a listing without regard to case": {listingAfter(func(key, after string) bool { return strings.ToLower(key) > strings.ToLower(after) }), "map.list.start-after"},
	"lists wrong versions": {listing(func(all []driver.Entry) []driver.Entry {
		for i := range all {
			all[i].Info.Version = "listed"
		}
		return all
	}), "map.list.sizes"},
	"lists wrong times": {listing(func(all []driver.Entry) []driver.Entry {
		for i := range all {
			all[i].Info.ModTime = time.Unix(3, 0)
		}
		return all
	}), "map.list.sizes"},
	"leaks the connections of abandoned listings": {pooled(64, true), "map.list.many"},
	"hangs if all 8 connections are in use":       {pooled(8, false), "map.list.beside"},
	"hangs in a put during a listing": {func(m driver.Map) *hooked {
		var mu sync.Mutex
		return &hooked{
			Map: m,
			list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
				return func(yield func(driver.Entry, error) bool) {
					if mu.TryLock() { // only the first of several listings
						defer mu.Unlock()
					}
					m.List(ctx, prefix, o)(yield)
				}
			},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				for !mu.TryLock() {
					if ctx.Err() != nil {
						return driver.Info{}, ctx.Err()
					}
					runtime.Gosched()
				}
				defer mu.Unlock()
				return m.Put(ctx, key, body, o)
			},
		}
	}, "map.list.beside"},
	"skips keys that start with the last key of a page": {func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				n, end := 0, ""
				for e, err := range m.List(ctx, prefix, o) {
					if end != "" && strings.HasPrefix(e.Key, end) {
						continue
					}
					if end = ""; !yield(e, err) {
						return
					}
					if n++; n%1000 == 0 {
						end = e.Key
					}
				}
			}
		}}
	}, "map.lasting.pages"},
	"normalizes numeric keys": {func(m driver.Map) *hooked {
		return renamed(m, func(key string) string {
			if f, err := strconv.ParseFloat(key, 64); err == nil {
				return strconv.FormatFloat(math.Abs(f), 'g', -1, 64)
			}
			return key
		})
	}, "map.keys.odd"},
	"trims spaces from keys": {func(m driver.Map) *hooked { return renamed(m, strings.TrimSpace) }, "map.keys.odd"},
	"removes invisible characters from keys": {func(m driver.Map) *hooked {
		return renamed(m, func(key string) string {
			return strings.NewReplacer("\u200d", "", "\u200b", "", "\u00ad", "").Replace(key)
		})
	}, "map.keys.case"},
	"shortens a suffix range of the whole object": {ranging(func(r driver.Range, size int64) driver.Range {
		if r.Offset == -size {
			r.Offset++
		}
		return r
	}), "map.get.range.suffix-whole"},
	"reads to the end if the range overflows": {ranging(func(r driver.Range, _ int64) driver.Range {
		if r.Offset > 0 && r.Length > 0 && r.Offset+r.Length < 0 {
			r.Length = -1
		}
		return r
	}), "map.get.range.overflow"},
	"stores large objects in two steps": {func(m driver.Map) *hooked {
		h := &hooked{Map: m}
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if b, ok := body.(driver.Bytes); ok && len(b) > 1<<20 && unconditional(o) {
				_, _ = m.Put(ctx, key, b[:len(b)/2], o)
				h.reads.wait(allCalls)
			}
			return m.Put(ctx, key, body, o)
		}
		return h
	}, "map.concurrent.same-key"},
	"returns the version of a later put": {func(m driver.Map) *hooked {
		h := &hooked{Map: m}
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if _, err := m.Put(ctx, key, body, o); err != nil {
				return driver.Info{}, err
			}
			h.writes.call()
			h.writes.wait(allCalls)
			return m.Stat(ctx, key)
		}
		return h
	}, "map.concurrent.versions"},
	"looks up the version after the read": {func(m driver.Map) *hooked {
		h := &hooked{Map: m}
		h.get = func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			h.writes.wait(allCalls)
			if later, e := m.Stat(ctx, key); err == nil && e == nil {
				info.Version = later.Version
			}
			return data, info, err
		}
		return h
	}, "map.concurrent.versions"},
	"checks IfMatch before the read without a lock": {func(m driver.Map) *hooked {
		h := &hooked{Map: m}
		h.get = func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if o.IfMatch == "" {
				return m.Get(ctx, key, o, alloc)
			}
			if info, err := m.Stat(ctx, key); err != nil || info.Version != o.IfMatch {
				return nil, info, errors.Join(err, ncerr.ErrConflict)
			}
			h.writes.wait(allCalls)
			return m.Get(ctx, key, &driver.GetOptions{}, alloc)
		}
		return h
	}, "map.concurrent.versions"},
	"reports a canceled context as absence": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if err := ctx.Err(); err != nil {
				return nil, driver.Info{}, ncerr.New(ncerr.ErrNotFound, "get", key, err)
			}
			return m.Get(ctx, key, o, alloc)
		}}
	}, "map.cancel.before"},
	"reports cancellation during a read as absence": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			began := ctx.Err() == nil
			data, info, err := m.Get(ctx, key, o, alloc)
			if began && ctx.Err() != nil {
				return nil, driver.Info{}, ncerr.New(ncerr.ErrNotFound, "get", key, ctx.Err())
			}
			return data, info, err
		}}
	}, "map.cancel.get"},
	"returns partial content with an error": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			if ctx.Err() != nil && len(data) > 0 {
				clear(data[len(data)/2:]) // bytes that did not arrive
				return data, info, ctx.Err()
			}
			return data, info, err
		}}
	}, "map.cancel.get"},
	"rejects keys that are a string prefix of another key": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			for e := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if e.Key != key && strings.HasPrefix(e.Key, key) {
					return driver.Info{}, ncerr.ErrObjectExists
				}
			}
			return m.Put(ctx, key, body, o)
		}}
	}, "map.put.exclusive.above"},
	"fails puts during a long listing": {func(m driver.Map) *hooked {
		var running atomic.Int64 // number of running listings that have more than 4 MiB of keys
		return &hooked{
			Map: m,
			list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
				return func(yield func(driver.Entry, error) bool) {
					size := 0
					for e := range m.List(ctx, prefix, o) {
						size += len(e.Key)
					}
					if size > 4<<20 {
						running.Add(1)
						defer running.Add(-1)
					}
					m.List(ctx, prefix, o)(yield)
				}
			},
			put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if running.Load() > 0 {
					return driver.Info{}, errBusy
				}
				return m.Put(ctx, key, body, o)
			},
		}
	}, "map.lasting.pages"},
	"shares one buffer between calls": {func(m driver.Map) *hooked {
		var mu sync.Mutex
		var shared []byte
		var others meeting
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			mu.Lock()
			shared = append(shared[:0], data...)
			others.call()
			mu.Unlock()
			others.wait(1)
			mu.Lock()
			defer mu.Unlock()
			copy(data, shared)
			return data, info, err
		}}
	}, "map.concurrent.distinct-keys"},
	"stores large objects after cancellation": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			fresh, err := driver.ReadBody(reread{body})
			if err != nil || ctx.Err() == nil || len(fresh) < 1<<20 {
				return m.Put(ctx, key, body, o)
			}
			time.AfterFunc(10*time.Millisecond, func() { _, _ = m.Put(context.WithoutCancel(ctx), key, driver.Bytes(fresh), o) })
			return driver.Info{}, ctx.Err()
		}}
	}, "map.cancel.put.late"},
}

// reread is a Body that is not driver.Bytes.
type reread struct{ driver.Body }

func deleteIf(ctx context.Context, m driver.Map, f func(string) bool) error {
	var gone []string
	for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
		if err == nil && f(e.Key) {
			gone = append(gone, e.Key)
		}
	}
	for _, k := range gone {
		if err := m.Delete(ctx, k, &driver.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// listingAfter returns a function that wraps a Map, so that it uses f to compare keys with
// StartAfter.
func listingAfter(f func(key, after string) bool) func(driver.Map) *hooked {
	return func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for e, err := range m.List(ctx, prefix, &driver.ListOptions{Recursive: o.Recursive}) {
					if (err != nil || f(e.Key, o.StartAfter)) && !yield(e, err) {
						return
					}
				}
			}
		}}
	}
}

// pooled returns a function that wraps a Map, so that each listing uses one of n
// connections. If leak is set, abandoned listings leak their connections.
func pooled(n int, leak bool) func(driver.Map) *hooked {
	return func(m driver.Map) *hooked {
		inUse := make(chan struct{}, n)
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				select {
				case inUse <- struct{}{}:
				default:
					if leak {
						yield(driver.Entry{}, ncerr.Errorf(ncerr.ErrIO, "list", prefix, "all connections are in use"))
						return
					}
					<-ctx.Done()
					return
				}
				for e, err := range m.List(ctx, prefix, o) {
					if !yield(e, err) {
						if !leak {
							<-inUse
						}
						return
					}
				}
				<-inUse
			}
		}}
	}
}

// reads returns a function that wraps a Map, so that many implements its GetMany.
func reads(many func(driver.Map, context.Context, []driver.GetRequest, driver.GetSink) error) func(driver.Map) driver.Map {
	return func(m driver.Map) driver.Map {
		return getManyMap{m, func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			return many(m, ctx, reqs, sink)
		}}
	}
}

// TestSubtleDefectsAreCaught checks that each defect fails the check written for it.
func TestSubtleDefectsAreCaught(t *testing.T) {
	t.Parallel()
	for name, tc := range subtleDefects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map { return tc.plant(plain{m}) }}), limitFor(name), tc.want)
		})
	}
	for name, many := range manyDefects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, inMemory(planted{memmap.NewOpener(), reads(many)}), 10*time.Minute, "map.get.many")
		})
	}
}

// TestMessagesOfGetMany checks that the report contains the key and the driver's error if a
// request fails, and the driver's error if the whole call fails.
func TestMessagesOfGetMany(t *testing.T) {
	t.Parallel()
	for want, many := range map[string]func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error{
		`request 3 of 16, get "none": want "ErrNotFound" in one call of the sink, got ErrIO in 1 calls: i/o failure: disk on fire`: func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			return m.(driver.GetManyer).GetMany(ctx, reqs, func(i int, data []byte, info driver.Info, err error) { // memmap implements it
				if reqs[i].Key == "none" {
					err = ncerr.Errorf(ncerr.ErrIO, "", "", "disk on fire")
				}
				sink(i, data, info, err)
			})
		},
		`request 1 of 2, get "c/1", range {Offset:10 Length:20}: want "`: func(m driver.Map, ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			return m.(driver.GetManyer).GetMany(ctx, reqs[:1], sink) // memmap implements it
		},
		"get many, 1 requests: i/o failure: too many keys": func(driver.Map, context.Context, []driver.GetRequest, driver.GetSink) error {
			return ncerr.Errorf(ncerr.ErrIO, "", "", "too many keys")
		},
		"the sink is called with index 1 for 1 requests: 0 bytes": func(_ driver.Map, _ context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			sink(len(reqs), nil, driver.Info{}, nil)
			return nil
		},
	} {
		target := inMemory(planted{memmap.NewOpener(), reads(many)})
		r := conformance.Run(t.Context(), mapsuite.Suite(), target, &conformance.Options{Select: []string{"map.get.many"}, Effort: conformance.Brief, Limit: 10 * time.Minute})
		if x := r.Results[0]; x.Status != conformance.StatusFail || !strings.Contains(x.Message, want) {
			t.Errorf("want a failure with %q, got %s: %s", want, x.Status, x.Message)
		}
	}
}

// opening is an Opener with replaced methods.
type opening struct {
	driver.Opener
	open   func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error)
	remove func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) error
}

func (p opening) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	if p.open == nil {
		return p.Opener.Open(ctx, spec)
	}
	return p.open(ctx, p.Opener, spec)
}

func (p opening) Remove(ctx context.Context, spec driver.OpenSpec) error {
	if p.remove == nil {
		return p.Opener.Remove(ctx, spec)
	}
	return p.remove(ctx, p.Opener, spec)
}

// emptiedLate returns an Opener that deletes the objects of a replaced store only at the
// first Put or, if onFlush is set, at the first Put or Flush.
func emptiedLate(onFlush bool) opening {
	return opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
		old := spec
		old.Mode = driver.Update
		m, err := o.Open(ctx, old)
		if spec.Mode != driver.Create || err != nil {
			return o.Open(ctx, spec)
		}
		h := &hooked{Map: plain{memmap.New()}} // an empty Map until the first change
		empty := sync.OnceValue(func() error {
			h.Map = plain{m}
			return deleteIf(context.WithoutCancel(ctx), m, func(string) bool { return true })
		})
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if err := empty(); err != nil {
				return driver.Info{}, err
			}
			return m.Put(ctx, key, body, o)
		}
		if onFlush {
			h.flush = func(context.Context) error { return empty() }
		}
		return h, nil
	}}
}

// TestDelayedReplacement checks that a driver may keep a replaced store until the new
// one is flushed.
func TestDelayedReplacement(t *testing.T) {
	t.Parallel()
	late := emptiedLate(true)
	late.Opener = memmap.NewOpener()
	r := conformance.Run(t.Context(), mapsuite.Suite(), inMemory(late), &conformance.Options{Select: []string{"map.open.*"}, Limit: 10 * time.Minute})
	if !r.OK() {
		t.Errorf("a correct driver fails: %+v", r.Results)
	}
}

// TestFirstStoreFailsToClose checks the report if the store opened to read the
// capabilities cannot be closed.
func TestFirstStoreFailsToClose(t *testing.T) {
	t.Parallel()
	o := planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		return &hooked{Map: m, close: func(context.Context) error { return errBusy }}
	}}
	r := conformance.Run(t.Context(), mapsuite.Suite(), inMemory(o), &conformance.Options{Select: []string{"map.describe"}})
	if want := "close the first store: database is busy"; r.Problem != want {
		t.Errorf("want the problem %q, got %q", want, r.Problem)
	}
}

// TestOpenersAreCaught checks that the suite detects defects in opening, closing and
// removing stores.
func TestOpenersAreCaught(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	var lookups meeting
	for name, tc := range map[string]struct {
		opener opening
		want   string
	}{
		"checks for the store without a lock": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			if spec.Mode == driver.CreateExclusive {
				look := spec
				look.Mode = driver.Read
				_, err := o.Open(ctx, look)
				lookups.call()
				if err == nil {
					return nil, ncerr.ErrExists
				}
				lookups.wait(1)
				spec.Mode = driver.Create
			}
			return o.Open(ctx, spec)
		}}, "map.open.create-exclusive.race"},
		"removes empty stores in Close": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err != nil {
				return nil, err
			}
			return &hooked{Map: plain{m}, close: func(ctx context.Context) error {
				for range m.List(ctx, "", &driver.ListOptions{}) {
					return nil
				}
				return o.Remove(ctx, spec)
			}}, nil
		}}, "map.open.empty"},
		"closes all handles of a store": {opening{open: func() func(context.Context, driver.Opener, driver.OpenSpec) (driver.Map, error) {
			var closed sync.Map
			return func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
				m, err := o.Open(ctx, spec)
				if err != nil {
					return nil, err
				}
				closed.Store(spec.Path, false)
				return &hooked{
					Map: plain{m}, close: func(context.Context) error { closed.Store(spec.Path, true); return nil },
					get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
						if is, _ := closed.Load(spec.Path); is == true {
							return nil, driver.Info{}, errors.New("the store is closed")
						}
						return m.Get(ctx, key, o, alloc)
					},
				}, nil
			}
		}()}, "map.open.handles"},
		"identifies stores by their parent directory": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			spec.Path = path.Dir(spec.Path)
			return o.Open(ctx, spec)
		}}, "map.open.handles"},
		"compares IfMatch with its own last put": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err != nil {
				return nil, err
			}
			var own sync.Map
			return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				if v, _ := own.Load(key); v == o.IfMatch {
					o = &driver.PutOptions{}
				}
				info, err := m.Put(ctx, key, body, o)
				if err == nil {
					own.Store(key, info.Version)
				}
				return info, err
			}}, nil
		}}, "map.put.if-match.others"},
		"returns versions that differ between handles": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err != nil {
				return nil, err
			}
			own := strconv.FormatInt(n.Add(1), 10)
			return &hooked{Map: plain{m}, stat: func(ctx context.Context, key string) (driver.Info, error) {
				info, err := m.Stat(ctx, key)
				info.Version += "-" + own
				return info, err
			}}, nil
		}}, "map.open.handles"},
		"removes the sibling store with a longer name": {opening{remove: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) error {
			sibling := spec
			sibling.Path += ".nczstage-x"
			_ = o.Remove(ctx, sibling)
			return o.Remove(ctx, spec)
		}}, "map.open.siblings"},
		"removes the store with its last object": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err != nil {
				return nil, err
			}
			return deleting{plain{m}, func(ctx context.Context, key string) error {
				if err := m.Delete(ctx, key, &driver.DeleteOptions{}); err != nil {
					return err
				}
				for range m.List(ctx, "", &driver.ListOptions{}) {
					return nil
				}
				return o.Remove(ctx, spec)
			}}, nil
		}}, "map.open.empty"},
		"overwrites the sibling store with the suffix new": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			if spec.Mode == driver.Create {
				temporary := spec
				temporary.Path += "new"
				_ = o.Remove(ctx, temporary)
			}
			return o.Open(ctx, spec)
		}}, "map.open.siblings"},
		"empties the store at the first put": {emptiedLate(false), "map.open.create-replaces"},
		"counts versions per handle": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err != nil {
				return nil, err
			}
			var puts atomic.Int64
			return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				info, err := m.Put(ctx, key, body, o)
				info.Version = strconv.FormatInt(puts.Add(1), 10)
				return info, err
			}}, nil
		}}, "map.get.version"},
		"caches absence per handle": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err != nil {
				return nil, err
			}
			var absent sync.Map
			return &hooked{
				Map: plain{m},
				get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
					if _, ok := absent.Load(key); ok {
						return nil, driver.Info{}, ncerr.ErrNotFound
					}
					data, info, err := m.Get(ctx, key, o, alloc)
					if errors.Is(err, ncerr.ErrNotFound) {
						absent.Store(key, true)
					}
					return data, info, err
				},
				put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
					defer absent.Delete(key)
					return m.Put(ctx, key, body, o)
				},
			}, nil
		}}, "map.durable.put"},
		"deletes large objects when it opens for update": {opening{open: func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err != nil || spec.Mode != driver.Update {
				return m, err
			}
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if err == nil && e.Info.Size > 4<<20 {
					_ = m.Delete(ctx, e.Key, &driver.DeleteOptions{})
				}
			}
			return m, nil
		}}, "map.lasting.large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.opener.Opener = memmap.NewOpener()
			mustFail(t, inMemory(tc.opener), 10*time.Minute, tc.want)
		})
	}
}

// TestSmallLeaks checks that the suite detects a process that leaks a little memory per
// call.
func TestSmallLeaks(t *testing.T) {
	t.Parallel()
	var held atomic.Int64
	usage := func() (conformance.Usage, error) { return conformance.Usage{Descriptors: -1, Memory: held.Load()}, nil }
	for name, o := range map[string]driver.Opener{
		"get": planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
				held.Add(2600)
				return m.Get(ctx, key, o, alloc)
			}}
		}},
		"put": planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
				held.Add(body.Size())
				return m.Put(ctx, key, body, o)
			}}
		}},
		"failed open": opening{memmap.NewOpener(), func(ctx context.Context, o driver.Opener, spec driver.OpenSpec) (driver.Map, error) {
			m, err := o.Open(ctx, spec)
			if err != nil {
				held.Add(64 << 10)
			}
			return m, err
		}, nil},
	} {
		target := inMemory(o)
		target.Usage = usage
		t.Log(name)
		mustFail(t, target, 10*time.Minute, "map.lasting.leaks")
	}
}

// talkative is an Opener whose errors contain the value of its secret option.
type talkative struct{ driver.Opener }

func (o talkative) Describe() driver.Description {
	d := o.Opener.Describe()
	d.Options = []driver.Option{{Name: "token", Type: "string", Doc: "a password", Secret: true}}
	return d
}

func (o talkative) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	given := spec.Options
	if err := driver.DecodeOptions(given, &struct {
		Token string `json:"token"`
	}{}); err != nil {
		return nil, err
	}
	spec.Options = nil
	m, err := o.Opener.Open(ctx, spec)
	if err != nil {
		return nil, ncerr.Errorf(ncerr.KindOf(err), "open", spec.Path, "with %s", given)
	}
	return m, nil
}

// TestSecretInError checks that the suite finds a secret in an error.
func TestSecretInError(t *testing.T) {
	t.Parallel()
	mustFail(t, inMemory(talkative{memmap.NewOpener()}), 10*time.Minute, "map.open.secret")
}
