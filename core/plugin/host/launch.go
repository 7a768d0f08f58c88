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

// pluginErrorf returns an ErrPlugin without an operation. The supervisor adds the
// operation and the plugin's name.
func pluginErrorf(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrPlugin, "", "", format, args...)
}

// launch starts and configures the process of s.
func (h *Host) launch(ctx context.Context, s *supervisor) (*proc, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.StartTimeout)
	defer cancel()
	if h.opts.Isolation == Loopback {
		return h.initialize(ctx, h.loopback(s))
	}
	if s.program.attachment != nil {
		p, err := h.attach(s)
		if err != nil {
			return nil, err
		}
		return h.initialize(ctx, p)
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
		s.log.Warn("cannot create shared memory, using level 0 of the data plane", "err", err)
	} else if l.plane != nil {
		l.plane.poison = h.opts.Poison
	}
	p, err := l.run(ctx, img)
	if err != nil {
		return nil, errors.Join(err, l.cleanup())
	}
	return h.initialize(ctx, p)
}

// launch is one start of a process through go-plugin.
type launch struct {
	h           *Host
	s           *supervisor
	dir         string
	stderr      *logSink
	client      *goplugin.Client
	plane       *plane // nil without shared memory
	confinement confinement
	watch       sync.WaitGroup // for the goroutine that supervises system calls until the process listens
	childEnd    *os.File       // the child's end of sandbox.ListeningPair

	mu      sync.Mutex
	expired bool     // the timeout has passed: do not start the process
	child   *process // set by go-plugin's goroutine; others read it after run returns
}

// adopt records the process that go-plugin is about to start. It fails if the timeout
// has passed.
func (l *launch) adopt(p *process) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired {
		return context.DeadlineExceeded
	}
	l.child = p
	return nil
}

// giveUp kills the process, and prevents its start if it has not started yet.
func (l *launch) giveUp(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expired = true
	if l.child != nil {
		_ = l.child.Kill(ctx)
	}
}

// config returns the configuration for go-plugin. The host itself starts the process, sets
// its environment and collects its log.
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
			env = append(env, goplugin.EnvUnixSocketDir+"="+l.dir) // overrides go-plugin's own directory, whose path is longer
			files, planeEnv := l.plane.planeFiles()
			if l.childEnd != nil {
				l.confinement.policy.Listening = 3 + len(files)
				files = slices.Concat(files, []*os.File{l.childEnd})
			}
			img, sandboxEnv := l.confinement.enter(img, len(files))
			child := newProcess(&l.h.spawner, img, append(append(env, planeEnv...), sandboxEnv...), files, l.dir)
			return child, l.adopt(child)
		},
		GRPCDialOptions: l.h.dialOptions(l.s.log),
	}
}

// maxHeaders limits the headers and trailers of an answer, in bytes. It far exceeds the
// size of an error, which is sent in a trailer.
const maxHeaders = 1 << 20

// dialOptions returns the options of every connection to a process.
func (h *Host) dialOptions(log *slog.Logger) []grpc.DialOption {
	return append([]grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(handshake.MaxMessage), grpc.MaxCallSendMsgSize(handshake.MaxMessage)),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithInitialWindowSize(4 << 20),
		grpc.WithInitialConnWindowSize(16 << 20),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithChainStreamInterceptor(refuseOwnStreams),
	}, tracing(log)...)
}

// refuseOwnStreams prevents go-plugin from opening its own streams for the broker and for
// standard output. The host does not use them, and the broker stores everything that it
// receives.
func refuseOwnStreams(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.") {
		return nil, status.Error(codes.Unimplemented, "not connected")
	}
	return open(ctx, desc, cc, method, opts...)
}

