package dataset

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
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Two processes may find the same location empty and create datasets there. Their chunks
// would be mixed, and the dataset that becomes visible would contain chunks of both. A
// process therefore claims the location first and then checks again that it is empty. A
// local directory is locked; the lock ends with the process. In other stores, the process
// puts the object zarr.ReplacingMark on the condition that it is absent, and deletes it
// after the first Flush has made the dataset visible; see also claimLook. Stages and
// archives need no claim: a stage has a unique name, and an archive appears in one step.

// newClaim is the claim of a new dataset on its location.
type newClaim struct {
	mu      sync.Mutex
	text    []byte                     // content of the claim object; nil without a claim
	version string                     // version of the claim object
	sent    []byte                     // content of a put with an unknown outcome, which may have replaced text; otherwise nil
	nodes   map[string]*zarr.ChunkKeys // nodes listed in text
	deleted bool                       // Delete was called for the object, and may have removed it even if it returned an error
	look    *claimLook                 // second look at the location; nil without a claim and after it has passed
	checked bool                       // the claim existed after the documents of the root were put
	early   time.Time                  // when verifyClaimEarly began to verify that the claim exists; zero if it did not find it
	hold    *place.Hold                // lock on a local directory
}

// maxClaim is the maximum size in bytes of a claim. A list of nodes that would make the
// claim larger is not written.
const maxClaim = 1 << 20

// creationNote is the explanation in the claim of a new dataset.
const creationNote = "a dataset is being created here; if its process died, nczctl clean removes what it left"

// errNotEmpty returns the error for a location that is no longer empty.
func errNotEmpty(loc *ncurl.Location) error {
	return ncerr.Errorf(ncerr.ErrConflict, "create", loc.Path, "another process created objects at this location at the same time: try again")
}

// lockEmpty locks a directory. It fails if the directory is not empty.
func lockEmpty(loc *ncurl.Location, l Limits) (*place.Hold, error) {
	at := filepath.FromSlash(loc.Path)
	h, err := place.NewHold(at)
	switch {
	case errors.Is(err, place.ErrHeld):
		return nil, ncerr.Errorf(ncerr.ErrConflict, "create", at, "another process is creating a dataset at this location: wait until it has finished")
	case errors.Is(err, fs.ErrNotExist) && isDangling(at):
		return nil, ncerr.Errorf(ncerr.ErrExists, "create", at, "the path is a symbolic link to a missing file")
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNotEmpty(loc)
	case err != nil:
		return nil, systemError("create", at, err)
	}
	c, err := localContents(driver.LocalDirectory, at, l)
	if err == nil && c.exists {
		err = errNotEmpty(loc)
	}
	if err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// isDangling reports whether a path is a symbolic link to a missing file.
func isDangling(path string) bool {
	_, err := os.Stat(path)
	_, lerr := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) && lerr == nil
}

// claimLocation claims the location of a new dataset in an open, empty store. It does
// nothing for stores without conditional writes and stores that write nothing before
// Flush.
func (d *Dataset) claimLocation(ctx context.Context, force bool) error {
	caps := d.m.Capabilities()
	if d.isLocal() || !caps.IfAbsent || !caps.List || !caps.Delete || caps.Durable == driver.OnFlush {
		return nil
	}
	text, err := claimText(Claim{About: creationNote, Creates: true})
	if err != nil {
		return err
	}
	d.newClaim.version, err = putClaim(ctx, d.m, "create", d.loc, text)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported { // the server lacks conditional writes although its driver declares them
		d.log.Warn("the location of the new dataset cannot be claimed: another process may create a dataset at the same time", "path", d.loc.Path, "error", err)
		return nil
	}
	d.newClaim.text = text
	if ncerr.IsContext(err) { // the claim may have been put
		err = joinCleanupError(err, d.newClaim.remove(context.WithoutCancel(ctx), d.m))
	}
	if err != nil {
		return err
	}
	d.beginLook(ctx, force)
	return nil
}

// putClaim puts a claim if none exists. It repeats a put with an unknown outcome, which
// is safe because no other process puts the same text.
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
	return "", claimedError(op, loc, claim, err)
}

// nodes returns the nodes of the dataset by their paths in the store. The value for a
// group is nil.
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

// addNodesToClaim verifies that the claim still exists, and adds the nodes of the
// dataset to it before their first objects are written. If the process dies, its
// objects can then be distinguished from those of others. addNodesToClaim fails if the
// second look at the location has failed.
func (d *Dataset) addNodesToClaim(ctx context.Context) error {
	k := &d.newClaim
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checked = false
	nodes, err := d.listNodesInClaim(ctx)
	if lerr := d.joinLook(ctx); lerr != nil { // after the put, to run at the same time
		return lerr
	}
	if err == nil {
		k.nodes = nodes
	}
	return err
}

