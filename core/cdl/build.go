package cdl

import (
	"context"
	"errors"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
)

// Generate creates a dataset at url from f, as ncgen does. After an error it aborts the
// dataset, so that no incomplete dataset remains. The errors are the same as for [Build]
// and open.Create.
func Generate(ctx context.Context, f *File, url string, opts *dataset.CreateOptions) error {
	ds, err := open.Create(ctx, url, opts)
	if err != nil {
		return err
	}
	if err = Build(ctx, f, ds); err == nil {
		err = ds.Flush(ctx)
	}
	if err != nil {
		return errors.Join(err, ds.Abort(ctx))
	}
	return ds.Close(ctx)
}

// Build defines the contents of f in the root of ds, a dataset open for writing, and
// writes the data a few MiB at a time. The data determines the lengths of unlimited
// dimensions. Elements without data become the fill value. The special attributes
// (_Storage, _ChunkSizes, _ChunkGrid, _ShardSizes, _ShardGrid, _DeflateLevel, _Shuffle,
// _Fletcher32, _Filter, _Codecs, _Endianness, _NoFill) become properties of the variable.
// The attributes _Format, _NCProperties, _SuperblockVersion and _IsNetcdf4 of the root are
// ignored. Strings longer than 128 bytes, the default of NCZarr, increase the string size
// of their variable, unless the CDL file sets a size.
//
// After an error ds is incomplete and should be aborted. Errors have the key
// "name:line:column". Their kind is ncerr.ErrConvert for a value that its type cannot
// represent, ncerr.ErrRange for too many values, and ncerr.ErrInvalid for inconsistent
// declarations. Errors from DefineVar and Write of package nczarr keep their kind.
//
// Source: netcdf-c ncgen. Unlike ncgen, Build does not silently change or truncate the
// values of variables, unless f.TruncateStrings is set.
func Build(ctx context.Context, f *File, ds *dataset.Dataset) error {
	c := converter{name: f.Name}
	b := &builder{
		measurer: measurer{converter: c, lens: map[*Dim]int64{}},
		ctx:      ctx, ds: ds, file: f, cut: f.TruncateStrings,
		dims: map[*Dim]*dataset.Dim{}, groups: map[*Group]*dataset.Group{},
	}
	if err := b.all(f, f.Root); err != nil {
		return err
	}
	if err := b.defineTree(f.Root, ds.Root()); err != nil {
		return err
	}
	b.strLen = findAttr(f.Root.Attrs, "_nczarr_default_maxstrlen") == nil
	return b.vars(f.Root)
}

// builder is the state of one Build.
type builder struct {
	measurer
	ctx    context.Context //nolint:containedctx // the context has the lifetime of one Build
	ds     *dataset.Dataset
	file   *File
	dims   map[*Dim]*dataset.Dim
	groups map[*Group]*dataset.Group
	strLen bool // Build may choose the size of strings
	cut    bool // truncate strings that are too long
}

// at adds a position to an error from nczarr.
func (b *builder) at(pos Pos, err error) error {
	if err == nil || ncerr.IsContext(err) {
		return err
	}
	return b.fail(ncerr.KindOf(err), pos, "%w", err)
}

// defineTree defines the dimensions, attributes and subgroups of g in the group to.
func (b *builder) defineTree(g *Group, to *dataset.Group) error {
	b.groups[g] = to
	for _, d := range g.Dims {
		made, err := to.DefineDim(d.Name, b.length(d), d.Unlimited)
		if err != nil {
			return b.at(d.Pos, err)
		}
		b.dims[d] = made
	}
	for _, a := range g.Attrs {
		if to == b.ds.Root() && isRootSpecial(a.Name) {
			continue
		}
		attr, err := b.attr(a, a.Type)
		if err == nil {
			err = b.at(a.Pos, to.SetAttr(attr))
		}
		if err != nil {
			return err
		}
	}
	for _, sub := range g.Groups {
		made, err := to.DefineGroup(sub.Name)
		if err != nil {
			return b.at(sub.Pos, err)
		}
		if err := b.defineTree(sub, made); err != nil {
			return err
		}
	}
	return nil
}

func isRootSpecial(name string) bool {
	switch name {
	case "_Format", "_NCProperties", "_SuperblockVersion", "_IsNetcdf4":
		return true
	}
	return false
}

