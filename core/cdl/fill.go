package cdl

import (
	"context"
	"slices"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// batchLen is the number of constants converted at a time.
const batchLen = 2048

// maxRow is the maximum size in bytes of a slab of a variable in shards. It is more than
// MaxSlab, because a shard that a slab covers in part is read and stored again.
const maxRow = 64 << 20

// fill writes the data of a variable.
func (b *builder) fill(v *Var, to *dataset.Var, spec *dataset.VarSpec) error {
	if !v.HasData {
		return nil
	}
	w := &filler{builder: b, v: v, to: to, shape: to.Shape(), starts: blocks(v), whole: spec.NoFill || to.AbsentMisreadByNetCDF()}
	if w.whole {
		if err := to.CheckSize(); err != nil {
			return b.at(v.DataPos, err)
		}
	}
	if w.fill = shownFill(to); w.fill == nil && v.Type != dtype.NCChar {
		w.fill = dtype.DefaultFill(v.Type)
	}
	if v.Type == dtype.NCChar {
		w.fill = []uint8{charFill(v)}
		stored, _ := to.Fill()
		w.absent = !w.whole && (stored == string(charFill(v)) || stored == nil && charFill(v) == 0)
	}
	w.most = SlabSize(b.ds)
	if to.Shards() != nil {
		w.most = max(w.most, min(maxRow, b.ds.Budget().ForCalls()/4))
	}
	var done func()
	var err error
	if w.ctx, done, err = to.Reserve(b.ctx, w.most); err != nil {
		return b.at(v.DataPos, err)
	}
	defer done()
	return b.file.walk(v, w)
}

// filler is the dataSink that writes the data of one variable. It writes each list of
// the last block in slabs, in row-major order.
type filler struct {
	*builder
	ctx    context.Context //nolint:containedctx // the context has the lifetime of fill
	most   int64           // maximum number of bytes of a slab
	v      *Var
	to     *dataset.Var
	shape  []int64
	starts []int
	fill   any
	absent bool // absent chunks are read as the padding of strings
	whole  bool // write missing elements, because this package or netcdf-c does not read absent chunks as the fill value

	prefix []int64 // index in the dimensions before the last block
	tail   []int64 // shape of the last block
	slabs  *chunk.Slabs
	dst    any   // memory for a slab
	size   int64 // elements of the current slab; 0 if there is no slab
	have   int64 // elements of the slab that are set
	need   int64 // elements of the slab up to the last one that differs from an absent chunk
	full   bool  // all slabs are complete
	n      int64 // number of values in the list
	excess Pos   // position of the first value beyond the shape
	batch  []Value
	chars  packer
}

// begin prepares for writing a list. It checks the shape before the list is read.
func (w *filler) begin(outer []int64, pos Pos) error {
	w.prefix = w.prefix[:0]
	for i, item := range outer {
		dims := w.shape[w.starts[i]:w.starts[i+1]]
		if n := chunk.Product(dims); item >= n {
			return w.fail(ncerr.ErrRange, pos, "%d lists for %q exceed its length of %d", item+1, w.v.Name, n)
		}
		index := make([]int64, len(dims))
		for d := len(dims) - 1; d >= 0; d-- {
			index[d], item = item%dims[d], item/dims[d]
		}
		w.prefix = append(w.prefix, index...)
	}
	w.tail = w.shape[len(w.prefix):]
	w.slabs = w.newSlabs()
	w.size, w.have, w.need, w.full, w.n, w.excess = 0, 0, 0, false, 0, Pos{}
	if w.v.Type == dtype.NCChar {
		w.chars = w.packerFor(w.v, w.putFill, w.putText)
	}
	return nil
}

// newSlabs divides the list into slabs. If a row of shards has at most w.most bytes, the
// slabs consist of whole rows, so that each shard is stored once.
func (w *filler) newSlabs() *chunk.Slabs {
	size := ElementSize(w.to)
	edges, most := w.to.Chunks(), max(1, min(MaxSlab, w.most)/size)
	if shards := w.to.Shards(); shards != nil {
		tail := shards[len(w.prefix):]
		row := int64(1) // elements of a row of shards
		for d := len(w.tail) - 1; d >= 0; d-- {
			if k := min(tail[d], w.tail[d]); k > 1 {
				row = chunk.Product(append([]int64{k}, w.tail[d+1:]...))
			}
		}
		if row <= w.most/size {
			edges = shards
		}
		most = max(most, min(row, w.most/size))
	}
	return chunk.NewSlabs(w.tail, edges[min(len(w.prefix), len(edges)):], most)
}

func (w *filler) value(v *Value) error {
	if w.v.Type == dtype.NCChar {
		if w.n <= chunk.Product(w.tail) { // otherwise an earlier constant exceeds the shape
			w.excess = v.Pos
		}
		return w.chars.add(v)
	}
	if w.batch == nil {
		w.batch = make([]Value, 0, batchLen)
	}
	if w.batch = append(w.batch, *v); len(w.batch) == batchLen {
		return w.flush()
	}
	return nil
}

// flush converts the pending constants.
func (w *filler) flush() error {
	items := w.batch
	w.batch = w.batch[:0]
	for len(items) > 0 {
		room, err := w.room()
		if err != nil {
			return err
		}
		n := min(room, int64(len(items)))
		if n == 0 { // values beyond the shape are only counted
			if w.excess == (Pos{}) {
				w.excess = items[0].Pos
			}
			w.n += int64(len(items))
			return nil
		}
		part := dtype.Slice(w.dst, int(w.have), int(w.have+n))
		if err := w.into(part, items[:n], w.fill); err != nil {
			return err
		}
		if err := w.checkStrings(part, items); err != nil {
			return err
		}
		w.have, w.n, items = w.have+n, w.n+n, items[n:]
		w.need = w.have
	}
	return nil
}

// putText adds bytes of a char variable.
func (w *filler) putText(text []byte) error {
	for len(text) > 0 {
		room, err := w.room()
		if err != nil {
			return err
		}
		if room == 0 {
			w.n += int64(len(text))
			return nil
		}
		n := copy(w.dst.([]uint8)[w.have:w.size], text) //nolint:forcetypeassert // the value is always []uint8
		w.have, w.n, text = w.have+int64(n), w.n+int64(n), text[n:]
		w.need = w.have
	}
	return nil
}

// putFill adds n fill bytes of a char variable. Slabs and chunks that contain only fill
// bytes are not written if absent chunks are read as the same bytes.
func (w *filler) putFill(fill []byte, n int64) error {
	for n > 0 {
		room, err := w.room()
		if err != nil {
			return err
		}
		if room == 0 {
			w.n += n
			return nil
		}
		if w.absent && w.have == 0 {
			skipped := w.slabs.Skip(n)
			w.n, n = w.n+skipped, n-skipped
			w.size = w.slabs.Sel.Len()
			room = w.size
		}
		part := min(n, room)
		spreadOf(w.dst.([]uint8)[w.have:w.have+part], fill) //nolint:forcetypeassert // the value is always []uint8
		w.have, w.n, n = w.have+part, w.n+part, n-part
		if !w.absent {
			w.need = w.have
		}
	}
	return nil
}

// room returns the number of unset elements in the current slab. If all are set, it
// writes the slab and moves to the next. It returns 0 after the last slab.
func (w *filler) room() (int64, error) {
	if w.have < w.size {
		return w.size - w.have, nil
	}
	if err := w.write(); err != nil {
		return 0, err
	}
	if w.full = w.full || !w.slabs.Next(); w.full {
		return 0, nil
	}
	w.size, w.have, w.need = w.slabs.Sel.Len(), 0, 0
	if int64(dtype.Len(w.dst)) < w.size {
		w.dst = w.to.NewSlice(w.size)
	}
	return w.size, nil
}

// write writes the current slab, or only those of its chunks in which elements have
// been set. Elements that are not set are written as the fill value.
func (w *filler) write() error {
	if w.size == 0 {
		return nil
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	count := w.slabs.Sel.Count
	if !w.whole {
		if w.need == 0 {
			w.size, w.have = 0, 0
			return nil
		}
		count = w.slabs.UpTo(w.need)
	}
	dst := dtype.Slice(w.dst, 0, int(chunk.Product(count)))
	spread(dst, int(w.need), w.fill)
	if err := w.checkStrings(dtype.Slice(dst, int(w.need), dtype.Len(dst)), nil); err != nil {
		return err
	}
	at := chunk.Selection{Start: append(slices.Clone(w.prefix), w.slabs.Sel.Start...)}
	for range w.prefix {
		at.Count = append(at.Count, 1)
	}
	at.Count = append(at.Count, count...)
	w.size, w.have, w.need = 0, 0, 0
	return w.at(w.v.DataPos, w.to.Write(w.ctx, at, dst))
}

// end writes the remaining elements of a list.
func (w *filler) end() error {
	if w.v.Type == dtype.NCChar {
		if err := w.chars.end(); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	if room := chunk.Product(w.tail); w.n > room {
		return w.fail(ncerr.ErrRange, w.excess, "%d values for %q exceed its size of %d", w.n, w.v.Name, room)
	}
	if err := w.write(); err != nil || !w.whole {
		return err
	}
	for {
		room, err := w.room()
		if err != nil || room == 0 {
			return err
		}
		if err := w.write(); err != nil {
			return err
		}
	}
}

func (w *filler) list(int, int64) {}

// checkStrings rejects strings that exceed the fixed size of the variable, or truncates
// them at a character boundary if w.cut is set. part holds the constants from which the
// strings were converted.
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
			return w.fail(ncerr.ErrConvert, pos, "the string has %d bytes, but the string size of %q is %d bytes", len(list[i]), w.v.Name, most)
		}
		end := most
		for end > 0 && !utf8.RuneStart(list[i][end]) {
			end--
		}
		list[i] = list[i][:end]
	}
	return nil
}

// spread sets the elements of dst after the first n to fill.
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
