package mapsuite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"regexp"
	"strconv"
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

// hooked is a Map that replaces some methods of another Map.
type hooked struct {
	driver.Map
	put   func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error)
	get   func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error)
	stat  func(ctx context.Context, key string) (driver.Info, error)
	list  func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error]
	del   func(ctx context.Context, key string, o *driver.DeleteOptions) error
	flush func(ctx context.Context) error
	close func(ctx context.Context) error
	caps  func() driver.Capabilities

	reads, writes meeting
}

// meeting makes the effect of a defect last until other calls have observed it.
type meeting struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next call
}

// call records that a call has taken effect.
func (m *meeting) call() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next != nil {
		close(m.next)
	}
	m.next = nil
}

// wait waits for n more calls. It gives up after 100 ms without a call.
func (m *meeting) wait(n int) {
	for range n {
		m.mu.Lock()
		if m.next == nil {
			m.next = make(chan struct{})
		}
		next := m.next
		m.mu.Unlock()
		select {
		case <-next:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// allCalls exceeds the number of concurrent readers or writers in the checks that find these
// defects. The last of that many calls has therefore started after the wait began.
const allCalls = 4

func (h *hooked) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	defer h.writes.call()
	if h.put != nil {
		return h.put(ctx, key, body, o)
	}
	return h.Map.Put(ctx, key, body, o)
}

func (h *hooked) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	defer h.reads.call()
	if h.get != nil {
		return h.get(ctx, key, o, alloc)
	}
	return h.Map.Get(ctx, key, o, alloc)
}

func (h *hooked) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	if h.del != nil {
		return h.del(ctx, key, o)
	}
	return h.Map.Delete(ctx, key, o)
}

func (h *hooked) Stat(ctx context.Context, key string) (driver.Info, error) {
	defer h.reads.call()
	if h.stat != nil {
		return h.stat(ctx, key)
	}
	return h.Map.Stat(ctx, key)
}

func (h *hooked) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	if h.list != nil {
		return h.list(ctx, prefix, o)
	}
	return h.Map.List(ctx, prefix, o)
}

func (h *hooked) Flush(ctx context.Context) error {
	if h.flush != nil {
		return h.flush(ctx)
	}
	return h.Map.Flush(ctx)
}

func (h *hooked) Close(ctx context.Context) error {
	if h.close != nil {
		return h.close(ctx)
	}
	return h.Map.Close(ctx)
}

func (h *hooked) Capabilities() driver.Capabilities {
	if h.caps != nil {
		return h.caps()
	}
	return h.Map.Capabilities()
}

func unconditional(o *driver.PutOptions) bool { return !o.IfAbsent && o.IfMatch == "" }

