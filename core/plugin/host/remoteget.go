package host

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// objectRead is the state of one read over all attempts. It ensures that the caller's
// alloc is called only once.
type objectRead struct {
	key   string
	opts  driver.GetOptions
	alloc driver.Alloc // nil: parts may be lent, or the host allocates
	trust int64        // largest announced size for which memory is allocated immediately

	allocated bool   // alloc was called
	dst       []byte // result of alloc
	early     []byte // data received before alloc was called
	lent      []byte // the only part, if alloc is nil
	n         int64  // bytes received
	head      bool   // the head of this attempt was received
	want      int64  // announced size of the data
	info      driver.Info
	done      bool
	skip      bool // the read failed on the host: ignore its further parts
}

// restart discards what an attempt received.
func (l *objectRead) restart() { l.n, l.head, l.lent, l.early = 0, false, nil, nil }

// data returns the received data. Data received before the caller's alloc was called is
// excluded, because callers index the result into alloc's memory.
func (l *objectRead) data() []byte {
	switch {
	case l.lent != nil:
		return l.lent
	case l.allocated:
		return l.dst[:min(l.n, int64(len(l.dst)))]
	case l.alloc == nil:
		return l.early
	}
	return nil
}

// A call immediately allocates memory for announced sizes of up to trusted bytes in
// total. For a larger object it allocates memory when 1/provenShare of the data has
// arrived. A plugin thus cannot make the host allocate much more memory than the plugin
// fills.
const (
	trusted     = 64 << 20
	provenShare = 4
)

// errCaller marks an error of the caller's alloc or of reading a lent file. The error is
// returned unchanged.
type errCaller struct{ error }

// Unwrap returns the marked error.
func (e errCaller) Unwrap() error { return e.error }

// take checks a part and stores it. An error means that the plugin violated the
// protocol, except for an errCaller or ErrConflict.
func (l *objectRead) take(head *pb.GetHead, payload *pb.Payload, last bool) error {
	part, err := wire.Inline(payload, handshake.MaxPart)
	if err != nil {
		return err
	}
	if head != nil {
		if l.head {
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "received a second header for an object")
		}
		if err := l.begin(head, int64(len(part)), last); err != nil {
			return err
		}
	} else if !l.head {
		if len(part) > 0 {
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "received data without a header")
		}
		return nil
	}
	if int64(len(part)) > l.want-l.n {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "received more than the announced %d bytes", l.want)
	}
	if l.lendable(int64(len(part)), last) {
		l.lent, l.n = part, l.want
		return nil
	}
	return l.store(part)
}

// lendable reports whether a part of n bytes is the whole object and may be passed to
// the caller without a copy.
func (l *objectRead) lendable(n int64, last bool) bool {
	return l.alloc == nil && !l.allocated && l.n == 0 && last && n == l.want
}

// store appends a part to the received data.
func (l *objectRead) store(part []byte) error {
	if err := l.reserve(int64(len(part))); err != nil {
		return err
	}
	if l.allocated {
		copy(l.dst[l.n:], part)
	} else {
		l.early = append(l.early, part...)
	}
	l.n += int64(len(part))
	return nil
}

// reserve calls alloc once, before n more bytes are stored. If the announced size
// exceeds trust, it does nothing until enough data has arrived.
func (l *objectRead) reserve(n int64) error {
	if l.allocated || l.want > l.trust && l.n+n < l.want/provenShare {
		return nil
	}
	alloc := l.alloc
	if alloc == nil {
		alloc = driver.Heap
	}
	dst, err := alloc(l.want)
	if err != nil {
		return errCaller{err}
	}
	if int64(len(dst)) != l.want {
		return errCaller{ncerr.Errorf(ncerr.ErrInternal, "get", l.key, "alloc returned %d bytes instead of %d", len(dst), l.want)}
	}
	copy(dst, l.early)
	l.allocated, l.dst, l.early = true, dst, nil
	return nil
}

