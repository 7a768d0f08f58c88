package dataset

import (
	"context"
	"math"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// DefaultMemory returns the size in bytes of the budget of a dataset if Options.Budget is
// nil. It does not restrict what o allows: a call can hold the largest chunk several times,
// and the caches have the sizes that o selects.
func (o *Options) DefaultMemory() int64 {
	most := float64(10 * float64(o.Limits.withDefaults().MaxChunk))
	for _, kept := range []int64{o.ChunkCache, DefaultChunkCache, o.WriteBuffer, DefaultWriteBuffer} {
		most = max(most, 8*float64(kept))
	}
	return int64(min(most, math.MaxInt64/2))
}

// Budget returns the budget of the dataset, which is never nil.
func (d *Dataset) Budget() *budget.Budget { return d.opts.Budget }

// setBudget sets the budget of a dataset that is opened with o, and the limits that follow
// from it.
func (o *Options) setBudget() {
	if o.Budget == nil {
		o.Budget = budget.New(o.DefaultMemory())
	}
	o.Limits.MaxDocuments = min(o.Limits.MaxDocuments, o.Budget.Documents())
	o.Limits.MaxMetadata = min(o.Limits.MaxMetadata, o.Budget.Documents())
}

// memory returns the working memory in bytes of reads and writes of v: see
// [array.Array.Memory]. A write may also have to store buffered chunks of other variables, so
// both numbers cover that. least covers it only up to most bytes: with less memory, a write is
// not buffered.
func (v *Var) memory(ctx context.Context, most int64) (least, want int64, err error) {
	a, err := v.open(ctx)
	if err != nil {
		return 0, 0, err
	}
	least, want = a.Memory()
	l, w := v.group.ds.buffer.Memory()
	return max(least, min(l, most)), max(want, w), nil
}

// conversions returns the maximum number of copies of the values that a read or write of
// values of v's own Go type makes.
func (v *Var) conversions() (n int64) {
	if t := v.meta.DType; !v.isVariableLength() && (v.converts() || t.Order != dtype.Native && t.Width() > 1) {
		n++
	}
	if v.Quantization().Mode != dtype.QuantizeNone {
		n++
	}
	return n
}

// Reserve acquires own bytes of memory for the caller, and the memory for its reads and
// writes of v, which must use the context inner. The caller calls done when it no longer uses
// the memory. Strings of variable length that one of the reads returns are limited to own
// bytes, unless they are from one chunk; see [Var.ReadParts].
//
// Errors: ncerr.ErrLimit if Options.Budget is too small, those of [Var.Available], and that
// of ctx.
func (v *Var) Reserve(ctx context.Context, own int64) (inner context.Context, done func(), err error) {
	return v.reserve(ctx, own, v.conversions())
}

// reserve implements Reserve for a caller whose reads and writes make up to copies copies of
// their values.
func (v *Var) reserve(ctx context.Context, own, copies int64) (inner context.Context, done func(), err error) {
	r, err := reserve(ctx, v.group.ds.opts.Budget, own, own, copies, v)
	if err != nil {
		return nil, nil, ncerr.Wrap("reserve memory for", v.Path(), err)
	}
	return r.ctx, r.done, nil
}

// reserved is memory that a call holds.
type reserved struct {
	own  int64           // bytes that the caller may use
	ctx  context.Context //nolint:containedctx // for the calls that the holder makes
	done func()          // releases the memory

	from   *budget.Budget
	raw    int64 // bytes in ctx that a call needs in addition to copies of its values
	copies int64 // maximum number of these copies
	have   int64 // bytes in ctx
}

// mayShare reports whether workers can make calls at the same time, each with an equal part
// of the memory.
func (r *reserved) mayShare(workers int64) bool {
	return r.raw+r.copies*(r.own/workers) <= r.have/workers
}

// share returns a function that returns a context for the calls of one of the given number of
// workers.
func (r *reserved) share(workers int64) func(context.Context) context.Context {
	part := r.from.Part(r.have/workers, r.own/workers)
	return func(ctx context.Context) context.Context { return budget.With(ctx, part) }
}

// reserve acquires from b at least least and at most want bytes for the caller, and the memory
// for its reads and writes of vars, which make up to copies copies of what the caller holds.
func reserve(ctx context.Context, b *budget.Budget, least, want, copies int64, vars ...*Var) (*reserved, error) {
	b = budget.From(ctx, b)
	raw, inWant, free := int64(0), int64(0), b.ForCalls()-least
	for range copies {
		free -= min(free, least)
	}
	for _, v := range vars {
		l, w, err := v.memory(ctx, free)
		if err != nil {
			return nil, err
		}
		if v.isVariableLength() { // how large a chunk may be must not depend on other calls
			l = max(l, min(w, b.ForCalls()-least))
		}
		if !v.group.ds.remote() { // more than this would not be faster
			w = max(min(w, want/2), saturatingAdd(l, l)) // one call reads while another writes
		}
		raw, inWant = max(raw, l), max(inWant, w)
	}
	inLeast := raw
	for range copies {
		inLeast, inWant = saturatingAdd(inLeast, least), saturatingAdd(inWant, want)
	}
	n, err := b.Acquire(ctx, saturatingAdd(least, inLeast), saturatingAdd(want, inWant))
	if err != nil {
		return nil, err
	}
	in := max(inLeast, min(inWant, n-least, max(n-want, n/2)))
	own := n - in
	if copies > 0 { // a call may copy all that the caller holds, and two calls may share the memory
		own = min(own, max(least, (n-2*raw)/(copies+1)))
	}
	r := &reserved{own: own, done: func() { b.Release(n) }, from: b, raw: raw, copies: copies, have: n - own}
	r.ctx = r.share(1)(ctx)
	return r, nil
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
