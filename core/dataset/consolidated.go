package dataset

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

// ConsolidatedUse selects how consolidated metadata is read. In all modes, consolidated
// metadata is used if no other metadata exists. If other metadata exists, a dataset that
// is opened with [Options.Update] ignores consolidated metadata, because the consolidated
// copies may be stale and must not replace documents that other programs wrote.
type ConsolidatedUse uint8

// The ways to read consolidated metadata.
const (
	// ConsolidatedAuto uses consolidated metadata on remote stores, where it saves
	// requests, and on other stores if the URL requests it. On other stores it first
	// compares the root's documents with the consolidated ones. If they differ, it logs
	// that the consolidated metadata is stale and reads the individual documents. It also
	// logs and ignores damaged consolidated metadata.
	ConsolidatedAuto ConsolidatedUse = iota
	// ConsolidatedVerify reads the individual documents and compares all of them with
	// the consolidated ones: see [Dataset.StaleDocuments]. Damaged consolidated
	// metadata is an error.
	ConsolidatedVerify
	// ConsolidatedTrust uses consolidated metadata wherever it exists, without checking
	// it.
	ConsolidatedTrust
	// ConsolidatedIgnore reads the individual documents.
	ConsolidatedIgnore
)

// consolidatedFirst reports whether consolidated metadata is read before the individual
// documents.
func (d *Dataset) consolidatedFirst() bool {
	switch {
	case d.opts.Update || d.opts.migrating:
		return false
	case d.opts.UseConsolidated == ConsolidatedTrust:
		return true
	}
	return d.opts.UseConsolidated == ConsolidatedAuto && (d.loc.Consolidated || d.remote())
}

func (d *Dataset) remote() bool { return d.m.Capabilities().Latency == driver.Remote }

// readConsolidated reads the consolidated document. It returns nil if none exists.
func (d *Dataset) readConsolidated(ctx context.Context) (map[string]zarr.Docs, error) {
	if d.top != nil && d.layout.Inline() {
		return zarr.ParseInline(d.top.docsInStore)
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
		err = ncerr.Errorf(ncerr.ErrConsolidated, "parse", "/"+zarr.ConsolidatedDoc, "the document of the root group is missing")
	}
	return all, err
}

// inline makes the loader use the consolidated metadata in the root's zarr.json if it
// exists and consolidatedFirst reports true.
func (l *loader) inline(root zarr.Docs) error {
	if !l.ds.inline || !l.ds.consolidatedFirst() {
		return nil
	}
	all, err := zarr.ParseInline(root)
	if isDamaged(err) && l.ds.opts.UseConsolidated == ConsolidatedAuto {
		l.ds.log.Warn("consolidated metadata is damaged; reading the individual documents", "key", zarr.V3Doc, "error", err)
		return nil
	}
	if all != nil {
		l.useConsolidated(all)
	}
	return err
}

// consolidatedRoot returns the root's documents from the consolidated document. It
// returns nil if that document does not exist, or if check is set and the document is
// stale.
func (l *loader) consolidatedRoot(ctx context.Context, check bool) (zarr.Docs, error) {
	all, err := l.ds.readConsolidated(ctx)
	if err != nil {
		return nil, err
	}
	if all == nil {
		if l.ds.loc.Consolidated {
			l.ds.log.Warn("consolidated metadata is missing; reading the individual documents", "key", zarr.ConsolidatedDoc)
		}
		return nil, nil
	}
	if check && !l.ds.remote() && l.ds.opts.UseConsolidated != ConsolidatedTrust {
		names := slices.Concat(zarr.DatasetDocs(), slices.Collect(maps.Keys(all[""])))
		slices.Sort(names) // netcdf-c 4.8.0 writes documents that are not in DatasetDocs
		single, err := l.fetchRoot(ctx, slices.Compact(names))
		if err != nil {
			return nil, err
		}
		if keys := differingDocs("", all[""], single); len(single) > 0 && len(keys) > 0 {
			l.ds.log.Warn("consolidated metadata is stale; reading the individual documents", "key", zarr.ConsolidatedDoc, "differs", keys[0])
			return nil, nil
		}
	}
	l.useConsolidated(all)
	return maps.Clone(all[""]), nil // load modifies the map
}

// isDamaged reports whether an error means that consolidated metadata exists but is
// invalid.
func isDamaged(err error) bool {
	k := ncerr.KindOf(err)
	return k == ncerr.ErrConsolidated || k == ncerr.ErrNotZarr
}

// useConsolidated makes the loader read all documents from consolidated metadata.
func (l *loader) useConsolidated(all map[string]zarr.Docs) {
	l.all = all
	l.ds.consolidated = true
}

// consolidatedChildren returns the names below a node in the consolidated document.
func (l *loader) consolidatedChildren(node string) []string {
	if l.childIndex == nil {
		l.childIndex = childrenOf(l.all, l.ds.opts.Limits.MaxDepth+1)
	}
	return l.childIndex[node]
}

// childrenOf returns the sorted names below each node, down to the given depth. A node
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

// segments returns the first n segments of a key.
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

