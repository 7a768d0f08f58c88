package remote_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/drivers/file"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
)

// published serves the test dataset over HTTP and returns its URL and options. The
// handler chunks responds to the requests for chunks.
func published(t *testing.T, chunks http.HandlerFunc) (string, dataset.Options) {
	t.Helper()
	dir := t.TempDir()
	reg := registry.New([]driver.Opener{file.New(), httpdriver.New()})
	build(t, filepath.Join(dir, "d")+"#mode=nczarr", &dataset.CreateOptions{Options: dataset.Options{Registry: reg, SingleWriter: true}, Consolidated: true})
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := filepath.Base(r.URL.Path); name[0] == '.' {
			files.ServeHTTP(w, r)
			return
		}
		chunks(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/d", dataset.Options{Registry: reg}
}

// TestCancelStopsAllRequests checks that the end of a context ends an operation and all
// its requests immediately, and leaves no goroutine or descriptor behind.
func TestCancelStopsAllRequests(t *testing.T) { //nolint:paralleltest // the test counts goroutines
	base := measure()
	t.Run("run", func(t *testing.T) {
		var inProgress atomic.Int64
		url, o := published(t, func(_ http.ResponseWriter, r *http.Request) {
			inProgress.Add(1)
			defer inProgress.Add(-1)
			<-r.Context().Done()
		})
		ds := mustOpen(t, url, o)
		v, err := ds.Root().Var(name(0))
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for inProgress.Load() < 16 {
				time.Sleep(time.Millisecond)
			}
			cancel(nil)
		}()
		if _, err := dataset.Get[int32](ctx, v, v.All()); !errors.Is(err, context.Canceled) || !ncerr.IsContext(err) {
			t.Errorf("want context.Canceled, got %v", err)
		}
		if n := waitFor(0, func() int { return int(inProgress.Load()) }); n != 0 {
			t.Errorf("want no request after the call, got %d", n)
		}
		if n := waitFor(before+4, runtime.NumGoroutine); n > before+4 { // an idle connection may remain
			t.Errorf("goroutines leak: %d before, %d after", before, n)
		}
	})
	wantBase(t, base)
}

// TestAdversaries checks that each permanent fault of a server causes an error of the right
// kind, and that a missing chunk reads as fill.
func TestAdversaries(t *testing.T) {
	t.Parallel()
	ones := make([]byte, 16*16*4)
	for i := range ones {
		ones[i] = 1
	}
	for what, tc := range map[string]struct {
		chunks http.HandlerFunc
		want   ncerr.Kind
	}{
		"absent":      {http.NotFound, 0},
		"short":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(ones[1:]) }, ncerr.ErrCorrupt},
		"long":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(append([]byte{1}, ones...)) }, ncerr.ErrCorrupt},
		"empty":       {func(http.ResponseWriter, *http.Request) {}, ncerr.ErrCorrupt},
		"refused":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, ncerr.ErrPermission},
		"unavailable": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, ncerr.ErrIO},
		"page":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html><body>app</body></html>")) }, ncerr.ErrNotZarr},
		"packed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(ones)
		}, ncerr.ErrUnsupported},
		"cut always": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1024")
			_, _ = w.Write(ones[:100])
			w.(http.Flusher).Flush()
			reset()
		}, ncerr.ErrIO},
		"another version each time": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"`+time.Now().String()+`"`)
			if r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusPreconditionFailed)
				return
			}
			w.Header().Set("Content-Length", "1024")
			_, _ = w.Write(ones[:100])
			w.(http.Flusher).Flush()
			reset()
		}, ncerr.ErrIO},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url, o := published(t, tc.chunks)
			o.Remote = layer.RemoteOptions{Retry: layer.RetryOptions{Attempts: 3, Base: time.Millisecond}}
			v, err := mustOpen(t, url, o).Root().Var(name(0))
			if err != nil {
				t.Fatal(err)
			}
			got, err := dataset.Get[int32](t.Context(), v, slab(16, 0, 16, 16))
			if ncerr.KindOf(err) != tc.want {
				t.Errorf("want %v, got %v", tc.want, err)
			}
			if tc.want == 0 && (len(got) != 256 || got[0] != -2147483647) {
				t.Errorf("want fill for an absent chunk, got %v", got[:min(len(got), 3)])
			}
		})
	}
}
