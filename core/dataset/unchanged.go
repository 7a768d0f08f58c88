package dataset

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// If a dataset is replaced while it is being read, a reader may get a mixture of old
// and new chunks, and the fill value for chunks that are absent for a while. The document
// that represents the dataset is therefore compared with its version at the time of
// opening: after all reads, and after each read that found absent chunks. In the latter
// case the document of the array is compared as well.
//
// A replacement removes the root's documents first and puts the new ones last. If a
// root document is found unchanged, everything read before belongs to one dataset. The
// version alone is not sufficient, because most of these documents have the same bytes
// in all datasets.

// maxAttempts is the maximum number of attempts that are recorded for a document.
const maxAttempts = 8

// rootDoc returns the key of the document that represents the dataset as a whole: the
// consolidated document if the metadata was read from it, and the root's own otherwise.
func (d *Dataset) rootDoc() string {
	names := append(d.layout.IdentityDocs(), zarr.AttrsDoc)
	if !d.Writable() && d.consolidated { // writers read the individual documents if they exist
		names = slices.Insert(names, 0, zarr.ConsolidatedDoc)
	}
	for _, name := range names {
		if _, ok := d.docs.known(name); ok {
			return name
		}
	}
	return ""
}

// checkAfterAbsent fails if the array or the dataset has changed since it was opened. It
// must be called after each operation that found a chunk of v absent. It does not check a
// dataset that is open for writing, because the process itself changes the documents.
func (v *Var) checkAfterAbsent(ctx context.Context) error {
	ds := v.group.ds
	if ds.Writable() {
		return nil
	}
	ds.docs.mu.Lock()
	if ds.docs.sparse == nil {
		ds.docs.sparse = make(map[*Var]bool)
	}
	ds.docs.sparse[v] = true
	ds.docs.mu.Unlock()
	if err := ds.upper.checkUnclaimed(ctx, "read"); err != nil {
		return err
	}
	return ds.compare(ctx, []string{ds.rootDoc(), v.key() + ds.layout.ArrayDoc()})
}

// CheckUnchanged fails with ncerr.ErrConflict if the dataset was changed or replaced
// after it was opened, so that the values read may come from more than one dataset.
// Call it after the last read: a read itself checks this only if it found absent
// chunks.
//
// CheckUnchanged sends one request, and another one for each array that had absent
// chunks. In a bucket, an array or a group without a superblock may be part of a
// dataset above it. CheckUnchanged then first sends one request for each prefix above,
// to check whether that dataset is being replaced. It does not check datasets in stores
// without versions and times, or datasets that are open for writing. [Copy] calls it
// for its source.
func (d *Dataset) CheckUnchanged(ctx context.Context) error {
	if d.Writable() {
		return nil
	}
	keys := []string{d.rootDoc()}
	d.docs.mu.Lock()
	for v := range d.docs.sparse {
		keys = append(keys, v.key()+d.layout.ArrayDoc())
	}
	d.docs.mu.Unlock()
	if err := d.upper.checkUnclaimed(ctx, "read"); err != nil {
		return err
	}
	return d.compare(ctx, keys)
}

// In stores without rename, a dataset is replaced object by object. A writer must not
// write into a dataset that has replaced the one that it opened. It therefore checks one
// document, the anchor, that a replacement always rewrites and an update rarely changes.
// In each batch it checks the anchor after reading the chunks that it changes in part and
// before the first put. A chunk that is changed in part is put only if its stored version
// is still the one that was read from the old dataset. Such a chunk can therefore reach
// the new dataset only if it has the same version in both datasets or is absent from
// both. A chunk that is overwritten as a whole can reach the new dataset if the
// replacement happens between the check and the put. A replacement looks for such chunks
// before it ends (see sibling.lateChanges).

// replaceable reports whether another process can replace the dataset while it is open,
// so that writes would be stored in the new one. Open directories and archives do not
// change identity, and a claim protects a dataset that is being created.
func (d *Dataset) replaceable() bool {
	return !d.isLocal() && d.swap == nil && (!d.created || d.flushed.Load())
}

