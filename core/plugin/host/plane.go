package host

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
)

// segmentSize is the size of each of the two segments. The segments are sparse: they
// use memory only for pages that were accessed.
const segmentSize = 256 << 20

// If the response segment is unused for trimAfter and has at least trimAbove bytes of
// pages, the host returns the pages to the system.
const (
	trimAfter = 10 * time.Second
	trimAbove = 16 << 20
)

// plane is the shared memory of one process: two segments and the channel. The plugin
// can read the request segment and write to the response segment. Only the host tracks
// which regions are allocated.
type plane struct {
	request, response segment
	poison            bool          // see Options.Poison
	poisons           atomic.Uint32 // number of regions overwritten
	channel           *os.File      // the host's end of the channel
	files             []*os.File    // inherited by the child, starting at descriptor 3

	mu     sync.Mutex
	users  int // number of calls that may access the memory
	closed bool
	timer  *time.Timer // calls trim

	inputMu    sync.Mutex
	inputs     map[int64]*lentInput // by offset in the request segment
	inputBytes int64                // total size of inputs
	resident   []bool               // for each minRegion bytes of the request segment: whether their pages are allocated

	lentMu sync.Mutex
	lent   map[uint64]*os.File // received files by tag; nil if no descriptor was free

	tag     atomic.Uint64 // tag of the last read that may be answered with a file
	lending atomic.Int64  // number of lent files that may be in transit
	lendMax int64         // maximum of lending: maxLent, but at most a quarter of the descriptor limit
}

// segment is a mapped segment with its allocator.
type segment struct {
	*arena
	mem []byte
}

// of returns the first n bytes of a region.
func (s *segment) of(r region, n int64) []byte { return s.mem[r.off : r.off+n : r.off+r.size] }

// allocResponse allocates a region of the response segment.
func (p *plane) allocResponse(n int64) (region, bool) {
	r, ok := p.response.alloc(n)
	if ok && p.poison {
		mem := p.response.of(r, r.size)
		fill := byte(p.poisons.Add(1) * 0x35) // odd, so that a value repeats only after 256 calls
		_ = guardFault(mem, func() {          // a later access to the memory reports the fault
			mem[0] = fill
			for n := 1; n < len(mem); n *= 2 { // faster than a loop over bytes
				copy(mem[n:], mem[:n])
			}
		})
	}
	return r, ok
}

// newPlane creates the shared memory for a process that is about to be started. It
// returns nil on systems without sealed shared memory.
func newPlane() (*plane, error) {
	if !shm.Available {
		return nil, nil // only level 0 is available
	}
	p := &plane{
		lent: map[uint64]*os.File{}, lendMax: min(maxLent, shm.MaxFiles()/4),
		inputs: map[int64]*lentInput{}, resident: make([]bool, segmentSize/minRegion),
	}
	err := p.create()
	if err != nil {
		p.closeSent()
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *plane) create() error {
	reqMem, req, err := shm.Create("nczarr-request", segmentSize, true)
	if err != nil {
		return err
	}
	p.request = segment{newArena(segmentSize), reqMem}
	p.files = append(p.files, req)
	var childEnd *os.File
	if p.channel, childEnd, err = shm.Pair(); err != nil {
		return err
	}
	p.files = append(p.files, childEnd)
	respMem, resp, err := shm.Create("nczarr-response", segmentSize, false)
	if err != nil {
		return err
	}
	p.response = segment{newArena(segmentSize), respMem}
	p.files = append(p.files, resp)
	return nil
}

// planeFiles returns the files that the child inherits as descriptors 3, 4 and 5, and
// the environment variable for the channel. It returns nothing for a nil plane. The
// caller must call closeSent after the start, even if the start failed.
func (p *plane) planeFiles() (files []*os.File, env []string) {
	if p == nil {
		return nil, nil
	}
	return p.files, []string{handshake.EnvChannel + "=" + strconv.Itoa(handshake.FDChannel)}
}

// closeSent closes the host's copies of the files that the child inherits.
func (p *plane) closeSent() {
	if p != nil {
		closeAll(p.files)
		p.files = nil
	}
}

// Segment ids in the protocol.
const (
	requestSegment  = 1
	responseSegment = 2
)

// enter keeps the memory mapped until leave is called. It returns false if the plane is
// closed.
func (p *plane) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.users++
	return true
}

// leave undoes one call of enter. It unmaps the memory of a closed plane after the last
// use.
func (p *plane) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	if p.closed && p.users == 0 {
		p.unmap()
	}
}

// close unmaps the memory as soon as no call accesses it. The process must be dead, or
// must not have been started.
func (p *plane) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.users == 0 {
		p.unmap()
	}
}

// unmap releases the segments, the channel and lent files. It is called once, with mu
// held.
func (p *plane) unmap() {
	for _, s := range []*segment{&p.request, &p.response} {
		if s.mem != nil {
			_ = shm.Unmap(s.mem) // unmapping our own mapping cannot fail
			s.mem = nil
		}
	}
	if p.channel != nil {
		_ = p.channel.Close()
	}
	p.lentMu.Lock()
	defer p.lentMu.Unlock()
	for tag, f := range p.lent {
		if f != nil {
			_ = f.Close()
		}
		delete(p.lent, tag)
	}
}

// freeResponse frees a response region. It schedules trim if the segment is unused and
// has many pages.
func (p *plane) freeResponse(r region) {
	if !p.response.free(r) || p.response.peak() < trimAbove {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
	case p.timer == nil:
		p.timer = time.AfterFunc(trimAfter, p.trim)
	default:
		p.timer.Reset(trimAfter)
	}
}

// trim returns the pages of the response segment to the system if the segment is
// unused.
func (p *plane) trim() {
	if !p.enter() {
		return
	}
	defer p.leave()
	p.response.trim(func(n int64) {
		_ = shm.Release(p.response.mem[:n]) // after a failure the pages stay allocated, which is harmless
	})
}
