package nczarr

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// keyed records that dimension_separator was verified against the store.
// Writers are known that store chunks as "0/0" and leave the separator out of
// .zarray, which then means ".": all of the array would read as fill.
type keyed struct {
	settled atomic.Bool
	mu      sync.Mutex // held while the store is asked
	tried   int        // number of chunks looked for, see findOther
}

const (
	// keysListed is how many keys of an array are listed to see its separator:
	// those of one answer of S3.
	keysListed = 1000
	// keysTried is how many chunks of a variable are looked for, one by one,
	// in a store that does not list.
	keysTried = 32
)

// checkKeys runs after a read. It does nothing if any chunk of the variable was
// ever found.
func (t *transfer) checkKeys(ctx context.Context) error {
	rank := t.plan.Rank()
	if rank < 2 || t.e.keyed.settled.Load() {
		return nil
	}
	proj := make(chunk.Projection, rank)
	indexes := make([][]int64, min(t.plan.Len(), keysTried))
	for i := range indexes {
		t.plan.At(int64(i), proj)
		indexes[i] = make([]int64, rank)
		for d, s := range proj {
			indexes[i][d] = s.Index
		}
	}
	return t.v.checkKeys(ctx, indexes)
}

// checkKeys fails if chunks of v are stored under keys of the other separator,
// and none under those of its own. The chunks at indexes were not found. What one
// listing shows is settled for good. A store that cannot be listed is asked for
// single chunks; one that does not answer fails the call.
func (v *Var) checkKeys(ctx context.Context, indexes [][]int64) error {
	k := &v.data.keyed
	if len(indexes) == 0 || len(indexes[0]) < 2 || k.settled.Load() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.settled.Load() {
		return nil
	}
	sep := v.meta.Separator
	other := otherSeparator(sep)
	wanted := make([]string, len(indexes))
	for i, index := range indexes {
		wanted[i] = string(chunk.AppendKey([]byte(v.key()), index, other))
	}
	key, err := v.listOther(ctx, sep, other, wanted[0])
	done := err == nil
	if lasting(err) {
		key, err = v.findOther(ctx, wanted)
		done = k.tried >= keysTried
	}
	if err != nil {
		return err
	}
	if key != "" {
		return wrongSeparator(sep, key)
	}
	k.settled.Store(done)
	return nil
}

// listOther lists the first keys of v. It returns wanted if that is there, else
// one with the other separator if there is none with its own.
func (v *Var) listOther(ctx context.Context, sep, other byte, wanted string) (string, error) {
	m, prefix := v.group.ds.m, v.key()
	if caps := m.Capabilities(); !caps.List || !caps.RecursiveList || !caps.OrderedList {
		return "", ncerr.ErrUnsupported // or one listing would be many requests
	}
	grid, found, own, n := v.grid(), "", false, 0
	for e, err := range m.List(ctx, prefix, &zmap.ListOptions{Recursive: true}) {
		if err != nil {
			return "", err
		}
		name := e.Key[len(prefix):]
		if n++; n > keysListed || name > ":" { // which comes after all digits
			break
		}
		switch {
		case e.Key == wanted:
			return wanted, nil
		case inGrid(name, grid, sep):
			own = true
		case found == "" && inGrid(name, grid, other):
			found = e.Key
		}
	}
	if own {
		return "", nil
	}
	return found, nil
}

// findOther returns the least of the wanted keys that are there. It tries
// keysTried in all.
func (v *Var) findOther(ctx context.Context, wanted []string) (found string, err error) {
	k, ds := &v.data.keyed, v.group.ds
	wanted = wanted[:min(len(wanted), keysTried-k.tried)]
	var mu sync.Mutex
	err = each(ctx, wanted, ds.workers(1), func(key string) error {
		there, err := ds.m.Exists(ctx, key)
		mu.Lock()
		defer mu.Unlock()
		if there && (found == "" || key < found) {
			found = key
		}
		return err
	})
	if err == nil {
		k.tried += len(wanted)
	}
	return found, err
}

// otherSeparator returns the separator that sep is not.
func otherSeparator(sep byte) byte {
	if sep == '/' {
		return '.'
	}
	return '/'
}

// wrongSeparator is the error of an array whose dimension_separator is sep while
// a chunk is stored under a key with the other.
func wrongSeparator(sep byte, key string) error {
	return ncerr.Errorf(ncerr.ErrMetadata, "", "", "dimension_separator is %q, but chunks are stored as %q: it should be %q", sep, zmap.Path(key), otherSeparator(sep))
}
