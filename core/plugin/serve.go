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

// closeTime limits the time for closing open stores after the host has exited.
const closeTime = 2 * time.Second

// Serve serves the drivers and filters in opts to the host that started this process,
// and exits when the host no longer needs them or has exited. It does not return. If no
// host started the process, Serve prints a message and exits with status 64. If
// $NCZARR_PLUGIN_DEBUG is set in such a process, Serve instead runs until it is
// interrupted, and prints the environment variable that makes a host attach to it.
func Serve(opts ...Option) {
	if !startedByHost() && os.Getenv(handshake.EnvDebug) != "" {
		serveDebug(config(opts))
	}
	if !startedByHost() {
		fmt.Fprintln(os.Stderr, "this is a plugin for nczarr: install it in a plugin directory, where nczctl finds and starts it")
		os.Exit(handshake.ExitNoCookie)
	}
	serve(config(opts))
}

// Logger returns a logger that writes JSON lines to standard error. The host merges
// them into its own log.
func Logger(name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Output: os.Stderr, JSONFormat: true, Level: hclog.Debug})
}

func startedByHost() bool {
	return os.Getenv(handshake.CookieKey) == handshake.CookieValue
}

// serve runs the server and exits the process.
func serve(cfg server.Config) {
	if err := protectStdout(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot redirect standard output:", err)
		os.Exit(handshake.ExitServe)
	}
	stderr := os.Stderr
	onDescribe := cfg.OnDescribe
	cfg.OnDescribe = func() {
		if onDescribe != nil {
			onDescribe()
		}
		// go-plugin replaced these files with pipes whose output it sends over the
		// connection. Restore standard error, because the output of a crash would
		// otherwise be lost.
		os.Stderr, os.Stdout = stderr, stderr
	}
	channel, err := openChannel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot use the inherited channel:", err)
		os.Exit(handshake.ExitServe)
	}
	cfg.Channel = channel
	srv := server.New(cfg)
	end := &exiter{srv: srv}
	if os.Getenv(handshake.EnvLifeline) == "stdin" {
		go end.exitAfter(os.Stdin)
	}
	if channel != nil {
		go end.exitAfter(channel)
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

// openChannel returns the channel of level 1, or nil if the host did not pass a channel.
func openChannel() (*os.File, error) {
	number := os.Getenv(handshake.EnvChannel)
	if number == "" {
		return nil, nil // the host uses level 0
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	return shm.Inherit(fd)
}

// exiter closes the open stores once and exits the process.
type exiter struct {
	srv  *server.Server
	once sync.Once
}

// exitAfter reads lifeline to its end of file and then exits the process.
func (e *exiter) exitAfter(lifeline *os.File) {
	_, _ = io.Copy(io.Discard, lifeline)
	e.exit()
}

func (e *exiter) exit() {
	e.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.srv.Close(ctx) // the host has exited, so the error cannot be reported
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

// GRPCClient implements goplugin.GRPCPlugin. It always fails, because core/plugin/host
// implements the client.
func (s *services) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin cannot be a client; core/plugin/host is the client")
}
