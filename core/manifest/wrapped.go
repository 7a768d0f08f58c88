package manifest

import (
	"context"
	"encoding/binary"
	"iter"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// MaxWrapped is the maximum number of bytes of decoded shards that a Wrapped keeps, except
// that it always keeps the shard that it decoded last.
const MaxWrapped = 64 << 20

// Wrapped is the Source of shards to which codecs were applied as a whole. Another Source
// locates the encoded shards. Locate reads and decodes a shard and returns its content. Each
// call handles one shard at a time, so that its caller must have memory for one encoded and
// one decoded shard. Wrapped keeps decoded shards until Forget is called. The Shards above
// it do not request a shard twice at the same time. Wrapped is not a Writer.
type Wrapped struct {
	source Source
	decode func(ctx context.Context, data []byte) ([]byte, error)
	limit  int64

	mu         sync.Mutex
	kept       map[string]Location
	size       int64 // bytes of the shards in kept
	generation int   // counts calls to Forget: a shard requested before such a call is not kept
}

// NewWrapped returns the Source of the decoded shards. source locates the encoded shards.
// decode decodes a shard, which has at most limit bytes. The caller owns the result.
func NewWrapped(source Source, limit int64, decode func(ctx context.Context, data []byte) ([]byte, error)) *Wrapped {
	return &Wrapped{source: source, decode: decode, limit: limit, kept: make(map[string]Location)}
}

// Locate implements Source. The error is ncerr.ErrCorrupt for a shard that cannot be
// decoded or is too large, or an error of the store or the codecs.
func (w *Wrapped) Locate(ctx context.Context, indexes [][]int64, out []Location) error {
	var name []byte
	for i, index := range indexes {
		name = name[:0]
		for _, n := range index {
			name = binary.LittleEndian.AppendUint64(name, uint64(n))
		}
		if err := w.locate(ctx, index, string(name), &out[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *Wrapped) locate(ctx context.Context, index []int64, name string, out *Location) error {
	w.mu.Lock()
	found, ok := w.kept[name]
	generation := w.generation
	w.mu.Unlock()
	if ok {
		*out = found
		return nil
	}
	at := make([]Location, 1)
	err := w.source.Locate(ctx, [][]int64{index}, at)
	if err == nil {
		err = w.read(ctx, &at[0])
	}
	if *out = at[0]; err != nil || out.Absent {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != generation {
		return nil
	}
	n := int64(len(out.Inline)) - int64(len(w.kept[name].Inline))
	if w.size+n > MaxWrapped {
		clear(w.kept)
		w.size, n = 0, int64(len(out.Inline))
	}
	w.kept[name], w.size = *out, w.size+n
	return nil
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
	whole, err := w.decode(ctx, data)
	if err != nil {
		if !ncerr.IsContext(err) {
			err = ncerr.New(ncerr.KindOf(err), "", zmap.Path(at.Key), err)
		}
		return err
	}
	if whole == nil {
		whole = []byte{}
	}
	at.Inline, at.Range = whole, nil
	return nil
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
