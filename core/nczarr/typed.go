package nczarr

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// Element is a Go type that values can be read into and written from.
type Element interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64 | string
}

// maxMemory is what no machine has, in bytes: Go's own limit, beyond which
// make panics.
const maxMemory = 1 << 47

// Get reads a slab into a new slice. See [Var.Read].
func Get[T Element](ctx context.Context, v *Var, sel chunk.Selection) ([]T, error) {
	if err := sel.Check(v.Shape()); err != nil {
		return nil, ncerr.Wrap("read", v.Path(), err)
	}
	if n := sel.Len(); n > maxMemory/int64(unsafe.Sizeof(*new(T))) {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "read", v.Path(), "%d elements fit into no memory", n)
	}
	out := make([]T, sel.Len())
	if raw, _, ok := dtype.View(out); ok {
		preferHugePages(raw)
	}
	if err := v.Read(ctx, sel, out); err != nil {
		return nil, err
	}
	return out, nil
}

// NewSlice makes a slice of n zero values of v's own Go type: []int8 for
// byte, []uint8 for ubyte and char, ... []string for string.
func (v *Var) NewSlice(n int64) any { return dtype.MakeSlice(v.nc, int(n)) }

// convertBytes is the amount of stored data that is converted at once when
// the caller's type is not the stored one.
const convertBytes = 4 << 20

// Read reads the slab sel into dst, a slice with exactly sel.Len() elements
// in C order: []int8, []uint8, ... []float64 for numbers of any type, []uint8
// for char, []string for string. Numbers are converted to dst's type; one
// that dst cannot hold is ncerr.ErrConvert. Missing chunks read as the fill
// value.
//
// Errors: ncerr.ErrRange outside the shape, ncerr.ErrBadType for text against
// numbers, ncerr.ErrNoFilter for a codec that is not there, ncerr.ErrCorrupt
// for a damaged chunk, ncerr.ErrLimit for strings of variable length that have
// more than Limits.MaxChunk bytes (see [Var.ReadParts]), and those of the store. After an error the content of
// dst is undefined.
//
// Source: netCDF C interface, nc_get_vars.
func (v *Var) Read(ctx context.Context, sel chunk.Selection, dst any) error {
	return v.read(ctx, sel, dst, nil)
}

// ReadParts reads the slab sel into new slices and calls f with them: with all
// of it, or, where strings of variable length have more bytes than one read may
// bring, with one part after the other, in C order. Errors are those of [Var.Read],
// and those of f, which end it.
func (v *Var) ReadParts(ctx context.Context, sel chunk.Selection, f func(part chunk.Selection, values any) error) error {
	values := v.NewSlice(sel.Len())
	err := v.Read(ctx, sel, values)
	if err == nil {
		return f(sel, values)
	}
	return v.halves(sel, err, func(half chunk.Selection) error { return v.ReadParts(ctx, half, f) })
}

// halves calls f with both halves of a slab that has too much text to be read
// at once, and gives the error of reading it otherwise.
func (v *Var) halves(sel chunk.Selection, err error, f func(chunk.Selection) error) error {
	var much *array.TooMuchText
	d := slices.IndexFunc(sel.Count, func(n int64) bool { return n > 1 })
	if d < 0 || !errors.As(err, &much) {
		return err
	}
	a, b := sel, sel
	a.Count, b.Count, b.Start = slices.Clone(sel.Count), slices.Clone(sel.Count), slices.Clone(sel.Start)
	a.Count[d] /= 2
	b.Count[d] -= a.Count[d]
	step := int64(1)
	if sel.Stride != nil {
		step = sel.Stride[d]
	}
	b.Start[d] += a.Count[d] * step
	if err := f(a); err != nil {
		return err
	}
	return f(b)
}

// read is Read. *found, when found is not nil and dst takes the values as they
// are stored, becomes which chunks there are.
func (v *Var) read(ctx context.Context, sel chunk.Selection, dst any, found *[]bool) error {
	shape := v.Shape()
	if err := v.checkSlab(sel, shape, dst); err != nil {
		return ncerr.Wrap("read", v.Path(), err)
	}
	if dtype.Len(dst) == 0 {
		return v.Available(ctx)
	}
	if v.varies() {
		text, _ := dst.([]string)
		return v.readRaw(ctx, sel, array.Slab{Text: text}, found)
	}
	if raw, t, ok := dtype.View(dst); ok && t.WithOrder(v.meta.DType.Order) == v.asNumber() {
		return v.readRaw(ctx, sel, array.Slab{Raw: raw}, found)
	}
	stored := v.meta.DType.WithOrder(dtype.Native)
	return v.pieces(sel, func(part chunk.Selection, from, n int64) error {
		raw := make([]byte, n*int64(stored.Size))
		if err := v.readRaw(ctx, part, array.Slab{Raw: raw}, nil); err != nil {
			return err
		}
		return ncerr.Wrap("read", v.Path(), dtype.Decode(dtype.Slice(dst, int(from), int(from+n)), raw, stored))
	})
}

