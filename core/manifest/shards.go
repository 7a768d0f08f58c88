package manifest

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"golang.org/x/sync/semaphore"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Shards is the Writer of chunks inside shards. Another Source locates the shards, which
// are objects, parts of objects, or chunks of larger shards. Each shard has an index of
// the locations of its chunks. Shards caches indexes until Forget is called or the cache
// is full. In a store without versions, it caches them only until the next read begins,
// and does not detect that a shard was replaced between the reads of its index and of a
// chunk.
//
// Source: Zarr v3, "Sharding codec".
type Shards struct {
	source Source
	shards chunk.Grid // the shards, in chunks
	index  ShardIndex
	most   int64               // maximum bytes of the cached indexes
	limit  int64               // maximum bytes of a shard that is written
	room   *semaphore.Weighted // limits the bytes of the indexes in use that are not cached
	many   bool                // batched requests are cheaper than separate ones

	scratch sync.Pool    // values of type *locating
	written atomic.Int64 // bytes of a chunk in the shards that were written: the largest mean

	mu             sync.Mutex
	bodies         []weak.Pointer[[]byte] // memory for shards that are written
	kept           map[string]*shard
	size           int64 // size of the cached indexes in bytes
	generation     int   // counts calls that drop indexes: an index requested before such a call is not cached
	hasUnversioned bool  // the cache has an index of a shard without a version
	loading        map[string]chan struct{}
}

// ShardIndex is the storage format of the index of a shard.
type ShardIndex struct {
	AtStart  bool // the index is at the start of the shard rather than at the end
	Checksum bool // a CRC-32C follows the index
	Big      bool // the numbers in the index are big-endian
	// Axes is the order in which the index counts the dimensions, from the slowest to the
	// fastest. Nil is the order of the array.
	Axes []int
}

// axis returns the dimension that the index counts at the given position.
func (x *ShardIndex) axis(i int) int {
	if x.Axes == nil {
		return i
	}
	return x.Axes[i]
}

// shard is the index of one shard.
type shard struct {
	at      Location // location of the whole shard
	size    int64    // size of the index in bytes
	end     int64    // size of the shard in bytes
	entries []byte   // offset and length of each chunk; nil if the shard does not exist
}

const (
	entrySize = 16
	// noChunk is the offset and the length in the index of a chunk that does not exist.
	noChunk = math.MaxUint64
)

// NewShards returns the Source of the chunks in the shards that source locates. shards is
// the grid of the shards, in chunks. The cache holds indexes of up to most bytes in total,
// but at least the most recent one. Shards of more than limit bytes are not written. many is
// set if batched requests are cheaper than separate ones.
func NewShards(source Source, shards chunk.Grid, index ShardIndex, most, limit int64, many bool) *Shards {
	return &Shards{
		source: source, shards: shards, index: index, most: most, limit: limit, room: semaphore.NewWeighted(max(most, 1)), many: many,
		kept: make(map[string]*shard), loading: make(map[string]chan struct{}),
	}
}

// IndexSize returns the size in bytes of the index of a shard with the given shape, in
// chunks, but at most math.MaxInt64.
func (x ShardIndex) IndexSize(shape []int64) int64 {
	n := chunk.Product(shape)
	if n > (math.MaxInt64-4)/entrySize {
		return math.MaxInt64
	}
	if n *= entrySize; x.Checksum {
		n += 4
	}
	return n
}

