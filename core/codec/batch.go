package codec

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// DecodeMany decodes all jobs in any order, with up to GOMAXPROCS workers. It calls sink
// once for each job, from one goroutine at a time. DecodeMany is safe for concurrent use;
// each call has its own sink.
//
// If Job.Dst has room for the largest output, which is Limit, or DecodedSize if Limit is
// 0, the last step writes to it directly. Otherwise the output is valid only until sink
// returns. In a chain without steps the output is Src itself, or a copy of it in Dst. If
// decoded chunks vary in size, Limit also reduces the limits on the data between steps in
// proportion.
//
// DecodeMany returns an error if the call as a whole fails, for example because ctx is
// done. In that case the jobs for which sink was not called were not completed. The sink
// receives the error of a single job, with the id of the step: ncerr.ErrCorrupt for bad
// input, for a wrong decoded size and for output beyond the limit, ErrFilter for a
// failure of the codec, and ErrShortBuffer if Limit is less than the size of a
// fixed-size chunk.
func (p *Pipeline) DecodeMany(ctx context.Context, jobs []driver.Job, sink driver.Sink) error {
	return p.runMany(ctx, decode, jobs, sink)
}

// EncodeMany encodes all jobs, with the same rules as DecodeMany. The error of a job is
// ncerr.ErrInvalid if Src is larger than DecodedSize, or smaller in an array of
// fixed-size elements. It is ErrShortBuffer if the output exceeds Limit. A Limit of 0
// means MaxEncoded.
func (p *Pipeline) EncodeMany(ctx context.Context, jobs []driver.Job, sink driver.Sink) error {
	return p.runMany(ctx, encode, jobs, sink)
}

// Decode decodes src to dst and returns the length. The limit is len(dst), and the errors
// are the same as for DecodeMany. dst and src must not overlap.
func (p *Pipeline) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return p.runOne(ctx, decode, dst, src)
}

// Encode encodes src to dst and returns the length. A dst of MaxEncoded bytes is always
// large enough. The errors are the same as for EncodeMany.
func (p *Pipeline) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return p.runOne(ctx, encode, dst, src)
}

func (p *Pipeline) runOne(ctx context.Context, d direction, dst, src []byte) (int, error) {
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
		var n int
		var err error
		failed := p.runMany(ctx, d, []driver.Job{job}, func(_ int, out []byte, e error) {
			n, err = len(out), e
		})
		if failed != nil {
			return 0, failed
		}
		return n, err
	}
	w := p.worker()
	defer p.release(w)
	out, err := w.do(ctx, p, d, &job)
	return len(out), err
}

// local reports whether all steps run in this process.
func (p *Pipeline) local() bool {
	return len(p.stages) == 0 || len(p.stages) == 1 && p.stages[0].run == nil
}

func (p *Pipeline) worker() *worker {
	if w, ok := p.workers.Get().(*worker); ok {
		return w
	}
	return new(worker)
}

// release returns w to the pool. If the sizes of chunks vary, it drops buffers larger
// than the maximum size of a chunk divided by the number of cores, to limit the memory of
// the pool.
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

func (p *Pipeline) runMany(ctx context.Context, d direction, jobs []driver.Job, sink driver.Sink) error {
	if !p.local() {
		return p.runStaged(ctx, d, jobs, sink)
	}
	n := min(runtime.GOMAXPROCS(0), len(jobs))
	if n <= 1 {
		return p.runSerial(ctx, d, jobs, sink)
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

func (p *Pipeline) runSerial(ctx context.Context, d direction, jobs []driver.Job, sink driver.Sink) error {
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

// batch is one call to DecodeMany or EncodeMany.
type batch struct {
	p    *Pipeline
	d    direction
	jobs []driver.Job
	wait sync.WaitGroup
	next atomic.Int64
	done atomic.Int64

	mu   sync.Mutex // guards err and calls to sink
	sink driver.Sink
	err  error
}

// work runs jobs until no jobs are left or ctx is done.
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

// ceiling returns the maximum output size of a job. It also returns the job's Dst, cut to
// that size, if Dst is large enough, and otherwise nil.
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

// checkInput checks the sizes of a job before the job runs.
func (p *Pipeline) checkInput(d direction, job *driver.Job, top int64) error {
	size := p.specs[0].MaxBytes
	if d == decode {
		if p.exact() && top < size {
			return ncerr.Errorf(ncerr.ErrShortBuffer, "decode", "", "the chunk has %d bytes, more than the limit of %d", size, top)
		}
		return nil
	}
	switch n := int64(len(job.Src)); {
	case p.exact() && n != size:
		return ncerr.Errorf(ncerr.ErrInvalid, "encode", "", "the input has %d bytes, want %d", n, size)
	case n > size:
		return ncerr.Errorf(ncerr.ErrInvalid, "encode", "", "the input has %d bytes, more than the limit of %d", n, size)
	}
	return nil
}

// checkOutput checks the output of a job.
func (p *Pipeline) checkOutput(d direction, out []byte, top int64) error {
	n, size := int64(len(out)), p.specs[0].MaxBytes
	switch {
	case d == encode && n > top:
		return driver.ShortBuffer("encode", int(top))
	case d == decode && p.exact() && n != size:
		return ncerr.Errorf(ncerr.ErrCorrupt, "decode", "", "the decoded chunk has %d bytes, want %d", n, size)
	case d == decode && n > top:
		return ncerr.Errorf(ncerr.ErrCorrupt, "decode", "", "the decoded data has more than the limit of %d bytes", top)
	}
	return nil
}

// do runs one job of a local chain.
func (w *worker) do(ctx context.Context, p *Pipeline, d direction, job *driver.Job) ([]byte, error) {
	top, dst := p.ceiling(d, job)
	if err := p.checkInput(d, job, top); err != nil {
		return nil, err
	}
	out := job.Src
	if len(p.stages) > 0 {
		var err error
		if out, err = w.apply(ctx, p, &p.stages[0], d, dst, job.Src, top, job.Skip); err != nil {
			return nil, err
		}
	}
	if err := p.checkOutput(d, out, top); err != nil {
		return nil, err
	}
	return moveTo(dst, out), nil
}

// moveTo copies out to dst, unless it is already there, and returns the copy. It returns
// out itself if dst is nil.
func moveTo(dst, out []byte) []byte {
	if dst == nil || len(out) == 0 {
		return out
	}
	if &dst[0] != &out[0] {
		copy(dst, out)
	}
	return dst[:len(out)]
}
