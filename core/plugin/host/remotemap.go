package host

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// remoteMap is a store that is open in a plugin process. If the process dies, the store
// is reopened in a new process unless writes were lost.
type remoteMap struct {
	supervisor *supervisor
	driver     string
	spec       driver.OpenSpec

	guess atomic.Int64 // size of the largest object read so far; see expect

	opening gate // locked while the store is reopened

	mu      sync.Mutex
	opened  bool
	caps    driver.Capabilities
	sess    *session
	written int64 // number of writes that become durable only with a Flush
	flushed int64 // number of these writes that were flushed
	failed  error // set when the store has failed permanently
}

// session is the handle of a store or pipeline in one process.
type session struct {
	p      *proc
	handle uint64
	// For a store, lends reports whether the plugin may lend open files, and putsMany
	// whether the plugin accepts several puts in one message.
	lends, putsMany bool
}

var (
	_ driver.Map       = (*remoteMap)(nil)
	_ driver.GetManyer = (*remoteMap)(nil)
	_ driver.PutManyer = (*remoteMap)(nil)
)

// Capabilities implements driver.Map.
func (m *remoteMap) Capabilities() driver.Capabilities { return m.caps }

// session returns the session in a running process. It reopens the store if its process
// has died.
func (m *remoteMap) session(ctx context.Context) (*session, error) {
	if s, err := m.current(); s != nil || err != nil {
		return s, err
	}
	if err := m.opening.enter(ctx); err != nil {
		return nil, err
	}
	defer m.opening.leave()
	if s, err := m.current(); s != nil || err != nil {
		return s, err
	}
	mode := m.spec.Mode
	if mode.Writable() {
		mode = driver.Update // the store exists already and must not be emptied
	}
	return m.open(ctx, mode)
}

// current returns the session if its process is alive, and nil otherwise. It fails if
// the store has failed permanently.
func (m *remoteMap) current() (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.failed != nil:
		return nil, m.failed
	case m.sess != nil && m.sess.p.alive():
		return m.sess, nil
	case m.sess != nil && m.written > m.flushed:
		m.failed = m.lostWrites(m.sess.p)
		return nil, m.failed
	}
	return nil, nil // no session
}

// lostWrites returns the error of a store whose process died with unflushed writes.
func (m *remoteMap) lostWrites(p *proc) error {
	cause := p.lostProcessError("no longer exists", true)
	return ncerr.New(ncerr.ErrPlugin, "use store", m.spec.Path,
		&lostError{"writes that were not flushed are lost and the store can no longer be used: reopen it and repeat the writes (" + cause.Error() + ")", true})
}

// withSession calls f with a session. If the process dies during the call,
// withSession calls f once more with a session in a new process. f must be safe to
// repeat.
func (m *remoteMap) withSession(ctx context.Context, f func(*session) error) error {
	for attempt := 0; ; attempt++ {
		s, err := m.session(ctx)
		if err == nil {
			err = f(s)
		}
		if _, again := isLost(err); !again || attempt > 0 {
			return err
		}
		m.supervisor.log.Info("repeating a call in a new process", "err", err)
	}
}

// Stat implements driver.Map.
func (m *remoteMap) Stat(ctx context.Context, key string) (info driver.Info, err error) {
	err = m.withSession(ctx, func(s *session) error {
		w := s.p.watch(ctx)
		defer w.end()
		r, err := s.p.driver.Stat(w.ctx, &pb.StatRequest{Handle: s.handle, Key: []byte(key)})
		if err := w.fail(ctx, err); err != nil {
			return err
		}
		if info, err = wire.InfoFromWire(r.GetInfo(), false); err != nil {
			return s.p.killBroken(err)
		}
		return nil
	})
	return info, err
}

// Delete implements driver.Map. Once the request is sent, Delete waits for the answer
// even if ctx is canceled.
func (m *remoteMap) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	var used *session
	err := m.withSession(ctx, func(s *session) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		used = s
		sent := context.WithoutCancel(ctx)
		w := s.p.watch(sent)
		defer w.end()
		_, err := s.p.driver.Delete(w.ctx, &pb.DeleteRequest{Handle: s.handle, Key: []byte(key)})
		return w.fail(sent, err)
	})
	return m.wrote("delete", key, used, err)
}

// wrote records the outcome err of a write made in the session s. If the write
// succeeded, wrote counts it, and returns the error of the store, if any. If the process
// died during the write, the error is ErrAmbiguous.
func (m *remoteMap) wrote(op, key string, s *session, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		if m.caps.Durable == driver.OnFlush {
			m.written++
			if m.sess != s && m.failed == nil { // another call has reopened the store
				m.failed = m.lostWrites(s.p)
			}
		}
		return m.failed
	}
	if lost, _ := isLost(err); lost && m.failed == nil {
		return ncerr.New(ncerr.ErrAmbiguous, op, key, err)
	}
	return err
}

