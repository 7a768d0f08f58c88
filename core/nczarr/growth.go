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
	"time"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// [zarr.GrowthMark] is an object that is in the store from the first write past the
// end of an unlimited dimension until a Flush has written the new shapes. It
// keeps other writers from making a dimension longer meanwhile. A process that
// dies in between leaves it behind, and with it chunks that no shape tells of:
// they would show when the dimension grows again. Only a person can know that
// it is dead: see [Dataset.ClearGrowth].

// maxMark is the most bytes of a mark that are read.
const maxMark = 64 << 10

// GrowthMark describes the writer that is making a dimension longer.
type GrowthMark struct {
	About string `json:"about"`
	// Writer is the random name of the writer.
	Writer string `json:"writer,omitempty"`
	// Host and PID name its process, for people.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Made is when it began.
	Made time.Time `json:"made,omitzero"`
}

// Owner names the writer for people.
func (m *GrowthMark) Owner() string {
	if m.Host == "" && m.PID == 0 {
		return "an unknown writer"
	}
	return fmt.Sprintf("process %d on %q", m.PID, m.Host)
}

// growth is the state of growing since the last Flush.
type growth struct {
	mu     sync.Mutex
	begun  bool          // growing may go on
	marked string        // the writer of our mark in the store; empty without one
	torn   bool          // a write failed on the way, and what it left is there
	sure   map[*Var]bool // nobody had made it longer when we began
	active int           // writes under way
}

// beginGrowth is called before a write past the end of a dimension, and its
// result, with the outcome, after.
func (d *Dataset) beginGrowth(ctx context.Context, v *Var) (end func(error), err error) {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := d.markGrowth(ctx); err != nil {
		return nil, err
	}
	if !g.sure[v] {
		if err := v.asLongAsOpened(ctx); err != nil {
			return nil, err
		}
		if g.sure == nil {
			g.sure = make(map[*Var]bool)
		}
		g.sure[v] = true
	}
	g.active++
	return func(err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.active--
		g.torn = g.torn || err != nil
	}, nil
}

// markGrowth puts the mark unless it has been put already, and fails when
// another writer has. A dataset that has no visible shapes yet, and a store
// where nothing is durable before they are, need none; nor can one without
// deletion have it taken away. growth.mu is held.
func (d *Dataset) markGrowth(ctx context.Context) error {
	if d.growth.begun {
		return nil
	}
	caps := d.m.Capabilities()
	if d.created && !d.flushed.Load() || caps.Durable == driver.OnFlush || !caps.Delete || !caps.List {
		d.growth.begun = true
		return nil
	}
	host, _ := os.Hostname() // for people
	m := GrowthMark{
		About:  "a dimension is being made longer: chunks beyond the shapes in the metadata count for nothing",
		Writer: rand.Text(), Host: host, PID: os.Getpid(), Made: time.Now().UTC().Truncate(time.Second),
	}
	text, err := json.Marshal(&m)
	if err != nil {
		return ncerr.New(ncerr.ErrInternal, "write", zarr.GrowthMark, err)
	}
	if !caps.IfAbsent {
		if err := d.noForeignGrowth(ctx, ""); err != nil {
			return err
		}
	}
	_, err = d.m.Put(ctx, zarr.GrowthMark, driver.Bytes(text), &driver.PutOptions{IfAbsent: caps.IfAbsent})
	switch {
	case caps.IfAbsent && ncerr.KindOf(err) == ncerr.ErrObjectExists:
		if err := d.noForeignGrowth(ctx, ""); err != nil {
			return err
		}
		return ncerr.New(ncerr.ErrConflict, "write", zarr.GrowthMark, nil) // it was there, and is gone again
	case err != nil:
		return err
	case !caps.IfAbsent: // two may have found that there was none
		if err := d.noForeignGrowth(ctx, m.Writer); err != nil {
			return err
		}
	}
	d.growth.begun, d.growth.marked = true, m.Writer
	return nil
}

