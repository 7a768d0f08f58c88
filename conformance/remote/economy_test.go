package remote_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/file"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
)

// columns lists the columns of the table in docs/reference/requests.md.
var columns = [...]string{"get", "stat", "list", "put"} // never changed

// table reads docs/reference/requests.md. It returns, for each situation, the number of
// requests by kind and the number of round trips under "round trips".
func table(t *testing.T) map[string]map[string]int {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "requests.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]map[string]int{}
	for line := range strings.Lines(string(page)) {
		fields := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| `") || len(fields) != len(columns)+2 {
			continue
		}
		row := map[string]int{}
		for i, field := range fields[1:] {
			n, err := strconv.Atoi(strings.TrimSpace(field))
			if err != nil {
				t.Fatalf("row %q: %v", line, err)
			}
			if i < len(columns) {
				row[columns[i]] = n
			} else {
				row["round trips"] = n
			}
		}
		rows[strings.Trim(strings.TrimSpace(fields[0]), "`")] = row
	}
	if len(rows) < 10 {
		t.Fatalf("want at least 10 rows in the table, got %d", len(rows))
	}
	return rows
}

// want compares the counted requests with a row of the table.
func want(t *testing.T, rows map[string]map[string]int, situation string, r *rounds) {
	t.Helper()
	kinds, depth := r.take()
	row, ok := rows[situation]
	if !ok {
		t.Errorf("%s is not in the table", situation)
	}
	for _, kind := range columns {
		if kinds[kind] != row[kind] {
			t.Errorf("%s: want %d %s requests as in the table, got %d", situation, row[kind], kind, kinds[kind])
		}
	}
	if depth != row["round trips"] {
		t.Errorf("%s: want %d round trips as in the table, got %d", situation, row["round trips"], depth)
	}
}

// unlimited returns options that allow unlimited concurrent requests, so that only requests
// that depend on each other add round trips.
func unlimited(reg registry.Registry, wrap func(driver.Map) driver.Map) dataset.Options {
	return dataset.Options{Registry: reg, Wrap: wrap, SingleWriter: true, Remote: layer.RemoteOptions{InFlight: 4096}}
}

func mustOpen(t *testing.T, url string, o dataset.Options) *dataset.Dataset {
	t.Helper()
	ds, err := open.Open(t.Context(), url, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ds.Close(context.WithoutCancel(t.Context())) })
	if n := len(ds.Root().Vars()); n != arrays || len(ds.Problems()) > 0 {
		t.Fatalf("want %d variables and no problems, got %d, %v", arrays, n, ds.Problems())
	}
	return ds
}

func slab(y0, x0, ny, nx int64) chunk.Selection {
	return chunk.Selection{Start: []int64{y0, x0}, Count: []int64{ny, nx}}
}

// TestRequests compares the requests to a remote store with the table.
func TestRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows, r := table(t), bubbleRounds()
		reg := registry.New([]driver.Opener{memmap.NewOpener()})
		local := dataset.Options{Registry: reg, SingleWriter: true}
		o := unlimited(reg, func(m driver.Map) driver.Map { return remoteMap{m, r} })
		build(t, "mem:nczarr#mode=nczarr", &dataset.CreateOptions{Options: local})
		build(t, "mem:pure#mode=zarr", &dataset.CreateOptions{Options: local})
		build(t, "mem:all#mode=nczarr", &dataset.CreateOptions{Options: local, Consolidated: true})
		if m, err := open.Store(t.Context(), "mem:all", &local); err != nil {
			t.Fatal(err)
		} else if _, err := m.Stat(t.Context(), ".zmetadata"); err != nil {
			t.Fatal(err)
		}

		build(t, "mem:moved#mode=nczarr", &dataset.CreateOptions{Options: local})
		loc, err := open.Locate("mem:moved", &o, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dataset.Migrate(t.Context(), loc, &dataset.MigrateOptions{Options: o, Layout: zarr.LayoutV3}); err != nil {
			t.Fatal(err)
		}
		want(t, rows, "migrate", r)
		mustOpen(t, "mem:all#mode=nczarr", o)
		want(t, rows, "open-consolidated", r)
		mustOpen(t, "mem:pure#mode=zarr", o)
		want(t, rows, "open-pure", r)
		mustOpen(t, "mem:pure", o)
		want(t, rows, "open-pure-plain", r)
		ds := mustOpen(t, "mem:nczarr#mode=nczarr", o)
		want(t, rows, "open-nczarr", r)

		v, err := ds.Root().Var(name(0))
		if err != nil {
			t.Fatal(err)
		}
		read := func(situation string, sel chunk.Selection) {
			t.Helper()
			if _, err := dataset.Get[int32](t.Context(), v, sel); err != nil {
				t.Fatal(err)
			}
			want(t, rows, situation, r)
		}
		read("read-chunk", slab(0, 16, 16, 16))
		read("read-part", slab(3, 16, 2, 16))
		read("read-columns", slab(0, 18, 16, 3))
		if err := ds.CheckUnchanged(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, rows, "check-unchanged", r)
		read("read-absent-chunk", slab(48, 48, 16, 16))
		read("read-16-chunks", v.All())
		o.MergeGap = 16
		if v, err = mustOpen(t, "mem:nczarr#mode=nczarr", o).Root().Var(name(0)); err != nil {
			t.Fatal(err)
		}
		r.take()
		read("read-columns-apart", slab(0, 18, 16, 3))
		writes(t, rows, r, o)

		if _, err := memmapStore(t, reg, "empty"); err != nil {
			t.Fatal(err)
		}
		if _, err := open.Open(t.Context(), "mem:empty", &o); ncerr.KindOf(err) != ncerr.ErrNoDataset {
			t.Errorf("open an empty store: want ErrNoDataset, got %v", err)
		}
		want(t, rows, "open-missing", r)
	})
}

