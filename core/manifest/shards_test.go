package manifest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// makeShard returns a shard as specified by Zarr v3. An empty string in chunks means an
// absent chunk.
func makeShard(x manifest.ShardIndex, chunks ...string) string {
	var order binary.AppendByteOrder = binary.LittleEndian
	if x.Big {
		order = binary.BigEndian
	}
	at := uint64(0)
	if x.AtStart {
		at = uint64(x.IndexSize([]int64{int64(len(chunks))}))
	}
	var index []byte
	for _, c := range chunks {
		if c == "" {
			index = order.AppendUint64(order.AppendUint64(index, 1<<64-1), 1<<64-1)
			continue
		}
		index = order.AppendUint64(order.AppendUint64(index, at), uint64(len(c)))
		at += uint64(len(c))
	}
	if x.Checksum {
		index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli)))
	}
	body := strings.Join(chunks, "")
	if x.AtStart {
		return string(index) + body
	}
	return body + string(index)
}

// contentAt returns the bytes at a location, or "absent".
func contentAt(t *testing.T, at manifest.Location) string {
	t.Helper()
	if at.Absent {
		return "absent"
	}
	if at.Inline != nil {
		return string(at.Inline)
	}
	data, _, err := at.Map.Get(t.Context(), at.Key, &driver.GetOptions{Range: at.Range, IfMatch: at.Version}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// locate returns the contents at the given positions of a one-dimensional array.
func locate(t *testing.T, s manifest.Source, indexes ...int64) []string {
	t.Helper()
	where := make([]manifest.Location, len(indexes))
	at := make([][]int64, len(indexes))
	for i, n := range indexes {
		at[i] = []int64{n}
	}
	if err := s.Locate(t.Context(), at, where); err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(indexes))
	for i := range where {
		out[i] = contentAt(t, where[i])
	}
	return out
}

// line returns the Source of a one-dimensional array without shards.
func line(m *zmap.Map) *manifest.Computed {
	return manifest.NewComputed(m, "v/", chunk.Keys{Separator: '/', Prefix: true}, 1, true)
}

func TestShards(t *testing.T) {
	t.Parallel()
	for _, x := range []manifest.ShardIndex{{}, {Checksum: true}, {AtStart: true, Checksum: true}, {Big: true}, {AtStart: true}} {
		for _, most := range []int64{1 << 20, 40, 0} { // cache all indexes, one, or none
			t.Run(fmt.Sprintf("%+v/%d", x, most), func(t *testing.T) {
				t.Parallel()
				m := newMap(t)
				put(t, m, "v/c/0", makeShard(x, "zero", ""))
				put(t, m, "v/c/2", makeShard(x, "four", "5"))
				s := manifest.NewShards(line(m), chunk.Regular([]int64{2}), x, most, 1<<20, true)
				want := []string{"zero", "absent", "absent", "absent", "four", "5"}
				for range 2 {
					if got := locate(t, s, 0, 1, 2, 3, 4, 5); !slices.Equal(got, want) {
						t.Errorf("want %q, got %q", want, got)
					}
				}
				sizes := map[int64]int64{}
				for ch, err := range s.Chunks(t.Context(), []int64{6}) {
					if err != nil {
						t.Fatal(err)
					}
					sizes[ch.Index[0]] = ch.Size
				}
				if fmt.Sprint(sizes) != "map[0:4 4:4 5:1]" {
					t.Errorf("sizes of the chunks: got %v, want 4, 4 and 1 for chunks 0, 4 and 5", sizes)
				}
			})
		}
	}
}

// TestShardsInShards reads two levels of two-dimensional shards.
func TestShardsInShards(t *testing.T) {
	t.Parallel()
	inner, outer := manifest.ShardIndex{AtStart: true, Checksum: true}, manifest.ShardIndex{Checksum: true}
	m := newMap(t)
	put(t, m, "v/c/0/1", makeShard(outer, makeShard(inner, "a", "", "bb", "c"), makeShard(inner, "", "second", "", "")))
	objects := manifest.NewComputed(m, "v/", chunk.Keys{Separator: '/', Prefix: true}, 2, true)
	s := manifest.NewShards(manifest.NewShards(objects, chunk.Regular([]int64{2, 1}), outer, 1<<20, 1<<20, true), chunk.Regular([]int64{2, 2}), inner, 1<<20, 1<<20, true)
	indexes := [][]int64{{0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}, {0, 0}}
	where := make([]manifest.Location, len(indexes))
	if err := s.Locate(t.Context(), indexes, where); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a", "absent", "bb", "c", "second", "absent"} {
		if got := contentAt(t, where[i]); got != want {
			t.Errorf("%v: want %q, got %q", indexes[i], want, got)
		}
	}
	if !where[0].Required || where[0].Version == "" || where[5].Key != "v/c/0/0" {
		t.Errorf("wrong locations: %+v for the first chunk, %+v for the last one", where[0], where[5])
	}
	n := 0
	for ch, err := range s.Chunks(t.Context(), []int64{4, 4}) {
		if err != nil || ch.Key != "v/c/0/1" {
			t.Errorf("Chunks: got %+v, %v, want the key v/c/0/1", ch, err)
		}
		n++
	}
	if n != 4 {
		t.Errorf("want 4 chunks, got %d", n)
	}
	// An index of an inner shard is refused if its version differs from the version of
	// the outer shard.
	between := manifest.NewShards(objects, chunk.Regular([]int64{2, 1}), outer, 1<<20, 1<<20, true)
	if err := between.Locate(t.Context(), [][]int64{{0, 1}}, where); err != nil {
		t.Fatal(err)
	}
	put(t, m, "v/c/0/1", makeShard(outer, makeShard(inner, "other", "", "", ""), ""))
	err := manifest.NewShards(between, chunk.Regular([]int64{2, 2}), inner, 1<<20, 1<<20, true).Locate(t.Context(), [][]int64{{0, 2}}, where)
	if ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
}

