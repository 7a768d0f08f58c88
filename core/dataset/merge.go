package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Several processes can change the metadata of a dataset at the same time. A document is put
// on the condition that the store still has the version that this process read or wrote.
// If another process has put a newer version, it is read, the changes of both are merged
// (see zarr.Layout.Merge), and the result is put, again on that condition.
//
// Consolidated metadata repeats the documents of all nodes, so it must not be written from the
// memory of one process. A process first puts the documents and then the consolidated
// metadata. If the consolidated metadata has changed since it was read, the process
// reads it, reads the documents that it has put, replaces their copies, and puts the
// result on the condition that the consolidated metadata has not changed since. Each
// change of a document is thus followed by an update of its copy, and the last update has
// read the document after its last change.

// mergeTries is the maximum number of times that a document is read and put in one Flush
// if other writers change it each time.
const mergeTries = 32

// merges reports whether changes of other writers are merged. That requires a store with
// conditional writes, or the assurance of the caller that no other process writes.
// Otherwise a changed document or a foreign growth mark is an error.
func (d *Dataset) merges() bool {
	c := d.m.Capabilities()
	return c.IfMatch && c.IfAbsent || d.opts.SingleWriter
}

// exclusive reports whether no other process can change the documents of the dataset.
func (d *Dataset) exclusive() bool { return d.created && !d.flushed.Load() || d.swap != nil }

// mergeConflict is the cause of an error for a document that was not written, because
// another process has changed the same members to other values.
type mergeConflict struct{ names []string }

func (e *mergeConflict) Error() string {
	quoted := make([]string, len(e.names))
	for i, name := range e.names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	what := "the attribute or member "
	if len(quoted) > 1 {
		what = "the attributes or members "
	}
	return "another process has changed " + what + strings.Join(quoted, ", ") + " of the document to another value, so the document was not written: reopen the dataset and repeat the change"
}

func isMergeConflict(err error) bool {
	var c *mergeConflict
	return errors.As(err, &c)
}

// merging is the state of one call of save.
type merging struct {
	nodes []saved

	mu        sync.Mutex
	conflicts map[string]error // by key prefix
	adopted   []saved          // nodes whose stored documents contain changes of other writers
	diverged  bool             // the store has other documents than nodes
}

// noteUncopied records that the documents of the node with the given prefix are being put.
func (d *Dataset) noteUncopied(prefix string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uncopied == nil {
		d.uncopied = make(map[string]bool)
	}
	d.uncopied[prefix] = true
}

func (run *merging) refused(prefix string, err error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.diverged = true
	if run.conflicts == nil {
		run.conflicts = make(map[string]error)
	}
	if before := run.conflicts[prefix]; before != nil {
		err = fmt.Errorf("%w (and %w)", before, err)
	}
	run.conflicts[prefix] = err
}

func (run *merging) merged(n saved) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.diverged = true
	run.adopted = append(run.adopted, n)
}

func (run *merging) hasDiverged() bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.diverged
}

// conflict returns an error that names all documents that were not written, or nil.
func (run *merging) conflict() error {
	var err error
	for _, prefix := range slices.Sorted(maps.Keys(run.conflicts)) {
		if err == nil {
			err = run.conflicts[prefix]
		} else {
			err = fmt.Errorf("%w (and %w)", err, run.conflicts[prefix])
		}
	}
	return err
}

// putMerged puts a document of a node and returns the content that the store then has. If
// other writers have changed the document, putMerged merges the changes. It returns a
// mergeConflict if they cannot be merged.
func (d *Dataset) putMerged(ctx context.Context, n *saved, name string, run *merging) ([]byte, error) {
	key, ours := n.prefix+name, n.docs[name]
	if d.exclusive() || !d.merges() {
		return ours, d.putDoc(ctx, key, ours)
	}
	d.mu.RLock()
	theirs := n.current()[name]
	d.mu.RUnlock()
	was, _ := d.docs.known(key)
	for try := range mergeTries {
		text, err := d.mergeDoc(ctx, n, name, theirs, run)
		if err != nil {
			return nil, err
		}
		if try > 0 && theirs != nil && d.layout.SameContent(theirs, text) { // another process has stored the same, or a put of this process has seemed to fail
			d.docs.note(key, was)
			return theirs, nil
		}
		d.docs.attempt(key, text, ours)
		info, err := d.putAnchored(ctx, key, text, was)
		if err == nil {
			d.docs.note(key, info)
			return text, nil
		}
		if kind := ncerr.KindOf(err); kind != ncerr.ErrConflict && kind != ncerr.ErrObjectExists && kind != ncerr.ErrNotFound {
			return nil, err
		}
		now, info, err := d.m.ReadAll(ctx, key, d.opts.Limits.MaxMetadata)
		switch {
		case ncerr.KindOf(err) == ncerr.ErrNotFound:
			return nil, errChangedDoc()
		case err != nil:
			return nil, err
		case bytes.Equal(now, text): // the put has succeeded although it seemed to fail
			d.docs.note(key, info)
			return text, nil
		}
		if err := d.checkSameDataset(ctx, key, info); err != nil { // after the read, which therefore belongs to the dataset
			return nil, err
		}
		theirs, was = now, info
	}
	return nil, ncerr.Errorf(ncerr.ErrConflict, "", "", "other processes keep changing the document: try again")
}

