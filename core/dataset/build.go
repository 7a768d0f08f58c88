package dataset

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// parsed is the result of parsing the documents of an array.
type parsed struct {
	path string // path of the array
	meta *zarr.Array
	err  error
}

// parseArrays parses the documents of all arrays concurrently.
func (l *loader) parseArrays(nodes []node) []parsed {
	out := make([]parsed, len(nodes))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(nodes)) {
		wg.Go(func() {
			var parser zarr.Parser
			hint := l.ds.parseHint(l.ds.layout)
			for i := next.Add(1) - 1; i < int64(len(nodes)); i = next.Add(1) - 1 {
				p := &out[i]
				p.path = join(nodes[i].parent.Path(), nodes[i].name)
				p.meta, p.err = parser.Array(p.path, nodes[i].docs, hint)
			}
		})
	}
	wg.Wait()
	return out
}

// addVar adds the variable of a node to its group, or records why it is left out.
func (l *loader) addVar(n node, p parsed) {
	if p.err == nil && len(p.meta.Fields) > 0 {
		l.addFields(n, p.meta)
		return
	}
	v := &Var{group: n.parent, name: n.name, both: n.both}
	if err := l.buildVar(v, n, p); err != nil {
		l.omit(n, v.Path(), err)
		return
	}
	if l.keep {
		v.docsInStore = n.docs
	}
	n.parent.vars.add(v)
}

func (l *loader) buildVar(v *Var, n node, p parsed) error {
	path := p.path
	if err := checkStoredName(n.name); err != nil {
		return err
	}
	if n.parent.vars.find(v.name) != nil {
		return ncerr.Errorf(ncerr.ErrMetadata, "open", path, "two variables have this name")
	}
	if n.parent.groups.find(v.name) != nil {
		return ncerr.Errorf(ncerr.ErrMetadata, "open", path, "a variable and a group have this name")
	}
	if n.err != nil {
		return n.err
	}
	if !n.docs.IsArray() {
		return ncerr.Errorf(ncerr.ErrNoObject, "open", join(path, l.ds.layout.ArrayDoc()), "the variable is listed in %s, but this document is missing%s", n.parent.Path(), l.sourceSuffix())
	}
	if p.err != nil {
		return p.err
	}
	return l.setMeta(v, path, p.meta)
}

// setMeta sets the metadata of v and checks everything that can be checked before the
// first read.
func (l *loader) setMeta(v *Var, path string, meta *zarr.Array) error {
	ds := l.ds
	for _, w := range meta.Warnings {
		ds.log.Warn(w, "path", path)
	}
	v.meta, v.attrs = meta, meta.Attrs
	l.warnMissing(path, meta)
	v.showTimes()
	if v.nc = meta.DType.NC(); v.nc == dtype.NCNone {
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "netCDF has no type for elements of type %s", meta.DType)
	}
	if v.isVariableLength() {
		if err := checkObject(l.catalog(), path, meta, false); err != nil {
			return err
		}
	}
	if err := v.checkChunk(); err != nil {
		return ncerr.Wrap("open", path, err)
	}
	return l.resolveDims(v)
}

// catalog returns the catalog of codecs. It calls the registry only once, because the
// registry builds the list on each call.
func (l *loader) catalog() codec.Catalog {
	if l.codecs == nil {
		l.codecs = l.ds.Codecs()
	}
	return l.codecs
}

// warnMissing warns about missing NCZarr metadata: in an array of an NCZarr dataset, or
// in the root if an array has NCZarr metadata.
func (l *loader) warnMissing(path string, meta *zarr.Array) {
	ds := l.ds
	switch {
	case ds.arrayOnly || ds.loc.Format == ncurl.Zarr || len(meta.Warnings) > 0:
	case !ds.layout.NCZarr() && meta.DimRefs != nil && !l.noRoot:
		l.noRoot = true
		ds.log.Warn("a variable has NCZarr metadata but the root does not; ignoring the NCZarr metadata and reading the dataset as pure Zarr", "path", path)
	case ds.layout.NCZarr() && meta.DimRefs == nil && !meta.Scalar:
		ds.log.Warn("NCZarr metadata such as dimension_references is missing; reading the variable as pure Zarr", "path", path)
	}
}