// listNodesInClaim verifies that the claim still exists, and puts it with the nodes of the
// dataset, which it returns. The caller holds newClaim.mu.
func (d *Dataset) listNodesInClaim(ctx context.Context) (map[string]*zarr.ChunkKeys, error) {
	k := &d.newClaim
	if k.text == nil {
		return nil, nil
	}
	nodes := d.nodes()
	if k.deleted || maps.EqualFunc(k.nodes, nodes, func(a, b *zarr.ChunkKeys) bool { return a == b || a != nil && b != nil && *a == *b }) {
		if early := k.early; !k.deleted && !early.IsZero() && time.Since(early) < maxEarly {
			k.early = time.Time{}
			return k.nodes, nil
		}
		return k.nodes, k.check(ctx, d.m)
	}
	text, err := claimText(Claim{About: creationNote, Creates: true, Nodes: nodes, Format: d.layout.Format()})
	if err != nil {
		return nil, err
	}
	if len(text) > maxClaim { // nczctl clean keeps the objects of nodes that the claim does not list
		return nodes, k.check(ctx, d.m)
	}
	return nodes, k.change(ctx, d.m, text)
}

// maxEarly limits the time between verifyClaimEarly and the Flush that relies on it. A Flush on
// a slow server may take as long between its own check and its puts.
const maxEarly = 2 * time.Second

// verifyClaimEarly verifies that the claim still exists, at the same time as the last chunks of
// a write are put, which saves a round trip if the Flush follows. It does not wait. If the
// claim is removed later, checkPublished or releaseClaim notices it.
func (d *Dataset) verifyClaimEarly(ctx context.Context) {
	k := &d.newClaim
	if !k.mu.TryLock() {
		return
	}
	if k.text == nil || k.look != nil || k.deleted {
		k.mu.Unlock()
		return
	}
	go func() {
		defer k.mu.Unlock() // a Flush waits
		now := time.Now()
		k.early = time.Time{} // an earlier result no longer counts
		if k.check(ctx, d.m) == nil {
			k.early = now
		}
	}()
}

// addVarToClaim calls addNodesToClaim before chunks of v are written, unless the claim
// already lists v.
func (d *Dataset) addVarToClaim(ctx context.Context, v *Var) error {
	d.newClaim.mu.Lock()
	_, listed := d.newClaim.nodes[strings.TrimSuffix(v.key(), "/")]
	listed = listed || d.newClaim.text == nil && d.newClaim.look == nil
	d.newClaim.mu.Unlock()
	if listed {
		return nil
	}
	return d.addNodesToClaim(ctx)
}

// change replaces the text of the claim, which must still exist.
func (k *newClaim) change(ctx context.Context, m *zmap.Map, text []byte) error {
	conditional := m.Capabilities().IfMatch && k.version != ""
	if !conditional || k.sent != nil {
		if err := k.check(ctx, m); err != nil {
			return err
		}
	}
	var o driver.PutOptions
	if conditional {
		o.IfMatch = k.version
	}
	var info zmap.Info
	var err error
	for range 3 {
		info, err = m.Put(ctx, zarr.ReplacingMark, driver.Bytes(text), &o)
		if ncerr.KindOf(err) != ncerr.ErrAmbiguous {
			break
		}
	}
	if err != nil { // an earlier attempt may have succeeded
		now, is, rerr := m.ReadAll(ctx, zarr.ReplacingMark, maxClaim)
		if rerr != nil || !bytes.Equal(now, text) {
			k.sent = text
			return cmp.Or(k.check(ctx, m), err)
		}
		info = is
	}
	k.text, k.version, k.sent = text, info.Version, nil
	return nil
}

// checkClaim verifies that the claim still exists. A process that removed it may have
// removed chunks or be creating another dataset.
func (d *Dataset) checkClaim(ctx context.Context, m *zmap.Map) error {
	d.newClaim.mu.Lock()
	defer d.newClaim.mu.Unlock()
	return d.newClaim.check(ctx, m)
}

// checkPublished verifies that the claim still exists after a document of the root was put,
// so that releaseClaim need not. From then on, a process that removes the claim finds this
// document and keeps the chunks. A failure is left to releaseClaim, which checks again.
func (k *newClaim) checkPublished(ctx context.Context, m *zmap.Map) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checked = k.check(ctx, m) == nil
}

func (k *newClaim) check(ctx context.Context, m *zmap.Map) error {
	if k.text == nil {
		return nil
	}
	text, info, err := m.ReadAll(ctx, zarr.ReplacingMark, maxClaim)
	if err == nil && bytes.Equal(text, k.text) {
		return nil
	}
	if err == nil && k.sent != nil && bytes.Equal(text, k.sent) {
		k.text, k.version, k.sent = text, info.Version, nil
		return nil
	}
	if kind := ncerr.KindOf(err); err != nil && kind != ncerr.ErrNotFound && kind != ncerr.ErrNoDataset {
		return err
	}
	if err != nil && k.deleted {
		return nil
	}
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process removed the claim of this process while the dataset was being created")
}