// mergeDoc returns the content to put for a document of which the store has the version
// theirs, or nil if the store has none.
func (d *Dataset) mergeDoc(ctx context.Context, n *saved, name string, theirs []byte, run *merging) ([]byte, error) {
	base, text := n.base[name], n.docs[name]
	merged := !bytes.Equal(base, theirs)
	if merged {
		out, conflicts, err := d.layout.Merge(name, zarr.Versions{Base: base, Ours: text, Theirs: theirs, Tried: d.docs.attempted(n.prefix + name)})
		if err != nil {
			return nil, err
		}
		if len(conflicts) > 0 {
			return nil, ncerr.New(ncerr.ErrConflict, "write", zmap.Path(n.prefix+name), &mergeConflict{conflicts})
		}
		text = out
	}
	if n.group == nil || !d.layout.Inline() || !merged && !run.hasDiverged() {
		return text, nil
	}
	return d.copyNodes(ctx, n, text, theirs, run)
}

// copyNodes adds consolidated metadata to the merged document of a group: that of theirs, with
// new copies of the documents that this process has put.
func (d *Dataset) copyNodes(ctx context.Context, n *saved, text, theirs []byte, run *merging) ([]byte, error) {
	before, after := zarr.Docs{zarr.V3Doc: n.base[zarr.V3Doc]}, zarr.Docs{zarr.V3Doc: theirs}
	ours := zarr.Docs{zarr.V3Doc: n.docs[zarr.V3Doc]}
	known := zarr.CanUpdateInline(after)
	repeats := zarr.CanUpdateInline(ours)
	switch {
	case zarr.HasInlineMetadata(before) && !zarr.HasInlineMetadata(after): // the other process has removed it
		repeats = false
	case zarr.HasInlineMetadata(before) && !zarr.HasInlineMetadata(ours): // this process has removed it
		repeats, known = false, false
	case known:
		repeats = true
	case zarr.HasInlineMetadata(after) && !repeats: // metadata of an unknown kind
		return zarr.WithInlineOf(text, after)
	}
	if n.group.parent == nil {
		d.mu.Lock()
		d.consolidated = repeats
		d.mu.Unlock()
	}
	if !repeats {
		return text, nil
	}
	var nodes map[string]zarr.Docs
	var kept []string
	var err error
	if known {
		if text, err = zarr.WithInlineOf(text, after); err != nil {
			return nil, err
		}
		kept = zarr.InlinePaths(after)
		nodes, err = d.readUncopied(ctx, n.prefix)
	} else {
		nodes, err = d.nodesBelow(n, run), nil
	}
	if err != nil {
		return nil, err
	}
	docs, err := zarr.WithConsolidated(zarr.Docs{zarr.V3Doc: text}, nodes, kept)
	if err != nil {
		return nil, err
	}
	return docs[zarr.V3Doc], d.checkInlineSize(docs[zarr.V3Doc])
}

// nodesBelow returns the documents of all nodes below a group that are in the store.
func (d *Dataset) nodesBelow(group *saved, run *merging) map[string]zarr.Docs {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make(map[string]zarr.Docs)
	for i := range run.nodes {
		n := &run.nodes[i]
		if path, ok := strings.CutPrefix(n.prefix, group.prefix); ok && path != "" {
			out[strings.TrimSuffix(path, "/")] = n.current()
		}
	}
	return out
}

// readUncopied reads the documents that this process has put below a prefix and that
// consolidated metadata may not repeat yet. The keys of the result are paths relative
// to the prefix.
func (d *Dataset) readUncopied(ctx context.Context, below string) (map[string]zarr.Docs, error) {
	var keys []string
	d.mu.RLock()
	for prefix := range d.uncopied {
		if path, ok := strings.CutPrefix(prefix, below); ok && (path != "" || !d.layout.Inline()) {
			for _, name := range d.layout.NodeDocs() {
				keys = append(keys, prefix+name)
			}
		}
	}
	d.mu.RUnlock()
	docs, err := d.readDocs(ctx, keys)
	out := make(map[string]zarr.Docs, len(docs))
	for node, own := range docs {
		out[strings.TrimPrefix(node, below)] = own
	}
	return out, err
}

