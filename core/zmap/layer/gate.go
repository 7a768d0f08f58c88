package layer

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// gate limits the number of concurrent calls. The limit may change. A gate is safe for
// concurrent use.
type gate struct {
	mu         sync.Mutex
	o          AdaptOptions
	limit      float64
	inFlight   int
	queue      list.List // chan struct{} elements, closed to admit a call
	minLatency time.Duration
	seen       int       // samples since minLatency was set
	decreased  time.Time // time of the last decrease
	congested  bool      // the limit was too high at least once; since then the limit grows slowly
}

// enter waits until the call may start. It returns the context's error if the context is
// done first.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	if float64(g.inFlight) < g.limit && g.queue.Len() == 0 {
		g.inFlight++
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
	case <-turn: // the call was admitted after its context was done, so admit the next call
		g.inFlight--
		g.admit()
	default:
		g.queue.Remove(at)
	}
	return ctx.Err()
}

// admit starts as many waiting calls as the limit allows. The caller holds g.mu.
func (g *gate) admit() {
	for g.queue.Len() > 0 && float64(g.inFlight) < g.limit {
		turn, _ := g.queue.Remove(g.queue.Front()).(chan struct{})
		g.inFlight++
		close(turn)
	}
}

// sample holds the measurements of one call.
type sample struct {
	latency   time.Duration // time until the response began; 0 if unknown
	throttled bool          // the store reported overload
}

// leave ends a call and records its sample.
func (g *gate) leave(s sample) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.adjust(s)
	g.inFlight--
	g.admit()
}

// adjust adapts the limit to a sample. It reduces the limit by a third on overload, at
// most once for all calls in flight at that time. It raises the limit if as many calls as
// allowed are in flight and the latency is at most twice the minimum latency plus 10 ms.
func (g *gate) adjust(s sample) {
	switch {
	case g.o.Min == g.o.Max:
	case s.throttled:
		if now := time.Now(); now.Sub(g.decreased) > max(2*g.minLatency, 100*time.Millisecond) {
			g.decreased, g.congested = now, true
			g.limit = max(g.limit*2/3, float64(g.o.Min))
		}
	case s.latency <= 0:
	default:
		g.grow(s.latency)
	}
}

// window is the number of samples after which the minimum latency is reset.
const window = 500

func (g *gate) grow(latency time.Duration) {
	if g.seen++; g.minLatency == 0 || latency < g.minLatency || g.seen > window {
		g.minLatency, g.seen = latency, 0
	}
	if float64(g.inFlight) < g.limit-1 {
		return // the limit does not delay calls
	}
	if latency > 2*g.minLatency+10*time.Millisecond {
		g.congested = true
		return
	}
	step := 1 / g.limit // the limit grows by one call per round trip
	if !g.congested {
		step = 1 // the limit doubles per round trip
	}
	g.limit = min(g.limit+step, float64(g.o.Max))
}
