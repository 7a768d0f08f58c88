package remote_test

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
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

// TestSoakS3 writes, reads, lists and deletes objects of a real S3 server
// through a proxy that spoils one exchange in twenty.
func TestSoakS3(t *testing.T) { //nolint:paralleltest // it counts goroutines and sets variables
	srv := bucket(t)
	base := measure()
	t.Run("run", func(t *testing.T) {
		proxy, url := newFaulty(t, srv.Endpoint, "/"+srv.Bucket+"/soak/", 0.05, slices.Concat(faults(), writeFaults(), listFaults(), []fault{wholeForRange(stored(srv))}))
		stats := layer.NewStats()
		far, err := s3.New().Open(t.Context(), driver.OpenSpec{
			Endpoint: url, Path: srv.Bucket + "/soak", Mode: driver.Update, Options: []byte(`{"region": "` + srv.Region + `", "page_size": 5, "multipart_threshold": 20000}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		m := stack(t, far, stats, false)
		wantNoGrowth(t, soaked{reader: m, writer: m, bucket: true, stats: stats}, proxy)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wantBase(t, base)
}

// stored asks the server for whole objects, since a signed request for a part
// cannot be changed into one.
func stored(srv *s3server.Server) func(r *http.Request) (answer, error) {
	client := srv.Client()
	return func(r *http.Request) (answer, error) {
		key := strings.TrimPrefix(r.URL.Path, "/"+srv.Bucket+"/")
		out, err := client.GetObject(r.Context(), &awss3.GetObjectInput{Bucket: &srv.Bucket, Key: &key})
		if err != nil {
			return answer{}, err
		}
		defer out.Body.Close() //nolint:errcheck // only read
		body, err := io.ReadAll(out.Body)
		return answer{http.StatusOK, http.Header{"Etag": {*out.ETag}, "Content-Length": {strconv.Itoa(len(body))}}, body}, err
	}
}
