package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// The steps of the ladder that ends a process.
const (
	shutdownGrace  = 2 * time.Second
	terminateGrace = time.Second
	killGrace      = 5 * time.Second
)

// child is what a running plugin runs in: a process, or a server in memory.
type child interface {
	pid() int
	ended() <-chan struct{}
	how() string                                // how it ended
	words()                                     // after the end: waits a moment for the last words
	shutdown(context.Context, *grpc.ClientConn) // asks it to end, until the context does
	terminate()
	kill()
	dirProblem() string // what is wrong with its private directory; empty for nothing
	release()           // after the end: gives back what is left
}

// proc is one running, configured plugin.
type proc struct {
	supervisor  *supervisor
	child       child
	conn        *grpc.ClientConn
	log         *slog.Logger
	stderr      *logSink
	desc        *pb.DescribeReply
	started     time.Time
	level       int    // of the data plane
	plane       *plane // shared memory; nil where there is none
	confinement confinement

	ctx          context.Context //nolint:containedctx // ends with the process
	cancel       context.CancelFunc
	wg           sync.WaitGroup // goroutines of the process
	ended        bool           // takes no more goroutines; guarded by mu
	codecStreams *streamPool[pb.Batch, pb.BatchReply]
	storeStreams *streamPool[pb.StoreBatch, pb.StoreBatchReply]

	driver pb.DriverClient
	codec  pb.CodecClient

	broken   atomic.Bool            // hung or out of order: no new calls
	why      atomic.Pointer[string] // it is
	stopping atomic.Bool            // the host ended it
	hard     chan struct{}          // asks for an immediate end
	soft     chan struct{}          // asks for a gentle end
	once     [2]sync.Once
	counted  bool          // its death is; guarded by the slot
	done     chan struct{} // closed when it is gone and its things are given back

	tokens           atomic.Uint64 // last one given to an Open or OpenPipeline
	turns            chan struct{} // one for each message with jobs for filters under way
	execs, execsEver atomic.Int64  // calls at work in filters, and those ever begun

	mu     sync.Mutex
	unused *pb.ClosePipelineRequest // pipelines that nobody uses any more
}

func newProc(s *supervisor, c child, conn *grpc.ClientConn, stderr *logSink) *proc {
	p := &proc{
		supervisor: s, child: c, conn: conn, stderr: stderr, log: s.log, started: time.Now(),
		driver: pb.NewDriverClient(conn), codec: pb.NewCodecClient(conn),
		turns: make(chan struct{}, requestsInFlight()),
		hard:  make(chan struct{}), soft: make(chan struct{}), done: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.codecStreams = &streamPool[pb.Batch, pb.BatchReply]{
		p: p, acceptLate: p.acceptLateResults, cancel: func(ids []uint64) *pb.Batch { return &pb.Batch{Cancel: ids} },
		open: func(ctx context.Context) (grpc.BidiStreamingClient[pb.Batch, pb.BatchReply], error) {
			return p.codec.Exec(ctx)
		},
	}
	p.storeStreams = &streamPool[pb.StoreBatch, pb.StoreBatchReply]{
		p: p, acceptLate: p.acceptLateReplies, cancel: func(ids []uint64) *pb.StoreBatch { return &pb.StoreBatch{Cancel: ids} },
		open: func(ctx context.Context) (grpc.BidiStreamingClient[pb.StoreBatch, pb.StoreBatchReply], error) {
			return p.driver.Transfer(ctx)
		},
	}
	return p
}

func (p *proc) alive() bool {
	select {
	case <-p.child.ended():
		return false
	default:
		return !p.broken.Load() && !p.stopping.Load()
	}
}

// stop asks for the end of the process: at once when hard is set, else with
// the time it needs to close its stores. It does not wait.
func (p *proc) stop(hard bool) {
	p.stopping.Store(true)
	if hard {
		p.once[1].Do(func() { close(p.hard) })
	}
	p.once[0].Do(func() { close(p.soft) })
}

// markBroken refuses new calls and kills the process, because of why.
func (p *proc) markBroken(why string) {
	p.why.CompareAndSwap(nil, &why)
	if p.broken.CompareAndSwap(false, true) {
		p.log.Warn("killing plugin", "reason", why, "pid", p.child.pid())
	}
	p.stop(true)
}

// supervise waits for the end of the process, brings it about when asked, and
// gives back what it had. It is the goroutine that owns the process.
func (p *proc) supervise() {
	defer close(p.done)
	p.awaitEnd()
	p.child.words()
	if p.stopping.Load() && !p.broken.Load() {
		p.log.Debug("plugin stopped", "how", p.child.how())
	} else {
		p.log.Warn("plugin process ended", "how", p.child.how(), "pid", p.child.pid(), "stderr", p.stderr.tail())
	}
	p.supervisor.died(p)
	p.over()
}

// awaitEnd waits for the end of the process, or brings it about when it is asked
// for. Meanwhile it looks now and then at what the process keeps in its private
// directory.
func (p *proc) awaitEnd() {
	tick := time.NewTicker(p.supervisor.host.opts.checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.child.ended():
			return
		case <-p.soft:
			p.ladder()
			return
		case <-tick.C:
			if why := p.child.dirProblem(); why != "" {
				p.markBroken(why)
			}
		}
	}
}