// order returns the byte order of the numbers in the index.
func (x ShardIndex) order() binary.ByteOrder {
	if x.Big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// locating is the memory of one call of Locate.
type locating struct {
	at    []int64
	found []*shard
	name  []byte
}

// wanted is a shard whose index was not cached, with the requested chunks in it.
type wanted struct {
	name  string
	index []int64
	items []int
}

// Locate implements Source. It reads the indexes of shards that are not cached. The
// error is ncerr.ErrCorrupt for an invalid index, or an error of the store.
func (s *Shards) Locate(ctx context.Context, indexes [][]int64, out []Location) error {
	ranges := make([]driver.Range, len(indexes))
	var missing []wanted
	var number map[string]int
	sc, _ := s.scratch.Get().(*locating)
	if sc == nil {
		sc = &locating{at: make([]int64, s.shards.Rank())}
	}
	defer s.scratch.Put(sc)
	at, found, name := sc.at, sc.found[:0], sc.name
	s.mu.Lock()
	for i, index := range indexes {
		name = s.shardOf(index, at, name[:0])
		found = append(found, s.kept[string(name)])
		if found[i] != nil {
			continue
		}
		k, ok := number[string(name)]
		if !ok {
			if number == nil {
				number = make(map[string]int)
			}
			k = len(missing)
			number[string(name)] = k
			missing = append(missing, wanted{name: string(name), index: slices.Clone(at)})
		}
		missing[k].items = append(missing[k].items, i)
	}
	s.mu.Unlock()
	sc.found, sc.name = found, name
	defer clear(found) // an idle scratch keeps no indexes
	for i, x := range found {
		if x != nil {
			if err := s.place(x, indexes[i], &ranges[i], &out[i]); err != nil {
				return err
			}
		}
	}
	group := max(1, s.most/max(s.index.IndexSize(s.shards.Largest()), 1))
	if Whole(s).Rank() > 0 {
		group = 1
	}
	for len(missing) > 0 {
		n := min(int64(len(missing)), group)
		err := s.use(ctx, missing[:n], func(x *shard, w *wanted) error {
			for _, i := range w.items {
				if err := s.place(x, indexes[i], &ranges[i], &out[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		missing = missing[n:]
	}
	return nil
}

// use calls f with each of the shards. It reads the index of a shard unless another call
// is reading the index or has read it in the meantime.
func (s *Shards) use(ctx context.Context, shards []wanted, f func(*shard, *wanted) error) error {
	var own, others []wanted
	var wait []chan struct{}
	s.mu.Lock()
	for _, w := range shards {
		if busy := s.loading[w.name]; busy != nil || s.kept[w.name] != nil {
			others, wait = append(others, w), append(wait, busy)
			continue
		}
		s.loading[w.name] = make(chan struct{})
		own = append(own, w)
	}
	s.mu.Unlock()
	err := s.loadAll(ctx, own, f)
	s.mu.Lock()
	for _, w := range own {
		close(s.loading[w.name])
		delete(s.loading, w.name)
	}
	s.mu.Unlock()
	for i := range others {
		if err != nil {
			return err
		}
		if wait[i] != nil {
			select {
			case <-wait[i]:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.mu.Lock()
		x := s.kept[others[i].name]
		s.mu.Unlock()
		if x != nil {
			err = f(x, &others[i])
		} else { // the shard does not exist or could not be read
			err = s.loadAll(ctx, others[i:i+1], f)
		}
	}
	return err
}

// loadAll reads the indexes of shards and calls f with each. The indexes count against
// s.room until f has used them.
func (s *Shards) loadAll(ctx context.Context, shards []wanted, f func(*shard, *wanted) error) error {
	if len(shards) == 0 {
		return nil
	}
	size := max(1, min(s.most, s.index.IndexSize(s.shards.Largest())*int64(len(shards))))
	if err := s.room.Acquire(ctx, size); err != nil {
		return err
	}
	defer s.room.Release(size)
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	indexes := make([][]int64, len(shards))
	for i := range shards {
		indexes[i] = shards[i].index
	}
	found, err := s.load(ctx, indexes)
	if err != nil {
		return err
	}
	for i := range shards {
		s.keep(shards[i].name, found[i], generation)
		if err := f(found[i], &shards[i]); err != nil {
			return err
		}
	}
	return nil
}

// shardOf sets at to the position of the shard that contains the chunk at index, and
// appends the shard's name to dst.
func (s *Shards) shardOf(index, at []int64, dst []byte) []byte {
	for d, i := range index {
		at[d], _, _ = s.shards.Find(d, i)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(at[d]))
	}
	return dst
}

// shapeOf returns the shape of a shard in chunks.
func (s *Shards) shapeOf(shard []int64) []int64 {
	if s.shards.Regular() {
		return s.shards.Largest()
	}
	shape := make([]int64, len(shard))
	for d, i := range shard {
		_, shape[d] = s.shards.Chunk(d, i)
	}
	return shape
}

// place sets out to the location of a chunk in its shard. If the location has a range,
// place stores it in r.
func (s *Shards) place(x *shard, index []int64, r *driver.Range, out *Location) error {
	if x.entries == nil {
		*out = Location{Key: x.at.Key, Absent: true}
		return nil
	}
	from, length, err := s.entry(x, s.number(index))
	if err != nil || from < 0 {
		*out = Location{Absent: true}
		return err
	}
	*out = x.at
	if x.at.Inline != nil {
		out.Inline = x.at.Inline[from : from+length : from+length]
		return nil
	}
	if x.at.Range != nil {
		from += x.at.Range.Offset
	}
	*r = driver.Range{Offset: from, Length: length}
	out.Range, out.Required = r, true
	return nil
}

// entry returns the offset of chunk n within its shard, and its length. The offset is
// -1 if the chunk does not exist.
func (s *Shards) entry(x *shard, n int64) (from, length int64, err error) {
	order := s.index.order()
	e := x.entries[n*entrySize:]
	a, b := order.Uint64(e), order.Uint64(e[8:])
	switch {
	case a == noChunk && b == noChunk:
		return -1, 0, nil
	case a > uint64(x.end) || b > uint64(x.end)-a:
		return 0, 0, ncerr.Errorf(ncerr.ErrCorrupt, "", zmap.Path(x.at.Key), "the shard index places chunk %d with %d bytes at offset %d, but the shard has %d bytes", n, b, a, x.end)
	}
	return int64(a), int64(b), nil
}

// load reads the indexes of shards.
func (s *Shards) load(ctx context.Context, shards [][]int64) ([]*shard, error) {
	where := make([]Location, len(shards))
	if err := s.source.Locate(ctx, shards, where); err != nil {
		return nil, err
	}
	out := make([]*shard, len(shards))
	var asked []int
	var reqs []zmap.GetRequest
	for i := range where {
		at, size := &where[i], s.index.IndexSize(s.shapeOf(shards[i]))
		out[i] = &shard{at: *at, size: size}
		switch {
		case at.Absent:
		case at.Inline != nil:
			if err := s.parse(out[i], int64(len(at.Inline)), s.cut(at.Inline, size)); err != nil {
				return nil, err
			}
		default:
			part := driver.Range{Length: size}
			switch {
			case at.Range == nil && !s.index.AtStart:
				part = driver.Range{Offset: -size, Length: -1}
			case at.Range != nil && at.Range.Length < size:
				return nil, s.tooShort(at.Key, at.Range.Length, size)
			case at.Range != nil && !s.index.AtStart:
				part.Offset = at.Range.Offset + at.Range.Length - size
			case at.Range != nil:
				part.Offset = at.Range.Offset
			}
			asked = append(asked, i)
			reqs = append(reqs, zmap.GetRequest{Key: at.Key, Alloc: allocIndex, Opts: driver.GetOptions{Range: &part, IfMatch: at.Version, Limit: size}})
		}
	}
	for len(reqs) > 0 {
		m, n := where[asked[0]].Map, 1
		for s.many && n < len(reqs) && where[asked[n]].Map == m {
			n++
		}
		var failed error
		err := m.GetMany(ctx, reqs[:n], func(k int, data []byte, info zmap.Info, err error) {
			x := out[asked[k]]
			switch at := &x.at; {
			case ncerr.KindOf(err) == ncerr.ErrNotFound && !at.Required:
				return
			case ncerr.KindOf(err) == ncerr.ErrNotFound:
				err = ncerr.New(ncerr.ErrNoObject, "", zmap.Path(at.Key), err)
			case ncerr.KindOf(err) == ncerr.ErrRange:
				err = s.tooShort(at.Key, info.Size, x.size)
			case err == nil:
				end := info.Size
				if at.Range != nil {
					end = at.Range.Length
				}
				at.Version = info.Version
				err = s.parse(x, end, data)
			}
			if failed == nil {
				failed = err
			}
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return nil, err
		}
		reqs, asked = reqs[n:], asked[n:]
	}
	return out, nil
}

// allocIndex is an Alloc for indexes. The Limit of each request limits n.
func allocIndex(n int64) ([]byte, error) { return make([]byte, n), nil }

// keep caches the index of an existing shard, unless the shard itself is in memory. It
// drops all other indexes if the cache would become too large.
func (s *Shards) keep(name string, x *shard, generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(x.entries))
	if n == 0 || s.generation != generation || x.at.Inline != nil {
		return
	}
	if old := s.kept[name]; old != nil {
		s.size -= int64(len(old.entries))
	}
	if s.size+n > s.most {
		clear(s.kept)
		s.size, s.hasUnversioned = 0, false
	}
	s.size += n
	s.kept[name] = x
	if x.isUnversioned() {
		s.hasUnversioned = true
	}
}

// cut returns the index of a shard, or nil if the shard is too short.
func (s *Shards) cut(data []byte, size int64) []byte {
	switch n := int64(len(data)); {
	case n < size:
		return nil
	case s.index.AtStart:
		return data[:size]
	default:
		return data[n-size:]
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parse sets the index of x from data. end is the size of the shard in bytes.
func (s *Shards) parse(x *shard, end int64, data []byte) error {
	if int64(len(data)) != x.size {
		return s.tooShort(x.at.Key, end, x.size)
	}
	if s.index.Checksum {
		sum := binary.LittleEndian.Uint32(data[x.size-4:])
		if data = data[:x.size-4]; crc32.Checksum(data, castagnoli) != sum {
			return ncerr.Errorf(ncerr.ErrCorrupt, "", zmap.Path(x.at.Key), "the checksum of the shard index does not match")
		}
	}
	x.end, x.entries = end, data
	return nil
}

func (s *Shards) tooShort(key string, n, size int64) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", zmap.Path(key), "the shard has %d bytes, but its index alone has %d", n, size)
}

// Chunks implements Source. It reads the indexes of all shards. The Key of a chunk is the
// key of its shard. It skips shards at positions that are too large for any array.
func (s *Shards) Chunks(ctx context.Context, grid []int64) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for ch, err := range s.source.Chunks(ctx, s.grid(grid)) {
			var found []*shard
			if err == nil && s.overflows(ch.Index) {
				continue
			}
			if err == nil {
				found, err = s.load(ctx, [][]int64{ch.Index})
			}
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			x := found[0]
			for n := range int64(len(x.entries)) / entrySize {
				from, length, err := s.entry(x, n)
				if err == nil && from < 0 {
					continue
				}
				index := make([]int64, len(ch.Index))
				for i, rest := len(index)-1, n; i >= 0; i-- {
					d := s.index.axis(i)
					start, length := s.shards.Chunk(d, ch.Index[d])
					index[d] = start + rest%length
					rest /= length
				}
				if !yield(Chunk{Index: index, Key: ch.Key, Size: length}, err) || err != nil {
					return
				}
			}
		}
	}
}

// overflows reports whether the positions of the chunks in a shard overflow. A key may
// contain any position.
func (s *Shards) overflows(shard []int64) bool {
	for d, i := range shard {
		if i > s.shards.Last(d) {
			return true
		}
	}
	return false
}

// grid returns the number of shards along each dimension.
func (s *Shards) grid(chunks []int64) []int64 {
	out := slices.Clone(chunks) // nil if chunks is nil
	for d, n := range out {
		out[d] = s.shards.Len(d, n)
	}
	return out
}

// Found implements Source.
func (s *Shards) Found() { s.source.Found() }

// SeparatorKnown implements Source.
func (s *Shards) SeparatorKnown() bool { return s.source.SeparatorKnown() }

// CheckMissing implements Source. It checks the shards that contain the chunks.
func (s *Shards) CheckMissing(ctx context.Context, indexes [][]int64, grid []int64) error {
	shards := make([][]int64, len(indexes))
	for i, index := range indexes {
		shards[i] = make([]int64, len(index))
		s.shardOf(index, shards[i], nil)
	}
	return s.source.CheckMissing(ctx, shards, s.grid(grid))
}

// Forget implements Source. It drops all indexes, or only those of shards without a
// version.
func (s *Shards) Forget(all bool) {
	s.source.Forget(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case all:
		s.generation++
		clear(s.kept)
		s.size = 0
	case s.hasUnversioned:
		for name, x := range s.kept {
			if x.isUnversioned() {
				delete(s.kept, name)
				s.size -= int64(len(x.entries))
			}
		}
	}
	s.hasUnversioned = false
}

// isUnversioned reports whether the shard has no version, so that changes of the shard
// are not detected.
func (x *shard) isUnversioned() bool { return x.at.Version == "" }

// Whole returns the grid, in chunks, of the shards that s reads and decodes as a whole. The
// chunks of such a shard should be read together. Whole returns the zero Grid if s reads
// chunks one by one.
func Whole(s Source) chunk.Grid {
	in, ok := s.(*Shards)
	if !ok {
		return chunk.Grid{}
	}
	if _, wrapped := in.source.(*Wrapped); wrapped {
		return in.shards
	}
	if outer := Whole(in.source); outer.Rank() > 0 {
		return outer.Times(in.shards.Largest())
	}
	return chunk.Grid{}
}
