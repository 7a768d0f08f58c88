package dataset

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// changes counts the changes of a node's metadata, and how many of them have been
// written. A change made during a write is written at the next Flush.
type changes struct {
	made, written int
	unsure        bool // a write failed, so the documents in the store are not known
	// base holds the documents as this process would have written them, if the documents in
	// the store also contain changes of other writers; otherwise nil. A later write
	// merges the differences from base.
	base zarr.Docs
}

func (c *changes) add()          { c.made++ }
func (c *changes) pending() bool { return c.made != c.written }

// markWritten returns a function that marks all changes up to now as written.
func (c *changes) markWritten() func() {
	made := c.made
	return func() { c.written = made }
}

// saved holds the documents of one node while they are being written.
type saved struct {
	prefix  string // key prefix, "" for the root
	docs    zarr.Docs
	base    zarr.Docs // see changes.base; the documents in the store if that is nil
	dirty   bool
	stage   int                         // nodes of one stage are written concurrently, stages in order
	take    func(context.Context) error // claims the location of the node, see claimNode
	fresh   *newNode
	seal    func()     // records all changes as written
	changes *changes   // nil for a node that was left out
	inStore *zarr.Docs // documents known to be in the store; nil for a node that was left out
	hidden  bool       // putHidden writes the documents that do not make the node visible
	group   *Group     // the node, if it is a group
	array   *Var       // the node, if it is an array
	shape   []int64    // of array, in docs
}

// current returns the documents that the store is known to contain.
func (n *saved) current() zarr.Docs {
	if n.inStore != nil {
		return *n.inStore
	}
	return n.docs
}

// save writes the documents of all changed nodes: first variables, then groups from the
// deepest up to the root, so that everything exists before it is announced. It writes
// the consolidated document, which repeats them all, last. If other writers have changed the
// same attributes, it writes everything else and returns a mergeConflict.
func (d *Dataset) save(ctx context.Context) error {
	d.saving.Lock() // an older document must not overwrite a newer one
	defer d.saving.Unlock()
	d.mu.Lock()
	nodes, err := d.collect()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	run := &merging{nodes: nodes, adopted: d.unadopted}
	adding := d.layout.Inline() && d.consolidated && !d.created && d.merges() && !zarr.HasInlineMetadata(d.top.docsInStore)
	changed, err := d.putAll(ctx, run)
	if err == nil && adding && changed {
		err = d.copyChanged(ctx, run)
	}
	d.stale = d.consolidated && (d.stale || changed)
	if d.layout.Inline() { // consolidated metadata is part of the root's document
		d.stale = d.stale && err != nil
	}
	if err == nil && !d.layout.Inline() {
		wait := func(bool) {}
		if d.stale && d.exclusive() { // at the same time, to save a round trip
			wait = inParallel(ctx, func(ctx context.Context) { d.newClaim.checkPublished(ctx, d.m) })
		}
		err = d.saveConsolidated(ctx, run, changed)
		wait(true)
	}
	if err == nil && !d.stale && run.conflict() == nil { // the document of a group that was not written lacks new copies
		d.mu.Lock()
		d.uncopied = nil
		d.mu.Unlock()
	}
	d.unadopted = run.adopted
	if err == nil {
		if err = d.adopt(ctx, run); err == nil {
			d.unadopted = nil
		}
	}
	if err == nil {
		err = run.conflict()
	}
	return err
}

// putAll writes the documents of the changed nodes stage by stage, and reports whether
// any node had changed.
func (d *Dataset) putAll(ctx context.Context, run *merging) (changed bool, err error) {
	nodes := slices.DeleteFunc(slices.Clone(run.nodes), func(n saved) bool { return !n.dirty })
	var hidden *errgroup.Group
	if d.created && !d.announced.Load() { // afterwards nodes are visible and may be claimed by other processes
		hidden, err = d.putHidden(ctx, nodes)
		defer hidden.Wait() //nolint:errcheck // without an error so far the result was checked before the groups
		if err != nil {
			return true, err
		}
	}
	if d.layout.Inline() && len(nodes) > 0 && nodes[len(nodes)-1].prefix != "" && d.merges() {
		defer func() {
			if err == nil {
				err = d.copyIntoRoot(ctx, run)
			}
		}()
	}
	for len(nodes) > 0 {
		n := 1
		for n < len(nodes) && nodes[n].stage == nodes[0].stage {
			n++
		}
		if hidden != nil && nodes[0].group != nil {
			if err := hidden.Wait(); err != nil {
				return true, err
			}
		}
		if err := d.putStage(ctx, nodes[:n], run); err != nil {
			return true, err
		}
		nodes, changed = nodes[n:], true
	}
	return changed, nil
}

