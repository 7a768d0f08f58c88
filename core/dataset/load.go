package dataset

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// loader reads the metadata of a whole dataset level by level, with one batch of
// requests per level.
type loader struct {
	ds                  *Dataset
	all                 map[string]zarr.Docs // from consolidated metadata; nil if it is not used
	childIndex          map[string][]string  // names of children by node, see consolidatedChildren
	nodes               int
	bytes               atomic.Int64       // size of all documents and keys
	keep                bool               // keep the documents with the nodes
	lists               map[string]listing // prefetched listings by key prefix
	consolidatedChecked bool               // hasConsolidated and consolidatedErr are final
	hasConsolidated     bool               // a consolidated document exists
	// anon maps a length to the root's dimension for unnamed dimensions of that length.
	anon map[int64]*Dim
	// noRoot is set after the warning that the root lacks NCZarr metadata.
	noRoot bool
	// consolidatedErr is the error of the check for the consolidated document.
	consolidatedErr error
	unlistedNodes   []string // see noteUnlisted
	codecs          codec.Catalog
}

// node is a group or array whose documents have been fetched.
type node struct {
	parent *Group
	name   string
	docs   zarr.Docs
	err    error
	isArr  bool // the node is an array
	listed bool // contained in the parent's lists
	// implicit is set for a node without documents. The node is a group if groups or
	// arrays exist below it.
	implicit bool
	both     bool // has documents of Zarr v3 and of v2
}

