package nczarr

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// ConsolidatedUse says how consolidated metadata is read. Whatever it says,
// consolidated metadata is used where there is nothing else, and never by
// [Options.Update]: what it says of others' documents is not written back.
type ConsolidatedUse uint8

// The ways to read consolidated metadata.
const (
	// ConsolidatedAuto uses it on stores where requests are expensive, and
	// where the URL asks for it. On other stores the documents of the root are
	// compared with it, which costs nothing there: when they differ it is
	// stale, which is logged, and the single documents are read. On the former
	// it is the only request. One that is damaged is logged and not used.
	ConsolidatedAuto ConsolidatedUse = iota
	// ConsolidatedVerify reads the single documents, and compares all of them
	// with it: see [Dataset.StaleDocuments]. Damaged consolidated metadata is
	// an error.
	ConsolidatedVerify
	// ConsolidatedTrust uses it wherever it is, unchecked.
	ConsolidatedTrust
	// ConsolidatedIgnore reads the single documents.
	ConsolidatedIgnore
)

// consolidatedFirst reports whether consolidated metadata is looked at before the single
// documents.
func (d *Dataset) consolidatedFirst() bool {
	switch {
	case d.opts.Update:
		return false
	case d.opts.UseConsolidated == ConsolidatedTrust:
		return true
	}
	return d.opts.UseConsolidated == ConsolidatedAuto && (d.loc.Consolidated || d.remote())
}

func (d *Dataset) remote() bool { return d.m.Capabilities().Latency == driver.Remote }

// readConsolidated reads the consolidated document; nil when there is none.
func (d *Dataset) readConsolidated(ctx context.Context) (map[string]zarr.Docs, error) {
	if d.top != nil && d.layout.Inline() {
		return zarr.InlineMetadata(d.top.docsInStore)
	}
	body, info, err := d.m.ReadAll(ctx, zarr.ConsolidatedDoc, d.opts.Limits.MaxMetadata)
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d.docs.note(zarr.ConsolidatedDoc, info)
	all, err := zarr.ParseConsolidated(body)
	if err == nil && len(all[""]) == 0 {
		err = ncerr.Errorf(ncerr.ErrConsolidated, "parse", "/"+zarr.ConsolidatedDoc, "it has no document of the root group")
	}
	return all, err
}

// inline uses the metadata that the zarr.json of a root repeats, where the single
// documents would cost requests, or where it is asked for.
func (l *loader) inline(root zarr.Docs) error {
	if !l.ds.inline || !l.ds.consolidatedFirst() {
		return nil
	}
	all, err := zarr.InlineMetadata(root)
	if damaged(err) && l.ds.opts.UseConsolidated == ConsolidatedAuto {
		l.ds.log.Warn("consolidated metadata is damaged, reading the single documents", "key", zarr.V3Doc, "error", err)
		return nil
	}
	if all != nil {
		l.useConsolidated(all)
	}
	return err
}

// consolidatedRoot gives the root's documents as the consolidated document has
// them; nil when there is none, or when it is seen to be stale.
func (l *loader) consolidatedRoot(ctx context.Context, check bool) (zarr.Docs, error) {
	all, err := l.ds.readConsolidated(ctx)
	if err != nil {
		return nil, err
	}
	if all == nil {
		if l.ds.loc.Consolidated {
			l.ds.log.Warn("no consolidated metadata, reading the single documents", "key", zarr.ConsolidatedDoc)
		}
		return nil, nil
	}
	if check && !l.ds.remote() && l.ds.opts.UseConsolidated != ConsolidatedTrust {
		names := slices.Concat(zarr.DatasetDocs(), slices.Collect(maps.Keys(all[""])))
		slices.Sort(names) // 4.8.0 has more documents than DatasetDocs tells
		single, err := l.fetchRoot(ctx, slices.Compact(names))
		if err != nil {
			return nil, err
		}
		if keys := differing("", all[""], single); len(single) > 0 && len(keys) > 0 {
			l.ds.log.Warn("consolidated metadata is stale, reading the single documents", "key", zarr.ConsolidatedDoc, "differs", keys[0])
			return nil, nil
		}
	}
	l.useConsolidated(all)
	return maps.Clone(all[""]), nil // load takes documents out of it
}

