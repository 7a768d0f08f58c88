package nczarr

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// The object [zarr.GrowthMark] exists from the first write past the end of an unlimited
// dimension until a Flush has written the new shapes. It prevents other writers from
// extending a dimension at the same time. A process that dies in between leaves the
// mark behind, along with chunks beyond the shapes in the metadata. These chunks would
// reappear when the dimension grows again. Only the user can know that the process is
// dead: see [Dataset.ClearGrowth].

// maxMark is the maximum size of a mark in bytes.
const maxMark = 64 << 10

// GrowthMark describes the writer that is extending a dimension.
type GrowthMark struct {
	About string `json:"about"`
	// Writer is a random name for the writer.
	Writer string `json:"writer,omitempty"`
	// Host and PID identify the writer's process, for messages.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Created is the time when the writer began.
	Created time.Time `json:"made,omitzero"`
}

// Owner describes the writer for messages.
func (m *GrowthMark) Owner() string {
	if m.Host == "" && m.PID == 0 {
		return "an unknown writer"
	}
	return fmt.Sprintf("process %d on %q", m.PID, m.Host)
}

// growth is the state of growing dimensions since the last Flush.
type growth struct {
	mu          sync.Mutex
	begun       bool                   // markGrowth has succeeded
	marked      atomic.Pointer[string] // Writer of this process's mark in the store; nil if none. Changed with mu held.
	writeFailed bool                   // a write failed and may have left chunks behind
	checkedVars map[*Var]bool          // variables for which checkNotExtended has succeeded
	active      int                    // writes in progress
}

// beginGrowth prepares a write past the end of a dimension. It puts the mark and verifies
// that no other writer has extended v. The caller must call end with the error of the
// write.
func (d *Dataset) beginGrowth(ctx context.Context, v *Var) (end func(error), err error) {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := d.markGrowth(ctx); err != nil {
		return nil, err
	}
	if err := v.checkNotExtended(ctx); err != nil {
		return nil, err
	}
	g.active++
	return func(err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.active--
		g.writeFailed = g.writeFailed || err != nil
	}, nil
}

// markGrowth puts the mark unless this process has already put it. It fails if a mark
// of another writer exists. It puts no mark for a dataset that is not visible yet, on a
// store that writes nothing before Flush, and on a store without deletion or listing.
// The caller holds growth.mu.
func (d *Dataset) markGrowth(ctx context.Context) error {
	if d.growth.begun {
		return nil
	}
	caps := d.m.Capabilities()
	if d.created && !d.flushed.Load() || caps.Durable == driver.OnFlush || !caps.Delete || !caps.List {
		d.growth.begun = true
		return nil
	}
	host, _ := os.Hostname() // for messages
	m := GrowthMark{
		About:  "a dimension is being extended: chunks beyond the shapes in the metadata are not part of the dataset yet",
		Writer: rand.Text(), Host: host, PID: os.Getpid(), Created: time.Now().UTC().Truncate(time.Second),
	}
	text, err := json.Marshal(&m)
	if err != nil {
		return ncerr.New(ncerr.ErrInternal, "write", zarr.GrowthMark, err)
	}
	if !caps.IfAbsent {
		if err := d.checkForeignGrowth(ctx, ""); err != nil {
			return err
		}
	}
	_, err = d.m.Put(ctx, zarr.GrowthMark, driver.Bytes(text), &driver.PutOptions{IfAbsent: caps.IfAbsent})
	switch {
	case caps.IfAbsent && ncerr.KindOf(err) == ncerr.ErrObjectExists:
		if err := d.checkForeignGrowth(ctx, ""); err != nil {
			return err
		}
		return ncerr.New(ncerr.ErrConflict, "write", zarr.GrowthMark, nil) // the other mark has been removed since
	case err != nil:
		return err
	case !caps.IfAbsent: // another writer may have put a mark after the first check
		if err := d.checkForeignGrowth(ctx, m.Writer); err != nil {
			return err
		}
	}
	d.growth.begun = true
	d.growth.marked.Store(&m.Writer)
	return nil
}

// GrowthMark returns the mark of a writer that is extending a dimension or that died
// while extending one. It returns nil if no mark exists.
func (d *Dataset) GrowthMark(ctx context.Context) (*GrowthMark, error) {
	text, info, err := d.m.ReadAll(ctx, zarr.GrowthMark, maxMark)
	switch ncerr.KindOf(err) {
	case ncerr.ErrNotFound:
		return nil, nil
	case 0:
	default:
		return nil, err
	}
	if err != nil { // a context error
		return nil, err
	}
	var m GrowthMark
	if json.Unmarshal(text, &m) != nil { // an invalid mark is still a mark
		m = GrowthMark{}
	}
	if m.Created.IsZero() {
		m.Created = info.ModTime
	}
	return &m, nil
}

