package host

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/server"
)

// memoryChild is a plugin server that runs in this process. Calls use the whole
// protocol over a connection in memory.
type memoryChild struct {
	grpc *grpc.Server
	srv  *server.Server
	conn *grpc.ClientConn
	log  *slog.Logger
	once sync.Once
	done chan struct{}
	wg   sync.WaitGroup
}

// loopback starts an in-process server for the built-in drivers or filters that s serves.
func (h *Host) loopback(s *supervisor) *proc {
	cfg := server.Config{Name: s.title(), Version: "loopback", Filters: h.opts.Builtin.Providers}
	if s.set.role != "filters" {
		cfg.Drivers, cfg.Filters = h.opts.Builtin.Openers, nil
	}
	c := &memoryChild{grpc: grpc.NewServer(server.Options()...), srv: server.New(cfg), log: s.log, done: make(chan struct{})}
	c.srv.Register(c.grpc)
	lis := bufconn.Listen(handshake.MaxPart)
	c.wg.Go(func() {
		if err := c.grpc.Serve(lis); err != nil {
			s.log.Error("the loopback server failed", "err", err)
		}
	})
	conn, err := grpc.NewClient("passthrough:///loopback",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(handshake.MaxMessage), grpc.MaxCallSendMsgSize(handshake.MaxMessage)),
	)
	if err != nil {
		panic(err) // unreachable: NewClient fails only for a malformed target
	}
	c.conn = conn
	return newProc(s, c, conn, newLogSink(s.log))
}

func (c *memoryChild) pid() int               { return os.Getpid() }
func (c *memoryChild) ended() <-chan struct{} { return c.done }
func (c *memoryChild) exitStatus() string     { return "the loopback server stopped" }
func (c *memoryChild) awaitOutput()           {}
func (c *memoryChild) terminate()             { c.kill() }

func (c *memoryChild) shutdown(context.Context, *grpc.ClientConn) { c.kill() }

func (c *memoryChild) kill() {
	c.once.Do(func() {
		c.grpc.Stop()
		close(c.done)
	})
}

func (c *memoryChild) dirProblem() string { return "" } // no directory

func (c *memoryChild) release() {
	c.wg.Wait()
	_ = c.conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := c.srv.Close(ctx); err != nil {
		c.log.Warn("cannot close the stores of the loopback server", "err", err)
	}
}
