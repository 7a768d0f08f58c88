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

// attached gives the plugins that their authors run themselves, as the
// environment names them. They are not pinned, and whoever runs them decides
// what they may do: a required sandbox refuses them.
func attached(text string, mode Sandbox) ([]*program, error) {
	if text == "" {
		return nil, nil
	}
	if mode == SandboxRequire {
		return nil, ncerr.Errorf(ncerr.ErrPlugin, "read variable", handshake.EnvReattach, "the sandbox is required, and plugins that somebody else runs are not in it: unset the variable")
	}
	var list []handshake.Attachment
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "read variable", handshake.EnvReattach, "%w", err)
	}
	var out []*program
	for _, a := range list {
		if a.Network == "tcp" && !local(a.Address) {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "read variable", handshake.EnvReattach, "plugin %q is at %q, which is not on this machine", a.Name, a.Address)
		}
		if a.Network != "unix" && a.Network != "tcp" || a.Address == "" || a.PID <= 0 {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "read variable", handshake.EnvReattach, "no network, address and pid of plugin %q", a.Name)
		}
		out = append(out, &program{name: a.Name, attachment: &a})
	}
	return out, nil
}

// local reports whether an address is one of this machine's own.
func local(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().IsLoopback()
}

// attach connects to a plugin that its author runs. The process is not ours:
// it is never ended.
func (h *Host) attach(s *supervisor) (*proc, error) {
	a := s.program.attachment
	h.opts.alert.Log(h.ctx, LevelAlert, "the plugin is run by somebody else, as "+handshake.EnvReattach+" says: it is neither pinned nor confined", "plugin", a.Name, "pid", a.PID, "address", a.Address)
	target := "passthrough:///" + a.Address
	if a.Network == "unix" {
		target = "unix:" + a.Address
	}
	options := append(h.dialOptions(s.log), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, pluginErrorf("cannot be attached to: %w", err)
	}
	c := &attachedChild{process: a.PID, conn: conn, log: s.log, done: make(chan struct{})}
	c.wg.Go(c.watch)
	return newProc(s, c, conn, newLogSink(s.log)), nil
}

// attachedChild is a process that somebody else runs.
type attachedChild struct {
	process int
	conn    *grpc.ClientConn
	log     *slog.Logger
	once    sync.Once
	done    chan struct{}
	wg      sync.WaitGroup
}

// watch lets go when the process is gone.
func (c *attachedChild) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
			if !processExists(c.process) {
				c.kill()
			}
		}
	}
}

func (c *attachedChild) pid() int               { return c.process }
func (c *attachedChild) ended() <-chan struct{} { return c.done }
func (c *attachedChild) how() string            { return "attached to, and let go" }
func (c *attachedChild) words()                 {}
func (c *attachedChild) terminate()             { c.kill() }
func (c *attachedChild) kill()                  { c.once.Do(func() { close(c.done) }) }

// shutdown asks for nothing: the process goes on when this host is done with it.
func (c *attachedChild) shutdown(context.Context, *grpc.ClientConn) { c.kill() }

func (c *attachedChild) dirProblem() string { return "" } // it has none of ours

func (c *attachedChild) release() {
	c.wg.Wait()
	_ = c.conn.Close()
}

// processExists reports whether there is a process with that number.
func processExists(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && alive(p)
}
