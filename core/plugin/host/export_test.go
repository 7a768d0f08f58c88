package host

import (
	"time"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"
)

// SetKernel makes a host believe that the kernel offers k.
func SetKernel(o *Options, k sandbox.Support) { o.kernel = func() sandbox.Support { return k } }

// SetAllowList has all filters run under the allow list, whatever program they
// are in.
func SetAllowList(o *Options) { o.allowList = true }

// SetCheckEvery changes how often a host looks at private directories.
func SetCheckEvery(o *Options, d time.Duration) { o.checkEvery = d }

// SetCallTimeout changes how long calls that begin from now on may be silent.
// No call is under way.
func SetCallTimeout(h *Host, d time.Duration) { h.opts.CallTimeout = d }

// BreakAll has a host give up all its processes, as it does those that lie.
func BreakAll(h *Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.supervisors {
		if p := s.current(); p != nil {
			p.markBroken("a test says so")
		}
	}
}
