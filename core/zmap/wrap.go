package zmap

import (
	"context"
	"errors"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// wrap gives a driver's error its operation and key, once. The caller's own
// context error passes bare; a context error that is not the caller's, and any
// other error without a kind, is ncerr.ErrIO. ncerr.ErrNotFound is believed
// only as the outermost kind and about this very key.
func (z *Map) wrap(ctx context.Context, op, key string, err error) error {
	if err == nil {
		return nil
	}
	if own := ctx.Err(); own != nil && errors.Is(err, own) {
		return own
	}
	kind := outerKind(err)
	var e *ncerr.Error
	if direct, ok := err.(*ncerr.Error); ok { //nolint:errorlint // only the outermost error may be completed
		if direct.Key == "" || direct.Key == key {
			c := *direct
			c.Op, c.Key = op, key
			return z.placed(&c)
		}
		e = direct
	} else if k, ok := err.(ncerr.Kind); ok { //nolint:errorlint // a bare sentinel has no text of its own to keep
		return z.placed(ncerr.New(k, op, key, nil))
	}
	if kind == ncerr.ErrNotFound && (e != nil || key == "") {
		kind = ncerr.ErrIO // something else is missing, not this object
	}
	w := ncerr.New(kind, op, key, err)
	w.Retryable, w.RetryAfter = ncerr.Retry(err)
	return z.placed(w)
}

// placed adds where the store is to an error that was made here. That an object
// is not there is no failure, and not for people.
func (z *Map) placed(e *ncerr.Error) error {
	if z.place != "" && e.Kind != ncerr.ErrNotFound {
		e.Err = &placeError{place: z.place, err: e.Err}
	}
	return e
}

// placeError says in which store something failed.
type placeError struct {
	place string
	err   error
}

func (e *placeError) Error() string {
	if e.err == nil {
		return "in " + e.place
	}
	return e.err.Error() + " (in " + e.place + ")"
}

func (e *placeError) Unwrap() error { return e.err }

// outerKind is ncerr.KindOf, except that of joined errors none says that an
// object is absent.
func outerKind(err error) ncerr.Kind {
	kind := ncerr.KindOf(err)
	if kind != ncerr.ErrNotFound {
		return kind // 0 for a stray context error, which New makes ErrIO
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if k := directKind(e); k != 0 {
			return k
		}
	}
	return ncerr.ErrIO
}

// directKind gives the kind of err itself, not of what it wraps.
func directKind(err error) ncerr.Kind {
	switch x := err.(type) { //nolint:errorlint // the caller walks the chain
	case *ncerr.Error:
		return x.Kind
	case ncerr.Kind:
		return x
	}
	return 0
}
