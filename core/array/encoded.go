package array

import (
	"context"
	"runtime"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Encoded is a chunk in its stored form.
type Encoded struct {
	Index []int64 // position in the grid
	// Data is the stored chunk, or nil if the chunk does not exist. The next ReadEncoded
	// may reuse its memory.
	Data []byte
	// FilterMask has bit i set if codec i of the chain was not applied to the chunk.
	FilterMask uint32
	// Deferred is set by ReadEncoded, and Data is nil, if the elements vary in size and the
	// chunk needs more than the given room or does not decode in it. The caller must copy
	// the values.
	Deferred bool

	buf []byte
}

// EncodedBatches returns the number of stored chunks in a batch and the number of
// batches to process concurrently when chunks are copied between two arrays. All batches
// together hold at most memory bytes, or one chunk if that is larger. Both arrays must
// have the same chunk shape and codecs. If to has shards, a batch consists of the chunks of
// one shard, and chunks is 0 if these exceed memory. Otherwise, if shards of from are decoded
// as a whole, a batch consists of the chunks of one of them. Each worker also holds all decoded
// shards of its batch; chunks is 0 if these are several and exceed memory. room is for
// ReadEncoded.
func EncodedBatches(from, to *Array, memory int64) (chunks, workers, room int64) {
	stored, size := maxStored(from.pipe, 0), from.size
	if from.isVariableLength() {
		size = chunk.Product(from.meta.Grid.Largest()) * AssumedElementSize
		stored = size
	}
	chunks = max(1, min(from.batch(size), (memory/2-size)/stored))
	whole, held := manifest.Whole(from.source), int64(0) // bytes of decoded shards
	if whole.Rank() > 0 && from.isVariableLength() {
		held = from.variedNeed(true)
	} else if whole.Rank() > 0 {
		held = from.need(false, whole).unit
	}
	if w, err := manifest.AsWriter(to.source); err == nil && w.Units().Rank() > 0 {
		several := 1.0
		if held > 0 {
			several = overlapped(w.Units(), whole)
		}
		// held is for two shards: an encoded and a decoded one
		chunks, held = chunk.Product(w.Units().Largest()), saturate(float64(held)*(several+1)/2)
		need := times(chunks, stored) + float64(size)
		if several > 1 {
			need += float64(held)
		}
		if need > float64(memory) {
			return 0, 0, 0
		}
	} else if held > 0 {
		chunks = chunk.Product(whole.Largest())
	}
	for _, a := range []*Array{from, to} {
		n := a.env.Concurrency(stored)
		if (a.env.BatchGets || !a.pipe.Local()) && a.env.Workers <= 0 {
			n = max(n, processWorkers*runtime.GOMAXPROCS(0))
		}
		workers = max(workers, int64(n))
	}
	each := saturate(times(chunks, stored) + float64(size) + float64(held))
	workers = max(1, min(workers, memory/each))
	return chunks, workers, max(1, memory/workers/chunks/variedCopies)
}

// overlapped returns the maximum number of shards of the grid shards that a unit of the grid
// units overlaps.
func overlapped(units, shards chunk.Grid) float64 {
	all := 1.0
	for d, n := range units.Largest() {
		m := shards.Largest()[d]
		if !units.Regular() || !shards.Regular() {
			all *= float64(n) // each shard has at least one chunk
			continue
		}
		all *= float64((m-chunk.GCD(m, n)+n-1)/m + 1) // the distances between starts are multiples of the divisor
	}
	return all
}

// maxStored returns the maximum size in bytes of a stored chunk.
func maxStored(pipe *codec.Pipeline, mask uint32) int64 { return max(1, pipe.MaxInput(mask)) }

// maxStoredAt returns the maximum size in bytes of the stored chunk at a position in the
// grid.
func (a *Array) maxStoredAt(ctx context.Context, index []int64, mask uint32) (int64, error) {
	if a.meta.Grid.Regular() {
		return maxStored(a.pipe, mask), nil
	}
	s, err := a.useAt(ctx, index)
	if err != nil {
		return 0, err
	}
	defer a.pipes.release(s)
	return maxStored(s.Pipeline, mask), nil
}

// ReadEncoded reads the stored chunk at the Index of each element of chunks and sets the
// other fields. If verify is set, it also decodes each chunk to check it. If the elements
// vary in size, room is the maximum size in bytes of a chunk, stored or decoded. absent reports
// whether any chunk is missing. Errors and retries are the same as for [Array.Read].
// ReadEncoded first stores all chunks of the array that are in Env.Buffer.
func (a *Array) ReadEncoded(ctx context.Context, chunks []Encoded, verify bool, room int64) (absent bool, err error) {
	if err := a.StoreBuffered(ctx); err != nil {
		return false, err
	}
	err = a.retry(func() error {
		r := &encodedRead{a: a, room: room, chunks: chunks, where: make([]manifest.Location, len(chunks)), most: make([]int64, len(chunks))}
		err := r.read(ctx)
		if err == nil && verify {
			err = r.verify(ctx)
		}
		absent = r.absent
		return err
	})
	return absent, err
}

// encodedRead is the state of one call to ReadEncoded.
type encodedRead struct {
	a      *Array
	room   int64
	chunks []Encoded
	where  []manifest.Location
	most   []int64 // maximum sizes of the stored chunks
	item   []int   // chunk of each request or job
	absent bool
	err    error
}

func (r *encodedRead) fail(i int, err error) {
	if r.err == nil {
		r.err = chunkError("read", r.where[i].Key, err)
	}
}

func (r *encodedRead) read(ctx context.Context) error {
	indexes := make([][]int64, len(r.chunks))
	for i := range r.chunks {
		indexes[i] = r.chunks[i].Index
	}
	if err := r.a.source.Locate(ctx, indexes, r.where); err != nil {
		return err
	}
	var reqs []zmap.GetRequest
	for i := range r.chunks {
		ch, at := &r.chunks[i], &r.where[i]
		var err error
		if r.most[i], err = r.a.maxStoredAt(ctx, ch.Index, at.FilterMask); err != nil {
			return err
		}
		if r.a.isVariableLength() {
			r.most[i] = min(r.most[i], r.room)
		}
		ch.Data, ch.FilterMask, ch.Deferred = at.Inline, at.FilterMask, false
		switch {
		case at.Absent:
			r.absent = r.absent || at.Key != ""
		case at.Inline == nil:
			reqs = append(reqs, zmap.GetRequest{Key: at.Key, Alloc: r.alloc(i), Opts: driver.GetOptions{Range: at.Range, IfMatch: at.Version, Limit: r.most[i]}})
			r.item = append(r.item, i)
		}
	}
	for base := 0; base < len(reqs); {
		m, n := r.where[r.item[base]].Map, 1
		for base+n < len(reqs) && r.where[r.item[base+n]].Map == m {
			n++
		}
		got := func(k int, data []byte, _ zmap.Info, err error) { r.handleResult(r.item[base+k], data, err) }
		if err := r.a.get(ctx, m, reqs[base:base+n], got, &r.err); err != nil {
			return err
		}
		base += n
	}
	for i := range r.chunks {
		switch data := r.chunks[i].Data; {
		case data == nil:
		case int64(len(data)) > r.most[i] && r.a.isVariableLength():
			r.postpone(i)
		case int64(len(data)) > r.most[i]:
			r.fail(i, tooLong(r.most[i]))
		case r.a.pipe.Empty() && int64(len(data)) != r.a.sizeAt(r.chunks[i].Index):
			r.fail(i, wrongSize(len(data), r.a.sizeAt(r.chunks[i].Index)))
		default:
			r.a.source.Found()
		}
	}
	if r.err != nil || r.a.source.SeparatorKnown() {
		return r.err
	}
	return r.a.source.CheckMissing(ctx, indexes[:min(len(indexes), manifest.MissingMax)], r.a.env.Grid())
}

// alloc returns the allocator for chunk i.
func (r *encodedRead) alloc(i int) driver.Alloc {
	return func(n int64) ([]byte, error) {
		switch {
		case n <= r.most[i]:
		case r.a.isVariableLength():
			return nil, ncerr.ErrLimit
		default: // requests with a range have no other limit
			return nil, tooLong(r.most[i])
		}
		ch := &r.chunks[i]
		ch.buf = resizeEncoded(ch.buf, n, r.most[i])
		return ch.buf, nil
	}
}

// handleResult handles the result of the request for chunk i.
func (r *encodedRead) handleResult(i int, data []byte, err error) {
	at := &r.where[i]
	switch {
	case err == nil && data == nil:
		r.chunks[i].Data = []byte{}
	case err == nil:
		r.chunks[i].Data = data
	case ncerr.KindOf(err) == ncerr.ErrNotFound && !at.Required:
		r.absent = true
	case ncerr.KindOf(err) == ncerr.ErrLimit && r.a.isVariableLength():
		r.postpone(i)
	default:
		r.fail(i, readError(at, r.most[i], err))
	}
}

// postpone leaves chunk i to the caller.
func (r *encodedRead) postpone(i int) { r.chunks[i].Data, r.chunks[i].Deferred = nil, true }

// checkText checks a decoded chunk of elements of variable length.
func (r *encodedRead) checkText(i int, out []byte) error {
	n := int64(1)
	for d, k := range r.chunks[i].Index {
		_, length := r.a.meta.Grid.Chunk(d, k)
		n *= length
	}
	values, err := codecdriver.ParseValues(out, int(n))
	for k := 0; err == nil && r.a.meta.DType.Kind == dtype.String && k < int(n); k++ {
		if !utf8.Valid(values.At(k)) {
			err = ncerr.ErrCorrupt
		}
	}
	return err
}

// verify decodes the chunks and checks the sizes of the results.
func (r *encodedRead) verify(ctx context.Context) error {
	pipe, size, mixed := r.a.pipe, r.a.size, !r.a.meta.Grid.Regular()
	if pipe.Empty() {
		return nil
	}
	varies := r.a.isVariableLength()
	var jobs []codecdriver.Job
	r.item = r.item[:0]
	for i := range r.chunks {
		if ch := &r.chunks[i]; ch.Data != nil {
			limit := r.room
			if !varies {
				limit = r.a.sizeAt(ch.Index)
			}
			jobs = append(jobs, codecdriver.Job{Src: ch.Data, Limit: limit, Skip: ch.FilterMask, Shared: !pipe.Local()})
			r.item = append(r.item, i)
		}
	}
	step := len(jobs)
	if pipe.Local() || mixed { // if local, other workers decode in parallel
		step = 1
	}
	for base := 0; base < len(jobs) && r.err == nil; base += step {
		var used *shapePipe
		if mixed {
			var err error
			if used, err = r.a.useAt(ctx, r.chunks[r.item[base]].Index); err != nil {
				return err
			}
			pipe, size = used.Pipeline, jobs[base].Limit
		}
		err := pipe.DecodeMany(ctx, jobs[base:base+step], func(k int, out []byte, err error) {
			i := r.item[base+k]
			if varies {
				if err != nil && ncerr.IsContext(err) {
					r.fail(i, err)
				} else if err != nil || r.checkText(i, out) != nil { // a read returns a better error, or succeeds with more memory
					r.postpone(i)
				}
				return
			}
			switch {
			case err != nil:
				r.fail(i, decodeError(err))
			case int64(len(out)) != size:
				r.fail(i, wrongSize(len(out), size))
			}
		})
		if used != nil {
			r.a.pipes.release(used)
		}
		if err != nil {
			return err
		}
	}
	return r.err
}

// WriteEncoded stores each chunk whose Data is not nil, without decoding it. The chunks
// must have been encoded with the codecs of the array and with a FilterMask of 0. They
// replace whole chunks. In a shard that gets one of the chunks, those whose Data is nil, and
// that are not Deferred, become absent. Errors are the same as for [Array.Write].
func (a *Array) WriteEncoded(ctx context.Context, chunks []Encoded) error {
	target, err := manifest.AsWriter(a.source)
	if err != nil {
		return err
	}
	var changes []manifest.Change
	stored := 0
	for i := range chunks {
		switch {
		case chunks[i].Data != nil:
			stored++
		case chunks[i].Deferred || target.Units().Rank() == 0:
			continue
		}
		changes = append(changes, manifest.Change{Index: chunks[i].Index, Tag: i})
	}
	if stored == 0 {
		return nil
	}
	if err := a.StoreBuffered(ctx); err != nil {
		return err
	}
	a.env.Cache.beginWrite(&a.cached)
	defer a.env.Cache.endWrite(&a.cached)
	e := &encodedWrite{a: a, chunks: chunks}
	err = target.Update(ctx, changes, e)
	if err != nil {
		for _, index := range e.vet {
			a.env.OwnFailed(index)
		}
	}
	return err
}

// encodedWrite is the manifest.Editor of one call to WriteEncoded.
type encodedWrite struct {
	a      *Array
	chunks []Encoded
	vet    [][]int64 // the chunks to vet if another write changes them after this one has failed
}

// Plan implements manifest.Editor. Every chunk is replaced as a whole.
func (e *encodedWrite) Plan(changes []manifest.Change) (grid, known []int64, batch int) {
	stored := e.a.env.stored()
	for i := range changes {
		if e.a.noteOwn(changes[i].Index, stored) {
			e.vet = append(e.vet, changes[i].Index)
		}
	}
	grid = e.a.env.Grid()
	return grid, grid, 0
}

// Edit implements manifest.Editor.
func (e *encodedWrite) Edit(ctx context.Context, changes []*manifest.Change) error {
	for _, ch := range changes {
		c := &e.chunks[ch.Tag]
		if ch.Delete = c.Data == nil; ch.Delete {
			continue
		}
		most, err := e.a.maxStoredAt(ctx, ch.Index, 0)
		switch {
		case err != nil:
			return err
		case c.FilterMask != 0:
			return chunkError("write", ch.Key, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the chunk has filter mask %#x, which the array cannot store", c.FilterMask))
		case int64(len(c.Data)) > most:
			return chunkError("write", ch.Key, tooLong(most))
		}
		ch.New = c.Data
	}
	return e.a.env.check(ctx)
}
