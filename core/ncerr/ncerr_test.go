package ncerr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func TestTableIsWholeAndInOrder(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for i, r := range ncerr.Table() {
		if int(r.Kind) != i+1 {
			t.Errorf("row %d describes kind %d", i, r.Kind)
		}
		if r.Name == "" || r.Meaning == "" || r.NCName == "" || r.NC >= 0 || r.GRPC == 0 || r.Exit == 0 {
			t.Errorf("row of %s is incomplete: %+v", r.Name, r)
		}
		if names[r.Name] {
			t.Errorf("duplicate name %s", r.Name)
		}
		names[r.Name] = true
	}
	if ncerr.ErrOther.Name() != "ErrOther" || !ncerr.ErrOther.Known() {
		t.Error("ErrOther, the last kind, has no row")
	}
}

// TestCodes checks the published codes, on which scripts and other programs rely.
func TestCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err      error
		nc, exit int
	}{
		{nil, 0, 0},
		{ncerr.ErrNotFound, -139, 10},
		{ncerr.ErrNoDataset, -90, 10},
		{ncerr.ErrNoObject, -141, 13},
		{ncerr.ErrExists, -35, 11},
		{ncerr.ErrObjectExists, -140, 11},
		{ncerr.ErrReadOnly, -37, 12},
		{ncerr.ErrPermission, -77, 12},
		{ncerr.ErrAuth, -78, 12},
		{ncerr.ErrInvalid, -36, 2},
		{ncerr.ErrBadURL, -74, 2},
		{ncerr.ErrConvert, -60, 13},
		{ncerr.ErrNotZarr, -143, 13},
		{ncerr.ErrMetadata, -137, 13},
		{ncerr.ErrConsolidated, -144, 13},
		{ncerr.ErrNoFilter, -136, 15},
		{ncerr.ErrFilter, -132, 13},
		{ncerr.ErrLimit, -61, 16},
		{ncerr.ErrPlugin, -142, 14},
		{ncerr.ErrDiffers, -36, 3},
		{io.ErrUnexpectedEOF, -68, 1},
		{fmt.Errorf("round: %w", ncerr.New(ncerr.ErrPlugin, "start", "x", nil)), -142, 14},
	} {
		if got := ncerr.NC(c.err); got != c.nc {
			t.Errorf("%v: netCDF code: want %d, got %d", c.err, c.nc, got)
		}
		if got := ncerr.Exit(c.err); got != c.exit {
			t.Errorf("%v: exit code: want %d, got %d", c.err, c.exit, got)
		}
	}
	if got := ncerr.Exit(fmt.Errorf("x: %w", context.Canceled)); got != 130 {
		t.Errorf("canceled: want 130, got %d", got)
	}
	if got := ncerr.Exit(context.DeadlineExceeded); got != 1 {
		t.Errorf("deadline: want 1, got %d", got)
	}
}

func TestIs(t *testing.T) {
	t.Parallel()
	err := error(ncerr.New(ncerr.ErrNotFound, "get", "v/0", nil))
	for _, target := range []error{ncerr.ErrNotFound, fs.ErrNotExist} {
		if !errors.Is(err, target) || !errors.Is(fmt.Errorf("x: %w", err), target) {
			t.Errorf("%v is not %v", err, target)
		}
	}
	for _, target := range []error{ncerr.ErrNoDataset, fs.ErrExist, io.EOF} {
		if errors.Is(err, target) {
			t.Errorf("%v is %v", err, target)
		}
	}
}

// TestKindOfIsTheOutermost checks that KindOf returns the outermost kind and ignores the
// kinds of causes deeper in the chain.
func TestKindOfIsTheOutermost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want ncerr.Kind
	}{
		{nil, 0},
		{context.Canceled, 0},
		{fs.ErrNotExist, ncerr.ErrIO},
		{ncerr.ErrNotFound, ncerr.ErrNotFound},
		{ncerr.New(ncerr.ErrIO, "get", "k", fs.ErrNotExist), ncerr.ErrIO},
		{ncerr.New(ncerr.ErrIO, "get", "k", ncerr.ErrNotFound), ncerr.ErrIO},
		{fmt.Errorf("x: %w", ncerr.New(ncerr.ErrLimit, "", "", ncerr.ErrNotFound)), ncerr.ErrLimit},
		{errors.Join(io.EOF, ncerr.ErrCorrupt), ncerr.ErrCorrupt},
		{ncerr.New(ncerr.ErrIO, "get", "k", context.DeadlineExceeded), ncerr.ErrIO},
		{ncerr.New(0, "get", "k", nil), ncerr.ErrIO},
	} {
		if got := ncerr.KindOf(c.err); got != c.want {
			t.Errorf("%v: want %v, got %v", c.err, c.want, got)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want string
		kind ncerr.Kind
	}{
		{"raw", io.ErrUnexpectedEOF, `get "v/0": i/o failure: unexpected EOF`, ncerr.ErrIO},
		{"sentinel", ncerr.ErrNotFound, `get "v/0": no object at this key`, ncerr.ErrNotFound},
		{"no key yet", ncerr.Errorf(ncerr.ErrCorrupt, "", "", "bad checksum"), `get "v/0": corrupt data: bad checksum`, ncerr.ErrCorrupt},
		{"has a key", ncerr.New(ncerr.ErrCorrupt, "decode", "a", nil), `decode "a": corrupt data`, ncerr.ErrCorrupt},
		{"kind in one of several", errors.Join(ncerr.Errorf(ncerr.ErrCorrupt, "open", "", "cut")), `get "v/0": open: corrupt data: cut`, ncerr.ErrCorrupt},
		{"kind inside", fmt.Errorf("step 2: %w", ncerr.ErrFilter), `get "v/0": step 2: filter failed`, ncerr.ErrFilter},
	} {
		got := ncerr.Wrap("get", "v/0", c.err)
		if got.Error() != c.want || ncerr.KindOf(got) != c.kind {
			t.Errorf("%s: want %s (%v), got %s (%v)", c.name, c.want, c.kind, got, ncerr.KindOf(got))
		}
		if !errors.Is(got, c.err) && ncerr.KindOf(c.err) == ncerr.ErrIO {
			t.Errorf("%s: the result does not wrap its cause", c.name)
		}
	}
	for _, same := range []error{nil, context.Canceled, context.DeadlineExceeded} {
		if got := ncerr.Wrap("get", "k", same); got != same { //nolint:errorlint // compares identity
			t.Errorf("want %v unchanged, got %v", same, got)
		}
	}
}

