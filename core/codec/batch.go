package codec

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// DecodeMany decodes all jobs, in any order, on up to GOMAXPROCS workers and
// calls sink once for each, from one goroutine at a time. Calls of
// DecodeMany may run side by side, each with its own sink.
//
// Job.Dst, when it has room for the largest output (Limit, or when that is 0
// DecodedSize), is written to by the last step itself; otherwise the output is
// lent until sink returns. With no steps the output is Src itself, or a copy
// of it in Dst. Where sizes vary, Limit also bounds, in proportion, what comes
// between the steps.
//
// The error is that of the call as a whole, such as the end of ctx; jobs whose
// sink was not called have not been done. Errors of one job go to the sink:
// ncerr.ErrCorrupt for bad input, a decoded size other than that of the chunk
// and output beyond the ceiling, ErrFilter for a failure of the codec,
// ErrShortBuffer for a Limit below the size of a chunk of fixed size; all
// with the id of the step.
func (p *Pipeline) DecodeMany(ctx context.Context, jobs []driver.Job, sink driver.Sink) error {
	return p.many(ctx, decode, jobs, sink)
}

// EncodeMany is the reverse of DecodeMany. Src of a fixed-size array must have
// exactly DecodedSize bytes and may never exceed it: else ncerr.ErrInvalid.
// Output beyond Limit is ErrShortBuffer; a Limit of 0 is MaxEncoded.
func (p *Pipeline) EncodeMany(ctx context.Context, jobs []driver.Job, sink driver.Sink) error {
	return p.many(ctx, encode, jobs, sink)
}

// Decode decodes src into dst and gives the length. The errors are those of
// DecodeMany; len(dst) is the limit. dst and src must not overlap.
func (p *Pipeline) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return p.one(ctx, decode, dst, src)
}

// Encode encodes src into dst and gives the length. MaxEncoded bytes of room
// always suffice, less may; the errors are those of EncodeMany.
func (p *Pipeline) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return p.one(ctx, encode, dst, src)
}

func (p *Pipeline) one(ctx context.Context, d direction, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if dst == nil {
		dst = []byte{}
	}
	job := driver.Job{Src: src, Dst: dst, Limit: int64(len(dst))}
	if job.Limit == 0 {
		job.Limit = -1
	}
	if !p.local() {
		return p.oneFar(ctx, d, job)
	}
	w := p.worker()
	defer p.release(w)
	out, err := w.do(ctx, p, d, &job)
	return len(out), err
}

func (p *Pipeline) oneFar(ctx context.Context, d direction, job driver.Job) (n int, err error) {
	called := p.many(ctx, d, []driver.Job{job}, func(_ int, out []byte, e error) {
		n, err = len(out), e
	})
	if called != nil {
		return 0, called
	}
	return n, err
}

// local reports whether all steps are codecs of this process.
func (p *Pipeline) local() bool {
	return len(p.stages) == 0 || len(p.stages) == 1 && p.stages[0].run == nil
}

func (p *Pipeline) worker() *worker {
	if w, ok := p.workers.Get().(*worker); ok {
		return w
	}
	return new(worker)
}

// release keeps w for the next chunk. Where sizes vary, it drops buffers that
// few chunks need, so that those kept, one for each core, come to no more than
// the ceiling of one chunk.
func (p *Pipeline) release(w *worker) {
	if !p.exact() {
		most := p.DecodedSize() / int64(runtime.GOMAXPROCS(0))
		for _, buf := range []*[]byte{&w.a, &w.b, &w.out} {
			if int64(cap(*buf)) > most {
				*buf = nil
			}
		}
	}
	p.workers.Put(w)
}

func (p *Pipeline) many(ctx context.Context, d direction, jobs []driver.Job, sink driver.Sink) error {
	if !p.local() {
		return p.far(ctx, d, jobs, sink)
	}
	n := min(runtime.GOMAXPROCS(0), len(jobs))
	if n <= 1 {
		return p.serial(ctx, d, jobs, sink)
	}
	b := &batch{p: p, d: d, jobs: jobs, sink: sink}
	for range n - 1 {
		b.wait.Go(func() { b.work(ctx) })
	}
	b.work(ctx)
	b.wait.Wait()
	if b.done.Load() < int64(len(jobs)) {
		return b.err
	}
	return nil
}

