package dataset

import (
	"cmp"
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

// maxMemory is a size in bytes that exceeds the memory of any machine. Go's make panics
// for larger sizes.
const maxMemory = 1 << 47

// Get reads a slab into a new slice. See [Var.Read].
func Get[T Element](ctx context.Context, v *Var, sel chunk.Selection) ([]T, error) {
	out, err := Allocate[T](v, sel)
	if err != nil {
		return nil, err
	}
	if err := v.Read(ctx, sel, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Allocate returns a slice with one T per element of sel, to read into. It checks sel
// against the shape of v. The error is ncerr.ErrLimit if the slice would exceed
// Limits.MaxData: absent chunks read as the fill value, so a small document can declare a
// huge variable.
func Allocate[T any](v *Var, sel chunk.Selection) ([]T, error) {
	if err := sel.Check(v.Shape()); err != nil {
		return nil, ncerr.Wrap("read", v.Path(), err)
	}
	n, size, most := sel.Len(), int64(unsafe.Sizeof(*new(T))), v.group.ds.opts.Limits.MaxData
	if n > min(most, maxMemory)/size {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "read", v.Path(), "%d values of %d bytes exceed the limit of %d bytes (Limits.MaxData): read a smaller part", n, size, min(most, maxMemory))
	}
	return make([]T, n), nil
}

// NewSlice returns a slice of n zero values of v's own Go type: []int8 for byte,
// []uint8 for ubyte and char, and so on up to []string for string.
func (v *Var) NewSlice(n int64) any { return dtype.MakeSlice(v.nc, int(n)) }

// convertBytes is the amount of stored data that is converted at a time if the caller's
// type differs from the stored one.
const convertBytes = 4 << 20

// Read reads the slab sel into dst, a slice with exactly sel.Len() elements in C order:
// []int8, []uint8, ... []float64 for numbers of any type, []uint8 for char, []string
// for string. Numbers are converted to dst's type; a number that dst cannot represent
// causes ncerr.ErrConvert. Missing chunks read as the fill value. On Linux, Read advises
// the system to use huge pages for a dst of at least 4 MiB.
//
// Errors: ncerr.ErrRange outside the shape, ncerr.ErrBadType for a mismatch of text and
// numbers, ncerr.ErrNoFilter for a missing codec, ncerr.ErrCorrupt for a damaged chunk,
// ncerr.ErrLimit for strings of variable length with more than Limits.MaxChunk bytes in
// total (see [Var.ReadParts]), and those of the store. After an error the content of
// dst is undefined.
//
// Source: netCDF C interface, nc_get_vars.
func (v *Var) Read(ctx context.Context, sel chunk.Selection, dst any) error {
	return v.read(ctx, sel, dst, nil)
}

// ReadParts reads the slab sel into new slices and calls f with them. It calls f once
// with the whole slab or, if strings of variable length exceed the size of one read,
// with one part after the other, in C order. Errors are those of [Var.Read] and those
// of f, which end the read.
func (v *Var) ReadParts(ctx context.Context, sel chunk.Selection, f func(part chunk.Selection, values any) error) error {
	values := v.NewSlice(sel.Len())
	err := v.Read(ctx, sel, values)
	if err == nil {
		return f(sel, values)
	}
	return v.splitRead(sel, err, func(half chunk.Selection) error { return v.ReadParts(ctx, half, f) })
}

// splitRead calls f with each half of a slab if err means that the slab has too much text
// for one read. Otherwise it returns err.
func (v *Var) splitRead(sel chunk.Selection, err error, f func(chunk.Selection) error) error {
	var much *array.TextLimitError
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

// read implements Read. If found is not nil and dst has the stored type, read sets
// *found to report which chunks exist.
func (v *Var) read(ctx context.Context, sel chunk.Selection, dst any, found *[]bool) error {
	shape := v.Shape()
	if err := v.checkSlab(sel, shape, dst); err != nil {
		return ncerr.Wrap("read", v.Path(), err)
	}
	if dtype.Len(dst) == 0 {
		return v.Available(ctx)
	}
	if v.isVariableLength() {
		text, _ := dst.([]string)
		return v.readRaw(ctx, sel, array.Slab{Text: text}, found)
	}
	raw, t, ok := dtype.View(dst)
	if ok {
		preferHugePages(raw)
	}
	if ok && t.WithOrder(v.meta.DType.Order) == v.asNumber() {
		return v.readRaw(ctx, sel, array.Slab{Raw: raw}, found)
	}
	stored := v.meta.DType.WithOrder(dtype.Native)
	return v.pieces(sel, func(part chunk.Selection, from, n int64) error {
		inner, done, err := v.reserve(ctx, n*int64(stored.Size), 0)
		if err != nil {
			return err
		}
		defer done()
		raw := make([]byte, n*int64(stored.Size))
		if err := v.readRaw(inner, part, array.Slab{Raw: raw}, nil); err != nil {
			return err
		}
		return ncerr.Wrap("read", v.Path(), dtype.Decode(dtype.Slice(dst, int(from), int(from+n)), raw, stored))
	})
}

// asNumber returns the element type as a plain number type if the bytes are the same:
// char is ubyte, and datetimes are int64. It returns bool unchanged, because not all
// bytes are valid bools.
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

// checkSlab checks a selection and its slice.
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
		return ncerr.Errorf(ncerr.ErrBadType, "", "", "a variable of type %s cannot be read into or written from %T", v.nc, slice)
	}
	if n := int64(dtype.Len(slice)); n != sel.Len() {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "the slice has %d elements, but the selection has %d", n, sel.Len())
	}
	return nil
}

