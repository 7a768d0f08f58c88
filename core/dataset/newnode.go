package dataset

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Another program may have created a node with the same name as a new group or
// variable, or the location may contain objects that the metadata does not list: a node
// of other software or the chunks of a writer that died. Therefore, before other
// objects of a new node are written, its first document is put on the condition that it
// is absent, and the location must contain nothing else. Readers do not see the node
// until a Flush writes the documents that announce it.
//
// If the only document announces the node, as in Zarr v3, zarr.NewNodeMark is put
// instead. The document follows later, also on the condition that it is absent. The
// mark is then deleted.

// newNode is the state of a group or variable that this process has defined.
type newNode struct {
	defined bool        // defined and not yet written by a Flush; guarded by Dataset.mu
	put     atomic.Bool // a Flush may have put its documents
	mu      sync.Mutex
	free    bool   // the location is known to contain nothing else
	claim   string // the key of the document that was put, if any
}

// claimNode verifies that the location of v is free, if v is new, and claims it. It
// does the same for the groups above v.
func (v *Var) claimNode(ctx context.Context) error {
	if err := v.group.claimNode(ctx); err != nil {
		return err
	}
	return v.group.ds.claimNode(ctx, &v.fresh, v.key(), v.docs)
}

func (g *Group) claimNode(ctx context.Context) error {
	if g.parent == nil {
		return nil
	}
	if err := g.parent.claimNode(ctx); err != nil {
		return err
	}
	return g.ds.claimNode(ctx, &g.fresh, g.key(), g.docs)
}

func (d *Dataset) claimNode(ctx context.Context, n *newNode, prefix string, docs func() (zarr.Docs, error)) error {
	d.mu.RLock()
	defined := n.defined
	d.mu.RUnlock()
	if !defined {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = n.free || d.created && !d.flushed.Load() || d.swap != nil // no other process writes there
	if n.free {
		return nil
	}
	if err := d.checkNotReplaced(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	made, err := docs()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	first := putOrder(made)[0]
	text := made[first]
	if announces(first) == 1 { // readers would see the node, so put a mark instead
		d.docs.noteAbsent(prefix + first) // if it exists, anyKey finds it
		first = zarr.NewNodeMark
		if text, err = claimText(Claim{About: "a group or variable is being defined here; if its process died, the objects here are leftovers"}); err != nil {
			return err
		}
	}
	claim := prefix + first
	caps := d.m.Capabilities()
	put := caps.IfAbsent && caps.Delete && caps.Durable != driver.OnFlush
	if put {
		info, err := d.m.Put(ctx, claim, driver.Bytes(text), &driver.PutOptions{IfAbsent: true})
		switch ncerr.KindOf(err) {
		case ncerr.ErrObjectExists:
			return takenError(prefix, claim)
		case ncerr.ErrUnsupported: // the server lacks conditional writes although its driver declares them
			put = false
		default:
			if err != nil {
				return err
			}
			d.docs.note(claim, info)
		}
	}
	other, err := d.anyKey(ctx, prefix, claim, put)
	if err == nil && other != "" {
		err = takenError(prefix, other)
	}
	if err != nil {
		if put {
			d.docs.forget(claim)
			err = joinCleanupError(err, d.m.Delete(context.WithoutCancel(ctx), claim))
		}
		return err
	}
	n.free = true
	if put {
		n.claim = claim
	}
	return nil
}

// removeMark removes the mark that claimed the location of a node whose documents have
// been written.
func (d *Dataset) removeMark(ctx context.Context, n *newNode) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if path.Base(n.claim) != zarr.NewNodeMark {
		return nil
	}
	err := d.m.Delete(ctx, n.claim)
	if ncerr.KindOf(err) == ncerr.ErrPermission { // readers ignore the mark
		d.log.Warn("the mark of a new group or variable cannot be deleted", "key", n.claim, "error", err)
		err = nil
	}
	if err == nil {
		d.docs.forget(n.claim)
		n.claim = strings.TrimSuffix(n.claim, zarr.NewNodeMark) + zarr.V3Doc // which claims the location from now on
	}
	return err
}

// takenError returns the error for a new node whose location is in use.
func takenError(prefix, key string) error {
	return ncerr.Errorf(ncerr.ErrNameInUse, "define", zmap.Path(strings.TrimSuffix(prefix, "/")),
		"%q already exists: another program created it after the dataset was opened, or the metadata does not list it; it was not changed", key)
}

// anyKey returns a key with the prefix, or "" if there is no such key. It ignores
// the key of the claim if put is set.
func (d *Dataset) anyKey(ctx context.Context, prefix, claim string, put bool) (string, error) {
	if !d.m.Capabilities().List {
		there, err := d.isNode(ctx, strings.TrimSuffix(prefix, "/"))
		if there {
			return prefix, err
		}
		return "", err
	}
	for e, err := range d.m.List(ctx, prefix, nil) {
		if err != nil || !put || e.Key != claim {
			return e.Key, err
		}
	}
	return "", nil
}

// markFlushed records, after a Flush, that nodes are no longer new. Those in groups whose
// documents were not written, because of a conflict, have not been announced yet and stay new.
func (d *Dataset) markFlushed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var mark func(g *Group)
	mark = func(g *Group) {
		if g.changes.pending() {
			return
		}
		for _, v := range g.vars.list {
			if v.docsInStore != nil {
				v.fresh.defined = false
			}
		}
		for _, sub := range g.groups.list {
			if sub.docsInStore != nil {
				sub.fresh.defined = false
			}
			mark(sub)
		}
	}
	mark(d.top)
}

