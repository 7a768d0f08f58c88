package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

// bad makes an ErrPlugin without an operation; the slot adds it.
func pluginErrorf(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrPlugin, "", "", format, args...)
}

// launch starts the process of s and configures it.
func (h *Host) launch(ctx context.Context, s *supervisor) (*proc, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.StartTimeout)
	defer cancel()
	if h.opts.Isolation == Loopback {
		return h.introduce(ctx, h.loopback(s))
	}
	if s.program.attachment != nil {
		p, err := h.attach(s)
		if err != nil {
			return nil, err
		}
		return h.introduce(ctx, p)
	}
	img, err := s.program.open(h)
	if err != nil {
		return nil, err
	}
	dir, err := h.processDir()
	if err != nil {
		return nil, err
	}
	l := &launch{h: h, s: s, dir: dir, stderr: newLogSink(s.log)}
	if l.confinement, err = h.confine(s, img, dir); err != nil {
		return nil, errors.Join(err, place.Remove(dir))
	}
	if h.opts.InlineOnly {
		l.plane = nil
	} else if l.plane, err = newPlane(); err != nil {
		s.log.Warn("no shared memory for the plugin, the slow data plane is used", "err", err)
	} else if l.plane != nil {
		l.plane.poison = h.opts.Poison
	}
	p, err := l.run(ctx, img)
	if err != nil {
		return nil, errors.Join(err, l.cleanup())
	}
	return h.introduce(ctx, p)
}

// launch is one start of a process through go-plugin.
type launch struct {
	h           *Host
	s           *supervisor
	dir         string
	stderr      *logSink
	client      *goplugin.Client
	plane       *plane // nil where there is no shared memory
	confinement confinement
	watch       sync.WaitGroup // of what the process does until it listens
	theirs      *os.File       // its end of what it hands listening over through

	mu    sync.Mutex
	over  bool     // its time is up: start nothing any more
	child *process // set by go-plugin's goroutine; others read it after run's
}

// adopt takes the process that go-plugin is about to start, unless it is too
// late for that.
func (l *launch) adopt(p *process) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return context.DeadlineExceeded
	}
	l.child = p
	return nil
}

// giveUp kills the process, now or as soon as it would be started.
func (l *launch) giveUp(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.child != nil {
		_ = l.child.Kill(ctx)
	}
}

// config gives what go-plugin is told. It starts nothing by itself: the
// process is ours, so are the log lines, and nothing of the environment is
// inherited.
func (l *launch) config(img image) *goplugin.ClientConfig {
	return &goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: handshake.Major, MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue,
		},
		Plugins:          goplugin.PluginSet{handshake.PluginSetName: clientPlugin{}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout:     l.h.opts.StartTimeout,
		Logger:           hclog.NewNullLogger(),
		Stderr:           l.stderr,
		AutoMTLS:         !l.s.program.builtin,
		SkipHostEnv:      true,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: l.dir},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			env := append(l.h.environment(l.dir, l.s.set, l.s.program.env(l.s)...), cmd.Env...)
			env = append(env, goplugin.EnvUnixSocketDir+"="+l.dir) // the last counts: go-plugin's own is longer
			files, planeEnv := l.plane.planeFiles()
			if l.theirs != nil {
				l.confinement.policy.Listening = 3 + len(files)
				files = slices.Concat(files, []*os.File{l.theirs})
			}
			img, sandboxEnv := l.confinement.enter(img, len(files))
			child := newProcess(&l.h.spawner, img, append(append(env, planeEnv...), sandboxEnv...), files, l.dir)
			return child, l.adopt(child)
		},
		GRPCDialOptions: l.h.dialOptions(l.s.log),
	}
}

// maxHeaders is the size of headers and trailers that a process may answer a
// call with: an error, its key included, fits in many times.
const maxHeaders = 1 << 20

// dialOptions are those of every connection to a process.
func (h *Host) dialOptions(log *slog.Logger) []grpc.DialOption {
	return append([]grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(handshake.MaxMessage), grpc.MaxCallSendMsgSize(handshake.MaxMessage)),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithInitialWindowSize(4 << 20),
		grpc.WithInitialConnWindowSize(16 << 20),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithChainStreamInterceptor(ownStreams),
	}, tracing(log)...)
}

// ownStreams keeps go-plugin from opening its streams for the broker and for
// standard output: we need neither, and what the broker is told it keeps for
// ever.
func ownStreams(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.") {
		return nil, status.Error(codes.Unimplemented, "not connected")
	}
	return open(ctx, desc, cc, method, opts...)
}

