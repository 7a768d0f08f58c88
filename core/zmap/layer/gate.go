package layer

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// gate lets a number of calls through at once that may change. It is safe for
// concurrent use.
type gate struct {
	mu      sync.Mutex
	o       AdaptOptions
	limit   float64
	flying  int
	queue   list.List // of chan struct{}, closed to let one in
	floor   time.Duration
	seen    int       // samples since the floor was set
	slowed  time.Time // of the last decrease
	started bool      // the limit has met resistance: it grows slowly from then on
}

func newGate(o AdaptOptions) *gate { return &gate{o: o, limit: float64(o.Start)} }

// enter waits for a place, or for the end of ctx.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	if float64(g.flying) < g.limit && g.queue.Len() == 0 {
		g.flying++
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	at := g.queue.PushBack(turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-turn: // let in at the same moment: pass the place on
		g.flying--
		g.admit()
	default:
		g.queue.Remove(at)
	}
	return ctx.Err()
}

// admit lets in as many as there are places for.
func (g *gate) admit() {
	for g.queue.Len() > 0 && float64(g.flying) < g.limit {
		turn, _ := g.queue.Remove(g.queue.Front()).(chan struct{})
		g.flying++
		close(turn)
	}
}

// sample is what a call has shown about the store.
type sample struct {
	latency   time.Duration // until the answer began; 0 is unknown
	throttled bool          // the store is overloaded
}

// leave gives a place back.
func (g *gate) leave(s sample) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.learn(s)
	g.flying--
	g.admit()
}

// learn changes the limit: down by a third when the store is overloaded, not
// more than once for the calls that were under way then; up while all places
// are taken and answers come nearly as fast as they ever did.
func (g *gate) learn(s sample) {
	switch {
	case g.o.Min == g.o.Max:
	case s.throttled:
		if now := time.Now(); now.Sub(g.slowed) > max(2*g.floor, 100*time.Millisecond) {
			g.slowed, g.started = now, true
			g.limit = max(g.limit*2/3, float64(g.o.Min))
		}
	case s.latency <= 0:
	default:
		g.grow(s.latency)
	}
}

// window is the number of samples after which the least latency is forgotten.
const window = 500

func (g *gate) grow(latency time.Duration) {
	if g.seen++; g.floor == 0 || latency < g.floor || g.seen > window {
		g.floor, g.seen = latency, 0
	}
	if float64(g.flying) < g.limit-1 {
		return // the limit holds nobody up
	}
	if latency > 2*g.floor+10*time.Millisecond {
		g.started = true
		return
	}
	step := 1 / g.limit // one more place for a round of answers
	if !g.started {
		step = 1 // twice as many
	}
	g.limit = min(g.limit+step, float64(g.o.Max))
}
