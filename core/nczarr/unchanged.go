package nczarr

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

// A dataset that somebody replaces while it is being read gives old chunks and
// new ones, and lacks chunks for a while, which would read as fill. So the
// document that stands for the dataset is compared with what it was when the
// dataset was opened: once after all reads, and after each read that found
// chunks absent, then with the document of the array.
//
// Whoever replaces a dataset removes the documents of the root before anything
// else and puts the new ones last. So what was read before the document of the
// root was found unchanged belongs to one dataset. The version alone would not
// show it: most of those documents have the same bytes in all datasets.

// documents are the version and time of documents: of those that tell whether a
// dataset, or an array, has been replaced, which are those of the root and .zarray;
// and of all that are there in a dataset that is open for writing.
type documents struct {
	mu     sync.Mutex
	all    bool // all are noted
	opened map[string]zmap.Info
	absent map[string]bool   // were asked for, and are not there; noted with all
	tried  map[string][]byte // of which it is not known whether they were put
	sparse map[*Var]bool     // arrays of which chunks were absent
	anchor string            // see Dataset.stillOpened
	turns  int               // of writing the anchor ourselves; odd while that is under way
	looks  looks
}

// note records what a document is when the dataset is opened.
func (d *documents) note(key string, info zmap.Info) {
	dir, name := splitKey(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.all && !zarr.DescribesArray(name) && dir != "" {
		return
	}
	if d.opened == nil {
		d.opened = make(map[string]zmap.Info)
	}
	d.opened[key] = info
	delete(d.absent, key)
	delete(d.tried, key)
}

// forget makes a document unknown that was removed.
func (d *documents) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.opened, key)
}

// noteAbsent records that a document was asked for and is not there.
func (d *documents) noteAbsent(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.all {
		return
	}
	if d.absent == nil {
		d.absent = make(map[string]bool)
	}
	d.absent[key] = true
}

// attempt records a text of which it is not known whether it was put, and returns
// the one before.
func (d *documents) attempt(key string, text []byte) (before []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tried == nil {
		d.tried = make(map[string][]byte)
	}
	before, d.tried[key] = d.tried[key], text
	return before
}

// lacks reports whether a document was not there when it was asked for.
func (d *documents) lacks(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.absent[key]
}

// known returns what a document was when it was last noted.
func (d *documents) known(key string) (zmap.Info, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, ok := d.opened[key]
	return info, ok
}

// rootDoc returns the document that stands for the dataset as a whole: the
// consolidated one if the metadata came from it, else the root's own.
func (d *Dataset) rootDoc() string {
	names := append(d.layout.AnchorDocs(), zarr.AttrsDoc)
	if !d.Writable() && d.consolidated { // who writes has read the single documents, if there are any
		names = slices.Insert(names, 0, zarr.ConsolidatedDoc)
	}
	for _, name := range names {
		if _, ok := d.docs.known(name); ok {
			return name
		}
	}
	return ""
}

// wasAbsent is called after an operation in which a chunk of v was absent. It
// fails if the array or the dataset is no longer what was opened. Handles that
// write are not checked: they change the documents themselves.
func (v *Var) wasAbsent(ctx context.Context) error {
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
	if err := ds.up.unclaimed(ctx, "read"); err != nil {
		return err
	}
	return ds.compare(ctx, []string{ds.rootDoc(), v.key() + ds.layout.ArrayDoc()})
}

// CheckUnchanged fails with ncerr.ErrConflict if the dataset was changed or
// replaced since it was opened, so that what was read from it may be of more
// than one dataset. Call it after the last read: a read checks this itself only
// where it found chunks absent. It asks the store once, and once more for each
// array of which chunks were absent. In a bucket an array, or a group without
// superblock, may be part of a dataset above: before that, one request for each
// prefix above looks whether that is being replaced. Stores that tell neither
// versions nor times, and datasets that are open for writing, are not checked.
// [Copy] calls it for its source.
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
	if err := d.up.unclaimed(ctx, "read"); err != nil {
		return err
	}
	return d.compare(ctx, keys)
}

// A writer of a store whose datasets are replaced object by object must not
// write into the dataset that came in the place of its own. So it compares one
// document, the anchor, that a replacement writes anew and an update hardly ever
// does: in each batch, after it has read the chunks that it changes in part and before
// the first put. A changed chunk is put on condition of the version that was read,
// which was the old dataset's then: it gets into the new one only if that has the same
// version there, or if both lack it. A whole chunk can, if the
// dataset is replaced between the look and the put: a replacement looks for such
// chunks before it ends (see sibling.strayed).

