package dataset

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A migration writes the documents of one Zarr version beside those of the other. Readers
// see only one set, because they read a dataset as Zarr v3 if its root has a zarr.json.
// That document is therefore put last, or deleted first, and the old documents are
// deleted after that. An interrupted migration leaves a complete old or a complete new
// dataset, and perhaps documents of the other version.
//
// Within one version, each document replaces the one with the same name; see
// migrateinplace.go.

// MigrateOptions configures a migration.
type MigrateOptions struct {
	Options
	// Layout is the new layout.
	Layout zarr.Layout
	// NoXarray omits the dimension names for xarray.
	NoXarray bool
	// DryRun determines the changes without making them.
	DryRun bool
}

// Migration describes what [Migrate] changes.
type Migration struct {
	From, To zarr.Layout
	// Put and Delete are the keys of the documents to write and to delete, in order.
	Put, Delete []string
	// Refused holds the groups and variables that cannot have the new layout.
	Refused []Problem
	// Lost describes in sentences what the new layout cannot record, although values and
	// attributes stay the same.
	Lost []string
}

// Migrate changes the layout of the dataset at a location. It writes only metadata documents:
// chunks and their keys stay as they are. If any group, variable or attribute cannot be
// converted without changing its meaning, Migrate changes nothing, lists them in
// Migration.Refused and fails with the error kind of the first one. Consolidated metadata
// is written again if the dataset had it.
//
// If Migrate fails or is interrupted, the dataset can still be read, with the same
// values, in the old or the new layout. Another call completes the migration. On stores
// without conditional writes, a change that another process makes at the same moment can
// be lost.
//
// Errors: those of [Open], ncerr.ErrUnsupported for a location that is not the root of a
// dataset and for pairs of layouts whose documents cannot replace each other safely, and
// ncerr.ErrConflict if another process changed the metadata in the meantime.
func Migrate(ctx context.Context, loc *ncurl.Location, o *MigrateOptions) (*Migration, error) {
	if o == nil {
		o = &MigrateOptions{}
	}
	opts, err := o.complete(loc)
	if err != nil {
		return nil, err
	}
	opts.Update, opts.migrating = !o.DryRun, true
	ds, err := openUnclaimed(ctx, loc, opts)
	if err != nil {
		return nil, err
	}
	m := &migration{ds: ds, to: o.Layout, opts: o, report: Migration{From: ds.layout, To: o.Layout}, names: make(map[*Group]map[string]*Dim), skipped: make(map[string]bool)}
	if err = m.check(ctx); err == nil {
		err = m.plan(ctx)
	}
	if n := len(m.report.Refused); err == nil && n > 0 {
		err = ncerr.Errorf(ncerr.KindOf(m.report.Refused[0].Err), "migrate", loc.Path, "number of groups and variables that cannot be converted: %d; nothing was written", n)
	}
	if err == nil && !o.DryRun {
		err = m.run(ctx)
	}
	if cerr := ds.Abort(ctx); err == nil { // everything has been flushed
		err = cerr
	}
	return &m.report, err
}

// migration is the state of one call of Migrate.
type migration struct {
	ds     *Dataset
	to     zarr.Layout
	opts   *MigrateOptions
	nodes  []*migratedNode // parents first
	stages [][]batch       // batches of one stage run concurrently, stages in order
	commit int             // index of the stage before which the old documents are compared with those that were read
	report Migration
	names  map[*Group]map[string]*Dim // see shared
	// skipped holds the paths of fields that netCDF cannot show. They do not prevent a
	// migration, because the whole array is converted.
	skipped map[string]bool
}

// batch is a list of changes to make one after the other.
type batch []docChange

// docChange puts a document, or deletes it if text is nil.
type docChange struct {
	key  string
	text []byte
}

// migratedNode is a group or an array that is being migrated.
type migratedNode struct {
	path, prefix string
	depth        int
	group        *Group       // nil for an array
	v            *Var         // nil for a group or an array of structured or complex elements
	opens        *Var         // the variable through which the codecs of the array are opened, or nil
	meta         *zarr.Array  // nil for a group
	old          zarr.Docs    // the documents of the current version
	other        zarr.Docs    // existing documents of the other version
	docs         zarr.Docs    // the new documents; nil if the old ones stay
	inPlace      inPlaceSteps // how docs replace old, if the version stays the same
}