// defects are defective Maps, each with the checks that must fail.
var defects = map[string]struct {
	plant func(m driver.Map) *hooked
	want  []string
}{
	"deletes the old object before a put": {func(m driver.Map) *hooked {
		h := &hooked{Map: m}
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			fresh, err := driver.ReadBody(body)
			if err != nil || ctx.Err() != nil {
				return driver.Info{}, errors.Join(err, ctx.Err())
			}
			if unconditional(o) {
				_ = m.Delete(ctx, key, &driver.DeleteOptions{})
				h.reads.wait(allCalls)
			}
			return m.Put(ctx, key, driver.Bytes(fresh), o)
		}
		return h
	}, []string{"map.concurrent.same-key"}},
	"overwrites the first half before the rest": {func(m driver.Map) *hooked {
		h := &hooked{Map: m}
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			old, _, err := m.Get(ctx, key, &driver.GetOptions{}, driver.Heap)
			if err == nil && unconditional(o) && int64(len(old)) == body.Size() && len(old) > 0 {
				if _, err := body.ReadAt(old[:len(old)/2], 0); err == nil {
					_, _ = m.Put(ctx, key, driver.Bytes(old), o)
					h.reads.wait(allCalls)
				}
			}
			return m.Put(ctx, key, body, o)
		}
		return h
	}, []string{"map.concurrent.same-key"}},
	"deletes the old object before it reads the body": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if unconditional(o) {
				_ = m.Delete(ctx, key, &driver.DeleteOptions{})
			}
			return m.Put(ctx, key, body, o)
		}}
	}, []string{"map.concurrent.same-key", "map.put.body-fails"}},
	"stores after cancellation": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			fresh, err := driver.ReadBody(body)
			if err != nil || ctx.Err() == nil {
				return m.Put(ctx, key, body, o)
			}
			fresh = bytes.Clone(fresh)
			time.AfterFunc(50*time.Millisecond, func() {
				_, _ = m.Put(context.WithoutCancel(ctx), key, driver.Bytes(fresh), o)
			})
			return driver.Info{}, ctx.Err()
		}}
	}, []string{"map.cancel.put.late"}},
	"checks IfAbsent without a lock": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if o.IfAbsent {
				if _, err := m.Stat(ctx, key); err == nil {
					return driver.Info{}, ncerr.ErrObjectExists
				}
				o = &driver.PutOptions{}
			}
			return m.Put(ctx, key, body, o)
		}}
	}, []string{"map.put.if-absent.race"}},
	"checks IfMatch without a lock": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			if o.IfMatch != "" {
				if info, err := m.Stat(ctx, key); err != nil || info.Version != o.IfMatch {
					return driver.Info{}, ncerr.ErrConflict
				}
				o = &driver.PutOptions{}
			}
			return m.Put(ctx, key, body, o)
		}}
	}, []string{"map.put.if-match.race"}},
	"drops the error of a listing": {func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for e, err := range m.List(ctx, prefix, o) {
					if err != nil || !yield(e, nil) {
						return
					}
				}
			}
		}}
	}, []string{"map.cancel.before", "map.cancel.list", "map.lasting.pages"}},
	"ignores cancellation in a listing": {func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return m.List(context.WithoutCancel(ctx), prefix, o)
		}}
	}, []string{"map.lasting.pages"}},
	"lists only the first page": {func(m driver.Map) *hooked {
		return &hooked{Map: m, list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				n := 0
				for e, err := range m.List(ctx, prefix, o) {
					if n++; n > 5000 || !yield(e, err) {
						return
					}
				}
			}
		}}
	}, []string{"map.lasting.pages"}},
	"matches prefixes with a case-insensitive LIKE": {func(m driver.Map) *hooked { return &hooked{Map: m, list: like(m, "(?i)")} }, []string{"map.list.literal"}},
	"does not store blocks that begin with zeros": {storing(func(b []byte) []byte {
		const block = 256 << 10
		for at := 0; at+4096 <= len(b); at += block {
			if bytes.Count(b[at:at+4096], []byte{0}) == 4096 {
				clear(b[at:min(at+block, len(b))])
			}
		}
		return b
	}), []string{"map.put.contents"}},
	"reports a missing key as a conflict": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			if o.IfMatch != "" && ncerr.KindOf(err) == ncerr.ErrNotFound {
				err = ncerr.ErrConflict
			}
			return data, info, err
		}}
	}, []string{"map.get.if-match"}},
	"matches prefixes with LIKE": {func(m driver.Map) *hooked { return &hooked{Map: m, list: like(m, "")} }, []string{"map.list.literal"}},
	"truncates keys to 255 bytes": {func(m driver.Map) *hooked {
		return renamed(m, func(key string) string { return key[:min(len(key), 255)] })
	}, []string{"map.keys.long", "map.keys.long-names"}},
	"truncates keys to 2000 bytes": {func(m driver.Map) *hooked {
		return renamed(m, func(key string) string { return key[:min(len(key), 2000)] })
	}, []string{"map.keys.long"}},
	"truncates segments to 200 bytes": {func(m driver.Map) *hooked {
		return renamed(m, func(key string) string {
			parts := strings.Split(key, "/")
			for i := range parts {
				parts[i] = parts[i][:min(len(parts[i]), 200)]
			}
			return strings.Join(parts, "/")
		})
	}, []string{"map.keys.long-names"}},
	"unescapes keys": {func(m driver.Map) *hooked {
		return renamed(m, func(key string) string {
			if s, err := url.PathUnescape(key); err == nil {
				return s
			}
			return key
		})
	}, []string{"map.keys.escapes"}},
	"replaces plus signs with spaces": {func(m driver.Map) *hooked {
		return renamed(m, func(key string) string { return strings.ReplaceAll(key, "+", " ") })
	}, []string{"map.keys.escapes"}},
	"returns zeros beyond 20 MB": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			if len(data) > 20_000_000 {
				clear(data[20_000_000:])
			}
			return data, info, err
		}}
	}, []string{"map.lasting.large"}},
	"returns zeros beyond 67 MB": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := m.Get(ctx, key, o, alloc)
			if len(data) > 67_200_000 {
				clear(data[67_200_000:])
			}
			return data, info, err
		}}
	}, []string{"map.lasting.large"}},
	"stores only the first 16 MiB": {func(m driver.Map) *hooked {
		return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			fresh, err := driver.ReadBody(body)
			if err != nil {
				return driver.Info{}, err
			}
			return m.Put(ctx, key, driver.Bytes(fresh[:min(len(fresh), 16<<20)]), o)
		}}
	}, []string{"map.lasting.large"}},
	"truncates offsets to 24 bits": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if o.Range != nil && o.Range.Offset >= 0 {
				c := *o
				c.Range = &driver.Range{Offset: o.Range.Offset & 0xFFFFFF, Length: o.Range.Length}
				o = &c
			}
			return m.Get(ctx, key, o, alloc)
		}}
	}, []string{"map.lasting.large"}},
	"caches the results of Stat": {func(m driver.Map) *hooked {
		var seen sync.Map
		return &hooked{Map: m, stat: func(ctx context.Context, key string) (driver.Info, error) {
			if info, ok := seen.Load(key); ok {
				return info.(driver.Info), nil // the map holds no other type
			}
			info, err := m.Stat(ctx, key)
			if err == nil {
				seen.Store(key, info)
			}
			return info, err
		}}
	}, []string{"map.stat.fresh"}},
	"caches absence": {func(m driver.Map) *hooked {
		var absent sync.Map
		return &hooked{Map: m, stat: func(ctx context.Context, key string) (driver.Info, error) {
			if _, ok := absent.Load(key); ok {
				return driver.Info{}, ncerr.ErrNotFound
			}
			info, err := m.Stat(ctx, key)
			if err != nil {
				absent.Store(key, true)
			}
			return info, err
		}}
	}, []string{"map.stat.fresh"}},
	"returns the current time as ModTime": {func(m driver.Map) *hooked {
		return &hooked{Map: m, stat: func(ctx context.Context, key string) (driver.Info, error) {
			info, err := m.Stat(ctx, key)
			info.ModTime = time.Now()
			return info, err
		}}
	}, []string{"map.get.info"}},
	"fails every 500th read": {func(m driver.Map) *hooked {
		var n atomic.Int64
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if n.Add(1)%500 == 0 {
				return nil, driver.Info{}, ncerr.ErrIO
			}
			return m.Get(ctx, key, o, alloc)
		}}
	}, []string{"map.lasting.calls"}},
	"hangs on empty ranges": {func(m driver.Map) *hooked {
		return &hooked{Map: m, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			if o.Range != nil && o.Range.Length == 0 {
				<-ctx.Done()
				return nil, driver.Info{}, ctx.Err()
			}
			return m.Get(ctx, key, o, alloc)
		}}
	}, []string{"map.get.range.zero-length"}},
}

