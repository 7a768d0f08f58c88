package layer

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// CacheOptions holds the options of [Cache].
type CacheOptions struct {
	// Dir is the cache directory. If it does not exist, it is created with access for
	// its owner only. Several processes of one user may share it, for any stores. A
	// directory that is writable by other users is an error.
	Dir string
	// Size is the maximum size of the cache in bytes; 0 means 1 GiB. Each process that
	// writes to the cache may exceed Size by a sixteenth.
	Size int64
	// Identity identifies the store and its reader. Content is never shared between
	// identities. Only a hash of Identity is stored.
	Identity string
	// MaxAge is the time for which content is used without a check that the object is
	// unchanged. If MaxAge is 0, the default, every read checks the object with a Stat.
	MaxAge time.Duration
	// Stats, if not nil, receives the counters.
	Stats *CacheStats
}

// CacheStats holds the counters of a cache. It is safe for concurrent use.
type CacheStats struct {
	Hits        atomic.Int64 // reads from the disk
	Unverified  atomic.Int64 // hits younger than MaxAge, without a request to the store
	Misses      atomic.Int64 // reads from the store
	Bytes       atomic.Int64 // bytes read from the disk
	Damaged     atomic.Int64 // entries discarded because their checksum was wrong
	WriteErrors atomic.Int64 // entries that could not be written
}

type cache struct {
	driver.Map
	o     CacheOptions
	disk  *disk
	stats *CacheStats

	mu    sync.Mutex
	dirty map[string]time.Time // time of the last change of each key through this Map; older entries are not trusted
	swept time.Time            // time of the last cleanup of dirty
}

// Cache returns a Map that caches content read from m on the local disk. Content younger
// than MaxAge is returned without a request. Older content is used only if a Stat shows
// that the object still has the same version, so that a read needs one request but no
// transfer. Content of objects without versions is not cached.
//
// Entries are written to a temporary file and renamed, and each contains a checksum. A
// damaged entry is read from the store again. If the disk is full or fails, content is
// read from the store. The returned Map has no GetMany.
//
// Cache fails with ncerr.ErrIO if the directory cannot be created, and with
// ncerr.ErrPermission if it belongs to another user or is writable by others. The
// methods of the Map return the errors from m.
func Cache(m driver.Map, o CacheOptions) (driver.Map, error) {
	if o.Size <= 0 {
		o.Size = 1 << 30
	}
	if o.Stats == nil {
		o.Stats = new(CacheStats)
	}
	d, err := openDisk(o.Dir, o.Size)
	if err != nil {
		return nil, ncerr.Wrap("open cache", o.Dir, err)
	}
	return &cache{Map: m, o: o, disk: d, stats: o.Stats, dirty: make(map[string]time.Time)}, nil
}

// Get implements driver.Map.
func (c *cache) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	name := entryName(c.o.Identity, key, opts.Range)
	mem := &partialRead{alloc: alloc}
	e, damaged := c.disk.open(name)
	if damaged {
		c.stats.Damaged.Add(1)
	}
	if e != nil {
		data, info, ok, err := c.fromDisk(ctx, key, opts, e, mem)
		e.close()
		if ok || err != nil {
			return data, info, err
		}
	}
	began := time.Now()
	data, info, err := c.Map.Get(ctx, key, opts, mem.take)
	if err != nil {
		return data, info, err
	}
	c.stats.Misses.Add(1)
	if info.Version != "" && int64(len(data)) <= c.o.Size/8 {
		if err := c.disk.keep(name, began, info, data); err != nil {
			c.stats.WriteErrors.Add(1)
		}
	}
	return data, info, nil
}

// fromDisk reads an entry from the cache if its content is still valid, and reports
// whether it did. It fails if alloc or the Stat of the object fails.
func (c *cache) fromDisk(ctx context.Context, key string, opts *driver.GetOptions, e *entry, mem *partialRead) (data []byte, info driver.Info, ok bool, err error) {
	if opts.Limit > 0 && e.length > opts.Limit {
		return nil, driver.Info{}, false, nil // the store reports the error
	}
	trusted, info := c.trusts(key, e), e.info
	switch {
	case opts.IfMatch != "" && opts.IfMatch != e.info.Version:
		return nil, driver.Info{}, false, nil
	case !trusted:
		now, err := c.Map.Stat(ctx, key)
		if err != nil {
			return nil, driver.Info{}, false, err
		}
		if now.Version != e.info.Version || now.Size != e.info.Size {
			return nil, driver.Info{}, false, nil
		}
		info = now // the object may have been replaced by one with the same version
	}
	dst, err := mem.take(e.length)
	if err != nil {
		return nil, driver.Info{}, false, err
	}
	if !e.read(dst) {
		c.stats.Damaged.Add(1)
		c.disk.drop(e)
		// The caller then reads the object from the store into the same memory. That
		// read fails with a conflict if the object now has a different length.
		return nil, driver.Info{}, false, nil
	}
	c.stats.Hits.Add(1)
	c.stats.Bytes.Add(e.length)
	if trusted {
		c.stats.Unverified.Add(1)
	}
	c.disk.touch(e)
	return dst, info, true, nil
}

// trusts reports whether an entry may be used without a Stat.
func (c *cache) trusts(key string, e *entry) bool {
	if age := time.Since(e.fetched); c.o.MaxAge <= 0 || age < 0 || age > c.o.MaxAge {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, ok := c.dirty[key]
	return !ok || e.fetched.After(changed)
}

// changed records that a key is being changed, or has been changed, through this Map.
func (c *cache) changed(key string) {
	if c.o.MaxAge <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.dirty[key] = now
	if now.Sub(c.swept) > c.o.MaxAge { // writes older than MaxAge no longer matter
		maps.DeleteFunc(c.dirty, func(_ string, at time.Time) bool { return now.Sub(at) > c.o.MaxAge })
		c.swept = now
	}
}

// Put implements driver.Map.
func (c *cache) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	defer c.changed(key) // a failed call may have changed the object
	return c.Map.Put(ctx, key, body, opts)
}

// Delete implements driver.Map.
func (c *cache) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	defer c.changed(key)
	return c.Map.Delete(ctx, key, opts)
}