// changesVersion reports whether the Zarr version changes.
func (m *migration) changesVersion() bool { return m.ds.layout.Format() != m.to.Format() }

// refuse records that a node cannot be converted.
func (m *migration) refuse(path string, err error) {
	m.report.Refused = append(m.report.Refused, Problem{path, err})
}

func (m *migration) unsupported(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrUnsupported, "migrate", m.ds.loc.Path, format, args...)
}

// check fails if the location or the pair of layouts does not allow a migration.
func (m *migration) check(ctx context.Context) error {
	ds := m.ds
	switch {
	case ds.root != ds.top || ds.isSubgroup():
		return m.unsupported("the location is a group inside a dataset, and only a whole dataset can be migrated")
	case ds.frozen != "":
		return m.unsupported("%s", ds.frozen)
	case ds.noXarray:
		return m.unsupported("mode=noxarray hides dimension names, which would be lost")
	case ds.layout == zarr.LayoutV1 && m.to == zarr.LayoutPure, ds.layout == zarr.LayoutPure && m.to == zarr.LayoutV1:
		return m.unsupported("the root of %s has documents that %s does not have, and they cannot all be changed at once; migrate to NCZarr 2 first (nczarr)", zarr.LayoutV1, zarr.LayoutPure)
	}
	root := ds.top.docsInStore
	if ds.arrayOnly && len(ds.top.vars.list) > 0 {
		root = ds.top.vars.list[0].docsInStore
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(root)), func(name string) bool { _, ok := ds.docs.known(name); return ok }) {
		return m.unsupported("the dataset has only consolidated metadata")
	}
	if mark, err := ds.readMark(ctx, zarr.GrowthMark); err != nil { // unlistedNodes finds the marks below it
		return err
	} else if mark != nil {
		return ncerr.Errorf(ncerr.ErrConflict, "migrate", zarr.GrowthMark, "%s is extending a dimension", mark.Owner())
	}
	return m.checkAbove(ctx)
}

// checkAbove fails if the location is a node of a dataset directly above it. Like Open, it
// searches only stores that can lie inside one another.
func (m *migration) checkAbove(ctx context.Context) error {
	loc := *m.ds.loc
	base := path.Base(path.Clean(loc.Path))
	up := path.Dir(path.Clean(loc.Path))
	if !m.ds.store.Driver().Nested || up == "." || up == loc.Path {
		return nil
	}
	opts := m.ds.opts
	opts.Update, opts.migrating, opts.Log = false, false, slog.New(slog.DiscardHandler)
	loc.Path = up
	there, err := false, error(nil)
	if at, oerr := newDataset(ctx, &loc, opts, driver.Read); oerr == nil {
		there, err = at.isNode(ctx, "")
		_ = at.m.Close(ctx) // it was only read
	}
	if err != nil || !there {
		return ctx.Err() // no readable dataset is above
	}
	whole, err := openAt(ctx, &loc, opts)
	if err != nil {
		return ctx.Err()
	}
	defer whole.m.Close(ctx) //nolint:errcheck // it was only read
	if whole.top.groups.find(base) != nil || whole.top.vars.find(base) != nil {
		return m.unsupported("the location is part of the dataset %q, and only a whole dataset can be migrated", up)
	}
	return nil
}

