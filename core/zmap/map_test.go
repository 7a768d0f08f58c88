package zmap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// double is a driver.Map whose methods a test can replace. It has no GetMany and no
// PutMany.
type double struct {
	driver.Map
	caps func(c *driver.Capabilities)
	get  func(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error)
	put  func(key string, body driver.Body) (driver.Info, error)
	list func(prefix string, opts driver.ListOptions) iter.Seq2[driver.Entry, error]
	shut func() error
}

func (d *double) Capabilities() driver.Capabilities {
	c := d.Map.Capabilities()
	if d.caps != nil {
		d.caps(&c)
	}
	return c
}

func (d *double) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if d.get != nil {
		return d.get(ctx, key, opts, alloc)
	}
	return d.Map.Get(ctx, key, opts, alloc)
}

func (d *double) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	if d.put != nil {
		return d.put(key, body)
	}
	return d.Map.Put(ctx, key, body, opts)
}

func (d *double) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	if d.list != nil {
		return d.list(prefix, *opts)
	}
	return d.Map.List(ctx, prefix, opts)
}

func (d *double) Close(ctx context.Context) error {
	if d.shut != nil {
		return d.shut()
	}
	return d.Map.Close(ctx)
}

// filled returns a store in memory with the given keys. The content of each object is its
// key.
func filled(t testing.TB, keys ...string) *memmap.Map {
	t.Helper()
	m := memmap.New()
	for _, k := range keys {
		if _, err := m.Put(t.Context(), k, driver.Bytes(k), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func wantKind(t *testing.T, what string, err error, want ncerr.Kind) {
	t.Helper()
	if got := ncerr.KindOf(err); got != want || err == nil {
		t.Errorf("%s: want %s, got %v", what, want.Name(), err)
	}
}

func TestGetForms(t *testing.T) {
	t.Parallel()
	base := filled(t, "abcdef")
	stores := map[string]driver.Map{
		"native":    base,
		"no ranges": &double{Map: base, caps: func(c *driver.Capabilities) { c.Ranges = false }, get: wholeOnly(base)},
	}
	tests := []struct {
		name  string
		rng   *zmap.Range
		limit int64
		want  string
		kind  ncerr.Kind
	}{
		{"whole", nil, 0, "abcdef", 0},
		{"whole within limit", nil, 6, "abcdef", 0},
		{"whole beyond limit", nil, 5, "", ncerr.ErrLimit},
		{"middle", &zmap.Range{Offset: 2, Length: 3}, 3, "cde", 0},
		{"middle beyond limit", &zmap.Range{Offset: 2, Length: 3}, 2, "", ncerr.ErrLimit},
		{"to the end", &zmap.Range{Offset: 4, Length: -1}, 0, "ef", 0},
		{"at the end", &zmap.Range{Offset: 6, Length: -1}, 0, "", 0},
		{"nothing", &zmap.Range{Offset: 6, Length: 0}, 0, "", 0},
		{"suffix", &zmap.Range{Offset: -2, Length: -1}, 0, "ef", 0},
		{"long suffix", &zmap.Range{Offset: -9, Length: -1}, 0, "abcdef", 0},
		{"past the end", &zmap.Range{Offset: 4, Length: 3}, 0, "", ncerr.ErrRange},
		{"beyond the end", &zmap.Range{Offset: 7, Length: -1}, 0, "", ncerr.ErrRange},
		{"bad length", &zmap.Range{Offset: 0, Length: -2}, 0, "", ncerr.ErrInvalid},
		{"bad suffix", &zmap.Range{Offset: -2, Length: 1}, 0, "", ncerr.ErrInvalid},
	}
	for name, m := range stores {
		z := zmap.New(m, nil)
		for _, tc := range tests {
			got, info, err := z.Get(t.Context(), "abcdef", &zmap.GetOptions{Range: tc.rng, Limit: tc.limit}, nil)
			if tc.kind != 0 {
				wantKind(t, name+", "+tc.name, err, tc.kind)
				continue
			}
			if err != nil || string(got) != tc.want || info.Size != 6 {
				t.Errorf("%s, %s: want %q, got %q, %+v, %v", name, tc.name, tc.want, got, info, err)
			}
		}
	}
}

// wholeOnly returns the Get of a driver without ranges and versions.
func wholeOnly(m driver.Map) func(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error) {
	return func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		if o.Range != nil || o.IfMatch != "" {
			return nil, driver.Info{}, errors.New("called with an option that is not declared")
		}
		return m.Get(ctx, key, o, alloc)
	}
}

func TestIfMatchIsCompared(t *testing.T) {
	t.Parallel()
	base := filled(t, "k")
	z := zmap.New(&double{Map: base, caps: func(c *driver.Capabilities) { c.IfMatch = false }, get: wholeOnly(base)}, nil)
	info, err := z.Stat(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := z.Get(t.Context(), "k", &zmap.GetOptions{IfMatch: info.Version}, nil); err != nil {
		t.Errorf("Get with a matching version: %v", err)
	}
	data, _, err := z.Get(t.Context(), "k", &zmap.GetOptions{IfMatch: info.Version + "x"}, nil)
	wantKind(t, "another version", err, ncerr.ErrConflict)
	if data != nil {
		t.Errorf("content of another version was returned: %q", data)
	}
	_, err = z.Put(t.Context(), "k", zmap.Bytes("x"), &zmap.PutOptions{IfMatch: info.Version})
	wantKind(t, "put cannot be emulated", err, ncerr.ErrUnsupported)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	base := filled(t, "k")
	never := func(string, driver.Body) (driver.Info, error) {
		t.Error("the driver was called")
		return driver.Info{}, nil
	}
	less := func(c *driver.Capabilities) {
		c.Write, c.Delete, c.List, c.IfAbsent, c.MaxKey = false, false, false, false, 3
	}
	ro := zmap.New(&double{Map: base, put: never}, &zmap.Options{ReadOnly: true})
	poor := zmap.New(&double{Map: base, put: never, caps: less}, nil)
	some := zmap.New(&double{Map: base, put: never, caps: func(c *driver.Capabilities) { c.IfAbsent = false }}, nil)
	ctx := t.Context()
	put := func(z *zmap.Map, key string, b zmap.Body, o *zmap.PutOptions) error {
		_, err := z.Put(ctx, key, b, o)
		return err
	}
	list := func(z *zmap.Map, prefix string) error {
		for _, err := range z.List(ctx, prefix, nil) {
			return err
		}
		return nil
	}
	_, searchErr := poor.Search(ctx, "")
	_, badSearch := ro.Search(ctx, "a//")
	_, longErr := poor.Stat(ctx, "long")
	_, _, badGet := poor.Get(ctx, "../x", nil, nil)
	tests := map[string]struct {
		err  error
		want ncerr.Kind
	}{
		"put read-only":           {put(ro, "k", zmap.Bytes("x"), nil), ncerr.ErrReadOnly},
		"delete read-only":        {ro.Delete(ctx, "k"), ncerr.ErrReadOnly},
		"delete prefix read-only": {ro.DeletePrefix(ctx, ""), ncerr.ErrReadOnly},
		"put undeclared":          {put(poor, "k", zmap.Bytes("x"), nil), ncerr.ErrUnsupported},
		"delete undeclared":       {poor.Delete(ctx, "k"), ncerr.ErrUnsupported},
		"delete prefix":           {poor.DeletePrefix(ctx, ""), ncerr.ErrUnsupported},
		"list undeclared":         {list(poor, ""), ncerr.ErrUnsupported},
		"search undeclared":       {searchErr, ncerr.ErrUnsupported},
		"if absent undeclared":    {put(some, "k", zmap.Bytes("x"), &zmap.PutOptions{IfAbsent: true}), ncerr.ErrUnsupported},
		"two conditions":          {put(some, "k", zmap.Bytes("x"), &zmap.PutOptions{IfAbsent: true, IfMatch: "1"}), ncerr.ErrInvalid},
		"no body":                 {put(some, "k", nil, nil), ncerr.ErrInvalid},
		"bad key":                 {put(some, "k/", zmap.Bytes("x"), nil), ncerr.ErrBadName},
		"bad key of get":          {badGet, ncerr.ErrBadName},
		"bad key of delete":       {some.Delete(ctx, ""), ncerr.ErrBadName},
		"long key":                {longErr, ncerr.ErrBadName},
		"bad prefix of list":      {list(some, "/"), ncerr.ErrBadName},
		"bad prefix of search":    {badSearch, ncerr.ErrBadName},
		"bad prefix of delete":    {some.DeletePrefix(ctx, "a/../b"), ncerr.ErrBadName},
	}
	for name, tc := range tests {
		wantKind(t, name, tc.err, tc.want)
	}
	if err := ro.Flush(ctx); err != nil {
		t.Errorf("Flush of a read-only map: %v", err)
	}
}

func TestErrorsAreWrappedOnce(t *testing.T) {
	t.Parallel()
	raw := errors.New("disk on fire")
	tests := map[string]struct {
		err       error
		want      ncerr.Kind
		text      string
		retryable bool
	}{
		"sentinel":          {err: ncerr.ErrNotFound, want: ncerr.ErrNotFound, text: `get "k": no object at this key`},
		"raw":               {err: raw, want: ncerr.ErrIO, text: `get "k": i/o failure: disk on fire`},
		"missing CA file":   {err: fmt.Errorf("tls: %w", fs.ErrNotExist), want: ncerr.ErrIO, text: `get "k": i/o failure: tls: file does not exist`},
		"absent inside":     {err: ncerr.New(ncerr.ErrIO, "", "", ncerr.ErrNotFound), want: ncerr.ErrIO, text: `get "k": i/o failure: no object at this key`},
		"absent elsewhere":  {err: ncerr.New(ncerr.ErrNotFound, "get", "archive.zip", nil), want: ncerr.ErrIO, text: `get "k": i/o failure: get "archive.zip": no object at this key`},
		"absent among many": {err: errors.Join(raw, ncerr.ErrNotFound), want: ncerr.ErrIO, text: "get \"k\": i/o failure: disk on fire\nno object at this key"},
		"absent with text":  {err: fmt.Errorf("as the server says: %w", ncerr.ErrNotFound), want: ncerr.ErrNotFound, text: `get "k": as the server says: no object at this key`},
		"already complete":  {err: ncerr.New(ncerr.ErrAuth, "get", "k", raw), want: ncerr.ErrAuth, text: `get "k": credentials missing or rejected: disk on fire`},
		"other key":         {err: ncerr.New(ncerr.ErrAuth, "sign", "x", raw), want: ncerr.ErrAuth, text: `get "k": sign "x": credentials missing or rejected: disk on fire`},
		"driver's timeout":  {err: context.DeadlineExceeded, want: ncerr.ErrIO, text: `get "k": i/o failure: context deadline exceeded`},
		"retryable":         {err: &ncerr.Error{Kind: ncerr.ErrIO, Err: raw, Retryable: true}, want: ncerr.ErrIO, text: `get "k": i/o failure: disk on fire`, retryable: true},
	}
	for name, tc := range tests {
		z := zmap.New(&double{Map: memmap.New(), get: func(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error) {
			return nil, driver.Info{}, tc.err
		}}, nil)
		_, _, err := z.Get(t.Context(), "k", nil, nil)
		wantKind(t, name, err, tc.want)
		if err.Error() != tc.text {
			t.Errorf("%s:\nwant %s\ngot  %s", name, tc.text, err)
		}
		if r, _ := ncerr.Retry(err); r != tc.retryable {
			t.Errorf("%s: got retryable %t", name, r)
		}
		if again, err := z.Exists(t.Context(), "k"); err != nil || again {
			t.Errorf("%s: Exists of an empty store: got %t, %v", name, again, err)
		}
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	z := zmap.New(&double{Map: memmap.New(), get: func(ctx context.Context, _ string, _ *driver.GetOptions, _ driver.Alloc) ([]byte, driver.Info, error) {
		cancel(errors.New("why"))
		return nil, driver.Info{}, ncerr.New(ncerr.ErrIO, "read", "", fmt.Errorf("pread: %w", ctx.Err()))
	}}, nil)
	if _, _, err := z.Get(ctx, "k", nil, nil); err != context.Canceled { //nolint:errorlint // the contract is to return the identical error
		t.Errorf("context canceled during the call: got %v", err)
	}
	for name, err := range map[string]error{
		"get": second(z.Stat(ctx, "k")), "put": second(z.Put(ctx, "k", zmap.Bytes{}, nil)), "delete": z.Delete(ctx, "k"),
		"flush": z.Flush(ctx), "many": z.GetMany(ctx, []zmap.GetRequest{{Key: "k"}}, nil),
	} {
		if err != context.Canceled { //nolint:errorlint // the contract is to return the identical error
			t.Errorf("%s, context canceled before the call: got %v", name, err)
		}
	}
}

func second[A any](_ A, err error) error { return err }

func TestAllocContract(t *testing.T) {
	t.Parallel()
	content := []byte("abcdef")
	info := driver.Info{Size: 6}
	type getFunc = func(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error)
	tests := map[string]getFunc{
		"other memory": func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			_, err := alloc(6)
			return content, info, err
		},
		"no memory asked": func(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error) {
			return content, info, nil
		},
		"twice": func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			_, _ = alloc(6)
			p, err := alloc(6)
			return p, info, err
		},
		"twice, error swallowed": func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			p, _ := alloc(6)
			_, _ = alloc(6)
			return p, info, nil
		},
		"short": func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			p, err := alloc(5)
			return p, info, err
		},
		"part of it": func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			p, err := alloc(6)
			return p[:5], driver.Info{Size: 5}, err
		},
		"nothing of it": func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			_, err := alloc(6)
			return nil, driver.Info{}, err
		},
		"negative": func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			p, err := alloc(-1)
			return p, info, err
		},
		"bad size": func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			p, err := alloc(6)
			return p, driver.Info{Size: 7}, err
		},
	}
	for name, get := range tests {
		z := zmap.New(&double{Map: memmap.New(), get: get}, &zmap.Options{Name: "shoddy"})
		_, _, err := z.Get(t.Context(), "k", nil, nil)
		wantKind(t, name, err, ncerr.ErrInternal)
		if !strings.Contains(err.Error(), `get "k"`) || !strings.Contains(err.Error(), "shoddy") {
			t.Errorf("%s: the error does not contain the key and the driver: %v", name, err)
		}
	}
	empty := zmap.New(&double{Map: memmap.New(), get: func(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error) {
		return nil, driver.Info{}, nil
	}}, nil)
	if data, _, err := empty.Get(t.Context(), "k", nil, nil); err != nil || len(data) != 0 {
		t.Errorf("an empty object without alloc: got %q, %v", data, err)
	}
}

