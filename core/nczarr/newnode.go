package nczarr

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// What is defined in a dataset that others can open may have the name of
// something that they made there since, or that the metadata does not tell of: a
// node of other software, or the chunks of a writer that died. So before anything
// of a new node is written, the first of its documents is put on condition that
// it is absent, and nothing else may be there. Until the documents that announce
// the node follow, in a Flush, readers see nothing of it. Where the only document
// announces the node, as in Zarr v3, zarr.NewNodeMark is put instead. It goes when
// the document is there, which is put on condition that it is absent, too.

// newNode is the state of a group or variable that this process has defined.
type newNode struct {
	defined bool // and no Flush has written it; guarded by Dataset.mu
	mu      sync.Mutex
	free    bool   // nothing else is at its place
	claim   string // the key of the document that was put, if any
}

// takePlace makes sure that nothing is at the place of v, if v is new, and keeps
// others from making something there. The same goes for the groups above it.
func (v *Var) takePlace(ctx context.Context) error {
	if err := v.group.takePlace(ctx); err != nil {
		return err
	}
	return v.group.ds.takePlace(ctx, &v.fresh, v.key(), v.docs)
}

func (g *Group) takePlace(ctx context.Context) error {
	if g.parent == nil {
		return nil
	}
	if err := g.parent.takePlace(ctx); err != nil {
		return err
	}
	return g.ds.takePlace(ctx, &g.fresh, g.key(), g.docs)
}

func (d *Dataset) takePlace(ctx context.Context, n *newNode, prefix string, docs func() (zarr.Docs, error)) error {
	d.mu.RLock()
	defined := n.defined
	d.mu.RUnlock()
	if !defined {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = n.free || d.created && !d.flushed.Load() || d.swap != nil // nobody else writes there
	if n.free {
		return nil
	}
	if err := d.stillOpened(ctx); err != nil {
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
	if announces(first) == 1 { // readers would see the node: a mark keeps the place
		d.docs.noteAbsent(prefix + first) // if it is there, the look below finds it
		first = zarr.NewNodeMark
		if text, err = claimText(Claim{About: "a group or variable is being defined here; if its process died, what is here belongs to nobody"}); err != nil {
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
			return taken(prefix, claim)
		case ncerr.ErrUnsupported: // the server knows no conditions, whatever its driver says
			put = false
		default:
			if err != nil {
				return err
			}
			d.docs.note(claim, info)
		}
	}
	other, err := d.somethingIn(ctx, prefix, claim, put)
	if err == nil && other != "" {
		err = taken(prefix, other)
	}
	if err != nil {
		if put {
			d.docs.forget(claim)
			err = alsoFailed(err, d.m.Delete(context.WithoutCancel(ctx), claim))
		}
		return err
	}
	n.free = true
	if put {
		n.claim = claim
	}
	return nil
}

// leaveMark removes the mark that has kept the place of a node whose documents are
// there now.
func (d *Dataset) leaveMark(ctx context.Context, n *newNode) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if path.Base(n.claim) != zarr.NewNodeMark {
		return nil
	}
	err := d.m.Delete(ctx, n.claim)
	if ncerr.KindOf(err) == ncerr.ErrPermission { // readers do not mind it
		d.log.Warn("the mark of a new group or variable cannot be deleted", "key", n.claim, "error", err)
		err = nil
	}
	if err == nil {
		d.docs.forget(n.claim)
		n.claim = ""
	}
	return err
}

// taken is the error for a new node at whose place there is something.
func taken(prefix, key string) error {
	return ncerr.Errorf(ncerr.ErrNameInUse, "define", zmap.Path(strings.TrimSuffix(prefix, "/")),
		"%q is there already: another program has made it since the dataset was opened, or the metadata does not name it; nothing of it was changed", key)
}

// somethingIn returns a key with a prefix, but for that of the claim if it was
// put, or "".
func (d *Dataset) somethingIn(ctx context.Context, prefix, claim string, put bool) (string, error) {
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

// settleNew records, after a Flush, that nodes are not new any more.
func (d *Dataset) settleNew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.top.each(func(g *Group) {
		if g.docsInStore != nil {
			g.fresh.defined = false
		}
		for _, v := range g.vars.list {
			if v.docsInStore != nil {
				v.fresh.defined = false
			}
		}
	})
}

// dropNew removes what was written of new nodes that no Flush has announced, so
// that it is not in the way of others, nor taken for theirs. What readers see
// stays: a Flush may have failed after that.
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
	opts.Update = true // which takes no metadata from consolidated metadata
	again, err := openAt(ctx, d.storeLoc(), opts)
	if err != nil {
		return err
	}
	defer again.m.Close(ctx) //nolint:errcheck // nothing is left to be written
	seen := again.nodes()
	again.top.each(func(g *Group) {
		for _, n := range g.lost {
			seen[g.key()+n.name] = nil
		}
	})
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(len(b.prefix), len(a.prefix)) }) // what is in a group goes first
	for _, p := range places {
		_, theirs := seen[strings.TrimSuffix(p.prefix, "/")]
		if theirs && path.Base(p.claim) != zarr.NewNodeMark {
			continue
		}
		was, _ := d.docs.known(p.claim)
		now, err := again.m.Stat(ctx, p.claim)
		if ncerr.KindOf(err) == ncerr.ErrNotFound || err == nil && now.Version != was.Version { // it is somebody else's by now
			continue
		}
		if err != nil {
			return err
		}
		var keys []string
		if !theirs { // else only the mark is known to be ours
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

// deleteLast deletes objects, the one with the key last after the others.
func (d *Dataset) deleteLast(ctx context.Context, keys []string, last string) error {
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == last })
	if err := each(ctx, keys, movers, func(key string) error { return d.m.Delete(ctx, key) }); err != nil {
		return err
	}
	return d.m.Delete(ctx, last)
}

