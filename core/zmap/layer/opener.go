package layer

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// retryOpener repeats what makes and removes stores.
type retryOpener struct {
	driver.Opener
	o RetryOptions
}

// RetryOpener repeats an Open or a Remove that failed with an error marked
// Retryable, as [Retry] does with the calls to a Map: what a store has in it is
// looked for and deleted by requests too, and what was deleted already is not
// deleted again. A Remove whose first try had done all of it, but for the
// answer, finds no store when it is repeated: ncerr.ErrNoDataset.
func RetryOpener(o driver.Opener, opts *RetryOptions) driver.Opener {
	r := &retryOpener{Opener: o}
	if opts != nil {
		r.o = *opts
	}
	return r
}

// Open implements driver.Opener.
func (r *retryOpener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	p := pause{r: newRetry(&r.o), op: "open", key: spec.Path}
	for {
		m, err := r.Opener.Open(ctx, spec)
		if err == nil || !p.again(ctx, &err) {
			return m, err
		}
	}
}

// Remove implements driver.Opener.
func (r *retryOpener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	p := pause{r: newRetry(&r.o), op: "remove", key: spec.Path}
	for {
		err := r.Opener.Remove(ctx, spec)
		if err == nil || !p.again(ctx, &err) {
			return err
		}
	}
}