func TestAllocOfTheCaller(t *testing.T) {
	t.Parallel()
	base := filled(t, "abcdef")
	mine := errors.New("custom")
	for name, m := range map[string]driver.Map{
		"native":    base,
		"no ranges": &double{Map: base, caps: func(c *driver.Capabilities) { c.Ranges = false }},
		"liar": &double{Map: base, get: func(_ context.Context, _ string, _ *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			_, _ = alloc(6)
			return nil, driver.Info{}, ncerr.ErrNotFound
		}},
	} {
		z := zmap.New(m, nil)
		opts := &zmap.GetOptions{Range: &zmap.Range{Offset: 0, Length: 6}}
		_, _, err := z.Get(t.Context(), "abcdef", opts, func(int64) ([]byte, error) { return nil, mine })
		if err != mine { //nolint:errorlint // the contract is to return the identical error
			t.Errorf("%s: want the error of alloc, got %v", name, err)
		}
		_, _, err = z.Get(t.Context(), "abcdef", opts, driver.Into(make([]byte, 5)))
		wantKind(t, name+", short buffer", err, ncerr.ErrShortBuffer)
		_, _, err = z.Get(t.Context(), "abcdef", opts, func(int64) ([]byte, error) { return make([]byte, 9), nil })
		wantKind(t, name+", wrong length", err, ncerr.ErrInvalid)
	}
	dst := make([]byte, 8)
	got, _, err := zmap.New(base, nil).Get(t.Context(), "abcdef", nil, driver.Into(dst))
	if err != nil || &got[0] != &dst[0] || string(dst) != "abcdef\x00\x00" {
		t.Errorf("want the content in the caller's memory, got %q, %v", dst, err)
	}
}

