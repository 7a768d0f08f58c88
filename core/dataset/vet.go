package dataset

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A chunk can contain elements beyond the shape of its array in the store: those of a
// writer that has not flushed yet, or of one that died. A write of a part of the chunk
// must keep the former, because their writer may flush them later, and must not keep the
// latter, because they would become values that nobody has acknowledged.
//
// Such elements are kept unless it is certain that no running writer has written them.
// After the chunk was read, first the marks are listed and then the document of the
// array is read. A writer puts its mark before it writes such a chunk, and removes it after
// it has published the shape. If no mark of a writer that may be running exists, every
// writer of the chunk that was read has therefore published its shape or is dead, and the
// elements beyond the shape in the document belong to nobody. The chunk is put on the
// condition that it has not changed since it was read.

// sharing records what a variable's array has in the store, and which chunks beyond that this
// process has written.
type sharing struct {
	stored []int64 // the shape of the array in the store; nil means that of the metadata that was read; guarded by Dataset.mu

	mu   sync.Mutex
	own  map[string]*ownChunk // the chunks beyond stored that this process has written or tried to write
	full bool                 // own does not contain all such chunks
}

// ownChunk is a chunk in sharing.own.
type ownChunk struct {
	index  []int64
	failed bool // no write of the chunk has succeeded, so that the next one must vet it
	reused bool // a second write has begun, which does not vet the chunk
}

// maxOwn is the maximum number of chunks of a variable in sharing.own.
const maxOwn = 1 << 16

// note records that this process is going to write a chunk, and reports whether it may have
// written the chunk before.
func (s *sharing) note(index []int64) bool {
	key := sharingKey(index)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.own[key]; c != nil {
		vetted := !c.failed
		c.failed, c.reused = false, c.reused || vetted
		return vetted
	}
	if s.full {
		return true
	}
	if len(s.own) == maxOwn {
		s.full = true
		return false
	}
	if s.own == nil {
		s.own = make(map[string]*ownChunk)
	}
	s.own[key] = &ownChunk{index: slices.Clone(index)}
	return false
}

// noteFailed records that the write of a chunk for which note has returned false has failed.
func (s *sharing) noteFailed(index []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.own[sharingKey(index)]; c != nil && !c.reused {
		c.failed = true
	}
}

func sharingKey(index []int64) string {
	key := make([]byte, 0, 64)
	for _, n := range index {
		for ; n >= 0x80; n >>= 7 {
			key = append(key, byte(n)|0x80)
		}
		key = append(key, byte(n))
	}
	return string(key)
}

// list returns the recorded chunks in C order of the grid. complete is false if there are
// others.
func (s *sharing) list() (indexes [][]int64, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.own {
		indexes = append(indexes, c.index)
	}
	slices.SortFunc(indexes, slices.Compare)
	return indexes, !s.full
}

func (s *sharing) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.full = nil, false
}

// storedShape returns the shape of the array in the store, as far as this process knows.
func (v *Var) storedShape() []int64 {
	v.group.ds.mu.RLock()
	defer v.group.ds.mu.RUnlock()
	shape := v.sharing.stored
	if shape == nil {
		shape = v.meta.Shape
	}
	return slices.Clone(shape[:len(v.dims)])
}

// unpublishedBounds returns the lengths beyond which other writers may have written elements that
// are not part of the dataset. It returns nil if no such elements can exist.
func (v *Var) unpublishedBounds() []int64 {
	if v.defined && !v.fresh.put.Load() || v.group.ds.exclusive() {
		return nil
	}
	bounds, unlimited := v.storedShape(), false
	for i, dim := range v.dims {
		if !dim.unlimited {
			bounds[i] = math.MaxInt64
		}
		unlimited = unlimited || dim.unlimited
	}
	if !unlimited {
		return nil
	}
	return bounds
}

