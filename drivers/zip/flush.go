package zip

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Flush implements driver.Map. It writes a new archive next to the old one and replaces
// the old one atomically. Without changes it does nothing. If another writer has
// changed the archive since it was read, Flush returns ncerr.ErrConflict and leaves the
// archive unchanged. After any error the archive is unchanged, the Map still holds all
// changes, and the caller may retry. The exception is durability fsync: the new archive
// may already be in place if only the sync of the directory failed. Reads and writes
// continue during a Flush; a concurrent write becomes part of the next Flush.
func (m *Map) Flush(ctx context.Context) error {
	if !m.mode.Writable() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.flushing.Lock()
	defer m.flushing.Unlock()
	snap := m.snapshot()
	if len(snap) == 0 && !m.fresh {
		return nil
	}
	left, err := m.rewrite(ctx, snap)
	if err != nil {
		return ncerr.Wrap("flush", m.name, err)
	}
	return ncerr.Wrap("flush", m.name, left.retire())
}

// snapshot returns the pending changes. It drops deletions of keys that the archive
// does not contain.
func (m *Map) snapshot() map[string]*change {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, c := range m.pending {
		if c.deleted && m.arch.find(key) < 0 {
			delete(m.pending, key)
			m.sorted = nil
		}
	}
	return maps.Clone(m.pending)
}

// leftover holds the archive and the spill file that a Flush has replaced and must close.
type leftover struct {
	old   *archive
	spill *spillFile
}

func (l leftover) retire() error {
	err := l.old.retire()
	if l.spill != nil {
		err = errors.Join(err, l.spill.retire())
	}
	return err
}

// adopt switches to the archive next, which contains the changes of snap. The caller must
// hold m.mu.
func (m *Map) adopt(next *archive, snap map[string]*change) leftover {
	old := m.arch
	m.arch, m.fresh, m.sorted = next, false, nil
	for key, c := range snap {
		if m.pending[key] == c {
			delete(m.pending, key)
			m.inMem -= int64(len(c.mem))
		}
	}
	return leftover{old, m.detachSpill()}
}

// detachSpill removes the spill file from m and returns it if no change or Put uses it.
// The caller must hold m.mu.
func (m *Map) detachSpill() *spillFile {
	s := m.spill
	if s == nil || s.busy > 0 {
		return nil
	}
	for _, c := range m.pending {
		if c.spill == s {
			return nil
		}
	}
	m.spill = nil
	return s
}