// pieces divides a selection along the first dimension into parts with at most
// convertBytes of stored data each, or with one index of that dimension if a single index
// has more data. It calls f with each part, the index of the first element of the part in
// the slab, and the number of elements of the part.
func (v *Var) pieces(sel chunk.Selection, f func(part chunk.Selection, from, n int64) error) error {
	total := sel.Len()
	elem := int64(v.meta.DType.Size)
	if len(sel.Count) == 0 || total*elem <= convertBytes {
		return f(sel, 0, total)
	}
	row := total / sel.Count[0]
	rows := max(1, convertBytes/(row*elem))
	if step := v.meta.Chunks[0]; rows > step { // use whole chunks, so that no chunk is decoded twice
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

// Write writes src, a slice as for [Var.Read], to the slab sel. A selection may extend
// past the end of unlimited dimensions, which then grow. Numbers are converted to the
// variable's type. A value that the type cannot represent, or a string longer than
// MaxStrLen, causes ncerr.ErrConvert, and nothing is written. Values of a quantized
// variable are rounded first (see [VarSpec]).
//
// Write stores the chunks that sel covers completely. It keeps partial writes of other
// chunks in memory, up to Options.WriteBuffer bytes in total, so that a chunk that is
// written row by row is encoded and stored once. Such a chunk is stored when it is
// complete, when memory is needed for another, before it is read, and by Flush and
// Close. If it is not complete then, it is read, changed and written back. Other
// processes see the values, and new lengths, after Flush. Parts that exceed the memory
// are stored immediately, and so are parts of shards, of chunks of strings of variable
// length, and of chunks with codecs that convert elements.
//
// If Write fails, none of its values stay in memory, but some may be in the store. If a
// chunk that is in memory cannot be stored, it stays there. The next read of the chunk,
// or the next Flush, tries again, and returns an error with the chunk's key if it
// fails. Abort discards the values in memory.
//
// Errors: those of Read, ncerr.ErrReadOnly, and ncerr.ErrAmbiguous if it is unknown
// whether a chunk was written.
//
// Source: netCDF C interface, nc_put_vars.
func (v *Var) Write(ctx context.Context, sel chunk.Selection, src any) error {
	return v.write(ctx, sel, src, v.Quantization(), func(ctx context.Context, a *array.Array, sel chunk.Selection, shape []int64, from array.Slab) error {
		return a.Write(ctx, sel, shape, from)
	})
}

// writeFunc writes values, in their stored form, to an array: see [array.Array.Write].
type writeFunc func(ctx context.Context, a *array.Array, sel chunk.Selection, shape []int64, from array.Slab) error

// write implements Write. q is the rounding to apply.
func (v *Var) write(ctx context.Context, sel chunk.Selection, src any, q dtype.Quantization, f writeFunc) error {
	ds := v.group.ds
	if err := v.checkWritable(); err != nil {
		return err
	}
	shape, err := v.grownShape(sel)
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
	if n := v.encodedBytes(src, q); n > 0 {
		inner, done, err := v.reserve(ctx, n, 0)
		if err != nil {
			return err
		}
		defer done()
		ctx = inner
	}
	from, err := v.encode(src, q)
	if err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	if err := v.clearBeyond(ctx); err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	if slices.Equal(shape, v.Shape()) {
		return v.writeRaw(ctx, sel, shape, from, f)
	}
	end, err := ds.beginGrowth(ctx, v, shape)
	if err != nil {
		return ncerr.Wrap("grow", v.Path(), err)
	}
	v.raiseReach(shape)
	if err = v.writeRaw(ctx, sel, shape, from, f); err == nil {
		v.setGrown(shape)
	}
	end(err)
	return err
}

// checkWritable fails if the chunks of v cannot be changed. Call it before anything is
// written.
func (v *Var) checkWritable() error {
	if !v.group.ds.Writable() {
		return ncerr.New(ncerr.ErrReadOnly, "write", v.Path(), nil)
	}
	if err := v.checkAlterable("write"); err != nil {
		return err
	}
	_, err := manifest.AsWriter(v.source())
	return ncerr.Wrap("write", v.Path(), err)
}

// encodedBytes returns the size in bytes of the memory that encode allocates for src.
func (v *Var) encodedBytes(src any, q dtype.Quantization) int64 {
	if v.isVariableLength() {
		return 0
	}
	n := int64(0)
	if _, same := v.storedAs(src); !same {
		n = int64(dtype.Len(src)) * int64(v.meta.DType.Size)
	}
	if q.Mode != dtype.QuantizeNone {
		n += int64(dtype.Len(src)) * int64(v.nc.Size())
	}
	return n
}

// storedAs reports whether the stored form of src is the same as its memory. If so, raw is
// that memory.
func (v *Var) storedAs(src any) (raw []byte, ok bool) {
	t := v.meta.DType
	raw, st, ok := dtype.View(src)
	return raw, ok && st.WithOrder(t.Order) == v.asNumber() && (t.Order == dtype.Native || t.Width() == 1)
}

// encode returns src in its stored form, rounded as q specifies. It returns src's own
// memory if the stored form is the same.
func (v *Var) encode(src any, q dtype.Quantization) (array.Slab, error) {
	t := v.meta.DType
	if text, ok := src.([]string); ok && v.isVariableLength() {
		return array.Slab{Text: text}, v.checkText(text)
	}
	if q.Mode != dtype.QuantizeNone {
		var err error
		if src, err = v.quantized(src, q); err != nil {
			return array.Slab{}, err
		}
	}
	if raw, same := v.storedAs(src); same {
		return array.Slab{Raw: raw}, nil
	}
	raw := make([]byte, dtype.Len(src)*t.Size)
	return array.Slab{Raw: raw}, dtype.Encode(raw, t, src)
}

// grownShape returns the shape of v after a write of sel, in which unlimited dimensions
// may be longer than now.
func (v *Var) grownShape(sel chunk.Selection) ([]int64, error) {
	shape := v.Shape()
	if len(sel.Start) != len(shape) || len(sel.Count) != len(shape) || sel.Stride != nil && len(sel.Stride) != len(shape) {
		return shape, nil // Check returns the error
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

// maxDim is the maximum length of a dimension.
const maxDim = int64(1) << 56

// checkGrowth fails if a write would make v, or another variable that shares one of its
// dimensions, too large for an array, or its keys too long for the store.
func (v *Var) checkGrowth(shape []int64) error {
	if slices.Equal(shape, v.Shape()) {
		if v.ownShape() != nil { // the write extends the array to the lengths of its dimensions
			return v.covers(shape)
		}
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
				err = cmp.Or(other.covers(lengths), other.checkKeyLength("grow", lengths))
			}
		}
	})
	return err
}

// covers fails if the chunks listed in the metadata do not cover an array of the given
// shape.
func (v *Var) covers(shape []int64) error {
	grid := v.ObjectGrid()
	if d := grid.Uncovered(shape); d >= 0 {
		return ncerr.Errorf(ncerr.ErrRange, "grow", v.Path(), "dimension %q cannot grow to %d, because the chunk lengths of the variable add up to %d", v.dims[d].Path(), shape[d], grid.Covered(d))
	}
	return nil
}

// raiseReach records for concurrent writes that elements up to shape are being written.
// The record is not undone if the write fails; other writes then only read more than
// necessary.
func (v *Var) raiseReach(shape []int64) {
	for i, d := range v.dims {
		for {
			old := d.reach.Load()
			if shape[i] <= old || d.reach.CompareAndSwap(old, shape[i]) {
				break
			}
		}
	}
}

// setGrown records the lengths that result from a write.
func (v *Var) setGrown(shape []int64) {
	ds := v.group.ds
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for i, d := range v.dims {
		if shape[i] > d.len {
			d.len = shape[i]
			d.group.changes.add()
			ds.markDimUsers(d)
		}
	}
}

// markDimUsers marks all variables with the dimension dim as changed, because their shape
// has changed.
func (d *Dataset) markDimUsers(dim *Dim) {
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			if slices.Contains(v.dims, dim) && v.in == nil {
				v.changes.add()
			}
		}
	})
}

// decodeFill returns a fill value as a slice of one value.
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
