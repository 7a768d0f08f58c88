package dataset

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// Names of attributes with a special meaning.
const (
	fillAttr             = "_FillValue"
	maxStrLenAttr        = "_nczarr_maxstrlen"
	defaultMaxStrLenAttr = "_nczarr_default_maxstrlen"
)

// defaultMaxStrLen is the size of strings, in bytes, if neither the variable nor the
// dataset specifies one.
//
// Source: netcdf-c libnczarr, NCZ_MAXSTR_DEFAULT.
const defaultMaxStrLen = 128

// checkName refuses names that netCDF, Zarr or the layout does not allow.
func checkName(name string, layout zarr.Layout) error {
	bad := func(why string) error { return ncerr.Errorf(ncerr.ErrBadName, "define", name, "%s", why) }
	switch {
	case name == "":
		return bad("the name is empty")
	case !utf8.ValidString(name):
		return bad("the name is not valid UTF-8")
	case strings.ContainsRune(name, '/'):
		return bad("a name may not contain a slash")
	case strings.HasSuffix(name, " "):
		return bad("a name may not end with a space")
	}
	if err := layout.CheckName(name); err != nil {
		return err
	}
	return zmap.ValidKey(name)
}

// warnName warns about the name of a new group, dimension or variable that makes netcdf-c refuse
// the dataset in the given layout.
func (d *Dataset) warnName(layout zarr.Layout, path, name string, isGroup bool) {
	if layout.RefusedByNetCDF(name, isGroup) {
		d.log.Warn("netcdf-c cannot open an NCZarr dataset with this name, which does not begin with a letter, a digit or _, or is not in Unicode's normal form NFC", "path", path)
	}
}

// checkWritable fails if the dataset is open for reading only.
func (d *Dataset) checkWritable(op, path string) error {
	if !d.Writable() {
		return ncerr.New(ncerr.ErrReadOnly, op, path, nil)
	}
	return nil
}

// checkChangeable fails if the metadata cannot be written.
func (d *Dataset) checkChangeable(op, path string) error {
	if err := d.checkWritable(op, path); err != nil {
		return err
	}
	if d.frozen != "" {
		return ncerr.Errorf(ncerr.ErrUnsupported, op, path, "%s", d.frozen)
	}
	return nil
}

// checkChangeable fails if the metadata of g cannot be written, for example because g is
// the implicit group around a root array or has documents of two Zarr versions.
func (g *Group) checkChangeable(op, path string) error {
	if g.ds.arrayOnly {
		return ncerr.Errorf(ncerr.ErrUnsupported, op, path, "the root of the store is an array, so it has no group to change")
	}
	if g.both {
		return errTwoVersions(op, g.Path())
	}
	return g.ds.checkChangeable(op, path)
}

// checkNameFree fails if a group or variable of g has the name, even if Open left it out.
func (g *Group) checkNameFree(name string) error {
	lost := slices.ContainsFunc(g.omitted, func(n node) bool { return n.name == name })
	if g.groups.find(name) != nil || g.vars.find(name) != nil || lost {
		return ncerr.New(ncerr.ErrNameInUse, "define", join(g.Path(), name), nil)
	}
	return nil
}

// DefineGroup creates a subgroup. Errors: ncerr.ErrBadName, ncerr.ErrNameInUse,
// ncerr.ErrReadOnly. See [Group.DefineVar] for names that other programs use.
func (g *Group) DefineGroup(name string) (*Group, error) {
	if err := g.checkChangeable("define", join(g.Path(), name)); err != nil {
		return nil, err
	}
	if err := checkName(name, g.ds.layout); err != nil {
		return nil, err
	}
	g.ds.mu.Lock()
	defer g.ds.mu.Unlock()
	if err := g.checkNameFree(name); err != nil {
		return nil, err
	}
	if g.depth+1 > g.ds.opts.Limits.MaxDepth {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "define", name, "groups are nested more than %d levels deep", g.ds.opts.Limits.MaxDepth)
	}
	sub := g.below(name)
	sub.meta = &zarr.Group{}
	sub.fresh.defined = true
	sub.changes.add()
	g.ds.warnName(g.ds.layout, sub.Path(), name, true)
	g.groups.add(sub)
	g.changes.add()
	return sub, nil
}

