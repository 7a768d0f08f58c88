package conformance

import (
	"cmp"
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

// grace is the time that a check may take to end after its context is done.
const grace = 3 * time.Second

// maxHung is the number of checks that may hang before the run is aborted.
const maxHung = 3

// Run runs the checks of the suite one after the other. The order is shuffled by the
// seed, except that checks with a higher effort run later; the report lists them in
// suite order. If ctx is done or three checks have hung, the remaining checks get the
// status error. The report is never nil.
func Run[S any](ctx context.Context, suite Suite[S], target Target[S], opts *Options) *Report {
	o := opts.withDefaults()
	started := time.Now()
	r := &Report{
		Schema: 2, Tool: o.Tool, Suite: suite.Name, SuiteVersion: suite.Version, Target: target.TargetName(), Subject: o.Subject,
		Capabilities: []string{}, Results: []Result{},
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Seed: o.Seed, Started: started.UTC(),
	}
	caps, err := target.TargetCapabilities(ctx)
	if err == nil {
		err = suite.Validate()
	}
	if err != nil {
		r.Problem = err.Error()
	}
	slices.Sort(caps)
	r.Capabilities = append(r.Capabilities, caps...)
	var chosen []Check[S]
	for _, c := range suite.Checks {
		if c.Level == "" {
			c.Level = Core
		}
		if o.wants(c.ID, c.Level, c.Effort) {
			chosen = append(chosen, c)
		}
	}
	r.Excluded = len(suite.Checks) - len(chosen)
	if o.Begin != nil {
		o.Begin(r)
	}
	r.Results = runAll(ctx, chosen, target, caps, err, o)
	r.Duration = time.Since(started)
	if err := ctx.Err(); err != nil && r.Problem == "" {
		r.Problem = "the run was interrupted: " + err.Error()
	}
	r.count()
	return r
}

func runAll[S any](ctx context.Context, chosen []Check[S], target Target[S], caps []string, broken error, o *Options) []Result {
	results := make([]Result, len(chosen))
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	hung := 0
	order := rng.Perm(len(chosen))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(chosen[a].Effort, chosen[b].Effort) })
	for _, i := range order {
		c := chosen[i]
		results[i] = Result{ID: c.ID, Level: c.Level, Status: StatusError, Rule: c.Doc}
		switch {
		case broken != nil:
			results[i].Message = "not run: " + broken.Error()
		case ctx.Err() != nil:
			results[i].Message = "not run: " + ctx.Err().Error()
		case hung >= maxHung:
			results[i].Message = fmt.Sprintf("not run: %d checks hung", hung)
		default:
			results[i] = runOne(ctx, c, target, caps, o)
			if results[i].Hung {
				hung++
			}
		}
		if o.Progress != nil {
			o.Progress(results[i])
		}
	}
	return results
}

// runOne decides whether the check applies, runs it and returns its result.
func runOne[S any](ctx context.Context, c Check[S], target Target[S], caps []string, o *Options) Result {
	res := Result{ID: c.ID, Level: c.Level, Status: StatusPass, Rule: c.Doc}
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
			res.Status, res.Message = StatusUnsupported, "not declared, and refused correctly: "+strings.Join(missing, ", ")
		}
	}
	skipped := res.Status == StatusUnsupported || res.Status == StatusDisabled
	if skipped && matchAny(o.Require, c.ID) {
		res.Message = "required, but " + string(res.Status) + ": " + res.Message
		res.Status = StatusFail
	}
	return res
}

