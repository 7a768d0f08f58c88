package nczarr

import (
	"context"
	"slices"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
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

// documents are the version and time of the documents that tell whether a
// dataset, or an array, has been replaced: those of the root, and .zarray.
type documents struct {
	mu     sync.Mutex
	opened map[string]zmap.Info
	sparse map[*Var]bool // arrays of which chunks were absent
}

// note records what a document is when the dataset is opened.
func (d *documents) note(key string, info zmap.Info) {
	dir, name := splitKey(key)
	if name != ".zarray" && dir != "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened == nil {
		d.opened = make(map[string]zmap.Info)
	}
	d.opened[key] = info
}

// rootDoc returns the document that stands for the dataset as a whole: the
// consolidated one if the metadata came from it, else the root's own.
func (d *Dataset) rootDoc() string {
	names := []string{rootGroup, ".zarray", oldGroup, ".zattrs"}
	if d.consolidated {
		names = slices.Insert(names, 0, consolidatedKey)
	}
	for _, name := range names {
		if _, ok := d.docs.opened[name]; ok {
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
	return ds.compare(ctx, []string{ds.rootDoc(), v.key() + ".zarray"})
}

// CheckUnchanged fails with ncerr.ErrConflict if the dataset was changed or
// replaced since it was opened, so that what was read from it may be of more
// than one dataset. Call it after the last read: a read checks this itself only
// where it found chunks absent. It asks the store once, and once more for each
// array of which chunks were absent. Stores that tell neither versions nor
// times, and datasets that are open for writing, are not checked. [Copy] calls
// it for its source.
func (d *Dataset) CheckUnchanged(ctx context.Context) error {
	if d.Writable() {
		return nil
	}
	keys := []string{d.rootDoc()}
	d.docs.mu.Lock()
	for v := range d.docs.sparse {
		keys = append(keys, v.key()+".zarray")
	}
	d.docs.mu.Unlock()
	return d.compare(ctx, keys)
}

// stillOpened makes sure at the first Flush that the dataset is the one that was
// opened: if it was replaced, documents would be written over those of the new one,
// and chunks that were written may be among the chunks of the new one. After that
// Flush the documents are our own.
func (d *Dataset) stillOpened(ctx context.Context) error {
	if d.created || d.flushed.Load() || !d.pending() && !d.wrote.Load() {
		return nil
	}
	err := d.compare(ctx, []string{d.rootDoc()})
	if ncerr.KindOf(err) == ncerr.ErrConflict {
		err = ncerr.Errorf(ncerr.ErrConflict, "flush", d.loc.Path, "the dataset was changed or replaced since it was opened: its metadata is not written over what is there now, and values written since may be in the new dataset: open it again")
	}
	return err
}

// compare compares documents with what they were, several at once.
func (d *Dataset) compare(ctx context.Context, keys []string) error {
	slices.Sort(keys)
	keys = slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		info, ok := d.docs.opened[key]
		return !ok || info.Version == "" && info.ModTime.IsZero() // a store that says nothing
	})
	errs := make([]error, min(len(keys), 16))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for k := i; k < len(keys) && errs[i] == nil; k += len(errs) {
				errs[i] = d.compareOne(ctx, keys[k])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Dataset) compareOne(ctx context.Context, key string) error {
	now, err := d.m.Stat(ctx, key)
	was := d.docs.opened[key]
	switch {
	case ncerr.KindOf(err) == ncerr.ErrNotFound:
	case err != nil:
		return err
	case now.Version == was.Version && now.ModTime.Equal(was.ModTime):
		return nil
	}
	return ncerr.Errorf(ncerr.ErrConflict, "read", zmap.Path(key), "the dataset was changed or replaced while it was being read, so what was read may be of two datasets, and chunks that were not found may exist: open it again")
}
