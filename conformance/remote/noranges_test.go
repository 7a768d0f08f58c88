package remote_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
)

// TestServerWithoutRanges reads columns of a chunk without codecs from a web server
// that ignores ranges, including rows beyond max_skip. The number of requests must not
// depend on the number of rows.
func TestServerWithoutRanges(t *testing.T) {
	t.Parallel()
	const rows, columns = 300, 100
	dir := t.TempDir()
	reg := registry.New([]driver.Opener{file.New(), httpdriver.New()})
	ds := must[*dataset.Dataset](t)(open.Create(t.Context(), filepath.Join(dir, "d")+"#mode=nczarr", &dataset.CreateOptions{Options: dataset.Options{Registry: reg}}))
	y, x := must[*dataset.Dim](t)(ds.Root().DefineDim("y", rows, false)), must[*dataset.Dim](t)(ds.Root().DefineDim("x", columns, false))
	v := must[*dataset.Var](t)(ds.Root().DefineVar(t.Context(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{rows, columns}}))
	values := make([]int32, rows*columns)
	for i := range values {
		values[i] = int32(i)
	}
	ok(t, v.Write(t.Context(), v.All(), values))
	ok(t, ds.Close(t.Context()))

	var reads atomic.Int64
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/0.0") {
			reads.Add(1)
		}
		q.Header.Del("Range")
		files.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	for _, skip := range []int{0, 1000, 1 << 20} {
		o := unlimited(reg, nil)
		o.MergeGap, o.Remote.InFlight = 16, 8
		o.DriverOptions = map[string][]byte{"http": fmt.Appendf(nil, `{"max_skip": %d}`, skip)}
		ds := must[*dataset.Dataset](t)(open.Open(t.Context(), server.URL+"/d", &o))
		defer func() { ok(t, ds.Close(context.WithoutCancel(t.Context()))) }()
		v := must[*dataset.Var](t)(ds.Root().Var("v"))
		for _, most := range []int64{17, 1} {
			reads.Store(0)
			got := must[[]int32](t)(dataset.Get[int32](t.Context(), v, chunk.Selection{Start: []int64{0, 7}, Count: []int64{rows, 2}}))
			for i, g := range got {
				if g != int32(i/2*columns+7+i%2) {
					t.Fatalf("max_skip %d: value %d is %d", skip, i, g)
				}
			}
			if n := reads.Load(); n > most {
				t.Errorf("max_skip %d: want at most %d requests for the chunk, got %d", skip, most, n)
			}
		}
	}
}