// checkForeignGrowth fails if the store has a mark of a writer other than the given one.
// If writer is empty, it fails for any mark.
func (d *Dataset) checkForeignGrowth(ctx context.Context, writer string) error {
	m, err := d.GrowthMark(ctx)
	if err != nil || m == nil || writer != "" && m.Writer == writer {
		return err
	}
	age := "of unknown age"
	if !m.Created.IsZero() {
		age = fmt.Sprintf("%s old", time.Since(m.Created).Round(time.Second))
	}
	return ncerr.Errorf(ncerr.ErrConflict, "grow", zarr.GrowthMark,
		"another writer is extending a dimension: %s, whose mark is %s; wait for it to finish or, if it has died, clear the mark with: nczctl clean --remove %s", m.Owner(), age, shellQuote(displayLoc(d.loc)))
}

// shellQuote quotes a word for a shell command line.
func shellQuote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// checkMarks verifies, before the metadata or buffered chunks are written, that no other
// process has cleared a mark of this writer.
func (d *Dataset) checkMarks(ctx context.Context) error {
	if err := d.checkGrowthMark(ctx); err != nil {
		return err
	}
	return d.checkNodeMarks(ctx)
}

// checkGrowthMark verifies, before the new shapes or buffered chunks are written, that the
// mark of this writer still exists. A process that cleared it may have removed chunks of
// this writer.
func (d *Dataset) checkGrowthMark(ctx context.Context) error {
	writer := d.growth.marked.Load()
	if writer == nil {
		return nil
	}
	m, err := d.GrowthMark(ctx)
	if err == nil && (m == nil || m.Writer != *writer) && d.growth.marked.Load() == writer { // endGrowth has not removed it meanwhile
		err = ncerr.Errorf(ncerr.ErrConflict, "flush", zarr.GrowthMark, "the growth mark of this writer was cleared, and the chunks that it wrote past the end of a dimension were deleted: reopen the dataset and write them again")
	}
	return err
}

// endGrowth removes the mark after a Flush, unless writes are in progress or metadata
// has changes that are not written yet. It first removes the chunks that failed writes
// left behind.
func (d *Dataset) endGrowth(ctx context.Context) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active > 0 || d.pending() {
		return nil
	}
	if g.writeFailed && g.marked.Load() != nil {
		if err := dropLeftovers(ctx, g.ownVars()); err != nil {
			return err
		}
	}
	if mark := g.marked.Swap(nil); mark != nil { // before the deletion, so that checkGrowthMark does not expect the mark
		err := d.m.Delete(ctx, zarr.GrowthMark)
		if err != nil {
			if m, gerr := d.GrowthMark(ctx); gerr == nil && m == nil { // the mark was deleted despite the error
				err = nil
			}
		}
		if err != nil {
			g.marked.Store(mark)
			return err
		}
	}
	g.begun, g.writeFailed, g.checkedVars = false, false, nil
	return nil
}

// ownVars returns the variables that only this writer can have extended, in a fixed
// order.
func (g *growth) ownVars() []*Var {
	return slices.SortedFunc(maps.Keys(g.checkedVars), func(a, b *Var) int { return strings.Compare(a.key(), b.key()) })
}

// dropFailedWrites removes the data that failed writes have left beyond the lengths of a
// dataset that no other process can see yet.
func (d *Dataset) dropFailedWrites(ctx context.Context) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	caps := d.m.Capabilities()
	if !g.writeFailed || g.active > 0 || !d.created || d.announced.Load() || !caps.List || !caps.Delete {
		return nil
	}
	if err := dropLeftovers(ctx, g.ownVars()); err != nil {
		return err
	}
	g.writeFailed = false
	return nil
}

// checkNotExtended verifies, before v grows or its leftovers are removed, that no other
// writer has extended v since this process read its metadata. Otherwise this process would
// overwrite or remove the data of the other writer and shorten v again. The mark prevents
// later changes. The caller holds growth.mu.
func (v *Var) checkNotExtended(ctx context.Context) error {
	ds := v.group.ds
	g := &ds.growth
	if g.checkedVars[v] {
		return nil
	}
	if g.checkedVars == nil {
		g.checkedVars = make(map[*Var]bool)
	}
	if ds.created && !ds.flushed.Load() {
		g.checkedVars[v] = true
		return nil
	}
	keys := []string{v.key() + ds.layout.ArrayDoc()}
	for _, dim := range v.dims {
		if dim.unlimited {
			for _, name := range ds.layout.LengthDocs() {
				keys = append(keys, dim.group.key()+name)
			}
		}
	}
	ds.saving.Lock() // a Flush of this process changes these documents
	defer ds.saving.Unlock()
	err := ds.compare(ctx, keys)
	if ncerr.KindOf(err) == ncerr.ErrConflict {
		err = ncerr.Errorf(ncerr.ErrConflict, "grow", v.Path(), "another process has changed the metadata since the dataset was opened, and may have extended the variable: reopen the dataset")
	}
	if err == nil {
		g.checkedVars[v] = true
	}
	return err
}