// asNumber gives the element type as plain numbers where the bytes are the
// same: char is ubyte, datetimes are int64. Not all bytes are bools.
func (v *Var) asNumber() dtype.Type {
	t := v.meta.DType
	switch t.Kind {
	case dtype.Char:
		return dtype.Type{Kind: dtype.Uint, Size: 1}
	case dtype.Datetime, dtype.Timedelta:
		return dtype.Type{Kind: dtype.Int, Size: 8, Order: t.Order}
	}
	return t
}

// checkSlab checks a selection and the slice that goes with it.
func (v *Var) checkSlab(sel chunk.Selection, shape []int64, slice any) error {
	if err := sel.Check(shape); err != nil {
		return err
	}
	nc, ok := dtype.TypeOf(slice)
	if !ok {
		return ncerr.Errorf(ncerr.ErrBadType, "", "", "%T is not a slice of a netCDF type", slice)
	}
	text := v.nc == dtype.NCString
	if text != (nc == dtype.NCString) || v.nc == dtype.NCChar && nc != dtype.NCUByte {
		return ncerr.Errorf(ncerr.ErrBadType, "", "", "a variable of type %s and %T", v.nc, slice)
	}
	if n := int64(dtype.Len(slice)); n != sel.Len() {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "the slice has %d elements, the selection %d", n, sel.Len())
	}
	return nil
}

// pieces cuts a selection into parts that are runs of the slab and have at
// most convertBytes of stored data (one index of the first dimension at
// least), and calls f with each, its first element and its length.
func (v *Var) pieces(sel chunk.Selection, f func(part chunk.Selection, from, n int64) error) error {
	total := sel.Len()
	elem := int64(v.meta.DType.Size)
	if len(sel.Count) == 0 || total*elem <= convertBytes {
		return f(sel, 0, total)
	}
	row := total / sel.Count[0]
	rows := max(1, convertBytes/(row*elem))
	if step := v.meta.Chunks[0]; rows > step { // whole chunks: none is decoded twice
		rows -= rows % step
	}
	for at := int64(0); at < sel.Count[0]; at += rows {
		n := min(rows, sel.Count[0]-at)
		part := chunk.Selection{Start: append([]int64(nil), sel.Start...), Count: append([]int64(nil), sel.Count...), Stride: sel.Stride}
		step := int64(1)
		if sel.Stride != nil {
			step = sel.Stride[0]
		}
		part.Start[0] += at * step
		part.Count[0] = n
		if err := f(part, at*row, n*row); err != nil {
			return err
		}
	}
	return nil
}

// Write writes src, a slice as in [Var.Read], to the slab sel. A selection
// may reach past the end of unlimited dimensions, which grow. Numbers are
// converted to the variable's type; a value that it cannot hold, and a string
// longer than MaxStrLen, are ncerr.ErrConvert, and then nothing is written.
// Values of a quantized variable are rounded first (see [VarSpec]).
//
// Chunks that are only partly covered are read, changed and written back. The
// data is in the store when Write returns, or after Flush where the store is
// durable only then; the new shape is, after Flush.
//
// Errors: those of Read, ncerr.ErrReadOnly, and ncerr.ErrAmbiguous when it is
// unknown whether a chunk was written.
//
// Source: netCDF C interface, nc_put_vars.
func (v *Var) Write(ctx context.Context, sel chunk.Selection, src any) error {
	return v.write(ctx, sel, src, v.Quantization(), nil)
}

// write is Write with the rounding to be done, and the chunks to be written
// (nil: all).
func (v *Var) write(ctx context.Context, sel chunk.Selection, src any, q dtype.Quantization, only []bool) error {
	ds := v.group.ds
	if !ds.Writable() {
		return ncerr.New(ncerr.ErrReadOnly, "write", v.Path(), nil)
	}
	if err := v.alterable("write"); err != nil {
		return err
	}
	if len(v.meta.Shards) > 0 {
		return ncerr.Errorf(ncerr.ErrUnsupported, "write", v.Path(), "the chunks of the array are in shards, which are only read by this version")
	}
	if _, err := manifest.AsWriter(v.source()); err != nil { // before anything of it is in the store
		return ncerr.Wrap("write", v.Path(), err)
	}
	shape, err := v.grown(sel)
	if err == nil {
		err = v.checkSlab(sel, shape, src)
	}
	if err == nil {
		err = v.checkGrowth(shape)
	}
	if err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	if sel.Len() == 0 {
		return v.Available(ctx)
	}
	from, err := v.encode(src, q)
	if err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	if err := v.settle(ctx); err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	if slices.Equal(shape, v.Shape()) {
		return v.writeRaw(ctx, sel, shape, from, only)
	}
	end, err := ds.beginGrowth(ctx, v)
	if err != nil {
		return ncerr.Wrap("grow", v.Path(), err)
	}
	v.claim(shape)
	if err = v.writeRaw(ctx, sel, shape, from, only); err == nil {
		v.setGrown(shape)
	}
	end(err)
	return err
}