// checkNotReplaced fails if the dataset can be replaced and is no longer the one that
// was opened. It sends one request; the first call may send more.
func (d *Dataset) checkNotReplaced(ctx context.Context) error {
	if !d.replaceable() {
		return nil
	}
	return d.docs.check.do(ctx, func() error {
		if err := d.upper.checkUnclaimed(ctx, "write"); err != nil {
			return err
		}
		return d.checkAnchor(ctx)
	})
}

func (d *Dataset) checkAnchor(ctx context.Context) error {
	if key, events := d.docs.anchored(); key != "" {
		err := d.sameDocs(ctx, key)
		if _, now := d.docs.anchored(); ncerr.KindOf(err) == ncerr.ErrConflict && (events%2 == 1 || events != now) {
			return nil // this process's own Flush, which checked the anchor before, was writing it
		}
		if tried := d.docs.attempted(key); tried != nil && ncerr.KindOf(err) == ncerr.ErrConflict {
			now, info, rerr := d.m.ReadAll(ctx, key, d.opts.Limits.MaxMetadata)
			if rerr == nil && d.docs.hasTried(key, now) { // a put of this process that seemed to fail
				d.docs.noteUpdate(key, info)
				return nil
			}
		}
		return d.acceptUpdate(ctx, key, err)
	}
	key, info, err := d.findAnchor(ctx)
	if err == nil { // verify that the anchor belongs to the dataset that was opened
		err = d.acceptUpdate(ctx, d.rootDoc(), d.sameDocs(ctx, d.rootDoc()))
	}
	if err == nil {
		d.docs.setAnchor(key, info)
	}
	return err
}

// findAnchor returns the key of the anchor, and its version and time: those recorded
// when the dataset was opened, or the current ones if it was not read then.
func (d *Dataset) findAnchor(ctx context.Context) (key string, info zmap.Info, err error) {
	for _, key := range zarr.NodeDocNames() {
		if info, ok := d.docs.known(key); ok {
			return key, info, nil
		}
	}
	for _, key := range d.layout.IdentityDocs() {
		info, err := d.m.Stat(ctx, key)
		if err == nil || ncerr.KindOf(err) != ncerr.ErrNotFound {
			return key, info, err
		}
	}
	key = d.rootDoc()
	info, _ = d.docs.known(key)
	return key, info, nil
}

// beforeFlush verifies that a Flush will not overwrite the documents of another dataset,
// and that previous writes were not stored in another dataset. At the first Flush of a
// dataset that was opened, it also verifies on every store that the root document is
// unchanged. From then on, this process may have written the document itself, even if the
// Flush fails.
func (d *Dataset) beforeFlush(ctx context.Context) error {
	pending := d.pending()
	if d.created && !d.flushed.Load() || !pending && !d.chunksWritten.Load() {
		return nil
	}
	err := d.checkNotReplaced(ctx)
	if err == nil && pending && !d.merges() {
		err = d.sameConsolidated(ctx)
	}
	if err != nil || d.created || d.docsVerified.Load() {
		return err
	}
	if anchor, _ := d.docs.anchored(); d.rootDoc() != anchor { // checkNotReplaced has just compared the anchor
		err = d.acceptUpdate(ctx, d.rootDoc(), d.sameDocs(ctx, d.rootDoc()))
	}
	d.docsVerified.Store(err == nil)
	return err
}

// sameConsolidated verifies, before documents are written, that no other process has
// changed the consolidated metadata since this process read or wrote it. Every writer
// of a document also updates its copy there. If consolidated metadata was removed, it
// is not written again.
func (d *Dataset) sameConsolidated(ctx context.Context) error {
	if d.layout.Inline() {
		return d.sameInline(ctx)
	}
	d.saving.Lock() // guards changes of consolidated
	defer d.saving.Unlock()
	was, known := d.docs.known(zarr.ConsolidatedDoc)
	if d.consolidated && !known { // the document does not exist yet
		return nil
	}
	now, err := d.m.Stat(ctx, zarr.ConsolidatedDoc)
	switch {
	case ncerr.KindOf(err) == ncerr.ErrNotFound:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.consolidated, d.stale = false, false
		d.docs.forget(zarr.ConsolidatedDoc)
		return nil
	case err != nil:
		return err
	case d.consolidated && now.Version == was.Version:
		return nil
	}
	return ncerr.Wrap("write", zmap.Path(zarr.ConsolidatedDoc), errChangedDoc())
}

