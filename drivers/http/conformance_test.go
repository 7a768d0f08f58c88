package http_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
)

// tagged serves a directory with net/http and adds strong ETags.
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

// rangeless serves a directory without ranges, conditions and versions.
func rangeless(dir string) http.Handler {
	files := http.FileServer(http.Dir(dir))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range []string{"Range", "If-Match"} {
			r.Header.Del(h)
		}
		files.ServeHTTP(w, r)
	})
}

// target returns a target that uses a separate directory of a server for every check.
func target(t *testing.T, serve func(dir string) http.Handler) *mapsuite.Target {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewServer(serve(dir))
	t.Cleanup(server.Close)
	var n atomic.Int64
	return &mapsuite.Target{
		Opener: httpdriver.New(), Blind: true,
		NewSpec: func() (driver.OpenSpec, func(), error) {
			return driver.OpenSpec{Endpoint: server.URL, Path: fmt.Sprintf("/data%%20set/%d", n.Add(1))}, nil, nil
		},
		OpenWriter: func(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
			path := filepath.Join(dir, "data set", filepath.Base(spec.Path))
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return nil, err
			}
			return file.New().Open(ctx, driver.OpenSpec{Path: path, Mode: driver.Create})
		},
	}
}

// noVersions disables the checks that need versions: without ETags, new files have no
// version.
var noVersions = map[string]string{"map.get.if-match": "a new file has no version without an ETag"}

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("etags", func(t *testing.T) {
		t.Parallel()
		conformance.Test(t, mapsuite.Suite(), target(t, tagged))
	})
	t.Run("no ranges", func(t *testing.T) {
		t.Parallel()
		conformance.TestWith(t, mapsuite.Suite(), target(t, rangeless), &conformance.Options{Disable: noVersions, Effort: conformance.Brief})
	})
}
