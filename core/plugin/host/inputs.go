package host

import (
	"sync"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// maxLentInput limits the total size of lent regions of the request segment. The rest
// is reserved for jobs whose input is not in lent memory.
const maxLentInput = segmentSize / 2

var (
	_ codecdriver.InputLender = (*remotePipeline)(nil)
	_ driver.BodyLender       = (*remoteMap)(nil)
)

// LendInput implements driver.InputLender. It lends a region of the request segment, or
// returns nil if the process is not running at level 1 or the segment has no room.
func (r *remotePipeline) LendInput(n int64) (mem []byte, release func()) {
	return r.current().lend(n)
}

// LendBody implements driver.BodyLender in the same way.
func (m *remoteMap) LendBody(n int64) (mem []byte, release func()) {
	s, err := m.current()
	if err != nil {
		return nil, nil // the put returns the error
	}
	return s.lend(n)
}

// lend lends n bytes of the request segment of the process of s. s may be nil.
func (s *session) lend(n int64) (mem []byte, release func()) {
	if s == nil || s.p.level == 0 || !s.p.plane.enter() {
		return nil, nil
	}
	p := s.p.plane
	in := p.lendInput(n)
	if in == nil {
		p.leave()
		return nil, nil
	}
	return p.request.of(in.region, n)[:n:in.usable], sync.OnceFunc(func() {
		p.dropInput(in)
		p.leave()
	})
}

// lentInput is a region of the request segment that a caller fills. The region is freed
// when the caller has released it and no job uses it. An abandoned job uses it until
// the plugin has answered.
type lentInput struct {
	region
	usable  int64 // bytes of the region whose pages are allocated
	holders int   // the caller and the jobs that use the region
}

// lendInput allocates a region of n bytes for a caller, or returns nil.
func (p *plane) lendInput(n int64) *lentInput {
	p.inputMu.Lock()
	defer p.inputMu.Unlock()
	if n <= 0 || p.inputBytes+minRegion<<orderOf(n) > maxLentInput {
		return nil
	}
	r, ok := p.request.alloc(n)
	if !ok {
		return nil
	}
	usable := (n + minRegion - 1) / minRegion * minRegion
	if !p.populate(r.off, usable) {
		p.request.free(r)
		return nil
	}
	in := &lentInput{region: r, usable: usable, holders: 1}
	p.inputs[r.off] = in
	p.inputBytes += r.size
	return in
}

// smallestPage is no larger than the page size of any system.
const smallestPage = 4 << 10

// populate allocates the pages of n bytes of the request segment, so that writing to them
// cannot fault. Both numbers are multiples of minRegion. The pages stay allocated. It returns
// false if the system is out of memory. The caller holds inputMu.
func (p *plane) populate(off, n int64) bool {
	return guardFault(p.request.mem[off:off+n], func() {
		for i := off / minRegion; i < (off+n)/minRegion; i++ {
			for at := i * minRegion; !p.resident[i] && at < (i+1)*minRegion; at += smallestPage {
				p.request.mem[at] = 0
			}
			p.resident[i] = true
		}
	}) == nil
}

// dropInput removes a holder of a region. It frees the region if no holder is left.
func (p *plane) dropInput(in *lentInput) {
	p.inputMu.Lock()
	defer p.inputMu.Unlock()
	if in.holders--; in.holders > 0 {
		return
	}
	delete(p.inputs, in.off)
	p.inputBytes -= in.size
	p.request.free(in.region)
}

// holdInput returns the lent region that starts with src and adds a holder to it, which
// the caller must remove with dropInput. It returns nil if src is not in lent memory.
func (p *plane) holdInput(src []byte) *lentInput {
	off, inside := p.request.offset(src)
	if !inside {
		return nil
	}
	p.inputMu.Lock()
	defer p.inputMu.Unlock()
	in := p.inputs[off]
	if in == nil || int64(len(src)) > in.usable {
		return nil
	}
	in.holders++
	return in
}
