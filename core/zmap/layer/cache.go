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

// CacheOptions are the options of [Cache].
type CacheOptions struct {
	// Dir is the directory, made when it is not there, with access for its
	// owner only. Several processes of one user may share it, for any stores;
	// one in which others could put content of theirs is refused.
	Dir string
	// Size is the most, in bytes, that is kept; 0 is 1 GiB. It may be exceeded
	// by a sixteenth for each process that writes at the moment.
	Size int64
	// Identity names the store among all stores, and who reads it: within
	// MaxAge nobody else is given what was read. Only a hash of it is written.
	Identity string
	// MaxAge is how long content is used without asking the store whether it
	// is still the same; 0, the default, always asks, with a Stat.
	MaxAge time.Duration
	// Stats, when not nil, counts.
	Stats *CacheStats
}

// CacheStats counts what a cache did. It is safe for concurrent use.
type CacheStats struct {
	Hits    atomic.Int64 // reads from the disk
	Trusted atomic.Int64 // of them: younger than MaxAge, the store was not asked
	Misses  atomic.Int64 // reads from the store
	Bytes   atomic.Int64 // read from the disk
	Damaged atomic.Int64 // entries thrown away because their checksum was wrong
	Unkept  atomic.Int64 // contents that could not be written
}

type cache struct {
	driver.Map
	o     CacheOptions
	disk  *disk
	stats *CacheStats

	mu    sync.Mutex
	dirty map[string]time.Time // keys changed through this Map: nothing older is trusted
	swept time.Time            // when the changes that are too old to matter were last forgotten
}

// Cache keeps what is read from m on the local disk, and reads it from there
// the next time. What it gives is never older than MaxAge: before that, content
// from the disk is used only when a Stat shows that the object still has the
// version that the content is from, so that a read costs a round trip but no
// transfer. Content of objects without versions is not kept.
//
// Entries are written beside and renamed, and carry a checksum over all they
// are: a damaged one is read from the store again. When the disk is full or
// fails, the cache steps aside. A fast path of m for many reads is hidden.
//
// Errors: those of m; making the directory may fail with ncerr.ErrIO, one of
// another user is ncerr.ErrPermission.
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
	mem := &landed{alloc: alloc}
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
			c.stats.Unkept.Add(1)
		}
	}
	return data, info, nil
}

// fromDisk reads an entry if it may be used. An error is about the caller's
// memory, or says that the object is gone or cannot be asked for.
func (c *cache) fromDisk(ctx context.Context, key string, opts *driver.GetOptions, e *entry, mem *landed) (data []byte, info driver.Info, ok bool, err error) {
	if opts.Limit > 0 && e.length > opts.Limit {
		return nil, driver.Info{}, false, nil // the store says how it is
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
		info = now // the version may be that of the content, and the object another one
	}
	dst, err := mem.take(e.length)
	if err != nil {
		return nil, driver.Info{}, false, err
	}
	if !e.read(dst) {
		c.stats.Damaged.Add(1)
		c.disk.drop(e)
		// The store may have other content by now, of another length: that
		// goes through the same memory, and is a conflict if it does not fit.
		return nil, driver.Info{}, false, nil
	}
	c.stats.Hits.Add(1)
	c.stats.Bytes.Add(e.length)
	if trusted {
		c.stats.Trusted.Add(1)
	}
	c.disk.touch(e)
	return dst, info, true, nil
}

// trusts reports whether an entry is young enough to be used unasked.
func (c *cache) trusts(key string, e *entry) bool {
	if age := time.Since(e.fetched); c.o.MaxAge <= 0 || age < 0 || age > c.o.MaxAge {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, ok := c.dirty[key]
	return !ok || e.fetched.After(changed)
}

// changed notes that a key is being, or has been, changed through this Map.
func (c *cache) changed(key string) {
	if c.o.MaxAge <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.dirty[key] = now
	if now.Sub(c.swept) > c.o.MaxAge { // what is older than they are is not trusted any more
		maps.DeleteFunc(c.dirty, func(_ string, at time.Time) bool { return now.Sub(at) > c.o.MaxAge })
		c.swept = now
	}
}

// Put implements driver.Map.
func (c *cache) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	defer c.changed(key) // whatever comes of it
	return c.Map.Put(ctx, key, body, opts)
}

// Delete implements driver.Map.
func (c *cache) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	defer c.changed(key)
	return c.Map.Delete(ctx, key, opts)
}
