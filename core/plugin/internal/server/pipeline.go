package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

const (
	// maxPipelines limits the number of open pipelines.
	maxPipelines = 1 << 16
	// maxSteps limits the number of steps of one pipeline. It is the number of bits of
	// Job.skip.
	maxSteps = 32
)

// codecService implements the codec service.
type codecService struct {
	pb.UnimplementedCodecServer
	s         *Server
	providers map[string]codecdriver.Provider

	pool  sync.Pool     // elements are *scratch
	cores chan struct{} // has one element for each running group of jobs

	mu        sync.Mutex
	last      uint64
	pipelines map[uint64]*pipeline
	tokens    tokens
}

// pipeline is a sequence of opened steps.
type pipeline struct {
	ids    []string
	codecs []codecdriver.Codec
	specs  []codecdriver.Spec // specs before the first step and after each step
}

func (c *codecService) OpenPipeline(ctx context.Context, r *pb.OpenPipelineRequest) (*pb.OpenPipelineReply, error) {
	p, err := c.open(r)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pipelines) >= maxPipelines {
		return nil, wire.Status(ctx, ncerr.Errorf(ncerr.ErrLimit, "open pipeline", "", "the plugin has %d open pipelines, which is the limit", len(c.pipelines)))
	}
	if ctx.Err() != nil { // the host would not receive the handle
		return nil, wire.Status(ctx, ctx.Err())
	}
	c.last++
	c.pipelines[c.last] = p
	c.tokens.add(r.GetToken(), c.last)
	reply := &pb.OpenPipelineReply{Handle: c.last}
	for _, s := range p.specs[1:] {
		reply.Outputs = append(reply.Outputs, wire.SpecToWire(s))
	}
	return reply, nil
}

func (c *codecService) open(r *pb.OpenPipelineRequest) (*pipeline, error) {
	steps := wire.StepsFromWire(r.GetSteps())
	if len(steps) == 0 || len(steps) > maxSteps {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open pipeline", "", "the pipeline has %d steps, not 1 to %d", len(steps), maxSteps)
	}
	spec, err := wire.SpecFromWire(r.GetInput())
	if err != nil {
		return nil, err
	}
	p := &pipeline{specs: []codecdriver.Spec{spec}}
	for _, step := range steps {
		provider := c.providers[step.ID]
		if provider == nil {
			return nil, ncerr.Errorf(ncerr.ErrNoFilter, "open codec", step.ID, "the plugin has no such codec")
		}
		codec, out, err := provider.Open(step.ID, step.Params, spec)
		if err != nil {
			return nil, ncerr.Wrap("open codec", step.ID, err)
		}
		if limit := c.s.maxObject.Load(); out.MaxBytes < 0 || out.MaxBytes > limit || spec.MaxBytes > limit {
			return nil, ncerr.Errorf(ncerr.ErrLimit, "open codec", step.ID, "a chunk may have %d bytes, or %d bytes when encoded, more than the limit of %d", spec.MaxBytes, out.MaxBytes, limit)
		}
		p.ids, p.codecs, p.specs = append(p.ids, step.ID), append(p.codecs, codec), append(p.specs, out)
		spec = out
	}
	return p, nil
}

func (c *codecService) ClosePipeline(_ context.Context, r *pb.ClosePipelineRequest) (*pb.ClosePipelineReply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range r.GetHandles() {
		c.tokens.forget(h)
		delete(c.pipelines, h)
	}
	for _, t := range r.GetTokens() {
		if h, ok := c.tokens.take(t); ok {
			delete(c.pipelines, h)
		}
	}
	return &pb.ClosePipelineReply{}, nil
}

func (c *codecService) get(handle uint64) (*pipeline, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pipelines[handle]; p != nil {
		return p, nil
	}
	return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "unknown pipeline handle %d", handle)
}

// scratch contains two output buffers, which the steps of a job use alternately.
type scratch [2][]byte

// call is one step in one direction.
type call struct {
	step int
	run  func(ctx context.Context, dst, src []byte) (int, error)
	max  int64 // largest output size
	// exact reports whether max is the size of every output.
	exact bool
}

func exact(s codecdriver.Spec) bool { return s.Kind == codecdriver.Array && s.DType.Fixed() }

