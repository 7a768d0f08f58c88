package zip

import (
	"context"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// pendingKey is a key with its pending change. c is nil for a key that only the name of
// an unreadable member suggests.
type pendingKey struct {
	key string
	c   *change
}

// view holds the keys of a Map at one moment, in byte order.
type view struct {
	a       *archive
	entries []uint32
	pending []pendingKey
}

// view returns the current keys. The first call for an archive sorts them.
func (m *Map) view() view {
	if m.mode == driver.Read {
		return view{a: m.arch, entries: m.arch.sorted(), pending: m.arch.unread()}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sorted == nil && len(m.pending) > 0 {
		m.sorted = make([]pendingKey, 0, len(m.pending))
		for key, c := range m.pending {
			m.sorted = append(m.sorted, pendingKey{key, c})
		}
		slices.SortFunc(m.sorted, func(x, y pendingKey) int { return strings.Compare(x.key, y.key) })
	}
	return view{a: m.arch, entries: m.arch.sorted(), pending: m.withUnread(m.sorted)}
}

// withUnread merges the keys suggested by unreadable members into changes. The caller
// must hold m.mu.
func (m *Map) withUnread(changes []pendingKey) []pendingKey {
	unread := m.arch.unread()
	if len(unread) == 0 {
		return changes
	}
	all := slices.Clone(changes)
	for _, k := range unread {
		if m.pending[k.key] == nil {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(x, y pendingKey) int { return strings.Compare(x.key, y.key) })
	return all
}

// seek skips the keys before key.
func (v *view) seek(key string) {
	v.entries = v.entries[sort.Search(len(v.entries), func(i int) bool { return string(v.base(i)) >= key }):]
	v.pending = v.pending[sort.Search(len(v.pending), func(i int) bool { return v.pending[i].key >= key }):]
}

// base returns the key of the i-th remaining entry of the archive.
func (v *view) base(i int) []byte { return v.a.keyAt(v.a.table[v.entries[i]]) }

// next removes and returns the first key. entry is its entry in the archive, or -1. c is
// its pending change, or nil.
func (v *view) next() (key string, entry int, c *change, ok bool) {
	for len(v.entries) > 0 || len(v.pending) > 0 {
		entry = -1
		if len(v.entries) > 0 {
			key, entry = string(v.base(0)), int(v.entries[0])
		}
		if len(v.pending) == 0 || entry >= 0 && key < v.pending[0].key {
			v.entries = v.entries[1:]
			return key, entry, nil, true
		}
		p := v.pending[0]
		v.pending = v.pending[1:]
		if entry >= 0 && key == p.key {
			v.entries = v.entries[1:]
		}
		if p.c == nil || !p.c.deleted {
			return p.key, -1, p.c, true
		}
	}
	return "", -1, nil, false
}

// List implements driver.Map. It yields the keys at the start of the iteration and
// ignores later writes. The size is -1 for an object with an impossible directory
// record and for a key that only an unreadable member suggests: see the package
// comment.
func (m *Map) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		v := m.view()
		v.seek(max(prefix, opts.StartAfter))
		for {
			key, entry, c, ok := v.next()
			if !ok || !strings.HasPrefix(key, prefix) {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(driver.Entry{}, err)
				return
			}
			e := driver.Entry{Key: key}
			if i := strings.IndexByte(key[len(prefix):], '/'); i >= 0 && !opts.Recursive {
				e = driver.Entry{Key: key[:len(prefix)+i+1], Prefix: true, Info: driver.Info{Size: -1}}
				v.seek(key[:len(prefix)+i] + "0") // '0' is the byte after the slash
			} else {
				e.Info = v.info(entry, c)
			}
			if e.Key > opts.StartAfter && !yield(e, nil) {
				return
			}
		}
	}
}

func (v *view) info(entry int, c *change) driver.Info {
	if c != nil {
		return c.info()
	}
	if entry < 0 {
		return driver.Info{Size: -1}
	}
	r, ok := v.a.record(entry)
	if !ok {
		return driver.Info{Size: -1}
	}
	return driver.Info{Size: r.size, Version: versionOf(r.crc, r.size)}
}