// remove deletes the claim unless another process has removed it.
func (k *newClaim) remove(ctx context.Context, m *zmap.Map) error {
	err := k.check(ctx, m)
	if err == nil {
		err = m.Delete(ctx, zarr.ReplacingMark)
	} else if ncerr.KindOf(err) == ncerr.ErrConflict {
		err = nil
	}
	return err
}

// releaseClaim releases the claim after a Flush. It fails if the claim no longer
// exists, because chunks may then be missing from the visible dataset. Drivers have no
// conditional delete, so it may delete the claim of a process that has replaced this one since
// the check. That process then keeps the dataset, which is complete.
func (d *Dataset) releaseClaim(ctx context.Context) error {
	k := &d.newClaim
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold.Release()
	if !k.checked {
		if err := k.check(ctx, d.m); err != nil {
			return err
		}
	}
	if k.text == nil {
		return nil
	}
	k.deleted = true
	err := d.m.Delete(ctx, zarr.ReplacingMark)
	if ncerr.KindOf(err) == ncerr.ErrPermission { // without permission to delete, this process cannot replace datasets either
		d.log.Warn("the claim on the new dataset cannot be deleted; readers ignore it", "path", d.loc.Path, "key", zarr.ReplacingMark, "error", err)
		err = nil
	}
	if err == nil {
		k.text = nil
		err = d.m.Flush(ctx)
	}
	return err
}

// FindClaim returns the claim on a location, or nil if no claim exists. Only
// stores without rename have claims.
func FindClaim(ctx context.Context, loc *ncurl.Location, o *Options) (*Claim, error) {
	opts, err := o.complete(loc)
	if err != nil || opts.isLocal(ctx, loc) {
		return nil, err
	}
	return findClaim(ctx, loc, opts)
}

func findClaim(ctx context.Context, loc *ncurl.Location, opts Options) (*Claim, error) {
	opts.Remote.Cache = nil // bypass the cache
	s, err := openStore(ctx, loc, opts, driver.Read)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close(ctx) //nolint:errcheck // opened for reading only
	claim, err := readClaim(ctx, s.Map, zarr.ReplacingMark)
	if claim != nil {
		claim.place = displayLoc(loc)
	}
	return claim, err
}

// RemoveUnfinished cleans up after a process that died while it was creating a dataset.
// It removes the claim and, unless the dataset is complete, its objects. It keeps
// objects that may not belong to the dataset, and returns their keys. The caller must
// be sure that the process is dead; the next Flush of a live one fails. The error has
// the kind ncerr.ErrNotFound if no dataset was being created there.
func RemoveUnfinished(ctx context.Context, loc *ncurl.Location, o *Options) (others []string, err error) {
	opts, err := o.complete(loc)
	if err != nil {
		return nil, err
	}
	opts.Remote.Cache = nil // bypass the cache
	s, err := openStore(ctx, loc, opts, driver.Update)
	if err != nil {
		return nil, err
	}
	defer s.Close(ctx) //nolint:errcheck // it was flushed or an error is returned
	claim, err := readClaim(ctx, s.Map, zarr.ReplacingMark)
	if err == nil && (claim == nil || !claim.Creates) {
		err = ncerr.Errorf(ncerr.ErrNotFound, "clean", loc.Path, "no dataset is being created at this location")
	}
	if err != nil {
		return nil, err
	}
	text, err := claimText(Claim{About: "leftovers of a dead process are being removed; nczctl clean completes the removal if it was interrupted", Creates: true, Nodes: claim.Nodes, Format: claim.Format})
	if err == nil { // with this text, the Flush of a live process fails
		_, err = s.Put(ctx, zarr.ReplacingMark, driver.Bytes(text), nil)
	}
	var ours []string
	if err == nil {
		ours, others, err = sortUnfinished(ctx, s.Map, opts.Limits, claim)
	}
	if err == nil {
		err = each(ctx, ours, storeConcurrency, func(key string) error { return s.Delete(ctx, key) })
	}
	if err == nil {
		err = s.Delete(ctx, zarr.ReplacingMark)
	}
	if err == nil {
		err = s.Flush(ctx)
	}
	return others, err
}

// sortUnfinished divides the objects at the location of a claim into those of the dataset
// that was being created there and others. If a root document exists, the dataset is
// complete, and sortUnfinished returns no keys.
func sortUnfinished(ctx context.Context, m *zmap.Map, l Limits, claim *Claim) (ours, others []string, err error) {
	names, err := listKeys(ctx, m, "")
	if err != nil {
		return nil, nil, err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	for _, name := range append(zarr.NodeDocNames(), zarr.ConsolidatedDoc) {
		if there[name] {
			return nil, nil, nil
		}
	}
	docs, err := memberDocs(ctx, names, storeConcurrency, l, storeReader(ctx, m))
	if err != nil {
		return nil, nil, err
	}
	layout := zarr.FormatLayout(claim.Format, false)
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
	theirs := unknownNodes(names, known)
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

// unknownNodes returns the keys that are documents of nodes not in known, or lie below
// such nodes.
func unknownNodes(keys []string, known map[string]*zarr.ChunkKeys) map[string]bool {
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
