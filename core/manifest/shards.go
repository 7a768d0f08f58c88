package manifest

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Shards is the Source of the chunks inside shards, which another Source finds: of
// objects, of parts of objects, or of chunks inside shards. Each shard has an index of
// the places of its chunks. An index that was read is kept until Forget, or until others
// need its place; if the store has no versions, until the next read begins.
// If the store has no versions, a shard that is replaced between the reads of its index
// and of a chunk is not noticed.
//
// Source: Zarr v3, "Sharding codec".
type Shards struct {
	of    Source
	shape []int64 // of a shard, in chunks
	index ShardIndex
	most  int64               // bytes of the indexes that are kept
	room  *semaphore.Weighted // bytes of the indexes that are being used and are not kept
	many  bool                // several requests in one call cost less

	mu      sync.Mutex
	kept    map[string]*shard
	size    int64 // of all that are kept, in bytes
	turn    int   // counts calls of Forget(true): an index requested before one is not kept
	loose   bool  // an index is kept whose shard has no version
	loading map[string]chan struct{}
}

// ShardIndex is the storage format of the index of a shard.
type ShardIndex struct {
	AtStart  bool // it is at the start of the shard, else at the end
	Checksum bool // a CRC-32C follows it
	Big      bool // its numbers have the most significant byte first
}

// shard is the index of one shard.
type shard struct {
	at      Location // of the whole shard
	end     int64    // beyond the last byte of the shard
	entries []byte   // offset and length of each chunk
}

const (
	entrySize = 16
	// noChunk is the offset and the length of a chunk that is not there.
	noChunk = math.MaxUint64
)

// NewShards makes the Source of the chunks in the shards that of finds. shape is that
// of a shard, in chunks. Indexes of up to most bytes in all are kept, but always the
// last one.
func NewShards(of Source, shape []int64, index ShardIndex, most int64, many bool) *Shards {
	return &Shards{
		of: of, shape: shape, index: index, most: most, room: semaphore.NewWeighted(max(most, 1)), many: many,
		kept: make(map[string]*shard), loading: make(map[string]chan struct{}),
	}
}

var _ Source = (*Shards)(nil)

// IndexSize returns the size of an index of a shard of that shape, in chunks: at most
// math.MaxInt64.
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

// wanted is a shard that is not kept, and the chunks that are looked for in it.
type wanted struct {
	name  string
	index []int64
	items []int
}

// Locate implements Source. It reads the indexes of shards that are not kept. The error
// is ncerr.ErrCorrupt for an index that makes no sense, else that of the store.
func (s *Shards) Locate(ctx context.Context, indexes [][]int64, out []Location) error {
	ranges := make([]driver.Range, len(indexes))
	place := func(x *shard, items ...int) error {
		for _, i := range items {
			if err := s.place(x, indexes[i], &ranges[i], &out[i]); err != nil {
				return err
			}
		}
		return nil
	}
	var missing []wanted
	var number map[string]int
	var name []byte
	at := make([]int64, len(s.shape))
	found := make([]*shard, len(indexes))
	s.mu.Lock()
	for i, index := range indexes {
		name = s.shardOf(index, at, name[:0])
		if found[i] = s.kept[string(name)]; found[i] != nil {
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
	for i, x := range found {
		if x != nil {
			if err := place(x, i); err != nil {
				return err
			}
		}
	}
	group := max(1, s.most/max(s.index.IndexSize(s.shape), 1))
	for len(missing) > 0 {
		n := min(int64(len(missing)), group)
		if err := s.use(ctx, missing[:n], func(x *shard, w *wanted) error { return place(x, w.items...) }); err != nil {
			return err
		}
		missing = missing[n:]
	}
	return nil
}

// use calls f with each of the shards, which it reads unless another call is doing so,
// or has done it since they were looked for.
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
		} else { // it is not there, or could not be read
			err = s.loadAll(ctx, others[i:i+1], f)
		}
	}
	return err
}

// loadAll reads shards, of which the indexes take up room until f has used them.
func (s *Shards) loadAll(ctx context.Context, shards []wanted, f func(*shard, *wanted) error) error {
	if len(shards) == 0 {
		return nil
	}
	size := max(1, min(s.most, s.index.IndexSize(s.shape)*int64(len(shards))))
	if err := s.room.Acquire(ctx, size); err != nil {
		return err
	}
	defer s.room.Release(size)
	s.mu.Lock()
	turn := s.turn
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
		s.keep(shards[i].name, found[i], turn)
		if err := f(found[i], &shards[i]); err != nil {
			return err
		}
	}
	return nil
}

// shardOf sets at to the shard of a chunk, and appends its name to dst.
func (s *Shards) shardOf(index, at []int64, dst []byte) []byte {
	for d, i := range index {
		at[d] = i / s.shape[d]
		dst = binary.LittleEndian.AppendUint64(dst, uint64(at[d]))
	}
	return dst
}

// place sets out to the place of a chunk in its shard; r is room for its range.
func (s *Shards) place(x *shard, index []int64, r *driver.Range, out *Location) error {
	if x.entries == nil {
		*out = Location{Key: x.at.Key, Absent: true}
		return nil
	}
	n := int64(0)
	for d, i := range index {
		n = n*s.shape[d] + i%s.shape[d]
	}
	from, length, err := s.entry(x, n)
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
	out.Range, out.Promised = r, true
	return nil
}