// manyDouble is a double with a GetMany that a test can replace.
type manyDouble struct {
	double
	many func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error
}

func (d *manyDouble) GetMany(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
	return d.many(ctx, reqs, sink)
}

func TestGetMany(t *testing.T) {
	t.Parallel()
	keys := []string{"a", "bb", "ccc", "d/e", "f"}
	base := filled(t, keys...)
	slow := &double{Map: base, caps: func(c *driver.Capabilities) { c.Latency = driver.Remote }, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
		time.Sleep(time.Millisecond)
		return base.Get(ctx, key, o, alloc)
	}}
	poor := &manyDouble{double: double{Map: base, caps: func(c *driver.Capabilities) { c.Ranges, c.IfMatch = false, false }, get: wholeOnly(base)}}
	poor.many = func(context.Context, []driver.GetRequest, driver.GetSink) error {
		return errors.New("called with an option that is not declared")
	}
	versionless := &manyDouble{double: double{Map: base, caps: func(c *driver.Capabilities) { c.IfMatch = false }}}
	versionless.get = func(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error) {
		return nil, driver.Info{}, errors.New("called instead of GetMany")
	}
	versionless.many = func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		if slices.ContainsFunc(reqs, func(r driver.GetRequest) bool { return r.Opts.IfMatch != "" }) {
			return errors.New("called with an option that is not declared")
		}
		return base.GetMany(ctx, reqs, sink)
	}
	for name, m := range map[string]driver.Map{"driver's own": base, "fallback": &double{Map: base}, "remote": slow, "poor": poor, "versions compared here": versionless} {
		z := zmap.New(m, nil)
		var reqs []zmap.GetRequest
		want := map[int]string{}
		for i := range 60 {
			k := keys[i%len(keys)]
			r := zmap.GetRequest{Key: k}
			switch i % 3 {
			case 0:
				r.Alloc = driver.Heap
			case 1:
				r.Opts.Range = &zmap.Range{Offset: -1, Length: -1}
				k = k[len(k)-1:]
			case 2:
				if i%4 == 0 {
					r.Key, k = "missing", "ErrNotFound"
				} else if i%5 == 0 {
					r.Key, k = "bad//key", "ErrBadName"
				} else if i%7 == 0 {
					r.Opts.IfMatch, k = "other", "ErrConflict"
				}
			}
			reqs, want[i] = append(reqs, r), k
		}
		got := map[int]string{}
		err := z.GetMany(t.Context(), reqs, func(i int, data []byte, _ zmap.Info, err error) {
			if _, twice := got[i]; twice {
				t.Errorf("%s: request %d has two results", name, i)
			}
			got[i] = string(data)
			if err != nil {
				got[i] = ncerr.KindOf(err).Name()
			}
		})
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v\nwant %v\ngot  %v", name, err, want, got)
		}
	}
}

