package dataset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// refusalReason returns the reason why a node cannot be converted.
func refusalReason(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrUnsupported, "", "", format, args...)
}

// convert sets the new documents of a node. It parses them again and fails if they do not
// mean the same as the old ones.
func (m *migration) convert(ctx context.Context, n *migratedNode) (err error) {
	if !m.changesVersion() {
		if err := m.checkLeftover(n); err != nil {
			return err
		}
		if m.ds.layout == m.to && m.isConverted(n.old) {
			return nil // the node already has the new layout
		}
	}
	if n.prefix != "" && m.to.NCZarr() {
		_, name := splitKey(strings.TrimSuffix(n.prefix, "/"))
		if err := m.to.CheckName(name); err != nil {
			return err
		}
		m.ds.warnName(m.to, n.path, name, n.group != nil)
	}
	if n.group != nil {
		for _, d := range n.group.dims.list {
			m.ds.warnName(m.to, d.Path(), d.name, false)
		}
	}
	if m.changesVersion() {
		for _, name := range n.old.UnknownMembers() {
			m.report.Lost = append(m.report.Lost, "the unknown member "+strconv.Quote(name)+" of the metadata of "+strconv.Quote(n.path)+" is lost")
		}
	}
	if n.group != nil {
		n.docs, err = m.groupDocs(n)
	} else {
		n.docs, err = m.arrayDocs(ctx, n)
	}
	if err != nil {
		return err
	}
	if !m.changesVersion() {
		return m.setInPlace(n)
	}
	return nil
}

// writeOptions returns the options for the documents of a node. Within one version,
// unknown members of the old documents are kept.
func (m *migration) writeOptions(n *migratedNode) (zarr.WriteOptions, error) {
	o := zarr.WriteOptions{Layout: m.to, NoXarray: m.opts.NoXarray, IsRoot: n.depth == 0 || n.depth == 1 && n.group == nil}
	if m.changesVersion() || len(n.old) == 0 {
		return o, nil
	}
	var err error
	if o.Old, err = n.old.WithoutNCZarr(); m.ds.layout == zarr.LayoutV1 {
		o.Old = visible(o.Old, zarr.LayoutNewest.NodeDocs()) // the others are deleted
	}
	return o, err
}

// ncProperties returns the provenance text of the new root.
func (m *migration) ncProperties() string {
	switch {
	case m.to.NCZarr():
		return m.to.NCProperties(Version)
	case m.ds.layout.NCZarr(), m.ds.top.docsInStore.HasNCZarrMembers(): // the latter after an interrupted migration
		return ""
	}
	return m.ds.ncProperties
}

// groupDocs returns the new documents of a group. A directory that is a group only
// because it contains nodes needs no documents in pure Zarr.
func (m *migration) groupDocs(n *migratedNode) (zarr.Docs, error) {
	g := n.group
	if g.implicit {
		switch {
		case len(g.attrs) > 0:
			return nil, refusalReason("the directory has attributes but no document that makes it a group")
		case !m.to.NCZarr():
			return nil, nil
		case m.changesVersion():
			return nil, refusalReason("no document makes the directory a group, which NCZarr requires")
		}
	}
	doc := zarr.Group{Layout: m.to, Listed: true, Attrs: g.meta.Attrs}
	for _, d := range g.dims.list {
		doc.Dims = append(doc.Dims, zarr.Dim{Name: d.name, Len: d.len, Unlimited: d.unlimited})
		m.recordLost(d)
	}
	for _, v := range g.vars.list {
		if v.in == nil {
			doc.Arrays = append(doc.Arrays, v.name)
		}
	}
	for _, sub := range g.groups.list {
		doc.Groups = append(doc.Groups, sub.name)
	}
	if g.parent == nil {
		doc.NCProperties = m.ncProperties()
	}
	opts, err := m.writeOptions(n)
	if err != nil {
		return nil, err
	}
	docs, err := doc.Docs(opts)
	if err != nil {
		return nil, err
	}
	back, err := zarr.ParseGroup(n.path, docs, m.to)
	if err != nil {
		return nil, err
	}
	return docs, m.sameAttrs(g.meta.Attrs, back.Attrs)
}

