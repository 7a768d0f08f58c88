package host

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
)

// segmentSize is the size of each of the two segments. They are sparse: only
// what is used takes memory.
const segmentSize = 256 << 20

// trimAfter is how long the response segment is unused before its pages go
// back to the system, if there are more than trimAbove bytes of them.
const (
	trimAfter = 10 * time.Second
	trimAbove = 16 << 20
)

// plane is the shared memory of one process: two segments and the channel. The
// plugin can read the request segment and write to the response segment; what
// is given out where is known to the host alone.
type plane struct {
	request, response segment
	poison            bool          // see Options.Poison
	poisons           atomic.Uint32 // regions that were overwritten
	channel           *os.File      // the host's end
	files             []*os.File    // for the child, from descriptor 3 on

	mu     sync.Mutex
	users  int // calls that may look into the memory
	closed bool
	timer  *time.Timer // trims

	inputMu    sync.Mutex
	inputs     map[int64]*lentInput // by their offset in the request segment
	inputBytes int64                // of their regions
	resident   []bool               // which parts of minRegion bytes of the request segment have pages

	lentMu sync.Mutex
	lent   map[uint64]*os.File // received, not yet taken; nil where there was no descriptor

	tag     atomic.Uint64 // of the last file that may be lent
	lending atomic.Int64  // files that may be on their way
	lendMax int64
}

// segment is a mapped segment and what is given out of it.
type segment struct {
	*arena
	mem []byte
}

// of gives the first n bytes of a region.
func (s *segment) of(r region, n int64) []byte { return s.mem[r.off : r.off+n : r.off+r.size] }

// answerRoom gives out a region of the response segment.
func (p *plane) answerRoom(n int64) (region, bool) {
	r, ok := p.response.alloc(n)
	if ok && p.poison {
		mem := p.response.of(r, r.size)
		fill := byte(p.poisons.Add(1) * 0x35) // odd, so that it takes 256 calls until the same comes again
		_ = guardFault(mem, func() {          // a page that cannot be reached is told when it is needed
			mem[0] = fill
			for n := 1; n < len(mem); n *= 2 { // faster than a loop over bytes
				copy(mem[n:], mem[:n])
			}
		})
	}
	return r, ok
}

// newPlane makes the shared memory for a process that is about to be started.
// Where the system has none it gives nil.
func newPlane() (*plane, error) {
	if !shm.Available {
		return nil, nil // level 0 is all there is
	}
	p := &plane{
		lent: map[uint64]*os.File{}, lendMax: lentLimit(),
		inputs: map[int64]*lentInput{}, resident: make([]bool, segmentSize/minRegion),
	}
	err := p.create()
	if err != nil {
		p.sent()
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
	var theirs *os.File
	if p.channel, theirs, err = shm.Pair(); err != nil {
		return err
	}
	p.files = append(p.files, theirs)
	respMem, resp, err := shm.Create("nczarr-response", segmentSize, false)
	if err != nil {
		return err
	}
	p.response = segment{newArena(segmentSize), respMem}
	p.files = append(p.files, resp)
	return nil
}

// planeFiles gives what the child inherits, to be its descriptors 3, 4 and 5,
// and the environment that names the channel. A nil plane has none. After the
// start, or its failure, sent closes them here.
func (p *plane) planeFiles() (files []*os.File, env []string) {
	if p == nil {
		return nil, nil
	}
	return p.files, []string{handshake.EnvChannel + "=" + strconv.Itoa(handshake.FDChannel)}
}

// sent closes the files that the child has inherited.
func (p *plane) sent() {
	if p != nil {
		closeAll(p.files)
		p.files = nil
	}
}

// segments tells the plugin what it has inherited.
func (p *plane) segments() []*pb.Segment {
	return []*pb.Segment{
		{Id: requestSegment, Fd: handshake.FDRequest, Size: segmentSize},
		{Id: responseSegment, Fd: handshake.FDResponse, Size: segmentSize, Writable: true},
	}
}

// The ids of the segments.
const (
	requestSegment  = 1
	responseSegment = 2
)

// enter keeps the memory mapped until leave; it fails when the process is gone.
func (p *plane) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.users++
	return true
}

// leave ends enter.
func (p *plane) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	if p.closed && p.users == 0 {
		p.unmap()
	}
}

// close gives everything back as soon as no call looks into the memory any
// more. The process is gone, or was never started.
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

// unmap is called with mu held, once.
func (p *plane) unmap() {
	for _, s := range []*segment{&p.request, &p.response} {
		if s.mem != nil {
			_ = shm.Unmap(s.mem) // of our own mapping: cannot fail
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

// freeResponse takes a response region back, and sees to it that unused pages
// go back to the system after a while.
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

// trim gives the pages of the response segment back if it is unused.
func (p *plane) trim() {
	if !p.enter() {
		return
	}
	defer p.leave()
	p.response.trim(func(n int64) {
		_ = shm.Release(p.response.mem[:n]) // the pages stay: no harm
	})
}
