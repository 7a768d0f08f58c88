package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Dataset is an open dataset.
type Dataset struct {
	loc    *ncurl.Location
	store  *store.Store
	tree   *Tree     // the source of documents and chunks, if it is not a Zarr store
	m      *zmap.Map // of store
	opts   Options
	log    *slog.Logger
	layout zarr.Layout

	mu   sync.RWMutex // guards the tree of groups, dimensions and variables
	top  *Group       // the root of the store
	root *Group       // the group at the URL: top or a group below it

	problems      []Problem
	staleDocs     []string // see StaleDocuments
	ncProperties  string
	noXarray      bool
	strings       StringStorage
	frozen        string   // why metadata cannot be written; empty if it can
	arrayOnly     bool     // the root of the store is an array
	consolidated  bool     // consolidated metadata was read, or is kept up to date by writes
	inline        bool     // the root's zarr.json contains consolidated metadata
	unsearched    []string // key prefixes that could not be searched for nodes
	created       bool
	swap          replacement // how this dataset replaces an existing one, or nil
	flushed       atomic.Bool // a Flush has succeeded
	docsVerified  atomic.Bool // a Flush has verified the documents against those that were opened, and may have changed them since
	chunksWritten atomic.Bool // chunks may have been written
	announced     atomic.Bool // the root's documents may have been written
	saving        sync.Mutex  // serializes saves
	stale         bool        // consolidated metadata is older than the documents; guarded by saving
	mixed         bool        // consolidated metadata also has nodes and changes of other writers; guarded by saving
	unadopted     []saved     // nodes that a failed save has merged: see merging.adopted; guarded by saving
	// uncopied holds the key prefixes of nodes whose documents this process has put and that
	// consolidated metadata may not repeat yet; guarded by mu.
	uncopied map[string]bool
	warned   atomic.Bool
	growth   growth
	newClaim newClaim
	docs     documents
	cache    *array.Cache
	buffer   *array.WriteBuffer
	upper    *upper // set only if the dataset may be part of another one above it
}

// Root returns the group at the URL: the root of the store, or the group below it that
// was opened.
func (d *Dataset) Root() *Group { return d.root }

// storeLoc returns the location of the root of the store. It is above Location if the
// dataset was opened at a group.
func (d *Dataset) storeLoc() *ncurl.Location {
	loc := *d.loc
	loc.Path = d.store.Path()
	return &loc
}

// Location returns the location that Open inferred from the URL.
func (d *Dataset) Location() *ncurl.Location { return d.loc }

// Layout returns the metadata layout of the dataset.
func (d *Dataset) Layout() zarr.Layout { return d.layout }

// Map returns the store, for tools that examine its objects.
func (d *Dataset) Map() *zmap.Map { return d.m }

// NCProperties returns the provenance text that netCDF software writes into the root,
// or an empty string.
func (d *Dataset) NCProperties() string { return d.ncProperties }

// Consolidated reports whether the metadata was read from, or is written to, a
// consolidated document.
func (d *Dataset) Consolidated() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.consolidated
}

// Problems returns the parts of the dataset that could not be read and were left out,
// in path order.
func (d *Dataset) Problems() []Problem {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return append([]Problem(nil), d.problems...)
}