// lengths returns the lengths of the unlimited dimensions.
func (d *Dataset) lengths() map[*Dim]int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := make(map[*Dim]int64)
	d.top.each(func(g *Group) {
		for _, dim := range g.dims.list {
			if dim.unlimited {
				all[dim] = dim.len
			}
		}
	})
	return all
}

// setStored records lengths that are in the store.
func (d *Dataset) setStored(lengths map[*Dim]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dim, n := range lengths {
		dim.stored = max(dim.stored, n)
	}
}

// beyondStored reports whether an index is outside the lengths in the store.
func (v *Var) beyondStored(index []int64) bool {
	v.group.ds.mu.RLock()
	defer v.group.ds.mu.RUnlock()
	for i, d := range v.dims {
		if d.unlimited && index[i] >= d.stored {
			return true
		}
	}
	return false
}

// ClearGrowth removes the mark of a writer that died while it was extending a
// dimension, and the chunks that the writer left beyond the shapes. The caller must be sure
// that the writer is dead: a live writer loses what it has written since its last
// Flush, and its next Flush fails. The dataset must be open for Update.
func (d *Dataset) ClearGrowth(ctx context.Context) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begun {
		return ncerr.Errorf(ncerr.ErrInvalid, "clear growth", zarr.GrowthMark, "this writer is itself extending a dimension")
	}
	err := d.stopGrowth(ctx)
	if err == nil { // pure Zarr does not record which dimensions are unlimited
		err = dropLeftovers(ctx, d.extensible(!d.layout.NCZarr()))
	}
	if err == nil {
		err = d.m.Delete(ctx, zarr.GrowthMark)
	}
	return ncerr.Wrap("clear growth", zarr.GrowthMark, err)
}

// stopGrowth replaces the mark, so that the next Flush of a live writer fails. It then
// verifies that the shapes in the metadata are still those that were read, because
// chunks within larger shapes contain values.
func (d *Dataset) stopGrowth(ctx context.Context) error {
	host, _ := os.Hostname() // for messages
	text, err := json.Marshal(&GrowthMark{
		About:  "leftovers of a dead writer are being removed",
		Writer: rand.Text(), Host: host, PID: os.Getpid(), Created: time.Now().UTC().Truncate(time.Second),
	})
	if err == nil {
		_, err = d.m.Put(ctx, zarr.GrowthMark, driver.Bytes(text), nil)
	}
	if err == nil {
		err = d.m.Flush(ctx)
	}
	if err != nil {
		return err
	}
	keys := []string{d.rootDoc()}
	d.docs.mu.Lock()
	keys = slices.AppendSeq(keys, maps.Keys(d.docs.opened))
	d.docs.mu.Unlock()
	if err := d.compare(ctx, keys); err != nil {
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "the metadata was written after the dataset was opened, so a writer is still active; nothing was removed: %w", err)
	}
	return nil
}

// dropGrowth cleans up when the dataset is aborted: it removes this writer's mark, if
// one exists, and the chunks beyond the shapes.
func (d *Dataset) dropGrowth(ctx context.Context) error {
	writer := d.growth.marked.Load()
	if writer == nil {
		return nil
	}
	opts := d.opts
	opts.Update = true
	again, err := openAt(ctx, d.storeLoc(), opts) // read the shapes in the store
	if err != nil {
		return err
	}
	defer again.m.Close(ctx) //nolint:errcheck // the mark was deleted or an error is returned
	if m, err := again.GrowthMark(ctx); err != nil || m == nil || m.Writer != *writer {
		return err
	}
	return again.ClearGrowth(ctx)
}

// pending reports whether the metadata has unwritten changes.
func (d *Dataset) pending() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	found := false
	d.top.each(func(g *Group) {
		found = found || g.changes.pending() || slices.ContainsFunc(g.vars.list, func(v *Var) bool { return v.in == nil && v.changes.pending() })
	})
	return found
}

// extensible returns the variables that can grow. If all is set, it also returns all
// others that are not fields of structured arrays.
func (d *Dataset) extensible(all bool) (vars []*Var) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			if all && v.in == nil || slices.ContainsFunc(v.dims, func(d *Dim) bool { return d.unlimited }) {
				vars = append(vars, v)
			}
		}
	})
	return vars
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
	if err := target.Remove(ctx, beyond, v.gridOf(shape)); err != nil {
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
