package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// The delay of a restart is backoffMin after the first death within deathWindow, and
// doubles with each further death up to backoffMax. After deathLimit deaths within
// deathWindow the plugin is refused.
const (
	deathWindow = time.Minute
	deathLimit  = 5
	backoffMin  = 100 * time.Millisecond
	backoffMax  = 30 * time.Second
)

// supervisor manages the process of one program with one set of grants. It starts the
// process on demand, and starts a new one after a death.
type supervisor struct {
	host    *Host
	program *program
	set     *grantSet
	log     *slog.Logger

	calls, jobs, bytes atomic.Int64

	mu      sync.Mutex
	cur     *proc       // the running process, or nil
	attempt *attempt    // the start in progress, or nil
	starts  int         // number of successful starts
	deaths  []time.Time // times of deaths and failed starts within deathWindow
	crashes int         // number of deaths and failed starts since s was created
	last    error       // cause of the last failed start or death
	users   int         // stores that are open or being opened
	idle    *time.Timer
}

// attempt is a start in progress.
type attempt struct {
	done chan struct{}
	p    *proc
	err  error
}

// title returns the name of the plugin and what this process serves, for error messages.
func (s *supervisor) title() string {
	return s.program.name + " (" + s.set.serves + ")"
}

// lingerTime is how long the process for a single location runs after its last store is
// closed.
const lingerTime = 10 * time.Second

// enter keeps the process running until leave is called. It is called when a store is
// opened.
func (s *supervisor) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	if s.idle != nil {
		s.idle.Stop()
	}
}

// leave undoes one call of enter. The process for a single location is stopped if it
// stays unused for lingerTime.
func (s *supervisor) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	switch {
	case s.users > 0 || !s.set.local:
	case s.idle == nil:
		s.idle = time.AfterFunc(lingerTime, s.retire)
	default:
		s.idle.Reset(lingerTime)
	}
}

// retire stops the process and removes s from the host if no store uses it.
func (s *supervisor) retire() {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.users > 0:
		return
	case s.attempt != nil: // retry when the process has started, because it must be stopped too
		s.idle.Reset(lingerTime)
		return
	case s.cur != nil:
		s.cur.stop(false)
	}
	maps.DeleteFunc(s.host.supervisors, func(_ string, other *supervisor) bool { return other == s })
}

// acquire returns the running process, and starts one if necessary. A start continues
// when ctx is done, because other callers may be waiting for it.
func (s *supervisor) acquire(ctx context.Context) (*proc, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.cur != nil && s.cur.alive() {
		defer s.mu.Unlock()
		return s.cur, nil
	}
	if s.cur != nil {
		s.count(s.cur) // p.supervise may not have counted the death yet
		s.cur = nil
	}
	a := s.attempt
	if a == nil {
		delay, err := s.mayStart(time.Now())
		if err == nil {
			a = &attempt{done: make(chan struct{})}
			err = s.host.goOwned(func() { s.start(a, delay) })
		}
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		s.attempt = a
	}
	s.mu.Unlock()
	select {
	case <-a.done:
		return a.p, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// mayStart returns the delay before the next start, or an error if the plugin must not
// be started now. The caller holds mu.
func (s *supervisor) mayStart(now time.Time) (time.Duration, error) {
	for len(s.deaths) > 0 && now.Sub(s.deaths[0]) > deathWindow {
		s.deaths = s.deaths[1:]
	}
	if limit := s.host.opts.MaxRestarts; limit != 0 && s.crashes > max(0, limit) {
		return 0, ncerr.Errorf(ncerr.ErrPlugin, "start plugin", s.title(), "the plugin failed %d times, and the limit is %d restarts (plugins.max_restarts): %w", s.crashes, max(0, limit), s.last)
	}
	n := len(s.deaths)
	if n >= deathLimit {
		e := ncerr.Errorf(ncerr.ErrPlugin, "start plugin", s.title(), "the plugin failed %d times within %v and is not restarted until that time has passed: %w", n, deathWindow, s.last)
		e.Retryable, e.RetryAfter = true, deathWindow-now.Sub(s.deaths[0])
		return 0, e
	}
	if n == 0 {
		return 0, nil
	}
	delay := min(backoffMin<<(n-1), backoffMax)
	delay += time.Duration(rand.Int64N(int64(delay/4) + 1))
	return max(0, delay-now.Sub(s.deaths[n-1])), nil
}

// start makes one attempt to start the process after delay, and then supervises the
// process. It runs in a goroutine that Host.Close waits for.
func (s *supervisor) start(a *attempt, delay time.Duration) {
	ctx := s.host.ctx
	var err error
	var p *proc
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		p, err = s.host.launch(ctx, s)
	case <-ctx.Done():
		err = errClosed
	}
	s.mu.Lock()
	if err != nil {
		if ctx.Err() == nil {
			s.deaths, s.last = append(s.deaths, time.Now()), err
			s.crashes++
		}
		err = ncerr.New(ncerr.ErrPlugin, "start plugin", s.title(), unwrapPlugin(err))
	} else {
		s.cur = p
		s.starts++
	}
	a.p, a.err = p, err
	s.attempt = nil
	s.mu.Unlock()
	close(a.done)
	if p == nil {
		return
	}
	s.log.Debug("plugin started", "pid", p.child.pid(), "took", time.Since(p.started))
	if ctx.Err() != nil {
		p.stop(false)
	}
	p.supervise()
}

// unwrapPlugin returns the cause of an ErrPlugin without an operation, so that a
// message does not repeat the text of the kind.
func unwrapPlugin(err error) error {
	var e *ncerr.Error
	if errors.As(err, &e) && e.Kind == ncerr.ErrPlugin && e.Op == "" && e.Err != nil {
		return e.Err
	}
	return err
}

// died removes p and counts its death.
func (s *supervisor) died(p *proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == p {
		s.cur = nil
	}
	s.count(p)
}

// count records the death of p once, unless the host requested it. The caller holds mu.
func (s *supervisor) count(p *proc) {
	if p.counted || p.stopping.Load() && !p.broken.Load() {
		return
	}
	p.counted = true
	s.crashes++
	s.deaths = append(s.deaths, time.Now())
	s.last = fmt.Errorf("process %d died (%s)", p.child.pid(), p.child.exitStatus())
	if why := p.why.Load(); why != nil {
		s.last = fmt.Errorf("process %d was killed: %s", p.child.pid(), *why)
	}
	s.last = fmt.Errorf("%w%s", s.last, p.stderr.lastOutput())
	s.host.deathMu.Lock()
	defer s.host.deathMu.Unlock()
	s.host.deaths = append(s.host.deaths, fmt.Errorf("%s: %w", s.title(), s.last))
}

// current returns the running process, or nil.
func (s *supervisor) current() *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur
}