// Name returns the dataset's name as CDL shows it: the last segment of its path without
// one extension.
func (d *Dataset) Name() string {
	base := path.Base(strings.TrimRight(strings.ReplaceAll(d.loc.Path, `\`, "/"), "/"))
	if ext := path.Ext(base); ext != "" && ext != base {
		base = strings.TrimSuffix(base, ext)
	}
	if base == "." || base == "/" || base == "" {
		return "dataset"
	}
	return base
}

// Codecs returns the catalog of the codecs in the registry.
func (d *Dataset) Codecs() codec.Catalog { return d.opts.Registry.Filters() }

// Writable reports whether the dataset can be changed.
func (d *Dataset) Writable() bool { return !d.m.ReadOnly() }

// Flush stores all parts of chunks that Var.Write has buffered, writes all changed
// metadata and makes everything written so far durable. It writes the root group's
// document, which makes a dataset visible, last. A dataset that replaces another one
// becomes visible only at Close. If Flush fails, the data that it could not store stays
// in memory, and the next Flush tries again. If Flush cannot store a chunk for a reason
// that concerns only this chunk, such as damaged content, it stores the other chunks,
// writes the metadata and returns the error of the chunk. It does not write the metadata
// if the dataset is new or replaces another one, or if the chunk has elements beyond the
// lengths in the store.
//
// Flush merges the changes of other writers to the documents that it puts. In memory the
// attributes of these groups and variables become those in the store, and dimensions have the
// larger length. If another writer has set the same attribute to another
// value, Flush does not write the document with the attribute but writes everything else. It
// then fails with ncerr.ErrConflict, and so does each further Flush until the change is undone.
func (d *Dataset) Flush(ctx context.Context) error { return d.flush(ctx, true) }

// flush implements Flush. more is set if further writes may follow.
func (d *Dataset) flush(ctx context.Context, more bool) error {
	if !d.Writable() {
		return nil
	}
	var unstored error // the error of a chunk or document; the Flush writes everything else
	var err error
	for again := true; again && err == nil; {
		// This comes before the buffer is held, because a write that waits for the buffer may
		// hold the memory that it needs.
		if err = d.dropFailedWrites(ctx); err != nil {
			break
		}
		// Buffered chunks come first, because the metadata includes the lengths that their
		// writes have extended.
		err = d.buffer.Flush(ctx, func(err error, beyond bool) error {
			if err != nil && (beyond || d.swap != nil || d.created && !d.flushed.Load()) { // without the chunk, elements of a new length or dataset would be missing
				return ncerr.Errorf(ncerr.KindOf(err), "", "", "the metadata was not written, because a chunk cannot be stored: %w", err)
			}
			unstored = err
			if again = d.hasFailedWrites(); again { // a write has failed in the meantime
				return nil
			}
			return d.publish(ctx, &unstored)
		})
	}
	if err == nil {
		err = d.afterSave(ctx, more)
	}
	if err != nil && unstored != nil {
		err = joinErrors(err, unstored)
	}
	return ncerr.Wrap("flush", "", cmp.Or(err, unstored))
}

// publish writes the metadata. It adds to unstored the error of a document that it does not
// write because of a conflict.
func (d *Dataset) publish(ctx context.Context, unstored *error) error {
	if err := d.checkBeforePublishing(ctx); err != nil {
		return err
	}
	if err := d.addNodesToClaim(ctx); err != nil {
		return ncerr.Wrap("flush", d.loc.Path, err)
	}
	if err := d.beforeFlush(ctx); err != nil {
		return ncerr.Wrap("flush", "", err)
	}
	lengths := d.lengths()
	switch err := d.save(ctx); {
	case isMergeConflict(err):
		*unstored = joinErrors(err, *unstored)
	case err != nil:
		return err
	default:
		d.setStored(lengths)
	}
	return nil
}

// joinErrors returns an error with the kind of the first of two errors, of which the second may
// be nil.
func joinErrors(first, second error) error {
	if second == nil {
		return first
	}
	return fmt.Errorf("%w (and something else could not be stored: %w)", first, second)
}

// afterSave completes a Flush that has written the metadata.
func (d *Dataset) afterSave(ctx context.Context, more bool) error {
	if err := d.m.Flush(ctx); err != nil {
		return err
	}
	if more && d.created && !d.flushed.Load() && !d.isLocal() && d.swap == nil { // the claim prevents a replacement until it is released
		key, info, err := d.findAnchor(ctx)
		if err != nil {
			return err
		}
		d.docs.setAnchor(key, info)
		if err := d.noteTimes(ctx, key); err != nil {
			return err
		}
	}
	if err := d.releaseClaim(ctx); err != nil {
		return ncerr.Wrap("flush", d.loc.Path, err)
	}
	d.flushed.Store(true)
	d.markFlushed()
	return ncerr.Wrap("flush", zarr.GrowthMark, d.endGrowth(ctx, more))
}

// Close flushes a writable dataset and releases it. If the dataset replaces another one,
// Close makes the replacement. It releases the dataset even if it returns an error, and
// discards the data that it could not store. To be able to try again, call Flush first.
// If Close fails before the replacement begins, it removes the new dataset, and the old
// one is unchanged.
func (d *Dataset) Close(ctx context.Context) error {
	err := d.flush(ctx, false)
	if err != nil {
		err = joinCleanupError(err, d.dropNew(context.WithoutCancel(ctx)))
	}
	if merr := d.dropIdleMark(context.WithoutCancel(ctx)); err == nil {
		err = merr
	}
	d.newClaim.hold.Release()
	d.growth.release()
	d.closeVars()
	d.upper.close(ctx)
	_ = d.endLook(context.WithoutCancel(ctx)) // it has passed or the Flush has failed
	if cerr := d.m.Close(ctx); err == nil && cerr != nil {
		err = ncerr.Wrap("close", "", cerr)
	}
	swap := d.swap
	if swap == nil {
		return err
	}
	d.swap, d.created = nil, false // Abort has nothing left to do
	if err != nil {
		return joinCleanupError(err, swap.discard(context.WithoutCancel(ctx)))
	}
	return swap.commit(ctx)
}

// Abort releases the dataset without flushing. It removes a dataset that was created and
// never flushed, so that no partial dataset remains. It always removes a dataset that
// would have replaced another one at Close.
func (d *Dataset) Abort(ctx context.Context) error {
	defer d.newClaim.hold.Release()
	defer d.growth.release()
	d.closeVars()
	d.upper.close(ctx)
	err := d.dropIdleMark(context.WithoutCancel(ctx))
	lost := d.endLook(context.WithoutCancel(ctx)) != nil
	if cerr := d.m.Close(ctx); err == nil {
		err = ncerr.Wrap("close", "", cerr)
	}
	if d.swap != nil {
		swap := d.swap
		d.swap, d.created = nil, false
		if derr := swap.discard(context.WithoutCancel(ctx)); err == nil {
			err = derr
		}
		return err
	}
	if !d.created || d.flushed.Load() {
		for _, drop := range []func(context.Context) error{d.dropNew, d.dropGrowth} {
			if derr := drop(context.WithoutCancel(ctx)); err == nil {
				err = derr
			}
		}
		return err
	}
	if lost { // the location contains no objects of d
		if cerr := d.newClaim.look.cleanup; err == nil {
			err = ncerr.Wrap("remove", d.store.Path(), cerr)
		}
		return err
	}
	ctx = context.WithoutCancel(ctx) // clean up even after a cancellation
	if rerr := d.removeNew(ctx); rerr != nil && ncerr.KindOf(rerr) != ncerr.ErrNoDataset {
		return ncerr.Wrap("remove", d.store.Path(), rerr)
	}
	return err
}

// removeNew removes a dataset that was created and never flushed. It keeps objects and
// nodes that other processes have added in the meantime; if any exist, it also keeps the
// location. If another process has created a dataset at the same location, it keeps
// everything, because the chunks of the two datasets cannot be distinguished. In a local
// directory removeNew deletes only d's own files, through the directory handle that was
// opened, because another process may replace the directory at any time.
func (d *Dataset) removeNew(ctx context.Context) error {
	if d.m.Capabilities().Durable == driver.OnFlush { // no Flush has succeeded, so the objects belong to another process
		return nil
	}
	again, err := openStore(ctx, d.storeLoc(), d.opts, driver.Update)
	if err != nil {
		return err
	}
	d.newClaim.deleted = false // if the claim is gone, the objects may belong to another process
	hold := d.newClaim.hold
	held := hold.Held()
	foreign, ours, err := false, []string(nil), d.checkClaim(ctx, again.Map)
	if err == nil && held {
		err = hold.Check()
	}
	if err == nil {
		err = d.checkNoOtherDataset(ctx, again.Map)
	}
	if err == nil {
		foreign, ours, err = d.separateForeign(ctx, again.Map)
	}
	remove := func(key string) error { return again.Delete(ctx, key) }
	if err == nil && (foreign || d.newClaim.text != nil || held) { // delete the claim last
		err = each(ctx, slices.DeleteFunc(ours, func(key string) bool { return key == zarr.ReplacingMark }), storeConcurrency, remove)
		if err == nil && foreign && d.newClaim.text != nil {
			err = remove(zarr.ReplacingMark)
		}
	}
	if cerr := again.Close(ctx); err == nil {
		err = cerr
	}
	if err == nil && !foreign && held {
		err = hold.Remove(filepath.FromSlash(d.store.Path()))
	}
	if errors.Is(err, place.ErrReplaced) {
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "%w; nothing was removed", err)
	}
	if err != nil || foreign || held {
		return err
	}
	return d.store.Remove(ctx)
}

// checkNoOtherDataset fails if the store contains a dataset although d has not written the
// documents of a root.
func (d *Dataset) checkNoOtherDataset(ctx context.Context, m *zmap.Map) error {
	if d.announced.Load() {
		return nil
	}
	for _, name := range zarr.NodeDocNames() {
		there, err := m.Exists(ctx, name)
		if err != nil {
			return err
		}
		if there {
			return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process created a dataset at this location at the same time, and it may contain chunks of this one")
		}
	}
	return nil
}

// separateForeign reports whether a store contains objects that do not belong to d, and
// returns the keys of the objects that do. Documents of d belong to d even before they
// are written.
func (d *Dataset) separateForeign(ctx context.Context, m *zmap.Map) (foreign bool, ours []string, err error) {
	if !m.Capabilities().List {
		return false, nil, nil
	}
	names, err := listKeys(ctx, m, "")
	if err != nil {
		return false, nil, err
	}
	docs, err := memberDocs(ctx, names, storeConcurrency, d.opts.Limits, storeReader(ctx, m))
	if err != nil {
		return false, nil, err
	}
	d.mu.Lock()
	nodes, err := d.collect()
	d.mu.Unlock()
	if err != nil {
		return false, nil, err
	}
	all := slices.Clone(names)
	for _, n := range nodes {
		for name, doc := range n.docs {
			docs[n.prefix+name] = doc
			all = append(all, n.prefix+name)
		}
	}
	theirs := unknownNodes(names, d.nodes())
	others, _ := zarr.Foreign(all, docs)
	for _, key := range others {
		theirs[key] = true
	}
	for _, key := range names {
		if !theirs[key] {
			ours = append(ours, key)
		}
	}
	return len(theirs) > 0, ours, nil
}

// Refresh discards cached chunks and shard indexes, so that later reads fetch them from
// the store again. Without Refresh, a chunk of which a part has been read keeps the
// content it had at the time of that read, even if another program changes it. Writes
// to the dataset itself are always visible. Refresh does not read metadata again: open
// the dataset again to see new variables and lengths. It is safe for concurrent use.
func (d *Dataset) Refresh() {
	d.mu.RLock()
	defer d.mu.RUnlock()
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			if a := v.data.array.Load(); a != nil {
				a.Forget()
			}
		}
	})
}

// closeVars releases the codec pipelines.
func (d *Dataset) closeVars() {
	d.mu.RLock()
	defer d.mu.RUnlock()
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			v.data.close()
		}
	})
}

// each calls f for g and every group below it, parents first.
func (g *Group) each(f func(*Group)) {
	f(g)
	for _, sub := range g.groups.list {
		sub.each(f)
	}
}

// key returns the prefix of the group's keys: "" or "a/b/".
func (g *Group) key() string {
	if g.parent == nil {
		return ""
	}
	return g.path[1:] + "/"
}

// key returns the prefix of the variable's keys; "" if the root of the store is the
// array itself.
func (v *Var) key() string {
	if v.data.atRoot {
		return ""
	}
	return v.group.key() + v.arrayName() + "/"
}
