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

// Time limits of the steps that end a process. StopTimeout defaults to shutdownGrace.
const (
	shutdownGrace  = 2 * time.Second
	terminateGrace = time.Second
	killGrace      = 5 * time.Second
)

// child is the process of a plugin, or a server in memory.
type child interface {
	pid() int
	ended() <-chan struct{}
	exitStatus() string                         // how the process ended
	awaitOutput()                               // after the end: waits briefly for the last output
	shutdown(context.Context, *grpc.ClientConn) // asks the process to exit
	terminate()
	kill()
	dirProblem() string // why the private directory is not acceptable, or ""
	release()           // after the end: releases all resources
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
	level       int    // data plane level
	plane       *plane // nil without shared memory
	confinement confinement

	ctx          context.Context //nolint:containedctx // ends with the process
	cancel       context.CancelFunc
	wg           sync.WaitGroup // goroutines of the process
	ended        bool           // finish was called; guarded by mu
	codecStreams *streamPool[pb.Batch, pb.BatchReply]
	storeStreams *streamPool[pb.StoreBatch, pb.StoreBatchReply]

	driver pb.DriverClient
	codec  pb.CodecClient

	broken   atomic.Bool            // the plugin hung or violated the protocol: no new calls
	why      atomic.Pointer[string] // reason for broken
	stopping atomic.Bool            // the host is stopping the process
	hard     chan struct{}          // closed to kill the process immediately
	soft     chan struct{}          // closed to ask the process to exit
	once     [2]sync.Once
	counted  bool          // the death was counted; guarded by supervisor.mu
	done     chan struct{} // closed when the process is dead and its resources are released

	tokens           atomic.Uint64 // token of the last Open or OpenPipeline
	turns            chan struct{} // one element for each message with filter jobs in flight
	execs, execsEver atomic.Int64  // number of active calls of filters, and of all calls ever started

	mu     sync.Mutex
	unused *pb.ClosePipelineRequest // pipelines that are no longer used
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

// stop makes supervise stop the process. It does not wait. If hard is set, the process
// is killed immediately; otherwise it has time to close its stores.
func (p *proc) stop(hard bool) {
	p.stopping.Store(true)
	if hard {
		p.once[1].Do(func() { close(p.hard) })
	}
	p.once[0].Do(func() { close(p.soft) })
}

// markBroken makes the process refuse new calls and kills it. why is the reason, for
// errors and the log.
func (p *proc) markBroken(why string) {
	p.why.CompareAndSwap(nil, &why)
	if p.broken.CompareAndSwap(false, true) {
		p.log.Warn("killing plugin", "reason", why, "pid", p.child.pid())
	}
	p.stop(true)
}

// supervise waits until the process ends or must be stopped, and then releases its
// resources. Its goroutine owns the process.
func (p *proc) supervise() {
	defer close(p.done)
	p.awaitEnd()
	p.child.awaitOutput()
	if p.stopping.Load() && !p.broken.Load() {
		p.log.Debug("plugin stopped", "how", p.child.exitStatus())
	} else {
		p.log.Warn("plugin process ended", "how", p.child.exitStatus(), "pid", p.child.pid(), "stderr", p.stderr.tail())
	}
	p.supervisor.died(p)
	p.finish()
}

// awaitEnd waits until the process ends, or stops it if stop was called. It
// periodically checks the private directory of the process.
func (p *proc) awaitEnd() {
	tick := time.NewTicker(p.supervisor.host.opts.checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.child.ended():
			return
		case <-p.soft:
			p.escalate()
			return
		case <-tick.C:
			if why := p.child.dirProblem(); why != "" {
				p.markBroken(why)
			}
		}
	}
}

// escalate stops the process: with the lifeline and a shutdown call, then with SIGTERM,
// then with SIGKILL, each with a time limit.
func (p *proc) escalate() {
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
		p.log.Warn("plugin does not exit; killing it", "pid", p.child.pid())
	}
	p.child.kill()
	if !p.waitEnd(killGrace) {
		p.log.Error("plugin cannot be killed", "pid", p.child.pid())
	}
}

// waitEnd reports whether the process ended within d. A hard stop ends the wait early.
func (p *proc) waitEnd(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	hard := p.hard
	select {
	case <-p.hard: // already closed, so only the timer can end the wait early
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

// errHung is the cause of a context that a watch canceled after its time limit.
var errHung = errors.New("no response")

// watch enforces the time limit of one call. Its context is done if the plugin sends
// nothing for too long while the host waits for an answer.
type watch struct {
	ctx    context.Context //nolint:containedctx // the context has the lifetime of the call
	cancel context.CancelCauseFunc
	p      *proc
	timer  *time.Timer
	idle   atomic.Int64 // time limit of the next answer, as a time.Duration
	empty  int          // consecutive messages without content
	slow   atomic.Bool  // see allowWhileAlive
}

// maxEmpty limits the number of consecutive messages without content. Each message
// restarts the time limit, so a call could otherwise last forever.
const maxEmpty = 1000

// allowWhileAlive lets the call continue as long as the process answers other calls. It
// is for calls whose time depends on the size of a store.
func (w *watch) allowWhileAlive() *watch {
	w.slow.Store(true)
	return w
}

// countMessage counts a received message. It fails after too many consecutive messages
// without content.
func (w *watch) countMessage(content bool) error {
	w.empty++
	if content {
		w.empty = 0
	}
	if w.empty > maxEmpty {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin violated the protocol: %d messages without content", w.empty)
	}
	return nil
}

// expired runs when the time limit has passed. It kills the plugin, unless
// allowWhileAlive was called and the plugin answers other calls.
func (w *watch) expired() {
	for w.slow.Load() && w.p.isResponsive(w.ctx) {
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(w.limit()):
		}
	}
	if w.slow.Load() && w.ctx.Err() != nil {
		return // the call ended during the check
	}
	w.cancel(errHung)
	w.p.markBroken(fmt.Sprintf("no response for %v", w.limit()))
}

// isResponsive reports whether the process answers a trivial call.
func (p *proc) isResponsive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.supervisor.host.opts.StartTimeout)
	defer cancel()
	_, err := pb.NewPluginClient(p.conn).Describe(ctx, &pb.DescribeRequest{Host: "nczarr", Minor: handshake.Minor})
	return err == nil
}

