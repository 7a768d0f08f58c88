package dataset

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
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

// maxMark is the maximum size of a mark in bytes.
const maxMark = 64 << 10

// maxHost is the maximum length of the name of a host or writer in a mark.
const maxHost = 255

// maxMarks is the maximum number of marks that are read.
const maxMarks = 1000

// GrowthMark describes a writer that is extending a dimension, or that died while extending
// one.
type GrowthMark struct {
	About string `json:"about"`
	// Writer is a random name for the writer.
	Writer string `json:"writer,omitempty"`
	// Host and PID identify the writer's process, for messages.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Created is the time when the writer began.
	Created time.Time `json:"made,omitzero"`
	// Idle reports that the writer has flushed all that it wrote and keeps the mark only to
	// recognize the dataset later.
	Idle bool `json:"idle,omitempty"`
	// State reports whether the writer is running.
	State WriterState `json:"-"`

	key    string
	others int // number of marks that were not read; 0 for the mark of one writer
}

// WriterState reports whether the writer of a mark is running.
type WriterState uint8

// The states of writers.
const (
	WriterUnknown WriterState = iota // the store has no locks
	WriterRunning                    // the writer holds a lock on its mark
	WriterDied                       // the lock was released
)

// String returns the state as a part of a message.
func (s WriterState) String() string {
	switch s {
	case WriterRunning:
		return "running"
	case WriterDied:
		return "died"
	}
	return "running or died"
}

// Owner describes the writer for messages.
func (m *GrowthMark) Owner() string {
	if m.others > 0 {
		return fmt.Sprintf("%d other writers", m.others)
	}
	if m.Host == "" && m.PID == 0 {
		return "an unknown writer"
	}
	return fmt.Sprintf("process %d on %q", m.PID, m.Host)
}

// age returns the age of the mark for messages.
func (m *GrowthMark) age() string {
	if m.Created.IsZero() {
		return "unknown"
	}
	return time.Since(m.Created).Round(time.Second).String()
}

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

// ownMark is the mark of this process.
type ownMark struct {
	key  string
	info driver.Info
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

// newGrowthMark returns a mark of this process.
func newGrowthMark(about string) *GrowthMark {
	host, _ := os.Hostname() // for messages
	return &GrowthMark{About: about, Writer: rand.Text(), Host: host, PID: os.Getpid(), Created: time.Now().UTC().Truncate(time.Second)}
}

// markPath returns the path of the file that contains a mark, or "" if the mark is not a file
// that can be locked.
func (d *Dataset) markPath(key string) string {
	if d.store.Driver().Locality != driver.LocalDirectory {
		return ""
	}
	return filepath.Join(filepath.FromSlash(d.store.Path()), filepath.FromSlash(key))
}

// holdMark locks a mark, so that other processes can find out that this one is running. Chunks
// beyond the shapes must not be written before. It returns nil if the store has no locks.
func (d *Dataset) holdMark(key string) (*place.Hold, error) {
	path := d.markPath(key)
	if path == "" {
		return nil, nil
	}
	hold, err := place.NewFileHold(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil { // other writers would assume that this one has died
		return nil, ncerr.Errorf(ncerr.ErrConflict, "lock", zmap.Path(key), "%w", err)
	}
	return hold, nil
}

// GrowthMarks returns the marks of writers that are extending dimensions or that died while
// extending one, including the mark of this process. They are sorted by name. It returns nil if
// the store cannot be listed.
func (d *Dataset) GrowthMarks(ctx context.Context) ([]GrowthMark, error) {
	if !d.m.Capabilities().List {
		return nil, nil
	}
	marks, _, err := d.listMarks(ctx, "")
	return marks, err
}

// foreignMarks returns the marks of writers that extend dimensions, or died doing so, except
// the one with the key own.
func (d *Dataset) foreignMarks(ctx context.Context, own string) ([]GrowthMark, error) {
	marks, _, err := d.listMarks(ctx, own)
	return withoutIdle(marks), err
}

// listMarks returns all marks except the one with the key own, and whether that one exists. If
// there are more than maxMarks, the last element of marks counts the others.
func (d *Dataset) listMarks(ctx context.Context, own string) (marks []GrowthMark, exists bool, err error) {
	var keys []string
	more := 0
	for e, err := range d.m.List(ctx, zarr.GrowthMark+"/", &driver.ListOptions{Recursive: true}) {
		switch {
		case err != nil:
			return nil, false, err
		case e.Key == own:
			exists = true
		case len(keys) < maxMarks:
			keys = append(keys, e.Key)
		default:
			more++
		}
	}
	if !exists || !d.m.Capabilities().PrefixExclusive { // otherwise the own mark shows that the old one does not exist
		keys = append(keys, zarr.GrowthMark)
	}
	for _, key := range keys {
		m, err := d.readMark(ctx, key)
		if err != nil {
			return nil, false, err
		}
		if m != nil {
			marks = append(marks, *m)
		}
	}
	slices.SortFunc(marks, func(a, b GrowthMark) int { return strings.Compare(a.key, b.key) })
	if more > 0 {
		marks = append(marks, GrowthMark{others: more})
	}
	return marks, exists, nil
}

// readMark reads one mark. It returns nil if the mark does not exist.
func (d *Dataset) readMark(ctx context.Context, key string) (*GrowthMark, error) {
	text, info, err := d.m.ReadAll(ctx, key, maxMark)
	switch ncerr.KindOf(err) {
	case ncerr.ErrNotFound:
		return nil, nil
	case ncerr.ErrLimit:
		text = nil // an invalid mark is still a mark
	case 0:
		if err != nil { // a context error
			return nil, err
		}
	default:
		return nil, err
	}
	var m GrowthMark
	if json.Unmarshal(text, &m) != nil || len(m.Host) > maxHost || len(m.Writer) > maxHost { // this program has not put it
		m = GrowthMark{}
	}
	m.About = "" // of no use to readers, and of any length
	if m.Created.IsZero() {
		m.Created = info.ModTime
	}
	m.key = key
	if path := d.markPath(key); path != "" && key != zarr.GrowthMark { // earlier versions did not lock their marks
		if held, known := place.FileHeld(path); held {
			m.State = WriterRunning
		} else if known {
			m.State = WriterDied
		}
	}
	return &m, nil
}

// refuseMarks fails if marks is not empty.
func (d *Dataset) refuseMarks(marks []GrowthMark) error {
	if len(marks) == 0 {
		return nil
	}
	m := &marks[0]
	return ncerr.Errorf(ncerr.ErrConflict, "grow", zarr.GrowthMark,
		"another writer is extending a dimension, and the store has no conditional writes: %s, whose mark is %s old; wait for it to finish or, if it has died, remove what it left with: nczctl repair --leftovers %s", m.Owner(), m.age(), shellQuote(displayLoc(d.loc)))
}

// shellQuote quotes a word for a shell command line.
func shellQuote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
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
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	caps := d.m.Capabilities()
	if !g.writeFailed || g.active > 0 || !d.created || d.announced.Load() || !caps.List || !caps.Delete {
		return nil
	}
	if err := dropLeftovers(ctx, g.grownVars()); err != nil {
		return err
	}
	g.writeFailed = false
	return nil
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