// plan returns the calls for op in the order in which they run. Bit i of skip omits
// step i.
func (p *pipeline) plan(op pb.Op, skip uint32) []call {
	var calls []call
	for i, c := range p.codecs {
		if skip&(1<<i) != 0 {
			continue
		}
		if op == pb.Op_OP_ENCODE {
			calls = append(calls, call{i, c.Encode, p.specs[i+1].MaxBytes, exact(p.specs[i+1])})
		} else {
			calls = append([]call{{i, c.Decode, p.specs[i].MaxBytes, exact(p.specs[i])}}, calls...)
		}
	}
	return calls
}

// run runs the steps on src and returns the result. If final is not nil, the result is
// in final. Otherwise it is in buf, or is src itself if every step is skipped.
func (p *pipeline) run(ctx context.Context, op pb.Op, skip uint32, src, final []byte, limit int64, buf *scratch) ([]byte, error) {
	calls := p.plan(op, skip)
	if final != nil {
		limit = min(limit, int64(len(final)))
	}
	if len(calls) == 0 && int64(len(src)) > limit {
		return nil, codecdriver.ShortBuffer("copy", int(limit))
	}
	for i, c := range calls {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		last := i == len(calls)-1
		size := c.max
		if last {
			size = min(size, limit)
		}
		var dst []byte
		var n int
		var err error
		if last && final != nil {
			dst = final[:size]
			n, err = guarded(ctx, c.run, dst, src)
		} else {
			dst, n, err = into(ctx, &c, src, size, i%2, buf)
		}
		if err == nil && (n < 0 || n > len(dst)) {
			err = ncerr.Errorf(ncerr.ErrInternal, "", "", "the codec returned a length of %d bytes for a buffer of %d", n, len(dst))
		}
		if err != nil {
			return nil, filterError(op, p.ids[c.step], err)
		}
		src = dst[:n]
	}
	if len(calls) == 0 && final != nil {
		return final[:copy(final, src)], nil
	}
	return src, nil
}

// fullAllocSize is the size in bytes up to which an output buffer is allocated
// immediately. If the output size is only an upper bound, a larger buffer grows as
// needed.
const fullAllocSize = 16 << 20

// into runs a step with buffer i of buf as its output of at most size bytes. It repeats
// the step with a larger buffer if the codec returns ErrShortBuffer.
func into(ctx context.Context, c *call, src []byte, size int64, i int, buf *scratch) (dst []byte, n int, err error) {
	allocSize := size
	if !c.exact {
		allocSize = min(size, max(fullAllocSize, 4*int64(len(src))))
	}
	for {
		if int64(cap(buf[i])) < allocSize {
			buf[i] = make([]byte, allocSize)
		}
		dst = buf[i][:allocSize]
		n, err = guarded(ctx, c.run, dst, src)
		if allocSize == size || ncerr.KindOf(err) != ncerr.ErrShortBuffer {
			return dst, n, err
		}
		allocSize = min(size, 4*allocSize)
	}
}

// guarded calls run. It returns a panic or a memory fault as an error, and logs the
// stack. A codec that writes to its input causes a fault at level 1, where the input is
// read-only.
func guarded(ctx context.Context, run func(context.Context, []byte, []byte) (int, error), dst, src []byte) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "panic in a codec: %v\n%s", r, debug.Stack())
			err = ncerr.Errorf(ncerr.ErrFilter, "", "", "panic: %v", r)
			if fault, ok := r.(interface{ Addr() uintptr }); ok && within(fault.Addr(), src) {
				err = ncerr.Errorf(ncerr.ErrFilter, "", "", "the codec wrote to its input, which is read-only")
			}
		}
	}()
	return run(ctx, dst, src)
}

// within reports whether at is the address of a byte of b.
func within(at uintptr, b []byte) bool {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= base && at-base < uintptr(len(b))
}

// filterError adds the operation and the step's id to err. An error without a kind
// becomes ncerr.ErrFilter.
func filterError(op pb.Op, id string, err error) error {
	verb := "decode"
	if op == pb.Op_OP_ENCODE {
		verb = "encode"
	}
	var e *ncerr.Error
	var k ncerr.Kind
	if ncerr.IsContext(err) || errors.As(err, &e) || errors.As(err, &k) {
		return ncerr.Wrap(verb, id, err)
	}
	return ncerr.New(ncerr.ErrFilter, verb, id, err)
}
