package zmap_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"pgregory.net/rapid"
)

func listAll(t *testing.T, z *zmap.Map, prefix string, recursive bool, after string) []string {
	t.Helper()
	var keys []string
	for e, err := range z.List(t.Context(), prefix, &zmap.ListOptions{Recursive: recursive, StartAfter: after}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

// reversed returns a List that lists m in reverse order, each entry twice.
func reversed(m driver.Map) func(string, driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(prefix string, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
		var all []driver.Entry
		for e := range m.List(context.Background(), prefix, &o) {
			all = append(all, e, e)
		}
		slices.Reverse(all)
		return func(yield func(driver.Entry, error) bool) {
			for _, e := range all {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// TestListAgainstOracle compares native, unordered and walked listings with a simple
// implementation of the rules.
func TestListAgainstOracle(t *testing.T) {
	t.Parallel()
	key := rapid.StringMatching(`[a-c+0](/?[a-c+0]){0,5}`)
	rapidseed.Check(t, func(rt *rapid.T) {
		m := memmap.New()
		var keys []string
		for _, k := range rapid.SliceOfDistinct(key, rapid.ID).Draw(rt, "keys") {
			if _, err := m.Put(context.Background(), k, driver.Bytes("x"), &driver.PutOptions{}); err == nil {
				keys = append(keys, k)
			}
		}
		prefix := rapid.OneOf(rapid.Just(""), key).Draw(rt, "prefix")
		after := rapid.OneOf(rapid.Just(""), key, rapid.StringMatching(`[a-c+0/]{0,4}`)).Draw(rt, "after")
		recursive := rapid.Bool().Draw(rt, "recursive")
		want := oracle(keys, prefix, after, recursive)
		for name, c := range map[string]struct {
			caps func(*driver.Capabilities)
			list func(string, driver.ListOptions) iter.Seq2[driver.Entry, error]
		}{
			"native":    {nil, nil},
			"unordered": {func(c *driver.Capabilities) { c.OrderedList = false }, reversed(m)},
			"walk":      {func(c *driver.Capabilities) { c.RecursiveList = false }, nil},
			"both":      {func(c *driver.Capabilities) { c.RecursiveList, c.OrderedList = false, false }, reversed(m)},
		} {
			z := zmap.New(&double{Map: m, caps: c.caps, list: c.list}, nil)
			if got := listAll(t, z, prefix, recursive, after); !slices.Equal(got, want) {
				rt.Errorf("%s: keys %q, prefix %q, after %q, recursive %v:\nwant %q\ngot  %q", name, keys, prefix, after, recursive, want, got)
			}
		}
		names, err := zmap.New(m, nil).Search(context.Background(), prefix)
		if wantNames := oracleSearch(keys, prefix); err != nil || !slices.Equal(names, wantNames) {
			rt.Errorf("search %q in %q: want %q, got %q, %v", prefix, keys, wantNames, names, err)
		}
	})
}

func oracle(keys []string, prefix, after string, recursive bool) []string {
	if prefix != "" {
		prefix += "/"
	}
	set := map[string]bool{}
	for _, k := range keys {
		rest, ok := strings.CutPrefix(k, prefix)
		if i := strings.Index(rest, "/"); ok && i >= 0 && !recursive {
			k = prefix + rest[:i+1]
		}
		if ok && k > after {
			set[k] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func oracleSearch(keys []string, prefix string) []string {
	set := map[string]bool{}
	for _, k := range oracle(keys, prefix, "", false) {
		if prefix != "" {
			k = k[len(prefix)+1:]
		}
		set[strings.TrimSuffix(k, "/")] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func TestListContract(t *testing.T) {
	t.Parallel()
	lie := func(entries ...driver.Entry) func(string, driver.ListOptions) iter.Seq2[driver.Entry, error] {
		return func(string, driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				for _, e := range entries {
					if !yield(e, nil) {
						return
					}
				}
			}
		}
	}
	obj := func(k string) driver.Entry { return driver.Entry{Key: k} }
	pre := func(k string) driver.Entry { return driver.Entry{Key: k, Prefix: true} }
	unordered := func(c *driver.Capabilities) { c.OrderedList = false }
	tests := map[string]struct {
		list func(string, driver.ListOptions) iter.Seq2[driver.Entry, error]
		caps func(*driver.Capabilities)
		opts zmap.ListOptions
		want ncerr.Kind
	}{
		"outside the prefix":     {list: lie(obj("q/a")), want: ncerr.ErrInternal},
		"string prefix":          {list: lie(obj("pq")), want: ncerr.ErrInternal},
		"escape":                 {list: lie(obj("p/../x")), want: ncerr.ErrInternal},
		"the prefix itself":      {list: lie(pre("p/")), want: ncerr.ErrInternal},
		"slash on an object":     {list: lie(obj("p/a/")), want: ncerr.ErrInternal},
		"no slash on a prefix":   {list: lie(pre("p/a")), want: ncerr.ErrInternal},
		"too deep":               {list: lie(obj("p/a/b")), want: ncerr.ErrInternal},
		"prefix in a recursion":  {list: lie(pre("p/a/")), opts: zmap.ListOptions{Recursive: true}, want: ncerr.ErrInternal},
		"out of order":           {list: lie(obj("p/b"), obj("p/a")), want: ncerr.ErrInternal},
		"not after the start":    {list: lie(obj("p/a")), opts: zmap.ListOptions{StartAfter: "p/a"}, want: ncerr.ErrInternal},
		"more than can be held":  {list: lie(obj("p/c"), obj("p/b"), obj("p/a")), caps: unordered, want: ncerr.ErrLimit},
		"endless walk":           {list: endless, caps: func(c *driver.Capabilities) { c.RecursiveList = false }, opts: zmap.ListOptions{Recursive: true}, want: ncerr.ErrLimit},
		"failed in the middle":   {list: failing, want: ncerr.ErrIO},
		"failed, before sorting": {list: failing, caps: unordered, want: ncerr.ErrIO},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := zmap.New(&double{Map: memmap.New(), list: tc.list, caps: tc.caps}, &zmap.Options{MaxList: 2})
			var last error
			for e, err := range z.List(t.Context(), "p", &tc.opts) {
				if last != nil {
					t.Fatal("the sequence continues after an error")
				}
				if last = err; err != nil && e != (zmap.Entry{}) {
					t.Errorf("want a zero Entry with an error, got %+v", e)
				}
			}
			wantKind(t, "list", last, tc.want)
		})
	}
}

// endless is a List that lists a prefix below every prefix.
func endless(prefix string, _ driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		yield(driver.Entry{Key: prefix + "a/", Prefix: true}, nil)
	}
}

// failing is a List that yields one entry and then fails.
func failing(prefix string, _ driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if yield(driver.Entry{Key: prefix + "a"}, nil) {
			yield(driver.Entry{}, errors.New("cut off"))
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	m := &double{Map: filled(t, "a/x/1", "a/x/2", "a/y", "ab", "c"), list: nil}
	z := zmap.New(m, nil)
	for prefix, want := range map[string][]string{
		"": {"a", "ab", "c"}, "a": {"x", "y"}, "a/": {"x", "y"}, "a/x": {"1", "2"}, "c": nil, "none": nil, "a/xx": nil,
	} {
		if got, err := z.Search(t.Context(), prefix); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: want %q, got %q, %v", prefix, want, got, err)
		}
	}
	both := zmap.New(&double{Map: memmap.New(), list: func(string, driver.ListOptions) iter.Seq2[driver.Entry, error] {
		return func(yield func(driver.Entry, error) bool) {
			_ = yield(driver.Entry{Key: "a"}, nil) && yield(driver.Entry{Key: "a-b"}, nil) && yield(driver.Entry{Key: "a/", Prefix: true}, nil)
		}
	}}, nil)
	if got, err := both.Search(t.Context(), ""); err != nil || !slices.Equal(got, []string{"a", "a-b"}) {
		t.Errorf("an object that is also a prefix: got %q, %v, want a and a-b", got, err)
	}
	_, err := zmap.New(m.Map, &zmap.Options{MaxList: 2}).Search(t.Context(), "")
	wantKind(t, "too many", err, ncerr.ErrLimit)
}

// TestListBytes checks that a listing counts the bytes of the keys that it holds in
// memory, over all levels of a walk. It also checks that a listed key longer than the
// store allows is reported as a contract violation of the driver.
func TestListBytes(t *testing.T) {
	t.Parallel()
	m := filled(t, "aaaaaaaaaa/b", "aaaaaaaaaa/c", "d")
	unordered := func(c *driver.Capabilities) { c.OrderedList = false }
	walking := func(c *driver.Capabilities) { c.OrderedList, c.RecursiveList = false, false }
	for name, c := range map[string]struct {
		caps  func(*driver.Capabilities)
		limit int64
		do    func(*zmap.Map) error
		ok    bool
	}{
		"search":                  {nil, 12, search, true},
		"search, too much":        {nil, 11, search, false},
		"unordered":               {unordered, 25, list, true},
		"unordered, too much":     {unordered, 24, list, false},
		"walk":                    {walking, 36, list, true}, // the prefix, "d" and both keys below the prefix
		"walk, too much":          {walking, 35, list, false},
		"delete, too much":        {nil, 24, func(z *zmap.Map) error { return z.DeletePrefix(context.Background(), "") }, false},
		"in order, nothing held":  {nil, 1, list, true},
		"all, held by the caller": {nil, 25, holdAll, true},
		"all, too much":           {nil, 24, holdAll, false},
	} {
		err := c.do(zmap.New(&double{Map: m, caps: c.caps}, &zmap.Options{MaxListBytes: c.limit}))
		if c.ok && err != nil || !c.ok && ncerr.KindOf(err) != ncerr.ErrLimit {
			t.Errorf("%s: got %v, want ErrLimit for too many bytes only", name, err)
		}
	}
	for name, c := range map[string]struct{ length, most int }{"declared": {11, 10}, "undeclared": {1 << 16, 0}} {
		long := func(string, driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return func(yield func(driver.Entry, error) bool) {
				yield(driver.Entry{Key: strings.Repeat("k", c.length)}, nil)
			}
		}
		_, err := zmap.New(&double{Map: m, list: long, caps: func(d *driver.Capabilities) { d.MaxKey = c.most }}, nil).Search(t.Context(), "")
		if ncerr.KindOf(err) != ncerr.ErrInternal || len(err.Error()) > 200 {
			t.Errorf("%s: want a short ErrInternal, got %.300v", name, err)
		}
	}
}

func holdAll(z *zmap.Map) error {
	for _, err := range z.ListAll(context.Background(), "", &zmap.ListOptions{Recursive: true}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func search(z *zmap.Map) error {
	_, err := z.Search(context.Background(), "")
	return err
}

func list(z *zmap.Map) error {
	for _, err := range z.List(context.Background(), "", &zmap.ListOptions{Recursive: true}) {
		if err != nil {
			return err
		}
	}
	return nil
}
