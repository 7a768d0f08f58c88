package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// editor appends a letter to chunks that are changed in part, and replaces all other chunks.
type editor struct {
	part   bool
	letter string
	limit  int64
	grid   []int64
	batch  int
	before func() // called at the end of every edit, before the changes are stored
	err    error
	edits  int
	seen   []string
}

func (e *editor) Plan(changes []manifest.Change) (grid, known []int64, batch int) {
	for i := range changes {
		changes[i].Part, changes[i].Limit = e.part, e.limit
		changes[i].Alloc = func(n int64) ([]byte, error) { return make([]byte, n), nil }
	}
	return e.grid, e.grid, e.batch
}

func (e *editor) Edit(_ context.Context, changes []*manifest.Change) error {
	e.edits++
	for _, ch := range changes {
		e.seen = append(e.seen, fmt.Sprintf("%s %q %t %t", ch.Key, ch.Old, ch.Exists, ch.Damage != nil))
		ch.New = append(slices.Clone(ch.Old), e.letter...)
		ch.Skip = ch.Damage != nil
	}
	if e.before != nil {
		e.before()
	}
	return e.err
}

func at(indexes ...int64) []manifest.Change {
	var changes []manifest.Change
	for _, i := range indexes {
		changes = append(changes, manifest.Change{Index: []int64{i, 0}})
	}
	return changes
}

func content(t *testing.T, m *zmap.Map, key string) string {
	t.Helper()
	text, _, err := m.ReadAll(t.Context(), key, 1<<20)
	if err != nil && ncerr.KindOf(err) != ncerr.ErrNotFound {
		t.Fatal(err)
	}
	return string(text)
}

