package zmap_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// putsDouble is a double with a PutMany that a test can replace.
type putsDouble struct {
	double
	puts func(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error
}

func (d *putsDouble) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	return d.puts(ctx, reqs, sink)
}

// putMany puts reqs and returns the result of each: the stored size or the kind of the
// error.
func putMany(t *testing.T, z *zmap.Map, reqs []zmap.PutRequest) map[int]string {
	t.Helper()
	got := map[int]string{}
	err := z.PutMany(t.Context(), reqs, func(i int, info zmap.Info, err error) {
		if _, twice := got[i]; twice {
			t.Errorf("request %d has two results", i)
		}
		switch {
		case err == nil:
			got[i] = fmt.Sprint(info.Size)
		case strings.Contains(err.Error(), reqs[i].Key):
			got[i] = ncerr.KindOf(err).Name()
		default:
			t.Errorf("the error does not contain the key %q: %v", reqs[i].Key, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestPutMany checks the result of each request of a batch in which some requests succeed
// and others fail, each for a different reason.
func TestPutMany(t *testing.T) {
	t.Parallel()
	stores := map[string]func(*memmap.Map) driver.Map{
		"driver's own": func(m *memmap.Map) driver.Map { return m },
		"fallback":     func(m *memmap.Map) driver.Map { return &double{Map: m} },
		"remote": func(m *memmap.Map) driver.Map {
			return &double{Map: m, caps: func(c *driver.Capabilities) { c.Latency = driver.Remote }}
		},
	}
	for name, wrap := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := zmap.New(wrap(filled(t, "old", "kept", "dir/a")), nil)
			info, err := z.Stat(t.Context(), "old")
			if err != nil {
				t.Fatal(err)
			}
			reqs := []zmap.PutRequest{
				{Key: "a", Body: zmap.Bytes("1")},
				{Key: "kept", Body: zmap.Bytes("x"), Opts: zmap.PutOptions{IfAbsent: true}},
				{Key: "b/c", Body: zmap.Bytes("22"), Opts: zmap.PutOptions{IfAbsent: true}},
				{Key: "old", Body: zmap.Bytes("333"), Opts: zmap.PutOptions{IfMatch: info.Version}},
				{Key: "bad//key", Body: zmap.Bytes("x")},
				{Key: "old", Body: zmap.Bytes("x"), Opts: zmap.PutOptions{IfMatch: info.Version}}, // version of the replaced object
				{Key: "dir", Body: zmap.Bytes("x")},
				{Key: "none", Opts: zmap.PutOptions{}},
				{Key: "a", Body: zmap.Bytes("4444")}, // the last put of a key takes effect
				{Key: "a", Body: zmap.Bytes("x"), Opts: zmap.PutOptions{IfAbsent: true}},
				{Key: "empty", Body: zmap.Bytes{}},
			}
			want := map[int]string{
				0: "1", 1: "ErrObjectExists", 2: "2", 3: "3", 4: "ErrBadName", 5: "ErrConflict", 6: "ErrObjectExists", 7: "ErrInvalid",
				8: "4", 9: "ErrObjectExists", 10: "0",
			}
			if got := putMany(t, z, reqs); !maps.Equal(got, want) {
				t.Errorf("want %v\ngot  %v", want, got)
			}
			for key, want := range map[string]string{"a": "4444", "kept": "kept", "b/c": "22", "old": "333", "dir/a": "dir/a", "empty": ""} {
				if body, _, err := z.ReadAll(t.Context(), key, 0); err != nil || string(body) != want {
					t.Errorf("%s: want %q, got %q, %v", key, want, body, err)
				}
			}
		})
	}
}

// TestPutManyRefusals checks that invalid requests never reach the driver.
func TestPutManyRefusals(t *testing.T) {
	t.Parallel()
	d := &putsDouble{double: double{Map: memmap.New(), caps: func(c *driver.Capabilities) { c.IfMatch = false }}}
	d.puts = func(_ context.Context, reqs []driver.PutRequest, _ driver.PutSink) error {
		t.Errorf("the driver was called with %v", reqs)
		return nil
	}
	one := []zmap.PutRequest{{Key: "k", Body: zmap.Bytes("x"), Opts: zmap.PutOptions{IfMatch: "1"}}}
	if got := putMany(t, zmap.New(d, nil), one); got[0] != "ErrUnsupported" {
		t.Errorf("unsupported condition: want ErrUnsupported, got %v", got)
	}
	if got := putMany(t, zmap.New(d, &zmap.Options{ReadOnly: true}), one); got[0] != "ErrReadOnly" {
		t.Errorf("read-only map: want ErrReadOnly, got %v", got)
	}
	z := zmap.New(d, nil)
	if err := z.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "closed", z.PutMany(t.Context(), one, nil), ncerr.ErrInvalid)
}

func TestPutManyContract(t *testing.T) {
	t.Parallel()
	reqs := []zmap.PutRequest{{Key: "a", Body: zmap.Bytes("x")}, {Key: "b", Body: zmap.Bytes("x")}}
	ok := func(sink driver.PutSink, is ...int) {
		for _, i := range is {
			sink(i, driver.Info{Size: 1}, nil)
		}
	}
	tests := map[string]struct {
		puts func(sink driver.PutSink) error
		want ncerr.Kind
	}{
		"never answered": {func(s driver.PutSink) error { ok(s, 0); return nil }, ncerr.ErrInternal},
		"twice":          {func(s driver.PutSink) error { ok(s, 0, 1, 0); return nil }, ncerr.ErrInternal},
		"out of range":   {func(s driver.PutSink) error { ok(s, 0, 1, 2); return nil }, ncerr.ErrInternal},
		"failed":         {func(driver.PutSink) error { return errors.New("cut off") }, ncerr.ErrIO},
	}
	for name, tc := range tests {
		m := &putsDouble{double: double{Map: memmap.New()}, puts: func(_ context.Context, _ []driver.PutRequest, s driver.PutSink) error { return tc.puts(s) }}
		n := 0
		err := zmap.New(m, nil).PutMany(t.Context(), reqs, func(int, zmap.Info, error) { n++ })
		wantKind(t, name, err, tc.want)
		if n > 2 {
			t.Errorf("%s: the sink was called %d times, want at most 2", name, n)
		}
	}
	var late driver.PutSink
	m := &putsDouble{double: double{Map: memmap.New()}, puts: func(_ context.Context, _ []driver.PutRequest, s driver.PutSink) error {
		late = s
		s(0, driver.Info{Size: 7}, nil)
		s(1, driver.Info{Size: 1}, nil)
		return nil
	}}
	var kinds []ncerr.Kind
	if err := zmap.New(m, nil).PutMany(t.Context(), reqs, func(_ int, _ zmap.Info, err error) { kinds = append(kinds, ncerr.KindOf(err)) }); err != nil {
		t.Fatal(err)
	}
	ok(late, 0)
	if want := []ncerr.Kind{ncerr.ErrInternal, 0}; !slices.Equal(kinds, want) {
		t.Errorf("put of another length: want %v, got %v", want, kinds)
	}
}

// TestPutManyEndsWithItsContext checks that writes stop soon after the context is
// canceled.
func TestPutManyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	reqs := make([]zmap.PutRequest, 1000)
	for i := range reqs {
		reqs[i] = zmap.PutRequest{Key: fmt.Sprint(i), Body: zmap.Bytes("x")}
	}
	for name, m := range map[string]driver.Map{"driver's own": memmap.New(), "fallback": &double{Map: memmap.New()}} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		err := zmap.New(m, nil).PutMany(ctx, reqs, func(_ int, _ zmap.Info, err error) {
			if n++; n == 5 {
				cancel()
			}
		})
		stored := 0
		for _, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			stored++
		}
		if err != context.Canceled || stored < 5 || stored > 50 { //nolint:errorlint // the contract is to return the identical error
			t.Errorf("%s: %d of 1000 objects were stored, want 5 to 50 and context.Canceled, got %v", name, stored, err)
		}
	}
}
