package nczarr

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

// listing is the names directly below a group, or why they are not known.
type listing struct {
	nodes   []string // that other keys continue: only those can be groups and arrays
	objects []string
	err     error
}

// take adds an entry of the listing of a prefix.
func (f *listing) take(prefix string, e zmap.Entry) {
	name, isNode := strings.CutSuffix(e.Key[len(prefix):], "/")
	if isNode {
		f.nodes = append(f.nodes, name)
	} else {
		f.objects = append(f.objects, name)
	}
}

// size is the number of entries.
func (f *listing) size() int { return len(f.nodes) + len(f.objects) }

// beside runs f while the caller does something else, until it calls wait.
// What is not needed any more is cancelled.
func beside(ctx context.Context, f func(context.Context)) (wait func(needed bool)) {
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

// singleRoot reads the single documents of the root. What is sure to be asked
// for next is asked for beside them, which saves a round trip: the names below
// the root when the URL says that the dataset is pure Zarr, and whether there
// is a consolidated document that is to be kept up to date.
func (l *loader) singleRoot(ctx context.Context) (zarr.Docs, error) {
	ds := l.ds
	var first listing
	lists := ds.loc.Format == ncurl.Zarr && l.listsAhead()
	asks := ds.opts.Update && !lists
	wait := beside(ctx, func(ctx context.Context) {
		switch {
		case lists:
			first = l.list(ctx, "")
		case asks:
			l.askKept(ctx)
		}
	})
	docs, err := l.fetchRoot(ctx, zarr.RootDocs())
	array := docs.IsArray() // chunks are below it: their keys are computed, never listed
	wait(err == nil && !(lists && array))
	l.asked = asks
	if lists && err == nil && !array {
		l.lists = map[string]listing{"": first}
		if ds.opts.Update && first.err == nil {
			l.asked = !slices.Contains(first.objects, zarr.ConsolidatedDoc)
		}
	}
	return docs, err
}

// askKept asks whether there is a consolidated document.
func (l *loader) askKept(ctx context.Context) {
	info, err := l.ds.m.Stat(ctx, zarr.ConsolidatedDoc)
	switch {
	case err == nil:
		l.kept = true
		l.ds.docs.note(zarr.ConsolidatedDoc, info)
	case ncerr.KindOf(err) == ncerr.ErrNotFound:
		l.ds.docs.noteAbsent(zarr.ConsolidatedDoc)
	default:
		l.keptErr = err
	}
}

// aheadMost is how many names of one prefix are asked for ahead: those of one
// answer of S3. What turns out to be no group may have any number below it.
const aheadMost = 1000

// listsAhead reports whether a listing that may be in vain is worth a round
// trip.
func (l *loader) listsAhead() bool {
	return l.all == nil && l.ds.remote() && l.ds.m.Capabilities().List
}

// search lists the names below a group, unless searchAhead has done so.
func (l *loader) search(ctx context.Context, prefix string) listing {
	if found, ok := l.lists[prefix]; ok {
		delete(l.lists, prefix)
		return found
	}
	return l.list(ctx, prefix)
}

// list lists the names below a prefix. More than Limits.MaxKeys, or
// Limits.MaxListing bytes of them, are ncerr.ErrLimit.
func (l *loader) list(ctx context.Context, prefix string) (found listing) {
	for e, err := range l.ds.m.ListAll(ctx, prefix, nil) {
		if err != nil {
			return listing{err: err}
		}
		found.take(prefix, e)
	}
	return found
}

// searchAhead searches below many prefixes, several at once, and keeps what it
// finds for [loader.search]. What has aheadMost names or more is searched when
// its turn comes, and so is the rest when together they have more names than a
// dataset may have nodes, or more bytes in them than a listing may have.
func (l *loader) searchAhead(ctx context.Context, prefixes []string) {
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

// listing gives the names below a prefix, unless there are too many of them, or
// of all that are counted in total and bytes.
func (l *loader) listing(ctx context.Context, prefix string, total, bytes *atomic.Int64) (listing, bool) {
	var found listing
	for e, err := range l.ds.m.List(ctx, prefix, nil) {
		if err != nil {
			return listing{err: err}, true
		}
		if total.Add(1) > int64(l.ds.opts.Limits.MaxNodes) || bytes.Add(int64(len(e.Key))) > l.ds.opts.Limits.MaxListing {
			return listing{}, false
		}
		if found.take(prefix, e); found.size() == aheadMost {
			return listing{}, false
		}
	}
	return found, true
}