// runIn runs f in its own goroutine, with the time limit, and fills in res.
func runIn[S any](ctx context.Context, res *Result, c Check[S], f func(T, S), target Target[S], o *Options) {
	limit := c.Limit
	if limit <= 0 {
		limit = o.Limit
	}
	started := time.Now()
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &tester{name: c.ID, ctx: cctx, cancel: cancel, seed: o.Seed, effort: o.Effort, lastStep: started}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.guard(func() {
			s, err := target.New(t)
			if err != nil {
				t.fault("the target cannot create an environment: %v", err)
				return
			}
			f(t, s)
		})
		t.cleanup()
	}()
	interrupted := t.await(ctx, limit, done)
	res.Duration = time.Since(started)
	res.Status, res.Message, res.Hung = t.result()
	if interrupted && res.Status != StatusPass {
		res.Status, res.Hung = StatusError, false
		res.Message = fmt.Sprintf("interrupted while running, after %v", res.Duration.Round(time.Millisecond)) + t.lastCall()
	}
}

// await waits for the end of the check. It cancels the context of a check that exceeds
// limit without a call to Step, and abandons the check if it still does not return. It
// reports whether ctx was done first.
func (t *tester) await(ctx context.Context, limit time.Duration, done <-chan struct{}) (interrupted bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	ended, last := ctx.Done(), false
	for {
		select {
		case <-done:
			return interrupted
		case <-ended:
			ended, interrupted, last = nil, true, true
			timer.Reset(grace)
		case <-timer.C:
			idle := t.idle()
			switch {
			case last:
				t.add(true, false, "the check was abandoned because it did not return after its context was canceled", nil)
				return interrupted
			case idle < limit:
				timer.Reset(limit - idle)
			default:
				t.hang(limit)
				last = true
				timer.Reset(grace)
			}
		}
	}
}

// tester is the T of one check.
type tester struct {
	name   string
	ctx    context.Context //nolint:containedctx // Context returns it to the check
	cancel context.CancelFunc
	seed   uint64
	effort Effort

	mu       sync.Mutex
	lastStep time.Time // time of the last call to Step
	doing    []string  // arguments of the last call to Step
	log      []string  // output of Logf and Errorf
	failed   bool
	faulty   bool
	hung     bool
	skipped  string // why the rule cannot apply
	cleanups []func()
}

var _ T = (*tester)(nil)

func (t *tester) Name() string             { return t.name }
func (t *tester) Context() context.Context { return t.ctx }
func (t *tester) Seed() uint64             { return t.seed }
func (t *tester) Effort() Effort           { return t.effort }

func (t *tester) Step(what ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastStep, t.doing = time.Now(), what
}

// idle returns the time since the last call to Step.
func (t *tester) idle() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.lastStep)
}

// lastCall returns the last part of a message, which describes the last call that
// began.
func (t *tester) lastCall() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.doing) == 0 {
		return ""
	}
	return "; last call: " + strings.Join(t.doing, " ")
}

// hang records that the check exceeded limit without a call to Step, and ends its
// context. Later failures are consequences of the hang.
func (t *tester) hang(limit time.Duration) {
	text := fmt.Sprintf("the check hangs: no call in the last %v", limit) + t.lastCall()
	t.mu.Lock()
	t.failed, t.hung = true, true
	t.log = append(t.log, text)
	t.mu.Unlock()
	t.cancel()
}

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

func (t *tester) Skipf(format string, args ...any) {
	t.mu.Lock()
	t.skipped = fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// fault records that the check could not be performed.
func (t *tester) fault(format string, args ...any) { t.add(true, true, format, args) }

// guard calls f in another goroutine and waits for it, so that a panic becomes a fault
// and Fatalf ends only f.
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

// cleanup ends the context and calls the registered functions in reverse order.
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

func (t *tester) result() (status Status, message string, hung bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.faulty:
		return StatusError, strings.Join(t.log, "\n"), t.hung
	case t.failed:
		return StatusFail, strings.Join(t.log, "\n"), t.hung
	case t.skipped != "":
		return StatusUnsupported, t.skipped, false
	}
	return StatusPass, "", false
}

// head returns the first n lines of a stack.
func head(stack []byte, n int) string {
	lines := strings.SplitAfterN(string(stack), "\n", n+1)
	return strings.TrimRight(strings.Join(lines[:min(n, len(lines))], ""), "\n")
}
