package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/drivers/file"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
)

// soakVar is how long the soak lasts; without it, soakTime.
const (
	soakVar  = "NCZARR_SOAK"
	soakTime = 8 * time.Second
)

func soakFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(soakVar)
	if text == "" {
		return soakTime
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// patient are layers that give up on nothing but what lasts, and soon on what
// does not answer.
func patient(stats *layer.Stats) layer.RemoteOptions {
	return layer.RemoteOptions{
		Retry:    layer.RetryOptions{Attempts: 12, Base: 2 * time.Millisecond, Max: 50 * time.Millisecond, Reserve: -1, OnRetry: stats.Retried},
		InFlight: 16, CallTimeout: time.Second,
	}
}

// soaked is a store under test: reads go through the faults, writes too or
// around them.
type soaked struct {
	reader, writer *zmap.Map
	lists          bool
	stats          *layer.Stats
}

// soaker works on keys that are its own, and knows what they hold.
type soaker struct {
	soaked
	id    string
	model map[string][]byte
	rng   *rand.Rand
	ops   *atomic.Int64
}

func (w *soaker) key() string { return fmt.Sprintf("%s/%d/k%d", w.id, w.rng.IntN(2), w.rng.IntN(8)) }

// step does one operation, and fails when what it gives is not what it must be.
func (w *soaker) step(ctx context.Context) error {
	w.ops.Add(1)
	key := w.key()
	want, there := w.model[key]
	switch n := w.rng.IntN(20); {
	case n < 5:
		body := make([]byte, w.rng.IntN(30000))
		for i := range body {
			body[i] = byte(w.rng.Uint32())
		}
		if _, err := w.writer.Put(ctx, key, driver.Bytes(body), nil); err != nil {
			return fmt.Errorf("put %s: %w", key, err)
		}
		w.model[key] = body
	case n < 6:
		if err := w.writer.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
		delete(w.model, key)
	case n < 7:
		info, err := w.reader.Stat(ctx, key)
		if err := absent("stat", key, there, err); err != nil || !there {
			return err
		}
		if info.Size != int64(len(want)) {
			return fmt.Errorf("stat %s: %d bytes, want %d", key, info.Size, len(want))
		}
	case n < 8 && w.lists:
		return w.list(ctx)
	default:
		return w.get(ctx, key, want, there)
	}
	return nil
}

// absent judges an error against whether there is an object.
func absent(op, key string, there bool, err error) error {
	switch {
	case !there && ncerr.KindOf(err) == ncerr.ErrNotFound:
		return nil
	case !there && err == nil:
		return fmt.Errorf("%s %s: found, though it is not there", op, key)
	case err != nil:
		return fmt.Errorf("%s %s (there: %v): %w", op, key, there, err)
	}
	return nil
}

func (w *soaker) get(ctx context.Context, key string, want []byte, there bool) error {
	var opts driver.GetOptions
	if there && len(want) > 0 && w.rng.IntN(2) == 0 {
		off := w.rng.IntN(len(want))
		n := w.rng.IntN(len(want) - off + 1)
		opts.Range, want = &driver.Range{Offset: int64(off), Length: int64(n)}, want[off:off+n]
	}
	got, _, err := w.reader.Get(ctx, key, &opts, nil)
	if err := absent("get", key, there, err); err != nil || !there {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("get %s %+v: WRONG VALUE: %d bytes, want %d", key, opts.Range, len(got), len(want))
	}
	return nil
}

func (w *soaker) list(ctx context.Context) error {
	prefix := w.id + "/"
	var got, want []string
	for e, err := range w.reader.List(ctx, prefix, &driver.ListOptions{Recursive: true}) {
		if err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
		got = append(got, e.Key)
	}
	for k := range w.model {
		want = append(want, k)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("list %s: want %q, got %q", prefix, want, got)
	}
	return nil
}

// soak lets workers work for d. Every operation has to succeed in the end, with
// the right value.
func soak(t *testing.T, part string, s soaked, d time.Duration) (ops int64) {
	t.Helper()
	const workers = 8
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	var total atomic.Int64
	for id := range workers {
		wg.Go(func() {
			w := &soaker{soaked: s, id: fmt.Sprint(part, id), model: map[string][]byte{}, rng: rand.New(rand.NewPCG(uint64(id), rand.Uint64())), ops: &total}
			for ctx.Err() == nil && !t.Failed() {
				// An operation that has begun ends in peace, so that the model knows its outcome.
				if err := w.step(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return total.Load()
}

// baseline is what must not grow.
type baseline struct{ goroutines, files int }

func measure() baseline { return baseline{runtime.NumGoroutine(), openFiles()} }

// openFiles gives the number of open descriptors, 0 where that is not known.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// wantNoGrowth runs a soak in two parts: the second must not leave more behind
// than the first did.
func wantNoGrowth(t *testing.T, s soaked, proxy *faulty) {
	t.Helper()
	d := soakFor(t)
	soak(t, "first", s, d/4)
	first := heap()
	ops := soak(t, "then", s, d*3/4)
	if last := heap(); last > 2*first+32<<20 {
		t.Errorf("the heap grew from %d to %d MiB", first>>20, last>>20)
	}
	var told bytes.Buffer
	_ = s.stats.Print(&told)
	t.Logf("%d operations; %s\n%s", ops, proxy.report(), told.String())
	if proxy.requests.Load() < ops/4 || ops < 50 {
		t.Errorf("%d operations, %d requests", ops, proxy.requests.Load())
	}
}

// stack puts the layers of a remote store around m.
func stack(t *testing.T, m driver.Map, stats *layer.Stats, readOnly bool) *zmap.Map {
	t.Helper()
	r, err := layer.Remote(layer.Measure(m, stats), patient(stats))
	if err != nil {
		t.Fatal(err)
	}
	return zmap.New(r, &zmap.Options{ReadOnly: readOnly})
}

// TestSoakHTTP reads from a web server through a proxy that spoils one exchange
// in twenty, while the files change.
func TestSoakHTTP(t *testing.T) { //nolint:paralleltest // it counts goroutines
	base := measure()
	t.Run("run", func(t *testing.T) {
		dir := t.TempDir()
		server := httptest.NewServer(tagged(dir))
		t.Cleanup(server.Close)
		proxy, url := newFaulty(t, server.URL, 0.05, append(faults(), wholeForRange()))
		stats := layer.NewStats()
		near, err := file.New().Open(t.Context(), driver.OpenSpec{Path: dir, Mode: driver.Update})
		if err != nil {
			t.Fatal(err)
		}
		far, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: url, Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		s := soaked{reader: stack(t, far, stats, true), writer: zmap.New(near, nil), stats: stats}
		wantNoGrowth(t, s, proxy)
		for _, m := range []*zmap.Map{s.reader, s.writer} {
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wantBase(t, base)
}

func wantBase(t *testing.T, base baseline) {
	t.Helper()
	if n := settle(base.goroutines+2, runtime.NumGoroutine); n > base.goroutines+2 {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines at first, %d now:\n%s", base.goroutines, n, buf[:runtime.Stack(buf, true)])
	}
	if n := settle(base.files+2, openFiles); n > base.files+2 {
		t.Errorf("%d descriptors at first, %d now", base.files, n)
	}
}

// tagged serves a directory as net/http does, with strong ETags.
func tagged(dir string) http.Handler {
	files := http.FileServer(http.Dir(dir))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Join(dir, filepath.FromSlash(r.URL.Path))
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size()))
		}
		files.ServeHTTP(w, r)
	})
}