// readDocs reads documents. It omits those that do not exist. The keys of the result are
// the paths of the nodes, without a slash at the end.
func (d *Dataset) readDocs(ctx context.Context, keys []string) (map[string]zarr.Docs, error) {
	slices.Sort(keys)
	var mu sync.Mutex
	docs, remaining := make(map[string]zarr.Docs), d.opts.Limits.MaxDocuments
	err := each(ctx, keys, storeConcurrency, func(key string) error {
		text, _, err := d.m.ReadAll(ctx, key, d.opts.Limits.MaxMetadata)
		if ncerr.KindOf(err) == ncerr.ErrNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if remaining -= int64(len(text)); remaining < 0 {
			return ncerr.Errorf(ncerr.ErrLimit, "read", zmap.Path(key), "the documents exceed %d bytes, the limit set by limits.max_documents (Limits.MaxDocuments)", d.opts.Limits.MaxDocuments)
		}
		node, name := splitKey(key)
		if docs[node] == nil {
			docs[node] = make(zarr.Docs)
		}
		docs[node][name] = text
		return nil
	})
	return docs, err
}

// copyIntoRoot updates consolidated metadata that another process has added to the
// document of the root since this process read it. It is called if this process does not
// change that document otherwise.
func (d *Dataset) copyIntoRoot(ctx context.Context, run *merging) error {
	if d.exclusive() || d.arrayOnly || d.consolidated {
		return nil
	}
	key := d.layout.ConsolidatedDoc()
	if updated, err := d.updated(ctx, key); !updated || err != nil {
		return err
	}
	text, info, err := d.m.ReadAll(ctx, key, d.opts.Limits.MaxMetadata)
	if err == nil {
		err = d.checkSameDataset(ctx, key, info)
	}
	if err != nil || !zarr.CanUpdateInline(zarr.Docs{key: text}) {
		return err
	}
	d.setConsolidated(true)
	return d.putRoot(ctx, run)
}

// putRoot puts the document of the root with new copies of the documents that this process
// has put.
func (d *Dataset) putRoot(ctx context.Context, run *merging) error {
	run.diverged = true
	d.mu.Lock()
	g := d.top
	g.changes.add()
	g.changes.unsure = true // put the document although this process has not changed it
	n, err := docsToSave(g.key(), &g.changes, &g.docsInStore, g.docs)
	n.take, n.fresh, n.group = g.claimNode, &g.fresh, g
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return d.putStage(ctx, []saved{n}, run)
}

// saveConsolidated updates the consolidated document. changed reports whether any
// document was put.
func (d *Dataset) saveConsolidated(ctx context.Context, run *merging, changed bool) error {
	adding := false
	if !d.exclusive() && d.merges() {
		_, known := d.docs.known(zarr.ConsolidatedDoc)
		adding = d.consolidated && !known
		if !d.consolidated && changed { // another process may have added it
			there, err := d.m.Exists(ctx, zarr.ConsolidatedDoc)
			if err != nil {
				return ncerr.Wrap("write", zmap.Path(zarr.ConsolidatedDoc), err)
			}
			if there {
				d.setConsolidated(true)
				d.stale, d.mixed = true, true
			}
		}
	}
	if !d.stale {
		return nil
	}
	err := error(ncerr.ErrConflict)
	if !d.mixed {
		err = d.putConsolidated(ctx, run)
	}
	if kind := ncerr.KindOf(err); !d.exclusive() && d.merges() && (kind == ncerr.ErrConflict || kind == ncerr.ErrObjectExists || kind == ncerr.ErrNotFound) {
		d.mixed = true
		err = d.updateConsolidated(ctx)
	}
	if err == nil && adding && !d.created {
		err = d.copyChanged(ctx, run)
	}
	d.stale = err != nil
	return ncerr.Wrap("write", zmap.Path(zarr.ConsolidatedDoc), err)
}

func (d *Dataset) setConsolidated(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.consolidated = on
}

