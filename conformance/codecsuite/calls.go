package codecsuite

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func deterministic(t conformance.T, e *Env) {
	var later []func()
	e.each(t, 2000, func(a *opened) {
		b := e.openSpec(t, a.params, a.in)
		for _, pattern := range []string{"smooth", "bits"} {
			src := data(a.in.DType, 2000, pattern, t.Seed())
			want, err := a.tryEncode(t, src)
			if err != nil && a.lossy && pattern == "bits" {
				continue // a lossy codec need not accept every value
			}
			a.encode(t, a.data(2000, "noise", t.Seed()))
			again := func() {
				for _, c := range []*opened{a, b} {
					if got := c.encode(t, src); !bytes.Equal(want, got) {
						t.Errorf("%v with %s: encoding the same bytes again returns different bytes", a.in.DType, a.params)
					}
				}
			}
			again()
			later = append(later, again)
		}
	})
	if t.Effort() == conformance.Brief {
		return
	}
	time.Sleep(1100 * time.Millisecond) // detects encoded forms that contain the time
	for _, again := range later {
		again()
	}
}

// concurrent uses a codec from several goroutines, for every set of parameters and for
// elements of one byte and of several bytes, because the codec may use scratch memory
// for only some of them.
func concurrent(t conformance.T, e *Env) {
	n := 20_000
	if t.Effort() == conformance.Brief {
		n = 5000
	}
	wide := "" // the last parameters used with elements of several bytes
	e.each(t, n, func(c *opened) {
		more := room(c.in.DType, 1) > 1
		if c.nth > 0 && (!more || wide == string(c.params)) {
			return
		}
		if more {
			wide = string(c.params)
		}
		e.callConcurrently(t, c, n)
	})
}

// callConcurrently encodes and decodes n elements with c from eight goroutines. Every
// second round also decodes truncated input.
func (e *Env) callConcurrently(t conformance.T, c *opened, n int) {
	var sources, wants, encoded [8][len(patterns)][]byte
	for g := range sources {
		for k, pattern := range patterns {
			sources[g][k] = c.data(n, pattern, uint64(g))
			wants[g][k] = e.value(t, c, sources[g][k])
			encoded[g][k] = c.encode(t, sources[g][k])
		}
	}
	var wg sync.WaitGroup
	for g := range sources {
		wg.Go(func() {
			for i := range 20 {
				k := (g + i) % len(patterns)
				src, want := sources[g][k], wants[g][k]
				enc, dst := make([]byte, c.out.MaxBytes), make([]byte, len(want))
				n, err := c.Encode(t.Context(), enc, src)
				if err == nil {
					if !bytes.Equal(enc[:n], encoded[g][k]) {
						t.Errorf("concurrent calls for %v with %s: encode returns other bytes than a single call", c.in.DType, c.params)
						return
					}
					if i%2 == 0 { // the codec.input checks verify the result
						_, _ = c.safeDecode(t.Context(), make([]byte, len(want)), bytes.Clone(enc[:n/2]))
					}
					n, err = c.Decode(t.Context(), dst, enc[:n])
				}
				switch {
				case err != nil:
					t.Errorf("concurrent calls for %v with %s: %v", c.in.DType, c.params, err)
				case !bytes.Equal(want, dst[:n]):
					t.Errorf("concurrent calls for %v with %s: decode returns a different value", c.in.DType, c.params)
				default:
					continue
				}
				return
			}
		})
	}
	wg.Wait()
}

func canceled(t conformance.T, e *Env) {
	e.canceled(t, 200_000) // a codec need not check the context for smaller chunks
	if t.Effort() == conformance.Brief {
		return
	}
	if !e.first(t, smallest).in.DType.Fixed() { // elements take many bytes
		return
	}
	if slow := e.canceled(t, 3<<20); slow > longCall/5 && slow < longCall { // a call of longCall or more was already canceled
		e.canceled(t, 24<<20)
	}
}

