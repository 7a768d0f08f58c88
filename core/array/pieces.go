package array

import (
	"context"
	"math"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// maxPieces is the maximum number of requests for one chunk. If a chunk has more parts,
// parts with larger gaps between them are merged too.
const maxPieces = 4096

// pieces describes the parts of a chunk without codecs that are read instead of the
// whole chunk. All parts must have the same object version. If versions differ or are
// unknown, the range that spans the parts is read again in one request. The whole chunk
// is read if the store cannot return parts, or would read the whole object for each of
// several parts.
type pieces struct {
	cut     chunk.Pieces // N is 0 if the whole chunk is read
	gap     int64        // the gap with which cut was computed
	list    []piece      // reused for later batches
	version string
	answers int64
	missing int64 // results that report a missing object
	mixed   bool  // the parts differ in version, or some are missing
	refused bool  // a part is unavailable
}

type piece struct {
	part  driver.Range
	dst   []byte
	alloc driver.Alloc
}

// release clears references to memory of the caller. It also frees a long list.
func (p *pieces) release() {
	if len(p.list) > maxBatch {
		p.list = nil
	}
	for k := range p.list {
		p.list[k].dst = nil
	}
	p.cut = chunk.Pieces{}
}

// cut reports whether to read item i in pieces. If so, it sets the pieces of the item.
func (w *worker) cut(i int) bool {
	it, at := &w.items[i], &w.where[i]
	it.cut = chunk.Pieces{}
	if at.Range != nil || w.t.varies || !w.pipe.Empty() || !at.Map.Capabilities().Ranges {
		return false
	}
	gap := w.t.a.env.MergeGap
	p, ok := w.mover.Pieces(it.proj, gap)
	for ok && p.N > maxPieces {
		gap *= 2
		p, ok = w.mover.Pieces(it.proj, gap)
	}
	if p.N > 1 && w.t.a.noRanges.Load() {
		return false
	}
	if ok && p.N > 1 && w.t.a.unversioned.Load() {
		gap = math.MaxInt64
		p, ok = w.mover.Pieces(it.proj, gap)
	}
	if !ok || p.N*p.Size >= w.size {
		return false
	}
	it.cut, it.gap = p, gap
	return true
}

// requestPieces adds the requests for item i. It must follow cut(i).
func (w *worker) requestPieces(i int) {
	it, at := &w.items[i], &w.where[i]
	n, size := it.cut.N, it.cut.Size
	it.version, it.answers, it.missing, it.mixed, it.refused = "", 0, 0, false, false
	for k := len(it.list); int64(k) < n; k++ {
		it.list = append(it.list, piece{alloc: func(n int64) ([]byte, error) { return w.allocPiece(i, k, n) }})
	}
	if !it.cut.Direct {
		it.inBuf = resize(it.inBuf, n*size)
	}
	for k := range n {
		p := &it.list[k]
		out, in := w.mover.Piece(k)
		if p.dst = w.t.Raw[out:]; !it.cut.Direct {
			p.dst = it.inBuf[k*size:]
		}
		p.dst, p.part = p.dst[:size:size], driver.Range{Offset: in, Length: size}
		req := zmap.GetRequest{Key: at.Key, Alloc: p.alloc}
		req.Opts.Range, req.Opts.IfMatch = &p.part, at.Version
		w.addRequest(req, i)
	}
}

// allocPiece returns the memory for piece k of item i.
func (w *worker) allocPiece(i, k int, n int64) ([]byte, error) {
	dst := w.items[i].list[k].dst
	if n != int64(len(dst)) {
		return nil, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the store returned %d bytes for a part of %d bytes", n, len(dst))
	}
	return dst, nil
}

// handlePiece handles the result of the request for a piece of item i. It returns false
// if the result applies to the whole chunk and the caller must handle it.
func (w *worker) handlePiece(i int, info zmap.Info, err error) bool {
	it := &w.items[i]
	it.answers++
	absent := ncerr.KindOf(err) == ncerr.ErrNotFound
	switch {
	case absent:
		it.missing++
	case ncerr.KindOf(err) == ncerr.ErrUnsupported:
		it.refused = true
		w.t.a.noRanges.Store(true)
	case err != nil:
		return false
	case info.Size != w.size:
		w.failItem(i, "read", ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the chunk has %d bytes, but its shape requires %d", info.Size, w.size))
		return true
	case it.cut.N > 1:
		it.compare(info.Version)
		if info.Version == "" {
			w.t.a.unversioned.Store(true)
		}
		if w.t.a.ranges.Store(true); info.NoRanges {
			w.t.a.noRanges.Store(true)
		}
	}
	switch {
	case it.answers < it.cut.N:
		return true
	case it.missing == it.cut.N:
		return false
	}
	it.mixed = it.mixed || it.refused || it.missing > 0
	if it.have = !it.mixed; it.have {
		if it.in = nil; !it.cut.Direct {
			it.in = it.inBuf[:it.cut.N*it.cut.Size]
		}
	}
	return true
}

// maxProbes is the maximum number of requests for pieces in the first call to a
// high-latency store that has not yet returned a part of an object. For other stores the
// maximum is one.
const maxProbes = 16

// group returns the number of pending requests to send in one call. All of them are for
// the same Map.
func (w *worker) group() int {
	m, most := w.where[w.jobItem[w.base]].Map, len(w.reqs)-w.base
	if w.base == 0 && w.items[w.jobItem[0]].cut.N > 1 && !w.t.a.ranges.Load() {
		most = min(most, maxProbes)
		if m.Capabilities().Latency != driver.Remote {
			most = 1
		}
	}
	n := 1
	for n < most && w.where[w.jobItem[w.base+n]].Map == m {
		n++
	}
	return n
}

// skipPiece skips the next request if it is for one of several pieces and noRanges is
// set. The piece then fails with ErrUnsupported. skipPiece reports whether it skipped
// the request.
func (w *worker) skipPiece() bool {
	i := w.jobItem[w.base]
	if w.items[i].cut.N < 2 || !w.t.a.noRanges.Load() {
		return false
	}
	w.handlePiece(i, zmap.Info{}, ncerr.ErrUnsupported)
	return true
}

// compare records the version of a piece and sets mixed if it differs from earlier
// ones.
func (p *pieces) compare(version string) {
	if p.version == "" {
		p.version = version
	}
	p.mixed = p.mixed || version == "" || version != p.version
}

// getMixed rereads the chunks whose pieces had different versions or were missing, in
// one request each. It reads the range that spans the pieces, or the whole chunk if
// parts are unavailable.
func (w *worker) getMixed(ctx context.Context) error {
	for {
		w.reqs, w.jobItem = w.reqs[:0], w.jobItem[:0]
		for i := range w.n {
			it := &w.items[i]
			switch {
			case it.cut.N == 0 || !it.mixed:
			case it.refused:
				it.cut = chunk.Pieces{}
				w.requestWhole(i)
			default:
				it.gap = math.MaxInt64
				it.cut, _ = w.mover.Pieces(it.proj, it.gap) // cannot fail, because the item was cut before
				w.requestPieces(i)
			}
		}
		if len(w.reqs) == 0 {
			return nil
		}
		if err := w.get(ctx); err != nil {
			return err
		}
	}
}

// placePieces copies the pieces of an item to the slab.
func (w *worker) placePieces(it *item) {
	if !it.cut.Direct { // otherwise the pieces were read into the slab
		w.mover.ScatterPieces(w.t.Raw, it.in, it.proj, it.gap)
	}
}
