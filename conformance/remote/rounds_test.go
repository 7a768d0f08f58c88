package remote_test

import (
	"context"
	"iter"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// rounds delays requests until no more of them arrive, and then releases them all
// together. The number of releases is the number of sequential round trips of an operation,
// regardless of the speed of the machine. A round ends after many short waits during
// which no request was in flight and no goroutine was runnable: a machine that pauses
// affects only one of the waits, and a slow machine makes all of them longer.
type rounds struct {
	mu      sync.Mutex
	waiting []chan struct{}
	ticking bool           // whether watch is running
	busy    func() bool    // whether to ignore a tick
	depth   int            // number of rounds
	kinds   map[string]int // number of requests by kind

	inFlight   int // released requests without a response so far
	quietTicks int // ticks since the last request arrived or was answered
	quietLimit int // number of quiet ticks that end a round
}

// tick is the length of one wait.
const tick = 10 * time.Millisecond

// newRounds returns rounds for requests over a network. A round ends when no request
// has arrived for much longer than a busy machine needs between two requests.
func newRounds() *rounds {
	return &rounds{quietLimit: int(1500 * time.Millisecond / tick), busy: working, kinds: map[string]int{}}
}

// bubbleRounds returns rounds for a testing/synctest bubble, where a tick ends only
// when all goroutines are blocked, so that no more requests can arrive.
func bubbleRounds() *rounds {
	return &rounds{quietLimit: 1, busy: func() bool { return false }, kinds: map[string]int{}}
}

// wait counts a request and returns when its round is over. The caller must call
// answered.
func (r *rounds) wait(kind string) {
	turn := make(chan struct{})
	r.mu.Lock()
	r.kinds[kind]++
	r.waiting = append(r.waiting, turn)
	r.quietTicks = 0
	if !r.ticking {
		r.ticking = true
		go r.watch()
	}
	r.mu.Unlock()
	<-turn
}

// answered records the response to a released request.
func (r *rounds) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	r.quietTicks = 0
}

// watch counts ticks as long as requests wait.
func (r *rounds) watch() {
	for waits := true; waits; {
		time.Sleep(tick)
		waits = r.tick()
	}
}

// tick counts a tick, ends the round if it was quiet for long enough, and reports whether
// requests are still waiting.
func (r *rounds) tick() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inFlight > 0 || r.busy() {
		return true
	}
	if r.quietTicks++; r.quietTicks < r.quietLimit {
		return true
	}
	r.depth++
	for _, turn := range r.waiting {
		close(turn)
	}
	r.inFlight += len(r.waiting)
	r.waiting, r.ticking = nil, false
	return false
}

// working reports whether a goroutine other than the caller is running or runnable,
// because it may send a request.
func working() bool {
	s := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}, {Name: "/sched/goroutines/running:goroutines"}}
	metrics.Read(s)
	return s[0].Value.Uint64() > 0 || s[1].Value.Uint64() > 1
}

// take returns the counts since the last call to take.
func (r *rounds) take() (kinds map[string]int, depth int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds, depth = r.kinds, r.depth
	r.kinds, r.depth = map[string]int{}, 0
	return kinds, depth
}

// remoteMap is a Map that behaves like a remote store and counts every call as a
// request.
type remoteMap struct {
	driver.Map
	r *rounds
}

func (f remoteMap) Capabilities() driver.Capabilities {
	c := f.Map.Capabilities()
	c.Latency = driver.Remote
	return c
}

func (f remoteMap) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	f.r.wait("get")
	defer f.r.answered()
	return f.Map.Get(ctx, key, o, alloc)
}

func (f remoteMap) Stat(ctx context.Context, key string) (driver.Info, error) {
	f.r.wait("stat")
	defer f.r.answered()
	return f.Map.Stat(ctx, key)
}

func (f remoteMap) Put(ctx context.Context, key string, b driver.Body, o *driver.PutOptions) (driver.Info, error) {
	f.r.wait("put")
	defer f.r.answered()
	return f.Map.Put(ctx, key, b, o)
}

func (f remoteMap) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	f.r.wait("delete")
	defer f.r.answered()
	return f.Map.Delete(ctx, key, o)
}

func (f remoteMap) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		f.r.wait("list")
		f.r.answered() // count the response before the entries are used
		f.Map.List(ctx, prefix, o)(yield)
	}
}

// arrays is the number of arrays in the test dataset.
const arrays = 277

// build creates a dataset with 277 arrays of 4 x 4 chunks without codecs. Only the
// first array contains data, in its first chunks.
func build(t *testing.T, url string, o *dataset.CreateOptions) {
	t.Helper()
	ds, err := open.Create(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	root := ds.Root()
	y, err := root.DefineDim("y", 64, false)
	if err != nil {
		t.Fatal(err)
	}
	x, err := root.DefineDim("x", 64, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range arrays {
		v, err := root.DefineVar(t.Context(), name(i), &dataset.VarSpec{
			Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{16, 16},
			Attrs: []dataset.Attr{{Name: "units", Type: dtype.NCChar, Value: "K"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		if err := v.Write(t.Context(), chunk.Selection{Start: []int64{0, 0}, Count: []int64{32, 64}}, make([]int32, 32*64)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func name(i int) string { return string(rune('a'+i/26)) + string(rune('a'+i%26)) }