// dropNew removes the objects of new nodes that no Flush has announced, so that they do
// not obstruct other processes and are not mistaken for objects of those processes. It
// keeps nodes that readers can see, because a Flush may have failed after announcing them.
func (d *Dataset) dropNew(ctx context.Context) error {
	type place struct{ prefix, claim string }
	var places []place
	d.mu.RLock()
	add := func(n *newNode, prefix string) {
		if n.defined && n.claim != "" {
			places = append(places, place{prefix, n.claim})
		}
	}
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			add(&v.fresh, v.key())
		}
		add(&g.fresh, g.key())
	})
	d.mu.RUnlock()
	if len(places) == 0 {
		return nil
	}
	opts := d.opts
	opts.Update = true // do not use consolidated metadata
	again, err := openAt(ctx, d.storeLoc(), opts)
	if err != nil {
		return err
	}
	defer again.m.Close(ctx) //nolint:errcheck // everything was flushed
	seen := again.nodes()
	again.top.each(func(g *Group) {
		for _, n := range g.omitted {
			seen[g.key()+n.name] = nil
		}
	})
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(len(b.prefix), len(a.prefix)) }) // nodes in a group before the group
	for _, p := range places {
		_, visible := seen[strings.TrimSuffix(p.prefix, "/")]
		if visible && path.Base(p.claim) != zarr.NewNodeMark {
			continue
		}
		was, _ := d.docs.known(p.claim)
		now, err := again.m.Stat(ctx, p.claim)
		if ncerr.KindOf(err) == ncerr.ErrNotFound || err == nil && now.Version != was.Version { // the claim is gone or belongs to another process by now
			continue
		}
		if err != nil {
			return err
		}
		var keys []string
		if !visible { // otherwise only the mark belongs to this process
			if keys, err = listKeys(ctx, again.m, p.prefix); err != nil {
				return err
			}
		}
		if err := again.deleteLast(ctx, keys, p.claim); err != nil {
			return err
		}
	}
	return again.m.Flush(ctx)
}

// deleteLast deletes the objects with the given keys. It deletes the object with the key
// final after all others.
func (d *Dataset) deleteLast(ctx context.Context, keys []string, final string) error {
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == final })
	if err := each(ctx, keys, storeConcurrency, func(key string) error { return d.m.Delete(ctx, key) }); err != nil {
		return err
	}
	return d.m.Delete(ctx, final)
}

// NewNode is the location of a group or variable that a writer is defining, or was
// defining when it died.
type NewNode struct {
	Path  string
	Claim *Claim

	prefix string
}

