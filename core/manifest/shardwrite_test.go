package manifest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// all returns the contents of all chunks of a two-dimensional grid, by position.
func all(t *testing.T, s manifest.Source, grid []int64) map[string]string {
	t.Helper()
	var indexes [][]int64
	for i := range grid[0] {
		for j := range grid[1] {
			indexes = append(indexes, []int64{i, j})
		}
	}
	where := make([]manifest.Location, len(indexes))
	if err := s.Locate(t.Context(), indexes, where); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for i := range where {
		if text := contentAt(t, where[i]); text != "absent" {
			got[fmt.Sprint(indexes[i])] = text
		}
	}
	return got
}

// randomEditor is an Editor whose changes have random effects: it replaces chunks,
// appends to them, deletes them or skips them. It makes the same changes in the map want.
type randomEditor struct {
	r      *rand.Rand
	t      *testing.T
	want   map[string]string
	choice []string // effect on each change
	grid   []int64
	batch  int
	seen   map[string]bool
}

func (a *randomEditor) Plan(changes []manifest.Change) (grid, known []int64, batch int) {
	for i := range changes {
		a.choice = append(a.choice, []string{"replace", "append", "delete", "skip"}[a.r.IntN(4)])
		changes[i].Tag, changes[i].Part, changes[i].MaySkip = i, a.choice[i] == "append", a.choice[i] == "skip"
	}
	return a.grid, a.grid, a.batch
}

func (a *randomEditor) Edit(_ context.Context, changes []*manifest.Change) error {
	if a.batch > 0 && len(changes) > a.batch {
		a.t.Errorf("%d changes at a time, want at most %d", len(changes), a.batch)
	}
	for _, ch := range changes {
		at := fmt.Sprint(ch.Index)
		if a.seen[at] {
			a.t.Errorf("%s is edited twice", at)
		}
		a.seen[at] = true
		old, exists := a.want[at]
		if ch.Part && (ch.Exists != exists || string(ch.Old) != old) {
			a.t.Errorf("%s: old chunk is %q, %t, want %q, %t", at, ch.Old, ch.Exists, old, exists)
		}
		ch.New = fmt.Appendf(nil, "%d;", a.r.IntN(1000))
		switch a.choice[ch.Tag] {
		case "skip":
			ch.Skip = true
			continue
		case "delete":
			ch.Delete = true
			delete(a.want, at)
			continue
		case "append":
			ch.New = append(slices.Clone(ch.Old), ch.New...)
		}
		a.want[at] = string(ch.New)
	}
	return nil
}

