package nczarr

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Dataset is an open dataset.
type Dataset struct {
	loc    *ncurl.Location
	m      *zmap.Map
	opts   Options
	log    *slog.Logger
	layout zarr.Layout
	spec   driver.OpenSpec
	opener driver.Opener

	mu   sync.RWMutex // guards the tree below and all that hangs on it
	top  *Group       // root of the store
	root *Group       // where the URL points: top, or a group below it

	problems     []Problem
	staleDocs    []string // see StaleDocuments
	ncProperties string
	noXarray     bool
	strings      StringStorage
	frozen       string   // why no metadata can be written, or empty
	arrayOnly    bool     // the root of the store is an array
	consolidated bool     // .zmetadata is kept up to date
	inline       bool     // the zarr.json of the root has consolidated metadata
	unseen       []string // keys below which no nodes could be looked for
	getMany      bool     // many reads in one call pay
	created      bool
	swap         replacement // of the dataset that this one replaces, or nil
	flushed      atomic.Bool // a Flush has succeeded
	ours         atomic.Bool // a Flush has found the documents to be those that were opened, and may have changed them
	wrote        atomic.Bool // chunks may have been written
	announced    atomic.Bool // the documents of the root may have been written
	saving       sync.Mutex  // held by the one save at a time
	stale        bool        // .zmetadata is older than the documents; guarded by saving
	warned       atomic.Bool
	growth       growth
	making       making
	docs         documents
	up           *upper // nil if the dataset is no part of another one
}

// Root gives the group that the URL named: the root of the store, or the
// group below it that was opened.
func (d *Dataset) Root() *Group { return d.root }

// storeLoc gives the location of the root of the store, which is above
// Location if the dataset was opened at a group.
func (d *Dataset) storeLoc() *ncurl.Location {
	loc := *d.loc
	loc.Path = d.spec.Path
	return &loc
}

// Location gives what was made of the URL.
func (d *Dataset) Location() *ncurl.Location { return d.loc }

// Layout gives the metadata layout of the dataset.
func (d *Dataset) Layout() zarr.Layout { return d.layout }

// Map gives the store, for tools that look at its objects.
func (d *Dataset) Map() *zmap.Map { return d.m }

// NCProperties gives the provenance text that netCDF software writes into
// the root, or an empty string.
func (d *Dataset) NCProperties() string { return d.ncProperties }

// Consolidated reports whether the metadata was read from, or is written to,
// one consolidated document.
func (d *Dataset) Consolidated() bool { return d.consolidated }

// Problems gives what could not be read and was left out, in path order.
func (d *Dataset) Problems() []Problem {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return append([]Problem(nil), d.problems...)
}

// Name gives the dataset's name as CDL shows it: the last segment of its
// path without one extension.
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

// Codecs is the catalogue of the codecs that the registry has.
func (d *Dataset) Codecs() codec.Catalog { return d.opts.Registry.Filters() }

// Writable reports whether the dataset can be changed.
func (d *Dataset) Writable() bool { return !d.m.ReadOnly() }

// Flush writes all changed metadata and makes everything written so far
// durable. The document that makes a dataset visible, that of the root
// group, is written last. A dataset that replaces another one becomes visible
// at Close only.
func (d *Dataset) Flush(ctx context.Context) error { return d.flush(ctx, true) }

// flush is Flush; goes says that the dataset goes on being written.
func (d *Dataset) flush(ctx context.Context, goes bool) error {
	if !d.Writable() {
		return nil
	}
	if err := d.ownGrowth(ctx); err != nil {
		return err
	}
	if err := d.ownPlaces(ctx); err != nil {
		return err
	}
	if err := d.note(ctx); err != nil {
		return ncerr.Wrap("flush", d.loc.Path, err)
	}
	if err := d.beforeFlush(ctx); err != nil {
		return ncerr.Wrap("flush", "", err)
	}
	if err := d.save(ctx); err != nil {
		return err
	}
	if err := d.m.Flush(ctx); err != nil {
		return ncerr.Wrap("flush", "", err)
	}
	if goes && d.created && !d.flushed.Load() && !local(d.loc) && d.swap == nil { // nobody replaces it before the claim goes
		key, info, err := d.findAnchor(ctx)
		if err != nil {
			return ncerr.Wrap("flush", "", err)
		}
		d.docs.moor(key, info)
	}
	if err := d.leavePlace(ctx); err != nil {
		return ncerr.Wrap("flush", d.loc.Path, err)
	}
	d.flushed.Store(true)
	d.settleNew()
	return ncerr.Wrap("flush", zarr.GrowthMark, d.endGrowth(ctx))
}

