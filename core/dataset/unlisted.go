package dataset

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// Unlisted returns the sorted paths of nodes that are directly below NCZarr groups but
// not in their lists. Software for pure Zarr creates such nodes. NCZarr readers, both
// this one and libnetcdf, ignore them. Unlisted does not search stores with slow
// requests; there, opening the dataset logs a warning about such nodes in consolidated
// metadata.
func (d *Dataset) Unlisted(ctx context.Context) ([]string, error) {
	if d.remote() || !d.m.Capabilities().List {
		return nil, nil
	}
	var groups []*Group
	d.mu.RLock()
	d.top.each(func(g *Group) {
		if g.meta != nil && g.meta.Listed {
			groups = append(groups, g)
		}
	})
	d.mu.RUnlock()
	var out []string
	for _, g := range groups {
		var dirs []string
		for e, err := range d.m.List(ctx, g.key(), nil) {
			if ncerr.IsPerObject(err) { // the dataset is readable without this listing
				break
			}
			if err != nil {
				return nil, err
			}
			if name, isDir := strings.CutSuffix(e.Key[len(g.key()):], "/"); isDir {
				dirs = append(dirs, name)
			}
		}
		for _, name := range g.unlistedNames(dirs) {
			there, err := d.isNode(ctx, g.key()+name)
			if err != nil {
				return nil, err
			}
			if there {
				out = append(out, join(g.Path(), name))
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// unlistedNames returns the names that may belong to nodes but are not in the lists of g.
func (g *Group) unlistedNames(names []string) []string {
	listed := make(map[string]bool, len(names))
	for _, name := range slices.Concat(g.meta.Arrays, g.meta.Groups) {
		listed[name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return listed[name] || zarr.IsOwn(name) })
}

// isNode reports whether a directory contains a document that makes it a node.
func (d *Dataset) isNode(ctx context.Context, dir string) (bool, error) {
	for _, name := range zarr.NodeDocNames() {
		if there, err := d.m.Exists(ctx, docKey(dir, name)); there || err != nil && !ncerr.IsPerObject(err) {
			return there, err
		}
	}
	return false, nil
}

// keptUnlisted returns the documents of nodes in the existing consolidated metadata
// that are not in NCZarr's lists, so that other readers of that metadata still see
// them. putDoc fails later if the existing metadata has changed since it was opened.
func (d *Dataset) keptUnlisted(ctx context.Context) (map[string]zarr.Docs, error) {
	if d.created && !d.flushed.Load() || d.swap != nil {
		return nil, nil
	}
	body, _, err := d.m.ReadAll(ctx, zarr.ConsolidatedDoc, d.opts.Limits.MaxMetadata)
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := zarr.ParseConsolidated(body)
	if err != nil { // damaged metadata contains nothing that readers could see
		return nil, nil //nolint:nilerr // the damaged metadata will be replaced
	}
	return d.unlistedIn(ctx, all)
}

// keepUnlisted is like keptUnlisted, for consolidated metadata in the root's document. It
// records the nodes, so that the next write of the metadata keeps them.
func (d *Dataset) keepUnlisted(ctx context.Context) error {
	all, err := zarr.ParseInline(d.top.docsInStore)
	if err != nil {
		return nil //nolint:nilerr // damaged metadata is replaced
	}
	kept, err := d.unlistedIn(ctx, all)
	d.unsearched = slices.AppendSeq(d.unsearched, maps.Keys(kept))
	return err
}

// unlistedIn returns the documents of those of the given nodes that exist in the store
// but are not in NCZarr's lists. It fails with ncerr.ErrLimit if there are more than
// Limits.MaxNodes candidates, or if their documents exceed Limits.MaxDocuments.
func (d *Dataset) unlistedIn(ctx context.Context, nodes map[string]zarr.Docs) (map[string]zarr.Docs, error) {
	if !d.layout.NCZarr() { // pure Zarr has no lists
		return nil, nil
	}
	seen := d.documents()
	var keys []string
	names := d.layout.NodeDocs()
	for node := range nodes {
		if _, ok := seen[node+"/"]; !ok && node != "" {
			for _, name := range names {
				keys = append(keys, docKey(node, name))
			}
		}
	}
	if most := d.opts.Limits.MaxNodes; len(keys)/len(names) > most {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "read", zmap.Path(zarr.ConsolidatedDoc), "the document contains more than %d groups and variables that are not in NCZarr's lists", most)
	}
	docs, err := d.readDocs(ctx, keys)
	if ncerr.KindOf(err) == ncerr.ErrLimit {
		err = ncerr.Errorf(ncerr.ErrLimit, "read", zmap.Path(zarr.ConsolidatedDoc), "nodes that are not in NCZarr's lists: %w", err)
	}
	maps.DeleteFunc(docs, func(_ string, own zarr.Docs) bool { return !own.IsGroup() && !own.IsArray() })
	return docs, err
}

// noteUnlisted records nodes below g that are in consolidated metadata but not in g's
// lists.
func (l *loader) noteUnlisted(g *Group) {
	if l.all == nil || !l.ds.remote() { // Dataset.Unlisted covers other stores
		return
	}
	for _, name := range g.unlistedNames(l.consolidatedChildren(strings.TrimSuffix(g.key(), "/"))) {
		if len(l.all[g.key()+name]) > 0 {
			l.unlistedNodes = append(l.unlistedNodes, join(g.Path(), name))
		}
	}
}

// warnUnlisted warns about the nodes that noteUnlisted recorded.
func (l *loader) warnUnlisted() {
	if len(l.unlistedNodes) > 0 {
		l.ds.log.Warn("a group or variable is ignored because it is not in NCZarr's lists; mode=zarr shows it", "path", l.unlistedNodes[0], "nodes", len(l.unlistedNodes))
	}
}
