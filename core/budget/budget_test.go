package budget_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func acquire(t *testing.T, b *budget.Budget, least, want, expected int64) {
	t.Helper()
	n, err := b.Acquire(t.Context(), least, want)
	if n != expected || err != nil {
		t.Fatalf("Acquire(%d, %d): want %d bytes, got %d, %v", least, want, expected, n, err)
	}
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	b := budget.New(800)
	if n := b.ForCalls(); n != 500 {
		t.Fatalf("ForCalls: want 500, got %d", n)
	}
	acquire(t, b, 10, 100, 100)
	acquire(t, b, 200, 0, 200)  // a want below least means least
	acquire(t, b, 10, 900, 200) // what is free
	b.Release(200)
	acquire(t, b, 200, 200, 200)
}

func TestAcquireMoreThanAll(t *testing.T) {
	t.Parallel()
	b := budget.New(800)
	acquire(t, b, 500, 500, 500) // the answer does not depend on what is free
	_, err := b.Acquire(t.Context(), 501, 501)
	if ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), "501") || !strings.Contains(err.Error(), "800") {
		t.Fatalf("want an ErrLimit with 501 and 800, got %v", err)
	}
	_, err = b.Part(100, 0).Acquire(t.Context(), 101, 0)
	if ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), "101") || !strings.Contains(err.Error(), "800") {
		t.Fatalf("part: want an ErrLimit with 101 and 800, got %v", err)
	}
}

func TestNil(t *testing.T) {
	t.Parallel()
	var b *budget.Budget
	acquire(t, b, 1<<60, 1, 1<<60)
	b.Release(1 << 60)
	b.Cache().Add(1 << 60)
	if b.Documents() != math.MaxInt64 || b.Cache().Free() != math.MaxInt64 || b.Buffer().Size() != math.MaxInt64 || b.Size() != math.MaxInt64 || b.ForCalls() != math.MaxInt64 || b.MaxResult() != math.MaxInt64 {
		t.Fatal("a nil Budget has a limit")
	}
}

// A caller that needs little does not overtake one that has waited longer.
func TestFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(800)
		acquire(t, b, 400, 400, 400)
		var order []int
		var mu sync.Mutex
		wait := func(k int, least int64) {
			n, err := b.Acquire(t.Context(), least, least)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, k)
			mu.Unlock()
			b.Release(n)
		}
		for k, least := range []int64{400, 50, 500, 10} {
			go wait(k, least)
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Fatalf("callers %v overtook the first", order)
		}
		b.Release(400)
		synctest.Wait()
		if len(order) != 4 || order[2] == 3 { // the third needs everything, so that the last one follows it
			t.Fatalf("wrong order %v", order)
		}
	})
}

// A canceled caller neither keeps memory nor holds up those behind it.
func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(800)
		acquire(t, b, 400, 400, 400)
		ctx, cancel := context.WithCancel(t.Context())
		failed, behind := make(chan error, 1), make(chan int64, 1)
		go func() {
			_, err := b.Acquire(ctx, 500, 500)
			failed <- err
		}()
		synctest.Wait()
		go func() {
			n, _ := b.Acquire(t.Context(), 100, 100)
			behind <- n
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; err != context.Canceled { //nolint:errorlint // the error itself is returned
			t.Fatalf("want context.Canceled, got %v", err)
		}
		if n := <-behind; n != 100 {
			t.Fatalf("want 100 bytes, got %d", n)
		}
		b.Release(500) // of both
		acquire(t, b, 500, 500, 500)
	})
}

// Callers and canceled callers together never hold more than the budget, and leave it
// complete.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	const size = 8000
	b := budget.New(size)
	var held, most atomic.Int64
	var wg sync.WaitGroup
	seed := testseed.New(t)
	for g := range 8 {
		r := rand.New(rand.NewPCG(seed, uint64(g))) //nolint:gosec // a test needs no secure random numbers
		wg.Go(func() {
			for range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(4) == 0 {
					go cancel()
				}
				least := r.Int64N(b.ForCalls()) + 1
				n, err := b.Acquire(ctx, least, least+r.Int64N(size))
				cancel()
				if err != nil {
					continue
				}
				if h := held.Add(n); h > most.Load() {
					most.Store(h)
				}
				if n < least {
					t.Errorf("got %d bytes, less than %d", n, least)
				}
				held.Add(-n)
				b.Release(n)
			}
		})
	}
	wg.Wait()
	if most.Load() > b.ForCalls() {
		t.Errorf("callers held %d bytes, more than %d", most.Load(), b.ForCalls())
	}
	acquire(t, b, b.ForCalls(), 0, b.ForCalls())
}

func TestFrom(t *testing.T) {
	t.Parallel()
	b := budget.New(800)
	if budget.From(t.Context(), b) != b {
		t.Fatal("a context without a part changes the budget")
	}
	part := b.Part(100, 7)
	ctx := budget.With(t.Context(), part)
	if got := budget.From(ctx, b); got != part || got.ForCalls() != 100 || got.MaxResult() != 7 || got.Size() != 800 {
		t.Fatalf("want the part, got %+v", got)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	s := budget.New(800).Cache()
	s.Add(60)
	if s.Free() != 40 || s.Size() != 100 {
		t.Fatal("the share does not have 100 bytes")
	}
	s.Add(-60)
	if s.Free() != 100 {
		t.Fatal("the share does not take back what was returned")
	}
}
