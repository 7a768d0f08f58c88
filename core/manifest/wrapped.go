package manifest

import (
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// MaxWrapped is the maximum number of bytes of decoded shards that a Wrapped keeps, except
// that it always keeps the shard that it decoded last.
const MaxWrapped = 64 << 20

// maxWrappedBatch is the maximum number of shards that a Wrapped reads and decodes together.
const maxWrappedBatch = 64

// Wrapped is the Source of shards to which codecs were applied as a whole. Another Source
// locates the encoded shards. Locate reads and decodes shards and returns their content. It
// reads and decodes small shards together and large ones one at a time, and keeps decoded
// shards until Forget is called. Wrapped is not a Writer.
type Wrapped struct {
	source Source
	decode DecodeShards
	limit  int64
	size   int64
	one    *semaphore.Weighted // held while shards are read and decoded

	mu         sync.Mutex
	kept       map[string]Location
	total      int64 // bytes of the shards in kept
	generation int   // counts calls to Forget: a shard requested before such a call is not kept
}

// DecodeShards decodes shards and calls sink once for each, from one goroutine at a time.
// A shard of more than limit bytes is an error of that shard; 0 means the limit of the
// codecs. The caller of DecodeShards owns the results. An error of the call means that
// other shards were not decoded.
type DecodeShards func(ctx context.Context, shards [][]byte, limit int64, sink func(i int, whole []byte, err error)) error

// NewWrapped returns the Source of the decoded shards. source locates the encoded shards.
// A shard has at most limit bytes, and about size bytes if its chunks are not compressed; 0
// means that the size is unknown.
func NewWrapped(source Source, limit, size int64, decode DecodeShards) *Wrapped {
	return &Wrapped{source: source, decode: decode, limit: limit, size: size, one: semaphore.NewWeighted(1), kept: make(map[string]Location)}
}

// Locate implements Source. The error is ncerr.ErrCorrupt for a shard that cannot be
// decoded or is too large, or an error of the store or the codecs.
func (w *Wrapped) Locate(ctx context.Context, indexes [][]int64, out []Location) error {
	if err := w.one.Acquire(ctx, 1); err != nil {
		return err
	}
	defer w.one.Release(1)
	for len(indexes) > 0 {
		n, err := w.locate(ctx, indexes, out)
		if err != nil {
			return err
		}
		indexes, out = indexes[n:], out[n:]
	}
	return nil
}

// locate locates the first shards that can be read together and returns their number.
func (w *Wrapped) locate(ctx context.Context, indexes [][]int64, out []Location) (n int, err error) {
	most := int(w.batch())
	w.mu.Lock()
	generation := w.generation
	var names []string // of the shards to read
	var left [][]int64
	first := make(map[string]int) // position of a shard in left
	where := make([]int, 0, len(indexes))
	for _, index := range indexes {
		name := nameOf(index)
		if at, ok := w.kept[name]; ok {
			out[n] = at
			where = append(where, -1)
		} else {
			k, ok := first[name]
			if !ok && len(left) == most {
				break
			} else if !ok {
				k = len(left)
				first[name], left, names = k, append(left, index), append(names, name)
			}
			where = append(where, k)
		}
		n++
	}
	w.mu.Unlock()
	found := make([]Location, len(left))
	if len(left) > 0 {
		if err = w.source.Locate(ctx, left, found); err == nil {
			err = w.readAll(ctx, found)
		}
	}
	for i, k := range where {
		if k >= 0 {
			out[i] = found[k]
		}
	}
	if err == nil {
		w.keep(names, found, generation)
	}
	return n, err
}

// nameOf returns the name of a shard in kept.
func nameOf(index []int64) string {
	var name []byte
	for _, n := range index {
		name = binary.LittleEndian.AppendUint64(name, uint64(n))
	}
	return string(name)
}

// keep keeps decoded shards, unless Forget was called after generation.
func (w *Wrapped) keep(names []string, found []Location, generation int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != generation {
		return
	}
	for k, name := range names {
		if found[k].Absent {
			continue
		}
		n := int64(len(found[k].Inline))
		if w.total+n > MaxWrapped {
			clear(w.kept)
			w.total = 0
		}
		w.kept[name], w.total = found[k], w.total+n
	}
}

// batchLimit returns the maximum number of bytes of a shard, encoded or decoded, that is
// processed together with others.
func (w *Wrapped) batchLimit() int64 { return min(w.limit, 2*min(w.size, w.limit)+4096) }

// batch returns the number of shards that are processed together. They have at most
// MaxWrapped bytes, encoded and decoded.
func (w *Wrapped) batch() int64 {
	if w.size <= 0 {
		return 1
	}
	return max(1, min(maxWrappedBatch, MaxWrapped/(2*w.batchLimit())))
}

// readAll replaces the locations of encoded shards with their decoded content. Shards that
// cannot be processed together, such as damaged ones, are read one by one.
func (w *Wrapped) readAll(ctx context.Context, at []Location) (err error) {
	done := make([]bool, len(at))
	if len(at) > 1 {
		if err := w.readTogether(ctx, at, done); err != nil {
			return err
		}
	}
	for k := range at {
		if !done[k] && err == nil {
			err = w.read(ctx, &at[k])
		}
	}
	return err
}

// readTogether reads and decodes small shards together, and sets done for each.
func (w *Wrapped) readTogether(ctx context.Context, at []Location, done []bool) error {
	limit := w.batchLimit()
	shards, number := make([][]byte, 0, len(at)), make([]int, 0, len(at)) // encoded shards, and their positions in at
	var reqs []zmap.GetRequest
	var asked []int
	for k := range at {
		switch a := &at[k]; {
		case a.Absent:
			done[k] = true
		case a.Inline != nil:
			shards, number = append(shards, a.Inline), append(number, k)
		case len(asked) == 0 || a.Map == at[asked[0]].Map:
			asked = append(asked, k)
			reqs = append(reqs, zmap.GetRequest{
				Key: a.Key, Alloc: func(n int64) ([]byte, error) {
					if n > limit {
						return nil, w.oversized()
					}
					return make([]byte, n), nil
				},
				Opts: driver.GetOptions{Range: a.Range, IfMatch: a.Version, Limit: limit},
			})
		}
	}
	if len(reqs) > 0 {
		err := at[asked[0]].Map.GetMany(ctx, reqs, func(i int, data []byte, info zmap.Info, err error) {
			k := asked[i]
			switch a := &at[k]; {
			case err == nil:
				a.Version = cmp.Or(a.Version, info.Version)
				shards, number = append(shards, data), append(number, k)
			case ncerr.KindOf(err) == ncerr.ErrNotFound && !a.Required:
				*a, done[k] = Location{Key: a.Key, Absent: true}, true
			}
		})
		if err != nil {
			return err
		}
	}
	if len(shards) == 0 {
		return nil
	}
	return w.decode(ctx, shards, limit, func(i int, whole []byte, err error) {
		if k := number[i]; err == nil {
			at[k].setDecoded(whole)
			done[k] = true
		}
	})
}

// setDecoded sets the decoded content of a shard.
func (at *Location) setDecoded(whole []byte) {
	if whole == nil {
		whole = []byte{}
	}
	at.Inline, at.Range = whole, nil
}

// read replaces the location of an encoded shard with its decoded content.
func (w *Wrapped) read(ctx context.Context, at *Location) error {
	if at.Absent {
		return nil
	}
	data := at.Inline
	if data == nil {
		var info zmap.Info
		var err error
		opts := driver.GetOptions{Range: at.Range, IfMatch: at.Version, Limit: w.limit}
		data, info, err = at.Map.Get(ctx, at.Key, &opts, func(n int64) ([]byte, error) {
			if n > w.limit {
				return nil, w.oversized()
			}
			return make([]byte, n), nil
		})
		switch kind := ncerr.KindOf(err); {
		case kind == ncerr.ErrNotFound && !at.Required:
			*at = Location{Key: at.Key, Absent: true}
			return nil
		case kind == ncerr.ErrNotFound:
			return ncerr.New(ncerr.ErrNoObject, "", zmap.Path(at.Key), err)
		case kind == ncerr.ErrRange:
			return ncerr.New(ncerr.ErrCorrupt, "", zmap.Path(at.Key), err)
		case kind == ncerr.ErrLimit:
			return ncerr.New(ncerr.ErrCorrupt, "", zmap.Path(at.Key), w.oversized())
		case err != nil:
			return err
		}
		if at.Version == "" {
			at.Version = info.Version
		}
	}
	var err error
	failed := w.decode(ctx, [][]byte{data}, 0, func(_ int, whole []byte, e error) {
		if err = e; e == nil {
			at.setDecoded(whole)
		}
	})
	if err = cmp.Or(failed, err); err != nil && !ncerr.IsContext(err) {
		err = ncerr.New(ncerr.KindOf(err), "", zmap.Path(at.Key), err)
	}
	return err
}

func (w *Wrapped) oversized() error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the encoded shard exceeds the limit of %d bytes", w.limit)
}

// Chunks implements Source. It lists the encoded shards.
func (w *Wrapped) Chunks(ctx context.Context, grid []int64) iter.Seq2[Chunk, error] {
	return w.source.Chunks(ctx, grid)
}

// Found implements Source.
func (w *Wrapped) Found() { w.source.Found() }

// SeparatorKnown implements Source.
func (w *Wrapped) SeparatorKnown() bool { return w.source.SeparatorKnown() }

// CheckMissing implements Source.
func (w *Wrapped) CheckMissing(ctx context.Context, indexes [][]int64, grid []int64) error {
	return w.source.CheckMissing(ctx, indexes, grid)
}

// Forget implements Source. It drops all shards, because nothing else would detect that a
// shard has changed.
func (w *Wrapped) Forget(all bool) {
	w.source.Forget(all)
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.kept)
	w.size = 0
	w.generation++
}
