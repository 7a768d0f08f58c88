package layer

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// retryOpener retries Open and Remove.
type retryOpener struct {
	driver.Opener
	o RetryOptions
}

// RetryOpener returns an Opener that retries Open and Remove after a Retryable error, as
// [Retry] does for calls to a Map. If the first Remove deleted the store but its response
// was lost, the retry returns ncerr.ErrNoDataset. If a retry in mode CreateExclusive finds
// that the store exists, Open returns ncerr.ErrAmbiguous, because the first attempt may
// have created it.
func RetryOpener(o driver.Opener, opts *RetryOptions) driver.Opener {
	r := &retryOpener{Opener: o}
	if opts != nil {
		r.o = *opts
	}
	return r
}

// Open implements driver.Opener.
func (r *retryOpener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	p := callState{r: newRetry(&r.o), op: "open", key: spec.Path}
	for {
		m, err := r.Opener.Open(ctx, spec)
		if p.tries > 0 && spec.Mode == driver.CreateExclusive && ncerr.KindOf(err) == ncerr.ErrExists {
			return nil, ncerr.Errorf(ncerr.ErrAmbiguous, "open", spec.Path, "the store exists, but an earlier attempt of this call may have created it")
		}
		if err == nil || !p.waitRetry(ctx, &err) {
			return m, err
		}
	}
}

// Remove implements driver.Opener.
func (r *retryOpener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	p := callState{r: newRetry(&r.o), op: "remove", key: spec.Path}
	for {
		err := r.Opener.Remove(ctx, spec)
		if err == nil || !p.waitRetry(ctx, &err) {
			return err
		}
	}
}
