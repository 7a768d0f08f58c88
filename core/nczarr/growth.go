package nczarr

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// growingKey is an object that is in the store from the first write past the
// end of an unlimited dimension until a Flush has written the new shapes. A
// process that dies in between leaves it behind, and with it chunks that no
// shape tells of: they would show when the dimension grows again. Whoever
// makes a dimension longer next finds the object, and removes them first.
const growingKey = ".nczgrowing"

const growingText = `{"about": "a dimension is being made longer: chunks beyond the shapes in the metadata count for nothing"}`

// growth is the state of growing since the last Flush.
type growth struct {
	mu     sync.Mutex
	begun  bool // growing may go on
	marked bool // growingKey is in the store
	torn   bool // a write failed on the way, and what it left is there
	active int  // writes under way
}

// beginGrowth is called before a write past the end of a dimension, and its
// result, with the outcome, after.
func (d *Dataset) beginGrowth(ctx context.Context) (end func(error), err error) {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.begun {
		if err := d.markGrowth(ctx); err != nil {
			return nil, err
		}
		g.begun = true
	}
	g.active++
	return func(err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.active--
		g.torn = g.torn || err != nil
	}, nil
}

// markGrowth puts the mark, and cleans up when it is there already. A dataset
// that has no visible shapes yet, and a store where nothing is durable before
// they are, need none; nor can one without deletion have it taken away.
func (d *Dataset) markGrowth(ctx context.Context) error {
	caps := d.m.Capabilities()
	if d.created && !d.flushed.Load() || caps.Durable == driver.OnFlush || !caps.Delete || !caps.List {
		return nil
	}
	there := false
	var err error
	if !caps.IfAbsent {
		there, err = d.m.Exists(ctx, growingKey)
	}
	if err == nil && !there {
		_, err = d.m.Put(ctx, growingKey, driver.Bytes(growingText), &driver.PutOptions{IfAbsent: caps.IfAbsent})
		if caps.IfAbsent && ncerr.KindOf(err) == ncerr.ErrObjectExists {
			there, err = true, nil
		}
	}
	if err != nil {
		return err
	}
	d.growth.marked = true
	if there {
		d.log.Warn("a process died while dimensions grew: removing chunks beyond the shapes", "key", growingKey)
		return d.dropLeftovers(ctx)
	}
	return nil
}

// endGrowth takes the mark away after a Flush, unless there is something that
// the metadata does not tell of yet.
func (d *Dataset) endGrowth(ctx context.Context) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active > 0 || g.torn || d.pending() {
		return nil
	}
	if g.marked {
		if err := d.m.Delete(ctx, growingKey); err != nil {
			return err
		}
	}
	g.begun, g.marked = false, false
	return nil
}

// pending reports whether metadata has changed since it was written.
func (d *Dataset) pending() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	found := false
	d.top.each(func(g *Group) { found = found || g.changes.pending() })
	return found
}

// dropLeftovers removes all chunks beyond the shapes of variables that can
// grow, and sets to fill what lies beyond them in the chunks at the edge.
func (d *Dataset) dropLeftovers(ctx context.Context) error {
	var vars []*Var
	d.mu.RLock()
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			if slices.ContainsFunc(v.dims, func(d *Dim) bool { return d.unlimited }) {
				vars = append(vars, v)
			}
		}
	})
	d.mu.RUnlock()
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
	var beyond []string
	var edge [][]int64
	for e, err := range ds.m.List(ctx, v.key(), &zmap.ListOptions{Recursive: true}) {
		if err != nil {
			return err
		}
		index, ok := v.chunkIndex(strings.TrimPrefix(e.Key, v.key()))
		if !ok {
			continue
		}
		out, part := false, false
		for i, n := range index {
			first := n * v.meta.Chunks[i]
			out = out || first >= shape[i]
			part = part || v.dims[i].unlimited && first+v.meta.Chunks[i] > shape[i]
		}
		switch {
		case out:
			beyond = append(beyond, e.Key)
		case part:
			edge = append(edge, index)
		}
	}
	for _, key := range beyond {
		if err := ds.m.Delete(ctx, key); err != nil {
			return err
		}
	}
	for _, index := range edge {
		if err := v.clearEdge(ctx, index, shape); err != nil {
			return err
		}
	}
	v.lengthen()
	return nil
}

// chunkIndex reads the part of a chunk's key that is its own.
func (v *Var) chunkIndex(name string) (index []int64, ok bool) {
	segs := strings.Split(name, string(rune(v.meta.Separator)))
	if len(segs) != len(v.meta.Chunks) {
		return nil, false
	}
	for i, seg := range segs {
		n, err := strconv.ParseInt(seg, 10, 64)
		if err != nil || n < 0 || n > maxDim/v.meta.Chunks[i] || strconv.FormatInt(n, 10) != seg {
			return nil, false
		}
		index = append(index, n)
	}
	return index, true
}

// clearEdge sets to fill what lies beyond shape in one chunk, for each
// unlimited dimension in turn.
func (v *Var) clearEdge(ctx context.Context, index, shape []int64) error {
	full := make([]int64, len(index))
	for i, n := range index {
		full[i] = (n + 1) * v.meta.Chunks[i]
	}
	for i, d := range v.dims {
		if !d.unlimited || full[i] <= shape[i] {
			continue
		}
		sel := chunk.Selection{Start: make([]int64, len(index)), Count: slices.Clone(v.meta.Chunks)}
		for k, n := range index {
			sel.Start[k] = n * v.meta.Chunks[k]
		}
		sel.Start[i], sel.Count[i] = shape[i], full[i]-shape[i]
		if err := v.writeRaw(ctx, sel, full, v.fillSlab(sel.Len()), nil); err != nil {
			return err
		}
	}
	return nil
}

// fillSlab gives n elements of fill.
func (v *Var) fillSlab(n int64) slab {
	if v.varies() {
		return slab{text: slices.Repeat([]string{string(v.meta.Fill)}, int(n))}
	}
	raw := make([]byte, n*int64(v.meta.DType.Size))
	chunk.Repeat(raw, v.meta.Fill)
	return slab{raw: raw}
}
