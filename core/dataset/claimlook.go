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
	force   bool          // do not check the prefixes above the location
	done    chan struct{} // closed when inside and outside are set
	inside  error         // the location is not empty, or the listing failed
	outside error         // a prefix above the location is claimed, or the check failed
	failed  bool          // the look has failed, and the claim was deleted
	cleanup error         // of deleting the claim
}

// beginLook begins the second look at the location. It continues after ctx is canceled,
// because ctx may end with Create.
func (d *Dataset) beginLook(ctx context.Context, force bool) {
	l := &claimLook{force: force, done: make(chan struct{})}
	d.newClaim.look = l
	ctx = context.WithoutCancel(ctx)
	go func() {
		var wg sync.WaitGroup
		wg.Go(func() { l.inside = d.checkStillEmpty(ctx) })
		l.outside = d.checkAbove(ctx, l)
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

// checkAbove fails if a prefix above the location is claimed. A process that claims such a
// prefix lists it only after its claim, so at least one of the two processes finds the other.
func (d *Dataset) checkAbove(ctx context.Context, l *claimLook) error {
	if l.force {
		return nil
	}
	return checkOutsideInBucket(ctx, d.loc, d.opts, zarr.ReplacingMark)
}

// joinLook waits for the second look. If it has found an object, joinLook looks
// again: the claim may have been put at the same time, and while an object is replaced, some
// servers (versitygw) list a temporary name. It also looks again after a temporary failure; if
// that lasts, the next call looks once more. If the look has failed for good, joinLook deletes
// the claim, and it returns the error from then on. The caller holds newClaim.mu, so that the
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
		if ncerr.KindOf(l.inside) == ncerr.ErrConflict || isTemporary(l.inside) {
			l.inside = d.checkStillEmpty(context.WithoutCancel(ctx))
		}
		if isTemporary(l.outside) {
			l.outside = d.checkAbove(context.WithoutCancel(ctx), l)
		}
		switch err := cmp.Or(l.inside, l.outside); {
		case err == nil:
			k.look = nil
			return nil
		case isTemporary(l.inside) || isTemporary(l.outside):
			return err
		}
		l.fail(ctx, d)
	}
	return joinCleanupError(cmp.Or(l.inside, l.outside), l.cleanup)
}

// isTemporary reports whether a repetition of a request that failed with err may succeed.
func isTemporary(err error) bool {
	again, _ := ncerr.Retry(err)
	return again
}

// fail deletes the claim. The caller holds newClaim.mu.
func (l *claimLook) fail(ctx context.Context, d *Dataset) {
	l.cleanup = d.newClaim.remove(context.WithoutCancel(ctx), d.m)
	l.failed, d.newClaim.text = true, nil
}

// awaitLook is joinLook for callers that do not hold newClaim.mu.
func (d *Dataset) awaitLook(ctx context.Context) error {
	d.newClaim.mu.Lock()
	defer d.newClaim.mu.Unlock()
	return d.joinLook(ctx)
}

// endLook is awaitLook for the last call. It deletes the claim after any failure.
func (d *Dataset) endLook(ctx context.Context) error {
	k := &d.newClaim
	k.mu.Lock()
	defer k.mu.Unlock()
	err := d.joinLook(ctx)
	if l := k.look; err != nil && l != nil && !l.failed {
		l.fail(ctx, d)
	}
	return err
}

// checkOwned verifies, before objects are removed from the location, that they are not those
// of another process: the second look has passed, and the claim still exists.
func (d *Dataset) checkOwned(ctx context.Context) error {
	if err := d.awaitLook(ctx); err != nil {
		return err
	}
	return d.checkClaim(ctx, d.m)
}