// recordLost records the properties of a dimension that the new layout cannot store.
func (m *migration) recordLost(d *Dim) {
	used := false
	d.group.each(func(g *Group) {
		for _, v := range g.vars.list {
			used = used || slices.Contains(v.dims, d)
		}
	})
	switch {
	case m.to.NCZarr() && (m.to.KeepsUnlimited() || !d.unlimited):
	case !m.to.NCZarr() && !used && !d.generated:
		m.report.Lost = append(m.report.Lost, "the dimension "+strconv.Quote(d.Path())+" is lost, because no variable uses it")
	case d.unlimited:
		m.report.Lost = append(m.report.Lost, "the unlimited dimension "+strconv.Quote(d.Path())+" becomes fixed")
	}
}

// arrayDocs returns the new documents of an array.
func (m *migration) arrayDocs(ctx context.Context, n *migratedNode) (zarr.Docs, error) {
	was := n.meta.Masked(m.to)
	if n.meta.HasFill && !was.HasFill {
		m.report.Lost = append(m.report.Lost, "the fill value of "+strconv.Quote(n.path)+" becomes null, because xarray would mask it in Zarr v2; the values of absent chunks are then undefined, and most readers return zeros")
	}
	a := *was
	a.Codecs = slices.Clone(a.Codecs)
	if err := m.checkStorage(n); err != nil {
		return nil, err
	}
	if err := m.setNames(n, &a); err != nil {
		return nil, err
	}
	if m.changesVersion() {
		if err := m.setCodecs(ctx, n, &a); err != nil {
			return nil, err
		}
	}
	opts, err := m.writeOptions(n)
	if err != nil {
		return nil, err
	}
	docs, err := a.Docs(opts)
	if err != nil {
		return nil, err
	}
	back, err := zarr.ParseArray(n.path, docs, zarr.ParseHint{Layout: m.to, NCProperties: m.ncProperties()})
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(m.same(was, back), m.sameAttrs(was.Attrs, back.Attrs)); err != nil {
		return nil, err
	}
	if was, is := a.DimNames, back.DimNames; !m.to.NCZarr() && !slices.Equal(was, is) || !slices.Equal(a.DimRefs, back.DimRefs) {
		return nil, refusalReason("its dimension names %q would become %q", was, is)
	}
	return docs, nil
}

// checkStorage fails if the new layout cannot describe the existing chunks.
func (m *migration) checkStorage(n *migratedNode) error {
	a := n.meta
	switch {
	case n.v != nil && n.v.own != nil && !m.to.KeepsUnlimited():
		return refusalReason("the array has shape %v, which is shorter than its unlimited dimensions %v, and the layout has no unlimited dimensions", n.v.own, n.v.shape())
	case len(a.Shards) > 0 && !m.to.HasShards():
		return refusalReason("its chunks are in shards, which Zarr v2 does not have")
	case !a.ObjectGrid().Regular() && !m.to.HasRectilinear():
		return refusalReason("its chunks differ in shape, which only pure Zarr v3 allows")
	case a.Keys.Prefix && m.to.Format() != 3:
		return refusalReason(`its chunk keys begin with "c" (chunk_key_encoding "default"), which Zarr v2 does not have`)
	}
	return m.to.CheckType(a.DType)
}

