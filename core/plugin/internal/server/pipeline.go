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
	// maxPipelines is the number of pipelines that one plugin has open.
	maxPipelines = 1 << 16
	// maxSteps is the number of steps of one pipeline: the bits of Job.skip.
	maxSteps = 32
)

// codecService answers the codec calls.
type codecService struct {
	pb.UnimplementedCodecServer
	s         *Server
	providers map[string]codecdriver.Provider

	pool sync.Pool // of *scratch

	mu        sync.Mutex
	last      uint64
	pipelines map[uint64]*pipeline
	tokens    tokens
}

// pipeline is a run of opened steps.
type pipeline struct {
	ids    []string
	codecs []codecdriver.Codec
	specs  []codecdriver.Spec // before the first step, then after each
}

func (c *codecService) OpenPipeline(ctx context.Context, r *pb.OpenPipelineRequest) (*pb.OpenPipelineReply, error) {
	p, err := c.open(r)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pipelines) >= maxPipelines {
		return nil, wire.Status(ctx, ncerr.Errorf(ncerr.ErrLimit, "open pipeline", "", "%d pipelines are open", len(c.pipelines)))
	}
	if ctx.Err() != nil { // nobody will learn the handle
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
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open pipeline", "", "%d steps", len(steps))
	}
	spec, err := wire.SpecFromWire(r.GetInput())
	if err != nil {
		return nil, err
	}
	p := &pipeline{specs: []codecdriver.Spec{spec}}
	for _, step := range steps {
		provider := c.providers[step.ID]
		if provider == nil {
			return nil, ncerr.Errorf(ncerr.ErrNoFilter, "open codec", step.ID, "this plugin does not have it")
		}
		codec, out, err := provider.Open(step.ID, step.Params, spec)
		if err != nil {
			return nil, ncerr.Wrap("open codec", step.ID, err)
		}
		if limit := c.s.maxObject.Load(); out.MaxBytes < 0 || out.MaxBytes > limit || spec.MaxBytes > limit {
			return nil, ncerr.Errorf(ncerr.ErrLimit, "open codec", step.ID, "chunks of %d bytes, %d encoded; the limit is %d", spec.MaxBytes, out.MaxBytes, limit)
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
	return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "no open pipeline has the handle %d", handle)
}

// scratch is the memory of one job between steps.
type scratch [2][]byte

// of gives the i-th buffer with n bytes.
func (s *scratch) of(i int, n int64) []byte {
	if int64(cap(s[i])) < n {
		s[i] = make([]byte, n)
	}
	return s[i][:n]
}

// call is one step in one direction.
type call struct {
	step int
	run  func(ctx context.Context, dst, src []byte) (int, error)
	max  int64 // size of the largest output
	// exact says that max is the size of every output.
	exact bool
}

func exact(s codecdriver.Spec) bool { return s.Kind == codecdriver.Array && s.DType.Fixed() }

// plan lists the steps that were applied, in the order they are to run.
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

// run takes src through the steps. The result is in final when that is not
// nil; else it is src itself when every step is skipped, or memory of buf.
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
			err = ncerr.Errorf(ncerr.ErrInternal, "", "", "codec claims to have written %d of %d bytes", n, len(dst))
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

// eager is the size in bytes up to which memory for an output is taken at once.
// Above it, where sizes are ceilings rather than sizes, it grows with what the
// input really holds.
const eager = 16 << 20

// into runs a step into the i-th buffer, with at most size bytes of it.
func into(ctx context.Context, c *call, src []byte, size int64, i int, buf *scratch) (dst []byte, n int, err error) {
	room := size
	if !c.exact {
		room = min(size, max(eager, 4*int64(len(src))))
	}
	for {
		dst = buf.of(i, room)
		n, err = guarded(ctx, c.run, dst, src)
		if room == size || ncerr.KindOf(err) != ncerr.ErrShortBuffer {
			return dst, n, err
		}
		room = min(size, 4*room)
	}
}

// guarded turns a panic of a codec into an error; the stack goes to the log.
// So is a fault: the input of level 1 cannot be written to.
func guarded(ctx context.Context, run func(context.Context, []byte, []byte) (int, error), dst, src []byte) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "panic in a codec: %v\n%s", r, debug.Stack())
			err = ncerr.Errorf(ncerr.ErrFilter, "", "", "panic: %v", r)
			if fault, ok := r.(interface{ Addr() uintptr }); ok && within(fault.Addr(), src) {
				err = ncerr.Errorf(ncerr.ErrFilter, "", "", "memory fault in the input: the codec wrote to it, but may only read it")
			}
		}
	}()
	return run(ctx, dst, src)
}

// within reports whether an address lies in b.
func within(at uintptr, b []byte) bool {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= base && at-base < uintptr(len(b))
}

// filterError names the step in err; a raw error becomes ncerr.ErrFilter.
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
