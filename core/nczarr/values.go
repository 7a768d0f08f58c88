package nczarr

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// VarLen as MaxStrLen of a [VarSpec] makes strings of variable length.
const VarLen = -1

// StringStorage is a way to store strings in a new dataset.
type StringStorage uint8

// The ways. With StringsAuto strings have variable length in pure Zarr, as its
// other writers make them, and fixed length in NCZarr, where netcdf-c refuses
// a dataset with others; copies within pure Zarr keep them as they are. With
// StringsFixed and StringsVarLen all have the one or the other. A fixed length
// that is not stated is 128 bytes, in copies that of the source, or of the
// longest string, for which strings of variable length are read once more.
const (
	StringsAuto StringStorage = iota
	StringsFixed
	StringsVarLen
)

// FixedStrings reports whether new variables of strings have a fixed length
// when none is stated.
func (d *Dataset) FixedStrings() bool {
	return d.strings == StringsFixed || d.strings == StringsAuto && d.layout != zarr.LayoutPure
}

// guessedString is the size in bytes that a string of variable length is taken
// for where only a guess is possible: to cut data into blocks.
const guessedString = 64

// varies reports whether elements have variable length.
func (v *Var) varies() bool { return !v.meta.DType.Fixed() }

// elemBytes is the size of an element in bytes, a guess where it varies.
func (v *Var) elemBytes() int64 {
	if v.varies() {
		return guessedString
	}
	return int64(v.meta.DType.Size)
}

// objectCodecs are the codecs that turn elements of variable length into
// bytes, the one for text first.
//
// Source: numcodecs, "Codecs for variable-length objects".
var objectCodecs = []string{"vlen-utf8", "vlen-bytes", "json2", "msgpack2", "pickle", "vlen-array", "categorize"}

// checkObject refuses arrays of objects that have no codec for them, or none
// whose objects are text or bytes.
func checkObject(path string, meta *zarr.Array) error {
	refuse := func(why string) error {
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "objects (dtype %q) %s", meta.DType, why)
	}
	if len(meta.Codecs) == 0 || !slices.Contains(objectCodecs, meta.Codecs[0].ID) {
		return refuse("without a codec that says how they are stored")
	}
	switch id := meta.Codecs[0].ID; id {
	case "vlen-array":
		return refuse("that are arrays of numbers (codec vlen-array): netCDF data in Zarr has no such type")
	case "pickle":
		return refuse("stored by the codec pickle, which runs what it reads: unsafe")
	}
	return nil
}

// fillItem fills the part of the slab that is an absent chunk's.
func (w *worker) fillItem(it *item) {
	if !w.t.varies {
		w.mover.Fill(w.t.raw, w.t.fill, it.proj)
		return
	}
	fill := w.t.fillText()
	w.mover.Each(it.proj, func(out, _ int64) { w.t.text[out] = fill })
}

// fillText gives the fill value of strings, which may be long, without a copy.
// Nobody changes it.
func (t *transfer) fillText() string { return unsafe.String(unsafe.SliceData(t.fill), len(t.fill)) }

// tooMuchText says that the strings of one read have too many bytes.
type tooMuchText struct{ most int64 }

func (e *tooMuchText) Error() string {
	return fmt.Sprintf("the strings of more than one chunk have more than %d bytes, the limit of limits.max_chunk (Limits.MaxChunk): read fewer at once", e.most)
}

// placeText takes the strings of item i out of its decoded chunk. Where the
// whole chunk is wanted they share its text; a few of them do not keep it.
func (w *worker) placeText(i int, it *item, out []byte) {
	n := int(w.t.elements)
	values, err := codecdriver.ParseValues(out, n)
	if err != nil {
		w.failItem(i, "read", err)
		return
	}
	whole, head := w.t.plan.Whole(it.proj), codecdriver.ValuesSize(n, 0)
	size := int64(len(out)) - head
	if !whole {
		size = 0
		w.mover.Each(it.proj, func(_, from int64) { size += int64(len(values.At(int(from)))) })
	}
	if w.t.held.Add(size) > w.t.size && w.t.plan.Len() > 1 {
		w.failItem(i, "read", ncerr.New(ncerr.ErrLimit, "", "", &tooMuchText{w.t.size}))
		return
	}
	if !whole {
		w.mover.Each(it.proj, func(to, from int64) { w.t.text[to] = string(values.At(int(from))) })
		return
	}
	all := string(out[head:])
	w.mover.Each(it.proj, func(to, from int64) {
		lo := offsetIn(values, int(from), out[head:])
		w.t.text[to] = all[lo : lo+len(values.At(int(from)))]
	})
}

// offsetIn gives where in data element i lies.
func offsetIn(v codecdriver.Values, i int, data []byte) int {
	e := v.At(i)
	if len(e) == 0 {
		return 0
	}
	return int(uintptr(unsafe.Pointer(&e[0])) - uintptr(unsafe.Pointer(&data[0])))
}