// DefineDim creates a dimension. length is its length, or its current length if it is
// unlimited. Errors: ncerr.ErrBadName, ncerr.ErrNameInUse, ncerr.ErrInvalid for a
// negative or too large length, ncerr.ErrReadOnly.
func (g *Group) DefineDim(name string, length int64, unlimited bool) (*Dim, error) {
	path := join(g.Path(), name)
	if err := g.checkChangeable("define", path); err != nil {
		return nil, err
	}
	if err := checkName(name, g.ds.layout); err != nil {
		return nil, err
	}
	if length < 0 || length > maxDim {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "define", path, "the length %d is not in the range 0 to %d", length, maxDim)
	}
	g.ds.mu.Lock()
	defer g.ds.mu.Unlock()
	if g.dims.find(name) != nil {
		return nil, ncerr.New(ncerr.ErrNameInUse, "define", path, nil)
	}
	g.ds.warnName(g.ds.layout, path, name, false)
	d := &Dim{group: g, name: name, len: length, unlimited: unlimited}
	g.dims.add(d)
	g.changes.add()
	return d, nil
}

// DefineVar creates a variable. It opens the variable's codecs to validate them. A scalar of
// NCZarr on Zarr v2 does not get the codec blosc, because netcdf-c refuses a dataset with such a
// scalar; this causes a warning.
// Errors: ncerr.ErrBadName, ncerr.ErrNameInUse, ncerr.ErrReadOnly, ncerr.ErrNoDim for a
// dimension that is not visible in g, ncerr.ErrBadChunk, ncerr.ErrBadType,
// ncerr.ErrNoFilter, ncerr.ErrInvalid for codec parameters, and ncerr.ErrLimit for a
// chunk that exceeds the limits, or a key or chunk that is too large for the store.
// Objects of another program that the metadata does not list are detected at the first
// write: Write, Flush and Close then fail with ncerr.ErrNameInUse.
func (g *Group) DefineVar(ctx context.Context, name string, spec *VarSpec) (*Var, error) {
	v := &Var{group: g, name: name, nc: spec.Type, dims: slices.Clone(spec.Dims), defined: true}
	v.fresh.defined = true
	v.changes.add()
	path := v.Path()
	if err := g.checkChangeable("define", path); err != nil {
		return nil, err
	}
	if err := checkName(name, g.ds.layout); err != nil {
		return nil, err
	}
	if err := v.define(spec); err != nil {
		return nil, ncerr.Wrap("define", path, err)
	}
	codecs := g.ds.Codecs()
	v.meta.Codecs = clearElementSize(codecs, v.meta.Codecs)
	a, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := v.checkStoreLimits(); err != nil {
		v.data.close()
		return nil, err
	}
	codecs = g.ds.Codecs() // opening may have started plugins, which complete their descriptions
	v.meta.Codecs = setElementSize(codecs, v.meta.Codecs, a.Specs())
	if n := len(v.meta.Codecs); n > 0 {
		last, _ := codecs.Find(v.meta.Codecs[n-1].ID)
		v.meta.NoCompressor = !last.Compresses()
	}
	v.source().Found() // no check of the separator is needed, because a new array has no chunks
	g.ds.mu.Lock()
	defer g.ds.mu.Unlock()
	if err := g.checkNameFree(name); err != nil {
		v.data.close()
		return nil, err
	}
	if g.ds.layout.ByteOrderInCodec() { // the layout cannot represent every chain
		if _, err := v.docs(); err != nil {
			v.data.close()
			return nil, ncerr.Wrap("define", path, err)
		}
		for _, c := range v.meta.Codecs {
			if d, known := codecs.Find(c.ID); !known || d.V3 == "" || !g.ds.layout.AllowsCodec(c.ID, v.meta.DType) {
				g.ds.log.Warn("zarr-python does not support the codec in Zarr v3", "path", path, "codec", c.ID)
			}
		}
	}
	g.ds.warnName(g.ds.layout, path, name, false)
	g.vars.add(v)
	g.changes.add()
	return v, nil
}

