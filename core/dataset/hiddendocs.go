package dataset

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// In Zarr v2 some documents of a node, its attributes, do not make the node visible. In a
// new dataset they can therefore be put at any time before the documents that do. On a
// remote store this saves round trips: the documents of an array are put together with the
// first chunks, and those of the groups together with the documents that make arrays
// visible. The documents that make groups visible come after both.

// earlyDocs are the documents of a new array that were put with its first chunks.
type earlyDocs struct {
	begun atomic.Bool
	mu    sync.Mutex
	taken bool // a Flush has called take
	docs  zarr.Docs
}

// putEarly begins to put the documents of a new array that do not make it visible, if v is
// written for the first time. It puts none if the Flush may leave the document out, because
// the attributes in it have been deleted by then. The caller must call wait, which returns
// after the puts have ended. A failed put is not an error, because the Flush repeats it.
func (v *Var) putEarly(ctx context.Context) (wait func()) {
	d, e := v.group.ds, &v.early
	if !d.created || d.announced.Load() || !d.remote() || !d.layout.AlwaysAttrs() || e.begun.Swap(true) {
		return func() {}
	}
	stop := inParallel(ctx, func(ctx context.Context) {
		e.mu.Lock() // a Flush waits, so that an older document does not overwrite a newer one
		defer e.mu.Unlock()
		if e.taken {
			return
		}
		d.mu.Lock()
		docs, err := v.docs()
		d.mu.Unlock()
		if err != nil {
			return // as will the Flush
		}
		put := make(zarr.Docs)
		for _, name := range putOrder(docs) {
			if announces(name) == 0 && d.putDoc(ctx, v.key()+name, docs[name]) == nil {
				put[name] = docs[name]
			}
		}
		e.docs = put
	})
	return func() { stop(true) }
}

// take returns the documents that were put, once, and prevents that more are put.
func (e *earlyDocs) take() zarr.Docs {
	e.mu.Lock()
	defer e.mu.Unlock()
	docs := e.docs
	e.taken, e.docs = true, nil
	return docs
}

// putHidden writes the documents of the nodes of a new dataset that do not make a node
// visible, except those that were put early and have not changed since. Readers find no
// node before the others are written, so these documents need not be written stage by
// stage. When putHidden returns, those of the arrays are written. The caller must wait for
// those of the groups before it makes a group visible.
func (d *Dataset) putHidden(ctx context.Context, nodes []saved) (groups *errgroup.Group, err error) {
	arrays, stop := errgroup.WithContext(ctx)
	groups, stopGroups := errgroup.WithContext(ctx)
	arrays.SetLimit(d.workers(1 << 20))
	groups.SetLimit(d.workers(1 << 20))
	begin := func(g *errgroup.Group, stop context.Context, n *saved) {
		var early zarr.Docs
		if n.array != nil {
			early = n.array.early.take()
		}
		n.hidden = true
		for name, text := range n.docs {
			if put, ok := early[name]; announces(name) == 1 || ok && bytes.Equal(put, text) {
				continue
			}
			g.Go(func() error {
				if err := stop.Err(); err != nil {
					return err
				}
				if err := d.putDoc(ctx, n.prefix+name, text); err != nil { // do not cancel puts in progress
					return n.fail(d, name, err)
				}
				return nil
			})
		}
	}
	for i := range nodes { // arrays come first
		if n := &nodes[i]; n.array != nil {
			begin(arrays, stop, n)
		} else {
			begin(groups, stopGroups, n)
		}
	}
	return groups, arrays.Wait()
}
