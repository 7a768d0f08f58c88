// Package ncerr holds the error kinds of nczarr and the one table that maps
// them to netCDF codes, gRPC codes and exit codes.
//
// A [Kind] is itself an error, so the constants are the sentinels:
//
//	if errors.Is(err, ncerr.ErrNotFound) { ... }
//
// Layers wrap once, with what they were doing and the key it concerned:
//
//	return ncerr.New(ncerr.ErrCorrupt, "decode", key, cause)
//
// An error of one kind hides the kinds of its causes from errors.Is: what is
// absent is ErrNotFound, and a dataset that is damaged because an object is
// absent is not. [KindOf] reports the same kind.
//
// Every other package of the module may import ncerr; ncerr imports the
// standard library only.
package ncerr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Error is the one error type of nczarr: what was done, to which key, what
// kind of failure it was, and why.
type Error struct {
	// Op is a lower-case verb such as "get", "parse" or "decode"; may be empty.
	Op string
	// Key is the object key, variable path or location concerned; may be
	// empty. It is printed quoted. It must hold no secret.
	Key string
	// Kind classifies the failure; never zero in an Error made by this package.
	Kind Kind
	// Err is the cause; may be nil.
	Err error
	// Retryable says that the same call may succeed when repeated.
	Retryable bool
	// RetryAfter is the wait a server asked for; zero when it asked for none.
	RetryAfter time.Duration
}

// New makes an [*Error]. It never returns nil. The zero kind becomes [ErrIO].
func New(kind Kind, op, key string, cause error) *Error {
	if kind == 0 {
		kind = ErrIO
	}
	return &Error{Op: op, Key: key, Kind: kind, Err: cause}
}

// Errorf is [New] with a formatted cause.
func Errorf(kind Kind, op, key, format string, args ...any) *Error {
	return New(kind, op, key, fmt.Errorf(format, args...))
}

// Wrap gives err an operation and a key. An error that has a kind keeps it;
// a raw error becomes [ErrIO]; the caller's own context errors and nil pass
// unchanged, and an *Error that already names a key is returned as it is.
func Wrap(op, key string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) == 1 { // errors.Join of one error
		if e, ok := joined.Unwrap()[0].(*Error); ok && e.Op == op { //nolint:errorlint // the same
			err = e
		}
	}
	if err == nil || isContext(err) {
		return err
	}
	var e *Error
	if errors.As(err, &e) {
		if e.Key != "" || key == "" && e.Op != "" {
			return err
		}
		if direct, ok := err.(*Error); ok { //nolint:errorlint // only the outermost error may be completed
			c := *direct
			c.Key = key
			if c.Op == "" {
				c.Op = op
			}
			return &c
		}
	}
	w := New(KindOf(err), op, key, err)
	w.Retryable, w.RetryAfter = Retry(err)
	if k, ok := err.(Kind); ok { //nolint:errorlint // a bare sentinel has no text of its own to keep
		w.Kind, w.Err = k, nil
	}
	return w
}

// Error gives `op "key": meaning: cause`, leaving out what is not known. A
// chain of errors of one kind says the meaning once, at the innermost of them,
// and an operation that wraps itself is said once.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op)
	}
	if e.Key != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Quote(e.Key))
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if e.Err == nil {
		b.WriteString(e.Kind.Error())
		return b.String()
	}
	text := e.Err.Error()
	if inner, ok := e.Err.(*Error); ok && inner.Op == e.Op && e.Op != "" { //nolint:errorlint // what is said next
		switch {
		case inner.Key == e.Key:
			text = strings.TrimPrefix(text, b.String())
		case inner.Key == "":
			text = strings.TrimPrefix(text, e.Op+": ")
		case e.Key == "" && inner.Kind == e.Kind:
			return text
		}
	}
	if said := e.Kind.Error(); !strings.Contains(text, said+":") && !strings.HasSuffix(text, said) {
		b.WriteString(said)
		b.WriteString(": ")
	}
	b.WriteString(text)
	return b.String()
}

// Is reports whether target is e's kind, or the standard library's name for it.
func (e *Error) Is(target error) bool { return e.Kind.Is(target) }

// Unwrap gives the cause, which shows no kind: that of e counts.
func (e *Error) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return cause{e.Err}
}

// cause is an error that shows no kind.
type cause struct{ error }

// Is reports whether target, which is no kind nor the standard library's name for
// one, is in the chain of the cause.
func (c cause) Is(target error) bool {
	if _, ok := target.(Kind); ok { // a kind is compared as it is
		return false
	}
	for _, name := range stdlibNames {
		if target == name { // the same
			return false
		}
	}
	return errors.Is(c.error, target)
}

// As finds an error of another type in the chain of the cause.
func (c cause) As(target any) bool {
	switch target.(type) {
	case **Error, *Kind:
		return false
	}
	return errors.As(c.error, target)
}

// KindOf gives the outermost kind found in err's chain: the first *Error or
// Kind met when unwrapping from outside. It is 0 for nil and for context
// errors, and [ErrIO] for an error that carries no kind.
func KindOf(err error) Kind {
	if err == nil || isContext(err) {
		return 0
	}
	for e := err; e != nil; {
		switch x := e.(type) { //nolint:errorlint // this walks the chain by hand
		case *Error:
			return x.Kind
		case Kind:
			return x
		case interface{ Unwrap() []error }:
			for _, sub := range x.Unwrap() {
				if k := KindOf(sub); k != 0 && k != ErrIO {
					return k
				}
			}
			return ErrIO
		}
		e = errors.Unwrap(e)
	}
	return ErrIO
}

// Retry reports whether err's outermost *Error is marked retryable, and how
// long its server asked to wait.
func Retry(err error) (retryable bool, after time.Duration) {
	var e *Error
	if errors.As(err, &e) {
		return e.Retryable, e.RetryAfter
	}
	return false, 0
}

// IsContext reports whether err is a bare or wrapped context error that has
// no nczarr kind around it: the caller's own cancellation or deadline.
func IsContext(err error) bool { return err != nil && isContext(err) }

func isContext(err error) bool {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var e *Error
	return !errors.As(err, &e)
}

var stdlibNames = map[Kind]error{
	ErrNotFound:   fs.ErrNotExist,
	ErrNoDataset:  fs.ErrNotExist,
	ErrExists:     fs.ErrExist,
	ErrPermission: fs.ErrPermission,
}

// Lasting reports whether an error says something about one object, rather than
// about the store as a whole or about this moment.
func Lasting(err error) bool {
	switch KindOf(err) {
	case ErrLimit, ErrPermission, ErrBadName, ErrCorrupt, ErrUnsupported:
		return true
	}
	return false
}