// damaged reports whether an error says that consolidated metadata is there and
// makes no sense.
func damaged(err error) bool {
	k := ncerr.KindOf(err)
	return k == ncerr.ErrConsolidated || k == ncerr.ErrNotZarr
}

// useConsolidated takes all documents from the consolidated one.
func (l *loader) useConsolidated(all map[string]zarr.Docs) {
	l.all = all
	l.ds.consolidated = true
}

// kidsOf gives the names below a node, from the consolidated document.
func (l *loader) kidsOf(node string) []string {
	if l.kids == nil {
		l.kids = childrenOf(l.all, l.ds.opts.Limits.MaxDepth+1)
	}
	return l.kids[node]
}

// childrenOf gives the names below each node, sorted, down to a depth; a node
// need not have documents itself.
func childrenOf(all map[string]zarr.Docs, depth int) map[string][]string {
	kids := make(map[string][]string)
	seen := make(map[string]bool, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		name = segments(name, depth)
		for name != "" && !seen[name] {
			seen[name] = true
			dir, base := splitKey(name)
			kids[dir] = append(kids[dir], base)
			name = dir
		}
	}
	return kids
}

// segments gives the first n segments of a key.
func segments(key string, n int) string {
	for i := range len(key) {
		if key[i] == '/' {
			if n--; n == 0 {
				return key[:i]
			}
		}
	}
	return key
}