// setNames sets the dimension names and references of the new array.
func (m *migration) setNames(n *migratedNode, a *zarr.Array) error {
	was := a.DimNames
	switch {
	case a.Scalar:
		a.DimNames, a.DimRefs = nil, nil
		if m.to.NCZarr() {
			a.DimRefs = []string{}
		}
		return nil
	case n.v == nil || !m.to.NCZarr() && !m.ds.layout.NCZarr():
		a.DimRefs = nil
	default:
		a.DimNames, a.DimRefs = nil, nil
		for i, d := range n.v.dims {
			if len(was) > 0 && !m.ds.layout.NCZarr() && was[i] != "" && was[i] != d.name {
				return refusalReason("its dimension name %q is in use with another length or invalid", was[i])
			}
			name := d.name
			if m.to.NCZarr() {
				a.DimRefs = append(a.DimRefs, d.Path())
			} else if other := m.shared(n.v.group)[name]; other != d && other.len != d.len {
				return refusalReason("the dimensions %q and %q have different lengths but the same name, which pure Zarr does not allow in one group", d.Path(), other.Path())
			} else if d.anonymous {
				name = ""
			}
			a.DimNames = append(a.DimNames, name)
		}
		if !slices.ContainsFunc(a.DimNames, func(name string) bool { return name != "" }) {
			a.DimNames = nil
		}
	}
	if slices.Contains(a.DimNames, "") && !m.to.AllowsUnnamedDims() {
		return refusalReason("only some of its dimensions have names, which Zarr v2 does not allow")
	}
	if m.opts.NoXarray && a.DimNames != nil && !m.to.NCZarr() {
		return refusalReason("its dimension names %q would be lost", a.DimNames)
	}
	return nil
}

// shared returns the dimensions of the variables in a group by name. In pure Zarr,
// variables of a group share dimensions by name.
func (m *migration) shared(g *Group) map[string]*Dim {
	if m.names[g] == nil {
		byName := make(map[string]*Dim)
		for _, v := range g.vars.list {
			for _, d := range v.dims {
				byName[d.name] = d
			}
		}
		m.names[g] = byName
	}
	return m.names[g]
}

// setCodecs adapts the codecs to the other Zarr version. It starts the plugins of the
// codecs, because only they state what the codecs transform.
func (m *migration) setCodecs(ctx context.Context, n *migratedNode, a *zarr.Array) error {
	var inputs []codecdriver.Spec
	if n.opens != nil {
		opened, err := n.opens.open(ctx)
		if err != nil {
			return err
		}
		inputs = opened.Specs()
	}
	catalog, v3 := m.ds.Codecs(), m.to.Format() == 3
	last := codecdriver.Description{}
	for i := range a.Codecs {
		c := &a.Codecs[i]
		d, _ := catalog.Find(c.ID)
		switch {
		case d.Transform == codecdriver.Unstated && d.Objects == codecdriver.NoObjects:
			return ncerr.Errorf(ncerr.ErrNoFilter, "", "", "the codec %q is not available, or its plugin does not declare what it transforms", c.ID)
		case !v3 && (c.ID != d.ID || zarr.OnlyV3(c.ID)):
			return refusalReason("Zarr v2 has no codec %q", c.ID)
		case n.opens == nil && slices.ContainsFunc(d.Params, func(p codecdriver.Param) bool { return p.Input != codecdriver.NoProperty }):
			return refusalReason("no field of its structures can be read, and the codec %q depends on their size", c.ID)
		case v3 && d.V3 == "":
			return refusalReason("the codec %q has no Zarr v3 name", c.ID)
		}
		if i < len(inputs) {
			addInputParams(c, &d, inputs[i].DType, v3)
		}
		if v3 && d.Transform == codecdriver.ArrayToArray && hasBigEndianParam(c, &d) {
			return refusalReason("the codec %q stores big-endian elements, which it cannot do in Zarr v3", c.ID)
		}
		last = d
	}
	if !v3 {
		a.ArrayCodecs, a.NoCompressor = 0, len(a.Codecs) > 0 && !last.Compresses()
		return nil
	}
	order := a.DType.Order
	if err := (&Var{meta: a}).orderCodecs(catalog); err != nil {
		return err
	}
	if a.DType.Order != order {
		return refusalReason("its elements are big-endian, and in Zarr v3 the codec %q supports only little-endian elements", a.Codecs[0].ID)
	}
	return nil
}

