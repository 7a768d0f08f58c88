package nczarr

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A place where nothing is can be found by two who make a dataset there: their
// chunks would lie among each other, and the last root document would announce
// the mixture. So who makes a dataset claims the place, and looks at it once
// more after that. A local directory is locked, and the lock ends with the
// process. Other stores get the object zarr.ReplacingMark, put on condition that it is
// absent; it goes when the first Flush has made the dataset visible. A stage
// has a name that nobody else uses, and an archive appears in one step.

// making is the claim of a new dataset on its place.
type making struct {
	mu      sync.Mutex
	text    []byte                     // of the object in the store; nil if there is none
	version string                     // of the object
	nodes   map[string]*zarr.ChunkKeys // that the text names
	left    bool                       // the object may be deleted already, though that failed
	hold    *place.Hold                // of a local directory
}

// maxClaim is the most bytes of a claim, which names nodes. One that would be
// larger names none.
const maxClaim = 1 << 20

// aboutMaking is what the claim of a new dataset says to people.
const aboutMaking = "a dataset is being made here; nczctl clean removes what there is of it if its process died"

// errCame reports that a place is not empty any more.
func errCame(loc *ncurl.Location) error {
	return ncerr.Errorf(ncerr.ErrConflict, "create", loc.Path, "somebody else has made something there meanwhile: try again")
}

// holdEmpty locks a directory in which there is nothing.
func holdEmpty(loc *ncurl.Location, l Limits) (*place.Hold, error) {
	at := filepath.FromSlash(loc.Path)
	h, err := place.NewHold(at)
	switch {
	case errors.Is(err, place.ErrHeld):
		return nil, ncerr.Errorf(ncerr.ErrConflict, "create", at, "another process is making a dataset there: wait until it has ended")
	case errors.Is(err, fs.ErrNotExist) && isDangling(at):
		return nil, ncerr.Errorf(ncerr.ErrExists, "create", at, "a link is there that leads to nothing")
	case errors.Is(err, fs.ErrNotExist):
		return nil, errCame(loc)
	case err != nil:
		return nil, systemError("create", at, err)
	}
	c, err := localContents(loc.Driver, at, l)
	if err == nil && c.there {
		err = errCame(loc)
	}
	if err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// isDangling reports whether a link that leads to nothing is at a path.
func isDangling(path string) bool {
	_, err := os.Stat(path)
	_, lerr := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) && lerr == nil
}

