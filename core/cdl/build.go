package cdl

import (
	"context"
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// Generate creates a dataset at url and fills it with what f says, as ncgen
// does. On an error nothing that looks whole is left. See [Build] and
// nczarr.Create for the errors.
func Generate(ctx context.Context, f *File, url string, opts *nczarr.CreateOptions) error {
	ds, err := nczarr.Create(ctx, url, opts)
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

// Build defines everything in f in the root of ds, a dataset open for
// writing, and writes the data, a few MiB at a time. Unlimited dimensions
// take their lengths from the data; what the data leaves out is fill value.
// The special attributes (_Storage, _ChunkSizes, _DeflateLevel, _Shuffle,
// _Fletcher32, _Filter, _Codecs, _Endianness, _NoFill) become properties of
// the variable; _Format, _NCProperties, _SuperblockVersion and _IsNetcdf4 of
// the root are left out. Strings longer than the 128 bytes NCZarr has by
// default make the variable's size larger, unless the text itself states one.
//
// After an error ds is incomplete: abort it. Errors have the key
// "name:line:column": ncerr.ErrConvert for a value that its type cannot hold,
// ncerr.ErrRange for too many values, ncerr.ErrInvalid for what contradicts
// itself, and those of nczarr's DefineVar and Write.
//
// Source: netcdf-c ncgen; unlike it, no value is changed or cut silently.
func Build(ctx context.Context, f *File, ds *nczarr.Dataset) error {
	c := converter{name: f.Name}
	b := &builder{
		measurer: measurer{converter: c, lens: map[*Dim]int64{}},
		ctx:      ctx, ds: ds, cut: f.CutStrings,
		dims: map[*Dim]*nczarr.Dim{}, groups: map[*Group]*nczarr.Group{},
	}
	if err := b.all(f.Root); err != nil {
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
	ctx    context.Context
	ds     *nczarr.Dataset
	dims   map[*Dim]*nczarr.Dim
	groups map[*Group]*nczarr.Group
	strLen bool // the size of strings may be chosen
	cut    bool // strings that are too long are cut
}

// at puts a position to an error of nczarr.
func (b *builder) at(pos Pos, err error) error {
	if err == nil || ncerr.IsContext(err) {
		return err
	}
	return b.fail(ncerr.KindOf(err), pos, "%w", err)
}

// defineTree defines groups, dimensions and group attributes; g becomes to.
func (b *builder) defineTree(g *Group, to *nczarr.Group) error {
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

// attr gives an attribute with its type, inferred when typ is NCNone.
func (b *builder) attr(a *Attr, typ dtype.NC) (nczarr.Attr, error) {
	var err error
	if typ == dtype.NCNone {
		if typ, err = b.inferType(a); err != nil {
			return nczarr.Attr{}, err
		}
	}
	value, err := b.attrValue(a, typ)
	return nczarr.Attr{Name: a.Name, Type: typ, Value: value}, err
}

// vars defines and fills the variables below g.
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

// spec turns a declaration and its attributes into nczarr's description.
func (b *builder) spec(v *Var) (*nczarr.VarSpec, error) {
	spec := &nczarr.VarSpec{Type: v.Type}
	for _, ref := range v.Dims {
		spec.Dims = append(spec.Dims, b.dims[ref.Dim])
	}
	st := &storage{converter: b.converter, spec: spec, deflate: -1, elem: v.Type.Size()}
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
	st.finish()
	if v.Type == dtype.NCString && b.strLen && b.ds.FixedStrings() && findAttr(v.Attrs, "_nczarr_maxstrlen") == nil {
		if n := longest(v); n > 128 {
			spec.MaxStrLen = n
		}
	}
	return spec, nil
}

// varAttr gives an ordinary attribute of a variable; _FillValue has the
// variable's type and one value.
func (b *builder) varAttr(v *Var, a *Attr) (nczarr.Attr, error) {
	if a.Name != "_FillValue" {
		return b.attr(a, a.Type)
	}
	if a.Type != dtype.NCNone && a.Type != v.Type {
		return nczarr.Attr{}, b.fail(ncerr.ErrBadType, a.Pos, "_FillValue is %s, the variable %q is %s", a.Type, v.Name, v.Type)
	}
	if len(a.Values) != 1 {
		return nczarr.Attr{}, b.fail(ncerr.ErrInvalid, a.Pos, "_FillValue must be a single value")
	}
	attr, err := b.attr(a, v.Type)
	if text, ok := attr.Value.(string); ok && len(text) > 1 {
		attr.Value = text[:1] // the first character, as ncgen takes it
	} else if ok && text == "" {
		attr.Value = "\x00"
	}
	return attr, err
}

// longest gives the bytes of the longest string in a variable's data and fill
// value.
func longest(v *Var) int {
	n := 0
	for _, item := range flatten(v.Data) {
		n = max(n, len(item.Text))
	}
	if a := findAttr(v.Attrs, "_FillValue"); a != nil && len(a.Values) == 1 {
		n = max(n, len(a.Values[0].Text))
	}
	return n
}

// fill writes the data of a variable.
func (b *builder) fill(v *Var, to *nczarr.Var, spec *nczarr.VarSpec) error {
	if !v.HasData || len(v.Data) == 0 {
		return nil
	}
	w := &filler{builder: b, v: v, to: to, shape: to.Shape(), whole: spec.NoFill}
	if w.fill = fillShown(to); w.fill == nil && v.Type != dtype.NCChar {
		w.fill = dtype.DefaultFill(v.Type)
	}
	return w.list(v.Data, blocks(v), nil)
}

// filler writes the data of one variable.
type filler struct {
	*builder
	v     *Var
	to    *nczarr.Var
	shape []int64
	fill  any
	whole bool // what is missing must be written: absent chunks are not fill
}

// list writes the list of the block that begins at starts[0]; prefix is the
// index in the dimensions before it.
func (w *filler) list(items []Value, starts []int, prefix []int64) error {
	if len(starts) == 1 {
		return w.block(flatten(items), prefix)
	}
	dims := w.shape[starts[0]:starts[1]]
	if n := product(dims); int64(len(items)) > n {
		return w.fail(ncerr.ErrRange, items[n].Pos, "%d lists for %q, there is room for %d", len(items), w.v.Name, n)
	}
	for i, item := range items {
		index := make([]int64, len(dims))
		for d, rest := len(dims)-1, int64(i); d >= 0; d-- {
			index[d], rest = rest%dims[d], rest/dims[d]
		}
		if err := w.list(*item.Sub, starts[1:], append(slices.Clone(prefix), index...)); err != nil {
			return err
		}
	}
	return nil
}

// product is the number of elements of a shape, capped.
func product(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		if d > 0 && n > math.MaxInt64/d {
			return math.MaxInt64
		}
		n *= d
	}
	return n
}

// block writes the values of the dimensions behind prefix, in slabs.
func (w *filler) block(items []Value, prefix []int64) error {
	var text []byte
	n := int64(len(items))
	if w.v.Type == dtype.NCChar {
		var err error
		if text, err = w.charsOf(w.v, items); err != nil {
			return err
		}
		n = int64(len(text))
	}
	tail := w.shape[len(prefix):]
	if room := product(tail); n > room {
		pos := items[min(room, int64(len(items))-1)].Pos
		return w.fail(ncerr.ErrRange, pos, "%d values for %q, there is room for %d", n, w.v.Name, room)
	}
	slabs := newSlabs(tail, w.to.Chunks()[min(len(prefix), len(w.to.Chunks())):], MaxSlab/elementSize(w.to))
	for from := int64(0); slabs.next(); from += slabs.sel.Len() {
		if from >= n && !w.whole {
			return nil
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.slab(items, text, from, n, prefix, slabs.sel); err != nil {
			return err
		}
	}
	return nil
}

// slab writes the values from on, and fill value behind the n there are.
func (w *filler) slab(items []Value, text []byte, from, n int64, prefix []int64, sel chunk.Selection) error {
	size := sel.Len()
	have := max(0, min(size, n-from))
	dst := w.to.NewSlice(size)
	if w.v.Type == dtype.NCChar {
		bytes := dst.([]uint8)
		copy(bytes, text[min(from, n):])
		spreadOf(bytes[have:], []uint8{charFill(w.v)})
	} else {
		part := items[min(from, n):min(from+have, n)]
		if err := w.into(dst, part, w.fill); err != nil {
			return err
		}
		spread(dst, int(have), w.fill)
		if err := w.checkStrings(dst, part); err != nil {
			return err
		}
	}
	whole := chunk.Selection{Start: append(slices.Clone(prefix), sel.Start...)}
	for range prefix {
		whole.Count = append(whole.Count, 1)
	}
	whole.Count = append(whole.Count, sel.Count...)
	return w.at(w.v.DataPos, w.to.Write(w.ctx, whole, dst))
}

// checkStrings refuses strings that are longer than the variable's fixed
// size, or cuts them at a character.
func (w *filler) checkStrings(dst any, part []Value) error {
	list, _ := dst.([]string)
	most := w.to.MaxStrLen()
	for i := range list {
		if most == 0 || len(list[i]) <= most {
			continue
		}
		if !w.cut {
			pos := w.v.DataPos
			if i < len(part) {
				pos = part[i].Pos
			}
			return w.fail(ncerr.ErrConvert, pos, "a string of %d bytes for %q, whose strings have %d", len(list[i]), w.v.Name, most)
		}
		end := most
		for end > 0 && !utf8.RuneStart(list[i][end]) {
			end--
		}
		list[i] = list[i][:end]
	}
	return nil
}

// spread sets the elements of dst behind the first n to fill.
func spread(dst any, n int, fill any) {
	switch dst := dst.(type) {
	case []int8:
		spreadOf(dst[n:], fill)
	case []uint8:
		spreadOf(dst[n:], fill)
	case []int16:
		spreadOf(dst[n:], fill)
	case []uint16:
		spreadOf(dst[n:], fill)
	case []int32:
		spreadOf(dst[n:], fill)
	case []uint32:
		spreadOf(dst[n:], fill)
	case []int64:
		spreadOf(dst[n:], fill)
	case []uint64:
		spreadOf(dst[n:], fill)
	case []float32:
		spreadOf(dst[n:], fill)
	case []float64:
		spreadOf(dst[n:], fill)
	case []string:
		spreadOf(dst[n:], fill)
	}
}

func spreadOf[T any](dst []T, fill any) {
	if f, ok := fill.([]T); ok && len(f) == 1 {
		for i := range dst {
			dst[i] = f[0]
		}
	}
}