// differing gives the keys of a node's documents that are not the same, or are
// only in one of two places, sorted.
func differing(prefix string, a, b zarr.Docs) []string {
	var keys []string
	for name, text := range a {
		if other, ok := b[name]; !ok || !zarr.SameDocument(name, text, other) {
			keys = append(keys, prefix+name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			keys = append(keys, prefix+name)
		}
	}
	slices.Sort(keys)
	return keys
}

// verifyConsolidated compares the documents that were read one by one with
// those of the consolidated document.
func (d *Dataset) verifyConsolidated(ctx context.Context) error {
	all, err := d.readConsolidated(ctx)
	if err != nil || all == nil {
		return err
	}
	d.consolidated = true
	for prefix, docs := range d.documents() {
		node := strings.TrimSuffix(prefix, "/")
		d.staleDocs = append(d.staleDocs, differing(prefix, docs, all[node])...)
		delete(all, node)
	}
	unlisted, err := d.unlistedIn(ctx, all)
	if err != nil {
		return err
	}
	for node, docs := range all {
		prefix := node
		if node != "" {
			prefix += "/"
		}
		d.staleDocs = append(d.staleDocs, differing(prefix, docs, unlisted[node])...)
	}
	slices.Sort(d.staleDocs)
	if len(d.staleDocs) > 0 {
		d.log.Warn("consolidated metadata is stale", "key", d.layout.ConsolidatedDoc(), "differs", d.staleDocs[0], "documents", len(d.staleDocs))
	}
	return nil
}

// documents gives the documents of all nodes, as they stand in the store, by
// key prefix. They are there when the dataset was opened with Update or
// ConsolidatedVerify.
func (d *Dataset) documents() map[string]zarr.Docs {
	out := make(map[string]zarr.Docs)
	d.top.each(func(g *Group) {
		if !d.arrayOnly {
			out[g.key()] = g.docsInStore
		}
		for _, v := range g.vars.list {
			out[v.key()] = v.docsInStore
		}
		for _, n := range g.lost {
			out[g.key()+n.name+"/"] = n.docs
		}
	})
	return out
}

// StaleDocuments gives the keys of the documents that are not in consolidated
// metadata as they are in the store, or in one of the two only, sorted. It
// needs [ConsolidatedVerify], and is empty without.
func (d *Dataset) StaleDocuments() []string { return slices.Clone(d.staleDocs) }

// Consolidate has consolidated metadata written at the next Flush, and kept
// up to date from then on. Errors: ncerr.ErrReadOnly.
func (d *Dataset) Consolidate() error {
	if err := d.writable("consolidate", zmap.Path(zarr.ConsolidatedDoc)); err != nil {
		return err
	}
	if d.layout.Inline() {
		if err := d.top.changeable("consolidate", zmap.Path(d.layout.ConsolidatedDoc())); err != nil {
			return err
		}
	}
	d.saving.Lock()
	defer d.saving.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.consolidated, d.stale = true, true
	return nil
}

// repeats reports whether the document of a group is to repeat those of the nodes
// below it.
func (d *Dataset) repeats(g *Group) bool {
	if g.parent == nil {
		return d.layout.Inline() && d.consolidated
	}
	return g.inline
}

// withInline makes what the document of a group repeats current: nodes are all that
// are below it, and others. Consolidated metadata of a kind that is not known stays.
func (d *Dataset) withInline(g *Group, docs zarr.Docs, nodes []saved) (zarr.Docs, error) {
	switch {
	case !d.repeats(g) && (g.parent != nil || d.inline || !zarr.HasInlineMetadata(docs)):
		return docs, nil
	case !d.repeats(g):
		return zarr.WithInline(docs, nil, nil)
	}
	below := make(map[string]zarr.Docs)
	for _, n := range nodes {
		if path, ok := strings.CutPrefix(n.prefix, g.key()); ok {
			below[strings.TrimSuffix(path, "/")] = n.docs
		}
	}
	docs, err := zarr.WithInline(docs, below, g.unknown())
	if most := d.opts.Limits.MaxMetadata; err == nil && int64(len(docs[zarr.V3Doc])) > most {
		err = ncerr.Errorf(ncerr.ErrLimit, "write metadata", "", "with consolidated metadata it has %d bytes, the limit of limits.max_metadata (Limits.MaxMetadata) is %d: it could not be read", len(docs[zarr.V3Doc]), most)
	}
	return docs, ncerr.Wrap("write metadata", zmap.Path(g.key()+zarr.V3Doc), err)
}

// unknown returns the paths below g of the nodes that could not be read, or below which
// none could be looked for.
func (g *Group) unknown() []string {
	keys := slices.Clone(g.ds.unseen)
	g.each(func(sub *Group) {
		for _, n := range sub.lost {
			keys = append(keys, sub.key()+n.name)
		}
	})
	var out []string
	for _, key := range keys {
		if path, ok := strings.CutPrefix(key, g.key()); ok {
			out = append(out, strings.TrimSuffix(path, "/"))
		}
	}
	return out
}

// RemoveConsolidated deletes consolidated metadata, which is not written again. In Zarr
// v3 it is a part of the document of the root, which the next Flush writes without it.
// Errors: ncerr.ErrReadOnly, ncerr.ErrNotFound when there is none.
func (d *Dataset) RemoveConsolidated(ctx context.Context) error {
	if err := d.writable("remove", zmap.Path(zarr.ConsolidatedDoc)); err != nil {
		return err
	}
	d.saving.Lock()
	defer d.saving.Unlock()
	if d.layout.Inline() {
		return d.removeInline()
	}
	there, err := d.m.Exists(ctx, zarr.ConsolidatedDoc)
	if err == nil && !there {
		err = ncerr.New(ncerr.ErrNotFound, "remove", zmap.Path(zarr.ConsolidatedDoc), nil)
	}
	if err == nil {
		err = d.m.Delete(ctx, zarr.ConsolidatedDoc)
	}
	if err != nil {
		return err
	}
	d.docs.forget(zarr.ConsolidatedDoc)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.consolidated, d.stale = false, false
	return nil
}

func (d *Dataset) removeInline() error {
	if !d.inline && !d.consolidated {
		return ncerr.Errorf(ncerr.ErrNotFound, "remove", zmap.Path(d.layout.ConsolidatedDoc()), "there is no consolidated metadata")
	}
	if err := d.top.changeable("remove", zmap.Path(d.layout.ConsolidatedDoc())); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.consolidated, d.inline, d.stale = false, false, false
	d.top.changes.add()
	return nil
}
