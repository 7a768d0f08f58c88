package manifest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"weak"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

var _ Writer = (*Shards)(nil)

// Units implements Writer. It returns the grid of the outermost shards.
func (s *Shards) Units() chunk.Grid {
	if w, ok := s.source.(Writer); ok {
		if outer := w.Units(); outer.Rank() > 0 {
			return outer.Times(s.shards.Largest())
		}
	}
	return s.shards
}

// LendBody implements Writer. It returns nil, because the chunks are copied to their shard.
func (s *Shards) LendBody(int64) (mem []byte, release func()) { return nil, nil }

// LongestKey implements Writer.
func (s *Shards) LongestKey(grid []int64) string {
	if w, ok := s.source.(Writer); ok {
		return w.LongestKey(s.grid(grid))
	}
	return ""
}

// Update implements Writer. It replaces each shard once, with all its changes. The
// error is ncerr.ErrLimit for a shard that is too large, and ncerr.ErrCorrupt for an
// invalid index.
func (s *Shards) Update(ctx context.Context, changes []Change, editor Editor) error {
	w, err := AsWriter(s.source)
	if err != nil {
		return err
	}
	e := &shardEditor{s: s, editor: editor, changes: changes}
	number := make(map[string]int)
	at := make([]int64, s.shards.Rank())
	var name []byte
	for i := range changes {
		name = s.shardOf(changes[i].Index, at, name[:0])
		k, ok := number[string(name)]
		if !ok {
			k = len(e.items)
			number[string(name)] = k
			e.items = append(e.items, nil)
			e.shards = append(e.shards, Change{Index: slices.Clone(at), Tag: k})
		}
		e.items[k] = append(e.items[k], i)
	}
	defer s.dropIndexes(number)
	if err = w.Update(ctx, e.shards, e); err != nil {
		return err
	}
	s.reuse(e.body)
	return nil
}

// maxReused is the maximum size in bytes of the memory of a shard that is used for other
// shards, and maxBodies the maximum number of shards whose memory is kept.
const (
	maxReused = 64 << 20
	maxBodies = 16
)

// reuse makes the memory of a shard, which has been stored, available to a later one, until
// the garbage collector frees it. Each call of Update provides that of one shard, so that
// unused memory stays small. A sync.Pool would keep that of one shard for each processor.
func (s *Shards) reuse(body []byte) {
	if 0 < cap(body) && cap(body) <= maxReused {
		s.mu.Lock()
		if len(s.bodies) < maxBodies {
			s.bodies = append(s.bodies, weak.Make(&body))
		}
		s.mu.Unlock()
	}
}

// takeBody returns memory that reuse has kept, or nil.
func (s *Shards) takeBody() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.bodies); n > 0; n = len(s.bodies) {
		body := s.bodies[n-1].Value()
		s.bodies = s.bodies[:n-1]
		if body != nil {
			return (*body)[:0]
		}
	}
	return nil
}

// Remove implements Writer. It deletes a shard if chunks includes all positions of the
// shard in grid. Other shards without chunks are stored with an empty index, because
// another writer may have added a chunk. Objects are changed one by one, so that only one of
// them is in memory, in its old and its new form.
func (s *Shards) Remove(ctx context.Context, chunks []Chunk, grid []int64) error {
	units := s.Units()
	changes := make(map[string][]Change)
	var names []string
	var name []byte
	for i := range chunks {
		name = name[:0]
		for d, n := range chunks[i].Index {
			at, _, _ := units.Find(d, n)
			name = binary.LittleEndian.AppendUint64(name, uint64(at))
		}
		if changes[string(name)] == nil {
			names = append(names, string(name))
		}
		changes[string(name)] = append(changes[string(name)], Change{Index: chunks[i].Index})
	}
	for _, name := range names {
		if err := s.Update(ctx, changes[name], remover(grid)); err != nil {
			return err
		}
	}
	return nil
}

// remover is an Editor that removes chunks. Its value is the grid of the array.
type remover []int64

func (r remover) Plan([]Change) (grid, known []int64, batch int) { return r, r, 0 }

func (remover) Edit(_ context.Context, changes []*Change) error {
	for _, ch := range changes {
		ch.Delete = true
	}
	return nil
}

// dropIndexes drops the cached indexes of the named shards. It drops all indexes of
// nested shards, because the other shards in the same object have a new version too.
func (s *Shards) dropIndexes(names map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	if _, nested := s.source.(*Shards); nested {
		clear(s.kept)
		s.size, s.hasUnversioned = 0, false
		return
	}
	for name := range names {
		if x := s.kept[name]; x != nil {
			delete(s.kept, name)
			s.size -= int64(len(x.entries))
		}
	}
}