// replaceable reports whether another process can replace the dataset while it is
// open, so that what is written gets into another one. Directories and archives
// stay what was opened; a claim protects what is being made.
func (d *Dataset) replaceable() bool {
	return !local(d.loc) && d.swap == nil && (!d.created || d.flushed.Load())
}

// stillOpened fails if the dataset is not the one that was opened, as far as it
// can be replaced. It asks the store once; the first time it may ask more.
func (d *Dataset) stillOpened(ctx context.Context) error {
	if !d.replaceable() {
		return nil
	}
	return d.docs.looks.do(ctx, func() error {
		if err := d.up.unclaimed(ctx, "write"); err != nil {
			return err
		}
		return d.lookAtAnchor(ctx)
	})
}

func (d *Dataset) lookAtAnchor(ctx context.Context) error {
	if key, turns := d.docs.anchored(); key != "" {
		err := d.sameDocs(ctx, key)
		if _, now := d.docs.anchored(); ncerr.KindOf(err) == ncerr.ErrConflict && (turns%2 == 1 || turns != now) {
			return nil // our own Flush, which has looked before, was writing it
		}
		return err
	}
	key, info, err := d.findAnchor(ctx)
	if err == nil { // the document that was opened tells whether the anchor is of the same dataset
		err = d.sameDocs(ctx, d.rootDoc())
	}
	if err == nil {
		d.docs.moor(key, info)
	}
	return err
}

// findAnchor returns the anchor, and what it was when the dataset was opened, or is
// now if it was not read then.
func (d *Dataset) findAnchor(ctx context.Context) (key string, info zmap.Info, err error) {
	for _, key := range zarr.AnnouncingDocs() {
		if info, ok := d.docs.known(key); ok {
			return key, info, nil
		}
	}
	for _, key := range d.layout.AnchorDocs() {
		info, err := d.m.Stat(ctx, key)
		if err == nil || ncerr.KindOf(err) != ncerr.ErrNotFound {
			return key, info, err
		}
	}
	key = d.rootDoc()
	info, _ = d.docs.known(key)
	return key, info, nil
}

// beforeFlush makes sure that documents are not written over those of another
// dataset, and that what was written is not in another one. At the first Flush of
// a dataset that was opened, the document with which it was opened must be the same
// still, on every store; after that it is our own, also if that Flush fails half-way.
func (d *Dataset) beforeFlush(ctx context.Context) error {
	pending := d.pending()
	if d.created && !d.flushed.Load() || !pending && !d.wrote.Load() {
		return nil
	}
	err := d.stillOpened(ctx)
	if err == nil && pending {
		err = d.sameConsolidated(ctx)
	}
	if err != nil || d.created || d.ours.Load() {
		return err
	}
	if anchor, _ := d.docs.anchored(); d.rootDoc() != anchor { // which has just been compared
		err = d.sameDocs(ctx, d.rootDoc())
	}
	d.ours.Store(err == nil)
	return err
}