// writeChunkText writes chunk i of a variable of strings, under its lock.
func (w *worker) writeChunkText(ctx context.Context, i int, whole bool) error {
	it := &w.items[i]
	w.texts = slices.Grow(w.texts[:0], int(w.t.elements))[:w.t.elements]
	defer clear(w.texts)
	gather := func() { w.mover.Each(it.proj, func(out, in int64) { w.texts[in] = w.t.text[out] }) }
	if whole {
		w.fillTexts()
		gather()
		return w.putText(ctx, i, nil)
	}
	return w.change(func(opts *driver.PutOptions, caps driver.Capabilities) error {
		if err := w.readTexts(ctx, i, opts, caps); err != nil {
			return err
		}
		gather()
		return w.putText(ctx, i, opts)
	})
}

func (w *worker) fillTexts() {
	fill := w.t.fillText()
	for k := range w.texts {
		w.texts[k] = fill
	}
}

// readTexts reads chunk i into w.texts (fill where there is none), and sets
// the condition for writing it back.
func (w *worker) readTexts(ctx context.Context, i int, opts *driver.PutOptions, caps driver.Capabilities) error {
	data, found, err := w.current(ctx, i, opts, caps)
	if err != nil {
		return err
	}
	if !found {
		w.fillTexts()
		return nil
	}
	var failed error
	job := codecdriver.Job{Src: data, Limit: w.t.room}
	err = w.t.e.pipe.DecodeMany(ctx, []codecdriver.Job{job}, func(_ int, out []byte, err error) {
		if failed = err; err != nil {
			return
		}
		values, err := codecdriver.ParseValues(out, len(w.texts))
		if failed = err; err != nil {
			return
		}
		for k := range w.texts {
			w.texts[k] = string(values.At(k))
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

// putText lays w.texts out, encodes and writes them.
func (w *worker) putText(ctx context.Context, i int, opts *driver.PutOptions) error {
	size := codecdriver.ValuesSize(len(w.texts), 0)
	for _, s := range w.texts {
		size += int64(len(s))
	}
	if size > w.t.room {
		return ncerr.Errorf(ncerr.ErrLimit, "", "", "the strings of the chunk have %d bytes, the limit is %d", size, w.t.room)
	}
	it := &w.items[i]
	it.outBuf = sized(it.outBuf, size)
	values, err := codecdriver.NewValuesWriter(it.outBuf, len(w.texts))
	if err != nil {
		return err
	}
	for _, s := range w.texts {
		if err := values.AddString(s); err != nil {
			return err
		}
	}
	var failed error
	err = w.t.e.pipe.EncodeMany(ctx, []codecdriver.Job{{Src: it.outBuf}}, func(_ int, out []byte, err error) {
		if err == nil {
			_, err = w.t.v.group.ds.m.Put(ctx, w.where[i].Key, driver.Bytes(out), opts)
		}
		failed = err
	})
	if err == nil {
		err = failed
	}
	return err
}

// checkText refuses what a variable of strings of variable length cannot hold:
// text that is not UTF-8, where it has to be.
func (v *Var) checkText(src []string) error {
	if v.meta.DType.Kind != dtype.String {
		return nil
	}
	for i, s := range src {
		if err := dtype.CheckUTF8(i, s); err != nil {
			return err
		}
	}
	return nil
}

// current gets the stored form of chunk i, if there is one, and sets the
// condition for writing it back.
func (w *worker) current(ctx context.Context, i int, opts *driver.PutOptions, caps driver.Capabilities) (data []byte, found bool, err error) {
	data, info, err := w.t.v.group.ds.m.Get(ctx, w.where[i].Key, &zmap.GetOptions{Limit: w.maxStored(i)}, w.items[i].alloc)
	if ncerr.KindOf(err) == ncerr.ErrLimit {
		return nil, false, w.tooLong(i)
	}
	if err == nil || ncerr.KindOf(err) == ncerr.ErrNotFound { // after it: then what was read is of the dataset that was opened
		if err := w.t.v.group.ds.stillOpened(ctx); err != nil {
			w.lost = true
			return nil, false, err
		}
	}
	if err != nil {
		if ncerr.KindOf(err) != ncerr.ErrNotFound {
			return nil, false, err
		}
		opts.IfAbsent = caps.IfAbsent && caps.IfMatch
		return nil, false, w.t.v.checkKeys(ctx, w.indexes[i:i+1])
	}
	if caps.IfMatch {
		opts.IfMatch = info.Version
	}
	return data, true, nil
}

// change does what reads a chunk, changes it and writes it back, until nobody
// else changed it in between, or the dataset is another one.
func (w *worker) change(try func(*driver.PutOptions, driver.Capabilities) error) error {
	ds := w.t.v.group.ds
	caps := ds.m.Capabilities()
	if !caps.IfMatch {
		ds.warnSingleWriter()
	}
	var err error
	for range conflictTries {
		var opts driver.PutOptions
		err = try(&opts, caps)
		if k := ncerr.KindOf(err); w.lost || k != ncerr.ErrConflict && !(opts.IfAbsent && k == ncerr.ErrObjectExists) {
			return err
		}
	}
	return err
}
