package s3_test

import (
	"os"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// Environment variables that name a real bucket.
const (
	hostVar   = "NCZARR_S3_TEST_HOST"   // the server: host, or scheme://host[:port]
	bucketVar = "NCZARR_S3_TEST_BUCKET" // a bucket; keys below nczarr-test/ are written and deleted
)

// TestRealBucket runs the suite on the bucket set in the environment, with the user's
// own credentials, which TestMain removes for all other tests.
func TestRealBucket(t *testing.T) { //nolint:paralleltest // the test sets environment variables
	server, bucket := os.Getenv(hostVar), os.Getenv(bucketVar)
	if server == "" || bucket == "" {
		t.Skipf("%s and %s are not set", hostVar, bucketVar)
	}
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	for name, value := range userEnv {
		t.Setenv(name, value)
		if value == "" {
			os.Unsetenv(name)
		}
	}
	suite := mapsuite.Suite()
	o := patient{s3.New()}
	conformance.Test(t, suite, &mapsuite.Target{Opener: o, Blind: true, NewSpec: func() (driver.OpenSpec, func(), error) {
		spec := specOn(server, bucket+"/nczarr-test/"+runID, nil)
		return spec, func() {
			m, err := o.Open(t.Context(), driver.OpenSpec{Path: spec.Path, Endpoint: server, Mode: driver.Create}) // deletes the store
			if err == nil {
				err = m.Close(t.Context())
			}
			if err != nil {
				t.Errorf("clean up the bucket: %v", err)
			}
		}, nil
	}})
}