// Close flushes a writable dataset and releases it. A dataset that replaces
// another one takes its place then. The dataset is released even when an error
// is returned; one that was to replace another is gone then, and the other is
// as it was.
func (d *Dataset) Close(ctx context.Context) error {
	err := d.flush(ctx, false)
	if err != nil {
		err = alsoFailed(err, d.dropNew(context.WithoutCancel(ctx)))
	}
	d.making.hold.Release()
	d.closeVars()
	d.up.close(ctx)
	if cerr := d.m.Close(ctx); err == nil && cerr != nil {
		err = ncerr.Wrap("close", "", cerr)
	}
	swap := d.swap
	if swap == nil {
		return err
	}
	d.swap, d.created = nil, false // there is nothing left for Abort
	if err != nil {
		return alsoFailed(err, swap.discard(context.WithoutCancel(ctx)))
	}
	return swap.commit(ctx)
}

// Abort releases the dataset without flushing. A dataset that was made by
// Create and never flushed is removed: nothing that looks whole stays behind.
// One that was to replace another is removed in any case.
func (d *Dataset) Abort(ctx context.Context) error {
	defer d.making.hold.Release()
	d.closeVars()
	d.up.close(ctx)
	err := ncerr.Wrap("close", "", d.m.Close(ctx))
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
	ctx = context.WithoutCancel(ctx) // cleaning up must happen after a cancellation too
	if rerr := d.removeNew(ctx); rerr != nil && ncerr.KindOf(rerr) != ncerr.ErrNoDataset {
		return ncerr.Wrap("remove", d.spec.Path, rerr)
	}
	return err
}

// removeNew removes a dataset that was made and never flushed. If somebody has
// put something else beside it meanwhile, or a node below that is not one of d's,
// that stays, and so does the place. If a dataset of others is at the place itself,
// nobody knows which chunks are whose, and all stay. Of a local directory only what
// is ours is removed, through the directory that was opened: somebody may put
// another in its place at any time.
func (d *Dataset) removeNew(ctx context.Context) error {
	if d.m.Capabilities().Durable == driver.OnFlush { // no Flush has succeeded: what is there is somebody else's
		return nil
	}
	again, err := newDataset(ctx, d.storeLoc(), d.opts, driver.Update)
	if err != nil {
		return err
	}
	d.making.left = false // without a claim what is there may be somebody else's by now
	hold := d.making.hold
	held := hold.Held()
	foreign, ours, err := false, []string(nil), d.ownPlace(ctx, again.m)
	if err == nil && held {
		err = hold.Check()
	}
	if err == nil {
		err = d.alone(ctx, again.m)
	}
	if err == nil {
		foreign, ours, err = d.sortOut(ctx, again.m)
	}
	remove := func(key string) error { return again.m.Delete(ctx, key) }
	if err == nil && (foreign || d.making.text != nil || held) { // the claim goes last
		err = each(ctx, slices.DeleteFunc(ours, func(key string) bool { return key == zarr.ReplacingMark }), movers, remove)
		if err == nil && foreign && d.making.text != nil {
			err = remove(zarr.ReplacingMark)
		}
	}
	if cerr := again.m.Close(ctx); err == nil {
		err = cerr
	}
	if err == nil && !foreign && held {
		err = hold.Remove(filepath.FromSlash(d.spec.Path))
	}
	if errors.Is(err, place.ErrReplaced) {
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "%w: nothing in it was removed", err)
	}
	if err != nil || foreign || held {
		return err
	}
	return d.opener.Remove(ctx, d.spec)
}

// alone fails if there is a dataset in a store into which d has not put the
// documents of a root.
func (d *Dataset) alone(ctx context.Context, m *zmap.Map) error {
	if d.announced.Load() {
		return nil
	}
	for _, name := range zarr.AnnouncingDocs() {
		there, err := m.Exists(ctx, name)
		if err != nil {
			return err
		}
		if there {
			return ncerr.Errorf(ncerr.ErrConflict, "", "", "somebody else has made a dataset there meanwhile, which may have chunks of this one")
		}
	}
	return nil
}

// sortOut reports whether a store has anything that is not of d, and returns
// what is. The documents of d need not have been written.
func (d *Dataset) sortOut(ctx context.Context, m *zmap.Map) (foreign bool, ours []string, err error) {
	if !m.Capabilities().List {
		return false, nil, nil
	}
	names, err := listKeys(ctx, m, "")
	if err != nil {
		return false, nil, err
	}
	docs, err := memberDocs(ctx, names, movers, d.opts.Limits, inStore(ctx, m))
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
	theirs := strangers(names, d.nodes())
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

// key gives the prefix of the group's keys: "" or "a/b/".
func (g *Group) key() string {
	if g.parent == nil {
		return ""
	}
	return g.path[1:] + "/"
}

// key gives the prefix of the variable's keys; "" when the store's root is
// the array itself.
func (v *Var) key() string {
	if v.data.atRoot {
		return ""
	}
	return v.group.key() + v.arrayName() + "/"
}
