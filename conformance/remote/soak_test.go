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
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/drivers/file"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
)

// soakVar is the environment variable for the duration of the soak; the default is
// soakTime. A soak of thoroughTime or longer must trigger every fault.
const (
	soakVar      = "NCZARR_SOAK"
	soakTime     = 8 * time.Second
	thoroughTime = 10 * time.Minute
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

// patient returns options for layers that retry temporary failures many times and time
// out quickly.
func patient(stats *layer.Stats) layer.RemoteOptions {
	return layer.RemoteOptions{
		Retry:    layer.RetryOptions{Attempts: 12, Base: 2 * time.Millisecond, Max: 50 * time.Millisecond, Reserve: -1, OnRetry: stats.Retried},
		InFlight: 16, CallTimeout: 4 * time.Second, // longer than a busy machine needs to respond
	}
}

// soak runs workers for d, and longer on a slow machine until they have completed a
// minimum number of operations. Every operation must eventually succeed with the right
// value.
func soak(t *testing.T, part string, s soakStore, proxy *faulty, d time.Duration) (ops int64) {
	t.Helper()
	const workers, minOps = 8, 100
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	var total atomic.Int64
	seed := testseed.New(t)
	for id := range workers {
		wg.Go(func() {
			w := &soaker{soakStore: s, id: fmt.Sprint(part, id), model: map[string][]byte{}, rng: rand.New(rand.NewPCG(seed, uint64(id))), ops: &total, proxy: proxy}
			for (ctx.Err() == nil || total.Load() < minOps) && !t.Failed() {
				// A started operation runs to its end, so that the model can record its
				// outcome.
				if err := w.step(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return total.Load()
}

// baseline holds the counts that must not grow.
type baseline struct{ goroutines, files int }

func measure() baseline { return baseline{runtime.NumGoroutine(), openFiles()} }

// openFiles returns the number of open descriptors, or 0 if unknown.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// wantNoGrowth runs a soak in two parts and checks that the second part does not use
// more memory than the first.
func wantNoGrowth(t *testing.T, s soakStore, proxy *faulty) {
	t.Helper()
	d := soakFor(t)
	soak(t, "first", s, proxy, d/4)
	first := heap()
	ops := soak(t, "then", s, proxy, d*3/4)
	if last := heap(); last > first+8<<20 {
		t.Errorf("the heap grew from %d to %d KiB", first>>10, last>>10)
	}
	var summary bytes.Buffer
	_ = s.stats.Print(&summary)
	t.Logf("%d operations; %s\n%s", ops, proxy.report(), summary.String())
	for _, x := range proxy.list {
		if d >= thoroughTime && proxy.occurrences(x.name) == 0 {
			t.Errorf("%q never occurred", x.name)
		}
	}
	if proxy.requests.Load() < ops/4 || ops < 50 {
		t.Errorf("too few operations or requests: %d and %d", ops, proxy.requests.Load())
	}
}

// stack adds the layers of a remote store to m.
func stack(t *testing.T, m driver.Map, stats *layer.Stats, readOnly bool) *zmap.Map {
	t.Helper()
	r, err := layer.Remote(layer.Measure(m, stats), patient(stats))
	if err != nil {
		t.Fatal(err)
	}
	return zmap.New(r, &zmap.Options{ReadOnly: readOnly})
}

// TestSoakHTTP reads from a web server through a proxy that injects a fault into one
// request in twenty, while the files change.
func TestSoakHTTP(t *testing.T) { //nolint:paralleltest // the test counts goroutines
	base := measure()
	t.Run("run", func(t *testing.T) {
		dir := t.TempDir()
		server := httptest.NewServer(tagged(dir))
		t.Cleanup(server.Close)
		proxy, url := newFaulty(t, server.URL, "/", 0.05, append(faults(), wholeForRange(onDisk(dir))))
		stats := layer.NewStats()
		local, err := file.New().Open(t.Context(), driver.OpenSpec{Path: dir, Mode: driver.Update})
		if err != nil {
			t.Fatal(err)
		}
		remote, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: url, Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		s := soakStore{reader: stack(t, remote, stats, true), writer: zmap.New(local, nil), stats: stats}
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
	if n := waitFor(base.goroutines+2, runtime.NumGoroutine); n > base.goroutines+2 {
		buf := make([]byte, 1<<16)
		t.Errorf("goroutines leak: %d at first, %d now:\n%s", base.goroutines, n, buf[:runtime.Stack(buf, true)])
	}
	if n := waitFor(base.files+2, openFiles); n > base.files+2 {
		t.Errorf("descriptors leak: %d at first, %d now", base.files, n)
	}
}

// onDisk returns a function that reads whole objects from a directory that [tagged]
// serves.
func onDisk(dir string) func(r *http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		name := filepath.Join(dir, filepath.FromSlash(r.URL.Path))
		body, err := os.ReadFile(name)
		return answer{http.StatusOK, http.Header{"Etag": {tag(name)}, "Content-Length": {strconv.Itoa(len(body))}}, body}, err
	}
}

// tagged serves a directory with net/http and adds strong ETags.
func tagged(dir string) http.Handler {
	files := http.FileServer(http.Dir(dir))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tag := tag(filepath.Join(dir, filepath.FromSlash(r.URL.Path))); tag != "" {
			w.Header().Set("ETag", tag)
		}
		files.ServeHTTP(w, r)
	})
}

// tag returns the ETag of a file, or "" if the file does not exist or is not regular.
func tag(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size())
}
