package host

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
)

// goOwned runs f in a goroutine that the end of the process waits for. It returns false
// after the process has ended.
func (p *proc) goOwned(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.wg.Go(f)
	return true
}

// finish releases the host's resources for the process, which is dead.
func (p *proc) finish() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	p.child.release()
}

// discard records a pipeline that is no longer used, by its handle or by the token of
// the call that may have opened it.
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

// discarded removes and returns the recorded pipelines. It returns nil if no pipeline
// was recorded.
func (p *proc) discarded() *pb.ClosePipelineRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.unused
	p.unused = nil
	return out
}

// closeToken closes the store of a cancelled Open, because the plugin may have opened
// it anyway.
func (p *proc) closeToken(token uint64) {
	p.goOwned(func() {
		ctx, cancel := context.WithTimeout(p.ctx, p.supervisor.host.opts.StartTimeout)
		defer cancel()
		if _, err := p.driver.Close(ctx, &pb.CloseRequest{Token: token}); err != nil {
			p.log.Debug("closing a store whose opening was cancelled", "err", err)
		}
	})
}