// sameConsolidated makes sure, before documents are written, that consolidated
// metadata, which repeats them all, can be made from what this process knows: who
// writes a document writes it too. It is not written again if it was removed.
func (d *Dataset) sameConsolidated(ctx context.Context) error {
	if d.layout.Inline() {
		return d.sameInline(ctx)
	}
	d.saving.Lock() // under which consolidated changes
	defer d.saving.Unlock()
	was, known := d.docs.known(zarr.ConsolidatedDoc)
	if d.consolidated && !known { // it is to be made
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

// sameInline is sameConsolidated where the document of the root has the consolidated
// metadata. Without that, another writer may have changed the document.
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

// sameDocs is compare for those who write.
func (d *Dataset) sameDocs(ctx context.Context, keys ...string) error {
	err := d.compare(ctx, keys)
	if ncerr.KindOf(err) == ncerr.ErrConflict {
		err = ncerr.Errorf(ncerr.ErrConflict, "write", d.loc.Path, "the dataset was changed or replaced since it was opened: its metadata is not written over what is there now, and values written since may be in the new dataset: open it again")
	}
	return err
}

// putDoc puts a document, if nobody else has changed it since this process read
// or wrote it. If it is the anchor, its new version and time are noted, or that they
// are not known because it is not known whether it was put.
func (d *Dataset) putDoc(ctx context.Context, key string, text []byte) error {
	anchor, _ := d.docs.anchored()
	if key != anchor {
		info, err := d.putUnchanged(ctx, key, text)
		if err == nil {
			d.docs.note(key, info)
		}
		return err
	}
	d.docs.turn()
	defer d.docs.turn()
	_, err := d.putUnchanged(ctx, key, text)
	var info zmap.Info
	if err == nil {
		info, err = d.m.Stat(ctx, key)
	}
	if ncerr.KindOf(err) != ncerr.ErrConflict {
		d.docs.note(key, info)
	}
	return err
}

// putUnchanged is putDoc without the notes. What is there may be of a put of our
// own that seemed to fail, or that was sent twice.
func (d *Dataset) putUnchanged(ctx context.Context, key string, text []byte) (zmap.Info, error) {
	if d.created && !d.flushed.Load() || d.swap != nil { // nobody else writes it
		return d.m.Put(ctx, key, driver.Bytes(text), nil)
	}
	was, _ := d.docs.known(key)
	before := d.docs.attempt(key, text)
	info, err := d.putOver(ctx, key, text, was)
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
		return d.putOver(ctx, key, text, info)
	}
	return zmap.Info{}, errChangedDoc()
}

// putOver puts a document if the version that is there is the one that is given,
// or none where there was none. Where the store has no conditions it looks before,
// which leaves a moment to others.
func (d *Dataset) putOver(ctx context.Context, key string, text []byte, was zmap.Info) (zmap.Info, error) {
	caps := d.m.Capabilities()
	var opts driver.PutOptions
	switch {
	case was.Version != "" && caps.IfMatch:
		opts.IfMatch = was.Version
	case was.Version != "":
		if now, err := d.m.Stat(ctx, key); err != nil || now.Version != was.Version {
			return now, cmp.Or(err, error(ncerr.ErrConflict))
		}
	case d.docs.lacks(key) && caps.IfAbsent:
		opts.IfAbsent = true
	}
	info, err := d.m.Put(ctx, key, driver.Bytes(text), &opts)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported && opts != (driver.PutOptions{}) { // the server knows no conditions, whatever its driver says
		return d.m.Put(ctx, key, driver.Bytes(text), nil)
	}
	return info, err
}

func errChangedDoc() error {
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "somebody else has changed it since this process read it, so it is not written: open the dataset again, and make the changes again")
}

func (d *documents) anchored() (key string, turns int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.anchor, d.turns
}

func (d *documents) turn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turns++
}

func (d *documents) moor(key string, info zmap.Info) {
	d.note(key, info)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.anchor = key
}

// looks lets those who ask at once share an answer, if it was asked for after
// they came.
type looks struct {
	mu      sync.Mutex
	running *look // began last, or nil
	next    *look // waits for running, or nil
}

type look struct {
	done chan struct{}
	err  error // once done is closed
}

// do returns the outcome of a call of f that began after do was called.
func (l *looks) do(ctx context.Context, f func() error) error {
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
		return f() // what failed may have been cancelled by its own caller
	}
	mine = &look{done: make(chan struct{})}
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

// compare compares documents with what they were, several at once.
func (d *Dataset) compare(ctx context.Context, keys []string) error {
	slices.Sort(keys)
	keys = slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		info, ok := d.docs.known(key)
		return !ok || info.Version == "" && info.ModTime.IsZero() // a store that says nothing
	})
	errs := make([]error, len(keys))
	var g errgroup.Group
	var failed atomic.Bool
	g.SetLimit(16)
	for i, key := range keys {
		if failed.Load() { // those before it are under way
			break
		}
		g.Go(func() error {
			if errs[i] = d.compareOne(ctx, key); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait() // the error of the first key counts, whichever comes first
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
	case now.Version == was.Version && (was.ModTime.IsZero() || now.ModTime.Equal(was.ModTime)): // putting tells no time
		return nil
	}
	return ncerr.Errorf(ncerr.ErrConflict, "read", zmap.Path(key), "the dataset was changed or replaced while it was being read, so what was read may be of two datasets, and chunks that were not found may exist: open it again")
}
