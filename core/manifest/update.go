package manifest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Change describes how a write changes one chunk.
type Change struct {
	Index []int64 // position in the grid
	Tag   int     // for use by the caller

	// Part is set by Plan if a part of the chunk is kept, so that Old is needed. Whole is
	// set too if this part can only contain what other writers have added: if Old cannot
	// be decoded, the chunk may then be replaced.
	Part, Whole bool
	// MaySkip is set by Plan if Edit may set Skip.
	MaySkip bool
	// Limit is the maximum size of Old in bytes, set by Plan; 0 means no limit.
	Limit int64
	// Alloc, set by Plan, allocates memory for Old; nil means new memory.
	Alloc driver.Alloc

	// Key is the key of the object that contains the chunk. It is set before Plan is
	// called.
	Key string
	// Old is the stored chunk. It is set before Edit is called if Part and Exists are
	// set.
	Old []byte
	// Exists is set if Part is set and a stored chunk exists. Damage is set instead of Old
	// if that chunk cannot be read: its kind is ncerr.ErrLimit if the chunk has more than
	// Limit bytes, and otherwise ncerr.ErrCorrupt.
	Exists bool
	Damage error

	// New is the chunk to store, set by Edit. It must not change until Edit is called again
	// or Update returns.
	New []byte
	// Skip is set by Edit to leave the stored chunk unchanged. Delete is set by Edit to
	// remove the stored chunk, whether or not it has changed since it was read.
	Skip, Delete bool

	version string
	err     error // set if another writer changed the chunk while it was read or stored
}

// An Editor makes the changes of an update.
type Editor interface {
	// Plan is called once, after the chunks have been locked against other updates
	// through this Writer. Stored chunks outside grid need not be kept; a nil grid keeps
	// all chunks. Chunks outside known, which is a part of grid, can have been stored
	// only by other writers. batch is the maximum number of changes to edit in one call;
	// 0 means no maximum.
	Plan(changes []Change) (grid, known []int64, batch int)
	// Edit is called after the chunks that are changed in part have been read, and again
	// for those that another writer has changed in the meantime. A Writer whose units
	// have several chunks may call it several times, each time with some of the changes.
	// An error ends the update.
	Edit(ctx context.Context, changes []*Change) error
}

// conflictTries is the maximum number of times that a chunk is read and edited in one
// update if another writer changes it each time.
const conflictTries = 16

// Update implements Writer.
func (c *Computed) Update(ctx context.Context, changes []Change, editor Editor) error {
	a := c.arena()
	for i := range changes {
		changes[i].Key = a.key(c.prefix, changes[i].Index, c.keys)
	}
	c.arenas.Put(a)
	defer c.locks.unlock(c.locks.lock(changes))
	if err := ctx.Err(); err != nil { // waiting for the locks may have taken long
		return err
	}
	editor.Plan(changes)
	left := make([]*Change, len(changes))
	for i := range changes {
		left[i] = &changes[i]
	}
	var conflict error
	for range conflictTries {
		if err := c.readOld(ctx, left); err != nil {
			return err
		}
		ready, again := make([]*Change, 0, len(left)), left[:0]
		for _, ch := range left {
			if ch.err == nil {
				ready = append(ready, ch)
			} else {
				conflict, again = ch.err, append(again, ch)
			}
		}
		if err := editor.Edit(ctx, ready); err != nil {
			return err
		}
		if err := c.store(ctx, ready); err != nil {
			return err
		}
		for _, ch := range ready {
			if ch.err != nil {
				conflict, again = ch.err, append(again, ch)
			}
		}
		if left = again; len(left) == 0 {
			return nil
		}
	}
	return ncerr.Wrap("write", zmap.Path(left[0].Key), conflict)
}

