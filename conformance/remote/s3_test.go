package remote_test

import (
	"testing"

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
		proxy, url := newFaulty(t, srv.Endpoint, 0.05, faults())
		stats := layer.NewStats()
		far, err := s3.New().Open(t.Context(), driver.OpenSpec{
			Endpoint: url, Path: srv.Bucket + "/soak", Mode: driver.Update, Options: []byte(`{"region": "` + srv.Region + `", "page_size": 5}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		m := stack(t, far, stats, false)
		wantNoGrowth(t, soaked{reader: m, writer: m, lists: true, stats: stats}, proxy)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wantBase(t, base)
}