// addInputParams adds the parameters of a codec that repeat properties of its input,
// because the Zarr versions treat missing parameters differently. In Zarr v2, a missing
// size means the default of the codec, and the size 0 means the element size.
func addInputParams(c *zarr.CodecSpec, d *codecdriver.Description, in dtype.Type, v3 bool) {
	params := make(map[string]json.RawMessage)
	if len(c.Params) > 0 && json.Unmarshal(c.Params, &params) != nil {
		return // the codec refuses the parameters
	}
	for _, p := range d.Params {
		value := strings.Trim(string(params[p.Name]), `"`)
		switch {
		case p.Input == codecdriver.InputSize && value == "" && v3 && p.Default != "":
			params[p.Name] = json.RawMessage(p.Default)
		case p.Input == codecdriver.InputSize && (value == "" || value == "0") && in.Size > 0:
			params[p.Name] = json.RawMessage(strconv.Itoa(in.Size))
		case p.Input == codecdriver.InputType && value == "" && !v3:
			params[p.Name] = json.RawMessage(strconv.Quote(in.String()))
		default:
			continue
		}
		if text, err := json.Marshal(params); err == nil {
			c.Params = text
		}
	}
}

// hasBigEndianParam reports whether a parameter of a codec is a big-endian element
// type.
func hasBigEndianParam(c *zarr.CodecSpec, d *codecdriver.Description) bool {
	var params map[string]json.RawMessage
	if json.Unmarshal(c.Params, &params) != nil {
		return false
	}
	return slices.ContainsFunc(d.Params, func(p codecdriver.Param) bool {
		return p.Type == codecdriver.DTypeParam && strings.HasPrefix(string(params[p.Name]), `">`)
	})
}

// same fails if two descriptions of an array differ in anything that determines its
// values. For text, a missing fill value equals an empty one, because readers of pure
// Zarr v2 read null as an empty text.
func (m *migration) same(was, is *zarr.Array) error {
	ids := func(a *zarr.Array) (out []string) {
		for _, c := range a.Codecs {
			out = append(out, c.ID)
		}
		return out
	}
	text := was.DType.Kind == dtype.Char || was.DType.Kind == dtype.Bytes
	noFill := text && !was.HasFill && len(bytes.Trim(is.Fill, "\x00")) == 0
	differs := func(what string) error { return refusalReason("its %s cannot be kept", what) }
	switch {
	case was.Scalar != is.Scalar || !was.Scalar && !slices.Equal(was.Shape, is.Shape):
		return differs("shape")
	case was.DType != is.DType:
		return refusalReason("its elements of type %s would become elements of type %s", was.DType, is.DType)
	case !zarr.SameFields(was.Fields, is.Fields):
		return differs("structure of elements")
	case !noFill && (was.HasFill != is.HasFill || !bytes.Equal(was.Fill, is.Fill)):
		return differs("fill value")
	case !slices.Equal(was.Transpose, is.Transpose):
		return differs("order of dimensions in chunks")
	case !was.Scalar && (!was.ObjectGrid().Equal(is.ObjectGrid()) || !was.ChunkGrid().Equal(is.ChunkGrid())):
		return differs("chunk grid")
	case !slices.EqualFunc(was.Shards, is.Shards, sameShards):
		return differs("shards")
	case was.Keys.Prefix != is.Keys.Prefix || len(was.Shape) > 1 && was.Keys != is.Keys:
		return differs("chunk keys")
	case !slices.Equal(ids(was), ids(is)):
		return refusalReason("its codecs %q would become %q", ids(was), ids(is))
	}
	return nil
}

// sameShards reports whether two levels of shards store their chunks in the same places.
func sameShards(a, b zarr.Shard) bool {
	return slices.Equal(a.Shape, b.Shape) && slices.Equal(a.Axes, b.Axes) && len(a.Around) == len(b.Around) && a.Before == b.Before &&
		a.AtStart == b.AtStart && a.Checksum == b.Checksum && a.Big == b.Big
}

// sameAttrs fails if an attribute is missing, was added, or has another value or, in
// NCZarr, another type. Pure Zarr does not record the types of numbers.
func (m *migration) sameAttrs(was, is []Attr) error {
	for _, a := range was {
		b, err := findAttr(is, a.Name)
		if err != nil {
			return refusalReason("its attribute %q would be lost", a.Name)
		}
		if !sameAttr(a, b, m.to.NCZarr()) {
			return refusalReason("its attribute %q of type %s cannot keep the value %.60q", a.Name, a.Type, a.JSON)
		}
	}
	if len(is) > len(was) {
		return refusalReason("attributes would be added")
	}
	return nil
}