// canceled checks the results of calls for n elements with a canceled context, and checks
// that long calls stop when their context is canceled. It returns the processor time of
// the longest call if the codec runs in a separate process, and 0 otherwise.
func (e *Env) canceled(t conformance.T, n int) (longest time.Duration) {
	c := e.first(t, n)
	var src, enc, value []byte
	kinds := []string{"zeros", "noise", "smooth"} // the time may depend on the data
	if e.target.Usage == nil {
		kinds = kinds[2:]
	}
	for _, pattern := range kinds {
		src = c.data(n, pattern, t.Seed())
		took := e.stops(t, "encode "+pattern, func(ctx context.Context) { _, _ = c.Encode(ctx, make([]byte, c.out.MaxBytes), src) })
		enc, value = c.encode(t, src), e.value(t, c, src)
		longest = max(longest, took, e.stops(t, "decode "+pattern, func(ctx context.Context) { _, _ = c.Decode(ctx, make([]byte, len(src)), enc) }))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dst := make([]byte, len(src))
	k, err := c.Decode(ctx, dst, enc)
	if err != nil && !ncerr.IsContext(err) {
		t.Errorf("decode: want context.Canceled, got %v", err)
	}
	if err == nil && !bytes.Equal(value, dst[:k]) {
		t.Errorf("decode with a canceled context returns different bytes and no error")
	}
	enc2 := make([]byte, c.out.MaxBytes)
	k, err = c.Encode(ctx, enc2, src)
	switch {
	case err == nil:
		c.checkDecode(t, enc2[:k], value, len(src))
	case !ncerr.IsContext(err):
		t.Errorf("encode: want context.Canceled, got %v", err)
	}
	c.checkDecode(t, enc, value, len(src))
	return longest
}

// longCall is the minimum processor time of calls that must stop when their context is done.
const longCall = time.Second

// stops measures the processor time of a call if the codec runs in a separate process. If
// the call takes at least longCall, stops repeats the call with a context that is canceled
// early, and checks that the process stops working.
func (e *Env) stops(t conformance.T, what string, call func(context.Context)) time.Duration {
	if e.target.Usage == nil {
		return 0
	}
	used := func() time.Duration {
		u, err := e.target.Usage()
		if err != nil {
			t.Fatalf("measure resource usage: %v", err)
		}
		return u.CPU
	}
	t.Step(what)
	before := used()
	call(t.Context())
	took := used() - before
	if took < longCall {
		return took
	}
	ctx, cancel := context.WithTimeout(t.Context(), took/8)
	defer cancel()
	t.Step(what, "and cancel the context after", (took / 8).String())
	call(ctx)
	pause := min(took/4, 5*time.Second)
	time.Sleep(pause)
	before = used()
	time.Sleep(pause)
	if more := used() - before; more > pause/2 {
		t.Errorf("%s continues after its context is canceled: the process used %v of CPU time in the %v after the call returned", what, more, pause)
	}
	return took
}

func pipeline(t conformance.T, e *Env) {
	c := e.first(t, 700)
	opener, ok := e.target.Provider.(driver.PipelineOpener)
	if !ok {
		t.Fatalf("the provider does not implement PipelineOpener")
	}
	run, specs, err := opener.OpenPipeline(t.Context(), []driver.Step{{ID: e.target.ID, Params: c.params}}, c.in)
	if err != nil {
		t.Fatalf("open a pipeline: %v", err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if len(specs) != 1 || specs[0].MaxBytes != c.out.MaxBytes {
		t.Errorf("OpenPipeline and Open return different specs: %+v", specs)
	}
	jobs := make([]driver.Job, 9)
	plain, want := make([][]byte, len(jobs)), make([][]byte, len(jobs))
	for i := range jobs {
		src := c.data(700, patterns[i%len(patterns)], uint64(i))
		plain[i], want[i] = e.value(t, c, src), c.encode(t, src)
		jobs[i] = driver.Job{Src: src, Limit: c.out.MaxBytes}
	}
	batch(t, "encode", run.EncodeMany, jobs, want)
	for i := range jobs {
		jobs[i] = driver.Job{Src: want[i], Limit: c.in.MaxBytes}
		if i%2 == 0 {
			jobs[i].Dst = make([]byte, c.in.MaxBytes)
		}
	}
	batch(t, "decode", run.DecodeMany, jobs, plain)
}

// batch runs jobs and compares their results with want.
func batch(t conformance.T, what string, do func(context.Context, []driver.Job, driver.Sink) error, jobs []driver.Job, want [][]byte) {
	seen := make([]int, len(jobs))
	err := do(t.Context(), jobs, func(i int, out []byte, err error) {
		seen[i]++
		if err != nil {
			t.Errorf("%s: job %d: %v", what, i, err)
		} else if !bytes.Equal(want[i], out) {
			t.Errorf("%s: the result of job %d differs from that of the codec: %s", what, i, describeDifference(want[i], out))
		}
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for i, n := range seen {
		if n != 1 {
			t.Errorf("%s: the sink was called %d times for job %d", what, n, i)
		}
	}
}
