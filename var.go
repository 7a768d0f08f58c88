package nczarr

import (
	"context"
	"slices"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Type is the type of the elements of a variable. Its String method returns the CDL
// keyword: "byte", "char", "short", "float" and so on.
type Type = dtype.NC

// The types, named after those of Go. Char is one byte of text. String is text of any
// length.
const (
	Int8    = dtype.NCByte
	Uint8   = dtype.NCUByte
	Int16   = dtype.NCShort
	Uint16  = dtype.NCUShort
	Int32   = dtype.NCInt
	Uint32  = dtype.NCUInt
	Int64   = dtype.NCInt64
	Uint64  = dtype.NCUInt64
	Float32 = dtype.NCFloat
	Float64 = dtype.NCDouble
	Char    = dtype.NCChar
	String  = dtype.NCString
)

// VarSpec describes a variable to define. The zero value of every field except Type is
// its default.
type VarSpec struct {
	// Type is the type of the elements.
	Type Type
	// Dims are the names of the dimensions, slowest varying first; empty for a scalar.
	Dims []string
	// Shape has one length per dimension of Dims, or [Unlimited]. A dimension that is
	// not visible in the group is defined with this length. It remains defined even if
	// defining the variable fails. An existing dimension must have this length or be
	// unlimited. If Shape is nil, all dimensions must exist.
	Shape []int64
	// Chunks is the chunk shape in elements: one length of at least 1 per dimension. The
	// default follows netCDF-C: about 16 MiB, with length 1 along unlimited dimensions,
	// or 4 KiB if the only dimension is unlimited. Chunks below 1 MiB extend along
	// unlimited dimensions that already have a length.
	Chunks []int64
	// ChunkRuns, if not nil, are the lengths of the chunks along each dimension, and Chunks
	// is ignored. Only Zarr v3 has chunks of different lengths. A dimension cannot grow
	// beyond the total length of its chunks.
	ChunkRuns [][]ChunkRun
	// Shards is the shape in elements of the shards that contain the chunks: multiples
	// of Chunks. Each shard is one object of the store. By default each chunk is an
	// object. Only Zarr v3 has shards.
	Shards []int64
	// Codecs are applied in this order when a chunk is written. By default, chunks are
	// stored without codecs.
	Codecs []Codec
	// Fill is the value of elements that were never written: a number for a numeric
	// type, a string for String, a string of one byte for Char. It becomes the
	// attribute _FillValue. The default is netCDF's fill value of Type, without an
	// attribute.
	Fill any
	// StringLen is the maximum length in bytes of the elements of a String variable.
	// Longer strings cannot be written. The default is 128 in NCZarr, and variable
	// length in pure Zarr. [VariableLen] selects variable length in both; netCDF-C
	// cannot read the result.
	StringLen int
	// Attrs are the attributes in order.
	Attrs []Attr
}

// ChunkRun is a sequence of chunks that have the same length along one dimension. A
// Count of 0 means all chunks of the dimension.
type ChunkRun = chunk.Run

// VariableLen as StringLen of a [VarSpec] selects strings of variable length.
const VariableLen = dataset.VarLen

// core converts s to a spec of core/dataset. It looks up the names of dimensions in g.
func (s *VarSpec) core(g *dataset.Group) (*dataset.VarSpec, error) {
	out := &dataset.VarSpec{Type: s.Type, Chunks: slices.Clone(s.Chunks), Shards: slices.Clone(s.Shards), MaxStrLen: s.StringLen}
	if s.ChunkRuns != nil {
		grid, err := chunk.NewGrid(s.ChunkRuns)
		if err != nil {
			return nil, err
		}
		out.Grid = &grid
	}
	if !s.Type.Valid() {
		return nil, ncerr.Errorf(ErrBadType, "", "", "VarSpec.Type is not a valid type")
	}
	if s.Shape != nil && len(s.Shape) != len(s.Dims) {
		return nil, ncerr.Errorf(ErrInvalid, "", "", "VarSpec.Shape has %d lengths, but VarSpec.Dims has %d dimensions", len(s.Shape), len(s.Dims))
	}
	for i, name := range s.Dims {
		d, err := g.Dim(name)
		if s.Shape != nil {
			d, err = dimOf(g, name, s.Shape[i], d)
		}
		if err != nil {
			return nil, err
		}
		out.Dims = append(out.Dims, d)
	}
	for _, c := range s.Codecs {
		step, err := stepOf(c)
		if err != nil {
			return nil, err
		}
		out.Codecs = append(out.Codecs, step)
	}
	if s.Fill != nil {
		fill, err := fillOf(s.Fill, s.Type)
		if err != nil {
			return nil, err
		}
		out.Fill = fill
		out.Attrs = append(out.Attrs, dataset.Attr{Name: "_FillValue", Type: s.Type, Value: fill})
	}
	for _, a := range s.Attrs {
		c, err := a.core()
		if err != nil {
			return nil, err
		}
		out.Attrs = append(out.Attrs, c)
	}
	return out, nil
}

// dimOf returns d, or defines a dimension if d is nil. It fails if d has another length
// and is not unlimited.
func dimOf(g *dataset.Group, name string, length int64, d *dataset.Dim) (*dataset.Dim, error) {
	switch {
	case d == nil && length == Unlimited:
		return g.DefineDim(name, 0, true)
	case d == nil:
		return g.DefineDim(name, length, false)
	case !d.Unlimited() && d.Len() != length:
		return nil, ncerr.Errorf(ErrInvalid, "", "", "dimension %q has length %d, not %d", d.Path(), d.Len(), length)
	}
	return d, nil
}

// fillOf converts a fill value to a slice of length 1 of the Go type of t, or to a
// string for Char. It fails if the conversion changes the value.
func fillOf(value any, t Type) (any, error) {
	slice, ok := sliceOf(value)
	bad := func() error {
		return ncerr.Errorf(ErrConvert, "", "", "the fill value %#v of type %T cannot be stored as %s", value, value, t)
	}
	text, isText := slice.(string)
	switch {
	case !ok || dtype.Len(slice) != 1 && !isText:
		return nil, bad()
	case isText && t == Char && len(text) == 1:
		return text, nil
	case isText && t == String:
		return []string{text}, nil
	case isText || t == Char || t == String:
		return nil, bad()
	}
	out, ok := exact(slice, t)
	if !ok {
		return nil, bad()
	}
	return out, nil
}

// exact converts the numbers of a slice to type t. It returns false if the conversion
// changes a number, except that floats may be rounded to smaller floats.
func exact(slice any, t Type) (any, bool) {
	raw, from, ok := dtype.View(slice)
	if !ok {
		return nil, false
	}
	out := dtype.MakeSlice(t, dtype.Len(slice))
	if dtype.Decode(out, raw, from) != nil {
		return nil, false
	}
	if from.Kind == dtype.Float && (t == Float32 || t == Float64) {
		return out, true
	}
	back := make([]byte, len(raw))
	same := dtype.Encode(back, from, out) == nil && string(back) == string(raw)
	return out, same
}

// Var is a variable: an array with named dimensions and attributes.
type Var struct{ core *dataset.Var }

// Core returns the underlying variable of core/dataset. It offers what this package does
// not: reading in parts, information about stored data, quantization.
func (v *Var) Core() *dataset.Var { return v.core }

// Name returns the name within the group.
func (v *Var) Name() string { return v.core.Name() }

// Path returns the absolute name, such as "/g/temp".
func (v *Var) Path() string { return v.core.Path() }

// Group returns the group that contains the variable.
func (v *Var) Group() *Group { return &Group{v.core.Group()} }

// Type returns the type of the elements.
func (v *Var) Type() Type { return v.core.Type() }

// Dims returns the dimensions, slowest varying first; empty for a scalar.
func (v *Var) Dims() []*Dim { return dims(v.core.Dims()) }

// Shape returns the current lengths of the dimensions in a new slice.
func (v *Var) Shape() []int64 { return v.core.Shape() }

// Len returns the current number of elements; 1 for a scalar.
func (v *Var) Len() int64 { return v.core.All().Len() }

// Chunks returns the chunk shape in elements; empty for a scalar. If the chunks differ in
// shape, it returns the largest length of each dimension.
func (v *Var) Chunks() []int64 { return slices.Clone(v.core.Chunks()) }

// ChunkRuns returns the lengths of the chunks along each dimension if the chunks differ in
// shape, and nil otherwise.
func (v *Var) ChunkRuns() [][]ChunkRun { return v.core.ChunkGrid().Runs() }

// Shards returns the shape in elements of the shards that contain the chunks; nil if
// each chunk is an object of the store. If the shards differ in shape, it returns the
// largest length of each dimension.
func (v *Var) Shards() []int64 { return v.core.Shards() }

// Codecs returns the codecs in the order in which chunks are encoded. They can be used
// in a [VarSpec].
func (v *Var) Codecs() []Codec {
	var out []Codec
	for _, c := range v.core.Codecs() {
		out = append(out, RawCodec{ID: c.ID, Params: c.Params})
	}
	return out
}

// Fill returns the value of elements that were never written. The value has the Go type
// of [Var.Type], such as int16 or float32, or string for Char and String. Fill returns
// false if the variable has no fill value; elements that were never written then read as
// zeros.
func (v *Var) Fill() (any, bool) {
	fill, ok := v.core.Fill()
	if !ok {
		return nil, false
	}
	return first(fill), true
}

// Attr returns the attribute with the given name. If it does not exist, [Attr.Exists]
// reports false.
func (v *Var) Attr(name string) Attr { return attrOf(name, v.core) }

// Attrs returns the attributes in order.
func (v *Var) Attrs() []Attr { return attrs(v.core.Attrs()) }

// SetAttr is like [Group.SetAttr]. It fails with [ErrInvalid] for _FillValue, which can
// be set only by [VarSpec].
func (v *Var) SetAttr(name string, value any) error { return setAttr(name, value, v.core) }

// DeleteAttr removes an attribute. Errors: [ErrNoAttr], [ErrReadOnly].
func (v *Var) DeleteAttr(name string) error { return v.core.DeleteAttr(name) }

// Available returns nil if all codecs of v are available, and otherwise the error that
// reading v would return. It reads no data.
func (v *Var) Available(ctx context.Context) error { return v.core.Available(ctx) }

// Coordinate returns the coordinate variable of a dimension of v: the variable with the
// same name as the dimension, which must be its only dimension. It looks in the group of
// v and then in the groups above it, innermost first. Errors: [ErrNoDim] if v does not
// have the dimension, [ErrNoVar] if the coordinate variable does not exist.
func (v *Var) Coordinate(dim string) (*Var, error) {
	for _, d := range v.core.Dims() {
		if d.Name() != dim && d.Path() != dim {
			continue
		}
		for g := v.core.Group(); g != nil; g = g.Parent() {
			for _, c := range g.Vars() {
				if c.Name() == d.Name() && c.Rank() == 1 && c.Dims()[0] == d {
					return &Var{c}, nil
				}
			}
		}
		return nil, ncerr.Errorf(ErrNoVar, "find coordinate", v.Path(), "dimension %q has no coordinate variable", dim)
	}
	return nil, wrapError("find coordinate", v.Path(), noDim(v, dim))
}

// noDim returns the error for a dimension that v does not have.
func noDim(v *Var, name string) error {
	var names []string
	for _, d := range v.core.Dims() {
		names = append(names, d.Name())
	}
	return ncerr.UnknownName(ErrNoDim, "find dimension", name, names)
}