func put(t *testing.T, m *zmap.Map, key, text string) {
	t.Helper()
	if _, err := m.Put(t.Context(), key, driver.Bytes(text), nil); err != nil {
		t.Fatal(err)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	m := newMap(t)
	c := manifest.NewComputed(m, "v/", chunk.Keys{Separator: '.'}, 2, true)
	put(t, m, "v/1.0", "old")
	put(t, m, "v/2.0", "too long")
	e := &editor{part: true, letter: "x", limit: 5}
	if err := c.Update(t.Context(), at(0, 1, 2), e); err != nil {
		t.Fatal(err)
	}
	slices.Sort(e.seen)
	if want := []string{`v/0.0 "" false false`, `v/1.0 "old" true false`, `v/2.0 "" true true`}; !slices.Equal(e.seen, want) {
		t.Errorf("the editor received %q", e.seen)
	}
	e = &editor{letter: "y"}
	if err := c.Update(t.Context(), at(3), e); err != nil || e.seen[0] != `v/3.0 "" false false` {
		t.Errorf("change of a whole chunk: %v, the editor received %q", err, e.seen)
	}
	for key, want := range map[string]string{"v/0.0": "x", "v/1.0": "oldx", "v/2.0": "too long", "v/3.0": "y"} {
		if got := content(t, m, key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	failed := errors.New("no")
	if err := c.Update(t.Context(), at(0), &editor{letter: "z", err: failed}); !errors.Is(err, failed) || content(t, m, "v/0.0") != "x" {
		t.Errorf("want the error of the editor and the old chunk, got %v and %q", err, content(t, m, "v/0.0"))
	}
}

// TestUpdateConflict checks that Update keeps data that another writer stores between the
// read and the store of a partial change, and that only the chunk with the conflict is
// edited again. A change of a whole chunk replaces the data.
func TestUpdateConflict(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		m := newMap(t)
		if caps := m.Capabilities(); !caps.IfMatch || !caps.IfAbsent {
			t.Fatal("the store does not compare versions")
		}
		c := manifest.NewComputed(m, "", chunk.Keys{Separator: '/'}, 2, true)
		if there {
			put(t, m, "0/0", "a")
			put(t, m, "1/0", "b")
		}
		e := &editor{part: true, letter: "x"}
		e.before = func() {
			if e.edits == 1 {
				put(t, m, "1/0", "other")
			}
		}
		if err := c.Update(t.Context(), at(0, 1), e); err != nil || e.edits != 2 || len(e.seen) != 3 {
			t.Errorf("Update: %v, %d edits of %q, want 2 edits of 3 chunks", err, e.edits, e.seen)
		}
		if a, b := content(t, m, "0/0"), content(t, m, "1/0"); !strings.HasSuffix(a, "x") || b != "otherx" {
			t.Errorf("got chunks %q and %q, want a suffix x and otherx", a, b)
		}
		e = &editor{letter: "whole", before: func() { put(t, m, "1/0", "other") }}
		if err := c.Update(t.Context(), at(1), e); err != nil || e.edits != 1 || content(t, m, "1/0") != "whole" {
			t.Errorf("change of a whole chunk: %v, %d edits, content %q", err, e.edits, content(t, m, "1/0"))
		}
		e = &editor{part: true, letter: "x", before: func() { put(t, m, "1/0", fmt.Sprint(e.edits)) }}
		err := c.Update(t.Context(), at(1), e)
		if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "1/0") || content(t, m, "1/0") != fmt.Sprint(e.edits) {
			t.Errorf("want ErrConflict for 1/0, got %v, content %q", err, content(t, m, "1/0"))
		}
	}
}

// TestConcurrentUpdates checks that updates of the same chunks wait for each other, regardless
// of the order of the chunks.
func TestConcurrentUpdates(t *testing.T) {
	t.Parallel()
	m := newMap(t)
	c := manifest.NewComputed(m, "", chunk.Keys{Separator: '.'}, 2, true)
	var wg sync.WaitGroup
	const n, each = 8, 20
	var edits [n]int
	for g := range n {
		wg.Go(func() {
			for range each {
				changes := at(0, 1, 2, 3)
				if g%2 == 1 {
					slices.Reverse(changes)
				}
				e := &editor{part: true, letter: "x"}
				if err := c.Update(t.Context(), changes, e); err != nil {
					t.Error(err)
				}
				edits[g] += e.edits
			}
		})
	}
	wg.Wait()
	for g, count := range edits {
		if count != each {
			t.Errorf("goroutine %d edited %d times: a locked chunk was changed", g, count)
		}
	}
	for i := range 4 {
		if got := content(t, m, fmt.Sprintf("%d.0", i)); len(got) != n*each {
			t.Errorf("chunk %d has %d of %d changes", i, len(got), n*each)
		}
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	m := newMap(t)
	for _, key := range []string{"v/.zarray", "v/0.0", "v/10.2", "v/1.00", "v/3", "v/1.2.3", "v/-1.0", "v/1/2", "v/0.9223372036854775808", "w/0.1", "v/x.0"} {
		put(t, m, key, "abc")
	}
	c := manifest.NewComputed(m, "v/", chunk.Keys{Separator: '.'}, 2, true)
	var got []string
	var all []manifest.Chunk
	for ch, err := range c.Chunks(t.Context(), []int64{2, 2}) {
		if err != nil {
			t.Fatal(err)
		}
		got, all = append(got, fmt.Sprint(ch.Index, ch.Key, ch.Size)), append(all, ch)
	}
	slices.Sort(got)
	if want := []string{"[0 0]v/0.03", "[10 2]v/10.23"}; !slices.Equal(got, want) {
		t.Errorf("Chunks: got %q", got)
	}
	if err := c.Remove(t.Context(), all, []int64{2, 2}); err != nil || content(t, m, "v/0.0") != "" || content(t, m, "v/1/2") != "abc" {
		t.Errorf("Remove: %v, or wrong chunks were removed", err)
	}
	var failed error
	for _, failed = range c.Chunks(t.Context(), []int64{2, 3}) { // v/1/2 exists
	}
	if ncerr.KindOf(failed) != ncerr.ErrMetadata || !strings.Contains(failed.Error(), "v/1/2") {
		t.Errorf("want ErrMetadata for v/1/2, got %v", failed)
	}
}

// moving is a Map with an object that is replaced while it is read.
type moving struct {
	driver.Map
	left int
}

func (m *moving) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if key == "1.0" && m.left > 0 {
		m.left--
		return nil, driver.Info{}, ncerr.Errorf(ncerr.ErrConflict, "get", key, "5 bytes at first, 7 when read again")
	}
	return m.Map.Get(ctx, key, o, alloc)
}

// TestUpdateReadsAgain checks that Update reads a chunk again if another writer replaces it
// during the read, and fails with ErrConflict if this happens too often.
func TestUpdateReadsAgain(t *testing.T) {
	t.Parallel()
	for _, many := range []bool{false, true} {
		for _, left := range []int{2, 100} {
			raw, err := memmap.NewOpener().Open(t.Context(), driver.OpenSpec{Path: "m", Mode: driver.Create})
			if err != nil {
				t.Fatal(err)
			}
			m := zmap.New(&moving{raw, left}, nil)
			t.Cleanup(func() { _ = m.Close(t.Context()) })
			for i := range 3 {
				put(t, m, fmt.Sprintf("%d.0", i), "a")
			}
			e := &editor{part: true, letter: "x"}
			err = manifest.NewComputed(m, "", chunk.Keys{Separator: '.'}, 2, many).Update(t.Context(), at(0, 1, 2), e)
			if left == 100 && (ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "1.0")) || left == 2 && (err != nil || content(t, m, "1.0") != "ax") {
				t.Errorf("many %t, %d conflicts: Update returned %v, first chunk %q", many, left, err, content(t, m, "0.0"))
			}
			if content(t, m, "0.0") != "ax" || content(t, m, "2.0") != "ax" {
				t.Errorf("many %t, %d conflicts: wrong content of the other chunks", many, left)
			}
		}
	}
}

