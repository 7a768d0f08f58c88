package layer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// layered adds a layer to every Map that an Opener returns.
type layered struct {
	driver.Opener
	wrap func(driver.Map) driver.Map
}

func (l layered) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := l.Opener.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return l.wrap(m), nil
}

// noMany is a Map without GetMany and PutMany.
type noMany struct{ driver.Map }

func TestConformance(t *testing.T) {
	t.Parallel()
	layers := map[string]func(driver.Map) driver.Map{
		"retry":   func(m driver.Map) driver.Map { return layer.Retry(m, nil) },
		"limit":   func(m driver.Map) driver.Map { return layer.Limit(m, 2) },
		"limit 1": func(m driver.Map) driver.Map { return layer.Limit(noMany{m}, 1) },
		"log":     func(m driver.Map) driver.Map { return layer.Log(m, slog.New(slog.DiscardHandler)) },
		"count":   func(m driver.Map) driver.Map { m, _ = layer.Count(m); return m },
		"fault":   func(m driver.Map) driver.Map { m, _ = layer.Fault(m, layer.FaultOptions{}); return m },
		"all": func(m driver.Map) driver.Map {
			m, _ = layer.Count(layer.Retry(layer.Limit(m, 3), nil))
			return m
		},
	}
	for name, wrap := range layers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			conformance.TestWith(t, mapsuite.Suite(), &mapsuite.Target{
				Name: name, Opener: layered{memmap.NewOpener(), wrap},
				NewSpec: func() (driver.OpenSpec, func(), error) {
					return driver.OpenSpec{Path: fmt.Sprint("s", n.Add(1))}, nil, nil
				},
			}, &conformance.Options{Effort: conformance.Brief})
		})
	}
}

func TestGetManyIsForwarded(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(driver.Map) driver.Map{
		"retry": func(m driver.Map) driver.Map { return layer.Retry(m, nil) }, "limit": func(m driver.Map) driver.Map { return layer.Limit(m, 1) },
		"log":   func(m driver.Map) driver.Map { return layer.Log(m, slog.Default()) },
		"count": func(m driver.Map) driver.Map { m, _ = layer.Count(m); return m },
		"fault": func(m driver.Map) driver.Map { m, _ = layer.Fault(m, layer.FaultOptions{}); return m },
	} {
		if _, ok := wrap(memmap.New()).(driver.GetManyer); !ok {
			t.Errorf("%s does not have GetMany", name)
		}
		if _, ok := wrap(noMany{memmap.New()}).(driver.GetManyer); ok {
			t.Errorf("%s has GetMany, but the Map below does not", name)
		}
	}
}

// TestPutManyIsForwarded checks that layers that only observe forward PutMany, and that
// layers that act on single puts do not implement it.
func TestPutManyIsForwarded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wrap     func(driver.Map) driver.Map
		forwards bool
	}{
		"log":      {func(m driver.Map) driver.Map { return layer.Log(m, slog.Default()) }, true},
		"count":    {func(m driver.Map) driver.Map { m, _ = layer.Count(m); return m }, true},
		"measure":  {func(m driver.Map) driver.Map { return layer.Measure(m, layer.NewStats()) }, true},
		"retry":    {func(m driver.Map) driver.Map { return layer.Retry(m, nil) }, false},
		"limit":    {func(m driver.Map) driver.Map { return layer.Limit(m, 1) }, false},
		"deadline": {func(m driver.Map) driver.Map { return layer.Deadline(m, time.Second) }, false},
		"fault":    {func(m driver.Map) driver.Map { m, _ = layer.Fault(m, layer.FaultOptions{}); return m }, false},
	} {
		if _, ok := tc.wrap(memmap.New()).(driver.PutManyer); ok != tc.forwards {
			t.Errorf("%s: want PutMany %t, got %t", name, tc.forwards, ok)
		}
		if _, ok := tc.wrap(noMany{memmap.New()}).(driver.PutManyer); ok {
			t.Errorf("%s has PutMany, but the Map below does not", name)
		}
	}
}

