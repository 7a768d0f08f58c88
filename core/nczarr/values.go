package nczarr

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
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

// editText sets New to the decoded chunks of strings.
func (w *worker) editText(ctx context.Context, changes []*manifest.Change) error {
	w.texts = slices.Grow(w.texts[:0], int(w.t.elements))[:w.t.elements]
	defer clear(w.texts)
	for _, ch := range changes {
		it := &w.items[ch.Tag]
		var err error
		switch {
		case ch.TooLong:
			err = w.tooLong(ch.Tag)
		case ch.Exists:
			err = w.readTexts(ctx, ch.Old)
		default:
			fill := w.t.fillText()
			for k := range w.texts {
				w.texts[k] = fill
			}
		}
		if err == nil {
			w.mover.Each(it.proj, func(out, in int64) { w.texts[in] = w.t.text[out] })
			ch.New, err = w.layOut(it)
		}
		if err != nil {
			if err = w.leave(ch, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTexts decodes a stored chunk into w.texts.
func (w *worker) readTexts(ctx context.Context, stored []byte) error {
	w.jobs = append(w.jobs[:0], codecdriver.Job{Src: stored, Limit: w.t.room})
	return w.code(ctx, w.t.e.pipe.DecodeMany, func(_ int, out []byte, err error) error {
		if err != nil {
			return err
		}
		values, err := codecdriver.ParseValues(out, len(w.texts))
		if err != nil {
			return err
		}
		for k := range w.texts {
			w.texts[k] = string(values.At(k))
		}
		return nil
	})
}

// layOut makes the decoded form of w.texts in the scratch of an item.
func (w *worker) layOut(it *item) ([]byte, error) {
	size := codecdriver.ValuesSize(len(w.texts), 0)
	for _, s := range w.texts {
		size += int64(len(s))
	}
	if size > w.t.room {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "the strings of the chunk have %d bytes, the limit is %d", size, w.t.room)
	}
	it.outBuf = sized(it.outBuf, size)
	values, err := codecdriver.NewValuesWriter(it.outBuf, len(w.texts))
	for _, s := range w.texts {
		if err == nil {
			err = values.AddString(s)
		}
	}
	return it.outBuf, err
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