// define sets the metadata of a new variable.
func (v *Var) define(spec *VarSpec) error {
	if !spec.Type.Valid() {
		return ncerr.Errorf(ncerr.ErrBadType, "", "", "%s is not a netCDF type", spec.Type)
	}
	for i, d := range v.dims {
		if d == nil || d.group == nil {
			return ncerr.Errorf(ncerr.ErrInvalid, "", "", "dimension %d does not belong to a dataset", i)
		}
		if !v.dimVisible(d) {
			return ncerr.Errorf(ncerr.ErrNoDim, "", "", "dimension %q is not defined in this group or a group above it", d.Path())
		}
	}
	if len(v.dims) > chunk.MaxRank {
		return ncerr.Errorf(ncerr.ErrLimit, "", "", "the variable has %d dimensions, but the limit is %d", len(v.dims), chunk.MaxRank)
	}
	for i, a := range spec.Attrs {
		if err := v.checkAttr(a); err != nil {
			return err
		}
		if slices.ContainsFunc(spec.Attrs[:i], func(b Attr) bool { return b.Name == a.Name }) {
			return ncerr.Errorf(ncerr.ErrNameInUse, "", "", "attribute %q is specified twice", a.Name)
		}
	}
	v.attrs = slices.Clone(spec.Attrs)
	v.meta = &zarr.Array{Layout: v.group.ds.layout, Codecs: slices.Clone(spec.Codecs), Keys: v.group.ds.layout.Keys(spec.Separator), Storage: "chunked"}
	if len(v.dims) == 0 {
		fit := v.meta.Layout.ScalarCodecs(v.meta.Codecs)
		if len(fit) < len(v.meta.Codecs) {
			v.group.ds.log.Warn("the scalar is stored without blosc, because netcdf-c refuses a dataset with a scalar of this codec", "path", v.Path())
		}
		v.meta.Codecs = fit
	}
	if v.meta.Keys.Separator != '.' && v.meta.Keys.Separator != '/' {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "invalid dimension separator %q: only . and / are allowed", v.meta.Keys.Separator)
	}
	if err := v.defineType(spec); err != nil {
		return err
	}
	if err := v.orderCodecs(v.group.ds.Codecs()); err != nil {
		return err
	}
	if err := v.defineQuantization(spec); err != nil {
		return err
	}
	if err := v.defineChunks(spec); err != nil {
		return err
	}
	return v.defineFill(spec)
}

// dimVisible reports whether d belongs to v's group or one above it.
func (v *Var) dimVisible(d *Dim) bool {
	for g := v.group; g != nil; g = g.parent {
		if g == d.group {
			return true
		}
	}
	return false
}

// defineType sets the element type.
func (v *Var) defineType(spec *VarSpec) error {
	order := spec.Order
	if order == dtype.OrderNone || zarr.StoresLittleEndian(v.group.ds.ncProperties) {
		order = dtype.Little
	}
	switch {
	case spec.DType != dtype.Type{}:
		return v.defineStored(spec.DType)
	case spec.Type == dtype.NCString:
		return v.defineString(spec.MaxStrLen)
	}
	v.meta.DType = spec.Type.Type(order)
	return nil
}

// defineStored sets a stored element type other than the default one.
func (v *Var) defineStored(t dtype.Type) error {
	if t.NC() != v.nc {
		return ncerr.Errorf(ncerr.ErrBadType, "", "", "elements of type %s are read as %s, not as %s", t, t.NC(), v.nc)
	}
	if err := v.meta.Layout.CheckType(t); err != nil {
		return err
	}
	v.meta.DType = t
	if t.Kind == dtype.Bytes {
		v.meta.MaxStrLen = t.Size
	}
	v.showTimes()
	v.addObjectCodec()
	return nil
}

// addObjectCodec inserts the usual codec for elements of variable length at the start of
// the chain, unless the chain begins with an object codec.
func (v *Var) addObjectCodec() {
	if !v.isVariableLength() {
		return
	}
	if len(v.meta.Codecs) > 0 {
		if first, _ := v.group.ds.Codecs().Find(v.meta.Codecs[0].ID); first.Objects != codecdriver.NoObjects {
			return
		}
	}
	id := "vlen-utf8"
	if v.meta.DType.Kind == dtype.VlenBytes {
		id = "vlen-bytes"
	}
	v.meta.Codecs = slices.Insert(v.meta.Codecs, 0, zarr.CodecSpec{ID: id})
}

// defineString sets the element type of strings with MaxStrLen n; see [VarSpec].
func (v *Var) defineString(n int) error {
	for _, src := range []struct {
		attrs []Attr
		name  string
	}{{v.attrs, maxStrLenAttr}, {v.group.ds.top.Attrs(), defaultMaxStrLenAttr}} {
		if n != 0 {
			break
		}
		if a, err := findAttr(src.attrs, src.name); err == nil {
			n = max(intAttr(a), 0)
		}
	}
	switch {
	case n == VarLen || v.group.ds.strings == StringsVarLen || n == 0 && !v.group.ds.FixedStrings():
		v.meta.DType = dtype.Type{Kind: dtype.String}
		v.addObjectCodec()
		return nil
	case n == 0:
		n = defaultMaxStrLen
	case n == 1 && v.meta.Layout.ByteIsChar():
		n = 2 // a string of one byte would be a char
	}
	if n < 1 || n > dtype.MaxSize {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "invalid string length %d", n)
	}
	v.meta.MaxStrLen = n
	v.meta.DType = dtype.Type{Kind: dtype.Bytes, Size: n}
	return nil
}

