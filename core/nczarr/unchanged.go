package nczarr

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// A dataset that somebody replaces while it is being read lacks chunks for a
// while, which would read as fill. So where chunks were absent, the documents
// that say so are compared with what they were when the dataset was opened.

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

// root returns the document that stands for the dataset as a whole: the
// consolidated one if the metadata came from it, else the root's own.
func (d *Dataset) rootDoc() string {
	names := []string{".zgroup", ".zarray", ".nczgroup"}
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

// CheckUnchanged fails with ncerr.ErrConflict if reads from d found chunks absent
// and the dataset, or one of the arrays concerned, was changed or replaced since
// it was opened: those chunks may exist now. Each read checks this itself;
// CheckUnchanged is for the end of many reads.
func (d *Dataset) CheckUnchanged(ctx context.Context) error {
	d.docs.mu.Lock()
	vars := slices.Collect(maps.Keys(d.docs.sparse))
	d.docs.mu.Unlock()
	if len(vars) == 0 {
		return nil
	}
	keys := []string{d.rootDoc()}
	for _, v := range vars {
		keys = append(keys, v.key()+".zarray")
	}
	return d.compare(ctx, keys)
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
	return ncerr.Errorf(ncerr.ErrConflict, "read", zmap.Path(key), "the dataset was changed or replaced while it was being read, so chunks that were not found may exist: open it again")
}