// rewrite writes the archive with the changes of snap, replaces the old one and
// switches to the new one. Until the replacement only a temporary file changes.
func (m *Map) rewrite(ctx context.Context, snap map[string]*change) (leftover, error) {
	tmp, err := m.home.temp()
	if err != nil {
		return leftover{}, err
	}
	next, err := m.write(ctx, tmp, snap)
	if err != nil {
		return leftover{}, errors.Join(err, discard(tmp))
	}
	if m.closeToRename {
		return m.replaceClosed(tmp, next, snap)
	}
	if next.src, err = m.home.replace(tmp, nil); err != nil {
		return leftover{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.adopt(next, snap), nil
}

// replaceClosed replaces the archive on systems where it has to be closed first. It
// switches to next before any reader can use the closed archive. If it fails, it
// reopens the old archive.
func (m *Map) replaceClosed(tmp *os.File, next *archive, snap map[string]*change) (leftover, error) {
	closed := false
	src, err := m.home.replace(tmp, func() error {
		m.mu.Lock()
		m.arch.use.Lock()
		closed = true
		return m.arch.src.close()
	})
	if !closed { // the archive is still open
		if err != nil {
			return leftover{}, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		next.src = src
		return m.adopt(next, snap), nil
	}
	old := m.arch
	defer m.mu.Unlock()
	defer old.use.Unlock()
	old.src = &source{}
	if err == nil {
		next.src = src
		return m.adopt(next, snap), nil
	}
	if m.fresh {
		return leftover{}, err
	}
	again, oerr := m.home.open()
	if oerr != nil {
		return leftover{}, errors.Join(err, oerr)
	}
	old.src = again
	return leftover{}, err
}

// member is one member of the archive to be written: new content, or the entry that
// holds its current content.
type member struct {
	key   string
	entry int
	c     *change
}

// write writes the whole archive to tmp and returns it without a source.
func (m *Map) write(ctx context.Context, tmp *os.File, snap map[string]*change) (*archive, error) {
	a := m.arch
	w := &writer{f: tmp, w: bufio.NewWriterSize(tmp, copySize), buf: make([]byte, copySize), level: m.cfg.Deflate}
	if err := a.copyPreamble(ctx, w); err != nil {
		return nil, err
	}
	for _, it := range m.plan(snap) {
		var err error
		if it.c != nil {
			err = w.addNew(ctx, a.prefix+it.key, it.c)
		} else {
			r, ok := a.record(it.entry)
			err = a.copyMember(ctx, m.pools, w, r, ok)
		}
		if err != nil {
			return nil, err
		}
	}
	for pos := range a.skipped() { // members that are not objects of the store
		r, ok := a.recordAt(pos)
		if err := a.copyMember(ctx, m.pools, w, r, ok); err != nil {
			return nil, err
		}
	}
	d := &directory{raw: w.dir, start: w.off, count: w.count, wide: true} // as readDirectory would read it
	next, err := newArchive(&source{}, d, &a.prefix, m.docs)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInternal, "", "", err)
	}
	d.comment = markPrefix(a.dir.comment, a.prefix, next.found, next.sure)
	if _, err := w.Write(d.raw); err != nil {
		return nil, err
	}
	if _, err := w.Write(endRecords(d, w.off)); err != nil {
		return nil, err
	}
	return next, w.w.Flush()
}

// plan returns the members of the new archive in order, metadata documents first.
func (m *Map) plan(snap map[string]*change) []member {
	a := m.arch
	list := make([]member, 0, a.count+len(snap))
	for i, s := range a.table {
		if s == 0 {
			continue
		}
		if key := string(a.keyAt(s)); snap[key] == nil {
			list = append(list, member{key: key, entry: i})
		}
	}
	for key, c := range snap {
		if !c.deleted {
			list = append(list, member{key: key, c: c})
		}
	}
	n := 0 // number of documents
	for i := range list {
		if key := list[i].key; slices.Contains(m.docs, key[strings.LastIndexByte(key, '/')+1:]) {
			list[i], list[n] = list[n], list[i]
			n++
		}
	}
	for _, part := range [][]member{list[:n], list[n:]} {
		slices.SortFunc(part, func(x, y member) int { return compareWritten(x.key, y.key) })
	}
	return list
}

// copyMember copies an unchanged member, or one that is not an object.
func (a *archive) copyMember(ctx context.Context, p *pools, w *writer, r record, ok bool) error {
	name := string(r.name)
	if !ok {
		return badRecord("copy", name)
	}
	if r.flags&flagEncrypted != 0 {
		return ncerr.Errorf(ncerr.ErrUnsupported, "copy", name, "the member is encrypted and cannot be copied, so the archive cannot be changed")
	}
	if err := a.fits(r, "copy", name); err != nil {
		return err
	}
	start, err := a.locate(ctx, p, -1, r, name)
	if err != nil {
		return ncerr.Wrap("copy", name, err)
	}
	return ncerr.Wrap("copy", name, w.addRaw(ctx, r, a.src, start))
}

// copyPreamble copies the bytes before the archive, such as the program of a
// self-extracting archive. It skips the remains of a deleted first member.
func (a *archive) copyPreamble(ctx context.Context, w *writer) error {
	n := a.dir.start
	if list := a.offsets(); len(list) > 0 {
		n = min(n, list[0])
	}
	if n < 1 {
		return nil
	}
	head := make([]byte, 2)
	if _, err := a.src.readAt(ctx, head, 0); err != nil {
		return err
	}
	if string(head) == "PK" {
		return nil
	}
	return w.copy(ctx, a.src, 0, n)
}