// ladder ends the process: shutdown call and lifeline, SIGTERM, SIGKILL, each
// with its time.
func (p *proc) ladder() {
	if p.waitEnd(0) {
		return
	}
	select {
	case <-p.hard:
	default:
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeout(context.Background(), p.supervisor.host.opts.StopTimeout)
		wg.Go(func() { p.child.shutdown(ctx, p.conn) })
		ended := p.waitEnd(p.supervisor.host.opts.StopTimeout)
		cancel()
		wg.Wait()
		if ended {
			return
		}
		p.child.terminate()
		if p.waitEnd(terminateGrace) {
			return
		}
		p.log.Warn("plugin does not end, killing it", "pid", p.child.pid())
	}
	p.child.kill()
	if !p.waitEnd(killGrace) {
		p.log.Error("plugin cannot be killed", "pid", p.child.pid())
	}
}

// waitEnd reports whether the process ended within d, or before a hard stop.
func (p *proc) waitEnd(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	hard := p.hard
	select {
	case <-p.hard: // it was asked for already: only the time counts
		hard = nil
	default:
	}
	select {
	case <-p.child.ended():
		return true
	case <-hard:
	case <-timer.C:
	}
	select {
	case <-p.child.ended():
		return true
	default:
		return false
	}
}

// errHung is the cause of a context that the watchdog ended.
var errHung = errors.New("no answer")

// watch guards one call: its context ends when the plugin stays silent for
// too long while the host waits for it.
type watch struct {
	ctx    context.Context //nolint:containedctx // that of the call, as long as the watch
	cancel context.CancelCauseFunc
	p      *proc
	timer  *time.Timer
	idle   time.Duration
	hollow int         // messages without content since the last one with some
	slow   atomic.Bool // silence is no fault while the process answers others
}

// maxHollow is the number of messages in a row that may have no content: more
// keep a call alive without an end.
const maxHollow = 1000

// patient lets the call be silent for as long as the process still answers
// other calls: it may take as long as a store is large.
func (w *watch) patient() *watch {
	w.slow.Store(true)
	return w
}

// got counts a message of a stream, and fails when the plugin goes on and on
// without saying anything.
func (w *watch) got(content bool) error {
	w.hollow++
	if content {
		w.hollow = 0
	}
	if w.hollow > maxHollow {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin broke the protocol: %d messages without content", w.hollow)
	}
	return nil
}

// expired is called when the plugin has been silent for too long.
func (w *watch) expired() {
	for w.slow.Load() && w.p.answers(w.ctx) {
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(w.idle):
		}
	}
	if w.slow.Load() && w.ctx.Err() != nil {
		return // the call ended while we asked
	}
	w.cancel(errHung)
	w.p.markBroken(fmt.Sprintf("no answer for %v", w.idle))
}

