// Package memmap stores objects in memory. It is the reference implementation of
// core/zmap/driver, with every capability. Tests use it in place of a real store.
//
//	z := zmap.New(memmap.New(), nil)
//
// It depends only on core/zmap/driver and core/ncerr. Use a memory store through the
// portable Map of core/zmap.
package memmap

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Map is a handle to a store in memory. It is safe for concurrent use. Several handles
// may share a store; see [Opener].
type Map struct {
	s        *store
	readOnly bool
}

var (
	_ driver.Map       = (*Map)(nil)
	_ driver.GetManyer = (*Map)(nil)
	_ driver.PutManyer = (*Map)(nil)
)

// version is the version of the last Put into any store. All stores share it, so that a
// store never repeats a version of the store it replaces.
var version atomic.Uint64

// store is the content shared by handles.
type store struct {
	mu      sync.RWMutex
	objects map[string]*object
	below   map[string]int // number of objects below each prefix, by the prefix with its slash
	sorted  []string       // all keys in order, never modified in place; nil if outdated
}

// object is immutable; a Put creates a new one.
type object struct {
	data []byte
	info driver.Info
}

func newStore() *store {
	return &store{objects: map[string]*object{}, below: map[string]int{}}
}

// New returns a writable handle to a new, empty store.
func New() *Map { return &Map{s: newStore()} }

// Capabilities returns all capabilities, without a maximum key or object size.
func (*Map) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Ranges: true, List: true, Write: true, Delete: true, IfAbsent: true, IfMatch: true,
		RecursiveList: true, OrderedList: true, PrefixExclusive: true,
		Durable: driver.OnPut, Latency: driver.Local,
	}
}

// find returns the object stored at a key.
func (m *Map) find(ctx context.Context, key string) (*object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.s.mu.RLock()
	defer m.s.mu.RUnlock()
	o := m.s.objects[key]
	if o == nil {
		return nil, ncerr.ErrNotFound
	}
	return o, nil
}

// Get implements driver.Map.
func (m *Map) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	o, err := m.find(ctx, key)
	if err != nil {
		return nil, driver.Info{}, err
	}
	if opts.IfMatch != "" && opts.IfMatch != o.info.Version {
		return nil, o.info, ncerr.ErrConflict
	}
	part := o.data
	if opts.Range != nil {
		start, n, err := opts.Range.Resolve(o.info.Size)
		if err != nil {
			return nil, o.info, err
		}
		part = part[start : start+n]
	}
	if opts.Limit > 0 && int64(len(part)) > opts.Limit {
		return nil, o.info, ncerr.Errorf(ncerr.ErrLimit, "", "", "the result has %d bytes, more than the limit of %d", len(part), opts.Limit)
	}
	dst, err := alloc(int64(len(part)))
	if err != nil {
		return nil, o.info, err
	}
	copy(dst, part)
	return dst, o.info, nil
}

// GetMany implements driver.GetManyer.
func (m *Map) GetMany(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
	var own []byte // reused for each request
	grow := func(n int64) ([]byte, error) {
		own = slices.Grow(own[:0], int(n))
		return own[:n], nil
	}
	for i := range reqs {
		if err := ctx.Err(); err != nil {
			return err
		}
		alloc := reqs[i].Alloc
		if alloc == nil {
			alloc = grow
		}
		data, info, err := m.Get(ctx, reqs[i].Key, &reqs[i].Opts, alloc)
		sink(i, data, info, err)
	}
	return nil
}

// Stat implements driver.Map.
func (m *Map) Stat(ctx context.Context, key string) (driver.Info, error) {
	o, err := m.find(ctx, key)
	if err != nil {
		return driver.Info{}, err
	}
	return o.info, nil
}

// Put implements driver.Map.
func (m *Map) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	if m.readOnly {
		return driver.Info{}, ncerr.ErrReadOnly
	}
	content, err := driver.ReadBody(body)
	if err != nil {
		return driver.Info{}, err
	}
	o := &object{data: slices.Clone(content)}
	if err := ctx.Err(); err != nil {
		return driver.Info{}, err
	}
	return m.s.put(key, o, opts)
}