// TestRequestsOfGroups counts the requests to open a tree of 20 groups in 2 levels,
// each with an array. The tree is pure Zarr, so each level has to be searched.
func TestRequestsOfGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows, r := table(t), bubbleRounds()
		reg := registry.New([]driver.Opener{memmap.NewOpener()})
		ds, err := open.Create(t.Context(), "mem:tree#mode=zarr", &dataset.CreateOptions{Options: dataset.Options{Registry: reg}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			g := must[*dataset.Group](t)(ds.Root().DefineGroup(name(i)))
			sub := must[*dataset.Group](t)(g.DefineGroup("sub"))
			for _, at := range []*dataset.Group{g, sub} {
				must[*dataset.Var](t)(at.DefineVar(t.Context(), "v", &dataset.VarSpec{Type: dtype.NCInt}))
			}
		}
		ok(t, ds.Close(t.Context()))
		o := unlimited(reg, func(m driver.Map) driver.Map { return remoteMap{m, r} })
		ds = must[*dataset.Dataset](t)(open.Open(t.Context(), "mem:tree#mode=zarr", &o))
		defer func() { ok(t, ds.Close(context.WithoutCancel(t.Context()))) }()
		want(t, rows, "open-pure-tree", r)
		for i := range 10 {
			for _, path := range []string{"/v", "/sub/v"} {
				must[*dataset.Var](t)(ds.Root().Var(name(i) + path))
			}
		}
	})
}

func memmapStore(t *testing.T, reg registry.Registry, name string) (driver.Map, error) {
	t.Helper()
	d, err := reg.Driver("mem")
	if err != nil {
		return nil, err
	}
	return d.Open(t.Context(), driver.OpenSpec{Path: name, Mode: driver.Create})
}

// writes counts the requests for opening for update and for writing a whole chunk and a
// part of one.
func writes(t *testing.T, rows map[string]map[string]int, r *rounds, o dataset.Options) {
	t.Helper()
	o.Update, o.WriteBuffer = true, -1
	mustOpen(t, "mem:pure#mode=zarr", o)
	want(t, rows, "update-pure", r)
	up := mustOpen(t, "mem:nczarr#mode=nczarr", o)
	want(t, rows, "update-nczarr", r)
	v, err := up.Root().Var(name(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Write(t.Context(), slab(0, 0, 16, 16), make([]int32, 256)); err != nil {
		t.Fatal(err)
	}
	want(t, rows, "write-chunk", r)
	if err := v.Write(t.Context(), slab(0, 0, 1, 2), make([]int32, 2)); err != nil {
		t.Fatal(err)
	}
	want(t, rows, "write-part", r)
}

// TestRequestsOfHTTP compares the requests to a web server with the table.
func TestRequestsOfHTTP(t *testing.T) {
	t.Parallel()
	rows, r, dir := table(t), newRounds(), t.TempDir()
	reg := registry.New([]driver.Opener{file.New(), httpdriver.New()})
	for name, consolidated := range map[string]bool{"nczarr": false, "all": true} {
		build(t, filepath.Join(dir, name)+"#mode=nczarr", &dataset.CreateOptions{Options: dataset.Options{Registry: reg, SingleWriter: true}, Consolidated: consolidated})
	}
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.wait(map[string]string{http.MethodGet: "get", http.MethodHead: "stat"}[q.Method])
		defer r.answered()
		files.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	o := unlimited(reg, nil)
	mustOpen(t, server.URL+"/all", o)
	want(t, rows, "open-consolidated", r)
	ds := mustOpen(t, server.URL+"/nczarr", o)
	want(t, rows, "open-nczarr", r)
	v, err := ds.Root().Var(name(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dataset.Get[int32](t.Context(), v, slab(0, 0, 16, 16)); err != nil {
		t.Fatal(err)
	}
	want(t, rows, "read-chunk", r)
	if _, err := dataset.Get[int32](t.Context(), v, slab(4, 0, 1, 8)); err != nil {
		t.Fatal(err)
	}
	want(t, rows, "read-part", r)
	if _, err := open.Open(t.Context(), server.URL+"/none", &o); ncerr.KindOf(err) != ncerr.ErrNoDataset {
		t.Errorf("open a missing dataset: want ErrNoDataset, got %v", err)
	}
}

// TestErrorsNameTheStore checks that errors name the store, without the signature of
// its URL.
func TestErrorsNameTheStore(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	o := unlimited(registry.New([]driver.Opener{httpdriver.New()}), nil)
	_, err := open.Open(t.Context(), server.URL+"/data/x?X-Amz-Signature=abcdef", &o)
	if err == nil || !strings.HasSuffix(err.Error(), "(in "+server.URL+"/data/x)") || strings.Contains(err.Error(), "abcdef") || strings.Count(err.Error(), server.URL) != 1 {
		t.Errorf("want an error with the store and without the signature, got %v", err)
	}
}
