package host

import (
	"context"
	"encoding/json"
	"reflect"
	"runtime"
	"sync"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

// provider opens codecs of one plugin, all of them in one process.
type provider struct {
	h       *Host
	program *program
}

var (
	_ codecdriver.Provider       = (*provider)(nil)
	_ codecdriver.PipelineOpener = (*provider)(nil)
)

func (p *provider) supervisor() (*supervisor, error) {
	set, err := p.h.filterSet(p.program)
	if err != nil {
		return nil, err
	}
	return p.h.supervisor(p.program, set), nil
}

// Describe implements driver.Provider. A plugin that was not started yet is
// started to be asked; when that fails only names are given, and Open says
// what went wrong.
func (p *provider) Describe() []codecdriver.Description {
	if p.program.builtin {
		return p.h.opts.Builtin.Filters()
	}
	if !p.program.isKnown() {
		_ = p.h.ask(p.h.ctx, p.program) // Open reports it
	}
	_, cs := p.program.describe()
	return cs
}

// Open implements driver.Provider: a pipeline of one step.
func (p *provider) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	r, specs, err := p.open(p.h.ctx, []codecdriver.Step{{ID: id, Params: params}}, in)
	if err != nil {
		return nil, codecdriver.Spec{}, err
	}
	c := &remoteCodec{r}
	runtime.AddCleanup(c, func(r *remotePipeline) { r.forget() }, r) // a Codec has no Close
	return c, specs[0], nil
}

// OpenPipeline implements driver.PipelineOpener.
func (p *provider) OpenPipeline(ctx context.Context, steps []codecdriver.Step, in codecdriver.Spec) (codecdriver.Pipeline, []codecdriver.Spec, error) {
	r, specs, err := p.open(ctx, steps, in)
	if err != nil {
		return nil, nil, err
	}
	return r, specs, nil
}

func (p *provider) open(ctx context.Context, steps []codecdriver.Step, in codecdriver.Spec) (*remotePipeline, []codecdriver.Spec, error) {
	s, err := p.supervisor()
	if err != nil {
		return nil, nil, err
	}
	r := &remotePipeline{supervisor: s, steps: steps, in: in, opening: newGate()}
	for attempt := 0; ; attempt++ {
		_, err := r.session(ctx)
		if err == nil {
			return r, r.specs, nil
		}
		if _, again := isLost(err); !again || attempt > 0 {
			return nil, nil, err
		}
	}
}

// remotePipeline is a pipeline in a plugin process. It has no state there
// that a fresh process could not be given again.
type remotePipeline struct {
	supervisor *supervisor
	steps      []codecdriver.Step
	in         codecdriver.Spec

	opening gate               // held while opening
	specs   []codecdriver.Spec // set by the first opening

	mu   sync.Mutex
	sess *session
}

var _ codecdriver.Pipeline = (*remotePipeline)(nil)

// session gives the handle in a running process.
func (r *remotePipeline) session(ctx context.Context) (*session, error) {
	if s := r.current(); s != nil {
		return s, nil
	}
	if err := r.opening.enter(ctx); err != nil {
		return nil, err
	}
	defer r.opening.leave()
	if s := r.current(); s != nil {
		return s, nil
	}
	s, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sess = s
	return s, nil
}

// current gives the handle when its process is alive, or nil.
func (r *remotePipeline) current() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sess != nil && r.sess.p.alive() {
		return r.sess
	}
	return nil
}

// open opens the pipeline in the running process.
func (r *remotePipeline) open(ctx context.Context) (*session, error) {
	p, err := r.supervisor.acquire(ctx)
	if err != nil {
		return nil, err
	}
	w := p.watch(ctx)
	defer w.end()
	if old := p.discarded(); old != nil {
		if _, err := p.codec.ClosePipeline(w.ctx, old); err != nil {
			return nil, w.fail(ctx, err)
		}
	}
	token := p.tokens.Add(1)
	reply, err := p.codec.OpenPipeline(w.ctx, &pb.OpenPipelineRequest{Steps: wire.StepsToWire(r.steps), Input: wire.SpecToWire(r.in), Token: token})
	if err := w.fail(ctx, err); err != nil {
		if ncerr.IsContext(err) {
			p.discard(0, token) // it may be open all the same
		}
		return nil, err
	}
	specs, err := wire.SpecsFromReply(reply.GetOutputs(), len(r.steps))
	if err == nil && !p.supervisor.program.builtin {
		err = r.bounded(specs)
	}
	if err == nil && r.specs != nil && !reflect.DeepEqual(specs, r.specs) {
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "a pipeline has other specs when it is opened again")
	}
	if err != nil {
		return nil, p.broke(err)
	}
	r.specs = specs
	return &session{p: p, handle: reply.GetHandle()}, nil
}

// A plugin of others may say that a chunk becomes up to freeOutput bytes, as far
// as core/codec allows. A larger one may only double.
const freeOutput = 1 << 30

// bounded checks how large a plugin says that a chunk becomes: memory is taken
// on that word.
func (r *remotePipeline) bounded(specs []codecdriver.Spec) error {
	for i, s := range specs {
		if s.MaxBytes > max(2*r.in.MaxBytes, freeOutput) {
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "it says that step %d makes up to %d bytes of a chunk of %d", i+1, s.MaxBytes, r.in.MaxBytes)
		}
	}
	return nil
}