// entry returns where chunk n of a shard begins in it, and its length; -1 if it is not
// there.
func (s *Shards) entry(x *shard, n int64) (from, length int64, err error) {
	var order binary.ByteOrder = binary.LittleEndian
	if s.index.Big {
		order = binary.BigEndian
	}
	e := x.entries[n*entrySize:]
	a, b := order.Uint64(e), order.Uint64(e[8:])
	switch {
	case a == noChunk && b == noChunk:
		return -1, 0, nil
	case a > uint64(x.end) || b > uint64(x.end)-a:
		return 0, 0, ncerr.Errorf(ncerr.ErrCorrupt, "", zmap.Path(x.at.Key), "the index of the shard says that chunk %d has %d bytes from byte %d on, the shard has %d", n, b, a, x.end)
	}
	return int64(a), int64(b), nil
}

// load reads the indexes of shards.
func (s *Shards) load(ctx context.Context, shards [][]int64) ([]*shard, error) {
	where := make([]Location, len(shards))
	if err := s.of.Locate(ctx, shards, where); err != nil {
		return nil, err
	}
	out := make([]*shard, len(shards))
	size := s.index.IndexSize(s.shape)
	var asked []int
	var reqs []zmap.GetRequest
	for i := range where {
		at := &where[i]
		out[i] = &shard{at: *at}
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
			reqs = append(reqs, zmap.GetRequest{Key: at.Key, Alloc: heap, Opts: driver.GetOptions{Range: &part, IfMatch: at.Version, Limit: size}})
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
			case ncerr.KindOf(err) == ncerr.ErrNotFound && !at.Promised:
				return
			case ncerr.KindOf(err) == ncerr.ErrNotFound:
				err = ncerr.New(ncerr.ErrNoObject, "", zmap.Path(at.Key), err)
			case ncerr.KindOf(err) == ncerr.ErrRange:
				err = s.tooShort(at.Key, info.Size, size)
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

// heap is the memory for an index, of which the request limits the size.
func heap(n int64) ([]byte, error) { return make([]byte, n), nil }

// keep keeps the index of a shard that is there, and drops all others if there is no
// room for it.
func (s *Shards) keep(name string, x *shard, turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(x.entries))
	if n == 0 || s.turn != turn {
		return
	}
	if old := s.kept[name]; old != nil {
		s.size -= int64(len(old.entries))
	}
	if s.size+n > s.most {
		clear(s.kept)
		s.size, s.loose = 0, false
	}
	s.size += n
	s.kept[name] = x
	if x.loose() {
		s.loose = true
	}
}

// cut returns the index of a shard, nil if the shard is too short.
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

// parse takes data as the index of a shard of so many bytes.
func (s *Shards) parse(x *shard, end int64, data []byte) error {
	size := s.index.IndexSize(s.shape)
	if int64(len(data)) != size {
		return s.tooShort(x.at.Key, end, size)
	}
	if s.index.Checksum {
		sum := binary.LittleEndian.Uint32(data[size-4:])
		if data = data[:size-4]; crc32.Checksum(data, castagnoli) != sum {
			return ncerr.Errorf(ncerr.ErrCorrupt, "", zmap.Path(x.at.Key), "the checksum of the index of the shard is wrong")
		}
	}
	x.end, x.entries = end, data
	return nil
}

func (s *Shards) tooShort(key string, n, size int64) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", zmap.Path(key), "the shard has %d bytes, its index alone has %d", n, size)
}

// Chunks implements Source. It reads the indexes of all shards. The key of a chunk is
// that of its shard.
func (s *Shards) Chunks(ctx context.Context, grid []int64) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for ch, err := range s.of.Chunks(ctx, s.grid(grid)) {
			var found []*shard
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
				index := make([]int64, len(s.shape))
				for d, rest := len(s.shape)-1, n; d >= 0; d-- {
					index[d] = ch.Index[d]*s.shape[d] + rest%s.shape[d]
					rest /= s.shape[d]
				}
				if !yield(Chunk{Index: index, Key: ch.Key, Size: length}, err) || err != nil {
					return
				}
			}
		}
	}
}

// grid returns the number of shards along each dimension.
func (s *Shards) grid(chunks []int64) []int64 {
	out := slices.Clone(chunks)
	for d, n := range s.shape {
		out[d] = (out[d] + n - 1) / n
	}
	return out
}

// Found implements Source.
func (s *Shards) Found() { s.of.Found() }

// Settled implements Source.
func (s *Shards) Settled() bool { return s.of.Settled() }

// Missing implements Source: it looks for the shards.
func (s *Shards) Missing(ctx context.Context, indexes [][]int64, grid []int64) error {
	shards := make([][]int64, len(indexes))
	for i, index := range indexes {
		shards[i] = make([]int64, len(index))
		s.shardOf(index, shards[i], nil)
	}
	return s.of.Missing(ctx, shards, s.grid(grid))
}

// Forget implements Source: all indexes are read again, or those of shards that may
// have changed unnoticed.
func (s *Shards) Forget(all bool) {
	s.of.Forget(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case all:
		s.turn++
		clear(s.kept)
		s.size = 0
	case s.loose:
		for name, x := range s.kept {
			if x.loose() {
				delete(s.kept, name)
				s.size -= int64(len(x.entries))
			}
		}
	}
	s.loose = false
}

// loose reports whether the shard may change without a change of its version.
func (x *shard) loose() bool { return x.at.Version == "" && x.at.Inline == nil }