// begin checks the head of an object, which was received with a part of n bytes. It
// reserves memory unless that part can be lent to the caller.
func (l *objectRead) begin(head *pb.GetHead, n int64, last bool) error {
	info, want, err := wire.HeadFromWire(head, l.opts)
	if err != nil {
		return err
	}
	l.head, l.info, l.want = true, info, want
	if !l.allocated {
		if l.lendable(n, last) {
			return nil
		}
		return l.reserve(n)
	}
	if int64(len(l.dst)) != want { // allocated in an earlier attempt
		return ncerr.Errorf(ncerr.ErrConflict, "get", l.key, "the object changed from %d to %d bytes while it was read", len(l.dst), want)
	}
	return nil
}

// finish checks that the object is complete.
func (l *objectRead) finish() error {
	if !l.head || l.n != l.want {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "received %d bytes, but %d were announced", l.n, l.want)
	}
	l.done = true
	return nil
}

// fault converts an error of take or storeAnswer. It returns the error marked by an
// errCaller, and returns a conflict unchanged. For any other error it kills the plugin,
// which violated the protocol.
func fault(p *proc, err error) error {
	var own errCaller
	switch {
	case errors.As(err, &own):
		return own.error
	case ncerr.KindOf(err) == ncerr.ErrConflict:
		return err
	}
	return p.killBroken(err)
}

// Get implements driver.Map.
func (m *remoteMap) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if alloc == nil {
		alloc = driver.Heap
	}
	all := []objectRead{{key: key, opts: m.bounded(*opts), alloc: alloc, trust: trusted}}
	l := &all[0]
	err := m.withSession(ctx, func(s *session) error {
		l.restart()
		if s.p.level > 0 {
			var end error
			if err := m.sharedGet(ctx, s, all, []int{0}, func(_ int, err error) { end = err }); err != nil || l.done {
				return cmp.Or(err, end)
			}
		}
		return get(ctx, s, l)
	})
	if err == nil {
		m.supervisor.jobs.Add(1)
	}
	m.supervisor.bytes.Add(l.n)
	return l.data(), l.info, err
}

// bounded returns opts with a limit of at most the host's MaxObject.
func (m *remoteMap) bounded(opts driver.GetOptions) driver.GetOptions {
	if ceiling := m.supervisor.host.opts.MaxObject; opts.Limit <= 0 || opts.Limit > ceiling {
		opts.Limit = ceiling
	}
	return opts
}

// get makes one attempt at a read at level 0.
func get(ctx context.Context, s *session, l *objectRead) error {
	w := s.p.watch(ctx)
	defer w.end()
	stream, err := s.p.driver.Get(w.ctx, &pb.GetRequest{Handle: s.handle, Spec: wire.GetToWire(l.key, l.opts)})
	for err == nil {
		w.progress()
		var r *pb.GetReply
		if r, err = stream.Recv(); err != nil {
			break
		}
		w.pause()
		if err := w.countMessage(r.GetHead() != nil || len(r.GetPayload().GetInline()) > 0); err != nil {
			return s.p.killBroken(err)
		}
		if err := l.take(r.GetHead(), r.GetPayload(), false); err != nil {
			return fault(s.p, err)
		}
	}
	if errors.Is(err, io.EOF) {
		if err := l.finish(); err != nil {
			return s.p.killBroken(err)
		}
		return nil
	}
	return w.fail(ctx, err)
}

// GetMany implements driver.GetManyer. If the process dies, GetMany repeats the
// unfinished reads once in a new process.
func (m *remoteMap) GetMany(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
	all := make([]objectRead, len(reqs))
	for i, r := range reqs {
		all[i] = objectRead{key: r.Key, opts: m.bounded(r.Opts), alloc: r.Alloc, trust: trusted / int64(len(reqs))}
	}
	for start := 0; start < len(all); {
		end := batchEnd(all, start)
		err := m.withSession(ctx, func(s *session) error { return m.getBatch(ctx, s, all, start, end, sink) })
		if err != nil {
			return err
		}
		start = end
	}
	return nil
}

// batchEnd returns the end of the batch that begins at start. A batch contains as many
// reads as fit in one message.
func batchEnd(all []objectRead, start int) int {
	size := 0
	for i := start; i < len(all); i++ {
		size += len(all[i].key) + len(all[i].opts.IfMatch) + 64
		if i > start && (size > handshake.MaxPart || i-start == handshake.MaxBatch) {
			return i
		}
	}
	return len(all)
}

