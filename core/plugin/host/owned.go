package host

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
)

// goOwned runs f in a goroutine that finish waits for. It returns false, without
// running f, if finish was called.
func (p *proc) goOwned(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.wg.Go(f)
	return true
}

// finish waits for the goroutines of the process and releases its resources. The
// process must be dead.
func (p *proc) finish() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	p.child.release()
}

// discard records an unused pipeline, so that the plugin closes it later. If token is
// not 0, token identifies the pipeline; if it is 0, handle does.
func (p *proc) discard(handle, token uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unused == nil {
		p.unused = &pb.ClosePipelineRequest{}
	}
	if token != 0 {
		p.unused.Tokens = append(p.unused.Tokens, token)
	} else {
		p.unused.Handles = append(p.unused.Handles, handle)
	}
}

// discarded returns and removes the pipelines recorded by discard. It returns nil if no
// pipeline is recorded.
func (p *proc) discarded() *pb.ClosePipelineRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.unused
	p.unused = nil
	return out
}

// closeToken closes the store of a canceled Open in the background, because the plugin
// may have opened the store anyway.
func (p *proc) closeToken(token uint64) {
	p.goOwned(func() {
		ctx, cancel := context.WithTimeout(p.ctx, p.supervisor.host.opts.StartTimeout)
		defer cancel()
		if _, err := p.driver.Close(ctx, &pb.CloseRequest{Token: token}); err != nil {
			p.log.Debug("cannot close the store of a canceled Open", "err", err)
		}
	})
}