// A NewNode is the place of a group or variable that a writer is making, or was
// making when it died.
type NewNode struct {
	Path  string
	Claim *Claim

	prefix string
}

// NewNodes returns the places in the dataset that zarr.NewNodeMark keeps, what is in
// a group before it.
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

// ClearNewNode removes the mark of a writer that died while it was making a group or
// variable, and the chunks that it left there unless the document of the node is
// there by now. It removes nothing, and returns what else is there, if there is
// something that is no chunk. The caller must know that the writer is dead: the next
// Flush of a living one fails. The dataset must be open for Update.
func (d *Dataset) ClearNewNode(ctx context.Context, n *NewNode) (others []string, err error) {
	mark := n.prefix + zarr.NewNodeMark
	// left returns the chunks at the place
	left := func() (keys []string, err error) {
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
	if _, err = left(); err != nil || len(others) > 0 {
		return others, err
	}
	text, err := claimText(Claim{About: "what a dead writer left is being removed"})
	if err == nil { // the next Flush of the writer fails with this, if it lives
		_, err = d.m.Put(ctx, mark, driver.Bytes(text), nil)
	}
	if err != nil {
		return nil, err
	}
	keys, err := left()
	if err == nil && len(others) == 0 {
		err = d.deleteLast(ctx, keys, mark)
	}
	if err == nil {
		err = d.m.Flush(ctx)
	}
	return others, err
}

// ownPlaces makes sure, before nodes are announced, that the marks of new ones are
// still there: whoever cleared one has removed chunks that this writer wrote.
func (d *Dataset) ownPlaces(ctx context.Context) error {
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
	return each(ctx, marks, movers, func(mark string) error {
		was, _ := d.docs.known(mark)
		now, err := d.m.Stat(ctx, mark)
		if err == nil && now.Version == was.Version || err != nil && ncerr.KindOf(err) != ncerr.ErrNotFound {
			return err
		}
		if there, err := d.isNode(ctx, path.Dir(mark)); there || err != nil {
			return err // putting the document tells whose it is
		}
		return ncerr.Errorf(ncerr.ErrConflict, "flush", zmap.Path(mark), "the mark of this writer was cleared, and the chunks that it wrote there were deleted: reopen the dataset and write them again")
	})
}