// TestUpdateShards makes random changes to shards of random shapes, including nested
// shards. After each update it compares all chunks with those of a map.
func TestUpdateShards(t *testing.T) {
	t.Parallel()
	seed := testseed.New(t)
	for i := range 60 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			m := newMap(t)
			levels := make([]struct {
				shards chunk.Grid
				x      manifest.ShardIndex
			}, 1+i%3)
			for l := range levels {
				levels[l].shards = chunk.Regular([]int64{1 + r.Int64N(3), 1 + r.Int64N(4)})
				if l == 0 && i%4 == 3 { // only the outermost shards can differ in shape
					g, err := chunk.NewGrid([][]chunk.Run{
						{{Len: 1 + r.Int64N(3)}},
						{{Len: 1 + r.Int64N(4), Count: 1 + r.Int64N(2)}, {Len: 1 + r.Int64N(4), Count: 1}, {Len: 1 + r.Int64N(4), Count: 9}},
					})
					if err != nil {
						t.Fatal(err)
					}
					levels[l].shards = g
				}
				levels[l].x = manifest.ShardIndex{AtStart: r.IntN(2) == 0, Checksum: r.IntN(2) == 0, Big: r.IntN(2) == 0}
				if i%5 == 4 && l != 1 {
					levels[l].x.Axes = []int{1, 0}
				}
			}
			newSource := func() manifest.Writer {
				var s manifest.Writer = manifest.NewComputed(m, "v/", chunk.Keys{Separator: '/', Prefix: true}, 2, i%2 == 0)
				for _, l := range levels {
					s = manifest.NewShards(s, l.shards, l.x, 200, 1<<20, i%2 == 0)
				}
				return s
			}
			s, grid, want := newSource(), []int64{1 + r.Int64N(7), 1 + r.Int64N(9)}, make(map[string]string)
			for range 30 {
				var changes []manifest.Change
				few := r.IntN(4)
				for a := range grid[0] {
					for b := range grid[1] {
						if few == 0 || r.IntN(few+1) == 0 {
							changes = append(changes, manifest.Change{Index: []int64{a, b}})
						}
					}
				}
				r.Shuffle(len(changes), func(a, b int) { changes[a], changes[b] = changes[b], changes[a] })
				e := &randomEditor{r: r, t: t, want: want, batch: r.IntN(4), seen: make(map[string]bool)}
				if r.IntN(2) == 0 {
					e.grid = grid
				}
				if err := s.Update(t.Context(), changes, e); err != nil || len(e.seen) != len(changes) {
					t.Fatalf("edited %d of %d changes: %v", len(e.seen), len(changes), err)
				}
				for _, from := range []manifest.Source{s, newSource()} {
					if got := all(t, from, grid); !maps.Equal(got, want) {
						t.Fatalf("%+v of %v: got %v, want %v", levels, grid, got, want)
					}
				}
				sizes := make(map[string]string)
				for ch, err := range s.Chunks(t.Context(), grid) {
					if err != nil {
						t.Fatal(err)
					}
					sizes[fmt.Sprint(ch.Index)] = strings.Repeat("x", int(ch.Size))
				}
				if !maps.EqualFunc(sizes, want, func(a, b string) bool { return len(a) == len(b) }) {
					t.Fatalf("chunks: got %v, want %v", sizes, want)
				}
			}
		})
	}
}

// textEditor is an Editor that replaces the content of each chunk with its text.
type textEditor string

func (textEditor) Plan([]manifest.Change) (grid, known []int64, batch int) { return nil, nil, 0 }

func (e textEditor) Edit(_ context.Context, changes []*manifest.Change) error {
	for _, ch := range changes {
		ch.New = []byte(e)
	}
	return nil
}

// TestIndexAfterTranspose checks the position of a chunk's entry in the index of a shard
// with reordered dimensions. The inverse order would result in another position.
func TestIndexAfterTranspose(t *testing.T) {
	t.Parallel()
	m := newMap(t)
	var s manifest.Writer = manifest.NewComputed(m, "v/", chunk.Keys{Separator: '/', Prefix: true}, 3, false)
	s = manifest.NewShards(s, chunk.Regular([]int64{2, 3, 4}), manifest.ShardIndex{Axes: []int{2, 0, 1}}, 200, 1<<20, false)
	if err := s.Update(t.Context(), []manifest.Change{{Index: []int64{0, 1, 3}}}, textEditor("chunk")); err != nil {
		t.Fatal(err)
	}
	got, _, err := m.Get(t.Context(), "v/c/0/0/0", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	entries := slices.Repeat([]byte{0xff}, 2*3*4*16)
	entry := entries[(3*6+0*3+1)*16:] // the last dimension varies slowest, then the first
	binary.LittleEndian.PutUint64(entry, 0)
	binary.LittleEndian.PutUint64(entry[8:], uint64(len("chunk")))
	if want := "chunk" + string(entries); string(got) != want {
		t.Errorf("got the shard %x, want %x", got, want)
	}
}

// requests counts the requests to a store.
type requests struct {
	driver.Map
	gets, puts, deletes atomic.Int64
	ahead, most         atomic.Int64 // gets since the last put, and the maximum of ahead
}

func (c *requests) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	c.gets.Add(1)
	c.most.Store(max(c.most.Load(), c.ahead.Add(1)))
	return c.Map.Get(ctx, key, o, alloc)
}