// claimPlace claims the place of a new dataset in a store that is open and
// empty. Stores without conditional writes, and those where nothing is there
// before Flush, cannot be claimed.
func (d *Dataset) claimPlace(ctx context.Context, force bool) error {
	caps := d.m.Capabilities()
	if local(d.loc) || !caps.IfAbsent || !caps.List || !caps.Delete || caps.Durable == driver.OnFlush {
		return nil
	}
	text, err := claimText(Claim{About: aboutMaking, Makes: true})
	if err != nil {
		return err
	}
	d.making.version, err = putClaim(ctx, d.m, "create", d.loc, text)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported { // the server knows no conditions, whatever its driver says
		d.log.Warn("the place of the new dataset cannot be claimed: another process may make one there at the same time", "path", d.loc.Path, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	d.making.text = text
	for e, lerr := range d.m.List(ctx, "", nil) { // whoever was here before the claim may have finished
		if err = lerr; err == nil && e.Key != zarr.ReplacingMark {
			err = errCame(d.loc)
		}
		if err != nil {
			break
		}
	}
	if err == nil && !force { // who claims a place above lists it after that
		err = outsideInBucket(ctx, d.loc, d.opts, zarr.ReplacingMark)
	}
	if err != nil {
		return alsoFailed(err, d.m.Delete(context.WithoutCancel(ctx), zarr.ReplacingMark))
	}
	return nil
}

// putClaim puts a claim where there is none. A put of which the outcome is unknown
// is repeated: nobody else has the same text.
func putClaim(ctx context.Context, m *zmap.Map, op string, loc *ncurl.Location, text []byte) (version string, err error) {
	var info zmap.Info
	for range 3 {
		info, err = m.Put(ctx, zarr.ReplacingMark, driver.Bytes(text), &driver.PutOptions{IfAbsent: true})
		if ncerr.KindOf(err) != ncerr.ErrAmbiguous {
			break
		}
	}
	if ncerr.KindOf(err) != ncerr.ErrObjectExists {
		return info.Version, err
	}
	if now, info, rerr := m.ReadAll(ctx, zarr.ReplacingMark, maxClaim); rerr == nil && bytes.Equal(now, text) {
		return info.Version, nil
	}
	claim, err := readClaim(ctx, m, zarr.ReplacingMark)
	return "", claimed(op, loc, claim, err)
}

// nodes returns the nodes of the dataset by their paths in the store; groups have
// no keys of chunks.
func (d *Dataset) nodes() map[string]*zarr.ChunkKeys {
	d.mu.RLock()
	defer d.mu.RUnlock()
	nodes := make(map[string]*zarr.ChunkKeys)
	d.top.each(func(g *Group) {
		nodes[strings.TrimSuffix(g.key(), "/")] = nil
		for _, v := range g.vars.list {
			keys := v.meta.Keys
			nodes[strings.TrimSuffix(v.key(), "/")] = &zarr.ChunkKeys{Rank: len(v.dims), Separator: string(rune(keys.Separator)), Prefix: keys.Prefix}
		}
	})
	return nodes
}

// note makes sure that the claim is still there, and has it name the nodes of the
// dataset before anything of them is written: what a dead process leaves can be
// told from what is others' then.
func (d *Dataset) note(ctx context.Context) error {
	k := &d.making
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.text == nil {
		return nil
	}
	nodes := d.nodes()
	if k.left || maps.EqualFunc(k.nodes, nodes, func(a, b *zarr.ChunkKeys) bool { return a == b || a != nil && b != nil && *a == *b }) {
		return k.check(ctx, d.m)
	}
	text, err := claimText(Claim{About: aboutMaking, Makes: true, Nodes: nodes, Format: d.layout.Format()})
	if err != nil {
		return err
	}
	if len(text) > maxClaim { // clean leaves what is not named
		k.nodes = nodes
		return k.check(ctx, d.m)
	}
	if err := k.change(ctx, d.m, text); err != nil {
		return err
	}
	k.nodes = nodes
	return nil
}

// noteVar is note before chunks of v are written, unless the claim names v.
func (d *Dataset) noteVar(ctx context.Context, v *Var) error {
	d.making.mu.Lock()
	_, named := d.making.nodes[strings.TrimSuffix(v.key(), "/")]
	named = named || d.making.text == nil
	d.making.mu.Unlock()
	if named {
		return nil
	}
	return d.note(ctx)
}

// change puts another text into the claim, which must still be there.
func (k *making) change(ctx context.Context, m *zmap.Map, text []byte) error {
	var o driver.PutOptions
	if m.Capabilities().IfMatch {
		o.IfMatch = k.version
	}
	if o.IfMatch == "" {
		if err := k.check(ctx, m); err != nil {
			return err
		}
	}
	var info zmap.Info
	var err error
	for range 3 {
		info, err = m.Put(ctx, zarr.ReplacingMark, driver.Bytes(text), &o)
		if ncerr.KindOf(err) != ncerr.ErrAmbiguous {
			break
		}
	}
	if err != nil { // an earlier try may have been the one that succeeded
		now, is, rerr := m.ReadAll(ctx, zarr.ReplacingMark, maxClaim)
		if rerr != nil || !bytes.Equal(now, text) {
			return cmp.Or(k.check(ctx, m), err)
		}
		info = is
	}
	k.text, k.version = text, info.Version
	return nil
}

// ownPlace makes sure that the claim is still there: whoever took it away may
// have removed chunks, or be making another dataset.
func (d *Dataset) ownPlace(ctx context.Context, m *zmap.Map) error {
	d.making.mu.Lock()
	defer d.making.mu.Unlock()
	return d.making.check(ctx, m)
}

func (k *making) check(ctx context.Context, m *zmap.Map) error {
	if k.text == nil {
		return nil
	}
	text, _, err := m.ReadAll(ctx, zarr.ReplacingMark, maxClaim)
	if err == nil && bytes.Equal(text, k.text) {
		return nil
	}
	if kind := ncerr.KindOf(err); err != nil && kind != ncerr.ErrNotFound && kind != ncerr.ErrNoDataset {
		return err
	}
	if err != nil && k.left {
		return nil
	}
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "somebody has taken this process for dead, and has taken the place over while the dataset was being made there")
}

// leavePlace gives the claim up, after a Flush. The claim must have been there
// until now: else chunks may be missing from what is visible.
func (d *Dataset) leavePlace(ctx context.Context) error {
	k := &d.making
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold.Release()
	err := k.check(ctx, d.m)
	if err != nil || k.text == nil {
		return err
	}
	k.left = true
	err = d.m.Delete(ctx, zarr.ReplacingMark)
	if ncerr.KindOf(err) == ncerr.ErrPermission { // who may not delete replaces nothing either
		d.log.Warn("the claim on the new dataset cannot be deleted; readers do not mind it", "path", d.loc.Path, "key", zarr.ReplacingMark, "error", err)
		err = nil
	}
	if err == nil {
		k.text = nil
		err = d.m.Flush(ctx)
	}
	return err
}

// FindClaim returns the claim on the place that url names, on stores without
// rename, or nil if there is none.
func FindClaim(ctx context.Context, url string, o *Options) (*Claim, error) {
	opts, loc, err := resolve(url, o, false)
	if err != nil || local(loc) {
		return nil, err
	}
	return findClaim(ctx, loc, opts)
}

func findClaim(ctx context.Context, loc *ncurl.Location, opts Options) (*Claim, error) {
	opts.Remote.Cache = nil // what is in the store counts
	ds, err := newDataset(ctx, loc, opts, driver.Read)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer ds.m.Close(ctx) //nolint:errcheck // only read
	claim, err := readClaim(ctx, ds.m, zarr.ReplacingMark)
	if claim != nil {
		claim.place = shown(loc)
	}
	return claim, err
}

// RemoveUnfinished removes what a process that died has left of the dataset
// that it was making: its claim, and the objects there if it had not finished.
// Objects that cannot be shown to be of that dataset stay, and are returned. The
// caller must know that the process is dead: if it lives, its Flush fails. The
// error is of kind ncerr.ErrNotFound if nobody was making a dataset there.
func RemoveUnfinished(ctx context.Context, url string, o *Options) (others []string, err error) {
	opts, loc, err := resolve(url, o, false)
	if err != nil {
		return nil, err
	}
	opts.Remote.Cache = nil // what is in the store counts
	ds, err := newDataset(ctx, loc, opts, driver.Update)
	if err != nil {
		return nil, err
	}
	defer ds.m.Close(ctx) //nolint:errcheck // it has been flushed, or an error told
	claim, err := readClaim(ctx, ds.m, zarr.ReplacingMark)
	if err == nil && (claim == nil || !claim.Makes) {
		err = ncerr.Errorf(ncerr.ErrNotFound, "clean", loc.Path, "no dataset is being made here")
	}
	if err != nil {
		return nil, err
	}
	text, err := claimText(Claim{About: "what a dead process has left is being removed; nczctl clean goes on if that has died", Makes: true, Nodes: claim.Nodes, Format: claim.Format})
	if err == nil { // with which the Flush of the process fails, should it live
		_, err = ds.m.Put(ctx, zarr.ReplacingMark, driver.Bytes(text), nil)
	}
	var ours []string
	if err == nil {
		ours, others, err = ds.unfinished(ctx, claim)
	}
	if err == nil {
		err = each(ctx, ours, movers, func(key string) error { return ds.m.Delete(ctx, key) })
	}
	if err == nil {
		err = ds.m.Delete(ctx, zarr.ReplacingMark)
	}
	if err == nil {
		err = ds.m.Flush(ctx)
	}
	return others, err
}

// unfinished sorts the objects at a place where the dataset of a claim was being
// made. If the document of a root is there, somebody has finished one, and nothing
// is to be removed.
func (d *Dataset) unfinished(ctx context.Context, claim *Claim) (ours, others []string, err error) {
	names, err := listKeys(ctx, d.m, "")
	if err != nil {
		return nil, nil, err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	for _, name := range append(zarr.AnnouncingDocs(), zarr.ConsolidatedDoc) {
		if there[name] {
			return nil, nil, nil
		}
	}
	docs, err := memberDocs(ctx, names, movers, d.opts.Limits, inStore(ctx, d.m))
	if err != nil {
		return nil, nil, err
	}
	layout := zarr.FormatLayout(claim.Format)
	known := map[string]*zarr.ChunkKeys{"": nil}
	root, doc, _ := layout.NodeDoc(nil)
	all := append(slices.Clone(names), root)
	if doc != nil {
		docs[root] = doc
	}
	for dir, keys := range claim.Nodes {
		own, doc, other := layout.NodeDoc(keys)
		if dir == "" || slices.ContainsFunc(other, func(name string) bool { return there[docKey(dir, name)] }) {
			continue
		}
		own = docKey(dir, own)
		if there[own] && !layout.Describes(keys, docs[own]) {
			continue
		}
		if doc != nil {
			docs[own] = doc
		}
		known[dir] = keys
		all = append(all, own)
	}
	theirs := strangers(names, known)
	foreign, _ := zarr.Foreign(all, docs)
	for _, name := range foreign {
		theirs[name] = true
	}
	for _, name := range names {
		switch {
		case name == zarr.ReplacingMark:
		case theirs[name]:
			others = append(others, name)
		default:
			ours = append(ours, name)
		}
	}
	return ours, others, nil
}

// strangers returns those of the keys in a store that are documents of a node
// which is not among the known ones, or lie below one.
func strangers(keys []string, known map[string]*zarr.ChunkKeys) map[string]bool {
	strange := make(map[string]bool) // by directory
	for _, key := range keys {
		dir, name := splitKey(key)
		if _, ok := known[dir]; !ok && dir != "" && zarr.IsZarrDoc(name) {
			strange[dir] = true
		}
	}
	out := make(map[string]bool)
	for _, key := range keys {
		for dir, _ := splitKey(key); dir != ""; dir, _ = splitKey(dir) {
			if strange[dir] {
				out[key] = true
				break
			}
		}
	}
	return out
}

// listKeys returns all keys of a store that begin with prefix.
func listKeys(ctx context.Context, m *zmap.Map, prefix string) ([]string, error) {
	var keys []string
	for e, err := range m.ListAll(ctx, prefix, &zmap.ListOptions{Recursive: true}) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, e.Key)
	}
	return keys, nil
}
