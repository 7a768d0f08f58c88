package dataset

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Chunks beyond the shapes in the metadata are written before the metadata. A writer that
// is going to write such chunks first puts an object of its own below [zarr.GrowthMark],
// its mark, and deletes it when a Flush has written the new shapes. A process that dies in
// between leaves the mark behind, along with chunks beyond the shapes. These chunks would
// appear as values when a dimension grows over them. Several writers can extend
// dimensions at the same time, so a mark allows nobody to delete anything. A writer that
// grows over the marks of others logs a warning. See also vet.go and
// [Dataset.RemoveLeftovers].
//
// Each writer lists the marks after it has put its own, and again before a Flush
// publishes new shapes. Of two writers that extend dimensions at the same time, at least
// one therefore finds the mark of the other.

// growth is the state of growing dimensions since the last Flush.
type growth struct {
	mu          sync.Mutex
	begun       bool                    // markGrowth has succeeded
	marked      atomic.Pointer[ownMark] // this process's mark in the store; nil if none. Changed with mu held.
	beside      atomic.Pointer[ownMark] // the mark of an earlier version beside which this process grows; nil if none
	trusted     atomic.Pointer[ownMark] // the mark, also an idle one, if it was put into the dataset that was opened
	hold        *place.Hold             // the lock on the mark
	foreign     []GrowthMark            // marks of other writers when this one began
	warned      map[string]bool         // warnings that were logged, by variable and mark
	grown       map[*Var]bool           // variables that grow
	writeFailed bool                    // a write failed and may have left chunks behind
	checkedVars map[*Var]bool           // variables for which checkNotExtended has succeeded
	active      int                     // writes in progress
}

