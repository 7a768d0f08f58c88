package dataset_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// mark is the key of the object that marks growth in progress.
const mark = ".nczgrowing"

// markCalls is a store that records the calls for the mark.
type markCalls struct {
	driver.Map
	mu    *sync.Mutex
	calls *[]string
}

func (c markCalls) note(op, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(key, mark) {
		*c.calls = append(*c.calls, op)
	}
}

func (c markCalls) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	c.note("put", key)
	return c.Map.Put(ctx, key, body, o)
}

func (c markCalls) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	c.note("delete", key)
	return c.Map.Delete(ctx, key, o)
}

func (c markCalls) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	c.note("get", key)
	return c.Map.Get(ctx, key, o, alloc)
}

func (c markCalls) Stat(ctx context.Context, key string) (driver.Info, error) {
	c.note("stat", key)
	return c.Map.Stat(ctx, key)
}

func (c markCalls) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	c.note("list", prefix)
	return c.Map.List(ctx, prefix, o)
}

// recordMarkCalls makes stores that are opened with o record the calls for the mark. take
// returns the recorded calls and clears the record.
func recordMarkCalls(o *dataset.Options) (take func() []string) {
	c := markCalls{mu: new(sync.Mutex), calls: new([]string)}
	o.Wrap = func(m driver.Map) driver.Map { c.Map = m; return c }
	return func() []string {
		c.mu.Lock()
		defer c.mu.Unlock()
		calls := *c.calls
		*c.calls = nil
		return calls
	}
}

// Data that a dead or aborted process wrote past the end of a dimension does not appear
// when the dimension grows again: not in chunks that have not been written since, not
// in the chunk at the edge, and not in another variable. Nothing is removed until the
// user declares the process dead; until then, a writer that grows over it warns.
func TestLeftoversOfADeadWriter(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		text, dies, mode := i&1 != 0, i&2 != 0, []string{"nczarr", "nczarr,v3"}[i/4]
		o := unbuffered(memory(invert{}, vlen.Provider()))
		nc, spec := dtype.NCInt, dataset.VarSpec{Chunks: []int64{4}}
		if text {
			nc = dtype.NCString
		}
		ds := create(t, "mem:left#mode="+mode, o)
		x := dim(t, ds.Root(), "x", 0, true)
		spec.Type, spec.Dims = nc, []*dataset.Dim{x}
		a, b := define(t, ds.Root(), "a", &spec), define(t, ds.Root(), "b", &spec)
		values := func(list ...int) any {
			if !text {
				out := make([]int32, len(list))
				for i, n := range list {
					out[i] = int32(n)
				}
				return out
			}
			out := make([]string, len(list))
			for i, n := range list {
				if n != -1 {
					out[i] = string(rune('a' + n))
				}
			}
			return out
		}
		write(t, a, slab(0, 6), values(0, 1, 2, 3, 4, 5))
		write(t, b, slab(0, 6), values(0, 1, 2, 3, 4, 5))
		closeDataset(t, ds)

		ds = update(t, "mem:left", o)
		write(t, variable(t, ds, "a"), slab(6, 6), values(20, 20, 20, 20, 20, 20))
		write(t, variable(t, ds, "b"), slab(6, 6), values(20, 20, 20, 20, 20, 20))
		if !dies {
			if err := ds.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		ds = update(t, "mem:left", o)
		if dies {
			before := keysOf(t, ds)
			var log strings.Builder
			logged := *o
			logged.Log = slog.New(slog.NewTextHandler(&log, nil))
			again := update(t, "mem:left", &logged)
			write(t, variable(t, again, "a"), slab(14, 1), values(14))
			if text := log.String(); !strings.Contains(text, `path=/a range="/x from 6 to 14" writer="process `) || !strings.Contains(text, "age=") {
				t.Errorf("with a writer that may be alive: want a warning, got %q", text)
			}
			if err := again.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := keysOf(t, ds)
			if after = slices.DeleteFunc(after, func(key string) bool { return !slices.Contains(before, key) }); !slices.Equal(after, before) {
				t.Errorf("with a writer that may be alive: the keys changed from %q to %q", before, after)
			}
			if err := clearGrowth(t, ds); err != nil {
				t.Fatal(err)
			}
		}
		write(t, variable(t, ds, "a"), slab(14, 1), values(14))
		closeDataset(t, ds)
		ds = open(t, "mem:left", o)
		f := -1
		if !text {
			f = -2147483647
		}
		same(t, ds, "a", values(0, 1, 2, 3, 4, 5, f, f, f, f, f, f, f, f, 14))
		same(t, ds, "b", values(0, 1, 2, 3, 4, 5, f, f, f, f, f, f, f, f, f))
		if m, err := growthMark(t, ds); err != nil || m != nil {
			t.Errorf("the mark still exists: %v, %v", m, err)
		}
	}
}

