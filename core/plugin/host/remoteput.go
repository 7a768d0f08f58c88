package host

import (
	"context"
	"errors"
	"io"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Put implements driver.Map with a PutMany of one put.
func (m *remoteMap) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (info driver.Info, err error) {
	var own error
	err = m.PutMany(ctx, []driver.PutRequest{{Key: key, Body: body, Opts: *opts}}, func(_ int, i driver.Info, e error) { info, own = i, e })
	if err == nil {
		err = own
	}
	return info, err
}

// PutMany implements driver.PutManyer. If the process dies, PutMany repeats an
// unconditional put once. It does not repeat a conditional put, because the first
// attempt may have succeeded. After the first death each message contains one put, so
// that a put that kills each process does not affect the other puts.
func (m *remoteMap) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	x := &writing{m: m, sink: sink, all: make([]write, len(reqs))}
	for i := range reqs {
		w := &x.all[i]
		w.PutRequest = &reqs[i]
		if n := w.cost(); n > handshake.MaxPart {
			w.done = true
			sink(i, driver.Info{}, ncerr.Errorf(ncerr.ErrLimit, "put", "", "the key and the version need %d bytes in a message to the plugin; the limit is %d", n, handshake.MaxPart))
		}
	}
	for attempt := 0; ; attempt++ {
		sent := x.sent
		s, err := m.session(ctx)
		if err == nil {
			err = x.attempt(ctx, s)
		}
		if err == nil || ncerr.IsContext(err) {
			return err
		}
		_, again := isLost(err)
		again = again && (attempt == 0 || x.sent > sent)
		x.failSent(s, err, again)
		if len(x.open()) == 0 {
			return nil
		}
		if !again {
			return err
		}
		x.single = true
		m.supervisor.log.Info("repeating puts in a new process", "err", err)
	}
}

// writing is one call of PutMany.
type writing struct {
	m      *remoteMap
	sink   driver.PutSink
	all    []write
	sent   int  // number of puts sent in all attempts
	single bool // send one put per message
}

// write is one put of a PutMany.
type write struct {
	*driver.PutRequest
	sent int  // number of attempts in which the put was sent
	done bool // the sink was called
}

// putCost is the largest encoded size of a put without its key, version and body, at
// either level.
const putCost = 128

// cost returns the largest encoded size of the put without its body.
func (w *write) cost() int { return len(w.Key) + len(w.Opts.IfMatch) + putCost }

// head returns the message for the put without its body.
func (w *write) head(s *session) *pb.PutHead {
	return &pb.PutHead{Handle: s.handle, Key: []byte(w.Key), Size: w.Body.Size(), IfAbsent: w.Opts.IfAbsent, IfMatch: []byte(w.Opts.IfMatch)}
}

// sending records that the put with index i is about to be sent.
func (x *writing) sending(i int) {
	x.sent++
	if x.all[i].sent++; x.all[i].sent == 1 {
		x.all[i].Start()
	}
}

// open returns the indexes of the puts that are not done.
func (x *writing) open() []int {
	var open []int
	for i := range x.all {
		if !x.all[i].done {
			open = append(open, i)
		}
	}
	return open
}

// finish passes the result of a put sent in the session s to the sink.
func (x *writing) finish(i int, s *session, info driver.Info, err error) {
	w := &x.all[i]
	w.done = true
	if err == nil {
		x.m.supervisor.jobs.Add(1)
		x.m.supervisor.bytes.Add(w.Body.Size())
	}
	x.sink(i, info, x.m.wrote("put", w.Key, s, err))
}

// answered handles the plugin's answer to a put. An error means that the plugin
// violated the protocol.
func (x *writing) answered(i int, s *session, m *pb.Info, failed *pb.ErrorDetail) error {
	if failed != nil {
		x.finish(i, s, driver.Info{}, wire.FromDetail(failed))
		return nil
	}
	info, err := wire.InfoFromWire(m, false)
	if want := x.all[i].Body.Size(); err == nil && info.Size != want {
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "a put of %d bytes created an object of %d bytes", want, info.Size)
	}
	if err == nil {
		x.finish(i, s, info, nil)
	}
	return err
}

// failSent fails the puts that were sent but not answered, after an attempt that failed
// with err. If again is set, it leaves puts that are safe to repeat for the next
// attempt.
func (x *writing) failSent(s *session, err error, again bool) {
	for _, i := range x.open() {
		w := &x.all[i]
		if w.sent == 0 || again && w.sent == 1 && !w.Opts.IfAbsent && w.Opts.IfMatch == "" {
			continue
		}
		own := err
		if lost, _ := isLost(err); !lost && (errors.Is(err, ncerr.ErrPlugin) || errors.Is(err, ncerr.ErrInternal)) {
			own = ncerr.New(ncerr.ErrAmbiguous, "put", w.Key, err) // the error does not concern this put, which may have succeeded
		}
		x.finish(i, s, driver.Info{}, own)
	}
}