func (p *Pipeline) serial(ctx context.Context, d direction, jobs []driver.Job, sink driver.Sink) error {
	w := p.worker()
	defer p.release(w)
	for i := range jobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		out, err := w.do(ctx, p, d, &jobs[i])
		if err != nil && ctx.Err() != nil && ncerr.IsContext(err) {
			return ctx.Err()
		}
		sink(i, out, err)
	}
	return nil
}

// batch is one call of DecodeMany or EncodeMany.
type batch struct {
	p    *Pipeline
	d    direction
	jobs []driver.Job
	wait sync.WaitGroup
	next atomic.Int64
	done atomic.Int64

	mu   sync.Mutex // sink is called, and err set, under it
	sink driver.Sink
	err  error
}

// work does jobs until there are none, or ctx ends.
func (b *batch) work(ctx context.Context) {
	w := b.p.worker()
	defer b.p.release(w)
	for {
		i := int(b.next.Add(1)) - 1
		if i >= len(b.jobs) {
			return
		}
		err := ctx.Err()
		var out []byte
		if err == nil {
			out, err = w.do(ctx, b.p, b.d, &b.jobs[i])
		}
		if !b.report(ctx, i, out, err) {
			return
		}
	}
}

func (b *batch) report(ctx context.Context, i int, out []byte, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && ctx.Err() != nil && ncerr.IsContext(err) {
		b.err = ctx.Err()
		return false
	}
	b.sink(i, out, err)
	b.done.Add(1)
	return true
}

// ceiling gives the largest output of a job, and its Dst when that is of use.
func (p *Pipeline) ceiling(d direction, job *driver.Job) (top int64, dst []byte) {
	end := 0
	if d == encode {
		end = len(p.specs) - 1
	}
	top = p.limit(end, d, job.Skip)
	if d == decode && job.Skip != 0 {
		top = p.specs[0].MaxBytes
	}
	switch {
	case job.Limit < 0:
		top = 0
	case job.Limit > 0:
		top = min(top, job.Limit)
	}
	if job.Dst != nil && int64(len(job.Dst)) >= top {
		dst = job.Dst[:top:top]
	}
	return top, dst
}

// before checks what can be known before a job is done.
func (p *Pipeline) before(d direction, job *driver.Job, top int64) error {
	size := p.specs[0].MaxBytes
	if d == decode {
		if p.exact() && top < size {
			return ncerr.Errorf(ncerr.ErrShortBuffer, "decode", "", "a chunk has %d bytes, the limit is %d", size, top)
		}
		return nil
	}
	if n := int64(len(job.Src)); n > size || p.exact() && n != size {
		return ncerr.Errorf(ncerr.ErrInvalid, "encode", "", "%d bytes for a chunk of %d", n, size)
	}
	return nil
}

// after checks the output of a job.
func (p *Pipeline) after(d direction, out []byte, top int64) error {
	n, size := int64(len(out)), p.specs[0].MaxBytes
	switch {
	case d == encode && n > top:
		return driver.ShortBuffer("encode", int(top))
	case d == decode && p.exact() && n != size:
		return ncerr.Errorf(ncerr.ErrCorrupt, "decode", "", "chunk has %d bytes, not %d", n, size)
	case d == decode && n > top:
		return ncerr.Errorf(ncerr.ErrCorrupt, "decode", "", "it decodes to more than the %d bytes it may have", top)
	}
	return nil
}

// do does one job of a chain that is local.
func (w *worker) do(ctx context.Context, p *Pipeline, d direction, job *driver.Job) ([]byte, error) {
	top, dst := p.ceiling(d, job)
	if err := p.before(d, job, top); err != nil {
		return nil, err
	}
	out := job.Src
	if len(p.stages) > 0 {
		var err error
		if out, err = w.apply(ctx, p, &p.stages[0], d, dst, job.Src, top, job.Skip); err != nil {
			return nil, err
		}
	}
	if err := p.after(d, out, top); err != nil {
		return nil, err
	}
	return place(dst, out), nil
}

// place copies out to dst when it is not there already; dst may be nil.
func place(dst, out []byte) []byte {
	if dst == nil || len(out) == 0 {
		return out
	}
	if &dst[0] != &out[0] {
		copy(dst, out)
	}
	return dst[:len(out)]
}