// beginGrowth prepares a write past the end of a dimension, after which v has the given
// shape. It puts the mark, and warns about marks of other writers. The caller must call
// end with the error of the write.
func (d *Dataset) beginGrowth(ctx context.Context, v *Var, shape []int64) (end func(error), err error) {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := v.prepareGrowth(ctx, shape); err != nil {
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

// prepareGrowth puts the mark before v grows to the given shape. The caller holds growth.mu.
func (v *Var) prepareGrowth(ctx context.Context, shape []int64) error {
	d := v.group.ds
	g := &d.growth
	if err := d.markGrowth(ctx); err != nil {
		return err
	}
	if !d.merges() {
		if err := v.checkNotExtended(ctx); err != nil {
			return err
		}
	}
	if g.grown == nil {
		g.grown = make(map[*Var]bool)
	}
	g.grown[v] = true
	v.warnForeign(g.foreign, shape)
	return nil
}

// warnForeign warns that v grows over elements that other writers may have written. It warns
// once for each variable and mark. The caller holds growth.mu.
func (v *Var) warnForeign(marks []GrowthMark, shape []int64) {
	d := v.group.ds
	for i := range marks {
		m := &marks[i]
		if id := v.key() + m.key; d.growth.warned[id] {
			continue
		} else if d.growth.warned == nil {
			d.growth.warned = map[string]bool{id: true}
		} else {
			d.growth.warned[id] = true
		}
		if ranges := v.overlap(shape); ranges != "" {
			d.log.Warn("a dimension grows over elements that another writer may have written; if that writer does not flush, its elements become visible", "path", v.Path(), "range", ranges, "writer", m.Owner(), "age", m.age(), "state", m.State.String())
		}
	}
}

// overlap describes the indexes along unlimited dimensions in which a growth of v to the
// given shape can meet elements of another writer: those beyond the lengths that are in the
// store. What a mark says about lengths could be wrong.
func (v *Var) overlap(shape []int64) string {
	stored := v.storedShape()
	var list []string
	for i, dim := range v.dims {
		if from := stored[i]; dim.unlimited && shape[i] > from {
			list = append(list, fmt.Sprintf("%s from %d to %d", dim.Path(), from, shape[i]-1))
		}
	}
	return strings.Join(list, ", ")
}

// markGrowth puts the mark unless this process has already put it, and reads the marks of
// other writers. If changes of other writers cannot be merged, it fails if such a mark
// exists. It puts no mark for a dataset that is not visible yet, and on a store that writes
// nothing before Flush, cannot delete or list, or allows only very short keys. The caller
// holds growth.mu.
func (d *Dataset) markGrowth(ctx context.Context) error {
	g := &d.growth
	if g.begun && (g.marked.Load() != nil || g.beside.Load() != nil || !d.putsMarks()) { // otherwise a growth of a new dataset began before its first Flush
		return nil
	}
	if !d.putsMarks() {
		g.begun = true
		return nil
	}
	m := newGrowthMark("a dimension is being extended: chunks beyond the shapes in the metadata are not part of the dataset yet")
	mark, err := d.reuseMark(ctx, m)
	if err != nil {
		return err
	}
	reused := mark != nil
	if !reused {
		text, err := markText(m)
		if err != nil {
			return err
		}
		mark = &ownMark{key: zarr.GrowthMark + "/" + m.Writer}
		mark.info, err = d.m.Put(ctx, mark.key, driver.Bytes(text), nil)
		switch {
		case ncerr.KindOf(err) == ncerr.ErrObjectExists && d.m.Capabilities().PrefixExclusive:
			return d.growBesideOldMark(ctx)
		case err != nil:
			return joinCleanupError(err, d.m.Delete(context.WithoutCancel(ctx), mark.key)) // the put may have succeeded
		}
	}
	var foreign []GrowthMark
	hold, err := d.holdMark(mark.key)
	if err == nil {
		foreign, err = d.foreignMarks(ctx, mark.key)
	}
	if err == nil && !d.merges() {
		err = d.refuseMarks(foreign)
	}
	if err == nil && d.merges() { // verify that the mark was put into the dataset that was opened
		if err = d.checkNotReplaced(ctx); err == nil && !d.replaceable() && !d.created {
			err = d.acceptUpdate(ctx, d.rootDoc(), d.sameDocs(ctx, d.rootDoc()))
		}
	}
	if err != nil && reused { // the mark stays the proof that the dataset was not replaced
		return err
	}
	if err != nil {
		hold.Release()
		return joinCleanupError(err, d.m.Delete(context.WithoutCancel(ctx), mark.key))
	}
	g.begun, g.foreign, g.hold = true, foreign, hold
	g.marked.Store(mark)
	g.trusted.Store(mark)
	return nil
}

// putsMarks reports whether writers of the dataset put marks.
func (d *Dataset) putsMarks() bool {
	c := d.m.Capabilities()
	if d.created && !d.flushed.Load() || c.Durable == driver.OnFlush || !c.Delete || !c.List {
		return false
	}
	return c.MaxKey <= 0 || len(zarr.GrowthMark)+1+len(rand.Text()) <= c.MaxKey
}

// growBesideOldMark begins to extend a dimension although the store has a mark of an earlier
// version of the program, below which no other mark can be put. That mark stays, so other
// writers are warned as well.
func (d *Dataset) growBesideOldMark(ctx context.Context) error {
	m, err := d.readMark(ctx, zarr.GrowthMark)
	if err != nil {
		return err
	}
	if m == nil {
		return ncerr.Errorf(ncerr.ErrConflict, "write", zarr.GrowthMark, "the mark of another writer was removed at this moment: try again")
	}
	if !d.merges() {
		return d.refuseMarks([]GrowthMark{*m})
	}
	info, err := d.m.Stat(ctx, zarr.GrowthMark)
	if err != nil {
		return err
	}
	d.growth.begun, d.growth.foreign = true, []GrowthMark{*m}
	d.growth.beside.Store(&ownMark{zarr.GrowthMark, info})
	return nil
}

// checkMarks verifies, before buffered chunks are written, that no other process has
// removed a mark of this writer.
func (d *Dataset) checkMarks(ctx context.Context) error {
	if mark := d.growth.marked.Load(); mark != nil {
		there, err := d.m.Exists(ctx, mark.key)
		if err != nil {
			return err
		}
		if !there && d.growth.marked.Load() == mark { // endGrowth has not removed it meanwhile
			return errMarkRemoved()
		}
	}
	if err := d.checkOldMark(ctx); err != nil {
		return err
	}
	return d.checkNodeMarks(ctx)
}

// checkOldMark verifies that the mark beside which this writer grows has not been removed or
// replaced.
func (d *Dataset) checkOldMark(ctx context.Context) error {
	mark := d.growth.beside.Load()
	if mark == nil {
		return nil
	}
	now, err := d.m.Stat(ctx, mark.key)
	switch {
	case err == nil && now.Version == mark.info.Version, d.growth.beside.Load() != mark: // endGrowth has forgotten it meanwhile
		return nil
	case err != nil && ncerr.KindOf(err) != ncerr.ErrNotFound:
		return err
	}
	return errMarkRemoved()
}

func errMarkRemoved() error {
	return ncerr.Errorf(ncerr.ErrConflict, "flush", zarr.GrowthMark, "the growth mark of this writer was removed, and the chunks that it wrote past the end of a dimension were deleted: reopen the dataset and write them again")
}

// checkBeforePublishing verifies, before the metadata is written, that no other process
// has removed a mark of this writer. It warns about other writers whose marks have
// appeared since this one began.
func (d *Dataset) checkBeforePublishing(ctx context.Context) error {
	g := &d.growth
	if mark := g.marked.Load(); mark != nil {
		foreign, exists, err := d.listMarks(ctx, mark.key)
		if err != nil {
			return err
		}
		if !exists && g.marked.Load() == mark { // endGrowth has not removed it meanwhile
			return errMarkRemoved()
		}
		foreign = withoutIdle(foreign)
		g.mu.Lock()
		for _, v := range g.grownVars() {
			v.warnForeign(foreign, v.Shape())
		}
		g.mu.Unlock()
	}
	if err := d.checkOldMark(ctx); err != nil {
		return err
	}
	return d.checkNodeMarks(ctx)
}

// grownVars returns the variables that this writer has extended, in a fixed order. The caller
// holds mu.
func (g *growth) grownVars() []*Var {
	return slices.SortedFunc(maps.Keys(g.grown), func(a, b *Var) int { return strings.Compare(a.key(), b.key()) })
}

// endGrowth removes the mark after a Flush, or makes it idle if more is set because further
// writes may follow, unless writes are in progress or metadata has changes that are not
// written yet. It first clears the chunks that failed writes left behind. If other writers
// may have written elements to these chunks, it keeps them and the mark.
func (d *Dataset) endGrowth(ctx context.Context, more bool) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active > 0 && g.begun { // a growth that began before the first Flush needs a mark from now on
		return d.markGrowth(ctx)
	}
	if g.active > 0 || d.pending() {
		return nil
	}
	if g.writeFailed && g.marked.Load() != nil {
		done, err := d.clearOwn(ctx, d)
		if err != nil || !done {
			return err
		}
	}
	idle := false
	if more {
		var err error
		if idle, err = d.idleMark(ctx); err != nil {
			g.begun = false // the mark may be idle in the store: the next growth puts it again
			return err
		}
	}
	if mark := g.marked.Swap(nil); mark != nil && !idle { // before the deletion, so that checkMarks does not expect the mark
		g.trusted.Store(nil)
		g.release() // the file driver locks a file before it deletes it
		err := d.m.Delete(ctx, mark.key)
		if err != nil {
			if there, gerr := d.m.Exists(ctx, mark.key); gerr == nil && !there { // the mark was deleted despite the error
				err = nil
			}
		}
		if err != nil {
			var herr error
			if g.hold, herr = d.holdMark(mark.key); herr != nil {
				g.begun = false // the next growth puts another mark
				return joinErrors(err, herr)
			}
			g.marked.Store(mark)
			return err
		}
	}
	g.beside.Store(nil)
	g.begun, g.writeFailed, g.checkedVars, g.grown, g.warned, g.foreign = false, false, nil, nil, nil, nil
	for _, v := range d.extensible(true) {
		v.sharing.reset()
	}
	return nil
}

// release releases the lock on the mark.
func (g *growth) release() {
	g.hold.Release()
	g.hold = nil
}

// dropFailedWrites removes the data that failed writes have left beyond the lengths of a
// dataset that no other process can see yet.
func (d *Dataset) dropFailedWrites(ctx context.Context) error {
	if !d.hasFailedWrites() {
		return nil
	}
	if err := d.checkOwned(ctx); err != nil { // the chunks may be those of another dataset
		return err
	}
	b := budget.From(ctx, d.opts.Budget)
	n, err := b.Acquire(ctx, b.ForCalls(), b.ForCalls()) // before the mutex, because a write that waits for it may hold memory
	if err != nil {
		return err
	}
	defer b.Release(n)
	ctx = budget.With(ctx, b.Part(n, 0))
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if !d.leavesChunks() {
		return nil
	}
	if err := dropLeftovers(ctx, g.grownVars()); err != nil {
		return err
	}
	g.writeFailed = false
	return nil
}

// hasFailedWrites reports whether dropFailedWrites has data to remove.
func (d *Dataset) hasFailedWrites() bool {
	d.growth.mu.Lock()
	defer d.growth.mu.Unlock()
	return d.leavesChunks()
}

// leavesChunks implements hasFailedWrites. The caller holds growth.mu.
func (d *Dataset) leavesChunks() bool {
	g, caps := &d.growth, d.m.Capabilities()
	return g.writeFailed && g.active == 0 && d.created && !d.announced.Load() && caps.List && caps.Delete
}

// checkNotExtended verifies, before v grows, that no other writer has extended v since
// this process read its metadata. It is used if changes of other writers cannot be merged.
// The mark prevents later changes. The caller holds growth.mu.
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

// dropGrowth cleans up when the dataset is aborted: it clears the chunks that this
// writer wrote beyond the shapes, and removes its mark. If other writers may have written
// elements to these chunks, it keeps the chunks and the mark.
func (d *Dataset) dropGrowth(ctx context.Context) error {
	mark := d.growth.marked.Load()
	if mark == nil {
		return nil
	}
	opts := d.opts
	opts.Update = true
	again, err := openAt(ctx, d.storeLoc(), opts) // read the shapes in the store
	if err != nil {
		return err
	}
	defer again.m.Close(ctx) //nolint:errcheck // nothing is left to write
	if there, err := again.m.Exists(ctx, mark.key); err != nil || !there {
		return err
	}
	again.growth.marked.Store(mark)
	done, err := d.clearOwn(ctx, again)
	d.growth.release() // the file driver locks a file before it deletes it
	if err == nil && done {
		err = again.m.Delete(ctx, mark.key)
	}
	if err == nil {
		err = again.m.Flush(ctx)
	}
	return err
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