// load reads the dataset: first the root, then all levels below it.
func (l *loader) load(ctx context.Context) error {
	root, err := l.rootDocs(ctx)
	if err != nil {
		return err
	}
	ds := l.ds
	both := root.BothVersions()
	if ds.loc.Version == 2 && root.RemoveV3() {
		if len(root) == 0 {
			return ncerr.Errorf(ncerr.ErrNotZarr, "open", ds.loc.Path, "the dataset has Zarr v3 documents but no Zarr v2 documents, which mode=v2 requires")
		}
		ds.frozen = "the dataset also has Zarr v3 documents, which would not be updated"
	}
	if ds.layout, err = zarr.DetectLayout(root, ds.loc.Format == ncurl.Zarr); err != nil {
		return err
	}
	switch {
	case ds.loc.Version == 3 && ds.layout.Format() != 3:
		return ncerr.Errorf(ncerr.ErrNotZarr, "open", ds.loc.Path, "the dataset is %s, but mode=v3 requires Zarr v3", ds.layout)
	case both && ds.layout.Format() == 3 && ds.opts.Update && !ds.opts.migrating:
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", ds.loc.Path, "the dataset has both Zarr v3 and Zarr v2 documents, and an update would change only one set")
	}
	ds.inline = zarr.HasInlineMetadata(root)
	if err := l.inline(root); err != nil {
		return err
	}
	if names := ds.layout.MoreRootDocs(root); len(names) > 0 {
		more, err := l.fetchRoot(ctx, names)
		if err != nil {
			return err
		}
		maps.Copy(root, more)
	}
	if ds.loc.Format == ncurl.Zarr {
		if ds.layout.NCZarr() || root.HasNCZarrMembers() {
			ds.frozen = "the dataset is NCZarr but was opened as pure Zarr, so a write would lose NCZarr metadata"
		}
		ds.layout = ds.layout.Pure()
	}
	l.keep = ds.opts.Update || ds.opts.migrating || ds.opts.UseConsolidated == ConsolidatedVerify
	ds.top = &Group{ds: ds}
	if l.keep {
		ds.top.docsInStore = root
	}
	ds.root = ds.top
	if root.IsArray() {
		return l.loadRootArray(root)
	}
	if ds.top.meta, err = zarr.ParseGroup("/", root, ds.layout); err != nil {
		return err
	}
	l.fillGroup(ds.top)
	ds.ncProperties = ds.top.meta.NCProperties
	pending, err := l.loadLevels(ctx)
	if err != nil {
		return err
	}
	parsed := l.parseArrays(pending)
	for i, n := range pending {
		l.addVar(n, parsed[i])
	}
	l.warnUnlisted()
	l.dropEmpty(ds.top)
	ds.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			v.setOwnShape()
		}
	})
	slices.SortStableFunc(ds.problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// rootDocs reads the documents of the root. It uses consolidated metadata if
// ConsolidatedUse selects it or no other documents exist, and otherwise the individual
// documents, which cannot be stale.
func (l *loader) rootDocs(ctx context.Context) (zarr.Docs, error) {
	ds := l.ds
	tried := ds.consolidatedFirst() && ds.loc.Version != 3 // in v3, consolidated metadata is part of the root's document
	if tried {
		docs, err := l.consolidatedRoot(ctx, true)
		if isDamaged(err) && ds.opts.UseConsolidated == ConsolidatedAuto {
			ds.log.Warn("consolidated metadata is damaged; reading the individual documents", "key", zarr.ConsolidatedDoc, "error", err)
			err = nil
		}
		if docs != nil || err != nil {
			return docs, err
		}
	}
	docs, err := l.singleRoot(ctx)
	if err != nil {
		return nil, err
	}
	if !docs.IsDataset() && !tried {
		if docs, err := l.consolidatedRoot(ctx, false); docs != nil || err != nil {
			return docs, err
		}
	}
	if !docs.IsDataset() {
		return nil, l.notZarr(ctx)
	}
	return docs, nil
}

// notZarr returns an error that lists the missing documents and the existing objects.
func (l *loader) notZarr(ctx context.Context) error {
	ds := l.ds
	expected := strings.Join(zarr.DatasetDocs(), " ")
	found := l.search(ctx, "")
	names, err := slices.Concat(found.objects, found.nodes), found.err
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case err != nil && ncerr.KindOf(err) != ncerr.ErrUnsupported:
		return err
	case err == nil && len(names) == 0 && ds.m.Capabilities().Latency == driver.Remote:
		return ncerr.Errorf(ncerr.ErrNoDataset, "open", ds.loc.Path, "the location contains no objects")
	case err == nil && len(names) == 0:
		return ncerr.Errorf(ncerr.ErrNotZarr, "open", ds.loc.Path, "the store is empty")
	case err == nil && slices.ContainsFunc(found.objects, func(name string) bool {
		return zarr.IsDatasetDoc(name) || name == zarr.ReplacingMark && !ds.isLocal()
	}):
		return claimedError("open", ds.loc, nil, nil) // a document has appeared since, or the store has a claim, which replacedError reads
	case err == nil:
		shown := names[:min(len(names), 5)]
		return ncerr.Errorf(ncerr.ErrNotZarr, "open", ds.loc.Path, "none of the documents %s exists (found %q)", expected, shown)
	}
	return ncerr.Errorf(ncerr.ErrNoDataset, "open", ds.loc.Path, "none of the documents %s %s exists, and the store cannot be listed", zarr.ConsolidatedDoc, expected)
}

// splitKey splits a key at its last slash: "a/b/c" into "a/b" and "c", and "x" into ""
// and "x".
func splitKey(key string) (dir, base string) {
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}

// docKey returns the key of a document of a node.
func docKey(node, name string) string {
	if node == "" {
		return name
	}
	return node + "/" + name
}

// docRequest lists the documents to read for one node.
type docRequest struct {
	key   string   // prefix of the node's keys without the trailing slash
	names []string // base names
}

// fetched holds the documents of one node, or the reason why they cannot be read.
type fetched struct {
	docs zarr.Docs
	err  error
}

// fetchRoot reads documents of the root.
func (l *loader) fetchRoot(ctx context.Context, names []string) (zarr.Docs, error) {
	got, err := l.fetch(ctx, []docRequest{{"", names}})
	if err == nil {
		err = got[0].err
	}
	if err != nil {
		return nil, err
	}
	return got[0].docs, nil
}