// sameInline is like sameConsolidated, for consolidated metadata in the root's document.
// It accepts changes by another writer if neither the dataset nor the changed document
// has consolidated metadata.
func (d *Dataset) sameInline(ctx context.Context) error {
	key := d.layout.ConsolidatedDoc()
	err := d.sameDocs(ctx, key)
	if ncerr.KindOf(err) != ncerr.ErrConflict {
		return err
	}
	d.saving.Lock()
	defer d.saving.Unlock()
	if d.consolidated {
		return err
	}
	text, _, rerr := d.m.ReadAll(ctx, key, d.opts.Limits.MaxMetadata)
	if rerr == nil && !zarr.HasInlineMetadata(zarr.Docs{key: text}) {
		return nil
	}
	return err
}

// sameDocs is like compare, with an error message for writers.
func (d *Dataset) sameDocs(ctx context.Context, keys ...string) error {
	err := d.compare(ctx, keys)
	if ncerr.KindOf(err) == ncerr.ErrConflict {
		err = errReplaced(d)
	}
	return err
}

func errReplaced(d *Dataset) error {
	return ncerr.Errorf(ncerr.ErrConflict, "write", d.loc.Path, "the dataset was changed or replaced after it was opened; its metadata was not written, and values written since then may be in the new dataset: reopen the dataset")
}

// Other writers update documents, also those that identify the dataset, and a replacement
// puts new ones. A document that has changed still belongs to the dataset that was opened if
// an object that a replacement would have removed or put again has not changed: the growth
// mark of this writer, whose name is random, or another document. In a local directory it
// always does, because an open directory does not change identity.

// acceptUpdate returns nil if err is ncerr.ErrConflict because another writer has updated the
// document with the given key, and err otherwise. From then on the document counts as unchanged.
func (d *Dataset) acceptUpdate(ctx context.Context, key string, err error) error {
	if ncerr.KindOf(err) != ncerr.ErrConflict || !d.merges() {
		return err
	}
	now, serr := d.m.Stat(ctx, key)
	if ncerr.KindOf(serr) == ncerr.ErrNotFound {
		return err
	}
	if serr != nil {
		return serr
	}
	return d.acceptVersion(ctx, key, now, err)
}

func (d *Dataset) acceptVersion(ctx context.Context, key string, now zmap.Info, err error) error {
	if d.docs.isUpdate(key, now) {
		return nil
	}
	same, serr := d.isSameDataset(ctx, key)
	switch {
	case serr != nil:
		return serr
	case !same:
		return err
	}
	d.docs.noteUpdate(key, now)
	return nil
}

