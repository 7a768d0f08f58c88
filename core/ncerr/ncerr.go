// Package ncerr defines the error kinds of nczarr and maps them to netCDF
// codes, gRPC codes and exit codes.
//
// A [Kind] is itself an error, so the constants serve as sentinels:
//
//	if errors.Is(err, ncerr.ErrNotFound) { ... }
//
// Each layer wraps an error once, with the operation and the key:
//
//	return ncerr.New(ncerr.ErrCorrupt, "decode", key, cause)
//
// Only the outermost kind of an error is significant. errors.Is ignores the kinds
// of its causes, so a dataset that is damaged because an object is missing does
// not match ErrNotFound. [KindOf] returns the outermost kind.
//
// Every other package of the module may import ncerr. It imports only the
// standard library.
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

// Error is the error type of nczarr. It records the operation, the key, the kind
// of failure and its cause.
type Error struct {
	// Op is a lower-case verb such as "get", "parse" or "decode". It may be empty.
	Op string
	// Key is the object key, variable path or location. It may be empty. It must
	// not contain a secret. Error prints it quoted.
	Key string
	// Kind classifies the failure. It is never zero in an Error made by this package.
	Kind Kind
	// Err is the cause. It may be nil.
	Err error
	// Retryable is set if the same call may succeed when repeated.
	Retryable bool
	// RetryAfter is the delay that the server requested, or zero.
	RetryAfter time.Duration
}

// New returns an [*Error], which is never nil. It replaces the zero kind with [ErrIO].
func New(kind Kind, op, key string, cause error) *Error {
	if kind == 0 {
		kind = ErrIO
	}
	return &Error{Op: op, Key: key, Kind: kind, Err: cause}
}

// Errorf is like [New] with a formatted cause.
func Errorf(kind Kind, op, key, format string, args ...any) *Error {
	return New(kind, op, key, fmt.Errorf(format, args...))
}

// Wrap adds an operation and a key to err. An error with a kind keeps that kind; other
// errors become [ErrIO]. Wrap returns nil, context errors (see [IsContext]) and an
// *Error that already has a key unchanged.
func Wrap(op, key string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) == 1 { // the result of errors.Join for one error
		if e, ok := joined.Unwrap()[0].(*Error); ok && e.Op == op { //nolint:errorlint // only the element itself is compared, not its chain
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
	if k, ok := err.(Kind); ok { //nolint:errorlint // a bare sentinel adds no text
		w.Kind, w.Err = k, nil
	}
	return w
}

// Error returns `op "key": meaning: cause`, without the parts that are empty. In a chain
// of errors of the same kind, the meaning appears only once, with the innermost error. An
// operation that an error shares with its direct cause also appears only once, unless
// their keys differ.
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
	if inner, ok := e.Err.(*Error); ok && inner.Op == e.Op && e.Op != "" { //nolint:errorlint // only the direct cause repeats the text
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

// Is reports whether target is e's kind or the standard library's sentinel for that
// kind.
func (e *Error) Is(target error) bool { return e.Kind.Is(target) }

// Unwrap returns the cause, wrapped so that errors.Is and errors.As ignore its kinds.
func (e *Error) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return cause{e.Err}
}

// cause wraps an error so that errors.Is and errors.As ignore its kinds.
type cause struct{ error }

// Is reports whether target is in the chain of the cause. It returns false for kinds
// and for the standard library's sentinels for kinds.
func (c cause) Is(target error) bool {
	if _, ok := target.(Kind); ok { // compared by value
		return false
	}
	for _, name := range stdlibNames {
		if target == name { // compared by identity
			return false
		}
	}
	return errors.Is(c.error, target)
}

// As finds the first error in the chain of the cause that target can hold. It
// returns false for *Error and Kind targets.
func (c cause) As(target any) bool {
	switch target.(type) {
	case **Error, *Kind:
		return false
	}
	return errors.As(c.error, target)
}

// KindOf returns the outermost kind in err's chain, which is the kind of the first *Error
// or Kind found while unwrapping. It returns 0 for nil and for context errors, and
// [ErrIO] for an error without a kind.
func KindOf(err error) Kind {
	if err == nil || isContext(err) {
		return 0
	}
	for e := err; e != nil; {
		switch x := e.(type) { //nolint:errorlint // the loop unwraps the chain itself
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

// Retry reports whether err's outermost *Error is retryable, and returns the delay that
// the server requested. For an error without an *Error it returns false and zero.
func Retry(err error) (retryable bool, after time.Duration) {
	var e *Error
	if errors.As(err, &e) {
		return e.Retryable, e.RetryAfter
	}
	return false, 0
}

// IsContext reports whether err is the caller's own cancellation or deadline: a
// context error, bare or wrapped, without an *Error around it.
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

// IsPerObject reports whether err concerns a single object and would occur again if the
// call were repeated. Other errors affect the whole store or are temporary.
func IsPerObject(err error) bool {
	switch KindOf(err) {
	case ErrLimit, ErrPermission, ErrBadName, ErrCorrupt, ErrUnsupported:
		return true
	}
	return false
}