// differingDocs returns the sorted keys of a node's documents that differ between a and
// b or exist in only one of them.
func differingDocs(prefix string, a, b zarr.Docs) []string {
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

// verifyConsolidated compares the documents that were read individually with those in
// the consolidated document.
func (d *Dataset) verifyConsolidated(ctx context.Context) error {
	all, err := d.readConsolidated(ctx)
	if err != nil || all == nil {
		return err
	}
	d.consolidated = true
	for prefix, docs := range d.documents() {
		node := strings.TrimSuffix(prefix, "/")
		d.staleDocs = append(d.staleDocs, differingDocs(prefix, docs, all[node])...)
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
		d.staleDocs = append(d.staleDocs, differingDocs(prefix, docs, unlisted[node])...)
	}
	slices.Sort(d.staleDocs)
	if len(d.staleDocs) > 0 {
		d.log.Warn("consolidated metadata is stale", "key", d.layout.ConsolidatedDoc(), "differs", d.staleDocs[0], "documents", len(d.staleDocs))
	}
	return nil
}

// documents returns the documents of all nodes as they are in the store, by key prefix.
// They are available if the dataset was opened with Update or ConsolidatedVerify.
func (d *Dataset) documents() map[string]zarr.Docs {
	out := make(map[string]zarr.Docs)
	d.top.each(func(g *Group) {
		if !d.arrayOnly {
			out[g.key()] = g.docsInStore
		}
		for _, v := range g.vars.list {
			out[v.key()] = v.docsInStore
		}
		for _, n := range g.omitted {
			out[g.key()+n.name+"/"] = n.docs
		}
	})
	return out
}

// StaleDocuments returns the sorted keys of documents that differ between the store and
// consolidated metadata or exist in only one of them. It is empty unless the dataset
// was opened with [ConsolidatedVerify].
func (d *Dataset) StaleDocuments() []string { return slices.Clone(d.staleDocs) }

// Consolidate makes the next Flush write consolidated metadata and keeps it up to date
// from then on. Errors: ncerr.ErrReadOnly.
func (d *Dataset) Consolidate() error {
	if err := d.checkWritable("consolidate", zmap.Path(zarr.ConsolidatedDoc)); err != nil {
		return err
	}
	if d.layout.Inline() {
		if err := d.top.checkChangeable("consolidate", zmap.Path(d.layout.ConsolidatedDoc())); err != nil {
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

// repeatsNodes reports whether the document of a group contains copies of the documents
// of the nodes below it.
func (d *Dataset) repeatsNodes(g *Group) bool {
	if g.parent == nil {
		return d.layout.Inline() && d.consolidated
	}
	return g.inline
}

// withInline updates the copies of other documents in the document of a group. nodes
// contains at least all nodes below the group. Consolidated metadata of an unknown kind
// is left unchanged.
func (d *Dataset) withInline(g *Group, docs zarr.Docs, nodes []saved) (zarr.Docs, error) {
	switch {
	case !d.repeatsNodes(g) && (g.parent != nil || d.inline || !zarr.HasInlineMetadata(docs)):
		return docs, nil
	case !d.repeatsNodes(g):
		return zarr.WithConsolidated(docs, nil, nil)
	}
	below := make(map[string]zarr.Docs)
	for _, n := range nodes {
		if path, ok := strings.CutPrefix(n.prefix, g.key()); ok {
			below[strings.TrimSuffix(path, "/")] = n.docs
		}
	}
	docs, err := zarr.WithConsolidated(docs, below, g.unknownPaths())
	if err == nil {
		err = d.checkInlineSize(docs[zarr.V3Doc])
	}
	return docs, ncerr.Wrap("write metadata", zmap.Path(g.key()+zarr.V3Doc), err)
}

// checkInlineSize fails if a document with consolidated metadata is too large to be read.
func (d *Dataset) checkInlineSize(text []byte) error {
	if most := d.opts.Limits.MaxMetadata; int64(len(text)) > most {
		return ncerr.Errorf(ncerr.ErrLimit, "write metadata", "", "with consolidated metadata the document has %d bytes, but the limit set by limits.max_metadata (Limits.MaxMetadata) is %d: the document could not be read back", len(text), most)
	}
	return nil
}

// unknownPaths returns the paths, relative to g, of nodes that could not be read or
// searched.
func (g *Group) unknownPaths() []string {
	keys := slices.Clone(g.ds.unsearched)
	g.each(func(sub *Group) {
		for _, n := range sub.omitted {
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

// RemoveConsolidated deletes consolidated metadata and stops writing it. In Zarr v3,
// consolidated metadata is part of the root's document, and the next Flush writes that
// document without it. Errors: ncerr.ErrReadOnly, ncerr.ErrNotFound if the dataset has
// no consolidated metadata.
func (d *Dataset) RemoveConsolidated(ctx context.Context) error {
	if err := d.checkWritable("remove", zmap.Path(zarr.ConsolidatedDoc)); err != nil {
		return err
	}
	d.saving.Lock()
	defer d.saving.Unlock()
	if d.layout.Inline() {
		return d.removeInline()
	}
	if err := d.checkOwned(ctx); err != nil { // the document may be that of another dataset
		return err
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
		return ncerr.Errorf(ncerr.ErrNotFound, "remove", zmap.Path(d.layout.ConsolidatedDoc()), "the dataset has no consolidated metadata")
	}
	if err := d.top.checkChangeable("remove", zmap.Path(d.layout.ConsolidatedDoc())); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.consolidated, d.inline, d.stale = false, false, false
	d.top.changes.add()
	return nil
}