// run starts the process and connects. Both steps of go-plugin block on their
// own clocks, so ours kills the process when its time is up.
func (l *launch) run(ctx context.Context, img image) (*proc, error) {
	config := l.config(img)
	l.client = goplugin.NewClient(config)
	defer l.plane.sent()
	if err := l.judgeListening(ctx); err != nil {
		return nil, err
	}
	type result struct {
		rpc goplugin.ClientProtocol
		err error
	}
	ready := make(chan result, 1)
	go func() { // ends soon after the process does, which is waited for below
		_, err := l.client.Start()
		l.handedOver()
		if err == nil && !l.child.out.certified() {
			config.TLSConfig = nil // go-plugin made it before it knew
		}
		var rpc goplugin.ClientProtocol
		if err == nil {
			rpc, err = l.client.Client()
		}
		ready <- result{rpc, err}
	}()
	var r result
	select {
	case r = <-ready:
	case <-ctx.Done():
		l.giveUp(ctx)
		r = <-ready
	}
	if r.err != nil {
		return nil, l.why(ctx, r.err)
	}
	rpc, ok := r.rpc.(*goplugin.GRPCClient)
	if !ok {
		return nil, pluginErrorf("does not serve gRPC")
	}
	p := newProc(l.s, &processChild{l}, rpc.Conn, l.stderr)
	p.plane, p.confinement = l.plane, l.confinement
	return p, nil
}

// judgeListening prepares that the process can listen only once.
func (l *launch) judgeListening(ctx context.Context) error {
	if l.confinement.policy == nil || !l.confinement.policy.MayExec || !l.confinement.policy.Kernel.Notify {
		return nil
	}
	ours, theirs, err := sandbox.ListeningPair()
	if err != nil {
		return pluginErrorf("no sandbox: %w", err)
	}
	l.theirs = theirs
	l.watch.Go(func() { // ends when the process listens or is dead
		defer func() { _ = ours.Close() }()
		switch err := sandbox.Judge(ours, l.confinement.policy.Kernel.Look); {
		case errors.Is(err, sandbox.ErrNotHandedOver):
			l.h.noNotify.Store(true)
		case errors.Is(err, sandbox.ErrUnseen):
			l.h.noInspect.Store(true)
		default:
			return
		}
		if c := l.h.plan(l.s); l.h.opts.Sandbox == SandboxRequire {
			l.giveUp(ctx)
		} else {
			l.h.warnOnce(strings.Join(c.info.Missing, "; "), false)
		}
	})
	return nil
}

// handedOver closes what the child has inherited.
func (l *launch) handedOver() {
	if l.theirs != nil {
		_ = l.theirs.Close()
	}
}

// why says in our own words why the process did not get to serve.
func (l *launch) why(ctx context.Context, err error) error {
	if l.child == nil {
		return pluginErrorf("%w", err)
	}
	_ = l.child.Kill(ctx)
	select {
	case <-l.child.done:
		l.child.awaitDrained()
	case <-time.After(killGrace):
	}
	line := l.child.out.text()
	missing := l.h.plan(l.s).info.Missing
	switch {
	case l.h.opts.Sandbox == SandboxRequire && len(missing) > 0:
		return missingError(missing)
	case l.child.pid() == 0:
		return pluginErrorf("cannot be executed: %w", err)
	case l.child.code == handshake.ExitSandbox:
		return pluginErrorf("could not be put into its sandbox%s", l.stderr.words())
	case line != "":
		return handshakeError(line, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) || strings.HasPrefix(err.Error(), "timeout"):
		return pluginErrorf("gave no sign of life within %v%s; a plugin must serve at once and do slow work when it is called", l.h.opts.StartTimeout, l.stderr.words())
	case ctx.Err() != nil:
		return errClosed
	case l.child.code == handshake.ExitNoCookie || strings.Contains(l.stderr.tail(), "not meant to be executed directly"):
		return pluginErrorf("does not know this program's handshake cookie: it is a plugin for something else, or for another major version")
	}
	return pluginErrorf("ended before it served (%s)%s", l.child.state, l.stderr.words())
}

