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
		if _, ok := seen[strings.TrimSuffix(p.prefix, "/")]; ok {
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
		keys, err := listKeys(ctx, again.m, p.prefix)
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == p.claim }) // it goes last
		if err := each(ctx, keys, movers, func(key string) error { return again.m.Delete(ctx, key) }); err != nil {
			return err
		}
		if err := again.m.Delete(ctx, p.claim); err != nil {
			return err
		}
	}
	return again.m.Flush(ctx)
}
