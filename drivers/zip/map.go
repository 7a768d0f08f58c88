package zip

import (
	"context"
	"errors"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Map is an open archive. It is safe for concurrent use; in mode Read, Get and Stat
// take no lock.
type Map struct {
	driver.Base
	home          *storage
	cfg           config
	mode          driver.Mode
	name          string   // name of the archive in messages
	prefix        string   // prefix of the dataset in the archive, with a trailing slash
	docs          []string // value of OpenSpec.Documents
	pools         *pools
	closeToRename bool

	flushing sync.Mutex // locked during Flush

	mu      sync.RWMutex // protects the following fields in writable modes
	arch    *archive     // latest state of the archive that was read or written
	fresh   bool         // the archive is new and replaces any existing one
	pending map[string]*change
	sorted  []pendingKey   // pending, sorted; nil if out of date
	dirs    map[string]int // number of objects below each directory; nil until the first write
	inMem   int64          // bytes of pending content in memory
	spill   *spillFile     // created when needed
}

var _ driver.Map = (*Map)(nil)

// Capabilities implements driver.Map.
func (m *Map) Capabilities() driver.Capabilities {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return driver.Capabilities{
		Ranges: true, List: true, Write: true, Delete: true, IfAbsent: true,
		RecursiveList: true, OrderedList: true, PrefixExclusive: true,
		Durable: driver.OnFlush,
		MaxKey:  max16 - len(m.prefix),
		Latency: driver.Local,
	}
}

// Prefix returns the top-level directory of the dataset in the archive, with a slash,
// or "".
func (m *Map) Prefix() string { return m.prefix }

// Skipped describes a member of an archive that is not an object of the store.
type Skipped struct {
	Name   string // name stored in the archive, not necessarily UTF-8
	Reason string
}

// Skipped returns the members that are not objects of the store, in archive order. It
// omits directory entries.
func (m *Map) Skipped() []Skipped {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var list []Skipped
	for pos := range m.arch.skipped() {
		d := m.arch.dir.raw[pos:]
		why := classifyRecord(d)
		if why == isObject {
			why = isOutside
		}
		list = append(list, Skipped{Name: string(recordName(d)), Reason: reasonText[why]})
	}
	return list
}

// found is the location of the content of a key: a change or an entry of an archive.
type found struct {
	c     *change
	a     *archive
	entry int
}

// release unlocks the content. It must be called once, after the content has been read.
func (f found) release(m *Map) {
	switch {
	case m.mode == driver.Read:
	case f.a != nil:
		f.a.use.RUnlock()
	case f.c != nil && f.c.spill != nil:
		f.c.spill.use.RUnlock()
	}
}

// find looks up key and keeps its content available until release.
func (m *Map) find(key string) (found, bool) {
	if m.mode == driver.Read {
		entry := m.arch.find(key)
		return found{a: m.arch, entry: entry}, entry >= 0
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if c := m.pending[key]; c != nil {
		if c.deleted {
			return found{}, false
		}
		if c.spill != nil {
			c.spill.use.RLock()
		}
		return found{c: c}, true
	}
	entry := m.arch.find(key)
	if entry < 0 {
		return found{}, false
	}
	m.arch.use.RLock()
	return found{a: m.arch, entry: entry}, true
}

// absent returns the error for a key that find did not find.
func (m *Map) absent(op, key string) error {
	if m.mode == driver.Read {
		return m.arch.absent(op, key)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.pending[key] != nil {
		return ncerr.ErrNotFound
	}
	return m.arch.absent(op, key)
}

// Get implements driver.Map. It verifies the checksum if it reads the whole object, and
// always for a compressed object, because reading a range of it decodes all of it. In
// the steady state it allocates no memory beyond alloc.
func (m *Map) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.Info{}, err
	}
	f, ok := m.find(key)
	if !ok {
		return nil, driver.Info{}, m.absent("get", key)
	}
	defer f.release(m)
	if f.c != nil {
		return f.c.get(ctx, key, opts, alloc)
	}
	return f.a.get(ctx, m.pools, f.entry, key, opts, alloc)
}

// Stat implements driver.Map. It uses only the directory.
func (m *Map) Stat(ctx context.Context, key string) (driver.Info, error) {
	if err := ctx.Err(); err != nil {
		return driver.Info{}, err
	}
	f, ok := m.find(key)
	if !ok {
		return driver.Info{}, m.absent("stat", key)
	}
	defer f.release(m)
	if f.c != nil {
		return f.c.info(), nil
	}
	return f.a.info(f.entry)
}

// Close implements driver.Map. It discards changes that were not flushed.
func (m *Map) Close(context.Context) error {
	var err error
	if m.spill != nil {
		err = discard(m.spill.f)
	}
	return errors.Join(m.arch.src.close(), err)
}