// TestDamagedShards checks that an invalid index results in ErrCorrupt, and never in bytes or
// an absent chunk.
func TestDamagedShards(t *testing.T) {
	t.Parallel()
	entry := func(at, n uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, at), n)
	}
	sum := manifest.ShardIndex{Checksum: true}
	flipped := []byte(makeShard(sum, "chunk"))
	flipped[len(flipped)-6] ^= 1
	for name, c := range map[string]struct {
		index manifest.ShardIndex
		shard []byte
		says  string
	}{
		"empty":                      {sum, nil, "the shard has 0 bytes, but its index alone has 20"},
		"shorter than its index":     {sum, make([]byte, 19), "the shard has 19 bytes, but its index alone has 20"},
		"shorter, index at start":    {manifest.ShardIndex{AtStart: true, Checksum: true}, make([]byte, 19), "its index alone has 20"},
		"checksum":                   {sum, flipped, "the checksum of the shard index does not match"},
		"offset beyond the end":      {manifest.ShardIndex{}, entry(17, 0), "chunk 0 with 0 bytes at offset 17, but the shard has 16"},
		"length beyond the end":      {manifest.ShardIndex{}, entry(0, 17), "chunk 0 with 17 bytes at offset 0, but the shard has 16"},
		"sum overflows":              {manifest.ShardIndex{}, entry(8, 1<<64-4), "at offset 8"},
		"only the offset is unset":   {manifest.ShardIndex{}, entry(1<<64-1, 4), "at offset 18446744073709551615"},
		"only the length is unset":   {manifest.ShardIndex{}, entry(4, 1<<64-1), "18446744073709551615 bytes"},
		"the other byte order":       {manifest.ShardIndex{Big: true}, append([]byte("chunk"), entry(0, 5)...), "the shard has 21"},
		"no index of a shard inside": {manifest.ShardIndex{}, append([]byte("x"), entry(0, 1)...), "its index alone has 16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMap(t)
			put(t, m, "v/c/0", string(c.shard))
			var s manifest.Source = manifest.NewShards(line(m), chunk.Regular([]int64{1}), c.index, 1<<20, 1<<20, true)
			if strings.Contains(name, "inside") {
				s = manifest.NewShards(s, chunk.Regular([]int64{1}), c.index, 1<<20, 1<<20, true)
			}
			where := make([]manifest.Location, 1)
			err := s.Locate(t.Context(), [][]int64{{0}}, where)
			if ncerr.KindOf(err) != ncerr.ErrCorrupt || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "/v/c/0") {
				t.Errorf("want ErrCorrupt with %q, got %v at %+v", c.says, err, where[0])
			}
			var last error
			for _, err := range s.Chunks(t.Context(), []int64{1}) {
				last = err
			}
			if ncerr.KindOf(last) != ncerr.ErrCorrupt {
				t.Errorf("Chunks: want ErrCorrupt, got %v", last)
			}
		})
	}
}

// TestShardReplaced checks that a location has the version of the shard whose index was
// read, and that Forget drops the cached index.
func TestShardReplaced(t *testing.T) {
	t.Parallel()
	x := manifest.ShardIndex{Checksum: true}
	m := newMap(t)
	put(t, m, "v/c/0", makeShard(x, "old", "chunk"))
	s := manifest.NewShards(line(m), chunk.Regular([]int64{2}), x, 1<<20, 1<<20, true)
	before := make([]manifest.Location, 1)
	if err := s.Locate(t.Context(), [][]int64{{1}}, before); err != nil {
		t.Fatal(err)
	}
	put(t, m, "v/c/0", makeShard(x, "a longer one", "new"))
	_, _, err := m.Get(t.Context(), before[0].Key, &driver.GetOptions{Range: before[0].Range, IfMatch: before[0].Version}, nil)
	if ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	s.Forget(true)
	if got := locate(t, s, 0, 1); !slices.Equal(got, []string{"a longer one", "new"}) {
		t.Errorf("after Forget: got %q, want the chunks of the new shard", got)
	}
}

// requiredSource is a Source that sets Required in each Location.
type requiredSource struct{ *manifest.Computed }

func (p requiredSource) Locate(ctx context.Context, indexes [][]int64, out []manifest.Location) error {
	err := p.Computed.Locate(ctx, indexes, out)
	for i := range indexes {
		out[i].Required = true
	}
	return err
}

