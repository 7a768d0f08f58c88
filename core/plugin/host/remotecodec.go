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

// provider implements driver.Provider for the codecs of one plugin. The codecs share a
// process.
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

// Describe implements driver.Provider. It starts the plugin if the plugin has not
// described itself yet. If the start fails, the descriptions contain only names, and Open
// returns the error.
func (p *provider) Describe() []codecdriver.Description {
	if p.program.builtin {
		return p.h.builtin.Filters()
	}
	if !p.program.isKnown() {
		_ = p.h.describeProgram(p.h.ctx, p.program) // Open returns the error
	}
	_, cs := p.program.describe()
	return cs
}

// Open implements driver.Provider. It opens a pipeline of one step.
func (p *provider) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	r, specs, err := p.open(p.h.ctx, []codecdriver.Step{{ID: id, Params: params}}, in)
	if err != nil {
		return nil, codecdriver.Spec{}, err
	}
	c := &remoteCodec{r}
	runtime.AddCleanup(c, func(r *remotePipeline) { r.forget() }, r) // a Codec has no Close method
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

// remotePipeline is a pipeline in a plugin process. If the process dies, the pipeline
// is reopened in a new process.
type remotePipeline struct {
	supervisor *supervisor
	steps      []codecdriver.Step
	in         codecdriver.Spec

	opening gate               // locked while the pipeline is opened
	specs   []codecdriver.Spec // set when the pipeline is first opened

	mu   sync.Mutex
	sess *session
}

var _ codecdriver.Pipeline = (*remotePipeline)(nil)

// session returns the session in a running process. It opens the pipeline if no such
// session exists.
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

// current returns the session if its process is alive, or nil.
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
			p.discard(0, token) // the plugin may have opened the pipeline anyway
		}
		return nil, err
	}
	specs, err := wire.SpecsFromReply(reply.GetOutputs(), len(r.steps))
	if err == nil && !p.supervisor.program.builtin {
		err = r.checkSizes(specs)
	}
	if err == nil && r.specs != nil && !reflect.DeepEqual(specs, r.specs) {
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "the specs of a pipeline changed when it was reopened")
	}
	if err != nil {
		return nil, p.killBroken(err)
	}
	r.specs = specs
	return &session{p: p, handle: reply.GetHandle()}, nil
}

// freeOutput is the largest output of a step, in bytes, that a third-party plugin may
// declare regardless of the input size. A larger output may be at most twice as large as
// the input.
const freeOutput = 1 << 30

// checkSizes checks the output sizes that a plugin declares, because the host allocates
// memory of these sizes.
func (r *remotePipeline) checkSizes(specs []codecdriver.Spec) error {
	for i, s := range specs {
		if limit := max(2*r.in.MaxBytes, freeOutput); s.MaxBytes > limit {
			return ncerr.Errorf(ncerr.ErrPlugin, "", "", "step %d declares outputs of up to %d bytes for chunks of %d bytes, more than the limit of %d bytes", i+1, s.MaxBytes, r.in.MaxBytes, limit)
		}
	}
	return nil
}

// forget discards the session. The host closes its handle before the next OpenPipeline
// in the same process.
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

// exec runs the jobs. If the process dies, exec repeats the unfinished jobs one by one
// in a new process, so that only a job that kills the process fails.
func (r *remotePipeline) exec(ctx context.Context, op pb.Op, jobs []codecdriver.Job, sink codecdriver.Sink) error {
	x := &execution{r: r, op: op, jobs: jobs, sink: sink, out: make([]output, len(jobs))}
	for i := range jobs {
		if n := int64(len(jobs[i].Src)); n > r.supervisor.host.opts.MaxObject {
			x.finish(i, nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "the chunk has %d bytes; the limit is %d", n, r.supervisor.host.opts.MaxObject))
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
		if err := x.runAlone(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// maxSoloTries limits the attempts at a single job while other calls, which may also
// cause a crash, use the process.
const maxSoloTries = 3

// runAlone runs a single job. If the job kills the process, runAlone passes the error
// to the sink.
func (x *execution) runAlone(ctx context.Context, i int) error {
	for try := 1; ; try++ {
		alone, err := x.try(ctx, []int{i})
		if _, again := isLost(err); !again {
			return err
		}
		if alone || try == maxSoloTries {
			x.finish(i, nil, ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin dies each time it processes this chunk: %w", err))
			return nil
		}
	}
}

// try makes one attempt at the jobs with the given indexes. alone is true if no other
// call used the process at the same time.
func (x *execution) try(ctx context.Context, indexes []int) (alone bool, err error) {
	s, err := x.r.session(ctx)
	if err != nil {
		return false, err
	}
	before, total := s.p.execs.Add(1), s.p.execsEver.Add(1)
	defer s.p.execs.Add(-1)
	err = x.attempt(ctx, s, indexes)
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

// output is the part of one job's output that has been received.
type output struct {
	done  bool   // the sink was called
	sent  bool   // the job was sent at level 0 in this attempt
	begun bool   // the first part was received
	size  int64  // announced size
	buf   []byte // has size bytes once size is trusted; only the received bytes before
	n     int    // bytes received
}

// finish records that a job is done and passes its result to the sink.
func (x *execution) finish(i int, out []byte, err error) {
	x.out[i] = output{done: true}
	if err == nil {
		x.r.supervisor.jobs.Add(1)
		x.r.supervisor.bytes.Add(int64(len(x.jobs[i].Src) + len(out)))
	}
	x.sink(i, out, err)
}

// attempt runs the jobs with the given indexes. It uses level 1 for the jobs that fit in
// the segments, and level 0 for the other jobs.
func (x *execution) attempt(ctx context.Context, s *session, indexes []int) error {
	if s.p.level > 0 {
		if err := x.shared(ctx, s, indexes); err != nil {
			return err
		}
		if indexes = x.undone(indexes); len(indexes) == 0 {
			return nil
		}
	}
	return x.inline(ctx, s, indexes)
}

// undone resets the jobs that have no result, and returns their indexes. It considers
// only the jobs with the given indexes, or all jobs if indexes is nil.
func (x *execution) undone(indexes []int) []int {
	var left []int
	take := func(i int) {
		if !x.out[i].done {
			x.out[i] = output{}
			left = append(left, i)
		}
	}
	if indexes == nil {
		for i := range x.jobs {
			take(i)
		}
	}
	for _, i := range indexes {
		take(i)
	}
	return left
}

// remoteCodec is a pipeline of one step that processes one chunk per call.
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
		n, err = copy(dst, out), e // copies nothing if out is dst
	})
	runtime.KeepAlive(c)
	if call != nil {
		return 0, call
	}
	return n, err
}