// parseHint returns what the parser needs to know about the dataset.
func (d *Dataset) parseHint(layout zarr.Layout) zarr.ParseHint {
	return zarr.ParseHint{Layout: layout, Pure: d.loc.Format == ncurl.Zarr, NoXarray: d.noXarray, NCProperties: d.ncProperties}
}

// resolveDims finds or creates the dimensions of v: from NCZarr's references, from
// xarray's names, or as anonymous dimensions.
func (l *loader) resolveDims(v *Var) error {
	meta := v.meta
	switch {
	case meta.Scalar || len(meta.Shape) == 0:
		return nil
	case meta.DimRefs != nil && l.ds.layout.NCZarr():
		return l.dimsByReference(v)
	case meta.DimNames != nil && !l.ds.noXarray:
		v.dims = l.dimsByName(v)
		return nil
	}
	v.dims = l.anonymousDims(meta.Shape)
	return nil
}

func (l *loader) dimsByReference(v *Var) error {
	meta := v.meta
	if len(meta.DimRefs) != len(meta.Shape) {
		return ncerr.Errorf(ncerr.ErrMetadata, "open", v.Path(), "the variable has %d dimension references, but its shape has rank %d", len(meta.DimRefs), len(meta.Shape))
	}
	v.dims = make([]*Dim, len(meta.Shape))
	for i, ref := range meta.DimRefs {
		d := v.group.lookupDim(ref)
		if d == nil {
			return ncerr.Errorf(ncerr.ErrMetadata, "open", v.Path(), "dimension_references: no group declares the dimension %q%s", ref, v.group.declaredDims())
		}
		n := meta.Shape[i]
		switch {
		case n > d.len && d.unlimited:
			d.len = n
		case n != d.len && !d.unlimited:
			return ncerr.Errorf(ncerr.ErrMetadata, "open", join(v.Path(), l.ds.layout.ArrayDoc()), "the shape %v has length %d along dimension %q, which has length %d", meta.Shape, n, ref, d.len)
		}
		v.dims[i] = d
	}
	l.compareNames(v)
	return nil
}

// compareNames warns if the dimension names for xarray differ from NCZarr's references.
// The references take precedence. In Zarr v3 a dimension may have no name.
func (l *loader) compareNames(v *Var) {
	for i, name := range v.meta.DimNames {
		if i < len(v.dims) && name != "" && name != v.dims[i].name {
			l.ds.log.Warn("_ARRAY_DIMENSIONS or dimension_names differs from NCZarr's dimension reference, which takes precedence", "path", v.Path(), "name", name, "reference", v.dims[i].Path())
		}
	}
}

// declaredDims returns a list of the dimensions that are visible in g, for error
// messages. The list is limited to eight names.
func (g *Group) declaredDims() string {
	const most = 8
	var names []string
	count := 0
	for at := g; at != nil; at = at.parent {
		count += len(at.dims.list)
		for _, d := range at.dims.list[:min(len(at.dims.list), most-len(names))] {
			names = append(names, join(shorten(at.Path()), shorten(d.name)))
		}
	}
	if count == 0 {
		return ""
	}
	rest := ""
	if count > most {
		rest = fmt.Sprintf(" and %d more", count-most)
	}
	return " (declared: " + strings.Join(names, ", ") + rest + ")"
}

// shorten returns the end of a path or name. It keeps messages short that may occur once
// per variable.
func shorten(path string) string {
	const most = 60
	if len(path) <= most {
		return path
	}
	return "..." + strings.ToValidUTF8(path[len(path)-most:], "")
}

// sourceSuffix returns a suffix for error messages: " in" and the name of the
// consolidated document if documents are read from it, and an empty string otherwise.
func (l *loader) sourceSuffix() string {
	if l.all != nil {
		return " in " + l.ds.layout.ConsolidatedDoc()
	}
	return ""
}