// handshakeError explains the first line of standard output.
func handshakeError(line string, err error) error {
	parts := strings.Split(line, "|")
	core, e := strconv.Atoi(parts[0])
	if e != nil || len(parts) < 4 {
		return pluginErrorf("printed %q where the handshake should be: a plugin must print nothing to standard output, its log goes to standard error", cut(line, 120))
	}
	version, e := strconv.Atoi(parts[1])
	switch {
	case core != goplugin.CoreProtocolVersion:
		return pluginErrorf("speaks version %d of the handshake, this program %d: rebuild the plugin with a current go-plugin", core, goplugin.CoreProtocolVersion)
	case e != nil || version != handshake.Major:
		return pluginErrorf("speaks version %s of the plugin protocol, this program version %d: install the plugin that was made for it", cut(parts[1], 20), handshake.Major)
	case len(parts) < 5 || parts[4] != string(goplugin.ProtocolGRPC):
		return pluginErrorf("does not serve gRPC")
	}
	return pluginErrorf("the handshake failed: %w", err)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// cleanup gives back what a failed start had.
func (l *launch) cleanup() error {
	if l.child != nil {
		_ = l.child.Kill(context.Background())
	}
	return l.finish()
}

// finish ends go-plugin's goroutines and removes the private directory. The
// process is dead, so that go-plugin's Kill has nothing to wait for; if it
// waits all the same, we do not wait for it.
func (l *launch) finish() error {
	killed := make(chan struct{})
	go func() { // bounded by the death of the process
		defer close(killed)
		l.client.Kill()
	}()
	select {
	case <-killed:
	case <-time.After(killGrace):
		l.s.log.Error("go-plugin does not let go of a dead process")
	}
	if l.child == nil || l.child.exited() {
		l.watch.Wait()
	}
	if l.child != nil && l.child.exited() {
		l.child.closePipes()
	}
	l.plane.close()
	return place.Remove(l.dir)
}

// processChild is the child of a real process.
type processChild struct{ l *launch }

func (c *processChild) pid() int               { return c.l.child.pid() }
func (c *processChild) ended() <-chan struct{} { return c.l.child.done }
func (c *processChild) terminate()             { c.l.child.terminate() }
func (c *processChild) kill()                  { _ = c.l.child.Kill(context.Background()) }

func (c *processChild) how() string {
	if !c.l.child.exited() {
		return "still running"
	}
	return c.l.child.state
}

func (c *processChild) shutdown(ctx context.Context, conn *grpc.ClientConn) {
	c.l.child.endLifeline()
	// go-plugin's own method, for those that do not watch their lifeline; the answer may get lost.
	_ = conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
}

func (c *processChild) words() {
	if c.l.child.exited() {
		c.l.child.awaitDrained()
	}
}

func (c *processChild) dirProblem() string { return dirProblem(c.l.dir, max(0, c.l.h.opts.MaxMemory)) }

func (c *processChild) release() {
	if err := c.l.finish(); err != nil {
		c.l.s.log.Warn("private directory of a plugin remains", "err", err)
	}
}

// clientPlugin makes go-plugin give us the bare connection.
type clientPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

var _ goplugin.GRPCPlugin = clientPlugin{}

// GRPCServer implements goplugin.GRPCPlugin; a host serves nothing.
func (clientPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a host serves nothing")
}

// GRPCClient implements goplugin.GRPCPlugin.
func (clientPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// introduce makes the first two calls; a plugin that fails them is ended.
func (h *Host) introduce(ctx context.Context, p *proc) (*proc, error) {
	err := h.describe(ctx, p)
	if err == nil {
		_, err = pb.NewPluginClient(p.conn).Configure(ctx, p.configuration())
		err = introError(ctx, p, "Configure", err)
	}
	if err == nil {
		p.supervisor.program.reached(p.level)
		return p, nil
	}
	p.stop(true)
	p.ladder()
	p.over()
	return nil, err
}

// configuration tells the plugin what the host decided: level 1 where both
// sides have it.
func (p *proc) configuration() *pb.ConfigureRequest {
	r := &pb.ConfigureRequest{MaxObject: p.supervisor.host.opts.MaxObject}
	if p.plane != nil && slices.Contains(p.desc.GetLevels(), 1) {
		p.level = 1
		r.Level, r.Segments = 1, p.plane.segments()
	}
	return r
}

// introError explains a failed first call.
func introError(ctx context.Context, p *proc, call string, err error) error {
	if err == nil {
		return nil
	}
	err = wire.FromStatus(ctx, err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return pluginErrorf("gave no answer to %s within %v", call, p.supervisor.host.opts.StartTimeout)
	case ncerr.IsContext(err):
		return errClosed
	}
	if errors.Is(err, wire.ErrTransport) {
		select {
		case <-p.child.ended():
			p.child.words()
			return pluginErrorf("died (%s) in %s%s", p.child.how(), call, p.stderr.words())
		case <-time.After(time.Second):
		}
	}
	return pluginErrorf("%s failed: %w", call, err)
}

// describe asks the plugin what it is and checks the answer.
func (h *Host) describe(ctx context.Context, p *proc) error {
	r, err := pb.NewPluginClient(p.conn).Describe(ctx, &pb.DescribeRequest{Host: "nczarr", Minor: handshake.Minor})
	if err := introError(ctx, p, "Describe", err); err != nil {
		return err
	}
	r.Name, r.Version = wire.Text(r.GetName()), wire.Text(r.GetVersion())
	p.desc = r
	switch {
	case r.GetMajor() != handshake.Major:
		return pluginErrorf("says that it speaks version %d of the plugin protocol, this program version %d", r.GetMajor(), handshake.Major)
	case !slices.Contains(r.GetLevels(), 0):
		return pluginErrorf("does not have level 0 of the data plane, which every plugin must have")
	case p.supervisor.program.builtin && h.opts.Isolation != Loopback && r.GetBuildId() != h.opts.Self.BuildID():
		return pluginErrorf("is not this program any more: the executable was replaced while it ran; start it again")
	}
	ignored, err := p.supervisor.program.learn(r)
	if len(ignored) > 0 {
		p.log.Warn("a plugin says it serves names that neither its file name nor the lock file gives it: they do not count", "names", ignored)
	}
	return err
}

// sumError says that a plugin may not run.
func sumError(path, sum string, pins []Pin) error {
	if len(pins) == 0 {
		return pluginErrorf("%s is not in the lock file, so it may not run: pin it (sha256 %s) or allow unpinned plugins", path, sum)
	}
	return pluginErrorf("%s has the checksum %s, which is none of those in the lock file: it was changed or replaced; pin it anew if that was you", path, sum)
}

var errClosed = fmt.Errorf("the plugin host is closed")