// forget has the plugin told, at the next occasion, that the handle is free.
func (r *remotePipeline) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sess != nil {
		r.sess.p.discard(r.sess.handle, 0)
		r.sess = nil
	}
}

// Close implements driver.Pipeline.
func (r *remotePipeline) Close() error {
	r.forget()
	return nil
}

// DecodeMany implements driver.Pipeline.
func (r *remotePipeline) DecodeMany(ctx context.Context, jobs []codecdriver.Job, sink codecdriver.Sink) error {
	return r.exec(ctx, pb.Op_OP_DECODE, jobs, sink)
}

// EncodeMany implements driver.Pipeline.
func (r *remotePipeline) EncodeMany(ctx context.Context, jobs []codecdriver.Job, sink codecdriver.Sink) error {
	return r.exec(ctx, pb.Op_OP_ENCODE, jobs, sink)
}

// exec does the jobs. Those that a dying process did not finish are done again
// on a fresh one, each by itself, so that one that ends the process fails
// alone.
func (r *remotePipeline) exec(ctx context.Context, op pb.Op, jobs []codecdriver.Job, sink codecdriver.Sink) error {
	x := &execution{r: r, op: op, jobs: jobs, sink: sink, out: make([]output, len(jobs))}
	for i := range jobs {
		if n := int64(len(jobs[i].Src)); n > r.supervisor.host.opts.MaxObject {
			x.finish(i, nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "a chunk of %d bytes; the limit is %d", n, r.supervisor.host.opts.MaxObject))
		}
	}
	open := x.undone(nil)
	if len(open) == 0 {
		return nil
	}
	_, err := x.try(ctx, open)
	if _, again := isLost(err); !again {
		return err
	}
	for _, i := range x.undone(open) {
		if err := x.singly(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// soloTries is how often a job is tried by itself while other calls are at
// work in the process, which may be to blame.
const soloTries = 3

// singly does one job by itself. When the process dies of it, the job fails,
// and its error goes to the sink.
func (x *execution) singly(ctx context.Context, i int) error {
	for try := 1; ; try++ {
		alone, err := x.try(ctx, []int{i})
		if _, again := isLost(err); !again {
			return err
		}
		if alone || try == soloTries {
			x.finish(i, nil, ncerr.Errorf(ncerr.ErrPlugin, "", "", "this chunk ends the plugin each time: %w", err))
			return nil
		}
	}
}

// try makes one attempt at the jobs open. alone says that no other call was at
// work in the process meanwhile.
func (x *execution) try(ctx context.Context, open []int) (alone bool, err error) {
	s, err := x.r.session(ctx)
	if err != nil {
		return false, err
	}
	before, total := s.p.execs.Add(1), s.p.execsEver.Add(1)
	defer s.p.execs.Add(-1)
	err = x.attempt(ctx, s, open)
	return before == 1 && total == s.p.execsEver.Load(), err
}

// execution is one call of EncodeMany or DecodeMany.
type execution struct {
	r    *remotePipeline
	op   pb.Op
	jobs []codecdriver.Job
	sink codecdriver.Sink
	out  []output
}

// output is what has come for one job.
type output struct {
	done  bool
	sent  bool // at level 0, in this attempt
	begun bool
	size  int64  // announced
	buf   []byte // of that size, or of what has come as long as that proves too little
	n     int    // bytes that have come
}

// finish hands a result over.
func (x *execution) finish(i int, out []byte, err error) {
	x.out[i] = output{done: true}
	if err == nil {
		x.r.supervisor.jobs.Add(1)
		x.r.supervisor.bytes.Add(int64(len(x.jobs[i].Src) + len(out)))
	}
	x.sink(i, out, err)
}

// attempt does the jobs that are not done: at level 1 those that fit, the rest
// at level 0.
func (x *execution) attempt(ctx context.Context, s *session, open []int) error {
	if s.p.level > 0 {
		if err := x.shared(ctx, s, open); err != nil {
			return err
		}
		if open = x.undone(open); len(open) == 0 {
			return nil
		}
	}
	return x.inline(ctx, s, open)
}

// undone gives those of the jobs open, nil for all, that have no result.
func (x *execution) undone(open []int) []int {
	var left []int
	take := func(i int) {
		if !x.out[i].done {
			x.out[i] = output{}
			left = append(left, i)
		}
	}
	if open == nil {
		for i := range x.jobs {
			take(i)
		}
	}
	for _, i := range open {
		take(i)
	}
	return left
}

// remoteCodec is a pipeline of one step, called with one chunk.
type remoteCodec struct{ r *remotePipeline }

var _ codecdriver.Codec = (*remoteCodec)(nil)

// Encode implements driver.Codec.
func (c *remoteCodec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return c.one(ctx, pb.Op_OP_ENCODE, dst, src)
}

// Decode implements driver.Codec.
func (c *remoteCodec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return c.one(ctx, pb.Op_OP_DECODE, dst, src)
}

func (c *remoteCodec) one(ctx context.Context, op pb.Op, dst, src []byte) (n int, err error) {
	jobs := []codecdriver.Job{{Src: src, Dst: dst, Limit: int64(len(dst))}}
	call := c.r.exec(ctx, op, jobs, func(_ int, out []byte, e error) {
		n, err = copy(dst, out), e // a copy onto itself when out is dst
	})
	runtime.KeepAlive(c)
	if call != nil {
		return 0, call
	}
	return n, err
}