// PutMany implements driver.PutManyer.
func (m *Map) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	for i := range reqs {
		if err := ctx.Err(); err != nil {
			return err
		}
		reqs[i].Start()
		info, err := m.Put(ctx, reqs[i].Key, reqs[i].Body, &reqs[i].Opts)
		sink(i, info, err)
	}
	return nil
}

func (s *store) put(key string, o *object, opts *driver.PutOptions) (driver.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[key]
	switch {
	case opts.IfAbsent && old != nil:
		return driver.Info{}, ncerr.ErrObjectExists
	case opts.IfMatch != "" && (old == nil || old.info.Version != opts.IfMatch):
		return driver.Info{}, ncerr.ErrConflict
	}
	if old == nil {
		if err := s.checkExclusive(key); err != nil {
			return driver.Info{}, err
		}
		s.count(key, 1)
	}
	o.info = driver.Info{Size: int64(len(o.data)), Version: strconv.FormatUint(version.Add(1), 10), ModTime: time.Now()}
	s.objects[key] = o
	return o.info, nil
}

// checkExclusive fails if a new key is a prefix of an existing key, or the reverse.
func (s *store) checkExclusive(key string) error {
	if s.below[key+"/"] > 0 {
		return ncerr.Errorf(ncerr.ErrObjectExists, "", "", "objects exist below this key")
	}
	for p := range parents(key) {
		if s.objects[p[:len(p)-1]] != nil {
			return ncerr.Errorf(ncerr.ErrObjectExists, "", "", "the prefix %q is an object", p[:len(p)-1])
		}
	}
	return nil
}

// count updates the counters for a key that is added (by is 1) or removed (by is -1).
func (s *store) count(key string, by int) {
	s.sorted = nil
	for p := range parents(key) {
		if s.below[p] += by; s.below[p] == 0 {
			delete(s.below, p)
		}
	}
}

// parents returns the proper prefixes of key, each with its trailing slash.
func parents(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(key) {
			if key[i] == '/' && !yield(key[:i+1]) {
				return
			}
		}
	}
}

// Delete implements driver.Map.
func (m *Map) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	if m.readOnly {
		return ncerr.ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.s.objects[key] != nil {
		delete(m.s.objects, key)
		m.s.count(key, -1)
	}
	return nil
}

// keys returns all keys in order. The slice is shared and never modified.
func (s *store) keys() []string {
	s.mu.RLock()
	sorted := s.sorted
	s.mu.RUnlock()
	if sorted != nil {
		return sorted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sorted == nil {
		s.sorted = slices.AppendSeq(make([]string, 0, len(s.objects)), maps.Keys(s.objects))
		slices.Sort(s.sorted)
	}
	return s.sorted
}

// List implements driver.Map. It lists the keys that exist when the iteration starts.
func (m *Map) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		keys := m.s.keys()
		for i, _ := slices.BinarySearch(keys, prefix); i < len(keys) && strings.HasPrefix(keys[i], prefix); i++ {
			if err := ctx.Err(); err != nil {
				yield(driver.Entry{}, err)
				return
			}
			e := driver.Entry{Key: keys[i]}
			slash := strings.IndexByte(e.Key[len(prefix):], '/')
			if !o.Recursive && slash >= 0 {
				e = driver.Entry{Key: e.Key[:len(prefix)+slash+1], Prefix: true, Info: driver.Info{Size: -1}}
				next, _ := slices.BinarySearch(keys[i:], e.Key[:len(e.Key)-1]+"0") // '0' follows '/'
				i += next - 1
			} else if e.Info = m.s.info(e.Key); e.Info.Size < 0 {
				continue // another call has deleted the object
			}
			if e.Key > o.StartAfter && !yield(e, nil) {
				return
			}
		}
	}
}

// info returns the properties of an object. Size is -1 if the object does not exist.
func (s *store) info(key string) driver.Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if o := s.objects[key]; o != nil {
		return o.info
	}
	return driver.Info{Size: -1}
}

// Flush implements driver.Map. It only checks the context.
func (m *Map) Flush(ctx context.Context) error { return ctx.Err() }

// Close implements driver.Map. The store stays alive as long as a handle or an Opener
// refers to it.
func (*Map) Close(context.Context) error { return nil }
