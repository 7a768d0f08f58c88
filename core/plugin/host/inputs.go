package host

import (
	"sync"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
)

// maxLentInput is how much of the request segment callers may hold: the rest
// is for the jobs of those who hold nothing.
const maxLentInput = segmentSize / 2

var _ codecdriver.InputLender = (*remotePipeline)(nil)

// LendInput implements driver.InputLender: a region of the request segment,
// while the process runs and there is room.
func (r *remotePipeline) LendInput(n int64) (mem []byte, release func()) {
	s := r.current()
	if s == nil || s.p.level == 0 || !s.p.plane.enter() {
		return nil, nil
	}
	p := s.p.plane
	in := p.lendInput(n)
	if in == nil {
		p.leave()
		return nil, nil
	}
	return p.request.of(in.region, n), sync.OnceFunc(func() {
		p.dropInput(in)
		p.leave()
	})
}

// lentInput is a region of the request segment that a caller fills. It is
// given out again when neither the caller nor a job holds it: a job that was
// left behind may be read by the plugin for a while.
type lentInput struct {
	region
	holders int
}

// lendInput takes a region of n bytes for a caller, or gives nil.
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
	if !p.populate(r) {
		p.request.free(r)
		return nil
	}
	in := &lentInput{region: r, holders: 1}
	p.inputs[r.off] = in
	p.inputBytes += r.size
	return in
}

// smallestPage is no larger than a page of any system.
const smallestPage = 4 << 10

// populate gives a region its pages, which then stay, so that writing to it
// cannot fault; false means that the system has no memory left. inputMu is
// held.
func (p *plane) populate(r region) bool {
	return guardFault(p.request.of(r, r.size), func() {
		for i := r.off / minRegion; i < (r.off+r.size)/minRegion; i++ {
			for at := i * minRegion; !p.resident[i] && at < (i+1)*minRegion; at += smallestPage {
				p.request.mem[at] = 0
			}
			p.resident[i] = true
		}
	}) == nil
}

// dropInput ends one hold.
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

// holdInput gives the lent region that src is the start of, held until
// dropInput; nil when src is other memory.
func (p *plane) holdInput(src []byte) *lentInput {
	off, inside := p.request.offset(src)
	if !inside {
		return nil
	}
	p.inputMu.Lock()
	defer p.inputMu.Unlock()
	in := p.inputs[off]
	if in == nil || int64(len(src)) > in.size {
		return nil
	}
	in.holders++
	return in
}