// defineChunks sets the shape and the chunk shape.
func (v *Var) defineChunks(spec *VarSpec) error {
	m := v.meta
	if len(v.dims) == 0 {
		if len(spec.Chunks) > 0 || spec.Grid != nil {
			return ncerr.Errorf(ncerr.ErrBadChunk, "", "", "a scalar cannot have a chunk shape")
		}
		m.Shape, m.Chunks = m.Layout.ScalarShape(), m.Layout.ScalarShape()
		m.Scalar = len(m.Shape) > 0
		return nil
	}
	m.Shape = make([]int64, len(v.dims))
	unlimited := make([]bool, len(v.dims))
	for i, d := range v.dims {
		m.Shape[i], unlimited[i] = d.Len(), d.unlimited
	}
	switch {
	case spec.Storage == "contiguous" || spec.Storage == "compact":
		if slices.Contains(unlimited, true) {
			return ncerr.Errorf(ncerr.ErrInvalid, "", "", "%s storage does not allow unlimited dimensions", spec.Storage)
		}
		for _, n := range m.Shape {
			m.Chunks = append(m.Chunks, max(1, n))
		}
	case spec.Grid != nil:
		if err := v.defineGrid(spec.Grid); err != nil {
			return err
		}
	case spec.Chunks == nil:
		m.Chunks = DefaultChunks(m.Shape, unlimited, int(v.elemBytes()))
		extendToData(m.Chunks, m.Shape, unlimited, v.elemBytes())
	case len(spec.Chunks) != len(v.dims):
		return ncerr.Errorf(ncerr.ErrBadChunk, "", "", "chunk shape %v does not match %d dimensions", spec.Chunks, len(v.dims))
	default:
		m.Chunks = slices.Clone(spec.Chunks)
	}
	if !m.Layout.KeepsUnlimited() {
		for i, n := range m.Shape {
			if unlimited[i] && n > 0 && spec.Shards == nil && spec.ShardGrid == nil && m.Grid == nil { // the dimension becomes fixed, and netcdf-c 4.9.0 cannot open chunks longer than a fixed dimension
				m.Chunks[i] = min(m.Chunks[i], n)
			}
		}
	}
	if err := checkSize(m.Shape, m.DType.Size); err != nil {
		return err
	}
	if err := v.defineShards(spec); err != nil {
		return err
	}
	return v.checkChunk()
}

// defineGrid sets the chunk grid.
func (v *Var) defineGrid(g *chunk.Grid) error {
	if err := v.checkGrid(g); err != nil {
		return err
	}
	v.meta.Chunks = slices.Clone(g.Largest())
	if !g.Regular() {
		v.meta.Grid = g
	}
	return nil
}

// checkGrid fails if a grid does not fit the shape or the layout.
func (v *Var) checkGrid(g *chunk.Grid) error {
	m := v.meta
	switch {
	case g.Rank() != len(m.Shape):
		return ncerr.Errorf(ncerr.ErrBadChunk, "", "", "the chunk grid has %d dimensions instead of %d", g.Rank(), len(m.Shape))
	case !g.Regular() && !m.Layout.HasRectilinear():
		return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "only pure Zarr v3 supports chunks of different shapes")
	}
	if d := g.Uncovered(m.Shape); d >= 0 {
		return ncerr.Errorf(ncerr.ErrBadChunk, "", "", "the chunk lengths of dimension %q add up to %d, but its length is %d", v.dims[d].name, g.Covered(d), m.Shape[d])
	}
	return nil
}

