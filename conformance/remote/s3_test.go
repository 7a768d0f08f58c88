package remote_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// bucket starts a real S3 server and sets the credentials for it.
func bucket(t *testing.T) *s3server.Server {
	t.Helper()
	srv := s3server.Start(t)
	t.Setenv("AWS_ACCESS_KEY_ID", srv.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", srv.SecretKey)
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return srv
}

// TestRequestsOfS3 compares the requests to an S3 server with the table.
func TestRequestsOfS3(t *testing.T) { //nolint:paralleltest // the test sets environment variables
	srv, rows, r := bucket(t), table(t), newRounds()
	target := must[*url.URL](t)(url.Parse(srv.Endpoint))
	forward := &httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) {
		q.Out.URL.Scheme, q.Out.URL.Host, q.Out.Host = target.Scheme, target.Host, q.In.Host
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		kind := map[string]string{http.MethodGet: "get", http.MethodHead: "stat", http.MethodPut: "put"}[q.Method]
		if q.URL.Query().Has("list-type") {
			kind = "list"
		}
		r.wait(kind)
		defer r.answered()
		forward.ServeHTTP(w, q)
	}))
	t.Cleanup(proxy.Close)
	o := unlimited(registry.New([]driver.Opener{s3.New()}), nil)
	place := proxy.URL + "/" + srv.Bucket + "/counted#mode=zarr,s3"
	for _, situation := range []string{"create", "create-over"} {
		ds := must[*dataset.Dataset](t)(open.Create(t.Context(), place, &dataset.CreateOptions{Options: o}))
		ok(t, ds.Close(t.Context()))
		want(t, rows, situation, r)
	}
	filled := proxy.URL + "/" + srv.Bucket + "/filled#mode=nczarr,s3"
	ds := must[*dataset.Dataset](t)(open.Create(t.Context(), filled, &dataset.CreateOptions{Options: o, Consolidated: true}))
	x := must[*dataset.Dim](t)(ds.Root().DefineDim("x", 20, false))
	for _, name := range []string{"a", "b"} {
		g := must[*dataset.Group](t)(ds.Root().DefineGroup(name))
		v := must[*dataset.Var](t)(g.DefineVar(t.Context(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{10}}))
		ok(t, v.Write(t.Context(), v.All(), make([]int8, 20)))
	}
	ok(t, ds.Close(t.Context()))
	want(t, rows, "create-arrays", r)
	ds = must[*dataset.Dataset](t)(open.Open(t.Context(), place, &o))
	ok(t, ds.Close(t.Context()))
	if kinds, depth := r.take(); kinds["list"] != 1 || depth != 2 {
		t.Errorf("open an empty dataset: want one list request and 2 round trips, got %v, %d", kinds, depth)
	}
}

// TestCreateIsRepeated checks that replacing a dataset with a new one, and aborting such
// a replacement, succeed although the first request of each kind fails.
func TestCreateIsRepeated(t *testing.T) { //nolint:paralleltest // the test sets environment variables
	srv := bucket(t)
	target := must[*url.URL](t)(url.Parse(srv.Endpoint))
	forward := &httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) {
		q.Out.URL.Scheme, q.Out.URL.Host, q.Out.Host = target.Scheme, target.Host, q.In.Host
	}}
	var mu sync.Mutex
	failed := map[string]bool{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		kind := q.Method + " " + q.URL.Query().Get("max-keys")
		mu.Lock()
		first := !failed[kind]
		failed[kind] = true
		mu.Unlock()
		if first {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, q)
	}))
	t.Cleanup(proxy.Close)
	o := unlimited(registry.New([]driver.Opener{s3.New()}), nil)
	place := proxy.URL + "/" + srv.Bucket + "/again#mode=zarr,s3"
	for range 2 {
		ds := must[*dataset.Dataset](t)(open.Create(t.Context(), place, &dataset.CreateOptions{Options: o}))
		ok(t, ds.Close(t.Context()))
		clear(failed)
	}
	ds := must[*dataset.Dataset](t)(open.Create(t.Context(), place, &dataset.CreateOptions{Options: o}))
	_, err := ds.Map().Put(t.Context(), "left", driver.Bytes("x"), nil)
	ok(t, err)
	clear(failed)
	ok(t, ds.Abort(t.Context()))
}

// TestSoakS3 writes, reads, lists and deletes objects of a real S3 server through a
// proxy that injects a fault into one exchange in twenty.
func TestSoakS3(t *testing.T) { //nolint:paralleltest // the test counts goroutines and sets environment variables
	srv := bucket(t)
	base := measure()
	t.Run("run", func(t *testing.T) {
		proxy, url := newFaulty(t, srv.Endpoint, "/"+srv.Bucket+"/soak/", 0.05, slices.Concat(faults(), writeFaults(), listFaults(), []fault{wholeForRange(stored(srv))}))
		stats := layer.NewStats()
		remote, err := s3.New().Open(t.Context(), driver.OpenSpec{
			Endpoint: url, Path: srv.Bucket + "/soak", Mode: driver.Update, Options: []byte(`{"region": "` + srv.Region + `", "page_size": 5, "multipart_threshold": 20000}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		m := stack(t, remote, stats, false)
		wantNoGrowth(t, soakStore{reader: m, writer: m, bucket: true, stats: stats}, proxy)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wantBase(t, base)
}

// stored returns a function that gets whole objects from the server, because a signed
// range request cannot be changed into one for the whole object.
func stored(srv *s3server.Server) func(r *http.Request) (answer, error) {
	client := srv.Client()
	short := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // an idle connection would count as a leak of the store
	return func(r *http.Request) (answer, error) {
		key := strings.TrimPrefix(r.URL.Path, "/"+srv.Bucket+"/")
		out, err := client.GetObject(r.Context(), &awss3.GetObjectInput{Bucket: &srv.Bucket, Key: &key}, func(o *awss3.Options) { o.HTTPClient = short })
		if err != nil {
			return answer{}, err
		}
		defer out.Body.Close() // the body is only read
		body, err := io.ReadAll(out.Body)
		return answer{http.StatusOK, http.Header{"Etag": {*out.ETag}, "Content-Length": {strconv.Itoa(len(body))}}, body}, err
	}
}