// fetch reads documents of many nodes in one batch. It omits absent documents. An error
// that would recur on a retry affects only its node; other errors fail the batch.
func (l *loader) fetch(ctx context.Context, wants []docRequest) ([]fetched, error) {
	out := make([]fetched, len(wants))
	if l.all != nil {
		for i, w := range wants {
			out[i].docs = l.all[w.key]
		}
		return out, nil
	}
	count := 0
	for _, w := range wants {
		count += len(w.names)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alloc := func(n int64) ([]byte, error) {
		data, err := l.alloc(n)
		if err != nil { // the other documents are not needed any more
			cancel()
		}
		return data, err
	}
	reqs, node := make([]zmap.GetRequest, 0, count), make([]int, 0, count)
	for i, w := range wants {
		out[i].docs = make(zarr.Docs, len(w.names))
		for _, name := range w.names {
			reqs = append(reqs, zmap.GetRequest{
				Key: docKey(w.key, name), Alloc: alloc,
				Opts: driver.GetOptions{Limit: l.ds.opts.Limits.MaxMetadata},
			})
			node = append(node, i)
		}
	}
	// Report the error of the first request, in whatever order the results arrive.
	firstOf, failedAt := make([]int, len(wants)), 0
	var failed error
	err := l.ds.m.GetMany(ctx, reqs, func(i int, data []byte, info zmap.Info, err error) {
		at := &out[node[i]]
		switch {
		case err == nil:
			_, name := splitKey(reqs[i].Key)
			at.docs[name] = data
			l.ds.docs.note(reqs[i].Key, info)
		case ncerr.KindOf(err) == ncerr.ErrNotFound:
			l.ds.docs.noteAbsent(reqs[i].Key)
		case ncerr.IsPerObject(err):
			if at.err == nil || i < firstOf[node[i]] {
				at.err, firstOf[node[i]] = err, i
			}
		case failed == nil || i < failedAt:
			failed, failedAt = err, i
		}
	})
	if l.bytes.Load() > l.ds.opts.Limits.MaxDocuments { // alloc has failed
		return nil, l.tooLargeError()
	}
	if err == nil {
		err = failed
	}
	return out, err
}

// tooLargeError returns the error for documents and keys that exceed
// Limits.MaxDocuments.
func (l *loader) tooLargeError() error {
	return ncerr.Errorf(ncerr.ErrLimit, "open", l.ds.loc.Path, "the metadata documents and the keys of groups and variables exceed %d bytes in total, the smaller of limits.max_documents (Limits.MaxDocuments) and an eighth of the memory limit", l.ds.opts.Limits.MaxDocuments)
}

// alloc allocates memory for a document. It fails once all documents together exceed
// the limit.
func (l *loader) alloc(n int64) ([]byte, error) {
	if most := l.ds.opts.Limits.MaxDocuments; l.bytes.Add(n) > most {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "the metadata documents exceed %d bytes in total", most)
	}
	return make([]byte, n), nil
}

// loadLevels reads all groups below the top, breadth first, and returns the arrays
// found.
func (l *loader) loadLevels(ctx context.Context) ([]node, error) {
	var arrays []node
	level := []*Group{l.ds.top}
	for depth := 1; len(level) > 0; depth++ {
		nodes, err := l.children(ctx, level)
		if err != nil {
			return nil, err
		}
		l.nodes += len(nodes)
		if depth > l.ds.opts.Limits.MaxDepth {
			nodes = slices.DeleteFunc(nodes, func(n node) bool { return n.implicit && l.omitTooDeep(n) })
		}
		if len(nodes) > 0 && depth > l.ds.opts.Limits.MaxDepth {
			return nil, ncerr.Errorf(ncerr.ErrLimit, "open", l.ds.loc.Path, "groups are nested more than %d levels deep", l.ds.opts.Limits.MaxDepth)
		}
		arrays, level = slices.Grow(arrays, len(nodes)), level[:0:0]
		for _, n := range nodes {
			if n.isArr {
				arrays = append(arrays, n)
			} else if g := l.addGroup(n); g != nil {
				level = append(level, g)
			}
		}
	}
	return arrays, nil
}

