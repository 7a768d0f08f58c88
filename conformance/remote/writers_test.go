package remote_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/conformance/writers"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// stepsVar is the environment variable for the number of steps of TestSeveralWritersOfS3.
const stepsVar = "NCZARR_WRITER_STEPS"

// Random steps of three writers of a bucket lose no acknowledged element, store no wrong
// value and show no leftover without a warning, although one request in fifty fails.
func TestSeveralWritersOfS3(t *testing.T) { //nolint:paralleltest // the test sets environment variables
	srv := bucket(t)
	steps := 100
	if text := os.Getenv(stepsVar); text != "" {
		steps = must[int](t)(strconv.Atoi(text))
	}
	stats, seed := layer.NewStats(), testseed.New(t)
	_, url := newFaulty(t, srv.Endpoint, "/"+srv.Bucket, 0.02, faults())
	const part = 500 // so that the metadata does not become large
	for n := 0; n < steps; n += part {
		for _, mode := range []string{"nczarr,s3", "nczarr,v3,s3"} {
			writers.Run(t, writers.Config{
				URL:     url + "/" + srv.Bucket + "/several" + strconv.Itoa(n) + mode[:len(mode)-3] + "#mode=" + mode,
				Options: dataset.Options{Registry: registry.New([]driver.Opener{s3.New()}), Remote: patient(stats)},
				Steps:   min(part, steps-n) / 2, MayFail: true, Seed: seed + uint64(n), //nolint:gosec // n is not negative
			})
		}
	}
}