// watch returns the watch of a new call made with ctx, and starts its time limit.
func (p *proc) watch(ctx context.Context) *watch {
	w := &watch{p: p}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	p.supervisor.calls.Add(1)
	w.idle.Store(int64(p.supervisor.host.opts.CallTimeout))
	if w.limit() > 0 {
		w.timer = time.AfterFunc(w.limit(), w.expired)
	}
	return w
}

// limit returns the time limit of the next answer.
func (w *watch) limit() time.Duration { return time.Duration(w.idle.Load()) }

// expect sets the time limit of the next answer to that of several puts with n bytes in
// total, and restarts it. The host sees no progress before the plugin answers.
func (w *watch) expect(puts int, n int64) {
	each := min(w.p.supervisor.host.opts.CallTimeout, maxCallTimeout)
	w.idle.Store(int64(each*time.Duration(puts) + driver.TransferTime(n)))
	w.progress()
}

// maxCallTimeout is the maximum time per put in the limit of several puts. It prevents
// an overflow of time.Duration.
const maxCallTimeout = 365 * 24 * time.Hour

// progress restarts the time limit.
func (w *watch) progress() {
	if w.timer != nil {
		w.timer.Reset(w.limit())
	}
}

// pause suspends the time limit while the host does not wait for the plugin.
func (w *watch) pause() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// end stops the time limit and cancels the context.
func (w *watch) end() {
	w.pause()
	w.cancel(nil)
}

// errLost matches errors that mean that the process has died or hung.
var errLost = errors.New("plugin process lost")

// lostError is the cause of an ErrPlugin if the process died or hung.
type lostError struct {
	text string
	hung bool // the call must not be repeated
}

func (e *lostError) Error() string        { return e.text }
func (e *lostError) Is(target error) bool { return target == errLost }

// isLost reports whether err means that the process has died or hung. again reports
// whether the call may be repeated in a new process.
func isLost(err error) (lost, again bool) {
	var e *lostError
	if !errors.As(err, &e) {
		return false, false
	}
	return true, !e.hung
}

// fail converts an error of a gRPC call. It returns the error of ctx, the caller's
// context, if ctx is done.
func (w *watch) fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	p := w.p
	if context.Cause(w.ctx) == errHung { //nolint:errorlint // a cause is compared by identity
		return p.lostProcessError(fmt.Sprintf("did not respond for %v and was killed", w.limit()), true)
	}
	err = wire.FromStatus(ctx, err)
	switch {
	case errors.Is(err, wire.ErrTransport):
		return p.connectionError(ctx, err)
	case ncerr.KindOf(err) == ncerr.ErrPlugin:
		return p.named(err)
	}
	return err
}

// named returns err as an ErrPlugin with the plugin's name.
func (p *proc) named(err error) error {
	var e *ncerr.Error
	if errors.As(err, &e) && e.Op == "" && e.Key == "" && e.Err != nil {
		err = e.Err
	}
	return ncerr.New(ncerr.ErrPlugin, "call plugin", p.supervisor.title(), err)
}

// killBroken kills a plugin that violated the protocol and returns err with the plugin's
// name.
func (p *proc) killBroken(err error) error {
	p.markBroken(err.Error())
	return p.named(err)
}

// connectionError returns the error for a lost connection. It contains the exit status
// if the process exits soon. A process that keeps running without a connection is
// killed.
func (p *proc) connectionError(ctx context.Context, err error) error {
	if p.stopping.Load() && !p.broken.Load() {
		return p.lostProcessError("was stopped by its host", true)
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-p.child.ended():
		p.child.awaitOutput()
		return p.lostProcessError("died ("+p.child.exitStatus()+")", false)
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		p.markBroken("the connection was lost")
		return p.lostProcessError(err.Error(), false)
	}
}

// lostProcessError returns the error for a dead or hung process. what is the predicate
// of the message, whose subject is the process. If hung is set, the call must not be
// repeated.
func (p *proc) lostProcessError(what string, hung bool) error {
	text := fmt.Sprintf("process %d %s%s", p.child.pid(), what, p.stderr.lastOutput())
	return ncerr.New(ncerr.ErrPlugin, "call plugin", p.supervisor.title(), &lostError{text, hung})
}