// like returns a List with the semantics of SQL LIKE: _ matches any character except a
// slash.
func like(m driver.Map, flags string) func(context.Context, string, *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
		pattern := regexp.MustCompile(flags + "^" + strings.ReplaceAll(regexp.QuoteMeta(prefix), "_", "[^/]"))
		return func(yield func(driver.Entry, error) bool) {
			seen := map[string]bool{}
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: true}) {
				if err != nil {
					yield(driver.Entry{}, err)
					return
				}
				if !pattern.MatchString(e.Key) {
					continue
				}
				if i := strings.IndexByte(e.Key[len(prefix):], '/'); !o.Recursive && i >= 0 {
					e = driver.Entry{Key: e.Key[:len(prefix)+i+1], Prefix: true, Info: driver.Info{Size: -1}}
				}
				if e.Key > o.StartAfter && !seen[e.Key] && !yield(e, nil) {
					return
				}
				seen[e.Key] = true
			}
		}
	}
}

// renamed returns a Map that stores objects under other keys.
func renamed(m driver.Map, name func(string) string) *hooked {
	return &hooked{
		Map: m,
		put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			return m.Put(ctx, name(key), body, o)
		},
		get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			return m.Get(ctx, name(key), o, alloc)
		},
		stat: func(ctx context.Context, key string) (driver.Info, error) { return m.Stat(ctx, name(key)) },
	}
}

