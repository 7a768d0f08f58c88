package array

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// fillItem fills the part of the slab that belongs to an absent chunk.
func (w *worker) fillItem(it *item) {
	if !w.t.varies {
		w.mover.Fill(w.t.Raw, w.t.fill, it.proj)
		return
	}
	fill := w.t.fillText()
	w.mover.Each(it.proj, func(out, _ int64) { w.t.Text[out] = fill })
}

// fillText returns the fill value of strings without copying it. t.fill is immutable.
func (t *transfer) fillText() string { return unsafe.String(unsafe.SliceData(t.fill), len(t.fill)) }

// TextLimitError is the cause of the error of a read whose strings exceed Most bytes.
// Smaller reads can succeed.
type TextLimitError struct{ Most int64 }

func (e *TextLimitError) Error() string {
	return fmt.Sprintf("the strings of several chunks exceed %d bytes, the smaller of limits.max_chunk (Limits.MaxChunk) and the memory limit: read fewer elements at a time", e.Most)
}

// placeText copies the strings of item i from its decoded chunk. If the whole chunk is
// selected, the strings share one copy of their bytes. Otherwise each string is copied
// separately, so that a few strings do not keep the bytes of the whole chunk in memory.
func (w *worker) placeText(i int, it *item, out []byte) {
	n := int(w.elements)
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
	if w.t.textBytes.Add(size) > w.t.textMost && w.t.plan.Len() > 1 {
		w.failItem(i, "read", ncerr.New(ncerr.ErrLimit, "", "", &TextLimitError{w.t.textMost}))
		return
	}
	if !whole {
		w.mover.Each(it.proj, func(to, from int64) { w.t.Text[to] = string(values.At(int(from))) })
		return
	}
	all := string(out[head:])
	w.mover.Each(it.proj, func(to, from int64) {
		lo := offsetIn(values, int(from), out[head:])
		w.t.Text[to] = all[lo : lo+len(values.At(int(from)))]
	})
}

// offsetIn returns the offset of element i in data.
func offsetIn(v codecdriver.Values, i int, data []byte) int {
	e := v.At(i)
	if len(e) == 0 {
		return 0
	}
	return int(uintptr(unsafe.Pointer(&e[0])) - uintptr(unsafe.Pointer(&data[0])))
}

// editText sets New of each change to a decoded chunk of strings.
func (w *worker) editText(ctx context.Context, changes []*manifest.Change) error {
	w.texts = slices.Grow(w.texts[:0], int(w.elements))[:w.elements]
	defer clear(w.texts)
	for k, ch := range changes {
		it := &w.items[ch.Tag]
		var err error
		exists := ch.Exists
		switch {
		case ch.Damage != nil:
			err = w.damageReason(ch)
		case exists:
			err = w.outOfRoom(w.readTexts(ctx, ch.Old))
		}
		if ch.Damage == nil && ch.Whole && ncerr.KindOf(err) == ncerr.ErrCorrupt {
			if w.postpone(ch.Tag) {
				ch.Skip = true
				continue
			}
			exists, err = false, nil // replace the damaged chunk
		}
		if !exists {
			fill := w.t.fillText()
			for i := range w.texts {
				w.texts[i] = fill
			}
		}
		if err == nil && it.vet {
			cleared, keep := false, false
			if exists {
				cleared, keep, err = w.vet(ctx, ch, nil, w.texts)
			}
			if w.skipUncleared(ch, cleared, keep); err == nil && ch.Skip {
				continue
			}
		}
		if err == nil {
			if w.t.clear == nil {
				w.mover.Each(it.proj, func(out, in int64) { w.texts[in] = w.t.Text[out] })
			}
			ch.New, err = w.encodeTexts(&w.items[k])
		}
		if err != nil {
			if err = w.deferChange(ch, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTexts decodes a stored chunk into w.texts.
func (w *worker) readTexts(ctx context.Context, stored []byte) error {
	w.jobs = append(w.jobs[:0], codecdriver.Job{Src: stored, Limit: w.room})
	return w.runJobs(ctx, w.pipe.DecodeMany, func(_ int, out []byte, err error) error {
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

// encodeTexts writes w.texts in the layout of a decoded chunk to the scratch buffer of an
// item.
func (w *worker) encodeTexts(it *item) ([]byte, error) {
	size := codecdriver.ValuesSize(len(w.texts), 0)
	for _, s := range w.texts {
		size += int64(len(s))
	}
	if size > w.room {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "the strings of the chunk have %d bytes, more than the limit of %d", size, w.room)
	}
	it.outBuf = resize(it.outBuf, size)
	values, err := codecdriver.NewValuesWriter(it.outBuf, len(w.texts))
	for _, s := range w.texts {
		if err == nil {
			err = values.AddString(s)
		}
	}
	return it.outBuf, err
}
