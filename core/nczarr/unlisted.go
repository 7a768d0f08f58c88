package nczarr

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// Unlisted returns the paths of nodes directly below groups of NCZarr that the
// groups' own lists do not name, sorted: NCZarr's readers, this one and
// libnetcdf, do not see them. Software for pure Zarr makes such nodes. A store
// where each listing is a slow request is not searched: opening it logs a warning
// of those in consolidated metadata.
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
			if ncerr.Lasting(err) { // the dataset can be read without it
				break
			}
			if err != nil {
				return nil, err
			}
			if name, isDir := strings.CutSuffix(e.Key[len(g.key()):], "/"); isDir {
				dirs = append(dirs, name)
			}
		}
		for _, name := range g.unnamed(dirs) {
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

// unnamed returns the names that may be those of nodes, but are not in the lists
// of g.
func (g *Group) unnamed(names []string) []string {
	listed := make(map[string]bool, len(names))
	for _, name := range slices.Concat(g.meta.Arrays, g.meta.Groups) {
		listed[name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return listed[name] || zarr.IsOwn(name) })
}

// isNode reports whether there is a document that makes a directory a node.
func (d *Dataset) isNode(ctx context.Context, dir string) (bool, error) {
	for _, name := range zarr.AnnouncingDocs() {
		if there, err := d.m.Exists(ctx, docKey(dir, name)); there || err != nil && !ncerr.Lasting(err) {
			return there, err
		}
	}
	return false, nil
}

// keptUnlisted returns the documents of the nodes in the current consolidated
// metadata that NCZarr's lists do not name, so that its other readers keep seeing
// them. Putting the next one fails if this is not the one that was opened.
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
	if err != nil { // damaged: no reader sees anything in it
		return nil, nil //nolint:nilerr // it is written anew
	}
	return d.unlistedIn(ctx, all)
}

// unlistedIn returns the nodes that exist in the store although NCZarr's lists do
// not name them, with their documents. It fails with ncerr.ErrLimit if there are
// more than Limits.MaxNodes of them to look for, or their documents exceed
// Limits.MaxDocuments.
func (d *Dataset) unlistedIn(ctx context.Context, nodes map[string]zarr.Docs) (map[string]zarr.Docs, error) {
	if !d.layout.NCZarr() { // which sees all that are there
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
		return nil, ncerr.Errorf(ncerr.ErrLimit, "read", zmap.Path(zarr.ConsolidatedDoc), "it names more than %d groups and variables that NCZarr's lists do not", most)
	}
	var mu sync.Mutex
	docs, room := make(map[string]zarr.Docs), d.opts.Limits.MaxDocuments
	err := each(ctx, keys, movers, func(key string) error {
		text, _, err := d.m.ReadAll(ctx, key, d.opts.Limits.MaxMetadata)
		if ncerr.KindOf(err) == ncerr.ErrNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if room -= int64(len(text)); room < 0 {
			return ncerr.Errorf(ncerr.ErrLimit, "read", zmap.Path(key), "the documents that NCZarr's lists do not name exceed %d bytes", d.opts.Limits.MaxDocuments)
		}
		node, name := splitKey(key)
		if docs[node] == nil {
			docs[node] = make(zarr.Docs)
		}
		docs[node][name] = text
		return nil
	})
	maps.DeleteFunc(docs, func(_ string, own zarr.Docs) bool { return !own.IsGroup() && !own.IsArray() })
	return docs, err
}

// noteUnlisted counts the nodes of g in consolidated metadata that its lists do
// not name.
func (l *loader) noteUnlisted(g *Group) {
	if l.all == nil || !l.ds.remote() { // or Dataset.Unlisted tells
		return
	}
	for _, name := range g.unnamed(l.kidsOf(strings.TrimSuffix(g.key(), "/"))) {
		if len(l.all[g.key()+name]) > 0 {
			l.unseen = append(l.unseen, join(g.Path(), name))
		}
	}
}

// warnUnlisted warns of the nodes that noteUnlisted counted.
func (l *loader) warnUnlisted() {
	if len(l.unseen) > 0 {
		l.ds.log.Warn("not seen, since NCZarr's lists of arrays and groups do not name it (mode=zarr shows it)", "path", l.unseen[0], "nodes", len(l.unseen))
	}
}