// TestPutManyThroughLayers checks that each write of a batch is a put for every layer.
func TestPutManyThroughLayers(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	put := func(m driver.Map) []string {
		reqs := make([]zmap.PutRequest, 4)
		for i := range reqs {
			reqs[i] = zmap.PutRequest{Key: fmt.Sprint("k", i), Body: zmap.Bytes("abc")}
		}
		reqs[2].Opts.IfMatch = "stale"
		got := make([]string, len(reqs))
		if err := zmap.New(m, nil).PutMany(t.Context(), reqs, func(i int, _ zmap.Info, err error) {
			if got[i] = "stored"; err != nil {
				got[i] = ncerr.KindOf(err).Name()
			}
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := []string{"stored", "stored", "ErrConflict", "stored"}
	stats := layer.NewStats()
	m, n := layer.Count(layer.Measure(layer.Log(memmap.New(), logger), stats))
	if got := put(m); !slices.Equal(got, want) {
		t.Errorf("counted: want %q, got %q", want, got)
	}
	if got := []int64{n.Put.Load(), n.PutMany.Load(), n.Failed.Load(), n.BytesWritten.Load(), n.Calls()}; !slices.Equal(got, []int64{4, 1, 1, 9, 4}) {
		t.Errorf("got counters %v", got)
	}
	if k := stats.Kinds(); len(k) != 1 || k[0].Kind != "put" || k[0].Requests != 4 || k[0].Failed != 1 || k[0].Bytes != 9 {
		t.Errorf("Kinds: got %+v", k)
	}
	for _, want := range []string{"op=put key=k0 bytes=3 took=", "op=put key=k2 took=", `op="put many" items=4`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %s in\n%s", want, out.String())
		}
	}
	f := &flaky{Map: memmap.New(), errs: []error{busy(0), busy(0)}}
	o := layer.RetryOptions{Sleep: func(context.Context, time.Duration) error { return nil }}
	if got := put(layer.Retry(layer.Limit(f, 1), &o)); !slices.Equal(got[:2], want[:2]) || got[3] != "stored" {
		t.Errorf("retried: want %q, got %q", want, got)
	}
	for at := range int64(4) {
		m, calls := layer.Fault(memmap.New(), layer.FaultOptions{At: at + 1})
		got := put(m)
		failed := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s == "stored" || s == "ErrConflict" })
		if calls() != 4 || !slices.Equal(failed, []string{"ErrIO"}) {
			t.Errorf("fault at put %d of %d: got %q, want one ErrIO", at+1, calls(), got)
		}
	}
}

// flaky fails one call per element of errs, and then works. A Get calls alloc before it
// fails.
type flaky struct {
	driver.Map
	errs  []error
	calls int
}

func (f *flaky) fail() error {
	if f.calls++; f.calls <= len(f.errs) {
		return f.errs[f.calls-1]
	}
	return nil
}

func (f *flaky) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if err := f.fail(); err != nil {
		_, _ = alloc(3)
		return nil, driver.Info{}, err
	}
	return f.Map.Get(ctx, key, o, alloc)
}

func (f *flaky) Put(ctx context.Context, key string, b driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if err := f.fail(); err != nil {
		return driver.Info{}, err
	}
	return f.Map.Put(ctx, key, b, o)
}

func (f *flaky) Stat(ctx context.Context, key string) (driver.Info, error) {
	if err := f.fail(); err != nil {
		return driver.Info{}, err
	}
	return f.Map.Stat(ctx, key)
}

func (f *flaky) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Map.Delete(ctx, key, o)
}

func (f *flaky) Flush(ctx context.Context) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Map.Flush(ctx)
}

// List yields one entry before it fails.
func (f *flaky) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	err := f.fail()
	return func(yield func(driver.Entry, error) bool) {
		for e, e2 := range f.Map.List(ctx, prefix, o) {
			if !yield(e, e2) {
				return
			}
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
		}
	}
}

func busy(after time.Duration) error {
	return &ncerr.Error{Kind: ncerr.ErrIO, Err: errors.New("busy"), Retryable: true, RetryAfter: after}
}