// attr converts an attribute to type typ, or to an inferred type if typ is NCNone.
func (b *builder) attr(a *Attr, typ dtype.NC) (dataset.Attr, error) {
	var err error
	if typ == dtype.NCNone {
		if typ, err = b.inferType(a); err != nil {
			return dataset.Attr{}, err
		}
	}
	value, err := b.attrValue(a, typ)
	return dataset.Attr{Name: a.Name, Type: typ, Value: value}, err
}

// vars defines and writes the variables of g and its subgroups.
func (b *builder) vars(g *Group) error {
	for _, v := range g.Vars {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		spec, err := b.spec(v)
		if err != nil {
			return err
		}
		made, err := b.groups[g].DefineVar(b.ctx, v.Name, spec)
		if err != nil {
			return b.at(v.Pos, err)
		}
		if err := b.fill(v, made, spec); err != nil {
			return err
		}
	}
	for _, sub := range g.Groups {
		if err := b.vars(sub); err != nil {
			return err
		}
	}
	return nil
}

// spec converts a declaration and its attributes to a dataset.VarSpec.
func (b *builder) spec(v *Var) (*dataset.VarSpec, error) {
	spec := &dataset.VarSpec{Type: v.Type}
	for _, ref := range v.Dims {
		spec.Dims = append(spec.Dims, b.dims[ref.Dim])
	}
	st := &storage{converter: b.converter, known: b.ds.Codecs(), spec: spec, deflate: -1, elem: v.Type.Size()}
	for _, a := range v.Attrs {
		taken, err := st.special(a)
		if err != nil {
			return nil, err
		}
		if taken {
			continue
		}
		attr, err := b.varAttr(v, a)
		if err != nil {
			return nil, err
		}
		spec.Attrs = append(spec.Attrs, attr)
	}
	if v.Enum != nil {
		if err := b.flags(v, spec); err != nil {
			return nil, err
		}
	}
	st.finish()
	if v.Type == dtype.NCString && b.strLen && b.ds.FixedStrings() && findAttr(v.Attrs, "_nczarr_maxstrlen") == nil {
		if n := longest(v); n > 128 {
			spec.MaxStrLen = n
		}
	}
	return spec, nil
}

// flags adds the attributes flag_values and flag_meanings of an enum to spec.
func (b *builder) flags(v *Var, spec *dataset.VarSpec) error {
	values, meanings := v.Enum.flags()
	for _, a := range []*Attr{values, meanings} {
		if have := findAttr(v.Attrs, a.Name); have != nil {
			return b.fail(ncerr.ErrNameInUse, have.Pos, "attribute %q conflicts with the values of type %q", a.Name, v.Enum.Name)
		}
		attr, err := b.attr(a, a.Type)
		if err != nil {
			return err
		}
		spec.Attrs = append(spec.Attrs, attr)
	}
	return nil
}

// varAttr converts an attribute of a variable that is not special. _FillValue must have
// the type of the variable and one value.
func (b *builder) varAttr(v *Var, a *Attr) (dataset.Attr, error) {
	if a.Name != "_FillValue" {
		return b.attr(a, a.Type)
	}
	if a.Type != dtype.NCNone && a.Type != v.Type {
		return dataset.Attr{}, b.fail(ncerr.ErrBadType, a.Pos, "_FillValue has type %s, but the variable %q has type %s", a.Type, v.Name, v.Type)
	}
	if len(a.Values) != 1 {
		return dataset.Attr{}, b.fail(ncerr.ErrInvalid, a.Pos, "_FillValue must be a single value")
	}
	attr, err := b.attr(a, v.Type)
	if text, ok := attr.Value.(string); ok && len(text) > 1 {
		attr.Value = text[:1] // ncgen keeps only the first character
	} else if ok && text == "" {
		attr.Value = "\x00"
	}
	return attr, err
}

// longest returns the length in bytes of the longest string in the data and fill value
// of a variable.
func longest(v *Var) int {
	n := v.data.longest
	if a := findAttr(v.Attrs, "_FillValue"); a != nil && len(a.Values) == 1 {
		n = max(n, len(a.Values[0].Text))
	}
	return n
}