// isSameDataset reports whether the dataset is certainly the one that was opened, although
// the document with the given key has changed.
func (d *Dataset) isSameDataset(ctx context.Context, key string) (bool, error) {
	if d.isLocal() {
		return true, nil
	}
	unchanged := func(key string, was zmap.Info) (bool, error) {
		now, err := d.m.Stat(ctx, key)
		if ncerr.KindOf(err) == ncerr.ErrNotFound {
			return false, nil
		}
		return err == nil && sameVersion(was, now), err
	}
	if mark := d.growth.trusted.Load(); mark != nil {
		if same, err := unchanged(mark.key, mark.info); same || err != nil {
			return same, err
		}
	}
	var keys []string
	d.docs.mu.Lock()
	for other, info := range d.docs.opened {
		if _, name := splitKey(other); other != key && zarr.IsZarrDoc(name) && other != zarr.ConsolidatedDoc && !info.ModTime.IsZero() { // equal contents can have equal versions
			keys = append(keys, other)
		}
	}
	d.docs.mu.Unlock()
	slices.Sort(keys)
	for _, other := range keys[:min(len(keys), maxEvidence)] {
		was, _ := d.docs.known(other)
		if same, err := unchanged(other, was); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// maxEvidence is the maximum number of documents that isSameDataset compares.
const maxEvidence = 32

// maxCreatedEvidence is the maximum number of documents for which noteTimes sends a request.
const maxCreatedEvidence = 4

// noteTimes records the times of some of the documents of a new dataset in Zarr v3, whose
// anchor other writers change: see isSameDataset.
func (d *Dataset) noteTimes(ctx context.Context, anchor string) error {
	if d.layout.Format() != 3 {
		return nil
	}
	var keys []string
	d.docs.mu.Lock()
	for key, info := range d.docs.opened {
		if _, name := splitKey(key); key != anchor && zarr.IsZarrDoc(name) && info.ModTime.IsZero() {
			keys = append(keys, key)
		}
	}
	d.docs.mu.Unlock()
	slices.Sort(keys)
	return each(ctx, keys[:min(len(keys), maxCreatedEvidence)], storeConcurrency, func(key string) error {
		now, err := d.m.Stat(ctx, key)
		if was, _ := d.docs.known(key); err == nil && now.Version == was.Version {
			d.docs.note(key, now)
		}
		return err
	})
}

// checkSameDataset fails if a document that another process has put, with the version
// now, belongs to another dataset. Call it after the document was read.
func (d *Dataset) checkSameDataset(ctx context.Context, key string, now zmap.Info) error {
	if !d.replaceable() {
		return nil
	}
	if anchor, _ := d.docs.anchored(); key != anchor {
		return d.checkNotReplaced(ctx)
	}
	if err := d.upper.checkUnclaimed(ctx, "write"); err != nil {
		return err
	}
	return d.acceptVersion(ctx, key, now, errReplaced(d))
}

// putDoc puts a document unless another process has changed it since this process read
// or wrote it. It records the new version of the document, and the time of the anchor.
func (d *Dataset) putDoc(ctx context.Context, key string, text []byte) error {
	info, err := d.anchored(ctx, key, func() (zmap.Info, error) { return d.putUnchanged(ctx, key, text) })
	if err == nil {
		d.docs.note(key, info)
	}
	return err
}

// putAnchored is like putVersion. It also returns the time of the anchor.
func (d *Dataset) putAnchored(ctx context.Context, key string, text []byte, was zmap.Info) (zmap.Info, error) {
	return d.anchored(ctx, key, func() (zmap.Info, error) { return d.putVersion(ctx, key, text, was) })
}

// anchored calls put. If the key is that of the anchor, it records that this process is
// writing the anchor, and returns its time.
func (d *Dataset) anchored(ctx context.Context, key string, put func() (zmap.Info, error)) (zmap.Info, error) {
	anchor, _ := d.docs.anchored()
	if key != anchor {
		return put()
	}
	d.docs.countEvent()
	defer d.docs.countEvent()
	info, err := put()
	if err != nil {
		return info, err // checkAnchor finds out whether the put has succeeded
	}
	if now, err := d.m.Stat(ctx, key); err == nil && now.Version == info.Version {
		info = now // includes the modification time
	}
	d.docs.note(key, info) // before the end of the write is counted
	return info, nil
}

// putUnchanged implements putDoc without recording versions. It also succeeds if the
// existing content comes from an earlier put of this process that seemed to fail or was
// sent twice.
func (d *Dataset) putUnchanged(ctx context.Context, key string, text []byte) (zmap.Info, error) {
	if d.created && !d.flushed.Load() || d.swap != nil { // no other process writes it
		return d.m.Put(ctx, key, driver.Bytes(text), nil)
	}
	was, _ := d.docs.known(key)
	before := d.docs.attempt(key, text, text)
	info, err := d.putVersion(ctx, key, text, was)
	if kind := ncerr.KindOf(err); kind != ncerr.ErrConflict && kind != ncerr.ErrObjectExists && kind != ncerr.ErrNotFound {
		return info, err
	}
	now, info, err := d.m.ReadAll(ctx, key, d.opts.Limits.MaxMetadata)
	switch {
	case err != nil && ncerr.KindOf(err) != ncerr.ErrNotFound:
		return zmap.Info{}, err
	case err == nil && bytes.Equal(now, text):
		return info, nil
	case err == nil && before != nil && bytes.Equal(now, before):
		return d.putVersion(ctx, key, text, info)
	}
	return zmap.Info{}, errChangedDoc()
}

// putVersion puts a document if its existing version is was.Version, or if the document
// is absent and was.Version is empty. On stores without conditional writes it checks
// the version first, which leaves a short time window for other writers.
func (d *Dataset) putVersion(ctx context.Context, key string, text []byte, was zmap.Info) (zmap.Info, error) {
	caps := d.m.Capabilities()
	var opts driver.PutOptions
	switch {
	case was.Version != "" && caps.IfMatch:
		opts.IfMatch = was.Version
	case was.Version != "":
		if now, err := d.m.Stat(ctx, key); err != nil || now.Version != was.Version {
			return now, cmp.Or(err, error(ncerr.ErrConflict))
		}
	case d.docs.isAbsent(key) && caps.IfAbsent:
		opts.IfAbsent = true
	case d.docs.isAbsent(key):
		if now, err := d.m.Stat(ctx, key); ncerr.KindOf(err) != ncerr.ErrNotFound {
			return now, cmp.Or(err, error(ncerr.ErrConflict))
		}
	}
	info, err := d.m.Put(ctx, key, driver.Bytes(text), &opts)
	if ncerr.KindOf(err) != ncerr.ErrUnsupported || opts == (driver.PutOptions{}) {
		return info, err
	}
	// The server lacks conditional writes although its driver declares them.
	now, err := d.m.Stat(ctx, key)
	switch there := ncerr.KindOf(err) != ncerr.ErrNotFound; {
	case err != nil && there:
		return now, err
	case opts.IfAbsent && there, opts.IfMatch != "" && (!there || now.Version != opts.IfMatch):
		return now, ncerr.ErrConflict
	}
	return d.m.Put(ctx, key, driver.Bytes(text), nil)
}

func errChangedDoc() error {
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process has changed the document, so the changes of this process were not written: reopen the dataset and repeat them")
}

// sharedCheck lets concurrent callers share the result of a check that began after they
// called.
type sharedCheck struct {
	mu      sync.Mutex
	running *checkCall // the call that began last, or nil
	next    *checkCall // the call that waits for running, or nil
}

type checkCall struct {
	done chan struct{}
	err  error // set before done is closed
}

// do returns the result of a call of f that began after do was called.
func (l *sharedCheck) do(ctx context.Context, f func() error) error {
	l.mu.Lock()
	before, mine := l.running, l.next
	if mine != nil {
		l.mu.Unlock()
		select {
		case <-mine.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if mine.err == nil {
			return nil
		}
		return f() // the shared call may have failed because its context was canceled
	}
	mine = &checkCall{done: make(chan struct{})}
	if before != nil {
		l.next = mine
		l.mu.Unlock()
		select {
		case <-before.done:
		case <-ctx.Done():
			mine.err = ctx.Err()
		}
		l.mu.Lock()
		l.next = nil
		if mine.err != nil {
			l.mu.Unlock()
			close(mine.done)
			return mine.err
		}
	}
	l.running = mine
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		if l.running == mine {
			l.running = nil
		}
		l.mu.Unlock()
		close(mine.done)
	}()
	mine.err = f()
	return mine.err
}

// compare concurrently compares documents with their recorded versions and times.
func (d *Dataset) compare(ctx context.Context, keys []string) error {
	slices.Sort(keys)
	keys = slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		info, ok := d.docs.known(key)
		return !ok || info.Version == "" && info.ModTime.IsZero() // the store has neither versions nor times
	})
	errs := make([]error, len(keys))
	var g errgroup.Group
	var failed atomic.Bool
	g.SetLimit(16)
	for i, key := range keys {
		if failed.Load() { // calls for the keys before this one have started
			break
		}
		g.Go(func() error {
			if errs[i] = d.compareOne(ctx, key); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait() // return the error of the first key, in whatever order the calls fail
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Dataset) compareOne(ctx context.Context, key string) error {
	now, err := d.m.Stat(ctx, key)
	was, _ := d.docs.known(key)
	switch {
	case ncerr.KindOf(err) == ncerr.ErrNotFound:
	case err != nil:
		return err
	case sameVersion(was, now) || d.docs.isUpdate(key, now):
		return nil
	}
	return errChangedSinceOpen(key)
}

// updated reports whether another writer has put or deleted a document since this process has
// read or put it.
func (d *Dataset) updated(ctx context.Context, key string) (bool, error) {
	now, err := d.m.Stat(ctx, key)
	was, known := d.docs.known(key)
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		return known, nil
	}
	return known && !sameVersion(was, now), err
}

func errChangedSinceOpen(key string) error {
	return ncerr.Errorf(ncerr.ErrConflict, "read", zmap.Path(key), "the dataset was changed or replaced while it was being read; the values may be from two datasets, and chunks that were not found may exist: reopen the dataset")
}
