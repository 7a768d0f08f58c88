package layer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// interrupted is a Map that delivers part of an object and then fails, once per element of
// cuts. It calls between before each Get except the first.
type interrupted struct {
	driver.Map
	cuts     []float64
	between  func()
	requests []driver.GetOptions
	ranges   []int64
	bytes    int
}

func (b *interrupted) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if b.between != nil && len(b.requests) > 0 {
		b.between()
	}
	b.requests = append(b.requests, *o)
	if o.Range != nil {
		b.ranges = append(b.ranges, o.Range.Offset)
	}
	data, info, err := b.Map.Get(ctx, key, o, alloc)
	if err != nil || len(b.requests) > len(b.cuts) {
		b.bytes += len(data)
		return data, info, err
	}
	n := int(b.cuts[len(b.requests)-1] * float64(len(data)))
	clear(data[n:])
	b.bytes += n
	return data[:n], info, &ncerr.Error{Kind: ncerr.ErrIO, Retryable: true}
}

func noWait() *layer.RetryOptions {
	return &layer.RetryOptions{Sleep: func(context.Context, time.Duration) error { return nil }}
}

// TestResume checks, for arbitrary objects, ranges and failures, that the bytes are
// correct and that no byte is read twice.
func TestResume(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5000).Draw(t, "size")
		content := make([]byte, size)
		r := rand.New(rand.NewPCG(1, uint64(size)))
		for i := range content {
			content[i] = byte(r.Uint32())
		}
		m := memmap.New()
		if _, err := m.Put(context.Background(), "k", driver.Bytes(content), &driver.PutOptions{}); err != nil { // rapid's T has no context
			t.Fatal(err)
		}
		var opts driver.GetOptions
		want := content
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 1:
			off := rapid.IntRange(0, size).Draw(t, "offset")
			n := rapid.IntRange(0, size-off).Draw(t, "length")
			opts.Range, want = &driver.Range{Offset: int64(off), Length: int64(n)}, content[off:off+n]
		case 2:
			off := rapid.IntRange(0, size).Draw(t, "offset")
			opts.Range, want = &driver.Range{Offset: int64(off), Length: -1}, content[off:]
		case 3:
			n := rapid.IntRange(1, size+5).Draw(t, "suffix")
			opts.Range, want = &driver.Range{Offset: -int64(n), Length: -1}, content[max(0, size-n):]
		}
		b := &interrupted{Map: m, cuts: rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 4).Draw(t, "cuts")}
		got, info, err := layer.Retry(b, noWait()).Get(context.Background(), "k", &opts, driver.Heap) // rapid's T has no context
		if err != nil || !bytes.Equal(got, want) || info.Size != int64(size) {
			t.Fatalf("want %d bytes, got %d, %+v, %v", len(want), len(got), info, err)
		}
		whole := false
		for _, c := range b.cuts {
			whole = whole || int(c*float64(len(want))) == len(want)
		}
		if b.bytes != len(want) && !whole {
			t.Fatalf("%d bytes were read, want %d", b.bytes, len(want))
		}
	})
}

// foreignMemory is a driver whose second Get fails and returns memory that is not from
// alloc.
type foreignMemory struct{ interrupted }

func (a *foreignMemory) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if len(a.requests) == 1 {
		alloc = driver.Heap
	}
	return a.interrupted.Get(ctx, key, o, alloc)
}