// omitTooDeep records that a possible implicit group is left out, and returns true.
func (l *loader) omitTooDeep(n node) bool {
	path := join(n.parent.Path(), n.name)
	l.problem(path, ncerr.Errorf(ncerr.ErrLimit, "open", path, "directories are nested more than %d levels deep", l.ds.opts.Limits.MaxDepth))
	return true
}

// maxKey is the longest key of a group or variable, in bytes. No supported store allows
// longer keys, but consolidated metadata could contain them.
const maxKey = 1<<16 - 1

// children finds and fetches the nodes directly below the groups of a level.
func (l *loader) children(ctx context.Context, level []*Group) ([]node, error) {
	var nodes []node
	var wants []docRequest
	needs := map[bool][]string{true: l.ds.layout.DocsToFetch(true), false: l.ds.layout.DocsToFetch(false)}
	checkBoth := l.ds.layout.Format() == 3 && l.ds.opts.Update && !l.ds.opts.migrating // detect nodes that also have v2 documents
	if checkBoth {
		needs[true] = append(needs[true], zarr.GroupDoc, zarr.ArrayDoc)
	}
	for _, g := range level {
		found, err := l.childNames(ctx, g)
		if ncerr.IsPerObject(err) && g.parent != nil {
			l.problem(g.Path(), err)
			l.ds.unsearched = append(l.ds.unsearched, g.key())
		} else if err != nil {
			return nil, err
		}
		if l.nodes+len(nodes)+len(found) > l.ds.opts.Limits.MaxNodes {
			return nil, ncerr.Errorf(ncerr.ErrLimit, "open", l.ds.loc.Path, "the dataset has more than %d groups and variables", l.ds.opts.Limits.MaxNodes)
		}
		g.vars.grow(len(found))
		nodes, wants = slices.Grow(nodes, len(found)), slices.Grow(wants, len(found))
		prefix := g.key()
		for _, n := range found {
			size := len(prefix) + len(n.name)
			if size > maxKey {
				l.omit(n, join(g.Path(), n.name), ncerr.Errorf(ncerr.ErrLimit, "open", g.Path(), "the key of a group or variable has %d bytes, but the limit is %d", size, maxKey))
				continue
			}
			if l.bytes.Add(int64(size)) > l.ds.opts.Limits.MaxDocuments {
				return nil, l.tooLargeError()
			}
			nodes, wants = append(nodes, n), append(wants, docRequest{prefix + n.name, needs[n.isArr || !n.listed]})
		}
	}
	got, err := l.fetch(ctx, wants)
	if err != nil {
		return nil, err
	}
	if err := l.fetchGroups(ctx, nodes, wants, got); err != nil {
		return nil, err
	}
	kept := nodes[:0]
	for i, n := range nodes {
		n.docs, n.err = got[i].docs, got[i].err
		if n.both = checkBoth && n.docs.BothVersions(); checkBoth {
			maps.DeleteFunc(n.docs, func(name string, _ []byte) bool { return name != zarr.V3Doc })
		}
		switch {
		case n.listed:
		case n.docs.IsArray():
			n.isArr = true
		default:
			n.implicit = !n.docs.IsGroup() && n.err == nil
		}
		kept = append(kept, n)
	}
	return kept, nil
}

