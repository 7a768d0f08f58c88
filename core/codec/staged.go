package codec

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// runStaged runs the jobs of a chain with at least one driver.Pipeline, such as the
// pipeline of a plugin. It runs one stage after the other on the whole batch. It copies
// the output of a stage for the next stage, because the output belongs to the Pipeline.
func (p *Pipeline) runStaged(ctx context.Context, d direction, jobs []driver.Job, sink driver.Sink) error {
	cur := make([]driver.Job, 0, len(jobs)) // jobs that have not failed
	index := make([]int, 0, len(jobs))      // indices in jobs of the elements of cur
	for i := range jobs {
		top, dst := p.ceiling(d, &jobs[i])
		if err := p.checkInput(d, &jobs[i], top); err != nil {
			sink(i, nil, err)
			continue
		}
		cur = append(cur, driver.Job{Src: jobs[i].Src, Dst: dst, Limit: top, Skip: jobs[i].Skip, Shared: jobs[i].Shared})
		index = append(index, i)
	}
	order := make([]*stage, len(p.stages))
	for k := range p.stages {
		if d == encode {
			order[k] = &p.stages[k]
		} else {
			order[len(order)-1-k] = &p.stages[k]
		}
	}
	for _, st := range order[:len(order)-1] {
		var err error
		if cur, index, err = p.runMiddle(ctx, d, st, cur, index, sink); err != nil {
			return err
		}
	}
	return p.runLast(ctx, d, order[len(order)-1], cur, index, sink)
}

// runMiddle runs a stage other than the last one. It returns the jobs that have not
// failed, with the output of the stage as their new input.
func (p *Pipeline) runMiddle(ctx context.Context, d direction, st *stage, jobs []driver.Job, index []int, sink driver.Sink) ([]driver.Job, []int, error) {
	at := st.lo
	if d == encode {
		at = st.hi
	}
	sub := make([]driver.Job, len(jobs))
	for i := range jobs {
		sub[i] = driver.Job{Src: jobs[i].Src, Limit: p.limitBetween(at, 0, d, jobs[i].Skip, jobs[i].Limit), Skip: jobs[i].Skip, Shared: true} // the output is copied below
	}
	ok := make([]bool, len(jobs))
	err := p.runStage(ctx, d, st, sub, func(i int, out []byte, err error) {
		if err != nil {
			sink(index[i], nil, err)
			return
		}
		jobs[i].Src, ok[i] = append([]byte(nil), out...), true
	})
	if err != nil {
		return nil, nil, err
	}
	n := 0
	for i := range jobs {
		if ok[i] {
			jobs[n], index[n] = jobs[i], index[i]
			n++
		}
	}
	return jobs[:n], index[:n], nil
}

// runLast runs the last stage and passes its output to the caller's sink.
func (p *Pipeline) runLast(ctx context.Context, d direction, st *stage, jobs []driver.Job, index []int, sink driver.Sink) error {
	return p.runStage(ctx, d, st, jobs, func(i int, out []byte, err error) {
		if err == nil {
			err = p.checkOutput(d, out, jobs[i].Limit)
		}
		if err != nil {
			sink(index[i], nil, err)
			return
		}
		sink(index[i], moveTo(jobs[i].Dst, out), nil)
	})
}

// runStage runs one stage of all jobs. Limit and Dst of the jobs apply to the output of
// the stage.
func (p *Pipeline) runStage(ctx context.Context, d direction, st *stage, jobs []driver.Job, sink driver.Sink) error {
	if st.run == nil {
		return p.localStage(ctx, d, st, jobs, sink)
	}
	mask := uint32(1)<<uint(st.hi-st.lo) - 1
	sub := make([]driver.Job, len(jobs))
	for i, j := range jobs {
		j.Skip = j.Skip >> uint(st.lo) & mask
		sub[i] = j
	}
	seen := make([]bool, len(jobs))
	count := 0
	out := func(i int, out []byte, err error) {
		if i < 0 || i >= len(jobs) || seen[i] {
			return // ignore results of unknown jobs and repeated results
		}
		seen[i] = true
		count++
		if err == nil && int64(len(out)) > sub[i].Limit {
			err = ncerr.ErrShortBuffer
		}
		if err != nil {
			out, err = nil, p.fault(ctx, err, d, st.lo, st.hi, int(sub[i].Limit))
		}
		sink(i, out, err)
	}
	call := st.run.DecodeMany
	if d == encode {
		call = st.run.EncodeMany
	}
	if err := call(ctx, sub, out); err != nil {
		return p.fault(ctx, err, d, st.lo, st.hi, 0)
	}
	if count < len(jobs) {
		return ncerr.Errorf(ncerr.ErrFilter, d.String(), p.name(st.lo, st.hi), "the pipeline returned no result for %d of %d jobs", len(jobs)-count, len(jobs))
	}
	return nil
}

// localStage runs a stage of codecs in this process.
func (p *Pipeline) localStage(ctx context.Context, d direction, st *stage, jobs []driver.Job, sink driver.Sink) error {
	w := p.worker()
	defer p.release(w)
	for i := range jobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		out, err := w.apply(ctx, p, st, d, jobs[i].Dst, jobs[i].Src, jobs[i].Limit, jobs[i].Skip)
		if err == nil && int64(len(out)) > jobs[i].Limit {
			err = p.fault(ctx, ncerr.ErrShortBuffer, d, st.lo, st.hi, int(jobs[i].Limit))
		}
		if err != nil && ctx.Err() != nil && ncerr.IsContext(err) {
			return ctx.Err()
		}
		sink(i, out, err)
	}
	return nil
}