// putConsolidated writes the consolidated document from the documents that this process
// knows. It fails if another process has changed it.
func (d *Dataset) putConsolidated(ctx context.Context, run *merging) error {
	all, err := d.keptUnlisted(ctx)
	if err != nil {
		return err
	}
	if all == nil {
		all = make(map[string]zarr.Docs, len(run.nodes))
	}
	d.mu.RLock()
	for i := range run.nodes {
		n := &run.nodes[i]
		all[strings.TrimSuffix(n.prefix, "/")] = n.current()
	}
	d.mu.RUnlock()
	text, err := zarr.WriteConsolidated(all)
	if err != nil {
		return err
	}
	if d.exclusive() || !d.merges() {
		return d.putDoc(ctx, zarr.ConsolidatedDoc, text)
	}
	was, known := d.docs.known(zarr.ConsolidatedDoc)
	if !known {
		d.docs.noteAbsent(zarr.ConsolidatedDoc)
	}
	info, err := d.putAnchored(ctx, zarr.ConsolidatedDoc, text, was)
	if err == nil {
		d.docs.note(zarr.ConsolidatedDoc, info)
	}
	return err
}

// updateConsolidated replaces the copies of the documents that this process has put in
// consolidated metadata that other processes change too. If another process has removed
// the consolidated metadata, it is not written again.
func (d *Dataset) updateConsolidated(ctx context.Context) error {
	key := zarr.ConsolidatedDoc
	for range mergeTries {
		body, was, err := d.m.ReadAll(ctx, key, d.opts.Limits.MaxMetadata)
		if ncerr.KindOf(err) == ncerr.ErrNotFound {
			d.docs.forget(key)
			d.setConsolidated(false)
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.checkNotReplaced(ctx); err != nil {
			return err
		}
		all, err := zarr.ParseConsolidated(body)
		if err != nil { // damaged metadata contains nothing that readers could see
			all = make(map[string]zarr.Docs)
			d.mu.RLock()
			for prefix, docs := range d.documents() {
				all[strings.TrimSuffix(prefix, "/")] = docs
			}
			d.mu.RUnlock()
		}
		fresh, err := d.readUncopied(ctx, "")
		if err != nil {
			return err
		}
		maps.Copy(all, fresh)
		text, err := zarr.WriteConsolidated(all)
		if err != nil {
			return err
		}
		info, err := d.putAnchored(ctx, key, text, was)
		switch ncerr.KindOf(err) {
		case ncerr.ErrConflict, ncerr.ErrObjectExists, ncerr.ErrNotFound:
			continue
		}
		if err == nil {
			d.docs.note(key, info)
		}
		return err
	}
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "other processes keep changing the document: try again")
}

// copyChanged updates new consolidated metadata with the documents that other processes have
// changed since this process read them. Processes that change documents later find the
// consolidated metadata.
func (d *Dataset) copyChanged(ctx context.Context, run *merging) error {
	var keys []string
	d.docs.mu.Lock()
	for key := range d.docs.opened {
		if _, name := splitKey(key); zarr.IsZarrDoc(name) && key != d.layout.ConsolidatedDoc() {
			keys = append(keys, key)
		}
	}
	d.docs.mu.Unlock()
	var changed atomic.Bool
	err := each(ctx, keys, storeConcurrency, func(key string) error {
		updated, err := d.updated(ctx, key)
		if !updated || err != nil {
			return err
		}
		dir, _ := splitKey(key)
		if dir != "" {
			dir += "/"
		}
		d.noteUncopied(dir)
		changed.Store(true)
		return nil
	})
	if err == nil {
		var added bool
		added, err = d.noteAdded(ctx)
		changed.Store(changed.Load() || added)
	}
	switch {
	case err != nil || !changed.Load():
		return err
	case d.layout.Inline():
		return d.putRoot(ctx, run)
	}
	d.mixed = true
	return d.updateConsolidated(ctx)
}

// noteAdded notes the nodes that other processes have added since this process read the
// metadata, so that their documents are copied. It reports whether there are any.
func (d *Dataset) noteAdded(ctx context.Context) (bool, error) {
	if d.m.Capabilities().Durable == driver.OnFlush { // no other process can write
		return false, nil
	}
	opts := d.opts
	opts.Update = true // do not use consolidated metadata
	again, err := openAt(ctx, d.storeLoc(), opts)
	if err != nil {
		return false, err
	}
	defer again.m.Close(ctx) //nolint:errcheck // the store was only read
	d.mu.RLock()
	known := d.documents()
	d.mu.RUnlock()
	added := false
	for prefix := range again.documents() {
		if _, ok := known[prefix]; !ok {
			d.noteUncopied(prefix)
			added = true
		}
	}
	return added, nil
}