// keysOf returns all keys of a dataset.
func keysOf(t *testing.T, ds *dataset.Dataset) []string {
	t.Helper()
	var out []string
	for e, err := range ds.Map().List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Key)
	}
	return out
}

// If two writers append to one dataset at the same time, neither loses data. On a store
// without conditional writes, the second one fails. A writer whose mark was cleared does
// not publish chunks that were deleted.
func TestConcurrentAppends(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		noConditions, cleared, mode := i&1 != 0, i&2 != 0, []string{"nczarr", "nczarr,v3"}[i/4]
		o := memory()
		if noConditions {
			_, o.Wrap = newGate("none", true)
			o.SingleWriter = false
		}
		ds := create(t, "mem:two#mode="+mode, o)
		x := dim(t, ds.Root(), "x", 0, true)
		define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{4}})
		closeDataset(t, ds)
		if noConditions { // a gate works for one Map only
			_, o.Wrap = newGate("none", true)
		}
		first := update(t, "mem:two", o)
		if noConditions {
			_, o.Wrap = newGate("none", true)
		}
		second := update(t, "mem:two", o)
		write(t, variable(t, first, "v"), slab(0, 4), []int32{1, 2, 3, 4})
		err := variable(t, second, "v").Write(t.Context(), slab(4, 4), []int32{5, 6, 7, 8})
		if refused := ncerr.KindOf(err) == ncerr.ErrConflict && strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) && strings.Contains(err.Error(), "s old"); refused != noConditions || !noConditions && err != nil {
			t.Errorf("%s: the second writer, without conditions %t: got %v", mode, noConditions, err)
		}
		want := []int32{1, 2, 3, 4, 5, 6, 7, 8}
		if noConditions {
			want = want[:4]
		}
		if cleared {
			if noConditions {
				_, o.Wrap = newGate("none", true)
			}
			third := update(t, "mem:two", o)
			if err := clearGrowth(t, third); err != nil {
				t.Fatal(err)
			}
			closeDataset(t, third)
			if err := first.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
				t.Errorf("%s: a writer whose mark was cleared: want ErrConflict, got %v", mode, err)
			}
			if err := second.Close(t.Context()); (ncerr.KindOf(err) == ncerr.ErrConflict) == noConditions || noConditions && err != nil {
				t.Errorf("%s: the second writer after its mark was cleared: got %v", mode, err)
			}
			expect(t, open(t, "mem:two", o), "v", []int32{})
			continue
		}
		closeDataset(t, first)
		closeDataset(t, second)
		expect(t, open(t, "mem:two", o), "v", want)
	}
}