// getBatch makes one attempt at the reads of a batch that are not done. It uses level 1
// for the reads that fit in the segments, and level 0 for the other reads.
func (m *remoteMap) getBatch(ctx context.Context, s *session, all []objectRead, start, end int, sink driver.GetSink) error {
	open := notDone(all, start, end)
	if s.p.level > 0 {
		err := m.sharedGet(ctx, s, all, open, func(i int, err error) {
			m.deliver(&all[i], err, func(data []byte, err error) { sink(i, data, all[i].info, err) })
		})
		if err != nil {
			return err
		}
		open = notDone(all, start, end)
	}
	if len(open) == 0 {
		return nil
	}
	return m.inlineBatch(ctx, s, all, open, sink)
}

// notDone resets the reads that are not done and returns their indexes.
func notDone(all []objectRead, start, end int) []int {
	var open []int
	for i := start; i < end; i++ {
		if !all[i].done {
			all[i].restart()
			open = append(open, i)
		}
	}
	return open
}

// inlineBatch makes one attempt at the reads with the given indexes, at level 0.
func (m *remoteMap) inlineBatch(ctx context.Context, s *session, all []objectRead, indexes []int, sink driver.GetSink) error {
	req := &pb.GetManyRequest{Handle: s.handle}
	for _, i := range indexes {
		req.Specs = append(req.Specs, wire.GetToWire(all[i].key, all[i].opts))
	}
	w := s.p.watch(ctx)
	defer w.end()
	stream, err := s.p.driver.GetMany(w.ctx, req)
	left := len(indexes)
	for err == nil {
		w.progress()
		var r *pb.GetManyReply
		if r, err = stream.Recv(); err != nil {
			break
		}
		w.pause() // the sink may be slow
		if err := w.countMessage(slices.ContainsFunc(r.GetItems(), hasContent)); err != nil {
			return s.p.killBroken(err)
		}
		for _, item := range r.GetItems() {
			if n := item.GetIndex(); int64(n) < int64(len(indexes)) && all[indexes[n]].skip {
				all[indexes[n]].skip = !item.GetLast()
				continue
			}
			if int64(item.GetIndex()) >= int64(len(indexes)) || all[indexes[item.GetIndex()]].done {
				return s.p.killBroken(ncerr.Errorf(ncerr.ErrPlugin, "", "", "unexpected result for read %d of %d: the read is complete or was not requested", item.GetIndex(), len(indexes)))
			}
			i := indexes[item.GetIndex()]
			if err := m.item(s.p, &all[i], item, func(data []byte, err error) { sink(i, data, all[i].info, err) }); err != nil {
				return err
			}
			if all[i].done {
				left--
			}
		}
	}
	if errors.Is(err, io.EOF) {
		if left > 0 {
			return s.p.killBroken(ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin sent no result for %d of %d reads", left, len(indexes)))
		}
		return nil
	}
	return w.fail(ctx, err)
}

// hasContent reports whether an item contains a header, data or the end of a read.
func hasContent(i *pb.GetItem) bool {
	return i.GetLast() || i.GetHead() != nil || len(i.GetPayload().GetInline()) > 0
}

// item handles one part of a read and calls sink when the read ends. An error ends the
// whole call.
func (m *remoteMap) item(p *proc, l *objectRead, item *pb.GetItem, sink func([]byte, error)) error {
	if err := l.take(item.GetHead(), item.GetPayload(), item.GetLast()); err != nil {
		if err = fault(p, err); ncerr.KindOf(err) == ncerr.ErrPlugin {
			return err
		}
		l.done, l.skip = true, !item.GetLast() // the caller's alloc failed, or the object changed
		sink(l.data(), err)
		return nil
	}
	if !item.GetLast() {
		return nil
	}
	var err error
	if item.GetError() != nil {
		err, l.done = wire.FromDetail(item.GetError()), true
	} else if e := l.finish(); e != nil {
		return p.killBroken(e)
	}
	m.deliver(l, err, sink)
	return nil
}

// deliver updates the counters and passes the result of a read to sink.
func (m *remoteMap) deliver(l *objectRead, err error, sink func([]byte, error)) {
	if err == nil {
		m.supervisor.jobs.Add(1)
	}
	m.supervisor.bytes.Add(l.n)
	sink(l.data(), err)
}