// adopt makes this process see the changes of other writers in the documents that a Flush has
// merged: attributes, shapes, and lengths of dimensions. If a dimension has become longer, it
// reads the shapes of all arrays that use it.
func (d *Dataset) adopt(ctx context.Context, run *merging) error {
	raised, shapes := make(map[*Dim]int64), make(map[*Var][]int64)
	raise := func(dim *Dim, n int64) {
		if dim.unlimited && n > max(dim.len, raised[dim]) {
			raised[dim] = n
		}
	}
	var attrs []func() error
	d.mu.Lock()
	err := func() error {
		defer d.mu.Unlock()
		for _, n := range run.adopted {
			switch docs := n.current(); {
			case n.group != nil:
				g := n.group
				meta, err := zarr.ParseGroup(g.Path(), docs, d.layout)
				if err != nil {
					return err
				}
				for _, m := range meta.Dims {
					if dim := g.dims.find(m.Name); dim != nil && m.Len <= maxDim {
						raise(dim, m.Len)
					}
				}
				attrs = append(attrs, func() error { return n.adoptAttrs(&g.attrs, meta.Attrs, g.docs) })
			case n.array != nil:
				v := n.array
				meta, err := zarr.ParseArray(v.Path(), docs, d.parseHint(d.layout))
				if err != nil {
					return err
				}
				if len(v.dims) > 0 {
					shapes[v] = meta.Shape
				}
				for i, dim := range v.dims {
					raise(dim, meta.Shape[i])
				}
				attrs = append(attrs, func() error {
					err := n.adoptAttrs(&v.attrs, meta.Attrs, v.docs)
					v.showTimes()
					return err
				})
			}
		}
		return nil
	}()
	if err == nil && len(shapes)+len(raised) > 0 {
		err = d.adoptShapes(ctx, raised, shapes)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range attrs { // after the lengths, which their documents repeat
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// adoptAttrs replaces the attributes of a node with those in the store, unless this process has
// changes that are not written yet. write returns the documents of the node. The caller holds
// Dataset.mu.
func (n *saved) adoptAttrs(attrs *[]Attr, theirs []Attr, write func() (zarr.Docs, error)) error {
	if n.changes.pending() {
		return nil
	}
	*attrs = theirs
	docs, err := write()
	if err != nil {
		return err
	}
	base := maps.Clone(*n.inStore)
	maps.Copy(base, docs)
	if n.changes.base = nil; !maps.EqualFunc(base, *n.inStore, bytes.Equal) {
		n.changes.base = base
	}
	return nil
}

// adoptShapes raises the lengths of dimensions and the shapes of arrays to those in the store.
func (d *Dataset) adoptShapes(ctx context.Context, raised map[*Dim]int64, shapes map[*Var][]int64) error {
	var users []*Var
	keys := make(map[string]*Var)
	d.mu.RLock()
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			longer := slices.ContainsFunc(v.dims, func(dim *Dim) bool { return raised[dim] > 0 })
			if longer || shapes[v] != nil {
				if users = append(users, v); longer && v.in == nil && v.docsInStore != nil {
					keys[strings.TrimSuffix(v.key(), "/")] = v
				}
			}
		}
	})
	d.mu.RUnlock()
	names := make([]string, 0, len(keys))
	for node := range keys {
		names = append(names, docKey(node, d.layout.ArrayDoc()))
	}
	docs, err := d.readDocs(ctx, names)
	if err != nil {
		return err
	}
	for node, own := range docs {
		shape, err := zarr.ShapeOf(own[d.layout.ArrayDoc()])
		if v := keys[node]; err == nil && len(shape) == len(v.dims) {
			shapes[v] = shape
		}
		if err != nil {
			return ncerr.Wrap("read", zmap.Path(docKey(node, d.layout.ArrayDoc())), err)
		}
	}
	d.mu.Lock()
	extents := make(map[*Var][]int64)
	for _, v := range users {
		extents[v] = slices.Clone(v.extent())
	}
	for dim, n := range raised {
		dim.len, dim.stored = max(dim.len, n), max(dim.stored, n)
	}
	for _, v := range users {
		v.adoptShape(extents[v], shapes[v])
	}
	d.mu.Unlock()
	for _, v := range users {
		if a := v.data.array.Load(); a != nil {
			a.Forget() // chunks in the cache lack the elements of other writers
		}
	}
	return nil
}

// adoptShape sets the shape of the array after the dimensions have grown: the larger of the one
// that this process knows and the one in the store. The caller holds Dataset.mu.
func (v *Var) adoptShape(known, stored []int64) {
	for i, dim := range v.dims {
		if dim.unlimited && i < len(stored) {
			known[i] = max(known[i], min(stored[i], dim.len))
		}
	}
	if v.own = nil; !slices.Equal(known, v.shape()) {
		v.own = known
	}
	if len(stored) == len(v.dims) {
		v.sharing.stored = slices.Clone(stored)
	}
}