// GrowthMark returns the mark of a writer that is making a dimension longer or
// died doing so, or nil if there is no mark.
func (d *Dataset) GrowthMark(ctx context.Context) (*GrowthMark, error) {
	text, info, err := d.m.ReadAll(ctx, zarr.GrowthMark, maxMark)
	switch ncerr.KindOf(err) {
	case ncerr.ErrNotFound:
		return nil, nil
	case 0:
	default:
		return nil, err
	}
	if err != nil { // the context's
		return nil, err
	}
	var m GrowthMark
	if json.Unmarshal(text, &m) != nil { // whoever wrote it, it is a mark
		m = GrowthMark{}
	}
	if m.Made.IsZero() {
		m.Made = info.ModTime
	}
	return &m, nil
}

// noForeignGrowth fails if the store has a mark of another writer.
func (d *Dataset) noForeignGrowth(ctx context.Context, writer string) error {
	m, err := d.GrowthMark(ctx)
	if err != nil || m == nil || writer != "" && m.Writer == writer {
		return err
	}
	age := "of unknown age"
	if !m.Made.IsZero() {
		age = fmt.Sprintf("%s old", time.Since(m.Made).Round(time.Second))
	}
	return ncerr.Errorf(ncerr.ErrConflict, "grow a dimension", zarr.GrowthMark,
		"another writer is making a dimension longer: %s, the mark is %s; wait for it to finish, or, if it has died, clear the mark with: nczctl clean --remove %s", m.Owner(), age, shell(shown(d.loc)))
}

// shell quotes a word for a command line.
func shell(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ownGrowth makes sure, before the new shapes are written, that the mark is
// still there: whoever cleared it may have removed chunks that this writer
// wrote.
func (d *Dataset) ownGrowth(ctx context.Context) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.marked == "" {
		return nil
	}
	m, err := d.GrowthMark(ctx)
	if err == nil && (m == nil || m.Writer != g.marked) {
		err = ncerr.Errorf(ncerr.ErrConflict, "flush", zarr.GrowthMark, "the growth mark of this writer was cleared, and the chunks that it wrote past the end of a dimension were deleted: reopen the dataset and write them again")
	}
	return err
}

// endGrowth takes the mark away after a Flush, unless there is something that
// the metadata does not tell of yet. What failed writes have left goes first.
func (d *Dataset) endGrowth(ctx context.Context) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active > 0 || d.pending() {
		return nil
	}
	if g.marked != "" {
		if g.torn {
			if err := d.dropLeftovers(ctx, false); err != nil {
				return err
			}
		}
		if err := d.m.Delete(ctx, zarr.GrowthMark); err != nil {
			return err
		}
	}
	g.begun, g.marked, g.torn, g.sure = false, "", false, nil
	return nil
}

// asLongAsOpened makes sure, before v grows, that no other writer has made it
// longer since this one read its metadata: what that has written would be written
// over, and its length made shorter again. While our mark is there, nobody does.
func (v *Var) asLongAsOpened(ctx context.Context) error {
	ds := v.group.ds
	if ds.created && !ds.flushed.Load() {
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
	ds.saving.Lock() // our own Flush changes them
	defer ds.saving.Unlock()
	err := ds.compare(ctx, keys)
	if ncerr.KindOf(err) == ncerr.ErrConflict {
		err = ncerr.Errorf(ncerr.ErrConflict, "grow", v.Path(), "somebody else has changed its metadata since the dataset was opened, and may have made it longer: open the dataset again")
	}
	return err
}

// ClearGrowth removes the mark of a writer that died while it was making a
// dimension longer, and the chunks that it left beyond the shapes. The caller
// must know that the writer is dead: a living writer loses what it wrote since
// its last Flush, and its next Flush fails. The dataset must be open for Update.
func (d *Dataset) ClearGrowth(ctx context.Context) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begun {
		return ncerr.Errorf(ncerr.ErrInvalid, "clear growth", zarr.GrowthMark, "this writer itself is making a dimension longer")
	}
	err := d.stopGrowth(ctx)
	if err == nil { // pure Zarr does not tell which dimensions the writer could make longer
		err = d.dropLeftovers(ctx, !d.layout.NCZarr())
	}
	if err == nil {
		err = d.m.Delete(ctx, zarr.GrowthMark)
	}
	return ncerr.Wrap("clear growth", zarr.GrowthMark, err)
}