// Growth takes five small requests per Flush, four if no parts of chunks are buffered,
// and none in a new dataset or without growth. In a bucket it takes two more.
func TestGrowthCosts(t *testing.T) {
	t.Parallel()
	o := memory()
	take := recordMarkCalls(o)
	ds := create(t, "mem:cost", o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{4}})
	write(t, v, slab(0, 6), []int32{1, 2, 3, 4, 5, 6})
	closeDataset(t, ds)
	if calls := take(); len(calls) > 0 {
		t.Errorf("a new dataset: want no calls, got %q", calls)
	}
	ds = update(t, "mem:cost", o)
	v = variable(t, ds, "v")
	write(t, v, slab(0, 6), []int32{6, 5, 4, 3, 2, 1})
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls := take(); len(calls) > 0 {
		t.Errorf("without growth: want no calls, got %q", calls)
	}
	for i := range 5 {
		write(t, v, slab(6+int64(i), 1), []int32{int32(i)})
	}
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A store in which a key can also be a prefix may contain the single mark of older
	// versions besides the marks that are listed.
	var get []string
	if !ds.Map().Capabilities().PrefixExclusive {
		get = []string{"get"}
	}
	list := append([]string{"list"}, get...)
	if calls, want := take(), slices.Concat([]string{"put"}, list, []string{"stat"}, list, []string{"delete"}); !slices.Equal(calls, want) {
		t.Errorf("with growth and a buffered part: want %q, got %q", want, calls)
	}
	write(t, v, slab(8, 8), []int32{1, 2, 3, 4, 5, 6, 7, 8})
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls, want := take(), slices.Concat([]string{"put"}, list, list, []string{"delete"}); !slices.Equal(calls, want) {
		t.Errorf("with growth: want %q, got %q", want, calls)
	}
	closeDataset(t, ds)
	if calls := take(); len(calls) > 0 {
		t.Errorf("Close after Flush: want no calls, got %q", calls)
	}
}

// A write that fails while a dimension grows keeps the mark until a Flush has removed
// its leftovers.
func TestFailedGrowthIsCleanedUp(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:torn", o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
	write(t, v, slab(0, 1), []int32{1})
	closeDataset(t, ds)
	left := failPuts(o)
	o.Workers = 1
	ds = update(t, "mem:torn", o)
	left.Store(3) // enough for the mark and two chunks
	if err := variable(t, ds, "v").Write(t.Context(), slab(1, 4), []int32{2, 3, 4, 5}); err == nil {
		t.Fatal("want the injected failure")
	}
	left.Store(1 << 40)
	o.Wrap = nil
	if m, err := growthMark(t, open(t, "mem:torn", o)); err != nil || m == nil {
		t.Errorf("before the Flush: the mark does not exist: %v, %v", m, err)
	}
	closeDataset(t, ds)
	ds = update(t, "mem:torn", o)
	if m, err := growthMark(t, ds); err != nil || m != nil {
		t.Errorf("after the Flush: the mark still exists: %v, %v", m, err)
	}
	write(t, variable(t, ds, "v"), slab(4, 1), []int32{9})
	closeDataset(t, ds)
	f := int32(-2147483647)
	expect(t, open(t, "mem:torn", o), "v", []int32{1, f, f, f, 9})
}

// same compares the values of a variable with a slice of their type.
func same(t *testing.T, ds *dataset.Dataset, path string, want any) {
	t.Helper()
	switch w := want.(type) {
	case []int32:
		expect(t, ds, path, w)
	case []string:
		expect(t, ds, path, w)
	}
}

// The values of a writer that was assumed dead but has finished are kept, because
// ClearGrowth detects that the shapes have changed.
func TestClearedTooLate(t *testing.T) {
	t.Parallel()
	o := inMemory()
	ds := create(t, "mem:late", o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
	write(t, v, slab(0, 1), []int32{1})
	closeDataset(t, ds)
	u := *o
	u.Update = true
	writer := open(t, "mem:late", &u)
	write(t, variable(t, writer, "v"), slab(1, 1), []int32{2})
	cleaner := open(t, "mem:late", &u)
	if m, err := growthMark(t, cleaner); err != nil || m == nil {
		t.Fatalf("want a growth mark, got %v, %v", m, err)
	}
	closeDataset(t, writer)
	if err := clearGrowth(t, cleaner); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	if err := cleaner.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	expect(t, open(t, "mem:late", o), "v", []int32{1, 2})
	again := open(t, "mem:late", &u)
	if err := clearGrowth(t, again); err != nil {
		t.Error(err)
	}
	closeDataset(t, again)
	expect(t, open(t, "mem:late", o), "v", []int32{1, 2})
}

func clearGrowth(t *testing.T, ds *dataset.Dataset) error {
	t.Helper()
	_, err := ds.RemoveLeftovers(t.Context())
	return err
}

// growthMark returns the first growth mark, or nil.
func growthMark(t *testing.T, ds *dataset.Dataset) (*dataset.GrowthMark, error) {
	t.Helper()
	marks, err := ds.GrowthMarks(t.Context())
	if len(marks) == 0 {
		return nil, err
	}
	return &marks[0], err
}