// readOld reads the stored chunks of the changes for which Part is set.
func (c *Computed) readOld(ctx context.Context, changes []*Change) error {
	var reqs []zmap.GetRequest
	var which []*Change
	for _, ch := range changes {
		if ch.Old, ch.Exists, ch.Damage, ch.version, ch.err = nil, false, nil, "", nil; !ch.Part {
			continue
		}
		alloc := ch.Alloc
		if alloc == nil {
			alloc = driver.Heap
		}
		reqs = append(reqs, zmap.GetRequest{Key: ch.Key, Alloc: alloc, Opts: zmap.GetOptions{Limit: ch.Limit}})
		which = append(which, ch)
	}
	var failed error
	got := func(k int, data []byte, info zmap.Info, err error) {
		ch := which[k]
		switch kind := ncerr.KindOf(err); {
		case err == nil:
			ch.Old, ch.Exists, ch.version = data, true, info.Version
		case kind == ncerr.ErrLimit || kind == ncerr.ErrCorrupt && !retryable(err):
			ch.Exists, ch.Damage = true, err
		case kind == ncerr.ErrConflict: // the chunk was replaced between two attempts to read it
			ch.err = err
		case kind != ncerr.ErrNotFound && failed == nil:
			failed = ncerr.Wrap("write", zmap.Path(ch.Key), err)
		}
	}
	if len(reqs) > 1 && c.many {
		if err := c.m.GetMany(ctx, reqs, got); err != nil {
			return err
		}
		return failed
	}
	for k := range reqs {
		data, info, err := c.m.Get(ctx, reqs[k].Key, &reqs[k].Opts, reqs[k].Alloc)
		if ncerr.IsContext(err) {
			return err
		}
		if got(k, data, info, err); failed != nil {
			return failed
		}
	}
	return nil
}

// retryable reports whether err may be an error of the transfer that does not occur again
// on a retry.
func retryable(err error) bool {
	again, _ := ncerr.Retry(err)
	return again
}

// store stores the changes. It sets the err field of changes that conflict with another
// writer, and returns the first of the other errors.
func (c *Computed) store(ctx context.Context, changes []*Change) error {
	caps := c.m.Capabilities()
	var reqs []zmap.PutRequest
	var which []int
	for i, ch := range changes {
		if ch.Skip {
			continue
		}
		if ch.Delete {
			if err := c.m.Delete(ctx, ch.Key); err != nil {
				return err
			}
			continue
		}
		req := zmap.PutRequest{Key: ch.Key, Body: driver.Bytes(ch.New)}
		if ch.Part && caps.IfMatch {
			req.Opts.IfMatch, req.Opts.IfAbsent = ch.version, !ch.Exists && caps.IfAbsent
		}
		reqs, which = append(reqs, req), append(which, i)
	}
	var failed error
	first := len(changes)
	stored := func(k int, _ zmap.Info, err error) {
		ch := changes[which[k]]
		switch kind := ncerr.KindOf(err); {
		case err == nil:
		case kind == ncerr.ErrConflict && ch.Part, kind == ncerr.ErrObjectExists && reqs[k].Opts.IfAbsent:
			ch.err = err
		case which[k] < first:
			first, failed = which[k], ncerr.Wrap("write", zmap.Path(ch.Key), err)
		}
	}
	if len(reqs) > 1 && c.many {
		if err := c.m.PutMany(ctx, reqs, stored); err != nil && (failed == nil || ncerr.IsContext(err)) {
			return err
		}
		return failed // unlike err, failed contains the key of the chunk
	}
	for k := range reqs {
		info, err := c.m.Put(ctx, reqs[k].Key, reqs[k].Body, &reqs[k].Opts)
		if stored(k, info, err); failed != nil {
			return failed
		}
	}
	return nil
}

// locks holds a lock for each key in use.
type locks struct {
	mu   sync.Mutex
	used map[string]*lock
}

type lock struct {
	sync.Mutex
	key   string
	users int
}

// lock locks the keys of changes in sorted order, so that two updates never deadlock.
func (l *locks) lock(changes []Change) []*lock {
	held := make([]*lock, 0, len(changes))
	l.mu.Lock()
	if l.used == nil {
		l.used = make(map[string]*lock)
	}
	for i := range changes {
		key := changes[i].Key
		k := l.used[key]
		if k == nil {
			k = &lock{key: key}
			l.used[key] = k
		}
		k.users++
		held = append(held, k)
	}
	l.mu.Unlock()
	slices.SortFunc(held, func(a, b *lock) int { return strings.Compare(a.key, b.key) })
	for _, k := range held {
		k.Lock()
	}
	return held
}

func (l *locks) unlock(held []*lock) {
	for _, k := range held {
		k.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range held {
		if k.users--; k.users == 0 {
			delete(l.used, k.key)
		}
	}
}