// fetchGroups fetches the group documents of nodes that are not arrays. Most nodes are
// arrays and need no such request. On remote stores it lists the names below these
// nodes at the same time.
func (l *loader) fetchGroups(ctx context.Context, nodes []node, wants []docRequest, got []fetched) error {
	var more []docRequest
	var at []int
	for i, n := range nodes {
		if !n.listed && !got[i].docs.IsArray() && got[i].err == nil {
			more, at = append(more, docRequest{wants[i].key, l.ds.layout.GroupDocs()}), append(at, i)
		}
	}
	if len(more) == 0 || l.all != nil || len(l.ds.layout.GroupDocs()) == 0 {
		return nil
	}
	wait := inParallel(ctx, func(ctx context.Context) {
		if l.shouldPrefetch() {
			l.prefetch(ctx, prefixes(more))
		}
	})
	groups, err := l.fetch(ctx, more)
	wait(err == nil)
	for k, i := range at {
		if groups[k].err != nil {
			got[i].err = groups[k].err
		}
		maps.Copy(got[i].docs, groups[k].docs)
	}
	return err
}

// prefixes returns the prefixes of the keys below nodes.
func prefixes(nodes []docRequest) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.key + "/"
	}
	return out
}

// childNames returns the nodes below a group. It uses NCZarr's lists if the group has
// them, and otherwise searches the store.
func (l *loader) childNames(ctx context.Context, g *Group) ([]node, error) {
	if g.meta.Listed {
		l.noteUnlisted(g)
		out := make([]node, 0, len(g.meta.Arrays)+len(g.meta.Groups))
		for _, name := range g.meta.Arrays {
			out = append(out, node{parent: g, name: name, isArr: true, listed: true})
		}
		for _, name := range g.meta.Groups {
			out = append(out, node{parent: g, name: name, listed: true})
		}
		return out, nil
	}
	var names []string
	if l.all != nil {
		names = l.consolidatedChildren(strings.TrimSuffix(g.key(), "/"))
	} else {
		found := l.search(ctx, g.key())
		if found.err != nil {
			return nil, l.explainUnlistable(g, found.err)
		}
		if g.implicit {
			if err := l.ds.layout.CheckVersion(g.Path(), found.objects); err != nil {
				return nil, err
			}
		}
		names = found.nodes
		slices.Sort(names)
		if err := l.recordUnexamined(ctx, g, found.objects); err != nil {
			return nil, err
		}
	}
	out := make([]node, 0, len(names))
	for _, name := range names {
		if !zarr.IsOwn(name) {
			out = append(out, node{parent: g, name: name})
		}
	}
	return out, nil
}

// recordUnexamined records objects in a group that cannot be examined. Such an object is
// a symbolic link that leads out of the store or to a missing target, and may be meant as
// an array. Only local stores have links.
func (l *loader) recordUnexamined(ctx context.Context, g *Group, objects []string) error {
	if l.ds.remote() || g.implicit {
		return nil
	}
	for _, name := range objects {
		if zarr.IsOwn(name) {
			continue
		}
		_, err := l.ds.m.Stat(ctx, g.key()+name)
		switch {
		case ncerr.IsContext(err):
			return err
		case err != nil && ncerr.KindOf(err) != ncerr.ErrNotFound:
			l.problem(join(g.Path(), name), err)
			l.ds.unsearched = append(l.ds.unsearched, g.key()+name)
		}
	}
	return nil
}

// explainUnlistable returns an error that explains why a group cannot be searched and how to
// avoid this.
func (l *loader) explainUnlistable(g *Group, err error) error {
	if ncerr.KindOf(err) != ncerr.ErrUnsupported {
		return err
	}
	return ncerr.Errorf(ncerr.ErrUnsupported, "open", g.Path(),
		"cannot find the variables and groups: the %s store cannot be listed, and the dataset has neither consolidated metadata (%s) nor NCZarr's lists of names; consolidate the dataset where it is written, or open one of its arrays by its own URL",
		l.ds.loc.Driver, l.ds.layout.ConsolidatedDoc())
}

// problem records that the part of the dataset at path is left out, and logs a warning.
func (l *loader) problem(path string, err error) {
	l.ds.problems = append(l.ds.problems, Problem{Path: path, Err: err})
	l.ds.log.Warn("skipping a part of the dataset", "path", path, "error", err)
}