// vet determines which elements of chunks that were just read belong to nobody: those beyond the
// bounds that it returns. It returns nil if all elements must be kept.
func (v *Var) vet(ctx context.Context) ([]int64, error) {
	ds := v.group.ds
	if ds.m.Capabilities().Durable == driver.OnFlush { // no other process can write
		return v.unpublishedBounds(), nil
	}
	if !ds.putsMarks() {
		ds.log.Warn("a chunk contains elements beyond the shape that another writer may have written; they are kept and become visible when the dimension grows", "path", v.Path())
		return nil, nil
	}
	own := ""
	if mark := ds.growth.marked.Load(); mark != nil {
		own = mark.key
	}
	marks, err := ds.foreignMarks(ctx, own)
	if err != nil {
		return nil, err
	}
	for i := range marks {
		if m := &marks[i]; m.State != WriterDied {
			ds.log.Warn("a chunk contains elements beyond the shape that another writer may have written; they are kept and become visible when the dimension grows", "path", v.Path(), "writer", m.Owner(), "age", m.age(), "state", m.State.String())
			return nil, nil
		}
	}
	key := v.key() + ds.layout.ArrayDoc()
	text, _, err := ds.m.ReadAll(ctx, key, ds.opts.Limits.MaxMetadata)
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		return nil, nil
	}
	var bounds []int64
	if err == nil {
		bounds, err = zarr.ShapeOf(text)
	}
	if err != nil {
		return nil, ncerr.Wrap("read", zmap.Path(key), err)
	}
	if len(bounds) != len(v.dims) {
		return nil, ncerr.Errorf(ncerr.ErrConflict, "write", zmap.Path(key), "another process has replaced the array: reopen the dataset")
	}
	for i, dim := range v.dims {
		if !dim.unlimited {
			bounds[i] = math.MaxInt64
		}
	}
	return bounds, nil
}

// warnCleared warns that elements beyond the shape were replaced with the fill value.
func (v *Var) warnCleared() {
	v.group.ds.log.Warn("a chunk contained elements beyond the shape that no running writer has written; they are replaced with the fill value", "path", v.Path())
}

// clearUnacknowledged clears the elements beyond the shape in the store in all chunks of v, as
// far as no running writer may have written them.
func (v *Var) clearUnacknowledged(ctx context.Context) error {
	target, err := manifest.AsWriter(v.source())
	if err != nil {
		return nil // the chunks of v are never written
	}
	var indexes [][]int64
	for ch, err := range target.Chunks(ctx, v.grid()) {
		if ncerr.KindOf(err) == ncerr.ErrMetadata {
			break // its chunks use the other separator, so this library did not write them
		}
		if err != nil {
			return err
		}
		indexes = append(indexes, ch.Index)
	}
	_, err = v.clearChunks(ctx, indexes)
	return err
}

// clearChunks clears the elements beyond the shape in the store in the given chunks. all is
// false if another writer may have written some of them, which are then kept.
func (v *Var) clearChunks(ctx context.Context, indexes [][]int64) (all bool, err error) {
	bounds, grid := v.unpublishedBounds(), v.meta.ChunkGrid()
	if bounds == nil {
		return true, nil
	}
	a, err := v.beginWrite(ctx)
	if err != nil {
		return false, err
	}
	all = true
	for _, index := range indexes {
		beyond := false
		for i, n := range index {
			if n > maxDim/v.meta.Chunks[i] { // no array is that large
				beyond = false
				break
			}
			start, length := grid.Chunk(i, n)
			beyond = beyond || start+length > bounds[i]
		}
		if !beyond {
			continue
		}
		cleared, err := a.ClearUnacknowledged(ctx, index)
		if err != nil {
			return false, err
		}
		all = all && cleared
	}
	return all, nil
}

// clearOwn clears the chunks beyond the shapes in the store that this process has
// written. It uses the dataset in, which is d or another handle of the same dataset. done is
// false if another writer may have written to these chunks, which are then kept.
func (d *Dataset) clearOwn(ctx context.Context, in *Dataset) (done bool, err error) {
	done = true
	for _, v := range d.extensible(false) {
		indexes, complete := v.sharing.list()
		if len(indexes) == 0 {
			continue
		}
		at, ferr := in.top.Var(v.Path())
		if ferr != nil { // a new variable, whose objects dropNew removes
			continue
		}
		all, err := at.clearChunks(ctx, indexes)
		if err != nil {
			return false, err
		}
		done = done && all && complete
	}
	if !done {
		d.log.Warn("chunks beyond the shapes that were not flushed remain, because other writers may have written to them", "path", cmp.Or(d.root.Path(), "/"))
	}
	return done, nil
}
