package nczarr

import (
	"context"
	"iter"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
)

// Unlimited is the length that defines an unlimited dimension. Such a dimension has
// length 0 at first, and grows when a write extends beyond its end.
const Unlimited = -1

// Group is one group of a dataset.
type Group struct{ core *dataset.Group }

// Name returns the last element of the path; "" for the root.
func (g *Group) Name() string { return g.core.Name() }

// Path returns the absolute name: "/" for the root, "/a/b" for a subgroup.
func (g *Group) Path() string { return g.core.Path() }

// Parent returns the group that contains g, or nil for the root.
func (g *Group) Parent() *Group {
	if p := g.core.Parent(); p != nil {
		return &Group{p}
	}
	return nil
}

// Subgroup returns the group with the given name, relative to g or absolute. The error
// is [ErrNoGroup].
func (g *Group) Subgroup(path string) (*Group, error) {
	sub, err := g.core.Group(path)
	if err != nil {
		return nil, err
	}
	return &Group{sub}, nil
}

// Subgroups returns the groups directly below g in the order of definition, or sorted by
// name in pure Zarr.
func (g *Group) Subgroups() []*Group {
	var out []*Group
	for _, sub := range g.core.Groups() {
		out = append(out, &Group{sub})
	}
	return out
}

// Var returns the variable with the given name, relative to g ("temp", "surface/temp")
// or absolute ("/surface/temp"). The error is [ErrNoVar].
func (g *Group) Var(path string) (*Var, error) {
	v, err := g.core.Var(path)
	if err != nil {
		return nil, err
	}
	return &Var{v}, nil
}

// Vars returns the variables of g itself in the order of definition, or sorted by name in
// pure Zarr.
func (g *Group) Vars() []*Var {
	var out []*Var
	for _, v := range g.core.Vars() {
		out = append(out, &Var{v})
	}
	return out
}

// Walk returns an iterator over the variables of g and of all groups below it, with
// their absolute names. The variables of a group come before those of its subgroups.
func (g *Group) Walk() iter.Seq2[string, *Var] {
	return func(yield func(string, *Var) bool) { g.walk(yield) }
}

func (g *Group) walk(yield func(string, *Var) bool) bool {
	for _, v := range g.Vars() {
		if !yield(v.Path(), v) {
			return false
		}
	}
	for _, sub := range g.Subgroups() {
		if !sub.walk(yield) {
			return false
		}
	}
	return true
}

// Dim returns the dimension with the given name. It looks in g and then in the groups
// above it, innermost first. The name may also be absolute. The error is [ErrNoDim].
func (g *Group) Dim(name string) (*Dim, error) {
	d, err := g.core.Dim(name)
	if err != nil {
		return nil, err
	}
	return &Dim{d}, nil
}

// Dims returns the dimensions that g itself defines.
func (g *Group) Dims() []*Dim { return dims(g.core.Dims()) }

// DefineGroup defines a subgroup. Errors: [ErrBadName], [ErrNameInUse], [ErrReadOnly].
func (g *Group) DefineGroup(name string) (*Group, error) {
	sub, err := g.core.DefineGroup(name)
	if err != nil {
		return nil, err
	}
	return &Group{sub}, nil
}

// DefineDim defines a dimension. length is at least 0, or [Unlimited]. Errors:
// [ErrBadName], [ErrNameInUse], [ErrInvalid] for the length, [ErrReadOnly].
func (g *Group) DefineDim(name string, length int64) (*Dim, error) {
	d, err := dimOf(g.core, name, length, nil)
	if err != nil {
		return nil, err
	}
	return &Dim{d}, nil
}

// DefineVar defines a variable. It checks all of spec, including the parameters of the
// codecs. Errors: [ErrBadName], [ErrNameInUse], [ErrNoDim] for a dimension that is not
// visible in g, [ErrBadType], [ErrBadChunk], [ErrNoFilter], [ErrInvalid] for codec
// parameters, [ErrConvert] for a fill value that the type cannot represent, [ErrLimit],
// [ErrReadOnly].
func (g *Group) DefineVar(ctx context.Context, name string, spec VarSpec) (*Var, error) {
	s, err := spec.core(g.core)
	var v *dataset.Var
	if err == nil {
		v, err = g.core.DefineVar(ctx, name, s)
	}
	if err != nil {
		return nil, wrapError("define", strings.TrimSuffix(g.Path(), "/")+"/"+name, err)
	}
	return &Var{v}, nil
}

// Attr returns the attribute with the given name. If it does not exist, [Attr.Exists]
// reports false.
func (g *Group) Attr(name string) Attr { return attrOf(name, g.core) }

// Attrs returns the attributes in order.
func (g *Group) Attrs() []Attr { return attrs(g.core.Attrs()) }

// SetAttr sets an attribute. It replaces an attribute of the same name. [Attr] lists
// the possible types of value. Errors: [ErrBadType] for a value of another type,
// [ErrNameInUse] for a name reserved by the format, [ErrReadOnly].
func (g *Group) SetAttr(name string, value any) error { return setAttr(name, value, g.core) }

// DeleteAttr removes an attribute. Errors: [ErrNoAttr], [ErrReadOnly].
func (g *Group) DeleteAttr(name string) error { return g.core.DeleteAttr(name) }

// Dim is a named dimension. The variables of its group and of the groups below share
// it.
type Dim struct{ core *dataset.Dim }

// Name returns the name within its group.
func (d *Dim) Name() string { return d.core.Name() }

// Path returns the absolute name, such as "/g/x".
func (d *Dim) Path() string { return d.core.Path() }

// Len returns the current length.
func (d *Dim) Len() int64 { return d.core.Len() }

// Unlimited reports whether writes can extend the dimension.
func (d *Dim) Unlimited() bool { return d.core.Unlimited() }

// Anonymous reports whether the dimension has a generated name, because it belongs to a
// Zarr array without dimension names.
func (d *Dim) Anonymous() bool { return d.core.Anonymous() }

func dims(list []*dataset.Dim) []*Dim {
	var out []*Dim
	for _, d := range list {
		out = append(out, &Dim{d})
	}
	return out
}