// dimsByName finds or creates dimensions in the variable's own group. It uses an
// anonymous dimension if the name is empty or invalid, or if the group already has a
// dimension of this name with another length.
func (l *loader) dimsByName(v *Var) []*Dim {
	dims := make([]*Dim, len(v.meta.Shape))
	for i, n := range v.meta.Shape {
		name := v.meta.DimNames[i]
		d := v.group.dims.find(name)
		if name == "" {
			dims[i] = l.anonymousDim(n)
			continue
		}
		if d == nil && checkStoredName(name) == nil {
			d = &Dim{group: v.group, name: name, len: n, generated: true}
			v.group.dims.add(d)
		}
		if d == nil || d.len != n {
			l.ds.log.Warn("a dimension name is ignored because it is invalid or in use with another length", "path", v.Path(), "name", name, "length", n)
			d = l.anonymousDim(n)
		}
		dims[i] = d
	}
	return dims
}

func (l *loader) anonymousDims(shape []int64) []*Dim {
	dims := make([]*Dim, len(shape))
	for i, n := range shape {
		dims[i] = l.anonymousDim(n)
	}
	return dims
}

// anonymousDim returns the root's anonymous dimension of length n.
//
// Source: netcdf-c libnczarr, NCZ_ANONDIM ("_Anonymous_Dim_").
func (l *loader) anonymousDim(n int64) *Dim {
	if d := l.anon[n]; d != nil {
		return d
	}
	if l.anon == nil {
		l.anon = make(map[int64]*Dim)
	}
	d := l.makeAnonymousDim(n)
	l.anon[n] = d
	return d
}

func (l *loader) makeAnonymousDim(n int64) *Dim {
	name := fmt.Sprintf("_Anonymous_Dim_%d", n)
	for i := 2; ; i++ {
		d := l.ds.top.dims.find(name)
		if d == nil {
			break
		}
		if d.len == n && !d.unlimited {
			return d
		}
		name = fmt.Sprintf("_Anonymous_Dim_%d_%d", n, i) // a declared dimension already has this name
	}
	d := &Dim{group: l.ds.top, name: name, len: n, anonymous: true, generated: true}
	l.ds.top.dims.add(d)
	return d
}

// arrayName derives the name of a root array from its location: the last segment
// without the extension of a store.
func arrayName(place string) string {
	base := path.Base(strings.TrimRight(place, "/"))
	for _, ext := range []string{".zarr", ".zip", ".nczarr", ".ncz"} {
		base = strings.TrimSuffix(base, ext)
	}
	if checkStoredName(base) != nil {
		return "data"
	}
	return base
}

// loadRootArray loads a store whose root is an array. The dataset then has one variable,
// named after the location, or one variable for each field of a structured array.
// NCZarr's references supply the dimension names, although the dimensions themselves are
// outside the store.
func (l *loader) loadRootArray(docs zarr.Docs) error {
	ds := l.ds
	ds.top.meta = &zarr.Group{}
	v := &Var{group: ds.top, name: arrayName(ds.loc.Path)}
	v.data.atRoot = true
	ds.arrayOnly = true
	if docs.HasNCZarrMembers() {
		ds.frozen = "the array is part of an NCZarr dataset; open that dataset instead"
	}
	layout := ds.layout
	ds.layout = ds.layout.Pure()
	meta, err := zarr.ParseArray("/", docs, ds.parseHint(layout))
	if err != nil {
		return err
	}
	if len(meta.Fields) > 0 {
		ds.top.docsInStore = nil
		if ds.frozen == "" {
			ds.frozen = "the root is an array of structured elements, which is read-only"
		}
		l.addFields(node{parent: ds.top, name: v.name, docs: docs, isArr: true}, meta)
		return nil
	}
	if err := l.setMeta(v, "/", meta); err != nil {
		return err
	}
	if len(meta.DimRefs) == len(v.dims) {
		for i, ref := range meta.DimRefs {
			_, name := splitPath(ref)
			if v.dims[i].anonymous && ds.top.dims.find(name) == nil && checkStoredName(name) == nil {
				v.dims[i] = &Dim{group: ds.top, name: name, len: meta.Shape[i]}
			}
		}
	}
	ds.top.dims = named[*Dim]{}
	for _, d := range v.dims {
		if !slices.Contains(ds.top.dims.list, d) {
			ds.top.dims.add(d)
		}
	}
	v.docsInStore, ds.top.docsInStore = ds.top.docsInStore, nil
	ds.top.vars.add(v)
	return nil
}