// attempt performs the puts that are not done. It uses level 1 for the puts that fit in
// the segment, and level 0 for the other puts. Once a put is sent, attempt waits until
// the plugin has answered or is dead, even if ctx is done. Otherwise a late put could
// overwrite the result of a later call.
func (x *writing) attempt(ctx context.Context, s *session) error {
	if s.p.level > 0 {
		if err := x.shared(ctx, s, x.open()); err != nil {
			return err
		}
	}
	for open := x.open(); len(open) > 0; open = x.open() {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := error(nil)
		if n := x.countFitting(open); s.putsMany && n > 1 && !x.single {
			err = x.inlineMany(ctx, s, open[:n])
		} else {
			err = x.inlineOne(ctx, s, open[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// countFitting returns how many of the puts with the given indexes, from the first on,
// fit in one message.
func (x *writing) countFitting(indexes []int) int {
	size := int64(0)
	for n, i := range indexes {
		w := &x.all[i]
		size += w.Body.Size() + int64(w.cost())
		if size > handshake.MaxPart || n == handshake.MaxPuts {
			return n
		}
	}
	return len(indexes)
}

// inlineMany makes one attempt at the puts with the given indexes, which fit in one
// message of level 0.
func (x *writing) inlineMany(ctx context.Context, s *session, indexes []int) error {
	req := &pb.PutManyRequest{Handle: s.handle}
	var items []int
	size := int64(0)
	for _, i := range indexes {
		w := &x.all[i]
		body, err := contentOf(w.Body)
		if err != nil {
			x.finish(i, s, driver.Info{}, ncerr.Wrap("put", w.Key, err))
			continue
		}
		req.Items, items = append(req.Items, &pb.PutItem{Head: w.head(s), Payload: wire.Bytes(body)}), append(items, i)
		size += w.Body.Size()
	}
	if err := ctx.Err(); err != nil || len(items) == 0 {
		return err
	}
	for _, i := range items {
		x.sending(i)
	}
	sent := context.WithoutCancel(ctx)
	w := s.p.watch(sent)
	defer w.end()
	w.expect(len(items), size)
	reply, err := s.p.driver.PutMany(w.ctx, req)
	if err != nil {
		return w.fail(sent, err)
	}
	w.pause() // the sink may be slow
	if len(reply.GetResults()) != len(items) {
		return s.p.killBroken(ncerr.Errorf(ncerr.ErrPlugin, "", "", "received %d results for %d puts", len(reply.GetResults()), len(items)))
	}
	for k, r := range reply.GetResults() {
		if err := x.answered(items[k], s, r.GetInfo(), r.GetError()); err != nil {
			return s.p.killBroken(err)
		}
	}
	return nil
}

// contentOf returns the whole body. It does not copy a body in memory.
func contentOf(body driver.Body) ([]byte, error) {
	if mem, ok := body.(driver.Bytes); ok {
		return mem, nil
	}
	mem := make([]byte, body.Size())
	return mem, fillBody(mem, body)
}

// fillBody copies the whole body to dst.
func fillBody(dst []byte, body driver.Body) error {
	if mem, ok := body.(driver.Bytes); ok {
		copy(dst, mem)
		return nil
	}
	if n, err := body.ReadAt(dst, 0); n < len(dst) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	return nil
}

// inlineOne makes one attempt at a put whose body is sent in parts. It returns an error
// only if the plugin failed or the context is done.
func (x *writing) inlineOne(ctx context.Context, s *session, i int) error {
	x.sending(i)
	m, readErr, err := inlinePut(ctx, s, x.all[i].head(s), x.all[i].Body)
	if readErr != nil {
		x.finish(i, s, driver.Info{}, ncerr.Wrap("put", x.all[i].Key, readErr))
		return nil
	}
	if lost, _ := isLost(err); lost || ncerr.IsContext(err) {
		return err
	}
	if err != nil {
		x.finish(i, s, driver.Info{}, err)
		return nil
	}
	if err := x.answered(i, s, m, nil); err != nil {
		return s.p.killBroken(err)
	}
	return nil
}

// inlinePut sends one put and returns the answer. If reading body fails, it returns the
// error as readErr, and the plugin stores nothing.
func inlinePut(ctx context.Context, s *session, head *pb.PutHead, body driver.Body) (answer *pb.Info, readErr, err error) {
	sent, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	w := s.p.watch(sent)
	defer w.end()
	stop := context.AfterFunc(ctx, abandon)
	stream, err := s.p.driver.Put(w.ctx)
	if err != nil {
		return nil, nil, w.fail(ctx, err)
	}
	readErr = sendBody(w, stream, head, body)
	if !stop() { // the plugin does not store an incomplete body
		return nil, nil, ctx.Err()
	}
	if readErr != nil {
		return nil, readErr, nil
	}
	w.expect(1, body.Size())
	r, err := stream.CloseAndRecv()
	return r.GetInfo(), nil, w.fail(sent, err)
}

// sendBody sends all parts of a put. It returns only errors of reading the body. The
// answer contains the plugin's error.
func sendBody(w *watch, stream pb.Driver_PutClient, head *pb.PutHead, body driver.Body) error {
	inMemory, _ := body.(driver.Bytes)
	var buf []byte
	if inMemory == nil {
		buf = make([]byte, min(body.Size(), handshake.MaxPart))
	}
	for off := int64(0); head != nil || off < body.Size(); {
		w.pause() // reading the body may be slow
		n := min(body.Size()-off, handshake.MaxPart)
		part := buf[:min(n, int64(len(buf)))]
		if inMemory != nil {
			part = inMemory[off : off+n]
		} else if k, err := body.ReadAt(part, off); int64(k) < n {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		w.progress()
		if err := stream.Send(&pb.PutRequest{Head: head, Payload: wire.Bytes(part)}); err != nil {
			return nil //nolint:nilerr // the answer contains the error
		}
		head, off = nil, off+n
	}
	return nil
}