// shardEditor is the Editor of shards. It calls another Editor for the chunks in the
// shards.
type shardEditor struct {
	s       *Shards
	editor  Editor
	changes []Change // changes of chunks
	shards  []Change // changes of shards
	items   [][]int  // indexes in changes of the chunks of each shard
	batch   int      // maximum number of chunks edited at a time
	body    []byte   // memory of the shard that was edited last
}

// Plan implements Editor. A shard must be read if any of its chunks is kept.
func (e *shardEditor) Plan(shards []Change) (grid, known []int64, batch int) {
	for k := range shards {
		for _, i := range e.items[k] {
			e.changes[i].Key = shards[k].Key
		}
	}
	grid, known, e.batch = e.editor.Plan(e.changes)
	for k := range shards {
		sh, all, expected := &shards[k], int64(0), int64(0)
		part, whole := false, true
		for _, i := range e.items[k] {
			ch := &e.changes[i]
			part = part || ch.Part || ch.MaySkip
			whole = whole && (!ch.Part || ch.Whole) && !ch.MaySkip
			if grid == nil || Within(ch.Index, grid) {
				all++
			}
			if known == nil || Within(ch.Index, known) {
				expected++
			}
		}
		sh.Part = part || all < e.s.chunksWithin(sh.Index, grid)
		sh.Whole = sh.Part && whole && expected == e.s.chunksWithin(sh.Index, known)
		sh.Limit = e.s.limit
	}
	return e.s.grid(grid), e.s.grid(known), 1
}

// chunksWithin returns the number of chunks of a shard that lie in grid.
func (s *Shards) chunksWithin(shard, grid []int64) int64 {
	total := int64(1)
	for d, i := range shard {
		start, n := s.shards.Chunk(d, i)
		if grid != nil {
			n = max(0, min(n, grid[d]-start))
		}
		total *= n
	}
	return total
}

// Edit implements Editor.
func (e *shardEditor) Edit(ctx context.Context, shards []*Change) error {
	for _, sh := range shards {
		if err := e.edit(ctx, sh); err != nil {
			return err
		}
	}
	return nil
}

// edit sets New of one shard to the chunks to keep, the edited chunks and the index.
func (e *shardEditor) edit(ctx context.Context, sh *Change) error {
	s := e.s
	shape := s.shapeOf(sh.Index)
	old := &shard{at: Location{Key: sh.Key}, size: s.index.IndexSize(shape)}
	switch {
	case ncerr.KindOf(sh.Damage) == ncerr.ErrLimit:
		return ncerr.Errorf(ncerr.ErrLimit, "write", zmap.Path(sh.Key), "the shard is too large: %w", sh.Damage)
	case sh.Damage != nil:
		return ncerr.Wrap("write", zmap.Path(sh.Key), sh.Damage)
	case sh.Exists:
		if err := s.parse(old, int64(len(sh.Old)), s.cut(sh.Old, old.size)); ncerr.KindOf(err) == ncerr.ErrCorrupt && sh.Whole {
			old.entries = nil // replace the damaged shard
		} else if err != nil {
			return ncerr.Wrap("write", zmap.Path(sh.Key), err)
		}
	}
	items := e.items[sh.Tag]
	w := newShardWriter(s, shape, sh.Key, int64(len(old.entries))/entrySize+int64(len(items)))
	edited := make([]*Change, len(items))
	numbers := make([]int64, len(items))
	for k, i := range items {
		ch := &e.changes[i]
		edited[k], numbers[k] = ch, s.number(ch.Index)
		ch.Old, ch.Exists, ch.Damage, ch.New, ch.Skip, ch.Delete = nil, false, nil, nil, false, false
		if old.entries == nil {
			continue
		}
		from, length, err := s.entry(old, numbers[k])
		if err != nil {
			return ncerr.Wrap("write", zmap.Path(sh.Key), err)
		}
		if from < 0 {
			continue
		}
		if ch.Exists = ch.Part; !ch.Part {
			continue
		}
		if ch.Limit > 0 && length > ch.Limit {
			ch.Damage = ncerr.New(ncerr.ErrLimit, "", "", tooLong(length, ch.Limit))
			continue
		}
		ch.Old = sh.Old[from : from+length : from+length]
	}
	named := make(map[int64]bool, len(items))
	for _, n := range numbers {
		named[n] = true
	}
	for n := range int64(len(old.entries)) / entrySize {
		if !named[n] {
			if err := w.keep(sh.Old, old, n); err != nil {
				return err
			}
		}
	}
	changed := false
	batch := e.batch
	if batch <= 0 {
		batch = len(items)
	}
	for first := 0; first < len(items); first += batch {
		last := min(first+batch, len(items))
		if err := e.editor.Edit(ctx, edited[first:last]); err != nil {
			return err
		}
		for k := first; k < last; k++ {
			var err error
			switch ch := edited[k]; {
			case ch.Skip && old.entries != nil:
				err = w.keep(sh.Old, old, numbers[k])
			case ch.Skip:
			case ch.Delete:
				changed = true
			default:
				changed = true
				err = w.add(numbers[k], ch.New)
			}
			if err != nil {
				return err
			}
		}
	}
	sh.Skip = !changed || w.chunks == 0 && sh.Part && !sh.Exists
	sh.Delete = w.chunks == 0 && !sh.Part
	sh.New = w.finish()
	e.body = sh.New
	return nil
}