// answers reports whether the process answers a call that has nothing to do.
func (p *proc) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.supervisor.host.opts.StartTimeout)
	defer cancel()
	_, err := pb.NewPluginClient(p.conn).Describe(ctx, &pb.DescribeRequest{Host: "nczarr", Minor: handshake.Minor})
	return err == nil
}

// watch starts the watchdog of a call made with ctx.
func (p *proc) watch(ctx context.Context) *watch {
	w := &watch{p: p, idle: p.supervisor.host.opts.CallTimeout}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	p.supervisor.calls.Add(1)
	if w.idle > 0 {
		w.timer = time.AfterFunc(w.idle, w.expired)
	}
	return w
}

// carries gives the call time for n bytes that the plugin stores, besides: the
// host does not see them move.
func (w *watch) carries(n int64) {
	if w.timer != nil && w.timer.Stop() {
		w.idle += driver.TransferTime(n)
		w.timer.Reset(w.idle)
	}
}

// progress starts the time anew.
func (w *watch) progress() {
	if w.timer != nil {
		w.timer.Reset(w.idle)
	}
}

// pause stops the time, while the caller's code runs.
func (w *watch) pause() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// end releases the call.
func (w *watch) end() {
	w.pause()
	w.cancel(nil)
}

// errLost is found in the chain of errors that say the process is gone.
var errLost = errors.New("plugin process lost")

// lostError is an ErrPlugin's cause when the process died or hung.
type lostError struct {
	text string
	hung bool
}

func (e *lostError) Error() string        { return e.text }
func (e *lostError) Is(target error) bool { return target == errLost }

// isLost reports whether err says that the process is gone; again whether the
// call may be repeated on a fresh one.
func isLost(err error) (lost, again bool) {
	var e *lostError
	if !errors.As(err, &e) {
		return false, false
	}
	return true, !e.hung
}

// fail gives the project's error for one that a call returned; ctx is the
// caller's, w the call's watch.
func (w *watch) fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	p := w.p
	if context.Cause(w.ctx) == errHung { //nolint:errorlint // a cause is compared by identity
		return p.lost(fmt.Sprintf("gave no answer for %v and was killed", w.idle), true)
	}
	err = wire.FromStatus(ctx, err)
	switch {
	case errors.Is(err, wire.ErrTransport):
		return p.gone(ctx, err)
	case ncerr.KindOf(err) == ncerr.ErrPlugin:
		return p.named(err)
	}
	return err
}

// named gives an ErrPlugin with the plugin's name.
func (p *proc) named(err error) error {
	var e *ncerr.Error
	if errors.As(err, &e) && e.Op == "" && e.Key == "" && e.Err != nil {
		err = e.Err
	}
	return ncerr.New(ncerr.ErrPlugin, "call plugin", p.supervisor.title(), err)
}

// broke reports that the plugin broke the protocol; it is not trusted with
// another call.
func (p *proc) broke(err error) error {
	p.markBroken(err.Error())
	return p.named(err)
}

// gone gives the error for a lost connection, with the process's end when it
// comes soon. A process that lives on without a connection is killed.
func (p *proc) gone(ctx context.Context, err error) error {
	if p.stopping.Load() && !p.broken.Load() {
		return p.lost("was stopped by its host", true)
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-p.child.ended():
		p.child.words()
		return p.lost("died ("+p.child.how()+")", false)
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		p.markBroken("its connection is lost")
		return p.lost(err.Error(), false)
	}
}

// lost makes the error of a dead or hung process.
func (p *proc) lost(what string, hung bool) error {
	text := fmt.Sprintf("process %d %s%s", p.child.pid(), what, p.stderr.words())
	return ncerr.New(ncerr.ErrPlugin, "call plugin", p.supervisor.title(), &lostError{text, hung})
}
