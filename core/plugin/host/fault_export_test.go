//go:build linux

package host

import "golang.org/x/sys/unix"

// FaultRequests makes each write to the request segments of a host's
// processes fault, as it does when the system has no page, and gives how many
// segments there are.
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

// LimitLending lets so many files be on their way from the processes of a host.
func LimitLending(h *Host, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.supervisors {
		if p := s.current(); p != nil && p.plane != nil {
			p.plane.lendMax = n
		}
	}
}
