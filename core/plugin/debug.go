package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/server"
)

// serveDebug serves a plugin that was started without a host, until the process is
// interrupted. It prints the environment variable that makes a host attach to the
// process, so that authors can run their plugin under a debugger. The plugin runs without
// a sandbox, shared memory or encryption.
func serveDebug(cfg server.Config) {
	cfg.Reconfigurable = true
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ready, closed := make(chan *goplugin.ReattachConfig, 1), make(chan struct{})
	srv := server.New(cfg)
	go func() { // runs until the process exits
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: handshake.Major, MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue},
			Plugins:         goplugin.PluginSet{handshake.PluginSetName: &services{srv: srv}},
			GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
				return grpc.NewServer(append(opts, server.Options()...)...)
			},
			Test: &goplugin.ServeTestConfig{Context: ctx, ReattachConfigCh: ready, CloseCh: closed},
		})
	}()
	select {
	case at := <-ready:
		line, err := json.Marshal([]handshake.Attachment{{Name: cfg.Name, PID: at.Pid, Network: at.Addr.Network(), Address: at.Addr.String()}})
		if err != nil { // unreachable: the values are strings and a number
			panic(err)
		}
		fmt.Fprintf(os.Stdout, "serving until interrupted; to attach to this process, run\n\n  %s='%s' nczctl ...\n\n", handshake.EnvReattach, line)
	case <-closed:
	}
	<-closed
	stop()
	end := &exiter{srv: srv}
	end.exit()
}