// NewNodes returns the locations in the dataset that are claimed by zarr.NewNodeMark.
// Locations inside a group come before the group.
func (d *Dataset) NewNodes(ctx context.Context) ([]NewNode, error) {
	if d.layout.Format() != 3 || !d.m.Capabilities().List {
		return nil, nil
	}
	var groups []string
	d.mu.RLock()
	d.top.each(func(g *Group) { groups = append(groups, g.key()) })
	d.mu.RUnlock()
	var out []NewNode
	var look func(prefix string) error
	look = func(prefix string) error {
		names, err := d.m.Search(ctx, prefix)
		if err != nil {
			return err
		}
		for _, name := range names {
			if zarr.IsOwn(name) {
				continue
			}
			at := prefix + name + "/"
			if there, err := d.m.Exists(ctx, at+zarr.NewNodeMark); err != nil {
				return err
			} else if !there {
				continue
			}
			if !slices.Contains(groups, at) {
				if err := look(at); err != nil {
					return err
				}
			}
			claim, err := readClaim(ctx, d.m, at+zarr.NewNodeMark)
			if err != nil {
				return err
			}
			if claim != nil {
				out = append(out, NewNode{zmap.Path(prefix + name), claim, at})
			}
		}
		return nil
	}
	for _, prefix := range groups {
		if err := look(prefix); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ClearNewNode removes the mark of a writer that died while it was defining a group or
// variable. It also removes the chunks that the writer left there, unless the document
// of the node exists by now. If the location contains objects other than chunks,
// ClearNewNode removes nothing and returns their keys. The caller must be sure that the
// writer is dead: the next Flush of a live one fails. The dataset must be open for
// Update.
func (d *Dataset) ClearNewNode(ctx context.Context, n *NewNode) (others []string, err error) {
	mark := n.prefix + zarr.NewNodeMark
	// chunkKeys returns the keys of the chunks at the location, and sets others to the
	// other keys there.
	chunkKeys := func() (keys []string, err error) {
		others = nil
		list, err := listKeys(ctx, d.m, n.prefix)
		if slices.Contains(list, n.prefix+zarr.V3Doc) {
			return nil, err
		}
		for _, key := range list {
			switch {
			case key == mark:
			case zarr.MayBeChunk(key[len(n.prefix):]):
				keys = append(keys, key)
			default:
				others = append(others, key)
			}
		}
		return keys, err
	}
	if _, err = chunkKeys(); err != nil || len(others) > 0 {
		return others, err
	}
	text, err := claimText(Claim{About: "leftovers of a dead writer are being removed"})
	if err == nil { // the next Flush of a live writer fails
		_, err = d.m.Put(ctx, mark, driver.Bytes(text), nil)
	}
	if err != nil {
		return nil, err
	}
	keys, err := chunkKeys()
	if err == nil && len(others) == 0 {
		err = d.deleteLast(ctx, keys, mark)
	}
	if err == nil {
		err = d.m.Flush(ctx)
	}
	return others, err
}

// checkNodeMarks verifies, before nodes are announced, that the marks of new nodes
// still exist. A process that cleared a mark has removed chunks that this writer wrote.
func (d *Dataset) checkNodeMarks(ctx context.Context) error {
	var fresh []*newNode
	d.mu.RLock()
	add := func(n *newNode) {
		if n.defined {
			fresh = append(fresh, n)
		}
	}
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			add(&v.fresh)
		}
		add(&g.fresh)
	})
	d.mu.RUnlock()
	var marks []string
	for _, n := range fresh {
		n.mu.Lock()
		if path.Base(n.claim) == zarr.NewNodeMark {
			marks = append(marks, n.claim)
		}
		n.mu.Unlock()
	}
	return each(ctx, marks, storeConcurrency, func(mark string) error {
		was, _ := d.docs.known(mark)
		now, err := d.m.Stat(ctx, mark)
		if err == nil && now.Version == was.Version || err != nil && ncerr.KindOf(err) != ncerr.ErrNotFound {
			return err
		}
		return ncerr.Errorf(ncerr.ErrConflict, "flush", zmap.Path(mark), "the mark of this writer was cleared, and the chunks that it wrote there were deleted: reopen the dataset and write them again")
	})
}
