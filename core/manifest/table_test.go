package manifest_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// pages is a chunk table that records which pages were loaded.
type pages struct {
	mu     sync.Mutex
	list   map[int64][]manifest.Entry
	loaded []int64
}

func (p *pages) Page(_ context.Context, n int64) ([]manifest.Entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loaded = append(p.loaded, n)
	if n == 99 {
		return nil, ncerr.Errorf(ncerr.ErrIO, "", "", "page 99 is broken")
	}
	return p.list[n], nil
}

func (p *pages) Next(_ context.Context, n int64) (int64, error) {
	best := int64(-1)
	for k := range p.list {
		if k >= n && (best < 0 || k < best) {
			best = k
		}
	}
	return best, nil
}

// keysOf resolves references to the keys of a Map, except those that contain a colon.
type keysOf struct{ m *zmap.Map }

func (r keysOf) Resolve(_ context.Context, ref string) (*zmap.Map, string, error) {
	if strings.Contains(ref, ":") {
		return nil, "", ncerr.Errorf(ncerr.ErrPermission, "", "", "the reference %q is not allowed", ref)
	}
	return r.m, ref, nil
}

func newTable(t *testing.T, p *pages, grid []int64, most, limit int64) *manifest.Table {
	t.Helper()
	return manifest.NewTable(p, grid, keysOf{newMap(t)}, budget.NewShare(most), limit)
}

// TestTablePages checks that a Table loads a page when one of its chunks is located, caches
// pages up to its limit, and drops them after Forget.
func TestTablePages(t *testing.T) {
	t.Parallel()
	page := func(n int) (list []manifest.Entry) {
		for i := range manifest.PageSize {
			list = append(list, manifest.Entry{Ref: fmt.Sprintf("%d-%d", n, i), Length: -1})
		}
		return list
	}
	p := &pages{list: map[int64][]manifest.Entry{0: page(0), 1: page(1), 3: page(3)[:250]}}
	s := newTable(t, p, []int64{100, 100}, 60<<10, 1<<20) // a page has about 25 kB
	at := func(want string, row, column int64) {
		t.Helper()
		out := make([]manifest.Location, 1)
		if err := s.Locate(t.Context(), [][]int64{{row, column}}, out); err != nil || out[0].Key != want || out[0].Absent != (want == "") {
			t.Errorf("chunk %d,%d: want %q, got %+v, %v", row, column, want, out[0], err)
		}
	}
	loaded := func(want ...int64) {
		t.Helper()
		if !slices.Equal(p.loaded, want) {
			t.Errorf("want pages %v loaded, got %v", want, p.loaded)
		}
		p.loaded = nil
	}
	at("0-0", 0, 0)
	at("0-255", 2, 55)
	loaded(0)
	at("1-0", 2, 56)
	at("0-101", 1, 1)
	loaded(1)
	at("", 5, 12) // page 2 does not exist
	loaded(2)
	at("3-4", 7, 72) // exceeds the cache, so the other pages are dropped
	at("", 10, 18)
	at("0-0", 0, 0)
	loaded(3, 0)
	s.Forget(false)
	at("0-1", 0, 1)
	loaded()
	s.Forget(true)
	at("0-1", 0, 1)
	loaded(0)
	at("", 200, 0) // outside the grid
	loaded()

	var found []string
	for ch, err := range s.Chunks(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if ch.Index[0]*100+ch.Index[1] < 1013 {
			continue
		}
		found = append(found, fmt.Sprintf("%v %s %d", ch.Index, ch.Key, ch.Size))
	}
	if want := []string{"[10 13] 3-245 -1", "[10 14] 3-246 -1", "[10 15] 3-247 -1", "[10 16] 3-248 -1", "[10 17] 3-249 -1"}; !slices.Equal(found, want) {
		t.Errorf("want %q, got %q", want, found)
	}
}

// TestTableConcurrently checks that concurrent calls load each page once.
func TestTableConcurrently(t *testing.T) {
	t.Parallel()
	p := &pages{list: map[int64][]manifest.Entry{0: {{Inline: []byte("a")}}, 1: {{Inline: []byte("b")}}}}
	s := newTable(t, p, []int64{1000}, 1<<20, 1<<20)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			out := make([]manifest.Location, 2)
			if err := s.Locate(t.Context(), [][]int64{{0}, {manifest.PageSize}}, out); err != nil || string(out[0].Inline) != "a" || string(out[1].Inline) != "b" {
				t.Errorf("got %+v, %v", out, err)
			}
		})
	}
	all.Wait()
	if len(p.loaded) != 2 {
		t.Errorf("pages loaded: %v", p.loaded)
	}
}