// rig returns a flaky store with the object "k", a retry layer on top of it, and the
// waits that the layer requests. The layer does not really wait.
func rig(t *testing.T, o layer.RetryOptions, errs ...error) (*flaky, driver.Map, *[]time.Duration) {
	t.Helper()
	base := memmap.New()
	if _, err := base.Put(t.Context(), "k", driver.Bytes("abc"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	waits := &[]time.Duration{}
	o.Sleep = func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
	if o.Random == nil {
		o.Random = func() float64 { return 0.5 }
	}
	f := &flaky{Map: base, errs: errs}
	return f, layer.Retry(f, &o), waits
}

func TestRetryWaits(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	b := busy(0)
	tests := map[string]struct {
		opts  layer.RetryOptions
		errs  []error
		waits []time.Duration
		ok    bool
	}{
		"at once":        {errs: nil, ok: true},
		"doubling":       {errs: []error{b, b, b, b}, waits: []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms}, ok: true},
		"used up":        {errs: []error{b, b, b, b, b}, waits: []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms}},
		"ceiling":        {opts: layer.RetryOptions{Max: 150 * ms}, errs: []error{b, b, b}, waits: []time.Duration{50 * ms, 75 * ms, 75 * ms}, ok: true},
		"requested wait": {errs: []error{busy(time.Second), b}, waits: []time.Duration{time.Second, 100 * ms}, ok: true},
		"budget":         {opts: layer.RetryOptions{Budget: 140 * ms}, errs: []error{b, b, b}, waits: []time.Duration{50 * ms}},
		"wait > budget":  {errs: []error{busy(time.Hour)}, waits: nil},
		"not retryable":  {errs: []error{ncerr.New(ncerr.ErrIO, "", "", nil)}, waits: nil},
		"absent":         {errs: []error{ncerr.ErrNotFound}, waits: nil},
		"then refused":   {errs: []error{b, ncerr.ErrPermission}, waits: []time.Duration{50 * ms}},
		"many attempts":  {opts: layer.RetryOptions{Attempts: 40, Base: time.Nanosecond, Max: 4}, errs: slices.Repeat([]error{b}, 39), waits: append([]time.Duration{0, 1}, slices.Repeat([]time.Duration{2}, 37)...), ok: true},
	}
	for name, tc := range tests {
		f, m, waits := rig(t, tc.opts, tc.errs...)
		data, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
		if (err == nil) != tc.ok || tc.ok && string(data) != "abc" {
			t.Errorf("%s: Get returned %q, %v", name, data, err)
		}
		if !tc.ok && err != tc.errs[f.calls-1] { //nolint:errorlint // the contract is to return the identical error
			t.Errorf("%s: want the last error, got %v", name, err)
		}
		if !slices.Equal(*waits, tc.waits) {
			t.Errorf("%s: want waits %v, got %v", name, tc.waits, *waits)
		}
	}
}

func TestRetriedErrors(t *testing.T) {
	t.Parallel()
	put := func(o driver.PutOptions) func(context.Context, driver.Map) error {
		return func(ctx context.Context, m driver.Map) error {
			_, err := m.Put(ctx, "p", driver.Bytes("x"), &o)
			return err
		}
	}
	for name, tc := range map[string]struct {
		call  func(ctx context.Context, m driver.Map) error
		calls int
	}{
		"stat":          {func(ctx context.Context, m driver.Map) error { _, err := m.Stat(ctx, "k"); return err }, 2},
		"delete":        {func(ctx context.Context, m driver.Map) error { return m.Delete(ctx, "k", &driver.DeleteOptions{}) }, 2},
		"put":           {put(driver.PutOptions{}), 2},
		"put if absent": {put(driver.PutOptions{IfAbsent: true}), 1},
		"put if match":  {put(driver.PutOptions{IfMatch: "1"}), 1},
		"flush":         {func(ctx context.Context, m driver.Map) error { return m.Flush(ctx) }, 1},
		"get, no context": {func(ctx context.Context, m driver.Map) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, _, err := m.Get(ctx, "k", &driver.GetOptions{}, driver.Heap)
			return err
		}, 1},
	} {
		f, m, _ := rig(t, layer.RetryOptions{}, busy(0))
		err := tc.call(t.Context(), m)
		if f.calls != tc.calls || (err == nil) != (tc.calls == 2) {
			t.Errorf("%s: want %d calls, got %d, %v", name, tc.calls, f.calls, err)
		}
	}
}