// omit records that a node is left out. It keeps the node's name and documents, so that
// writing the metadata of its parent preserves the node.
func (l *loader) omit(n node, path string, err error) {
	l.problem(path, err)
	n.parent.omitted = append(n.parent.omitted, n)
}

// addGroup adds the group of a node to its parent. On error it records the problem and
// returns nil.
func (l *loader) addGroup(n node) *Group {
	g := n.parent.below(n.name)
	g.both = n.both
	if err := l.buildGroup(g, n); err != nil {
		l.omit(n, g.Path(), err)
		return nil
	}
	n.parent.groups.add(g)
	if n.implicit { // dropEmpty warns if it is a group
		g.implicit, g.meta.Warnings = true, nil
	}
	l.fillGroup(g)
	return g
}

// dropEmpty removes the implicit groups below g that contain no groups or arrays. They
// are unrelated directories.
func (l *loader) dropEmpty(g *Group) {
	var kept named[*Group]
	for _, sub := range g.groups.list {
		l.dropEmpty(sub)
		switch {
		case !sub.implicit:
		case len(sub.groups.list)+len(sub.vars.list)+len(sub.omitted) > 0:
			l.ds.log.Warn("the directory is treated as a group without "+l.ds.layout.GroupDoc()+" because it contains groups or arrays; zarr-python does not list it", "path", sub.Path())
		case len(sub.attrs) > 0:
			l.ds.log.Warn("the directory is skipped: it has attributes (.zattrs) but is neither an array (.zarray) nor a group (.zgroup)", "path", sub.Path())
			continue
		default:
			continue
		}
		kept.add(sub)
	}
	g.groups = kept
}

func (l *loader) buildGroup(g *Group, n node) (err error) {
	path := g.Path()
	if err := checkStoredName(n.name); err != nil {
		return err
	}
	if n.parent.groups.find(n.name) != nil {
		return ncerr.Errorf(ncerr.ErrMetadata, "open", path, "two groups have this name")
	}
	if n.err != nil {
		return n.err
	}
	if len(n.docs) == 0 && !n.implicit {
		return ncerr.Errorf(ncerr.ErrNoObject, "open", path, "the group is listed in %s, but has no documents%s", n.parent.Path(), l.sourceSuffix())
	}
	if l.keep {
		g.docsInStore = n.docs
		g.inline = l.ds.layout.Inline() && zarr.CanUpdateInline(n.docs)
	}
	g.meta, err = zarr.ParseGroup(path, n.docs, l.ds.layout)
	return err
}

// fillGroup sets g's dimensions and attributes from its metadata.
func (l *loader) fillGroup(g *Group) {
	for _, w := range g.meta.Warnings {
		l.ds.log.Warn(w, "path", g.Path())
	}
	for _, err := range g.meta.Invalid {
		l.problem(g.Path(), err)
	}
	g.attrs = g.meta.Attrs
	if g.meta.DimsIncomplete && l.ds.frozen == "" {
		l.ds.frozen = "a dimension of " + g.Path() + " is damaged and would be lost"
	}
	for _, d := range g.meta.Dims {
		if g.dims.find(d.Name) != nil {
			l.problem(join(g.Path(), d.Name), ncerr.Errorf(ncerr.ErrMetadata, "open", g.Path(), "dimension %q is declared twice", d.Name))
			if l.ds.frozen == "" {
				l.ds.frozen = "a dimension of " + g.Path() + " is declared twice and would be lost"
			}
			continue
		}
		g.dims.add(&Dim{group: g, name: d.Name, len: d.Len, unlimited: d.Unlimited})
	}
}

// checkStoredName refuses names that are not valid in keys.
func checkStoredName(name string) error {
	if name == "" || strings.Contains(name, "/") || zmap.ValidKey(name) != nil {
		return ncerr.Errorf(ncerr.ErrBadName, "open", name, "the name is empty or cannot be part of a key")
	}
	return nil
}
