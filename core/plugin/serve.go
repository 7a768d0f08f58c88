package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/server"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
)

// closeTime is how long open stores may take to close when the host went.
const closeTime = 2 * time.Second

// Serve serves what opts name to the host that started this process, and
// exits when the host is done or gone. It does not return. In a process that
// no host has started it says so and exits with status 64, unless
// $NCZARR_PLUGIN_DEBUG is set: then it serves until it is interrupted, and
// prints the setting with which a host attaches to it.
func Serve(opts ...Option) {
	if !startedByHost() && os.Getenv(handshake.EnvDebug) != "" {
		serveDebug(config(opts))
	}
	if !startedByHost() {
		fmt.Fprintln(os.Stderr, "this is a plugin for nczarr: put it into a plugin directory, nczctl starts it")
		os.Exit(handshake.ExitNoCookie)
	}
	serve(config(opts))
}

// Logger gives a logger that writes JSON lines to standard error, where the
// host merges them into its own log.
func Logger(name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Output: os.Stderr, JSONFormat: true, Level: hclog.Debug})
}

func startedByHost() bool {
	return os.Getenv(handshake.CookieKey) == handshake.CookieValue
}

// serve runs the server and exits the process.
func serve(cfg server.Config) {
	if err := protectStdout(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot set standard output aside:", err)
		os.Exit(handshake.ExitServe)
	}
	stderr := os.Stderr
	started := cfg.Started
	cfg.Started = func() {
		if started != nil {
			started()
		}
		// go-plugin has put pipes here by now, which it sends through the
		// connection: what a dying process says would be lost in them.
		os.Stderr, os.Stdout = stderr, stderr // undone, not done
	}
	channel, err := openChannel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot use the inherited channel:", err)
		os.Exit(handshake.ExitServe)
	}
	cfg.Channel = channel
	srv := server.New(cfg)
	end := &ending{srv: srv}
	if os.Getenv(handshake.EnvLifeline) == "stdin" {
		go end.after(os.Stdin)
	}
	if channel != nil {
		go end.after(channel)
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: handshake.Major, MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue,
		},
		Plugins: goplugin.PluginSet{handshake.PluginSetName: &services{srv: srv}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, server.Options()...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, JSONFormat: true, Level: hclog.Warn}),
	})
	end.exit()
}

// openChannel gives the channel of level 1, nil when the host gave none.
func openChannel() (*os.File, error) {
	number := os.Getenv(handshake.EnvChannel)
	if number == "" {
		return nil, nil // level 0
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	return shm.Adopt(fd)
}

// ending closes what is open, once, and exits.
type ending struct {
	srv  *server.Server
	once sync.Once
}

// after waits for the end of a lifeline. It runs as long as the process.
func (e *ending) after(lifeline *os.File) {
	_, _ = io.Copy(io.Discard, lifeline)
	e.exit()
}

func (e *ending) exit() {
	e.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.srv.Close(ctx) // nobody is left who could be told
		}()
		select {
		case <-done:
		case <-ctx.Done():
		}
		os.Exit(0)
	})
}

// services registers the server with go-plugin.
type services struct {
	goplugin.NetRPCUnsupportedPlugin
	srv *server.Server
}

var _ goplugin.GRPCPlugin = (*services)(nil)

// GRPCServer implements goplugin.GRPCPlugin.
func (s *services) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	s.srv.Register(g)
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin; a plugin is never a client.
func (s *services) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the client of this protocol is core/plugin/host")
}
