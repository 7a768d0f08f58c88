package dataset

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// RemoveLeftovers removes the marks of writers that died while they were extending
// dimensions, and the chunks beyond the shapes. It returns the marks that it has removed. The
// caller must be sure that these writers are dead: a live writer loses what it has written
// since its last Flush, and its next Flush fails. If a writer holds a lock on its mark,
// RemoveLeftovers fails with ncerr.ErrConflict and removes nothing. The dataset must be open
// for Update.
func (d *Dataset) RemoveLeftovers(ctx context.Context) ([]GrowthMark, error) {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begun {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "remove leftovers", zarr.GrowthMark, "this writer is itself extending a dimension")
	}
	marks, err := d.removeLeftovers(ctx)
	return marks, ncerr.Wrap("remove leftovers", zarr.GrowthMark, err)
}

func (d *Dataset) removeLeftovers(ctx context.Context) ([]GrowthMark, error) {
	own := ""
	if mark := d.growth.trusted.Load(); mark != nil {
		own = mark.key
	}
	marks, _, err := d.listMarks(ctx, own)
	if err != nil {
		return nil, err
	}
	for i := range marks {
		if m := &marks[i]; m.State == WriterRunning {
			return nil, ncerr.Errorf(ncerr.ErrConflict, "", "", "%s is extending a dimension; nothing was removed: wait until it has finished", m.Owner())
		} else if m.others > 0 { // one of them may be running
			return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "%q contains more than %d objects; nothing was removed: delete those of writers that have died", zarr.GrowthMark, maxMarks)
		}
	}
	mark, err := d.stopGrowth(ctx, marks)
	if err == nil { // pure Zarr does not record which dimensions are unlimited
		err = dropLeftovers(ctx, d.extensible(!d.layout.NCZarr()))
	}
	if err == nil && mark != "" {
		err = d.m.Delete(ctx, mark)
	}
	return marks, err
}

// stopGrowth removes the marks of other writers, so that the next Flush of a live writer
// fails. Before, it puts a mark of its own, whose key it returns, so that the leftovers
// stay marked. It then verifies that the shapes in the metadata are still those that were
// read, because chunks within larger shapes contain values.
func (d *Dataset) stopGrowth(ctx context.Context, marks []GrowthMark) (mark string, err error) {
	m := newGrowthMark("leftovers of a dead writer are being removed")
	text, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	mark = zarr.GrowthMark + "/" + m.Writer
	_, err = d.m.Put(ctx, mark, driver.Bytes(text), nil)
	if ncerr.KindOf(err) == ncerr.ErrObjectExists { // below the mark of an earlier version, which is overwritten
		mark = zarr.GrowthMark
		_, err = d.m.Put(ctx, mark, driver.Bytes(text), nil)
	}
	for i := range marks {
		if err == nil && marks[i].key != mark {
			err = d.m.Delete(ctx, marks[i].key)
		}
	}
	if err == nil {
		err = d.m.Flush(ctx)
	}
	if err != nil {
		return "", err
	}
	keys := []string{d.rootDoc()}
	d.docs.mu.Lock()
	keys = slices.AppendSeq(keys, maps.Keys(d.docs.opened))
	d.docs.mu.Unlock()
	if err := d.compare(ctx, keys); err != nil {
		return "", ncerr.Errorf(ncerr.ErrConflict, "", "", "the metadata was written after the dataset was opened, so a writer is still active; no chunks were removed: %w", err)
	}
	return mark, nil
}

// dropLeftovers removes all chunks beyond the shapes of variables. In chunks at the edge,
// it sets the elements beyond unlimited dimensions to the fill value.
func dropLeftovers(ctx context.Context, vars []*Var) error {
	for _, v := range vars {
		if err := v.dropLeftovers(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (v *Var) dropLeftovers(ctx context.Context) error {
	ds := v.group.ds
	ds.mu.RLock()
	shape := v.extent()
	ds.mu.RUnlock()
	var beyond []manifest.Chunk
	var edge [][]int64
	target, err := manifest.AsWriter(v.source())
	if err != nil {
		return nil // the chunks of v are never written
	}
	grid := v.meta.ChunkGrid()
	for ch, err := range target.Chunks(ctx, v.grid()) {
		if ncerr.KindOf(err) == ncerr.ErrMetadata {
			break // its chunks use the other separator, so this library did not write them
		}
		if err != nil {
			return err
		}
		out, part := false, false
		for i, n := range ch.Index {
			if n > maxDim/v.meta.Chunks[i] { // no array is that large
				out, part = false, false
				break
			}
			first, length := grid.Chunk(i, n)
			out = out || first >= shape[i]
			part = part || v.dims[i].unlimited && first+length > shape[i]
		}
		switch {
		case out:
			beyond = append(beyond, ch)
		case part:
			edge = append(edge, ch.Index)
		}
	}
	if a := v.data.array.Load(); a != nil {
		defer a.Forget() // even if only some chunks were removed
	}
	if err := v.removeChunks(ctx, target, beyond, v.gridOf(shape)); err != nil {
		return err
	}
	for _, index := range edge {
		if err := v.clearEdge(ctx, index, shape); err != nil {
			return err
		}
	}
	v.lengthen()
	return nil
}

// removeChunks removes chunks. It acquires memory for the old and the new form of a shard.
func (v *Var) removeChunks(ctx context.Context, target manifest.Writer, chunks []manifest.Chunk, grid []int64) error {
	if target.Units().Rank() > 0 && len(chunks) > 0 {
		o := &v.group.ds.opts
		b, n := budget.From(ctx, o.Budget), 2*array.UnitLimit(o.Limits.MaxChunk, o.Budget)
		got, err := b.Acquire(ctx, n, n)
		if err != nil {
			return err
		}
		defer b.Release(got)
	}
	return target.Remove(ctx, chunks, grid)
}

// clearEdge sets the elements of one chunk beyond shape to the fill value, for each
// unlimited dimension in turn.
func (v *Var) clearEdge(ctx context.Context, index, shape []int64) error {
	full, first, grid := make([]int64, len(index)), make([]int64, len(index)), v.meta.ChunkGrid()
	for i, n := range index {
		start, length := grid.Chunk(i, n)
		first[i], full[i] = start, start+length
	}
	for i, d := range v.dims {
		if !d.unlimited || full[i] <= shape[i] {
			continue
		}
		sel := chunk.Selection{Start: slices.Clone(first), Count: make([]int64, len(index))}
		for k := range index {
			sel.Count[k] = full[k] - first[k]
		}
		sel.Start[i], sel.Count[i] = shape[i], full[i]-shape[i]
		err := v.writeRaw(ctx, sel, full, v.fillSlab(sel.Len()), func(ctx context.Context, a *array.Array, sel chunk.Selection, shape []int64, from array.Slab) error {
			return a.WriteThrough(ctx, sel, shape, from, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
