package dataset

import (
	"maps"
	"slices"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// A migration within one Zarr version replaces documents one by one, while the root's
// documents determine the layout. Each node can be read as the same node in the old layout
// until the root is switched, and in the new layout from then on:
//
//   - From pure Zarr to NCZarr, nodes are replaced before the root, because readers of a
//     pure root accept nodes of NCZarr.
//   - From NCZarr to pure Zarr, they are replaced after the root, for the same reason.
//   - From version 1 of NCZarr, they are replaced before the root. The old metadata stays
//     beside the new metadata, because it is in other documents, and is deleted at the end.
//   - Otherwise a node is first replaced by one with the metadata of both layouts, and after
//     the switch by one with only the new metadata.
//
// Between pure Zarr and version 1 of NCZarr no such way exists, because the root needs two
// more documents in version 1.

// inPlaceSteps describes how the new documents of a node replace the old ones.
type inPlaceSteps struct {
	both      zarr.Docs // documents that are valid in both layouts; nil if not needed
	bothOrder []string  // their names, in the order in which they are put before the root is switched
	order     []string  // names of the new documents, in the order in which they are put
	late      bool      // the new documents are put after the root is switched
}

// isConverted reports whether the documents of a node in a dataset of the new layout have
// no metadata of another layout.
func (m *migration) isConverted(docs zarr.Docs) bool {
	if m.to.NCZarr() {
		return !docs.HasOtherForm(m.to)
	}
	return !docs.HasNCZarrForm()
}

// stored returns the documents of a node that a migration within one version may replace.
func (n *migratedNode) stored() zarr.Docs {
	if n.old[zarr.V3Doc] != nil {
		return n.old
	}
	all := make(zarr.Docs)
	maps.Copy(all, n.old)
	maps.Copy(all, visible(n.other, zarr.LayoutV1.OwnDocs()))
	return all
}

// leftoverV1 returns the documents of a node that only readers of version 1 of NCZarr use,
// if the new layout is another one.
func (m *migration) leftoverV1(n *migratedNode) zarr.Docs {
	if m.to.Format() == 3 || m.to == zarr.LayoutV1 {
		return nil
	}
	return visible(n.stored(), zarr.LayoutV1.OwnDocs())
}

// visible returns the documents with the given names.
func visible(docs zarr.Docs, names []string) zarr.Docs {
	out := make(zarr.Docs)
	for _, name := range names {
		if text, ok := docs[name]; ok {
			out[name] = text
		}
	}
	return out
}

// setInPlace sets n.inPlace. It fails if the documents cannot be replaced one by one so
// that readers always see the same node.
func (m *migration) setInPlace(n *migratedNode) error {
	if n.docs == nil {
		return nil
	}
	var found []inPlaceSteps
	for _, c := range m.choices(n) {
		for _, first := range orders(c.bothOrder) {
			for _, then := range orders(c.order) {
				r := inPlaceSteps{c.both, first, then, c.late}
				same, resumes := m.readsSame(n, &r)
				if same && resumes {
					n.inPlace = r
					return nil
				} else if same {
					found = append(found, r)
				}
			}
		}
	}
	if len(found) > 0 {
		n.inPlace = found[0]
		return nil
	}
	return refusalReason("readers would temporarily see different values, because not all documents can be replaced at once; migrate to NCZarr 3 first (nczarr3)")
}

// choices returns the ways in which the documents of a node may be replaced, the one with
// the fewest changes first. Their orders are not final.
func (m *migration) choices(n *migratedNode) (out []inPlaceSteps) {
	from, to := m.ds.layout, m.to
	names := putOrder(n.docs)
	switch {
	case from == to:
		return []inPlaceSteps{{order: names, late: true}}
	case to.Format() == 3 && n.old.Retypes(n.docs):
	case from == zarr.LayoutV1, from == from.Pure():
		out = append(out, inPlaceSteps{order: names})
	case to == to.Pure():
		out = append(out, inPlaceSteps{order: names, late: true})
	}
	boths := []zarr.Docs{n.docs.Union(n.old), n.old.Union(n.docs)}
	if to == zarr.LayoutV1 {
		slices.Reverse(boths)
	}
	for _, both := range boths {
		out = append(out, inPlaceSteps{both, putOrder(both), names, true})
	}
	return out
}

// orders returns the orders in which documents can be put.
func orders(names []string) [][]string {
	backwards := slices.Clone(names)
	slices.Reverse(backwards)
	return [][]string{backwards, names}
}

// readsSame reports whether readers see the same node after each put, and whether another
// migration recognizes after each that documents are still to be replaced. Without the
// latter, an interrupted migration may leave old spellings of the same values.
func (m *migration) readsSame(n *migratedNode, r *inPlaceSteps) (same, resumes bool) {
	resumes = true
	docs := make(zarr.Docs)
	maps.Copy(docs, n.old)
	switched := false
	for i := range len(r.bothOrder) + 1 + len(r.order) { // the root is switched after bothOrder
		late := r.late && i >= len(r.bothOrder)
		if i < len(r.bothOrder) {
			docs[r.bothOrder[i]] = r.both[r.bothOrder[i]]
		} else if k := i - len(r.bothOrder) - 1; k >= 0 {
			docs[r.order[k]] = n.docs[r.order[k]]
		}
		if n.prefix == "" && n.group != nil {
			l, err := zarr.DetectLayout(docs, false)
			if late = l == m.to; err != nil || l != m.ds.layout && !late || switched && !late {
				return false, false
			}
			switched = late
		}
		if !m.sameNode(n, docs, late) {
			return false, false
		}
		final := maps.EqualFunc(n.docs, visible(docs, putOrder(n.docs)), m.to.SameContent)
		resumes = resumes && (!late || final || !m.isConverted(docs))
	}
	return true, resumes
}

// sameNode reports whether docs describe a node with the same content as before: in a
// dataset of the new layout if late is set, and of the old one otherwise.
func (m *migration) sameNode(n *migratedNode, docs zarr.Docs, late bool) bool {
	l, in, want, version := m.ds.layout, m.ds.layout, n.old, m.ds.ncProperties
	if late && m.to != m.ds.layout {
		l, version = m.to, m.ncProperties()
		if l.NCZarr() {
			in, want = l, n.docs
		}
	}
	names := func(l zarr.Layout) []string { return append(l.NodeDocs(), l.OwnDocs()...) }
	want, docs = visible(want, names(in)), visible(docs, names(l))
	as := migration{ds: m.ds, to: l}
	if n.group != nil {
		a, err := zarr.ParseGroup(n.path, want, in)
		if err != nil {
			return false
		}
		b, err := zarr.ParseGroup(n.path, docs, l)
		sameDim := func(x, y zarr.Dim) bool { return x.Name == y.Name && x.Len == y.Len }
		lists := err == nil && a.Listed == b.Listed && slices.EqualFunc(a.Dims, b.Dims, sameDim) && slices.Equal(a.Arrays, b.Arrays) && slices.Equal(a.Groups, b.Groups)
		return err == nil && (lists || !l.NCZarr()) && as.sameAttrs(a.Attrs, b.Attrs) == nil
	}
	a, err := zarr.ParseArray(n.path, want, zarr.ParseHint{Layout: in, NCProperties: version})
	if err != nil {
		return false
	}
	b, err := zarr.ParseArray(n.path, docs, zarr.ParseHint{Layout: l, NCProperties: version})
	if err != nil || as.same(a, b) != nil || as.sameAttrs(a.Attrs, b.Attrs) != nil {
		return false
	}
	if l.NCZarr() {
		return slices.Equal(a.DimRefs, b.DimRefs)
	}
	final, err := zarr.ParseArray(n.path, n.docs, zarr.ParseHint{Layout: m.to, NCProperties: version})
	return err == nil && (!late || final.DimNames == nil || slices.Equal(final.DimNames, b.DimNames))
}

// setStagesInPlace sets the stages that replace documents within one version. Before the
// root is switched, arrays come first and then groups, the deepest first; afterwards they
// come in the opposite order. So a group that is opened by its own URL contains only nodes
// that its layout allows.
func (m *migration) setStagesInPlace() {
	root, levels := m.nodes[0], make(map[int][]batch) // by position of the stage; 0 is the root
	most := m.nodes[len(m.nodes)-1].depth
	for _, n := range m.nodes[1:] {
		at := n.depth
		if n.group == nil {
			at = most + 1
		}
		both, news := m.putsInPlace(n)
		levels[-at] = append(levels[-at], both)
		if n.inPlace.late {
			levels[at] = append(levels[at], news)
		} else {
			levels[-at] = append(levels[-at], news)
		}
	}
	both, news := m.putsInPlace(root)
	levels[0] = []batch{slices.Concat(both, news)}
	for _, at := range slices.Sorted(maps.Keys(levels)) {
		m.stage(levels[at]...)
	}
}

// putsInPlace returns the puts of the documents of a node that are valid in both layouts,
// and those of the new documents.
func (m *migration) putsInPlace(n *migratedNode) (both, news batch) {
	r, stored := n.inPlace, n.stored()
	both = m.puts(n, stored, r.both, r.bothOrder)
	if r.both != nil {
		stored = r.both
	}
	return both, m.puts(n, stored, n.docs, r.order)
}