// defineShards checks and sets the grid of the shards. Without Shards and ShardGrid the
// variable has no shards.
func (v *Var) defineShards(spec *VarSpec) error {
	shards := chunk.Regular(spec.Shards)
	if spec.ShardGrid != nil {
		shards = *spec.ShardGrid
	} else if spec.Shards == nil {
		return nil
	}
	chunks, limit := v.meta.Chunks, v.group.ds.opts.Limits.MaxChunk
	shape := shards.Largest()
	switch {
	case !v.meta.Layout.HasShards():
		return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "only Zarr v3 can store chunks in shards")
	case v.meta.Grid != nil:
		return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "chunks in shards must have the same shape")
	case len(shape) != len(chunks):
		return ncerr.Errorf(ncerr.ErrBadChunk, "", "", "shard shape %v does not match %d dimensions", shape, len(chunks))
	}
	if _, ok := shards.Over(chunks); !ok {
		return ncerr.Errorf(ncerr.ErrBadChunk, "", "", "shard shape %s is not a multiple of chunk shape %v", zarr.ShownGrid(shards), chunks)
	}
	if n := v.shardBytes(shape); n > limit {
		return ncerr.Errorf(ncerr.ErrLimit, "", "", "a shard of shape %v has %d bytes, but the limit is %d", shape, n, limit)
	}
	if err := v.checkGrid(&shards); err != nil {
		return err
	}
	s := zarr.Shard{Shape: slices.Clone(shape), Checksum: true}
	if !shards.Regular() {
		s.Grid = &shards
	}
	v.meta.Shards = []zarr.Shard{s}
	return nil
}

// shardBytes returns the size in bytes of a shard of the given shape before encoding,
// without the index. It is an estimate for elements of variable length.
func (v *Var) shardBytes(shape []int64) int64 {
	n, size := chunk.Product(shape), max(1, v.elemBytes())
	if n > math.MaxInt64/size {
		return math.MaxInt64
	}
	return n * size
}

// checkChunk fails if a chunk exceeds the limits on bytes or elements, or if the index
// of a shard is too large.
func (v *Var) checkChunk() error {
	chunks, limits := v.meta.Chunks, &v.group.ds.opts.Limits
	t, _ := v.stored()
	size := t.Size
	if !t.Fixed() {
		size = 4 // the size of the offset of an element, see codec/driver.Values
	}
	if _, err := chunk.Bytes(chunks, size, limits.MaxChunk); err != nil {
		return err
	}
	for i, s := range v.meta.Shards {
		grid, _ := v.meta.ShardGrid(i) // ok is true, because the array was parsed or defined
		if n, most := indexOf(s).IndexSize(grid.Largest()), min(limits.MaxChunk, maxIndex); n > most {
			return ncerr.Errorf(ncerr.ErrLimit, "", "", "the index of a shard of shape %v has %d bytes, but the limit is %d", s.Shape, n, most)
		}
	}
	if n := chunk.Product(chunks); n > limits.MaxElements {
		return ncerr.Errorf(ncerr.ErrLimit, "", "", "a chunk of shape %v has %d elements, but the limit is %d", chunks, n, limits.MaxElements)
	}
	return nil
}

// checkSize fails for arrays that no reader can open. The size in bytes must fit in 63
// bits even after a dimension of length 0 has grown.
func checkSize(shape []int64, elem int) error {
	n := int64(max(elem, 1))
	for _, s := range shape {
		if s = max(s, 1); n > math.MaxInt64/s {
			return ncerr.Errorf(ncerr.ErrLimit, "", "", "an array of shape %v with elements of %d bytes is larger than %d bytes", shape, elem, int64(math.MaxInt64))
		}
		n *= s
	}
	return nil
}

// defineFill sets the fill value. The attribute _FillValue takes precedence over spec; if
// neither specifies a fill value, netCDF's default is used.
func (v *Var) defineFill(spec *VarSpec) error {
	value := spec.Fill
	if a, err := findAttr(v.attrs, fillAttr); err == nil && spec.absent != nil && spec.DType == v.meta.DType {
		v.meta.Fill, v.meta.HasFill = slices.Clone(spec.absent), true
		return nil
	} else if err == nil {
		value = a.Value
	} else if spec.NoFill {
		if v.meta.HasFill = v.meta.Layout.NeedsFill(); v.meta.HasFill {
			v.meta.Fill = make([]byte, v.meta.DType.Size)
		}
		return nil
	}
	if value == nil {
		value = dtype.DefaultFill(v.nc)
	}
	fill, err := dtype.FillBytes(v.meta.DType, value)
	if err != nil {
		return ncerr.Errorf(ncerr.KindOf(err), "", "", "fill value: %w", err)
	}
	v.meta.Fill, v.meta.HasFill = v.meta.Layout.StoredFill(v.meta.DType, fill), true
	if !bytes.Equal(v.meta.Fill, fill) {
		v.group.ds.log.Warn("the fill value is a NaN whose sign or payload Zarr v2 cannot store", "path", v.Path(), "bytes", fmt.Sprintf("%x", fill))
	}
	return nil
}
