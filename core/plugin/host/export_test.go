package host

import (
	"time"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"
)

// SetKernel makes a host use k as the features of the kernel.
func SetKernel(o *Options, k sandbox.Support) { o.kernel = func() sandbox.Support { return k } }

// SetAllowList makes all filters run under the allow list, even in dynamically linked
// programs.
func SetAllowList(o *Options) { o.allowList = true }

// SetCheckEvery sets the interval of a host's checks of private directories.
func SetCheckEvery(o *Options, d time.Duration) { o.checkEvery = d }

// SetCallTimeout sets the CallTimeout of later calls. No call may be in progress.
func SetCallTimeout(h *Host, d time.Duration) { h.opts.CallTimeout = d }

// BreakAll makes a host kill all its processes as if they had violated the
// protocol.
func BreakAll(h *Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.supervisors {
		if p := s.current(); p != nil {
			p.markBroken("requested by a test")
		}
	}
}
