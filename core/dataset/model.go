package dataset

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// Dim is a named dimension. The variables of its group and of all groups below can share
// it.
type Dim struct {
	group     *Group
	name      string
	len       int64
	stored    int64 // the largest length known to be in the store, or 0
	unlimited bool
	anonymous bool
	generated bool         // no group document in the store declares it
	reach     atomic.Int64 // the largest length that writes of this process may have reached
}

// Name returns the name within its group.
func (d *Dim) Name() string { return d.name }

// Path returns the absolute name, such as "/g/x".
func (d *Dim) Path() string { return join(d.group.Path(), d.name) }

// Group returns the group that declares the dimension.
func (d *Dim) Group() *Group { return d.group }

// Len returns the current length.
func (d *Dim) Len() int64 {
	d.group.ds.mu.RLock()
	defer d.group.ds.mu.RUnlock()
	return d.len
}

// Unlimited reports whether writes can extend the dimension.
func (d *Dim) Unlimited() bool { return d.unlimited }

// Anonymous reports whether the dimension has a generated name, because it belongs to
// an array without dimension names.
func (d *Dim) Anonymous() bool { return d.anonymous }

// Group is a group of a dataset.
type Group struct {
	ds     *Dataset
	parent *Group
	name   string
	path   string // see Path; empty for the root
	depth  int

	dims    named[*Dim]
	vars    named[*Var]
	groups  named[*Group]
	attrs   []Attr
	omitted []node // nodes that were left out, see Dataset.Problems
	// implicit is set for a group without documents, which exists because of the nodes
	// below it.
	implicit bool
	inline   bool // the document repeats those of the nodes below it
	both     bool // the group has documents of Zarr v3 and of v2

	meta        *zarr.Group
	docsInStore zarr.Docs // see Dataset.documents; nil for a new group
	fresh       newNode
	changes     changes
}

// Dataset returns the dataset that contains the group.
func (g *Group) Dataset() *Dataset { return g.ds }

// Parent returns the parent group, or nil for the root.
func (g *Group) Parent() *Group { return g.parent }

// Name returns the last segment of the path; empty for the root.
func (g *Group) Name() string { return g.name }

// Path returns the absolute name: "/" for the root, "/a/b" below it.
func (g *Group) Path() string {
	if g.parent == nil {
		return "/"
	}
	return g.path
}

// below returns a new group with the given name and the parent g, without adding it to g.
func (g *Group) below(name string) *Group {
	return &Group{ds: g.ds, parent: g, name: name, path: join(g.Path(), name), depth: g.depth + 1}
}

// Groups returns the subgroups in definition order (sorted for pure Zarr).
func (g *Group) Groups() []*Group { return snapshot(g.ds, &g.groups.list) }

// Vars returns the variables in definition order (sorted for pure Zarr).
func (g *Group) Vars() []*Var { return snapshot(g.ds, &g.vars.list) }

// Dims returns the dimensions that the group declares. If the dataset was opened at a
// group inside a larger dataset, the result for that group begins with the dimensions of
// higher groups that the variables in or below the group use.
func (g *Group) Dims() []*Dim {
	g.ds.mu.RLock()
	defer g.ds.mu.RUnlock()
	if g != g.ds.root || g.parent == nil {
		return slices.Clone(g.dims.list)
	}
	return append(g.inherited(), g.dims.list...)
}

// inherited returns the dimensions of groups above g that variables in or below g use,
// in order of use.
func (g *Group) inherited() []*Dim {
	above := make(map[*Group]bool)
	for at := g.parent; at != nil; at = at.parent {
		above[at] = true
	}
	var dims []*Dim
	g.each(func(sub *Group) {
		for _, v := range sub.vars.list {
			for _, d := range v.dims {
				if above[d.group] && !slices.Contains(dims, d) {
					dims = append(dims, d)
				}
			}
		}
	})
	return dims
}

// Attrs returns the attributes in order. The values must not be changed.
func (g *Group) Attrs() []Attr { return snapshot(g.ds, &g.attrs) }

// Group returns a subgroup by name, or by a path that is absolute or relative to g. It
// fails with ncerr.ErrNoGroup if the subgroup does not exist.
func (g *Group) Group(path string) (*Group, error) {
	g.ds.mu.RLock()
	defer g.ds.mu.RUnlock()
	if found := g.walk(path); found != nil {
		return found, nil
	}
	dir, name := splitPath(path)
	var names []string
	if in := g.walk(dir); in != nil {
		for _, sub := range in.groups.list {
			names = append(names, strings.TrimSuffix(path, name)+sub.name)
		}
	}
	return nil, ncerr.UnknownName(ncerr.ErrNoGroup, "find group", path, names)
}