// TestHostileTable checks that invalid entries and pages are errors, that only chunks which
// need them fail, and that their memory is limited.
func TestHostileTable(t *testing.T) {
	t.Parallel()
	good := manifest.Entry{Ref: "x", Offset: 3, Length: math.MaxInt64 - 3, Required: true}
	for name, c := range map[string]struct {
		page []manifest.Entry
		kind ncerr.Kind
		text string
	}{
		"sum overflows":        {[]manifest.Entry{{Ref: "x", Offset: 2, Length: math.MaxInt64 - 1}, good}, ncerr.ErrCorrupt, "chunk [0]"},
		"negative offset":      {[]manifest.Entry{{Ref: "x", Offset: -1, Length: 1}, good}, ncerr.ErrCorrupt, "offset -1"},
		"negative length":      {[]manifest.Entry{{Ref: "x", Length: -2}, good}, ncerr.ErrCorrupt, "length -2"},
		"part without length":  {[]manifest.Entry{{Ref: "x", Offset: 1, Length: -1}, good}, ncerr.ErrCorrupt, "offset 1"},
		"minimum":              {[]manifest.Entry{{Ref: "x", Offset: math.MinInt64, Length: math.MaxInt64}, good}, ncerr.ErrCorrupt, "offset -9"},
		"not parsed":           {[]manifest.Entry{{Err: ncerr.Errorf(ncerr.ErrCorrupt, "", "", "not an array")}, good}, ncerr.ErrCorrupt, "chunk [0]: corrupt data: not an array"},
		"both":                 {[]manifest.Entry{{Ref: "x", Inline: []byte{}}, good}, ncerr.ErrCorrupt, "both"},
		"refused":              {[]manifest.Entry{{Ref: "s3://x"}, good}, ncerr.ErrPermission, `chunk [0]: permission denied: the reference "s3://x" is not allowed`},
		"too many entries":     {make([]manifest.Entry, manifest.PageSize+1), ncerr.ErrLimit, "257 entries"},
		"too much content":     {[]manifest.Entry{{Inline: make([]byte, 5000)}}, ncerr.ErrLimit, "bytes"},
		"too long a reference": {[]manifest.Entry{{Ref: strings.Repeat("x", 5000)}}, ncerr.ErrLimit, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTable(t, &pages{list: map[int64][]manifest.Entry{0: c.page}}, []int64{1 << 40}, 4000, 4000)
			out := make([]manifest.Location, 1)
			if err := s.Locate(t.Context(), [][]int64{{0}}, out); ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("want %v with %q, got %v", c.kind, c.text, err)
			}
			var err error
			for _, err = range s.Chunks(t.Context(), nil) {
			}
			if (c.kind == ncerr.ErrLimit) != (ncerr.KindOf(err) == c.kind) {
				t.Errorf("chunks: got %v", err)
			}
			if c.kind == ncerr.ErrLimit {
				return
			}
			if err := s.Locate(t.Context(), [][]int64{{1}}, out); err != nil || *out[0].Range != (zmap.Range{Offset: 3, Length: math.MaxInt64 - 3}) || !out[0].Required {
				t.Errorf("the next chunk: %+v, %v", out[0], err)
			}
		})
	}
	large := newTable(t, &pages{}, []int64{1 << 32, 1 << 32}, 1, 1)
	err := large.Locate(t.Context(), [][]int64{{0, 0}}, make([]manifest.Location, 1))
	for _, listed := range large.Chunks(t.Context(), nil) {
		if ncerr.KindOf(err) != ncerr.ErrLimit || ncerr.KindOf(listed) != ncerr.ErrLimit {
			t.Errorf("a grid that overflows: %v, %v", err, listed)
		}
	}
	s := newTable(t, &pages{}, []int64{1 << 40}, 4000, 4000)
	if err := s.Locate(t.Context(), [][]int64{{99 * manifest.PageSize}}, make([]manifest.Location, 1)); ncerr.KindOf(err) != ncerr.ErrIO {
		t.Errorf("a page that cannot be read: %v", err)
	}
	for ch, err := range newTable(t, &pages{}, nil, 4000, 4000).Chunks(t.Context(), nil) {
		t.Errorf("a table without pages has chunk %v, %v", ch, err)
	}
}

// TestTablesWithOneCache checks that the cached pages of several tables together are not larger
// than their cache, and that a table without room in it still finds its chunks.
func TestTablesWithOneCache(t *testing.T) {
	t.Parallel()
	m, cache := newMap(t), budget.NewShare(40<<10)
	var tables []*manifest.Table
	for k := range 20 {
		p := &pages{list: map[int64][]manifest.Entry{0: {{Ref: strings.Repeat("x", 16<<10) + fmt.Sprint(k), Length: -1}}}}
		tables = append(tables, manifest.NewTable(p, []int64{1}, keysOf{m}, cache, 1<<20))
	}
	for range 2 {
		for k, table := range tables {
			out := make([]manifest.Location, 1)
			if err := table.Locate(t.Context(), [][]int64{{0}}, out); err != nil || !strings.HasSuffix(out[0].Key, "x"+fmt.Sprint(k)) {
				t.Errorf("table %d: got %.20q, %v", k, out[0].Key, err)
			}
			if cache.Free() < 0 {
				t.Fatalf("table %d: the cached pages are %d bytes too large", k, -cache.Free())
			}
		}
	}
	if cache.Free() == cache.Size() {
		t.Error("no page is cached")
	}
	for _, table := range tables {
		table.Forget(true)
	}
	if cache.Free() != cache.Size() {
		t.Errorf("after Forget, %d bytes are in use", cache.Size()-cache.Free())
	}
}