// Flush implements driver.Map.
func (m *remoteMap) Flush(ctx context.Context) error {
	m.mu.Lock()
	upTo := m.written
	dirty := m.written > m.flushed
	m.mu.Unlock()
	call := func(s *session) error {
		w := s.p.watch(ctx).allowWhileAlive()
		defer w.end()
		_, err := s.p.driver.Flush(w.ctx, &pb.FlushRequest{Handle: s.handle})
		return w.fail(ctx, err)
	}
	var err error
	if dirty {
		var s *session
		if s, err = m.session(ctx); err != nil {
			return err
		}
		if err = call(s); err != nil {
			if lost, _ := isLost(err); lost {
				return ncerr.New(ncerr.ErrAmbiguous, "flush", m.spec.Path, err)
			}
		}
	} else {
		err = m.withSession(ctx, call)
	}
	if err == nil {
		m.mu.Lock()
		m.flushed = max(m.flushed, upTo)
		m.mu.Unlock()
	}
	return err
}

// Close implements driver.Map. It closes the store even if ctx is done, because the
// handle would stay open otherwise. It returns nil if the process has died.
func (m *remoteMap) Close(ctx context.Context) error {
	defer m.supervisor.leave()
	if ctx.Err() != nil {
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		ctx = rest
	}
	m.mu.Lock()
	s := m.sess
	m.mu.Unlock()
	if s == nil || !s.p.alive() {
		return nil
	}
	w := s.p.watch(ctx)
	defer w.end()
	_, err := s.p.driver.Close(w.ctx, &pb.CloseRequest{Handle: s.handle})
	err = w.fail(ctx, err)
	if lost, _ := isLost(err); lost {
		return nil
	}
	return err
}

// List implements driver.Map. If the process dies, List resumes the listing once in a
// new process. It resumes an ordered listing after the last entry, and any other
// listing only if it has not yielded an entry.
func (m *remoteMap) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		l := &lister{m: m, prefix: prefix, opts: *opts, yield: yield}
		for attempt := 0; ; attempt++ {
			s, err := m.session(ctx)
			if err == nil {
				err = l.run(ctx, s)
			}
			if err == nil {
				return
			}
			_, again := isLost(err)
			if again && attempt == 0 && (l.count == 0 || m.caps.OrderedList) {
				continue
			}
			yield(driver.Entry{}, err)
			return
		}
	}
}

// lister is the state of one listing.
type lister struct {
	m      *remoteMap
	prefix string
	opts   driver.ListOptions
	yield  func(driver.Entry, error) bool
	count  int // entries yielded
}

// run yields entries until the listing ends or the caller stops it.
func (l *lister) run(ctx context.Context, s *session) error {
	w := s.p.watch(ctx)
	defer w.end()
	stream, err := s.p.driver.List(w.ctx, &pb.ListRequest{
		Handle: s.handle, Prefix: []byte(l.prefix), Recursive: l.opts.Recursive, StartAfter: []byte(l.opts.StartAfter), Info: l.opts.Info,
	})
	for err == nil {
		w.progress()
		var page *pb.ListReply
		if page, err = stream.Recv(); err != nil {
			break
		}
		w.pause() // the caller may be slow
		if err := w.countMessage(len(page.GetEntries()) > 0); err != nil {
			return s.p.killBroken(err)
		}
		for _, msg := range page.GetEntries() {
			e, err := l.check(msg)
			if err != nil {
				return s.p.killBroken(err)
			}
			l.count++
			if !l.yield(e, nil) {
				return nil
			}
			if l.m.caps.OrderedList {
				l.opts.StartAfter = e.Key
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return w.fail(ctx, err)
}

// check checks an entry against the request.
func (l *lister) check(msg *pb.Entry) (driver.Entry, error) {
	e, err := wire.EntryFromWire(msg)
	switch {
	case err != nil:
	case !strings.HasPrefix(e.Key, l.prefix) || e.Key == l.prefix:
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "a listing with the prefix %q contains the key %q", l.prefix, e.Key)
	case l.opts.StartAfter != "" && e.Key <= l.opts.StartAfter:
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "a listing that starts after the key %q contains the key %q", l.opts.StartAfter, e.Key)
	case e.Prefix != strings.HasSuffix(e.Key, "/"):
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "a listing contains the key %q, which must not be sent with prefix=%t", e.Key, e.Prefix)
	}
	return e, err
}
