package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
)

// attached returns the running plugins that text lists in JSON. Their authors started
// them, so they are neither pinned nor confined. attached fails if text lists plugins
// although a sandbox is required.
func attached(text string, mode Sandbox) ([]*program, error) {
	if text == "" {
		return nil, nil
	}
	if mode == SandboxRequire {
		return nil, ncerr.Errorf(ncerr.ErrPlugin, "read environment variable", handshake.EnvReattach, "the sandbox is required, but attached plugins run outside it: unset the variable")
	}
	var list []handshake.Attachment
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "read environment variable", handshake.EnvReattach, "%w", err)
	}
	var out []*program
	for _, a := range list {
		if a.Network == "tcp" && !local(a.Address) {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "read environment variable", handshake.EnvReattach, "plugin %q has the address %q, which is not a loopback address", a.Name, a.Address)
		}
		if a.Network != "unix" && a.Network != "tcp" || a.Address == "" || a.PID <= 0 {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "read environment variable", handshake.EnvReattach, "plugin %q: the network, address or process ID is missing or invalid", a.Name)
		}
		out = append(out, &program{name: a.Name, attachment: &a})
	}
	return out, nil
}

// local reports whether address is a loopback address.
func local(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().IsLoopback()
}

// attach connects to a plugin that its author started. The host never kills the process
// of the plugin.
func (h *Host) attach(s *supervisor) (*proc, error) {
	a := s.program.attachment
	h.opts.alert.Log(h.ctx, LevelAlert, "attaching to a running plugin because of "+handshake.EnvReattach+"; the plugin is neither pinned nor confined", "plugin", a.Name, "pid", a.PID, "address", a.Address)
	target := "passthrough:///" + a.Address
	if a.Network == "unix" {
		target = "unix:" + a.Address
	}
	options := append(h.dialOptions(s.log), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, pluginErrorf("cannot attach to the plugin: %w", err)
	}
	c := &attachedChild{process: a.PID, conn: conn, log: s.log, done: make(chan struct{})}
	c.wg.Go(c.watch)
	return newProc(s, c, conn, newLogSink(s.log)), nil
}

// attachedChild is a process that the host did not start.
type attachedChild struct {
	process int
	conn    *grpc.ClientConn
	log     *slog.Logger
	once    sync.Once
	done    chan struct{}
	wg      sync.WaitGroup
}

// watch closes done when the process no longer exists.
func (c *attachedChild) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
			if p, err := os.FindProcess(c.process); err != nil || !alive(p) { // the process does not exist
				c.kill()
			}
		}
	}
}

func (c *attachedChild) pid() int               { return c.process }
func (c *attachedChild) ended() <-chan struct{} { return c.done }
func (c *attachedChild) exitStatus() string     { return "detached" }
func (c *attachedChild) awaitOutput()           {}
func (c *attachedChild) terminate()             { c.kill() }
func (c *attachedChild) kill()                  { c.once.Do(func() { close(c.done) }) }

// shutdown detaches from the process, which continues to run.
func (c *attachedChild) shutdown(context.Context, *grpc.ClientConn) { c.kill() }

func (c *attachedChild) dirProblem() string { return "" } // the process has no private directory

func (c *attachedChild) release() {
	c.wg.Wait()
	_ = c.conn.Close()
}