// putStage writes the documents of nodes concurrently.
func (d *Dataset) putStage(ctx context.Context, nodes []saved, run *merging) error {
	g, stop := errgroup.WithContext(ctx)
	g.SetLimit(d.workers(1 << 20))
	for _, n := range nodes {
		g.Go(func() error {
			if err := stop.Err(); err != nil {
				return err
			}
			return d.put(ctx, &n, run) // do not cancel puts in progress
		})
	}
	return g.Wait()
}

func (d *Dataset) put(ctx context.Context, n *saved, run *merging) error {
	if err := n.take(ctx); err != nil {
		return err
	}
	if n.prefix == "" {
		d.announced.Store(true)
	}
	n.fresh.put.Store(true)
	if n.array != nil {
		n.array.early.take()
	}
	d.mu.RLock()
	unsure, stored, base := n.changes.unsure, maps.Clone(n.current()), maps.Clone(n.base)
	d.mu.RUnlock()
	if stored == nil {
		stored, base = make(zarr.Docs), make(zarr.Docs)
	}
	d.noteUncopied(n.prefix)
	conflict, merged := false, false
	for _, name := range putOrder(n.docs) {
		old, known := base[name]
		if n.hidden && announces(name) == 0 {
			stored[name], base[name] = n.docs[name], n.docs[name]
			continue
		}
		if known && !unsure && d.layout.SameContent(old, n.docs[name]) { // unchanged, such as the .zgroup of the root
			continue
		}
		text, err := d.putMerged(ctx, n, name, run)
		switch {
		case isMergeConflict(err):
			run.refused(n.prefix, err)
			conflict = true
			continue
		case err != nil:
			return n.fail(d, name, err)
		}
		merged = merged || !bytes.Equal(text, n.docs[name])
		stored[name], base[name] = text, n.docs[name]
	}
	if err := d.removeMark(ctx, n.fresh); err != nil {
		return n.fail(d, zarr.NewNodeMark, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if *n.inStore = stored; !conflict {
		n.seal()
	}
	if n.changes.unsure, n.changes.base = false, nil; !maps.EqualFunc(base, stored, bytes.Equal) {
		n.changes.base = base
	}
	if n.array != nil && !conflict {
		n.array.sharing.stored = n.shape
	}
	if merged {
		run.merged(*n)
	}
	return nil
}

// fail records that an object of the node could not be put or deleted, and returns the
// error.
func (n *saved) fail(d *Dataset, name string, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n.changes.unsure = true
	return ncerr.Wrap("write", zmap.Path(n.prefix+name), err)
}

// putOrder returns the names of a node's documents in the order in which they are put.
// The documents that make the node visible come last.
func putOrder(docs zarr.Docs) []string {
	names := slices.Sorted(maps.Keys(docs))
	slices.Reverse(names) // put .zgroup and .zarray after .zattrs
	slices.SortStableFunc(names, func(a, b string) int { return announces(a) - announces(b) })
	return names
}

// announces returns 1 for documents that make a node visible to readers, and 0
// otherwise.
func announces(name string) int {
	if zarr.IsNodeDoc(name) {
		return 1
	}
	return 0
}

// collect returns the documents of the changed nodes in the order of writing. If the
// metadata is consolidated, it returns those of all nodes.
func (d *Dataset) collect() ([]saved, error) {
	var groups []*Group
	d.top.each(func(g *Group) { groups = append(groups, g) })
	slices.SortStableFunc(groups, func(a, b *Group) int { return b.depth - a.depth })
	all := d.consolidated || slices.ContainsFunc(groups, d.repeatsNodes) // include unchanged nodes
	var out []saved
	for _, g := range groups {
		for _, v := range g.vars.list {
			if v.in != nil {
				continue // the array is preserved as one of g.omitted
			}
			if v.changes.pending() && d.layout.NCZarr() {
				v.declareDims()
			}
			if v.changes.pending() || all {
				n, err := docsToSave(v.key(), &v.changes, &v.docsInStore, v.docs)
				if err != nil {
					return nil, err
				}
				n.take, n.fresh, n.array, n.shape = v.claimNode, &v.fresh, v, slices.Clone(v.extent())
				out = append(out, n)
			}
		}
		for _, n := range g.omitted {
			out = append(out, saved{prefix: g.key() + n.name + "/", docs: n.docs})
		}
	}
	deepest := groups[0].depth
	for _, g := range groups {
		if d.repeatsNodes(g) && (g.parent == nil && d.stale || slices.ContainsFunc(out, func(n saved) bool { return n.dirty && strings.HasPrefix(n.prefix, g.key()) })) {
			g.changes.add()
		}
		if (g.changes.pending() || all) && !d.arrayOnly {
			n, err := docsToSave(g.key(), &g.changes, &g.docsInStore, g.docs)
			if err == nil && n.dirty && d.layout.Inline() {
				n.docs, err = d.withInline(g, n.docs, out)
			}
			if err != nil {
				return nil, err
			}
			n.stage, n.take, n.fresh, n.group = 1+deepest-g.depth, g.claimNode, &g.fresh, g
			out = append(out, n)
		}
	}
	return out, nil
}

// docsToSave returns the documents of one node: new ones if the node has changed, and
// those in the store otherwise.
func docsToSave(prefix string, c *changes, inStore *zarr.Docs, write func() (zarr.Docs, error)) (saved, error) {
	if !c.pending() && *inStore != nil {
		return saved{prefix: prefix, docs: *inStore, inStore: inStore}, nil
	}
	docs, err := write()
	n := saved{prefix: prefix, docs: docs, base: *inStore, dirty: c.pending(), seal: c.markWritten(), changes: c, inStore: inStore}
	if c.base != nil {
		n.base = c.base
	}
	return n, err
}

// declareDims marks groups for writing if they have to declare dimensions that v refers
// to and that no document declares yet.
func (v *Var) declareDims() {
	for _, d := range v.dims {
		if d.generated {
			d.generated = false
			d.group.changes.add()
		}
	}
}

func (d *Dataset) writeOptions() zarr.WriteOptions {
	return zarr.WriteOptions{Layout: d.layout, NoXarray: d.noXarray}
}

// docs returns the documents of a variable. The caller holds Dataset.mu.
func (v *Var) docs() (zarr.Docs, error) {
	a := *v.meta
	a.Attrs = v.attrs
	if !a.Scalar {
		a.Shape = v.extent()
	}
	a.DimNames, a.DimRefs = make([]string, 0, len(v.dims)), make([]string, 0, len(v.dims))
	anonymous := false
	for _, d := range v.dims {
		a.DimNames = append(a.DimNames, d.name)
		a.DimRefs = append(a.DimRefs, d.Path())
		anonymous = anonymous || d.anonymous
	}
	if anonymous && !v.group.ds.layout.NCZarr() {
		a.DimNames, a.DimRefs = v.meta.DimNames, nil // do not write generated names
		if a.DimNames == nil && v.group.ds.layout.AllowsUnnamedDims() {
			for _, d := range v.dims {
				name := d.name
				if d.anonymous {
					name = ""
				}
				a.DimNames = append(a.DimNames, name)
			}
		}
	}
	opts := v.group.ds.writeOptions()
	opts.IsRoot, opts.Old = v.group.parent == nil, v.docsInStore
	return a.Docs(opts)
}

// docs returns the documents of a group. The caller holds Dataset.mu.
func (g *Group) docs() (zarr.Docs, error) {
	ds := g.ds
	m := zarr.Group{Layout: ds.layout, Listed: true, Attrs: g.attrs}
	for _, d := range g.dims.list {
		m.Dims = append(m.Dims, zarr.Dim{Name: d.name, Len: d.len, Unlimited: d.unlimited})
	}
	for _, v := range g.vars.list {
		if v.in == nil {
			m.Arrays = append(m.Arrays, v.name)
		}
	}
	for _, sub := range g.groups.list {
		m.Groups = append(m.Groups, sub.name)
	}
	for _, n := range g.omitted {
		if n.isArr {
			m.Arrays = append(m.Arrays, n.name)
		} else {
			m.Groups = append(m.Groups, n.name)
		}
	}
	opts := ds.writeOptions()
	opts.Old = g.docsInStore
	if g.parent == nil {
		opts.IsRoot = true
		m.NCProperties = ds.ncProperties
	}
	return m.Docs(opts)
}
