package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// inProcess runs nczctl with the given drivers in the test process.
func inProcess(t *testing.T, home string, drivers []driver.Opener, args ...string) (code int, out, text string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	self := plugin.Main(plugin.Builtin{Openers: drivers, Providers: []codecdriver.Provider{filters.Provider()}})
	env := &config.Env{Home: home, Vars: map[string]string{"NCZARR_ISOLATION": "inproc"}}
	a := &app{in: strings.NewReader(""), out: &stdout, err: &stderr, self: self, env: env}
	code = a.main(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

// TestReplacedWhileOpen checks that each command that reads a dataset fails if another
// process replaces the dataset while it is open. The server simulates the replacement
// with another ETag in its responses to HEAD.
func TestReplacedWhileOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cdl := filepath.Join(dir, "x.cdl")
	if err := os.WriteFile(cdl, []byte("netcdf x { dimensions: x = 2 ; variables: int v(x) ; data: v = 1, 2 ; }"), 0o600); err != nil {
		t.Fatal(err)
	}
	nczctl := func(args ...string) (int, string) {
		code, _, text := inProcess(t, dir, builtin.New(), args...)
		return code, text
	}
	for _, args := range [][]string{{"gen", "-o", filepath.Join(dir, "d.zarr"), cdl}, {"consolidate", filepath.Join(dir, "d.zarr")}} {
		if code, text := nczctl(args...); code != 0 {
			t.Fatal(text)
		}
	}
	var replaced atomic.Bool
	files := http.FileServer(http.Dir(dir))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root := strings.TrimPrefix(r.URL.Path, "/d.zarr/")
		if replaced.Load() && r.Method == http.MethodHead && (root == ".zgroup" || root == ".zmetadata") {
			w.Header().Set("ETag", `"another"`)
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	url := web.URL + "/d.zarr"
	for _, args := range [][]string{
		{"dump", url},
		{"dump", "-h", url},
		{"dump", "-x", url},
		{"dump", "--json", url},
		{"info", url},
		{"consolidate", "--check", url},
		{"copy", "--overwrite", url, filepath.Join(dir, "copy.zarr")},
		{"copy", "--overwrite", "--use-consolidated=ignore", url, filepath.Join(dir, "copy.zarr")},
	} {
		replaced.Store(false)
		if code, text := nczctl(args...); code != 0 {
			t.Errorf("%q: exit code %d, %s", args, code, text)
		}
		replaced.Store(true)
		if code, text := nczctl(args...); code != ncerr.Exit(ncerr.ErrConflict) || !strings.Contains(text, "replaced while it was being read") {
			t.Errorf("%q of a replaced dataset: exit code %d, %s", args, code, text)
		}
	}
}
