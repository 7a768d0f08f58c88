package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// grace is how long a check may go on after its context has ended.
const grace = 3 * time.Second

// Run runs the suite's checks one after the other, in an order shuffled by
// the seed, and reports them in the order of the suite. When ctx ends, the
// checks not yet run get the status error. The report is never nil.
func Run[S any](ctx context.Context, suite Suite[S], target Target[S], opts *Options) *Report {
	o := opts.withDefaults()
	started := time.Now()
	r := newReport(suite.Name, suite.Version, target.TargetName(), o.Seed, started)
	caps, err := target.TargetCapabilities(ctx)
	if err == nil {
		err = suite.Validate()
	}
	slices.Sort(caps)
	r.Capabilities = append(r.Capabilities, caps...)
	r.Results = runAll(ctx, suite, target, caps, err, o)
	r.Duration = time.Since(started)
	r.count()
	return r
}

func runAll[S any](ctx context.Context, suite Suite[S], target Target[S], caps []string, broken error, o *Options) []Result {
	var chosen []Check[S]
	for _, c := range suite.Checks {
		if c.Level == "" {
			c.Level = Core
		}
		if o.wants(c.ID, c.Level) {
			chosen = append(chosen, c)
		}
	}
	results := make([]Result, len(chosen))
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	for _, i := range rng.Perm(len(chosen)) {
		c := chosen[i]
		switch {
		case broken != nil:
			results[i] = Result{ID: c.ID, Level: c.Level, Status: StatusError, Message: broken.Error()}
		case ctx.Err() != nil:
			results[i] = Result{ID: c.ID, Level: c.Level, Status: StatusError, Message: "not run: " + ctx.Err().Error()}
		default:
			results[i] = runOne(ctx, c, target, caps, o)
		}
		if o.Progress != nil {
			o.Progress(results[i])
		}
	}
	return results
}

// runOne decides what applies to the check, runs it and gives its result.
func runOne[S any](ctx context.Context, c Check[S], target Target[S], caps []string, o *Options) Result {
	res := Result{ID: c.ID, Level: c.Level, Status: StatusPass}
	if res.Level == "" {
		res.Level = Core
	}
	var missing []string
	for _, n := range c.Needs {
		if !slices.Contains(caps, n) {
			missing = append(missing, n)
		}
	}
	reason, disabled := o.Disable[c.ID]
	run := c.Run
	if len(missing) > 0 {
		run = c.Refuse
	}
	switch {
	case disabled:
		res.Status, res.Message = StatusDisabled, reason
	case run == nil:
		res.Status, res.Message = StatusUnsupported, "not declared: "+strings.Join(missing, ", ")
	default:
		runIn(ctx, &res, c, run, target, o)
		if res.Status == StatusPass && len(missing) > 0 {
			res.Status, res.Message = StatusUnsupported, "not declared, refused cleanly: "+strings.Join(missing, ", ")
		}
	}
	skipped := res.Status == StatusUnsupported || res.Status == StatusDisabled
	if skipped && matchAny(o.Require, c.ID) {
		res.Message = "required, but " + string(res.Status) + ": " + res.Message
		res.Status = StatusFail
	}
	return res
}

// runIn runs f in a goroutine of its own, under the time limit, and fills in res.
func runIn[S any](ctx context.Context, res *Result, c Check[S], f func(T, S), target Target[S], o *Options) {
	limit := c.Limit
	if limit <= 0 {
		limit = o.Limit
	}
	started := time.Now() // before the context's time begins
	cctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &tester{name: c.ID, ctx: cctx, cancel: cancel, seed: o.Seed}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.guard(func() {
			s, err := target.New(t)
			if err != nil {
				t.fault("the target gives nothing to work on: %v", err)
				return
			}
			f(t, s)
		})
		t.cleanup()
	}()
	timer := time.NewTimer(limit + grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Errorf("still running after %v; abandoned", limit+grace)
	}
	res.Duration = time.Since(started)
	res.Status, res.Message = t.result()
	if res.Status == StatusPass && res.Duration >= limit {
		res.Status, res.Message = StatusFail, fmt.Sprintf("took %v, the limit is %v", res.Duration.Round(time.Millisecond), limit)
	}
}

// tester is the T of one check.
type tester struct {
	name   string
	ctx    context.Context //nolint:containedctx // T hands it out
	cancel context.CancelFunc
	seed   uint64

	mu       sync.Mutex
	log      []string // what Logf and Errorf said
	failed   bool
	faulty   bool
	cleanups []func()
}

var _ T = (*tester)(nil)

func (t *tester) Name() string             { return t.name }
func (t *tester) Context() context.Context { return t.ctx }
func (t *tester) Seed() uint64             { return t.seed }

func (t *tester) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *tester) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *tester) add(failed, faulty bool, format string, args []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = t.failed || failed
	t.faulty = t.faulty || faulty
	t.log = append(t.log, fmt.Sprintf(format, args...))
}

func (t *tester) Logf(format string, args ...any)   { t.add(false, false, format, args) }
func (t *tester) Errorf(format string, args ...any) { t.add(true, false, format, args) }

func (t *tester) Fatalf(format string, args ...any) {
	t.add(true, false, format, args)
	runtime.Goexit()
}

// fault records that the check itself could not be performed.
func (t *tester) fault(format string, args ...any) { t.add(true, true, format, args) }

// guard calls f in such a way that a panic becomes a fault and Fatalf ends f
// only. It waits for f.
func (t *tester) guard(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				t.fault("panic: %v\n%s", v, head(debug.Stack(), 24))
			}
		}()
		f()
	}()
	<-done
}

// cleanup ends the context and calls the registered functions, last first.
func (t *tester) cleanup() {
	t.cancel()
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		f := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		t.guard(f)
	}
}

func (t *tester) result() (Status, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.faulty:
		return StatusError, strings.Join(t.log, "\n")
	case t.failed:
		return StatusFail, strings.Join(t.log, "\n")
	}
	return StatusPass, ""
}

// head gives the first n lines of a stack.
func head(stack []byte, n int) string {
	lines := strings.SplitAfterN(string(stack), "\n", n+1)
	return strings.TrimRight(strings.Join(lines[:min(n, len(lines))], ""), "\n")
}