func TestGetManyContract(t *testing.T) {
	t.Parallel()
	base := filled(t, "a", "b")
	reqs := []zmap.GetRequest{{Key: "a"}, {Key: "b", Opts: zmap.GetOptions{Limit: 1}}}
	ok := func(sink driver.GetSink, i int) { sink(i, []byte("x"), driver.Info{Size: 1}, nil) }
	tests := map[string]struct {
		many func(sink driver.GetSink) error
		want ncerr.Kind
	}{
		"never answered": {func(s driver.GetSink) error { ok(s, 0); return nil }, ncerr.ErrInternal},
		"twice":          {func(s driver.GetSink) error { ok(s, 0); ok(s, 1); ok(s, 0); return nil }, ncerr.ErrInternal},
		"out of range":   {func(s driver.GetSink) error { ok(s, 0); ok(s, 1); ok(s, 2); return nil }, ncerr.ErrInternal},
		"failed":         {func(driver.GetSink) error { return errors.New("cut off") }, ncerr.ErrIO},
	}
	for name, tc := range tests {
		m := &manyDouble{double: double{Map: base}, many: func(_ context.Context, _ []driver.GetRequest, s driver.GetSink) error { return tc.many(s) }}
		n := 0
		err := zmap.New(m, nil).GetMany(t.Context(), reqs, func(int, []byte, zmap.Info, error) { n++ })
		wantKind(t, name, err, tc.want)
		if n > 2 {
			t.Errorf("%s: the sink was called %d times, want at most 2", name, n)
		}
	}
	m := &manyDouble{double: double{Map: base}, many: func(_ context.Context, _ []driver.GetRequest, s driver.GetSink) error {
		s(0, []byte("xy"), driver.Info{Size: 3}, nil)
		s(1, []byte("xy"), driver.Info{Size: 2}, nil)
		return nil
	}}
	var kinds []ncerr.Kind
	if err := zmap.New(m, nil).GetMany(t.Context(), reqs, func(_ int, _ []byte, _ zmap.Info, err error) { kinds = append(kinds, ncerr.KindOf(err)) }); err != nil {
		t.Fatal(err)
	}
	if want := []ncerr.Kind{ncerr.ErrInternal, ncerr.ErrLimit}; !slices.Equal(kinds, want) {
		t.Errorf("want %v, got %v", want, kinds)
	}
}

func TestGetManyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	z := zmap.New(&double{Map: filled(t, "a")}, nil)
	n := 0
	err := z.GetMany(ctx, slices.Repeat([]zmap.GetRequest{{Key: "a"}}, 1000), func(int, []byte, zmap.Info, error) {
		if n++; n == 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || n > 50 {
		t.Errorf("want context.Canceled within 50 calls, got %d calls, %v", n, err)
	}
}

// TestGetManyPanics panics in the caller's goroutine while another goroutine performs a
// request. GetMany must not end before that request, because the request may write to the
// caller's memory.
func TestGetManyPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var both sync.WaitGroup
		both.Add(2)
		ended := false
		goroutine := func() string { name, _, _ := strings.Cut(string(debug.Stack()), "["); return name }
		caller := goroutine()
		d := &double{Map: filled(t, "a"), caps: func(c *driver.Capabilities) { c.Latency = driver.Remote }}
		d.get = func(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error) {
			both.Done()
			both.Wait()
			if goroutine() == caller {
				panic("out of cheese")
			}
			time.Sleep(time.Second)
			ended = true
			return nil, driver.Info{}, errors.New("unreadable")
		}
		defer func() {
			if p := recover(); p == nil || !ended {
				t.Errorf("want a panic after all requests have ended, got %v, ended: %v", p, ended)
			}
		}()
		err := zmap.New(d, nil).GetMany(t.Context(), slices.Repeat([]zmap.GetRequest{{Key: "a"}}, 2), func(int, []byte, zmap.Info, error) {})
		t.Errorf("want a panic, got %v", err)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	closed := 0
	base := filled(t, "a", "b")
	z := zmap.New(&double{Map: base, shut: func() error { closed++; return nil }}, &zmap.Options{Name: "x"})
	for range z.List(t.Context(), "", nil) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := z.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close with a call in flight: want DeadlineExceeded, got %v", err)
		}
		cancel()
		_, err := z.Stat(t.Context(), "a")
		wantKind(t, "call while closing", err, ncerr.ErrInvalid)
	}
	if closed != 0 {
		t.Error("the driver was closed during a call")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := z.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if closed != 1 {
		t.Errorf("the driver was closed %d times, want once", closed)
	}
	_, _, err := z.Get(t.Context(), "a", nil, nil)
	wantKind(t, "call after close", err, ncerr.ErrInvalid)
	if z.Unwrap() == nil || z.Name() != "x" {
		t.Error("Unwrap or Name returned a wrong value after Close")
	}
}

func TestCloseWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, end := make(chan struct{}), make(chan struct{})
		var order []string
		z := zmap.New(&double{
			Map: memmap.New(),
			get: func(context.Context, string, *driver.GetOptions, driver.Alloc) ([]byte, driver.Info, error) {
				close(begun)
				<-end
				order = append(order, "get")
				return nil, driver.Info{}, nil
			},
			shut: func() error { order = append(order, "close"); return errors.New("lost") },
		}, nil)
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = z.Get(t.Context(), "k", nil, nil) })
		<-begun
		wg.Go(func() { wantKind(t, "close", z.Close(t.Context()), ncerr.ErrIO) })
		synctest.Wait() // Close waits for the call
		close(end)
		wg.Wait()
		if want := []string{"get", "close"}; !slices.Equal(order, want) {
			t.Errorf("want %q, got %q", want, order)
		}
	})
}

func TestPutChecksResult(t *testing.T) {
	t.Parallel()
	z := zmap.New(&double{Map: memmap.New(), put: func(string, driver.Body) (driver.Info, error) { return driver.Info{Size: 1}, nil }}, nil)
	_, err := z.Put(t.Context(), "k", zmap.Bytes("xyz"), nil)
	wantKind(t, "stored less", err, ncerr.ErrInternal)
}