// mustFail runs the checks against a target and fails the test if any of them passes.
func mustFail(t *testing.T, target *mapsuite.Target, limit time.Duration, want ...string) {
	t.Helper()
	r := conformance.Run(t.Context(), mapsuite.Suite(), target, &conformance.Options{Select: want, Seed: 5, Effort: conformance.Thorough, Limit: limit})
	if len(r.Results) != len(want) {
		t.Errorf("want the checks %q to run, got %d results", want, len(r.Results))
	}
	for _, x := range r.Results {
		if x.Status != conformance.StatusFail {
			t.Errorf("%s: want a failure, got %s %s", x.ID, x.Status, x.Message)
		} else {
			t.Logf("%s: %s", x.ID, x.Message)
		}
	}
}

// limitFor returns the limit of a check for the named defect. The limit is short if the
// defect makes the check hang.
func limitFor(name string) time.Duration {
	if strings.HasPrefix(name, "hangs") {
		return 2 * time.Second
	}
	return 10 * time.Minute
}

// TestDefectsAreCaught checks that each defect fails the checks written for it.
func TestDefectsAreCaught(t *testing.T) {
	t.Parallel()
	for name, tc := range defects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map { return tc.plant(plain{m}) }})
			mustFail(t, target, limitFor(name), tc.want...)
		})
	}
}

// buffering is a driver that keeps objects in memory until Flush and has one defect.
type buffering struct {
	driver.Opener
	defect string
}

func (b buffering) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	open := spec
	if spec.Mode == driver.Create && b.defect != "empties the store in Open" {
		open.Mode = driver.Update // the first commit replaces the content
	}
	base, err := b.Opener.Open(ctx, open)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset {
		base, err = b.Opener.Open(ctx, spec)
	}
	if err != nil || spec.Mode == driver.Read {
		return plain{base}, err
	}
	own := memmap.New()
	if spec.Mode != driver.Create {
		err = replace(ctx, own, base)
	}
	if err != nil {
		return nil, err
	}
	var flushes atomic.Int64
	flushed := memmap.New()
	commit := func(ctx context.Context) error { return replace(ctx, base, own) }
	return &hooked{
		Map: plain{own},
		caps: func() driver.Capabilities {
			c := own.Capabilities()
			if b.defect != "declares durable puts but commits in Close" {
				c.Durable = driver.OnFlush
			}
			c.IfMatch = false // a commit makes new versions
			return c
		},
		flush: func(ctx context.Context) error {
			if b.defect == "commits flushed objects only in Close" {
				return replace(ctx, flushed, own)
			}
			if b.defect == "commits after Flush returns" {
				time.AfterFunc(time.Hour, func() { _ = commit(context.WithoutCancel(ctx)) })
				return nil
			}
			flushes.Add(1)
			if b.defect == "flushes only the first objects" || b.defect == "does not flush deletions" {
				return b.part(ctx, base, own)
			}
			return commit(ctx)
		},
		stat: func(ctx context.Context, key string) (driver.Info, error) {
			info, err := own.Stat(ctx, key)
			if b.defect == "changes versions in Flush" {
				info.Version += fmt.Sprint(flushes.Load())
			}
			return info, err
		},
		del: func(ctx context.Context, key string, o *driver.DeleteOptions) error {
			if b.defect == "deletes at once" {
				_ = base.Delete(ctx, key, o)
			}
			return own.Delete(ctx, key, o)
		},
		close: func(ctx context.Context) error {
			switch b.defect {
			case "commits flushed objects only in Close":
				return replace(ctx, base, flushed)
			case "commits unflushed objects in Close", "declares durable puts but commits in Close":
				return commit(ctx)
			}
			return nil
		},
	}, nil
}