func TestRequiredShard(t *testing.T) {
	t.Parallel()
	s := manifest.NewShards(requiredSource{line(newMap(t))}, chunk.Regular([]int64{2}), manifest.ShardIndex{}, 1<<20, 1<<20, false)
	err := s.Locate(t.Context(), [][]int64{{0}}, make([]manifest.Location, 1))
	if ncerr.KindOf(err) != ncerr.ErrNoObject {
		t.Errorf("want ErrNoObject, got %v", err)
	}
}

// counting counts Get requests. It removes the versions from the results unless versions is
// set.
type counting struct {
	driver.Map
	gets     *atomic.Int64
	versions bool
}

func (c counting) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	c.gets.Add(1)
	data, info, err := c.Map.Get(ctx, key, o, alloc)
	if !c.versions {
		info.Version = ""
	}
	return data, info, err
}

// TestIndexesAreKept counts how often indexes are read. An index is read once for any
// number of callers if the cache has space for it, and once per read if the store has no
// versions.
func TestIndexesAreKept(t *testing.T) {
	t.Parallel()
	x := manifest.ShardIndex{Checksum: true} // 36 bytes for two chunks
	for _, c := range []struct {
		versions          bool
		most              int64
		first, next, read int64
	}{
		{true, 1 << 20, 3, 0, 0},
		{true, 40, 3, 3, 3}, // only the last index is cached
		{false, 1 << 20, 3, 0, 3},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			raw, err := memmap.NewOpener().Open(t.Context(), driver.OpenSpec{Path: "m", Mode: driver.Create})
			if err != nil {
				t.Fatal(err)
			}
			var gets atomic.Int64
			m := zmap.New(counting{raw, &gets, c.versions}, nil)
			t.Cleanup(func() { _ = m.Close(t.Context()) })
			for i := range 3 {
				put(t, m, fmt.Sprintf("v/c/%d", i), makeShard(x, "a", "b"))
			}
			s := manifest.NewShards(line(m), chunk.Regular([]int64{2}), x, c.most, 1<<20, true)
			locateAll := func(forget bool) int64 {
				gets.Store(0)
				if forget {
					s.Forget(false)
				}
				where := make([]manifest.Location, 6)
				if err := s.Locate(t.Context(), [][]int64{{0}, {1}, {2}, {3}, {4}, {5}}, where); err != nil {
					t.Fatal(err)
				}
				return gets.Load()
			}
			got := []int64{locateAll(false), locateAll(false), locateAll(true)}
			if want := []int64{c.first, c.next, c.read}; !slices.Equal(got, want) && c.most > 40 || got[0] != c.first {
				t.Errorf("want %d requests, got %d", want, got)
			}
			if c.most == 40 && got[1] < 2 {
				t.Errorf("the cache holds more than one index: got %d requests", got)
			}
			s.Forget(true)
			gets.Store(0)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					where := make([]manifest.Location, 1)
					if err := s.Locate(t.Context(), [][]int64{{0}}, where); err != nil || where[0].Range == nil {
						t.Errorf("Locate: got %+v, %v, want a range", where[0], err)
					}
				})
			}
			wg.Wait()
			if n := gets.Load(); n != 1 {
				t.Errorf("eight concurrent calls made %d requests, want 1", n)
			}
		})
	}
}

// TestMissingWithPrefix checks that chunks under keys with the other separator are
// found even if keys begin with "c".
func TestMissingWithPrefix(t *testing.T) {
	t.Parallel()
	for _, sep := range []byte{'/', '.'} {
		m := newMap(t)
		keys := chunk.Keys{Separator: sep, Prefix: true}
		put(t, m, "v/zarr.json", "{}")
		put(t, m, "v/"+string(keys.Other().Append(nil, []int64{0, 1})), "x")
		err := manifest.NewComputed(m, "v/", keys, 2, true).CheckMissing(t.Context(), [][]int64{{0, 0}}, []int64{2, 2})
		if ncerr.KindOf(err) != ncerr.ErrMetadata || !strings.Contains(err.Error(), "chunk_key_encoding") {
			t.Errorf("separator %q: want ErrMetadata about chunk_key_encoding, got %v", sep, err)
		}
	}
}

// TestShardsBeyondArrays checks that Chunks skips shards at positions that are too large
// for any array, because the positions of their chunks would overflow.
func TestShardsBeyondArrays(t *testing.T) {
	t.Parallel()
	x := manifest.ShardIndex{}
	m := newMap(t)
	for _, key := range []string{"1", "4611686018427387904", "4611686018427387903", "9223372036854775807"} {
		put(t, m, "v/c/"+key, makeShard(x, "a", "b"))
	}
	s := manifest.NewShards(line(m), chunk.Regular([]int64{2}), x, 1<<20, 1<<20, true)
	var found []int64
	for ch, err := range s.Chunks(t.Context(), []int64{6}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, ch.Index[0])
	}
	if slices.Sort(found); !slices.Equal(found, []int64{2, 3}) {
		t.Errorf("want the chunks 2 and 3, got %d", found)
	}
}
