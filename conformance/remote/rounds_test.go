package remote_test

import (
	"context"
	"iter"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// rounds holds requests back until no more of them come, and lets them all go
// at once: the number of times that it does so is the number of round trips
// that an operation waits for, whatever the speed of the machine. That no more
// come is told by many short waits in which none was under way and no goroutine
// had anything to do: a machine that stops for a while takes part in one of
// them, and one that is slow makes all of them longer.
type rounds struct {
	mu      sync.Mutex
	waiting []chan struct{}
	flying  int         // requests that have gone and are not answered
	still   int         // ticks since the last that came, or was answered
	ticking bool        // somebody counts them
	quiet   int         // how many end a round
	busy    func() bool // whether a tick is not to count
	depth   int
	kinds   map[string]int
}

// tick is the length of one wait.
const tick = 10 * time.Millisecond

// newRounds gives rounds of requests that go through a network: one ends when
// none has come for much longer than a busy machine may take from one to the
// next.
func newRounds() *rounds {
	return &rounds{quiet: int(1500 * time.Millisecond / tick), busy: working, kinds: map[string]int{}}
}

// bubbleRounds gives rounds of a bubble of testing/synctest, where a tick ends
// when all goroutines wait for something: no more requests can come.
func bubbleRounds() *rounds {
	return &rounds{quiet: 1, busy: func() bool { return false }, kinds: map[string]int{}}
}

// wait counts a request and returns when its round is over. The caller calls
// answered.
func (r *rounds) wait(kind string) {
	turn := make(chan struct{})
	r.mu.Lock()
	r.kinds[kind]++
	r.waiting = append(r.waiting, turn)
	r.still = 0
	if !r.ticking {
		r.ticking = true
		go r.watch()
	}
	r.mu.Unlock()
	<-turn
}

// answered says that a request that has waited is answered.
func (r *rounds) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying--
	r.still = 0
}

// watch ends rounds as long as anybody waits for that.
func (r *rounds) watch() {
	for waits := true; waits; {
		time.Sleep(tick)
		waits = r.tick()
	}
}

// tick counts a tick, and reports whether anybody waits.
func (r *rounds) tick() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flying > 0 || r.busy() {
		return true
	}
	if r.still++; r.still < r.quiet {
		return true
	}
	r.depth++
	for _, turn := range r.waiting {
		close(turn)
	}
	r.flying += len(r.waiting)
	r.waiting, r.ticking = nil, false
	return false
}

// working reports whether any goroutine but the caller runs or waits for its
// turn to run: a request may come of it.
func working() bool {
	s := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}, {Name: "/sched/goroutines/running:goroutines"}}
	metrics.Read(s)
	return s[0].Value.Uint64() > 0 || s[1].Value.Uint64() > 1
}

// take gives what was counted since the last take.
func (r *rounds) take() (kinds map[string]int, depth int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds, depth = r.kinds, r.depth
	r.kinds, r.depth = map[string]int{}, 0
	return kinds, depth
}

// far is a Map that behaves like a remote store, every call of which is a
// request.
type far struct {
	driver.Map
	r *rounds
}

func (f far) Capabilities() driver.Capabilities {
	c := f.Map.Capabilities()
	c.Latency = driver.Remote
	return c
}

func (f far) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	f.r.wait("get")
	defer f.r.answered()
	return f.Map.Get(ctx, key, o, alloc)
}

func (f far) Stat(ctx context.Context, key string) (driver.Info, error) {
	f.r.wait("stat")
	defer f.r.answered()
	return f.Map.Stat(ctx, key)
}

func (f far) Put(ctx context.Context, key string, b driver.Body, o *driver.PutOptions) (driver.Info, error) {
	f.r.wait("put")
	defer f.r.answered()
	return f.Map.Put(ctx, key, b, o)
}

func (f far) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	f.r.wait("delete")
	defer f.r.answered()
	return f.Map.Delete(ctx, key, o)
}

func (f far) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		f.r.wait("list")
		f.r.answered() // before anything is done with the entries
		f.Map.List(ctx, prefix, o)(yield)
	}
}

// arrays is the number of arrays of the test dataset.
const arrays = 277

// build makes a dataset with 277 raw arrays of 4 x 4 chunks, of which the first
// has data in its first chunks.
func build(t *testing.T, url string, o *nczarr.CreateOptions) {
	t.Helper()
	ds, err := nczarr.Create(t.Context(), url, o)
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
		v, err := root.DefineVar(t.Context(), name(i), &nczarr.VarSpec{
			Type: dtype.NCInt, Dims: []*nczarr.Dim{y, x}, Chunks: []int64{16, 16},
			Attrs: []nczarr.Attr{{Name: "units", Type: dtype.NCChar, Value: "K"}},
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