func TestDeletePrefix(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"a", "a/"} {
		m := filled(t, "a/b", "a/c/d", "ab", "b")
		z := zmap.New(m, nil)
		if err := z.DeletePrefix(t.Context(), prefix); err != nil {
			t.Fatal(err)
		}
		if got := listAll(t, z, "", true, ""); !slices.Equal(got, []string{"ab", "b"}) {
			t.Errorf("DeletePrefix(%q) left %q", prefix, got)
		}
	}
	z := zmap.New(filled(t, "a/b", "a/c", "a/d"), &zmap.Options{MaxList: 2})
	wantKind(t, "too many", z.DeletePrefix(t.Context(), "a"), ncerr.ErrLimit)
	if got := listAll(t, z, "", true, ""); len(got) != 3 {
		t.Errorf("DeletePrefix beyond the limit left %q, want all 3 keys", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	z := zmap.New(memmap.New(), nil)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				key := fmt.Sprintf("w%d/%d", w, i)
				if _, err := z.Put(t.Context(), key, zmap.Bytes(key), nil); err != nil {
					t.Error(err)
				}
				if got, _, err := z.ReadAll(t.Context(), key, 0); err != nil || !bytes.Equal(got, []byte(key)) {
					t.Errorf("want %q, got %q, %v", key, got, err)
				}
				if _, err := z.Search(t.Context(), fmt.Sprintf("w%d", w)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestLongVersions checks that the length of a version is limited. A dataset stores the
// versions of its documents, and a server could send versions of any length.
func TestLongVersions(t *testing.T) {
	t.Parallel()
	base := filled(t, "k")
	for length, kind := range map[int]ncerr.Kind{4 << 10: 0, 4<<10 + 1: ncerr.ErrInternal} {
		z := zmap.New(&double{Map: base, get: func(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
			data, info, err := base.Get(ctx, key, o, alloc)
			info.Version = strings.Repeat("v", length)
			return data, info, err
		}}, nil)
		_, _, err := z.Get(t.Context(), "k", nil, nil)
		if ncerr.KindOf(err) != kind || err != nil && len(err.Error()) > 200 {
			t.Errorf("version of %d bytes: got %.300v", length, err)
		}
	}
}