// encode gives src, rounded as q says, as it is stored: src's own memory where
// it is the same.
func (v *Var) encode(src any, q dtype.Quantization) (array.Slab, error) {
	t := v.meta.DType
	if text, ok := src.([]string); ok && v.varies() {
		return array.Slab{Text: text}, v.checkText(text)
	}
	if q.Mode != dtype.QuantizeNone {
		var err error
		if src, err = v.quantized(src, q); err != nil {
			return array.Slab{}, err
		}
	}
	if raw, st, ok := dtype.View(src); ok && st.WithOrder(t.Order) == v.asNumber() && (t.Order == dtype.Native || t.Width() == 1) {
		return array.Slab{Raw: raw}, nil
	}
	raw := make([]byte, dtype.Len(src)*t.Size)
	return array.Slab{Raw: raw}, dtype.Encode(raw, t, src)
}

// grown gives the shape that v has after a write of sel: unlimited dimensions
// may be longer than now.
func (v *Var) grown(sel chunk.Selection) ([]int64, error) {
	shape := v.Shape()
	if len(sel.Start) != len(shape) || len(sel.Count) != len(shape) || sel.Stride != nil && len(sel.Stride) != len(shape) {
		return shape, nil // Check will say what is wrong
	}
	for i, d := range v.dims {
		if d.unlimited && sel.Count[i] > 0 && sel.Start[i] >= 0 {
			last := sel.Last(i)
			if last < 0 || last >= maxDim {
				return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "dimension %q cannot grow to index %d", d.Path(), last)
			}
			shape[i] = max(shape[i], last+1)
		}
	}
	return shape, nil
}

// maxDim is the ceiling on the length of a dimension.
const maxDim = int64(1) << 56

// checkGrowth refuses a write that would make v, or another variable with one
// of its dimensions, larger than arrays can be, or its keys longer than the
// store takes.
func (v *Var) checkGrowth(shape []int64) error {
	if slices.Equal(shape, v.Shape()) {
		return nil
	}
	ds := v.group.ds
	ds.mu.RLock()
	defer ds.mu.RUnlock()
	var err error
	ds.top.each(func(g *Group) {
		for _, other := range g.vars.list {
			lengths, grows := other.shape(), false
			for i, d := range other.dims {
				if k := slices.Index(v.dims, d); k >= 0 && shape[k] > lengths[i] {
					lengths[i], grows = shape[k], true
				}
			}
			if err == nil {
				err = ncerr.Wrap("grow", other.Path(), checkSize(lengths, other.meta.DType.Size))
			}
			if err == nil && grows {
				err = other.keysFit("grow", lengths)
			}
		}
	})
	return err
}

// claim makes other writes know that elements up to shape are being written.
// The claim stays when the write fails: then they only read more than needed.
func (v *Var) claim(shape []int64) {
	for i, d := range v.dims {
		for {
			old := d.reach.Load()
			if shape[i] <= old || d.reach.CompareAndSwap(old, shape[i]) {
				break
			}
		}
	}
}

// setGrown records the lengths that a write has brought about.
func (v *Var) setGrown(shape []int64) {
	ds := v.group.ds
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for i, d := range v.dims {
		if shape[i] > d.len {
			d.len = shape[i]
			d.group.changes.add()
			ds.touchUsers(d)
		}
	}
}

// touchUsers marks all variables that have dimension d for being written
// again: their shape has changed.
func (d *Dataset) touchUsers(dim *Dim) {
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			if slices.Contains(v.dims, dim) && v.in == nil {
				v.changes.add()
			}
		}
	})
}

// decodeFill gives a fill value as a slice of one value.
func decodeFill(meta *zarr.Array, nc dtype.NC) (any, error) {
	if nc == dtype.NCChar {
		return string(meta.Fill), nil
	}
	if !meta.DType.Fixed() {
		return []string{string(meta.Fill)}, nil
	}
	out := dtype.MakeSlice(nc, 1)
	return out, dtype.Decode(out, meta.Fill, meta.DType)
}
