package dataset

import (
	"cmp"
	"context"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// Create finds a location empty, and then claims it. In between, another process may have
// created a dataset there and finished. After the claim is put, a second look at the
// location finds that dataset, and no process that respects claims can create another one.
//
// The look begins in Create, but Create does not wait for its result. To save a round trip,
// the look runs at the same time as the put of the claim with the nodes. No chunk and no
// document is written before the look has found the location empty. Until then the only
// object of this process is its claim, so a process that dies leaves only the claim: if a
// dataset exists at the location, nczctl clean removes nothing but the claim.

// claimLook is the second look at a claimed location.
type claimLook struct {
	done    chan struct{} // closed when inside and outside are set
	inside  error         // the location is not empty, or the listing failed
	outside error         // a prefix above the location is claimed, or the check failed
	failed  bool          // joinLook has found that the look has failed
	cleanup error         // of deleting the claim after that
}

// beginLook begins the second look at the location. It continues after ctx is canceled,
// because ctx may end with Create.
func (d *Dataset) beginLook(ctx context.Context, force bool) {
	l := &claimLook{done: make(chan struct{})}
	d.newClaim.look = l
	ctx = context.WithoutCancel(ctx)
	go func() {
		var wg sync.WaitGroup
		wg.Go(func() { l.inside = d.checkStillEmpty(ctx) })
		if !force { // a process that claims a prefix above this location lists the prefix only after its claim, so at least one of the two processes finds the other
			l.outside = checkOutsideInBucket(ctx, d.loc, d.opts, zarr.ReplacingMark)
		}
		wg.Wait()
		close(l.done)
		_ = d.awaitLook(ctx) // delete the claim if the look has failed, unless a caller that holds newClaim.mu does
	}()
}

// checkStillEmpty fails if a claimed location contains anything but the claim.
func (d *Dataset) checkStillEmpty(ctx context.Context) error {
	for e, err := range d.m.List(ctx, "", nil) {
		if err == nil && e.Key != zarr.ReplacingMark {
			err = errNotEmpty(d.loc)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// joinLook waits for the second look. If it has found an object, joinLook looks
// again: the claim may have been put at the same time, and while an object is replaced, some
// servers (versitygw) list a temporary name. If the look has failed, joinLook deletes the
// claim, and it returns the error from then on. The caller holds newClaim.mu, so that the
// claim is not put at the same time.
func (d *Dataset) joinLook(ctx context.Context) error {
	k := &d.newClaim
	l := k.look
	if l == nil {
		return nil
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !l.failed {
		if ncerr.KindOf(l.inside) == ncerr.ErrConflict {
			l.inside = d.checkStillEmpty(context.WithoutCancel(ctx))
		}
		if l.inside == nil && l.outside == nil {
			k.look = nil
			return nil
		}
		l.cleanup = k.remove(context.WithoutCancel(ctx), d.m)
		l.failed, k.text = true, nil
	}
	return joinCleanupError(cmp.Or(l.inside, l.outside), l.cleanup)
}

// awaitLook is joinLook for callers that do not hold newClaim.mu.
func (d *Dataset) awaitLook(ctx context.Context) error {
	d.newClaim.mu.Lock()
	defer d.newClaim.mu.Unlock()
	return d.joinLook(ctx)
}

// checkOwned verifies, before objects are removed from the location, that they are not those
// of another process: the second look has passed, and the claim still exists.
func (d *Dataset) checkOwned(ctx context.Context) error {
	if err := d.awaitLook(ctx); err != nil {
		return err
	}
	return d.checkClaim(ctx, d.m)
}
