package zmap

import (
	"context"
	"errors"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// wrap adds the operation and key to a driver's error. It returns an error of the
// caller's own context unchanged. Any other context error, and any error without a kind,
// becomes ncerr.ErrIO. It keeps ncerr.ErrNotFound only if that is the outermost kind and
// the error is about this key.
func (z *Map) wrap(ctx context.Context, op, key string, err error) error {
	if err == nil {
		return nil
	}
	if own := ctx.Err(); own != nil && errors.Is(err, own) {
		return own
	}
	kind := outerKind(err)
	var e *ncerr.Error
	if direct, ok := err.(*ncerr.Error); ok { //nolint:errorlint // only the outermost error gets the operation and key
		if direct.Key == "" || direct.Key == key {
			c := *direct
			c.Op, c.Key = op, key
			return z.withPlace(&c)
		}
		e = direct
	} else if k, ok := err.(ncerr.Kind); ok { //nolint:errorlint // a bare sentinel adds no text
		return z.withPlace(ncerr.New(k, op, key, nil))
	}
	if kind == ncerr.ErrNotFound && (e != nil || key == "") {
		kind = ncerr.ErrIO // the error is about another object
	}
	w := ncerr.New(kind, op, key, err)
	w.Retryable, w.RetryAfter = ncerr.Retry(err)
	return z.withPlace(w)
}

// withPlace adds the location of the store to an error. It leaves ErrNotFound unchanged,
// because callers test for that error rather than print it.
func (z *Map) withPlace(e *ncerr.Error) error {
	if z.place != "" && e.Kind != ncerr.ErrNotFound {
		e.Err = &placeError{place: z.place, err: e.Err}
	}
	return e
}

// placeError adds the location of the store to an error.
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

// outerKind is like ncerr.KindOf, except that it returns ErrNotFound only if err itself,
// or an error in its chain of single causes, has that kind. It ignores ErrNotFound
// inside joined errors.
func outerKind(err error) ncerr.Kind {
	kind := ncerr.KindOf(err)
	if kind != ncerr.ErrNotFound {
		return kind // 0 for a context error that is not the caller's; New makes it ErrIO
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if k := directKind(e); k != 0 {
			return k
		}
	}
	return ncerr.ErrIO
}

// directKind returns the kind of err itself, ignoring the errors it wraps.
func directKind(err error) ncerr.Kind {
	switch x := err.(type) { //nolint:errorlint // the caller walks the chain
	case *ncerr.Error:
		return x.Kind
	case ncerr.Kind:
		return x
	}
	return 0
}