// part is a commit with a defect: it stops after 64 objects or omits deletions.
func (b buffering) part(ctx context.Context, base, own driver.Map) error {
	n := 0
	for e, err := range own.List(ctx, "", &driver.ListOptions{Recursive: true}) {
		if n++; err != nil || n > 64 && b.defect == "flushes only the first objects" {
			return err
		}
		data, _, err := own.Get(ctx, e.Key, &driver.GetOptions{}, driver.Heap)
		if err == nil {
			_, err = base.Put(ctx, e.Key, driver.Bytes(data), &driver.PutOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace replaces the content of dst with the content of src.
func replace(ctx context.Context, dst, src driver.Map) error {
	for e, err := range dst.List(ctx, "", &driver.ListOptions{Recursive: true}) {
		if err == nil {
			err = dst.Delete(ctx, e.Key, &driver.DeleteOptions{})
		}
		if err != nil {
			return err
		}
	}
	for e, err := range src.List(ctx, "", &driver.ListOptions{Recursive: true}) {
		if err != nil {
			return err
		}
		data, _, err := src.Get(ctx, e.Key, &driver.GetOptions{}, driver.Heap)
		if err == nil {
			_, err = dst.Put(ctx, e.Key, driver.Bytes(data), &driver.PutOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestDurability(t *testing.T) {
	t.Parallel()
	for defect, want := range map[string]string{
		"commits after Flush returns":                "map.durable.flush",
		"commits flushed objects only in Close":      "map.durable.flush",
		"commits unflushed objects in Close":         "map.open.unflushed",
		"declares durable puts but commits in Close": "map.durable.put",
		"flushes only the first objects":             "map.durable.flush",
		"does not flush deletions":                   "map.durable.flush",
		"deletes at once":                            "map.open.unflushed",
		"empties the store in Open":                  "map.open.unflushed",
		"changes versions in Flush":                  "map.durable.flush",
	} {
		mustFail(t, inMemory(buffering{memmap.NewOpener(), defect}), 10*time.Minute, want)
	}
	r := conformance.Run(t.Context(), mapsuite.Suite(), inMemory(buffering{memmap.NewOpener(), ""}), &conformance.Options{
		Select: []string{"map.durable.*", "map.open.*"}, Limit: 10 * time.Minute,
	})
	if !r.OK() {
		t.Errorf("a correct driver fails: %q", r.Failed())
	}
}

// mortal is a driver in a process that can be killed. It keeps stores in memory and on a
// disk that survives the process.
type mortal struct {
	mu        sync.Mutex
	ram, disk *memmap.Opener
	forgetful bool // nothing is written to the disk before Close
	torn      bool // half of the last put is written to the disk
	empties   bool // mode Create empties the store on the disk at once
	counts    bool // the version is a counter of the process
	puts      atomic.Int64
}

func (p *mortal) openers() (ram, disk *memmap.Opener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ram, p.disk
}

func (p *mortal) Describe() driver.Description {
	ram, _ := p.openers()
	return ram.Describe()
}

func (p *mortal) Remove(ctx context.Context, spec driver.OpenSpec) error {
	ram, disk := p.openers()
	return errors.Join(ram.Remove(ctx, spec), disk.Remove(ctx, spec))
}

func (p *mortal) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	ram, disk := p.openers()
	m, err := ram.Open(ctx, spec)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset && err != nil { // the store may be on the disk
		d, err := disk.Open(ctx, spec)
		if err != nil {
			return nil, err
		}
		if _, err = ram.Open(ctx, driver.OpenSpec{Path: spec.Path, Mode: driver.Create}); err != nil {
			return nil, err
		}
		if m, err = ram.Open(ctx, driver.OpenSpec{Path: spec.Path, Mode: driver.Update}); err == nil {
			err = replace(ctx, m, d)
		}
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	if p.empties && spec.Mode == driver.Create {
		if _, err := disk.Open(ctx, spec); err != nil {
			return nil, err
		}
	}
	save := func(ctx context.Context) error {
		now, disk := p.openers()
		if now != ram { // the process was killed
			return ncerr.ErrPlugin
		}
		d, err := disk.Open(ctx, driver.OpenSpec{Path: spec.Path, Mode: driver.Create})
		if err == nil {
			err = replace(ctx, d, m)
		}
		return err
	}
	h := &hooked{Map: plain{m}, close: save}
	if !p.forgetful {
		h.flush = save
	}
	h.caps = func() driver.Capabilities {
		c := m.Capabilities()
		c.Durable = driver.OnFlush
		return c
	}
	if p.counts {
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			info, err := m.Put(ctx, key, body, o)
			info.Version = strconv.FormatInt(p.puts.Add(1), 10)
			return info, err
		}
	}
	if p.torn {
		h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
			info, err := m.Put(ctx, key, body, o)
			_, disk := p.openers()
			if d, e := disk.Open(ctx, driver.OpenSpec{Path: spec.Path, Mode: driver.Update}); e == nil && err == nil {
				fresh, _ := driver.ReadBody(body)
				_, err = d.Put(ctx, key, driver.Bytes(fresh[:len(fresh)/2]), o)
			}
			return info, err
		}
	}
	return h, nil
}

// die discards the memory. Open handles no longer work.
func (p *mortal) die() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ram = memmap.NewOpener()
	p.puts.Store(0)
	lost := p.disk
	p.disk = memmap.NewOpener()
	for n := range 100 { // the stores that the suite created
		path := fmt.Sprint("mem/store", n)
		src, err := lost.Open(context.Background(), driver.OpenSpec{Path: path, Mode: driver.Read})
		if err != nil {
			continue
		}
		dst, err := p.disk.Open(context.Background(), driver.OpenSpec{Path: path, Mode: driver.Create})
		if err == nil {
			err = replace(context.Background(), dst, src)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestCrashes(t *testing.T) {
	t.Parallel()
	run := func(p *mortal, checks ...string) *conformance.Report {
		target := inMemory(p)
		target.Crash = p.die
		return conformance.Run(t.Context(), mapsuite.Suite(), target, &conformance.Options{Select: checks, Limit: 10 * time.Minute})
	}
	opener := func() *mortal { return &mortal{ram: memmap.NewOpener(), disk: memmap.NewOpener()} }
	if r := run(opener(), "map.durable.*"); !r.OK() || r.Totals.Pass != 3 {
		t.Errorf("a correct driver fails: %+v", r.Results)
	}
	forgetful, torn, counts, empties := opener(), opener(), opener(), opener()
	forgetful.forgetful, torn.torn, counts.counts, empties.empties = true, true, true, true
	if r := run(counts, "map.durable.flush.crash"); r.Totals.Fail != 1 {
		t.Errorf("a driver that reuses versions passes: %+v", r.Results)
	}
	if r := run(forgetful, "map.durable.flush.crash"); r.Totals.Fail != 1 {
		t.Errorf("a driver that loses flushed objects passes: %+v", r.Results)
	}
	if r := run(torn, "map.durable.unflushed.crash"); r.Totals.Fail != 1 {
		t.Errorf("a driver that overwrites in place passes: %+v", r.Results)
	}
	if r := run(empties, "map.durable.unflushed.crash"); r.Totals.Fail != 1 {
		t.Errorf("a driver that empties an old store in Open passes: %+v", r.Results)
	}
}

// TestLeaks checks that the suite detects drivers that leak descriptors or memory.
func TestLeaks(t *testing.T) { //nolint:paralleltest // the test counts the descriptors of the process
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		t.Skipf("the system does not list open descriptors: %v", err)
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	mustFail(t, inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
		if f, err := os.Open(os.DevNull); err == nil {
			files = append(files, f)
		}
		return m
	}}), 10*time.Minute, "map.lasting.leaks")
	held := int64(0)
	target := inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map { held += 1 << 20; return m }})
	target.Usage = func() (conformance.Usage, error) { return conformance.Usage{Descriptors: -1, Memory: held}, nil }
	mustFail(t, target, 10*time.Minute, "map.lasting.leaks")
}