// Var returns a variable by name, or by a path that is absolute or relative to g. It
// fails with ncerr.ErrNoVar if the variable does not exist.
func (g *Group) Var(path string) (*Var, error) {
	g.ds.mu.RLock()
	defer g.ds.mu.RUnlock()
	dir, name := splitPath(path)
	in := g.walk(dir)
	if in == nil {
		return nil, ncerr.Errorf(ncerr.ErrNoVar, "find variable", path, "the group %q does not exist", strings.TrimSuffix(dir, "/"))
	}
	if v := in.vars.find(name); v != nil {
		return v, nil
	}
	names := make([]string, len(in.vars.list))
	for i, v := range in.vars.list {
		names[i] = strings.TrimSuffix(path, name) + v.name
	}
	return nil, ncerr.UnknownName(ncerr.ErrNoVar, "find variable", path, names)
}

// Dim returns a dimension that is visible in g: by name from g or the closest group
// above it, or by absolute path. It fails with ncerr.ErrNoDim if the dimension does not
// exist.
func (g *Group) Dim(name string) (*Dim, error) {
	g.ds.mu.RLock()
	defer g.ds.mu.RUnlock()
	if d := g.lookupDim(name); d != nil {
		return d, nil
	}
	var names []string
	for at := g; at != nil; at = at.parent {
		for _, d := range at.dims.list {
			names = append(names, d.name)
		}
	}
	return nil, ncerr.UnknownName(ncerr.ErrNoDim, "find dimension", name, names)
}

// Attr returns an attribute of the group. It fails with ncerr.ErrNoAttr if the
// attribute does not exist.
func (g *Group) Attr(name string) (Attr, error) {
	g.ds.mu.RLock()
	defer g.ds.mu.RUnlock()
	return findAttr(g.attrs, name)
}

// Var is a variable: an array with named dimensions and attributes.
type Var struct {
	group   *Group
	name    string
	nc      dtype.NC
	dims    []*Dim
	attrs   []Attr
	shown   []Attr // shown in addition to attrs, see showTimes
	meta    *zarr.Array
	changes changes
	data    engine
	own     []int64 // the shape of the array if dims are longer, see extent.go; otherwise nil
	in      *record // set for a field of a structured array
	defined bool    // created by DefineVar rather than found in the store
	both    bool    // the array has documents of Zarr v3 and of v2

	docsInStore zarr.Docs // see Dataset.documents; nil for a new variable
	fresh       newNode
	sharing     sharing
	early       earlyDocs
}

// Group returns the group that contains the variable.
func (v *Var) Group() *Group { return v.group }

// Name returns the name within its group.
func (v *Var) Name() string { return v.name }

// Path returns the absolute name, such as "/g/temp".
func (v *Var) Path() string { return join(v.group.Path(), v.name) }

// Type returns the netCDF type of the values.
func (v *Var) Type() dtype.NC { return v.nc }

// DType returns the stored element type. For a field of a structured or complex array, it
// returns the type of the field.
func (v *Var) DType() dtype.Type { return v.meta.DType }

// Rank returns the number of dimensions; 0 for a scalar.
func (v *Var) Rank() int { return len(v.dims) }

// Dims returns the dimensions, slowest varying first.
func (v *Var) Dims() []*Dim { return slices.Clone(v.dims) }

// Shape returns the current lengths of the dimensions.
func (v *Var) Shape() []int64 {
	v.group.ds.mu.RLock()
	defer v.group.ds.mu.RUnlock()
	return v.shape()
}

// shape is like Shape. The caller holds Dataset.mu.
func (v *Var) shape() []int64 {
	s := make([]int64, len(v.dims))
	for i, d := range v.dims {
		s[i] = d.len
	}
	return s
}

// Chunks returns the chunk shape; empty for a scalar. If the grid is rectilinear, it is
// the largest chunk length of each dimension; see ChunkGrid.
func (v *Var) Chunks() []int64 { return slices.Clone(v.ChunkGrid().Largest()) }