// run starts the process and connects to it. The calls of go-plugin do not accept a
// context, so run kills the process when ctx is done.
func (l *launch) run(ctx context.Context, img image) (*proc, error) {
	config := l.config(img)
	l.client = goplugin.NewClient(config)
	defer l.plane.closeSent()
	if err := l.superviseListening(ctx); err != nil {
		return nil, err
	}
	type result struct {
		rpc goplugin.ClientProtocol
		err error
	}
	ready := make(chan result, 1)
	go func() { // ends soon after the process ends; run waits for the result
		_, err := l.client.Start()
		if l.childEnd != nil {
			_ = l.childEnd.Close() // the child has inherited it
		}
		if err == nil && !l.child.out.certified() {
			config.TLSConfig = nil // the plugin serves without TLS; go-plugin set the field before the handshake
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
		return nil, l.startError(ctx, r.err)
	}
	rpc, ok := r.rpc.(*goplugin.GRPCClient)
	if !ok {
		return nil, pluginErrorf("the plugin does not serve gRPC")
	}
	p := newProc(l.s, &processChild{l}, rpc.Conn, l.stderr)
	p.plane, p.confinement = l.plane, l.confinement
	return p, nil
}

// superviseListening starts a supervisor of system calls that permits a third-party plugin
// to listen only once. It does nothing if the sandbox is off or the kernel does not permit
// supervision.
func (l *launch) superviseListening(ctx context.Context) error {
	if l.confinement.policy == nil || !l.confinement.policy.MayExec || !l.confinement.policy.Kernel.Notify {
		return nil
	}
	hostEnd, childEnd, err := sandbox.ListeningPair()
	if err != nil {
		return pluginErrorf("cannot apply the sandbox: %w", err)
	}
	l.childEnd = childEnd
	l.watch.Go(func() { // ends when the process listens or is dead
		defer func() { _ = hostEnd.Close() }()
		switch err := sandbox.Supervise(hostEnd, l.confinement.policy.Kernel.Inspect); {
		case errors.Is(err, sandbox.ErrNotHandedOver):
			l.h.noNotify.Store(true)
		case errors.Is(err, sandbox.ErrNotInspected):
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

// startError returns an error that explains why the process does not serve.
func (l *launch) startError(ctx context.Context, err error) error {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if late && (l.child == nil || l.child.pid() == 0) {
		return pluginErrorf("the plugin did not start to serve within %v: its process was not started in that time", l.h.opts.StartTimeout)
	}
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
		return pluginErrorf("the plugin cannot be executed: %w", err)
	case l.child.code == handshake.ExitSandbox:
		return pluginErrorf("the plugin did not start in its sandbox%s", l.stderr.lastOutput())
	case line != "":
		return handshakeError(line, err)
	case late || strings.HasPrefix(err.Error(), "timeout"):
		return pluginErrorf("the plugin did not start to serve within %v%s; a plugin must serve immediately and initialize on the first call", l.h.opts.StartTimeout, l.stderr.lastOutput())
	case ctx.Err() != nil:
		return errClosed
	case l.child.code == handshake.ExitNoCookie || strings.Contains(l.stderr.tail(), "not meant to be executed directly"):
		return pluginErrorf("the plugin expects another handshake cookie: it is for another program or another major version")
	}
	return pluginErrorf("the plugin exited before it started to serve (%s)%s", l.child.state, l.stderr.lastOutput())
}

// handshakeError returns an error that explains why the first line of standard output
// is not a valid handshake.
func handshakeError(line string, err error) error {
	parts := strings.Split(line, "|")
	core, e := strconv.Atoi(parts[0])
	if e != nil || len(parts) < 4 {
		return pluginErrorf("the plugin printed %q instead of the handshake: standard output is reserved for the handshake; log to standard error", cut(line, 120))
	}
	version, e := strconv.Atoi(parts[1])
	switch {
	case core != goplugin.CoreProtocolVersion:
		return pluginErrorf("the plugin uses version %d of the handshake, but this program uses version %d: rebuild the plugin with a current go-plugin", core, goplugin.CoreProtocolVersion)
	case e != nil || version != handshake.Major:
		return pluginErrorf("the plugin uses version %s of the plugin protocol, but this program uses version %d: install a matching version of the plugin", cut(parts[1], 20), handshake.Major)
	case len(parts) < 5 || parts[4] != string(goplugin.ProtocolGRPC):
		return pluginErrorf("the plugin does not serve gRPC")
	}
	return pluginErrorf("the handshake failed: %w", err)
}

// cut truncates s to at most n bytes, for error messages.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// cleanup releases the resources of a failed start.
func (l *launch) cleanup() error {
	if l.child != nil {
		_ = l.child.Kill(context.Background())
	}
	return l.finish()
}

// finish ends go-plugin's goroutines and removes the private directory. The process is
// dead, so go-plugin's Kill should return immediately; finish waits at most killGrace for
// it.
func (l *launch) finish() error {
	killed := make(chan struct{})
	go func() { // ends when the process is dead
		defer close(killed)
		l.client.Kill()
	}()
	select {
	case <-killed:
	case <-time.After(killGrace):
		l.s.log.Error("go-plugin did not stop after the process died")
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

// processChild implements child for a real process.
type processChild struct{ l *launch }

func (c *processChild) pid() int               { return c.l.child.pid() }
func (c *processChild) ended() <-chan struct{} { return c.l.child.done }
func (c *processChild) terminate()             { c.l.child.terminate() }
func (c *processChild) kill()                  { _ = c.l.child.Kill(context.Background()) }

func (c *processChild) exitStatus() string {
	if !c.l.child.exited() {
		return "still running"
	}
	return c.l.child.state
}

func (c *processChild) shutdown(ctx context.Context, conn *grpc.ClientConn) {
	c.l.child.endLifeline()
	// Call go-plugin's own method, for plugins that do not watch their lifeline. The
	// plugin may exit before it answers.
	_ = conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
}

func (c *processChild) awaitOutput() {
	if c.l.child.exited() {
		c.l.child.awaitDrained()
	}
}

func (c *processChild) dirProblem() string { return dirProblem(c.l.dir, max(0, c.l.h.opts.MaxMemory)) }

func (c *processChild) release() {
	if err := c.l.finish(); err != nil {
		c.l.s.log.Warn("cannot remove the private directory of a plugin", "err", err)
	}
}

// clientPlugin makes go-plugin return the bare connection.
type clientPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

var _ goplugin.GRPCPlugin = clientPlugin{}

// GRPCServer implements goplugin.GRPCPlugin. It always fails, because a host is only a
// client.
func (clientPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host does not serve plugins")
}

// GRPCClient implements goplugin.GRPCPlugin.
func (clientPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// initialize calls Describe and Configure. It stops the plugin if one of the calls
// fails.
func (h *Host) initialize(ctx context.Context, p *proc) (*proc, error) {
	err := h.describe(ctx, p)
	if err == nil {
		_, err = pb.NewPluginClient(p.conn).Configure(ctx, p.configuration())
		err = initError(ctx, p, "Configure", err)
	}
	if err == nil {
		p.supervisor.program.recordLevel(p.level)
		return p, nil
	}
	p.stop(true)
	p.escalate()
	p.finish()
	return nil, err
}

// configuration returns the settings for the plugin. It sets p.level to 1 if both sides
// support level 1.
func (p *proc) configuration() *pb.ConfigureRequest {
	r := &pb.ConfigureRequest{MaxObject: p.supervisor.host.opts.MaxObject}
	if p.plane != nil && slices.Contains(p.desc.GetLevels(), 1) {
		p.level = 1
		r.Level, r.Segments = 1, []*pb.Segment{
			{Id: requestSegment, Fd: handshake.FDRequest, Size: segmentSize},
			{Id: responseSegment, Fd: handshake.FDResponse, Size: segmentSize, Writable: true},
		}
	}
	return r
}

// initError returns the error for a failed Describe or Configure call, or nil if err is
// nil.
func initError(ctx context.Context, p *proc, call string, err error) error {
	if err == nil {
		return nil
	}
	err = wire.FromStatus(ctx, err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return pluginErrorf("the plugin did not respond to %s within %v", call, p.supervisor.host.opts.StartTimeout)
	case ncerr.IsContext(err):
		return errClosed
	}
	if errors.Is(err, wire.ErrTransport) {
		select {
		case <-p.child.ended():
			p.child.awaitOutput()
			return pluginErrorf("the plugin died (%s) during %s%s", p.child.exitStatus(), call, p.stderr.lastOutput())
		case <-time.After(time.Second):
		}
	}
	return pluginErrorf("%s failed: %w", call, err)
}

// describe requests the plugin's description, checks it and stores it in p.
func (h *Host) describe(ctx context.Context, p *proc) error {
	r, err := pb.NewPluginClient(p.conn).Describe(ctx, &pb.DescribeRequest{Host: "nczarr", Minor: handshake.Minor})
	if err := initError(ctx, p, "Describe", err); err != nil {
		return err
	}
	r.Name, r.Version = wire.Text(r.GetName()), wire.Text(r.GetVersion())
	p.desc = r
	switch {
	case r.GetMajor() != handshake.Major:
		return pluginErrorf("the plugin uses version %d of the plugin protocol, but this program uses version %d", r.GetMajor(), handshake.Major)
	case !slices.Contains(r.GetLevels(), 0):
		return pluginErrorf("the plugin does not support level 0 of the data plane, which is mandatory")
	case p.supervisor.program.builtin && h.opts.Isolation != Loopback && r.GetBuildId() != h.opts.Self.BuildID():
		return pluginErrorf("the executable of the running program was replaced: restart the program")
	}
	if !p.supervisor.program.builtin {
		if dropped := h.dropBuiltinSchemes(r); len(dropped) > 0 {
			p.log.Warn("ignoring URL schemes that belong to built-in drivers", "schemes", dropped)
		}
	}
	ignored, err := p.supervisor.program.setDescription(r)
	if len(ignored) > 0 {
		p.log.Warn("ignoring names that are neither in the plugin's file name nor in the lock file", "names", ignored)
	}
	return err
}

// dropBuiltinSchemes removes the URL schemes of built-in drivers from a plugin's
// description and returns them.
func (h *Host) dropBuiltinSchemes(r *pb.DescribeReply) (dropped []string) {
	for _, own := range h.builtin.Drivers() {
		for _, d := range r.GetDrivers() {
			d.Schemes = slices.DeleteFunc(d.GetSchemes(), func(scheme string) bool {
				taken := slices.Contains(own.Schemes, scheme)
				if taken {
					dropped = append(dropped, scheme)
				}
				return taken
			})
		}
	}
	return dropped
}

// sumError returns the error for a plugin whose checksum is not in the lock file.
func sumError(path, sum string, pins []Pin) error {
	if len(pins) == 0 {
		return pluginErrorf("%q is not in the lock file: pin it (sha256 %s) or allow unpinned plugins", path, sum)
	}
	return pluginErrorf("%q has the checksum %s, which is not in the lock file: it was changed or replaced; pin it again if you changed it", path, sum)
}

var errClosed = fmt.Errorf("the plugin host is closed")