// refusing is a Map that refuses to put one object and supports PutMany.
type refusing struct {
	driver.Map
	key     string
	batches int
}

func (r *refusing) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if key == r.key {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrPermission, "", "", "owned by another user")
	}
	return r.Map.Put(ctx, key, body, o)
}

func (r *refusing) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	r.batches++
	for i := len(reqs) - 1; i >= 0; i-- { // results may come in any order
		info, err := r.Put(ctx, reqs[i].Key, reqs[i].Body, &reqs[i].Opts)
		sink(i, info, err)
	}
	return nil
}

// TestUpdateStoresBatches checks that a batch is stored in one call. The error contains the
// key of the chunk that the store refuses and the reason, and the other chunks of the batch
// are stored.
func TestUpdateStoresBatches(t *testing.T) {
	t.Parallel()
	for _, part := range []bool{false, true} {
		r := &refusing{Map: memmap.New(), key: "1.0"}
		m := zmap.New(r, nil)
		c := manifest.NewComputed(m, "", chunk.Keys{Separator: '.'}, 2, true)
		err := c.Update(t.Context(), at(0, 1, 2, 3), &editor{part: part, letter: "x"})
		if ncerr.KindOf(err) != ncerr.ErrPermission || !strings.Contains(err.Error(), "1.0") || !strings.Contains(err.Error(), "owned by another user") || r.batches != 1 {
			t.Errorf("want ErrPermission for 1.0 after 1 call, got %d calls, %v", r.batches, err)
		}
		for i, want := range []string{"x", "", "x", "x"} {
			if got := content(t, m, fmt.Sprintf("%d.0", i)); got != want {
				t.Errorf("%d.0: want %q, got %q", i, want, got)
			}
		}
		if err := c.Update(t.Context(), at(4), &editor{letter: "y"}); err != nil || r.batches != 1 {
			t.Errorf("update of one chunk: got %d batches in total, %v, want 1", r.batches, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		e := &editor{letter: "z", before: cancel}
		if err := c.Update(ctx, at(5, 6), e); !errors.Is(err, context.Canceled) || content(t, m, "5.0")+content(t, m, "6.0") != "" {
			t.Errorf("want context.Canceled and no stored chunks, got %v", err)
		}
	}
}