func TestRetrySurvivesWrapping(t *testing.T) {
	t.Parallel()
	inner := ncerr.New(ncerr.ErrIO, "", "", io.EOF)
	inner.Retryable, inner.RetryAfter = true, time.Second
	for _, err := range []error{inner, ncerr.Wrap("get", "k", inner), ncerr.Wrap("get", "k", fmt.Errorf("x: %w", inner))} {
		if ok, after := ncerr.Retry(err); !ok || after != time.Second {
			t.Errorf("%v: want retryable after 1s, got %t %v", err, ok, after)
		}
	}
	if ok, _ := ncerr.Retry(io.EOF); ok {
		t.Error("Retry(io.EOF) returned true")
	}
}

func TestUnknownKindFromTheWire(t *testing.T) {
	t.Parallel()
	k := ncerr.Kind(9999)
	if k.Known() || k.Name() != "ErrOther" || !strings.Contains(k.Error(), "failure") {
		t.Errorf("want the fallback row, got %s %q", k.Name(), k.Error())
	}
}

// TestOperationIsPrintedOnce checks that an error with the same operation as its cause
// prints the operation once, unless their keys differ.
func TestOperationIsPrintedOnce(t *testing.T) {
	t.Parallel()
	bare := ncerr.Errorf(ncerr.ErrCorrupt, "open", "", "cut")
	for want, err := range map[string]error{
		`open "a": corrupt data: cut`:              ncerr.New(ncerr.ErrCorrupt, "open", "a", bare),
		`open "b": corrupt data: cut`:              ncerr.New(ncerr.ErrCorrupt, "open", "b", ncerr.New(ncerr.ErrCorrupt, "open", "b", bare)),
		`open "c": corrupt data: cut`:              ncerr.New(ncerr.ErrCorrupt, "open", "", ncerr.New(ncerr.ErrCorrupt, "open", "c", bare)),
		`open "d": open "e": corrupt data: cut`:    ncerr.New(ncerr.ErrCorrupt, "open", "d", ncerr.New(ncerr.ErrCorrupt, "open", "e", bare)),
		`read "f": open: corrupt data: cut`:        ncerr.New(ncerr.ErrCorrupt, "read", "f", bare),
		`open "g": corrupt data: cut `:             ncerr.Wrap("open", "g", errors.Join(ncerr.Errorf(ncerr.ErrCorrupt, "open", "", "cut "))),
		`open "h": i/o failure: corrupt data: cut`: ncerr.New(ncerr.ErrIO, "open", "h", ncerr.Errorf(ncerr.ErrCorrupt, "", "", "cut")),
	} {
		if got := err.Error(); got != want {
			t.Errorf("want %s\ngot  %s", want, got)
		}
	}
}

// TestKindOfTheCauseIsIgnored checks that the kind of an error does not depend on the
// kind of its cause.
func TestKindOfTheCauseIsIgnored(t *testing.T) {
	t.Parallel()
	names := []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission}
	for _, outer := range ncerr.Table() {
		check := func(err error) {
			t.Helper()
			for _, k := range ncerr.Table() {
				if errors.Is(err, k.Kind) != (k.Kind == outer.Kind) {
					t.Errorf("errors.Is(%v, %s): %t", err, k.Name, k.Kind != outer.Kind)
				}
			}
			for _, name := range names {
				if errors.Is(err, name) != errors.Is(outer.Kind, name) {
					t.Errorf("errors.Is(%v, %v): %t", err, name, !errors.Is(outer.Kind, name))
				}
			}
			var e *ncerr.Error
			if ncerr.KindOf(err) != outer.Kind || !errors.As(err, &e) || e.Kind != outer.Kind {
				t.Errorf("%v: kind %v", err, ncerr.KindOf(err))
			}
		}
		for _, inner := range ncerr.Table() {
			cause := ncerr.New(inner.Kind, "get", "k", io.ErrUnexpectedEOF)
			err := ncerr.New(outer.Kind, "read", "v", fmt.Errorf("chunk: %w", errors.Join(cause, inner.Kind)))
			check(err)
			if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, cause) {
				t.Errorf("%v does not match its cause", err)
			}
		}
		for _, name := range names {
			err := ncerr.New(outer.Kind, "open", "v", &fs.PathError{Op: "open", Path: "x", Err: name})
			check(err)
			var p *fs.PathError
			if !errors.As(err, &p) {
				t.Errorf("%v does not match its cause", err)
			}
		}
	}
}
