package dataset

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// listing holds the names directly below a group, or the error of listing them.
type listing struct {
	nodes   []string // names with further keys below them, which may be groups and arrays
	objects []string
	err     error
}

// add adds an entry from the listing of a prefix.
func (f *listing) add(prefix string, e zmap.Entry) {
	name, isNode := strings.CutSuffix(e.Key[len(prefix):], "/")
	if isNode {
		f.nodes = append(f.nodes, name)
	} else {
		f.objects = append(f.objects, name)
	}
}

// size returns the number of entries.
func (f *listing) size() int { return len(f.nodes) + len(f.objects) }

// inParallel runs f while the caller does other work. The caller must call wait, which
// cancels f if the result of f is not needed, and then waits for f to return.
func inParallel(ctx context.Context, f func(context.Context)) (wait func(needed bool)) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	return func(needed bool) {
		if !needed {
			cancel()
		}
		wg.Wait()
		cancel()
	}
}

// singleRoot reads the individual documents of the root. To save a round trip, it
// concurrently sends the request that usually follows: the listing of the root if the
// URL selects pure Zarr, or the check for a consolidated document that must be kept up
// to date.
func (l *loader) singleRoot(ctx context.Context) (zarr.Docs, error) {
	ds := l.ds
	var first listing
	lists := ds.loc.Format == ncurl.Zarr && l.shouldPrefetch()
	checks := ds.opts.Update && !lists
	wait := inParallel(ctx, func(ctx context.Context) {
		switch {
		case lists:
			first = l.list(ctx, "")
		case checks:
			l.findConsolidated(ctx)
		}
	})
	docs, err := l.fetchRoot(ctx, zarr.RootDocs())
	array := docs.IsArray() // an array contains only chunks, whose keys are computed
	wait(err == nil && !(lists && array))
	l.consolidatedChecked = checks
	if lists && err == nil && !array {
		l.lists = map[string]listing{"": first}
		if ds.opts.Update && first.err == nil {
			l.consolidatedChecked = !slices.Contains(first.objects, zarr.ConsolidatedDoc)
		}
	}
	return docs, err
}

// findConsolidated checks whether a consolidated document exists.
func (l *loader) findConsolidated(ctx context.Context) {
	info, err := l.ds.m.Stat(ctx, zarr.ConsolidatedDoc)
	switch {
	case err == nil:
		l.hasConsolidated = true
		l.ds.docs.note(zarr.ConsolidatedDoc, info)
	case ncerr.KindOf(err) == ncerr.ErrNotFound:
		l.ds.docs.noteAbsent(zarr.ConsolidatedDoc)
	default:
		l.consolidatedErr = err
	}
}

// maxPrefetch is the number of names at which the prefetch of a prefix is abandoned. It
// is the size of one listing response of S3. A directory that is not a group may contain
// any number of names.
const maxPrefetch = 1000

// shouldPrefetch reports whether saving a round trip justifies a listing whose result
// may not be needed.
func (l *loader) shouldPrefetch() bool {
	return l.all == nil && l.ds.remote() && l.ds.m.Capabilities().List
}

// search lists the names below a group, or returns the result of prefetch.
func (l *loader) search(ctx context.Context, prefix string) listing {
	if found, ok := l.lists[prefix]; ok {
		delete(l.lists, prefix)
		return found
	}
	return l.list(ctx, prefix)
}

// list lists the names below a prefix. It fails with ncerr.ErrLimit if there are more
// than Limits.MaxKeys of them, or if they exceed Limits.MaxListing bytes.
func (l *loader) list(ctx context.Context, prefix string) (found listing) {
	for e, err := range l.ds.m.ListAll(ctx, prefix, nil) {
		if err != nil {
			return listing{err: err}
		}
		found.add(prefix, e)
	}
	return found
}

// prefetch searches below many prefixes concurrently and keeps the results for
// [loader.search]. It skips prefixes with maxPrefetch or more names, and the remaining
// prefixes once the results exceed Limits.MaxNodes names or Limits.MaxListing bytes in
// total. search then lists them.
func (l *loader) prefetch(ctx context.Context, prefixes []string) {
	found := make([]listing, len(prefixes))
	done := make([]bool, len(prefixes))
	var next, names, bytes atomic.Int64
	var wg sync.WaitGroup
	for range min(l.ds.workers(1<<20), len(prefixes)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(prefixes)); i = next.Add(1) - 1 {
				found[i], done[i] = l.listing(ctx, prefixes[i], &names, &bytes)
			}
		})
	}
	wg.Wait()
	l.lists = make(map[string]listing, len(prefixes))
	for i, prefix := range prefixes {
		if done[i] {
			l.lists[prefix] = found[i]
		}
	}
}

// listing returns the names below a prefix. It reports false if the prefix has too many
// names, or if the counters total and bytes exceed their limits.
func (l *loader) listing(ctx context.Context, prefix string, total, bytes *atomic.Int64) (listing, bool) {
	var found listing
	for e, err := range l.ds.m.List(ctx, prefix, nil) {
		if err != nil {
			return listing{err: err}, true
		}
		if total.Add(1) > int64(l.ds.opts.Limits.MaxNodes) || bytes.Add(int64(len(e.Key))) > l.ds.opts.Limits.MaxListing {
			return listing{}, false
		}
		if found.add(prefix, e); found.size() == maxPrefetch {
			return listing{}, false
		}
	}
	return found, true
}