// sameAttr reports whether two attributes have the same value, and the same type if typed
// is set.
func sameAttr(a, b Attr, typed bool) bool {
	texts := func(v any) []string {
		if s, ok := v.(string); ok {
			return []string{s}
		}
		list, _ := v.([]string)
		return list
	}
	isText := func(t dtype.NC) bool { return t == dtype.NCChar || t == dtype.NCString }
	switch {
	case typed && a.Type != b.Type, dtype.Len(a.Value) != dtype.Len(b.Value) && !(isText(a.Type) && isText(b.Type)):
		return false
	case isText(a.Type) && isText(b.Type):
		return slices.Equal(texts(a.Value), texts(b.Value))
	case isText(a.Type) || isText(b.Type):
		return dtype.Len(a.Value) == 0 && dtype.Len(b.Value) == 0
	}
	from, t, ok := dtype.View(b.Value)
	got := dtype.MakeSlice(a.Type, dtype.Len(a.Value))
	if !ok || dtype.Decode(got, from, t) != nil {
		return false
	}
	x, _, _ := dtype.View(a.Value)
	y, _, _ := dtype.View(got)
	return bytes.Equal(x, y)
}

// leftover returns the documents of the other Zarr version to delete: those that make the
// directory a node of that version, and its attributes.
func (n *migratedNode) leftover() zarr.Docs {
	if text, ok := n.other[zarr.V3Doc]; ok {
		return zarr.Docs{zarr.V3Doc: text}
	}
	if _, v3 := n.old[zarr.V3Doc]; !v3 || !n.other.IsArray() && !n.other.IsGroup() {
		return nil
	}
	return n.other
}

// checkLeftover fails if the documents of the other Zarr version and the current ones
// describe different nodes, because another process has changed one set.
func (m *migration) checkLeftover(n *migratedNode) error {
	docs := n.leftover()
	if len(docs) == 0 {
		return nil
	}
	layout := zarr.FormatLayout(5-m.ds.layout.Format(), docs.HasNCZarrMembers())
	complete := layout.Format() == 3 || docs[zarr.AttrsDoc] != nil // an interrupted migration may have deleted the attributes
	pure := migration{ds: m.ds, to: m.to.Pure()}
	equal := func(current, other []Attr) error {
		for _, b := range other { // only one of the two layouts may record types
			if i := slices.IndexFunc(current, func(a Attr) bool { return a.Name == b.Name }); i >= 0 && sameAttr(b, current[i], false) {
				current = slices.Delete(slices.Clone(current), i, i+1)
				other = slices.DeleteFunc(slices.Clone(other), func(a Attr) bool { return a.Name == b.Name })
			}
		}
		return pure.sameAttrs(current, other)
	}
	var err error
	if n.group != nil {
		var g *zarr.Group
		if g, err = zarr.ParseGroup(n.path, docs, layout); err == nil && complete {
			err = equal(n.group.meta.Attrs, g.Attrs)
		}
	} else {
		var a *zarr.Array
		switch a, err = zarr.ParseArray(n.path, docs, zarr.ParseHint{Layout: layout}); {
		case err != nil:
		case complete: // either set may be the older one
			for _, p := range [][2]*zarr.Array{{n.meta, a.Masked(m.ds.layout)}, {n.meta.Masked(layout), a}} {
				if err = pure.same(p[0], p[1]); err == nil {
					err = equal(p[0].Attrs, p[1].Attrs)
				}
				if err == nil {
					break
				}
			}
		case !n.meta.Scalar && !slices.Equal(n.meta.Shape, a.Shape):
			err = refusalReason("its shapes are %v and %v", n.meta.Shape, a.Shape)
		}
	}
	if err != nil {
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "the node has documents of both Zarr versions that differ; delete one set: %w", err)
	}
	return nil
}