func (c *requests) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	c.puts.Add(1)
	c.ahead.Store(0)
	return c.Map.Put(ctx, key, body, o)
}

func (c *requests) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	c.deletes.Add(1)
	return c.Map.Delete(ctx, key, o)
}

// counted returns a Map that counts requests, and a function that returns the gets, puts
// and deletes since its last call.
func counted(t *testing.T) (m *zmap.Map, since func() [3]int64) {
	t.Helper()
	raw, err := memmap.NewOpener().Open(t.Context(), driver.OpenSpec{Path: "m", Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	c := &requests{Map: raw}
	m = zmap.New(c, nil)
	t.Cleanup(func() { _ = m.Close(t.Context()) })
	return m, func() [3]int64 { return [3]int64{c.gets.Swap(0), c.puts.Swap(0), c.deletes.Swap(0)} }
}

// row returns changes of chunks of a one-dimensional array.
func row(indexes ...int64) []manifest.Change {
	changes := make([]manifest.Change, len(indexes))
	for i, n := range indexes {
		changes[i].Index = []int64{n}
	}
	return changes
}

// TestRemoveFromShards removes chunks from four shards, in mixed order. Each shard must be
// stored before the next one is read.
func TestRemoveFromShards(t *testing.T) {
	t.Parallel()
	raw, err := memmap.NewOpener().Open(t.Context(), driver.OpenSpec{Path: "m", Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	c := &requests{Map: raw}
	m := zmap.New(c, nil)
	t.Cleanup(func() { _ = m.Close(t.Context()) })
	s := manifest.NewShards(line(m), chunk.Regular([]int64{3}), manifest.ShardIndex{}, 1<<20, 1<<20, true)
	if err := s.Update(t.Context(), row(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), &editor{letter: "a"}); err != nil {
		t.Fatal(err)
	}
	var chunks []manifest.Chunk
	for _, n := range []int64{1, 4, 7, 10, 2, 5, 8, 11, 9} {
		chunks = append(chunks, manifest.Chunk{Index: []int64{n}})
	}
	if err := s.Remove(t.Context(), chunks, []int64{12}); err != nil {
		t.Fatal(err)
	}
	if gets, puts, deletes, most := c.gets.Load(), c.puts.Load(), c.deletes.Load(), c.most.Load(); gets != 3 || puts != 7 || deletes != 1 || most != 1 {
		t.Errorf("%d gets, up to %d before a put, %d puts, %d deletes, want 3, up to 1, 7 and 1", gets, most, puts, deletes)
	}
	if got, want := locate(t, s, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), []string{"a", "absent", "absent", "a", "absent", "absent", "a", "absent", "absent", "absent", "absent", "absent"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestUpdateShardsRequests counts requests: a shard that is replaced as a whole is put
// without a get, and any other shard is read and put once. A shard at the edge of the
// grid is replaced as a whole even if the write does not include chunks beyond the edge.
func TestUpdateShardsRequests(t *testing.T) {
	t.Parallel()
	m, since := counted(t)
	x := manifest.ShardIndex{Checksum: true}
	s := manifest.NewShards(line(m), chunk.Regular([]int64{4}), x, 1<<20, 1<<20, true)
	update := func(e *editor, indexes ...int64) {
		t.Helper()
		if err := s.Update(t.Context(), row(indexes...), e); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(gets, puts, deletes int64) {
		t.Helper()
		if got, want := since(), [3]int64{gets, puts, deletes}; got != want {
			t.Errorf("%d gets, puts and deletes, want %d", got, want)
		}
	}
	update(&editor{letter: "a"}, 0, 1, 2, 3)
	expect(0, 1, 0)
	update(&editor{letter: "b", grid: []int64{10}}, 9, 4, 8, 5, 7, 6)
	expect(0, 2, 0)
	update(&editor{letter: "c"}, 1, 8, 3)
	expect(2, 2, 0)
	update(&editor{letter: "d", part: true}, 0, 1, 2, 3)
	expect(1, 1, 0)
	if got, want := locate(t, s, 0, 1, 2, 3, 4, 8, 9, 10), []string{"ad", "cd", "ad", "cd", "b", "c", "b", "absent"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	since()
	chunks := func(indexes ...int64) (list []manifest.Chunk) {
		for _, n := range indexes {
			list = append(list, manifest.Chunk{Index: []int64{n}})
		}
		return list
	}
	if err := s.Remove(t.Context(), chunks(8, 9, 4, 5), []int64{7}); err != nil {
		t.Fatal(err)
	}
	expect(1, 1, 1) // shard 2 is beyond the grid
	if err := s.Remove(t.Context(), chunks(6, 7), []int64{8}); err != nil {
		t.Fatal(err)
	}
	expect(1, 1, 0) // another writer may have added chunk 4 or 5
	if got := content(t, m, "v/c/1"); got != makeShard(x, "", "", "", "") {
		t.Errorf("a shard without chunks is stored as %q, want an empty index", got)
	}
	since()
	if err := s.Remove(t.Context(), chunks(0, 1, 2, 3), []int64{8}); err != nil {
		t.Fatal(err)
	}
	expect(0, 0, 1)
	update(&editor{letter: "x", limit: 1, part: true}, 0)
	update(&editor{letter: "longer"}, 0)
	since()
	update(&editor{letter: "x", limit: 1, part: true}, 0) // the editor skips the chunk
	expect(1, 0, 0)
}

// TestUpdateShardsConflict checks that Update keeps chunks that another writer stores in
// a shard between the read and the put of the shard, whether or not the shard existed
// before.
func TestUpdateShardsConflict(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		for _, levels := range []int{1, 2} {
			m := newMap(t)
			newSource := func() manifest.Writer {
				var s manifest.Writer = line(m)
				for range levels {
					s = manifest.NewShards(s, chunk.Regular([]int64{4}), manifest.ShardIndex{Checksum: true}, 1<<20, 1<<20, true)
				}
				return s
			}
			s, other := newSource(), newSource()
			if there {
				if err := other.Update(t.Context(), row(3), &editor{letter: "old"}); err != nil {
					t.Fatal(err)
				}
			}
			e := &editor{letter: "x"}
			e.before = func() {
				if e.edits == 1 {
					if err := other.Update(t.Context(), row(2), &editor{letter: "other"}); err != nil {
						t.Error(err)
					}
				}
			}
			if err := s.Update(t.Context(), row(0), e); err != nil || e.edits != 2 {
				t.Errorf("Update: %d edits, %v, want 2 edits", e.edits, err)
			}
			want := []string{"x", "absent", "other", map[bool]string{false: "absent", true: "old"}[there]}
			if got := locate(t, s, 0, 1, 2, 3); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			e = &editor{letter: "y", before: func() {
				if err := other.Update(t.Context(), row(2), &editor{letter: fmt.Sprint(e.edits)}); err != nil {
					t.Error(err)
				}
			}}
			err := s.Update(t.Context(), row(0), e)
			if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "v/c/0") || locate(t, other, 0)[0] != "x" {
				t.Errorf("want ErrConflict for v/c/0, got %v", err)
			}
		}
	}
}

// TestUpdateShardsConcurrently checks that concurrent updates of chunks in the same
// shards preserve each other's changes.
func TestUpdateShardsConcurrently(t *testing.T) {
	t.Parallel()
	m := newMap(t)
	s := manifest.NewShards(line(m), chunk.Regular([]int64{4}), manifest.ShardIndex{}, 1<<20, 1<<20, true)
	var wg sync.WaitGroup
	for g := range int64(8) {
		wg.Go(func() {
			for range 10 {
				e := &editor{part: true, letter: "x"}
				if err := s.Update(t.Context(), row(g, 15-g), e); err != nil || e.edits > 4 {
					t.Errorf("Update: %d edits, %v, want at most 4 edits", e.edits, err)
				}
			}
		})
	}
	wg.Wait()
	for i, text := range locate(t, s, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) {
		if text != "xxxxxxxxxx" {
			t.Errorf("chunk %d: got %q, want ten letters", i, text)
		}
	}
}

// TestUpdateShardsRefuses checks that Update fails for shards beyond the limit, invalid
// indexes and read-only shards, and does not change the stored shard.
func TestUpdateShardsRefuses(t *testing.T) {
	t.Parallel()
	x := manifest.ShardIndex{} // 32 bytes for two chunks
	overlapping := []byte(makeShard(manifest.ShardIndex{}, "0123456789", "0123456789"))
	copy(overlapping[20:], overlapping[36:]) // both entries refer to the last chunk
	copy(overlapping[36:], overlapping[20:36])
	overlapping = overlapping[10:]
	overlapping[10], overlapping[26] = 0, 0
	cases := map[string]struct {
		shard string
		limit int64
		kind  ncerr.Kind
		says  string
	}{
		"stored shard":   {makeShard(x, "0123456789", "x"), 42, ncerr.ErrLimit, "43 bytes, more than the limit of 42"},
		"new shard":      {makeShard(x, "", "0123456789"), 42, ncerr.ErrLimit, "45 bytes exceed the limit of 42"},
		"beyond the end": {strings.Replace(makeShard(x, "ab", "c"), "\x02\x00\x00\x00\x00\x00\x00\x00\x01", "\x02\x00\x00\x00\x00\x00\x00\x00\xff", 1), 100, ncerr.ErrCorrupt, "but the shard has 35"},
		"short":          {"short", 100, ncerr.ErrCorrupt, "the shard has 5 bytes"},
	}
	for name, c := range cases {
		m := newMap(t)
		put(t, m, "v/c/0", c.shard)
		s := manifest.NewShards(line(m), chunk.Regular([]int64{2}), x, 1<<20, c.limit, true)
		err := s.Update(t.Context(), row(0), &editor{letter: "new"})
		if ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "v/c/0") || content(t, m, "v/c/0") != c.shard {
			t.Errorf("%s: got %v, or the stored shard has changed", name, err)
		}
	}
	// Chunks that share bytes are stored separately, within the limit.
	m := newMap(t)
	put(t, m, "v/c/0", string(overlapping))
	if err := manifest.NewShards(line(m), chunk.Regular([]int64{2}), x, 1<<20, 43, true).Update(t.Context(), row(0), &editor{part: true, letter: "new"}); ncerr.KindOf(err) != ncerr.ErrLimit {
		t.Errorf("chunks that share bytes, over the limit: want ErrLimit, got %v", err)
	}
	s := manifest.NewShards(line(m), chunk.Regular([]int64{2}), x, 1<<20, 100, true)
	if err := s.Update(t.Context(), row(0), &editor{part: true, letter: "new"}); err != nil || !slices.Equal(locate(t, s, 0, 1), []string{"0123456789new", "0123456789"}) {
		t.Errorf("chunks that share bytes: got %v, or wrong content", err)
	}
	readOnly := manifest.NewShards(struct{ manifest.Source }{line(m)}, chunk.Regular([]int64{2}), x, 1<<20, 100, true)
	if _, err := manifest.AsWriter(readOnly); ncerr.KindOf(err) != ncerr.ErrReadOnly {
		t.Errorf("AsWriter of read-only shards: want ErrReadOnly, got %v", err)
	}
	if err := readOnly.Update(t.Context(), row(0), &editor{letter: "x"}); ncerr.KindOf(err) != ncerr.ErrReadOnly {
		t.Errorf("Update of read-only shards: want ErrReadOnly, got %v", err)
	}
	nested := manifest.NewShards(s, chunk.Regular([]int64{3}), x, 1<<20, 100, true)
	if got := nested.Units(); !got.Equal(chunk.Regular([]int64{6})) || nested.LongestKey([]int64{80}) != "v/c/13" {
		t.Errorf("nested shards: got units of %v chunks and longest key %q, want 6 and v/c/13", got, nested.LongestKey([]int64{80}))
	}
}