// TestResumeCountsOnlyAlloc checks that only bytes in memory from alloc count as read.
func TestResumeCountsOnlyAlloc(t *testing.T) {
	t.Parallel()
	m := memmap.New()
	if _, err := m.Put(t.Context(), "k", driver.Bytes("0123456789"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	a := &foreignMemory{interrupted{Map: m, cuts: []float64{0.2, 0.5}}}
	got, _, err := layer.Retry(a, noWait()).Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if err != nil || string(got) != "0123456789" || len(a.requests) != 3 {
		t.Errorf("want the whole object after 3 requests, got %d requests, %q, %v", len(a.requests), got, err)
	}
}

// TestResumeOfAChangedObject checks that the content of two versions is never mixed.
func TestResumeOfAChangedObject(t *testing.T) {
	t.Parallel()
	put := func(m driver.Map, content string) {
		if _, err := m.Put(t.Context(), "k", driver.Bytes(content), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m := memmap.New()
	put(m, "aaaaaaaa")
	b := &interrupted{Map: m, cuts: []float64{0.5}, between: func() { put(m, "bbbbbbbb") }}
	got, _, err := layer.Retry(b, noWait()).Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if err != nil || string(got) != "bbbbbbbb" {
		t.Errorf("want the content of the new object, got %q, %v", got, err)
	}
	b = &interrupted{Map: m, cuts: []float64{0.5}, between: func() { put(m, "longer content") }}
	got, _, err = layer.Retry(b, noWait()).Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if ncerr.KindOf(err) != ncerr.ErrConflict || len(got) > 0 {
		t.Errorf("object of another length: want ErrConflict, got %q, %v", got, err)
	}
	if b.requests[1].IfMatch == "" || b.ranges[0] != 4 {
		t.Errorf("want a second request with IfMatch from offset 4, got %+v", b.requests[1])
	}
}

// TestReserve checks that retries end if all calls to a store fail, and that successful
// calls replenish the reserve.
func TestReserve(t *testing.T) {
	t.Parallel()
	o := noWait()
	o.Attempts, o.Reserve = 4, 6
	retries := 0
	o.OnRetry = func(op, key string, err error, _ time.Duration) {
		retries++
		if op != "stat" || key != "k" || err == nil {
			t.Errorf("OnRetry was called with %q %q %v", op, key, err)
		}
	}
	down := &ncerr.Error{Kind: ncerr.ErrIO, Retryable: true}
	f := &flaky{Map: memmap.New()}
	for range 40 {
		f.errs = append(f.errs, down)
	}
	m := layer.Retry(f, o)
	for range 10 {
		if _, err := m.Stat(t.Context(), "k"); !errors.Is(err, ncerr.ErrIO) {
			t.Fatal(err)
		}
	}
	if retries != 6 {
		t.Errorf("want 6 retries in total, got %d", retries)
	}
	f.errs = nil
	for range 5 { // five successful calls add one retry to the reserve
		if err := m.Delete(t.Context(), "x", &driver.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.calls, f.errs = 0, []error{down, down, down}
	_, _ = m.Stat(t.Context(), "k")
	if retries != 7 {
		t.Errorf("want 7 retries in total, got %d", retries)
	}
}

// hanging is a Map that blocks each Get and Put, and each listing after its first entry,
// until the context is done.
type hanging struct{ driver.Map }

func (hanging) Get(ctx context.Context, _ string, _ *driver.GetOptions, _ driver.Alloc) ([]byte, driver.Info, error) {
	<-ctx.Done()
	return nil, driver.Info{}, ctx.Err()
}

func (hanging) Put(ctx context.Context, _ string, _ driver.Body, _ *driver.PutOptions) (driver.Info, error) {
	<-ctx.Done()
	return driver.Info{}, ctx.Err()
}

func (hanging) List(ctx context.Context, _ string, _ *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if !yield(driver.Entry{Key: "a"}, nil) {
			return
		}
		<-ctx.Done()
		yield(driver.Entry{}, ctx.Err())
	}
}

func (hanging) Close(context.Context) error { return nil }

// TestDeadline checks that a call ends even if the driver does not respond, and that only
// the caller's own context causes a context error.
func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := layer.Deadline(hanging{memmap.New()}, 20*time.Millisecond)
		_, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
		if again, _ := ncerr.Retry(err); ncerr.KindOf(err) != ncerr.ErrIO || !again || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get: want a retryable ErrIO, got %v", err)
		}
		_, err = m.Put(t.Context(), "k", driver.Bytes("x"), &driver.PutOptions{IfAbsent: true})
		if again, _ := ncerr.Retry(err); ncerr.KindOf(err) != ncerr.ErrAmbiguous || again {
			t.Errorf("conditional Put: want ErrAmbiguous, got %v", err)
		}
		n, last := 0, error(nil)
		for _, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
			n, last = n+1, err
		}
		if n != 2 || ncerr.KindOf(last) != ncerr.ErrIO {
			t.Errorf("List: want one entry and ErrIO, got %d results, %v", n, last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		m = layer.Deadline(hanging{memmap.New()}, time.Hour) // longer than the caller's deadline
		if _, _, err := m.Get(ctx, "k", &driver.GetOptions{}, driver.Heap); !ncerr.IsContext(err) {
			t.Errorf("the caller's own deadline: want a context error, got %v", err)
		}
	})
}

// slow is a Map that responds after two milliseconds and measures the maximum number of
// concurrent calls.
type slow struct {
	driver.Map
	now, most chan int
	fail      error
}

func (s slow) Stat(context.Context, string) (driver.Info, error) {
	n := <-s.now + 1
	if m := <-s.most; m > n {
		s.most <- m
	} else {
		s.most <- n
	}
	s.now <- n
	time.Sleep(2 * time.Millisecond)
	s.now <- <-s.now - 1
	return driver.Info{}, s.fail
}

// TestAdapt checks that the number of concurrent calls grows up to its maximum, and
// shrinks if the store is overloaded.
func TestAdapt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fail          error
		atLeast, most int
	}{
		"grows":   {nil, 9, 24},
		"shrinks": {&ncerr.Error{Kind: ncerr.ErrIO, Retryable: true}, 2, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// In a synctest bubble the response times do not depend on the load of the
			// machine.
			synctest.Test(t, func(t *testing.T) {
				s := slow{Map: memmap.New(), now: make(chan int, 1), most: make(chan int, 1), fail: tc.fail}
				s.now <- 0
				s.most <- 0
				m := layer.Adapt(s, layer.AdaptOptions{Min: 2, Max: 24, Start: 8})
				var all sync.WaitGroup
				for i := range 60 {
					all.Go(func() {
						for range 10 {
							_, _ = m.Stat(t.Context(), fmt.Sprint(i)) // the error is tc.fail
						}
					})
				}
				all.Wait()
				if most := <-s.most; most < tc.atLeast || most > tc.most {
					t.Errorf("up to %d concurrent calls, want %d to %d", most, tc.atLeast, tc.most)
				}
			})
		})
	}
}

// damaging is a Map that fails its first Get after delivering wrong bytes. It returns the
// checksum of the whole object.
type damaging struct {
	driver.Map
	sum  string
	gets int
}

func (d *damaging) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	data, info, err := d.Map.Get(ctx, key, o, alloc)
	if d.gets++; err != nil || d.gets > 1 {
		return data, info, err
	}
	data[1] ^= 1
	clear(data[5:])
	info.CRC32C = d.sum
	return data[:5], info, &ncerr.Error{Kind: ncerr.ErrIO, Retryable: true}
}

// TestResumeChecksTheWhole checks that an object read in several parts is read again if
// the content does not match the checksum of the object.
func TestResumeChecksTheWhole(t *testing.T) {
	t.Parallel()
	below := memmap.New()
	if _, err := below.Put(t.Context(), "k", driver.Bytes("123456789"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	d := &damaging{Map: below, sum: "4waSgw=="} // the check value of CRC-32C, e3069283
	data, _, err := layer.Retry(d, noWait()).Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if err != nil || string(data) != "123456789" || d.gets != 3 {
		t.Errorf("want the correct content after 3 reads, got %q after %d reads, %v", data, d.gets, err)
	}
}