// ChunkGrid returns the grid that divides the variable into chunks, of rank 0 for a
// scalar.
func (v *Var) ChunkGrid() chunk.Grid {
	if v.meta.Scalar {
		return chunk.Grid{}
	}
	return v.meta.ChunkGrid()
}

// Shards returns the shape of the shards that contain the chunks, in elements. Each
// shard is one object of the store. Shards returns nil if each chunk is an object. If the
// shards differ in shape, it returns the largest length of each dimension; see
// ObjectGrid.
func (v *Var) Shards() []int64 {
	if len(v.meta.Shards) == 0 {
		return nil
	}
	return slices.Clone(v.meta.Shards[0].Shape)
}

// ObjectGrid returns the grid that divides the variable into objects of the store: shards
// or, if it has no shards, chunks.
func (v *Var) ObjectGrid() chunk.Grid {
	if len(v.meta.Shards) > 0 {
		return v.meta.ObjectGrid()
	}
	return v.ChunkGrid()
}

// Codecs returns the codec chain in encode order.
func (v *Var) Codecs() []zarr.CodecSpec { return slices.Clone(v.meta.Codecs) }

// Separator returns the dimension separator of the chunk keys: '.' or '/'.
func (v *Var) Separator() byte { return v.meta.Keys.Separator }

// Storage returns the storage that NCZarr metadata specifies: "chunked", "contiguous",
// "compact", "scalar", or empty if the metadata does not specify one.
func (v *Var) Storage() string { return v.meta.Storage }

// MaxStrLen returns the fixed length of NCString elements in bytes, or 0 if the length
// varies.
func (v *Var) MaxStrLen() int {
	if v.nc != dtype.NCString {
		return 0
	}
	return v.meta.DType.Size
}

// Attrs returns the attributes in order. The values must not be changed. An array of
// datetimes or timedeltas, which are int64 in netCDF, also has the attributes units,
// calendar, scale_factor and _FillValue that describe its values.
func (v *Var) Attrs() []Attr {
	v.group.ds.mu.RLock()
	defer v.group.ds.mu.RUnlock()
	return v.allAttrs()
}

// Attr returns an attribute. It fails with ncerr.ErrNoAttr if the attribute does not
// exist.
func (v *Var) Attr(name string) (Attr, error) {
	v.group.ds.mu.RLock()
	defer v.group.ds.mu.RUnlock()
	return findAttr(v.allAttrs(), name)
}

// Fill returns the fill value as a slice of one value of the Go type of Type (a
// one-byte string for NCChar), and reports whether the variable has one. Without a fill
// value, missing elements read as zeros.
func (v *Var) Fill() (any, bool) {
	if !v.meta.HasFill {
		return nil, false
	}
	val, err := decodeFill(v.meta, v.nc)
	return val, err == nil
}

// All returns a selection of the whole variable at its current shape.
func (v *Var) All() chunk.Selection { return chunk.All(v.Shape()) }

func findAttr(attrs []Attr, name string) (Attr, error) {
	for _, a := range attrs {
		if a.Name == name {
			return a, nil
		}
	}
	return Attr{}, ncerr.New(ncerr.ErrNoAttr, "find attribute", name, nil)
}

func snapshot[T any](ds *Dataset, list *[]T) []T {
	ds.mu.RLock()
	defer ds.mu.RUnlock()
	return slices.Clone(*list)
}

// walk returns the group at a relative or absolute path, or nil. The path "" is g
// itself.
func (g *Group) walk(path string) *Group {
	at := g
	if strings.HasPrefix(path, "/") {
		at = g.ds.top
	}
	for seg := range strings.SplitSeq(path, "/") {
		if seg == "" {
			continue
		}
		if at = at.groups.find(seg); at == nil {
			return nil
		}
	}
	return at
}

// lookupDim resolves a dimension name as netCDF does: first in the group itself, then
// in the groups above it.
func (g *Group) lookupDim(name string) *Dim {
	if strings.HasPrefix(name, "/") {
		dir, base := splitPath(name)
		if in := g.walk(dir); in != nil {
			return in.dims.find(base)
		}
		return nil
	}
	for at := g; at != nil; at = at.parent {
		if d := at.dims.find(name); d != nil {
			return d
		}
	}
	return nil
}

// splitPath splits a path after its last slash: "a/b/c" into "a/b/" and "c", "/x" into
// "/" and "x", and "x" into "" and "x".
func splitPath(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i+1], path[i+1:]
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