// stopGrowth puts a mark of our own, with which the next Flush of the writer
// fails if it lives, and makes sure that the shapes in the metadata are still
// those by which leftovers are told: chunks within longer ones are values.
func (d *Dataset) stopGrowth(ctx context.Context) error {
	host, _ := os.Hostname() // for people
	text, err := json.Marshal(&GrowthMark{
		About:  "what a dead writer left is being removed",
		Writer: rand.Text(), Host: host, PID: os.Getpid(), Made: time.Now().UTC().Truncate(time.Second),
	})
	if err == nil {
		_, err = d.m.Put(ctx, zarr.GrowthMark, driver.Bytes(text), nil)
	}
	if err == nil {
		err = d.m.Flush(ctx)
	}
	if err != nil || d.flushed.Load() { // then the metadata is newer than what was read
		return err
	}
	keys := []string{d.rootDoc()}
	d.docs.mu.Lock()
	keys = slices.AppendSeq(keys, maps.Keys(d.docs.opened))
	d.docs.mu.Unlock()
	if err := d.compare(ctx, keys); err != nil {
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "the metadata has been written since the dataset was opened, so a writer lives; nothing was removed: %w", err)
	}
	return nil
}

// dropGrowth cleans up after a writer that gives up, if it has put a mark.
func (d *Dataset) dropGrowth(ctx context.Context) error {
	d.growth.mu.Lock()
	writer := d.growth.marked
	d.growth.mu.Unlock()
	if writer == "" {
		return nil
	}
	opts := d.opts
	opts.Update = true
	again, err := openAt(ctx, d.storeLoc(), opts) // with the shapes that the store has
	if err != nil {
		return err
	}
	defer again.m.Close(ctx) //nolint:errcheck // the mark has gone, or an error told
	if m, err := again.GrowthMark(ctx); err != nil || m == nil || m.Writer != writer {
		return err
	}
	return again.ClearGrowth(ctx)
}

// pending reports whether metadata has changed since it was written.
func (d *Dataset) pending() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	found := false
	d.top.each(func(g *Group) {
		found = found || g.changes.pending() || slices.ContainsFunc(g.vars.list, func(v *Var) bool { return v.in == nil && v.changes.pending() })
	})
	return found
}

// dropLeftovers removes all chunks beyond the shapes of variables that can grow, or
// of all, and sets to fill what lies beyond unlimited dimensions in the chunks at
// the edge.
func (d *Dataset) dropLeftovers(ctx context.Context, all bool) error {
	var vars []*Var
	d.mu.RLock()
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			if all && v.in == nil || slices.ContainsFunc(v.dims, func(d *Dim) bool { return d.unlimited }) {
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
	var beyond []manifest.Chunk
	var edge [][]int64
	target, ok := v.source().(manifest.Writer)
	if !ok {
		return nil // nothing of it is written
	}
	for ch, err := range target.Chunks(ctx, v.grid()) {
		if ncerr.KindOf(err) == ncerr.ErrMetadata {
			break // its chunks have other keys: no write made them
		}
		if err != nil {
			return err
		}
		out, part := false, false
		for i, n := range ch.Index {
			if n > maxDim/v.meta.Chunks[i] { // no array reaches there
				out, part = false, false
				break
			}
			first := n * v.meta.Chunks[i]
			out = out || first >= shape[i]
			part = part || v.dims[i].unlimited && first+v.meta.Chunks[i] > shape[i]
		}
		switch {
		case out:
			beyond = append(beyond, ch)
		case part:
			edge = append(edge, ch.Index)
		}
	}
	if err := target.Remove(ctx, beyond); err != nil {
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