func TestRetryReusesMemory(t *testing.T) {
	t.Parallel()
	_, m, _ := rig(t, layer.RetryOptions{}, busy(0), busy(0))
	z := zmap.New(m, nil) // zmap reports a driver that calls alloc twice
	if data, _, err := z.Get(t.Context(), "k", nil, nil); err != nil || string(data) != "abc" {
		t.Errorf("Get: got %q, %v, want abc", data, err)
	}
	f, m, _ := rig(t, layer.RetryOptions{}, busy(0))
	if _, err := f.Map.Put(t.Context(), "k", driver.Bytes("longer"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("object of another length in the retry: want ErrConflict, got %v", err)
	}
}

func TestRetryListResumes(t *testing.T) {
	t.Parallel()
	f, m, _ := rig(t, layer.RetryOptions{}, busy(0), busy(0))
	for _, k := range []string{"a", "b", "l"} {
		if _, err := f.Map.Put(t.Context(), k, driver.Bytes("x"), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for e, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Key)
	}
	if want := []string{"a", "b", "k", "l"}; !slices.Equal(got, want) || f.calls != 3 {
		t.Errorf("want %q in 3 calls, got %q in %d", want, got, f.calls)
	}
}

// flakyMany is a Map whose GetMany fails for some requests, or as a whole.
type flakyMany struct {
	*flaky
	whole error
}

func (f flakyMany) GetMany(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
	for i, r := range reqs {
		if f.whole != nil && i == 2 {
			return f.whole
		}
		alloc := r.Alloc
		if alloc == nil {
			alloc = driver.Heap
		}
		data, info, err := f.Get(ctx, r.Key, &r.Opts, alloc)
		sink(i, data, info, err)
	}
	return nil
}

func TestRetryGetMany(t *testing.T) {
	t.Parallel()
	b := busy(0)
	for name, tc := range map[string]struct {
		whole error
		opts  layer.RetryOptions
		errs  []error
		want  []string
		fails bool
	}{
		"some":             {errs: []error{nil, b, nil, b}, want: []string{"abc", "abc", "abc", "abc"}},
		"whole":            {whole: b, want: []string{"abc", "abc", "abc", "abc"}},
		"whole, permanent": {whole: errors.New("gone"), want: []string{"abc", "abc", "", ""}, fails: true},
		"one attempt":      {opts: layer.RetryOptions{Attempts: 1}, errs: []error{nil, b}, want: []string{"abc", "ErrIO", "abc", "abc"}},
	} {
		f, _, _ := rig(t, layer.RetryOptions{}, tc.errs...)
		tc.opts.Sleep = func(context.Context, time.Duration) error { return nil }
		z := layer.Retry(flakyMany{f, tc.whole}, &tc.opts).(driver.GetManyer) // TestGetManyIsForwarded tests the assertion
		got := make([]string, 4)
		reqs := []driver.GetRequest{{Key: "k", Alloc: driver.Heap}, {Key: "k"}, {Key: "k", Alloc: driver.Heap}, {Key: "k"}}
		err := z.GetMany(t.Context(), reqs, func(i int, data []byte, _ driver.Info, err error) {
			if got[i] != "" {
				t.Errorf("%s: request %d has two results", name, i)
			}
			if got[i] = string(data); err != nil {
				got[i] = ncerr.KindOf(err).Name()
			}
		})
		if !slices.Equal(got, tc.want) || (err != nil) != tc.fails {
			t.Errorf("%s: want %q, got %q, %v", name, tc.want, got, err)
		}
	}
}

// gauge is a Map that measures the maximum number of concurrent calls.
type gauge struct {
	driver.Map
	now, most atomic.Int64
}

func (g *gauge) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	n := g.now.Add(1)
	defer g.now.Add(-1)
	for {
		old := g.most.Load()
		if n <= old || g.most.CompareAndSwap(old, n) {
			break
		}
	}
	time.Sleep(time.Millisecond)
	return g.Map.Get(ctx, key, o, alloc)
}

func TestLimit(t *testing.T) {
	t.Parallel()
	// In a synctest bubble a sleeping call wakes only after all other calls sleep or
	// wait for the limit.
	synctest.Test(t, func(t *testing.T) {
		g := &gauge{Map: memmap.New()}
		m := layer.Limit(g, 3)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { _, _, _ = m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap) })
		}
		wg.Wait()
		if n := g.most.Load(); n != 3 {
			t.Errorf("want 3 calls in flight, got %d", n)
		}
	})
}

func TestLimitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	m := layer.Limit(memmap.New(), 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel() // ctx may end before the calls below; only the Stat observes ctx
	hold := func(int64) ([]byte, error) {
		_, err := m.Stat(ctx, "k") // the Stat waits, because this Get is the only allowed call
		return nil, err
	}
	if _, err := m.Put(t.Context(), "k", driver.Bytes("x"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, hold); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want the deadline, got %v", err)
	}
}

func TestCountAndLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m, n := layer.Count(layer.Log(memmap.New(), logger))
	z := zmap.New(m, nil)
	ctx := t.Context()
	_, errPut := z.Put(ctx, "a/b", zmap.Bytes("12345"), nil)
	_, _, errGet := z.Get(ctx, "a/b", &zmap.GetOptions{Range: &zmap.Range{Offset: 1, Length: 2}}, nil)
	_, _, errNone := z.ReadAll(ctx, "none", 0)
	_, errStat := z.Stat(ctx, "a/b")
	errMany := z.GetMany(ctx, []zmap.GetRequest{{Key: "a/b"}, {Key: "a/b"}, {Key: "none"}}, func(int, []byte, zmap.Info, error) {})
	_, errSearch := z.Search(ctx, "")
	if err := errors.Join(errPut, errGet, errStat, errMany, errSearch, z.Delete(ctx, "a/b"), z.Flush(ctx), z.Close(ctx)); err != nil || errNone == nil {
		t.Fatal(err, errNone)
	}
	got := []int64{n.Get.Load(), n.GetMany.Load(), n.Stat.Load(), n.Put.Load(), n.Delete.Load(), n.List.Load(), n.Flush.Load(), n.Items.Load(), n.Failed.Load(), n.BytesRead.Load(), n.BytesWritten.Load(), n.Calls()}
	if want := []int64{2, 1, 1, 1, 1, 1, 1, 4, 1, 12, 5, 8}; !slices.Equal(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
	for _, want := range []string{"op=put key=a/b bytes=5 took=", "op=get key=none took=", `error="no object at this key"`, `op="get many" bytes=10 items=3`, "op=list items=1", "op=close"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %s in\n%s", want, out.String())
		}
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	custom := errors.New("custom")
	for name, tc := range map[string]struct {
		opts layer.FaultOptions
		kind ncerr.Kind // kind of the error from the second call, a put over "old"; 0 means success
		left string     // content after the second call
		get  ncerr.Kind // kind of the error from a get as the second call
		half string     // bytes that the get delivers
	}{
		"never":  {layer.FaultOptions{}, 0, "new!", 0, "old"},
		"refuse": {layer.FaultOptions{At: 2}, ncerr.ErrIO, "old", ncerr.ErrIO, ""},
		"lose":   {layer.FaultOptions{At: 2, Mode: layer.Lose}, ncerr.ErrAmbiguous, "new!", ncerr.ErrIO, ""},
		"tear":   {layer.FaultOptions{At: 2, Mode: layer.Tear}, ncerr.ErrAmbiguous, "ne", ncerr.ErrIO, "o"},
		"drop":   {layer.FaultOptions{At: 2, Mode: layer.Drop}, 0, "old", ncerr.ErrIO, ""},
		"custom": {layer.FaultOptions{At: 2, Err: custom}, ncerr.ErrIO, "old", ncerr.ErrIO, ""},
	} {
		for _, call := range []string{"put", "get"} {
			base := memmap.New()
			if _, err := base.Put(t.Context(), "k", driver.Bytes("old"), &driver.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			m, calls := layer.Fault(base, tc.opts)
			if _, err := m.Stat(t.Context(), "k"); err != nil {
				t.Errorf("%s: the first call failed: %v", name, err)
			}
			var err error
			var data []byte
			want := tc.kind
			if call == "put" {
				_, err = m.Put(t.Context(), "k", driver.Bytes("new!"), &driver.PutOptions{})
			} else {
				data, _, err = m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
				if want = tc.get; string(data) != tc.half {
					t.Errorf("%s: Get returned %q", name, data)
				}
			}
			if ncerr.KindOf(err) != want || tc.opts.Err != nil && !errors.Is(err, custom) {
				t.Errorf("%s: %s returned %v", name, call, err)
			}
			left, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
			if err != nil || call == "put" && string(left) != tc.left || calls() != 3 {
				t.Errorf("%s, %s: the content is %q after %d calls, %v", name, call, left, calls(), err)
			}
		}
	}
}

func TestPermanentFault(t *testing.T) {
	t.Parallel()
	m, _ := layer.Fault(memmap.New(), layer.FaultOptions{At: 1, For: -1, Delay: time.Microsecond})
	for range 3 {
		if err := m.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrIO {
			t.Errorf("Flush: want ErrIO, got %v", err)
		}
	}
	m, _ = layer.Fault(memmap.New(), layer.FaultOptions{Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := m.Stat(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stat with an expired context: want DeadlineExceeded, got %v", err)
	}
}