// plan finds all nodes, converts their documents and determines the changes. It only
// reads from the store.
func (m *migration) plan(ctx context.Context) error {
	m.collect()
	for _, p := range m.ds.problems {
		if !m.skipped[p.Path] {
			m.refuse(p.Path, p.Err)
		}
	}
	if err := m.fetch(ctx); err != nil {
		return err
	}
	listed := func(g *Group) bool { return g.meta != nil && g.meta.Listed }
	unlisted, err := m.unlistedNodes(ctx, listed)
	if err != nil {
		return err
	}
	for _, path := range unlisted {
		m.refuse(path, refusalReason("NCZarr's lists of groups and arrays do not contain the node"))
	}
	for _, n := range m.nodes {
		if err := m.convert(ctx, n); ncerr.IsContext(err) {
			return err
		} else if err != nil {
			m.refuse(n.path, err)
		}
	}
	slices.SortStableFunc(m.report.Refused, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	if len(m.report.Refused) > 0 {
		return nil
	}
	all, err := m.consolidated()
	if err != nil {
		return err
	}
	m.setStages(all)
	for _, c := range slices.Concat(slices.Concat(m.stages...)...) {
		if c.text == nil {
			m.report.Delete = append(m.report.Delete, c.key)
		} else {
			m.report.Put = append(m.report.Put, c.key)
		}
	}
	return nil
}

// collect sets m.nodes to the nodes of the dataset.
func (m *migration) collect() {
	ds := m.ds
	ds.top.each(func(g *Group) {
		if !ds.arrayOnly {
			m.nodes = append(m.nodes, &migratedNode{path: g.Path(), prefix: g.key(), depth: g.depth, group: g, old: g.docsInStore})
		}
		for _, v := range g.vars.list {
			if v.in == nil {
				m.nodes = append(m.nodes, &migratedNode{path: v.Path(), prefix: v.key(), depth: g.depth + 1, v: v, opens: v, meta: v.meta, old: v.docsInStore})
			}
		}
		for _, omitted := range g.omitted { // structured and complex elements; others are in ds.problems
			at := join(g.Path(), omitted.name)
			meta, err := zarr.ParseArray(at, omitted.docs, ds.parseHint(ds.layout))
			if !omitted.isArr || err != nil || len(meta.Fields) == 0 {
				continue
			}
			n := &migratedNode{path: at, prefix: g.key() + omitted.name + "/", depth: g.depth + 1, meta: meta, old: omitted.docs}
			if i := slices.IndexFunc(g.vars.list, func(v *Var) bool { return v.in != nil && v.in.array == omitted.name }); i >= 0 {
				n.opens = g.vars.list[i]
			}
			m.nodes = append(m.nodes, n)
			for _, f := range meta.Fields {
				if f.Err != nil {
					m.skipped[at+"."+f.Name] = true
				}
			}
		}
	})
	slices.SortStableFunc(m.nodes, func(a, b *migratedNode) int { return a.depth - b.depth })
}

// fetch reads the documents of the other Zarr version, which an interrupted migration or
// other software left, and the consolidated document.
func (m *migration) fetch(ctx context.Context) error {
	l := &loader{ds: m.ds}
	root, err := l.fetchRoot(ctx, append(zarr.LayoutV1.NodeDocs(), ".nczarr", ".NCZarr", zarr.ConsolidatedDoc, zarr.V3Doc))
	if err != nil {
		return err
	}
	names := []string{zarr.V3Doc}
	switch {
	case m.ds.layout.Format() == 3:
		layout := zarr.LayoutNewest
		if root[zarr.OldGroupDoc] != nil || m.to == zarr.LayoutV1 {
			layout = zarr.LayoutV1
		}
		names = layout.NodeDocs()
	case m.to == zarr.LayoutV1 || slices.ContainsFunc(zarr.LayoutV1.OwnDocs(), func(name string) bool { return root[name] != nil }):
		names = append(names, zarr.LayoutV1.OwnDocs()...) // an interrupted migration left them
	}
	wants := make([]docRequest, len(m.nodes))
	for i, n := range m.nodes {
		wants[i] = docRequest{strings.TrimSuffix(n.prefix, "/"), names}
	}
	got, err := l.fetch(ctx, wants)
	if err != nil {
		return err
	}
	for i, n := range m.nodes {
		if got[i].err != nil {
			m.refuse(n.path, got[i].err)
		}
		if n.other = got[i].docs; n.prefix == "" {
			n.other = root
			maps.DeleteFunc(n.other, func(name string, _ []byte) bool {
				isOther := (name == zarr.V3Doc) == (m.ds.layout.Format() == 2)
				return name != zarr.ConsolidatedDoc && !isOther && !slices.Contains(names, name)
			})
		}
	}
	return nil
}

// unlistedNodes returns the paths of nodes directly below the chosen groups that are
// not part of the dataset as it was opened. It fails if a writer is extending a dimension.
func (m *migration) unlistedNodes(ctx context.Context, chosen func(*Group) bool) ([]string, error) {
	ds := m.ds
	if !ds.m.Capabilities().List || ds.arrayOnly {
		return nil, nil
	}
	var groups []*Group
	ds.top.each(func(g *Group) {
		if chosen(g) {
			groups = append(groups, g)
		}
	})
	var out []string
	for _, g := range groups {
		known := make(map[string]bool)
		for _, v := range g.vars.list {
			known[v.arrayName()] = true
		}
		for _, sub := range g.groups.list {
			known[sub.name] = true
		}
		for _, n := range g.omitted {
			known[n.name] = true
		}
		for e, err := range ds.m.List(ctx, g.key(), nil) {
			if err != nil {
				return nil, err
			}
			name, isDir := strings.CutSuffix(e.Key[len(g.key()):], "/")
			if isDir && g.parent == nil && name == zarr.GrowthMark {
				return nil, ncerr.Errorf(ncerr.ErrConflict, "migrate", zarr.GrowthMark, "a writer that extends dimensions has the dataset open, or died; nczctl info --problems lists it")
			}
			if !isDir || known[name] || zarr.IsOwn(name) {
				continue
			}
			there, err := ds.isNode(ctx, g.key()+name)
			if err != nil {
				return nil, err
			}
			if there {
				out = append(out, join(g.Path(), name))
			}
		}
	}
	return out, nil
}

// consolidated adds consolidated metadata to the new documents of groups in Zarr v3. For
// v2 it returns the consolidated document. It does nothing if the dataset had none.
func (m *migration) consolidated() ([]byte, error) {
	all := make(map[string]zarr.Docs, len(m.nodes))
	for _, n := range m.nodes {
		all[n.prefix] = n.docs
		if n.docs == nil {
			all[n.prefix] = n.old
		}
	}
	below := func(prefix string) map[string]zarr.Docs {
		out := make(map[string]zarr.Docs)
		for key, docs := range all {
			if rest, ok := strings.CutPrefix(key, prefix); ok && len(docs) > 0 && rest != "" {
				out[strings.TrimSuffix(rest, "/")] = docs
			}
		}
		return out
	}
	root := m.nodes[0]
	had := root.group != nil && (m.ds.inline || root.other[zarr.ConsolidatedDoc] != nil && m.ds.layout.Format() == 2)
	switch {
	case m.to.Inline():
		for _, n := range m.nodes {
			if nested := n.group != nil && n != root && n.group.inline && n.docs != nil; n == root && had || nested {
				docs, err := zarr.WithConsolidated(all[n.prefix], below(n.prefix), nil)
				if err != nil {
					return nil, err
				}
				if most := m.ds.opts.Limits.MaxMetadata; int64(len(docs[zarr.V3Doc])) > most {
					return nil, ncerr.Errorf(ncerr.ErrLimit, "migrate", zmap.Path(n.prefix+zarr.V3Doc), "with consolidated metadata the document has more than the limit of %d bytes set by limits.max_metadata (Limits.MaxMetadata)", most)
				}
				n.docs = docs
			}
		}
	case had:
		nodes := below("")
		nodes[""] = all[""]
		return zarr.WriteConsolidated(nodes)
	}
	return nil, nil
}

// puts returns the puts of documents of a node, in order, except those that the store
// already has. stored holds the documents in the store.
func (m *migration) puts(n *migratedNode, stored, docs zarr.Docs, order []string) (b batch) {
	for _, name := range order {
		now, ok := stored[name]
		if text := docs[name]; text != nil && !(ok && m.to.SameContent(now, text)) {
			b = append(b, docChange{n.prefix + name, text})
		}
	}
	return b
}

// deletes returns the deletions of documents of a node. The documents that make the node
// visible come last.
func (n *migratedNode) deletes(docs zarr.Docs) (b batch) {
	for _, name := range putOrder(docs) {
		if name != zarr.ConsolidatedDoc {
			b = append(b, docChange{n.prefix + name, nil})
		}
	}
	return b
}

// stage adds a stage with the batches that are not empty. It does nothing if all are
// empty.
func (m *migration) stage(batches ...batch) {
	batches = slices.DeleteFunc(batches, func(b batch) bool { return len(b) == 0 })
	if len(batches) > 0 {
		m.stages = append(m.stages, batches)
	}
}

// setStages sets the stages. all is the new consolidated document of Zarr v2, or nil.
func (m *migration) setStages(all []byte) {
	root, rest := m.nodes[0], m.nodes[1:]
	was := root.other[zarr.ConsolidatedDoc]
	var consolidated, stale batch
	if all != nil && !(was != nil && zarr.SameJSON(was, all)) {
		consolidated = batch{{zarr.ConsolidatedDoc, all}}
	}
	if was != nil && m.to.Format() == 3 {
		stale = batch{{zarr.ConsolidatedDoc, nil}}
	}
	if m.changesVersion() {
		var batches, olds []batch
		for _, n := range rest {
			batches, olds = append(batches, m.puts(n, n.other, n.docs, putOrder(n.docs))), append(olds, n.deletes(n.old))
		}
		m.stage(batches...)
		first := m.puts(root, root.other, root.docs, putOrder(root.docs))
		if m.to.Format() == 3 {
			m.commit = len(m.stages)
			m.stage(first)
			m.stage(stale)
			m.stage(olds...)
			m.stage(root.deletes(root.old))
			return
		}
		m.stage(first)
		m.stage(consolidated)
		m.commit = len(m.stages)
		m.stage(root.deletes(root.old))
		m.stage(olds...)
		return
	}
	m.setStagesInPlace()
	m.stage(consolidated)
	m.stage(stale)
	var olds []batch
	for _, n := range rest {
		olds = append(olds, slices.Concat(n.deletes(n.leftover()), n.deletes(m.leftoverV1(n))))
	}
	m.stage(olds...)
	m.stage(slices.Concat(root.deletes(root.leftover()), root.deletes(m.leftoverV1(root))))
}

// run makes the planned changes, stage by stage.
func (m *migration) run(ctx context.Context) error {
	ds := m.ds
	if len(m.stages) == 0 {
		return nil
	}
	if len(m.report.Delete) > 0 && !ds.m.Capabilities().Delete {
		return m.unsupported("the %s driver does not support deletion", ds.loc.Driver)
	}
	if err := ds.checkNotReplaced(ctx); err != nil {
		return err
	}
	for i, stage := range m.stages {
		if i == m.commit {
			if err := m.checkUnchanged(ctx); err != nil {
				return err
			}
		}
		if err := m.runStage(ctx, stage); err != nil {
			return err
		}
	}
	return ncerr.Wrap("flush", "", ds.m.Flush(ctx))
}

func (m *migration) runStage(ctx context.Context, stage []batch) error {
	return parallel(ctx, int64(m.ds.workers(1<<20)), int64(len(stage)), func() func(context.Context, int64) error {
		return func(ctx context.Context, i int64) error {
			for _, c := range stage[i] {
				var err error
				if c.text == nil {
					err = m.remove(ctx, c.key)
				} else {
					err = m.ds.putDoc(context.WithoutCancel(ctx), c.key, c.text) // do not cancel puts in progress
				}
				if err != nil {
					return ncerr.Wrap("migrate", zmap.Path(c.key), err)
				}
			}
			return nil
		}
	})
}

// remove deletes a document unless another process has changed it.
func (m *migration) remove(ctx context.Context, key string) error {
	now, err := m.ds.m.Stat(ctx, key)
	was, known := m.ds.docs.known(key)
	switch {
	case ncerr.KindOf(err) == ncerr.ErrNotFound:
		return nil
	case err != nil:
		return err
	case known && now.Version != was.Version:
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process has changed the document after it was converted, so it was not deleted")
	}
	m.ds.docs.forget(key)
	return m.ds.m.Delete(ctx, key)
}

// checkUnchanged fails if the old documents are not those that were converted, or if there are
// new nodes.
func (m *migration) checkUnchanged(ctx context.Context) error {
	var keys []string
	for _, n := range m.nodes {
		for name := range n.old {
			keys = append(keys, n.prefix+name)
		}
	}
	if !m.changesVersion() {
		keys = []string{m.ds.rootDoc()}
	}
	changed := func(what string) error {
		return ncerr.Errorf(ncerr.ErrConflict, "migrate", m.ds.loc.Path, "%s while it was being migrated, so it still has its old layout: run the migration again", what)
	}
	if err := m.ds.compare(ctx, keys); ncerr.KindOf(err) == ncerr.ErrConflict {
		return changed("another process has changed the metadata of the dataset")
	} else if err != nil {
		return err
	}
	found, err := m.unlistedNodes(ctx, func(*Group) bool { return true })
	if err == nil && len(found) > 0 {
		return changed(fmt.Sprintf("another process has added %q to the dataset", found[0]))
	}
	return err
}