// number returns the position of a chunk in the index of its shard.
func (s *Shards) number(index []int64) int64 {
	n := int64(0)
	for i := range index {
		d := s.index.axis(i)
		_, start, length := s.shards.Find(d, index[d])
		n = n*length + index[d] - start
	}
	return n
}

// shardWriter assembles a shard: the chunks in the order in which they are added, and the
// index.
type shardWriter struct {
	s       *Shards
	size    int64 // bytes of the index
	key     string
	body    []byte
	entries []byte
	chunks  int64
	most    int64 // maximum number of chunks
}

// newShardWriter returns the writer of a shard of the given shape, in chunks, with at
// most the given number of chunks.
func newShardWriter(s *Shards, shape []int64, key string, most int64) *shardWriter {
	w := &shardWriter{s: s, size: s.index.IndexSize(shape), key: key, body: s.takeBody(), most: most, entries: bytes.Repeat([]byte{math.MaxUint8}, int(chunk.Product(shape)*entrySize))}
	if s.index.AtStart {
		w.body = append(w.body, make([]byte, w.size)...)
	}
	return w
}

// keep adds chunk n of the shard old, whose content is shard, if the chunk exists.
func (w *shardWriter) keep(shard []byte, old *shard, n int64) error {
	from, length, err := w.s.entry(old, n)
	if err != nil {
		return ncerr.Wrap("write", zmap.Path(w.key), err)
	}
	if from < 0 {
		return nil
	}
	return w.add(n, shard[from:from+length])
}

// add adds chunk n. It fails with ncerr.ErrLimit if the shard becomes too large.
func (w *shardWriter) add(n int64, data []byte) error {
	size := int64(len(w.body)) + int64(len(data))
	if !w.s.index.AtStart {
		size += w.size
	}
	if size > w.s.limit {
		return ncerr.Errorf(ncerr.ErrLimit, "write", zmap.Path(w.key), "the shard is too large: %w", tooLong(size, w.s.limit))
	}
	order := w.s.index.order()
	e := w.entries[n*entrySize:]
	order.PutUint64(e, uint64(len(w.body)))
	order.PutUint64(e[8:], uint64(len(data)))
	w.reserve(len(data))
	w.body = append(w.body, data...)
	w.chunks++
	return nil
}

// bodyStep is the minimum number of bytes by which the memory for a shard grows, unless
// its remaining chunks are expected to need less.
const bodyStep = 64 << 20

// reserve provides memory for a chunk of n bytes and for the index. If the memory must
// grow, it assumes that the remaining chunks have the mean size of the chunks so far, or
// that of an earlier shard, and adds an eighth. It grows by at least half, because the
// old memory is garbage: shards that become slowly larger would leave much of it.
func (w *shardWriter) reserve(n int) {
	have, rest := len(w.body), len(w.entries)+crc32.Size
	if cap(w.body)-have >= n+rest {
		return
	}
	mean := max(int64(have+n)/(w.chunks+1), w.s.written.Load())
	room := float64(mean) * float64(w.most-w.chunks)
	room = min(max(room+room/8, float64(have)/2), float64(max(bodyStep, have)), float64(w.s.limit))
	body := make([]byte, have, have+max(n, int(room))+rest)
	copy(body, w.body)
	w.body = body
}

// finish returns the encoded shard.
func (w *shardWriter) finish() []byte {
	if w.chunks > 0 {
		if mean := int64(len(w.body)) / w.chunks; mean > w.s.written.Load() {
			w.s.written.Store(mean)
		}
	}
	if w.s.index.Checksum {
		w.entries = binary.LittleEndian.AppendUint32(w.entries, crc32.Checksum(w.entries, castagnoli))
	}
	if w.s.index.AtStart {
		copy(w.body, w.entries)
		return w.body
	}
	return append(w.body, w.entries...)
}

func tooLong(n, limit int64) error { return fmt.Errorf("%d bytes exceed the limit of %d", n, limit) }
