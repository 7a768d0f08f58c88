//go:build linux

package host

import "golang.org/x/sys/unix"

// FaultRequests makes each write to the request segments of a host's processes fault,
// as if the system were out of memory. It returns the number of segments.
func FaultRequests(h *Host) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.supervisors {
		if p := s.current(); p != nil && p.level > 0 && err == nil {
			n++
			err = unix.Mprotect(p.plane.request.mem, unix.PROT_NONE)
		}
	}
	return n, err
}

// LimitLending limits the number of lent files in transit from each process of a host
// to n.
func LimitLending(h *Host, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.supervisors {
		if p := s.current(); p != nil && p.plane != nil {
			p.plane.lendMax = n
		}
	}
}
