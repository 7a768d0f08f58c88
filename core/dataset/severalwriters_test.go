package dataset_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/conformance/writers"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// stepsVar is the environment variable for the number of steps of TestSeveralWriters. The
// default is 2000 in total.
const stepsVar = "NCZARR_WRITER_STEPS"

// Random steps of three writers, also in the middle of steps of others, lose no
// acknowledged element, store no wrong value and show no leftover without a warning.
func TestSeveralWriters(t *testing.T) {
	t.Parallel()
	total := 2000
	if text := os.Getenv(stepsVar); text != "" {
		var err error
		if total, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := testseed.New(t)
	buckets := &dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()})}
	local := localOptions()
	local.SingleWriter = false
	inMem := inMemory()
	inMem.SingleWriter = false
	type store struct {
		url     string
		options *dataset.Options
		faults  float64
	}
	stores := []store{
		{"mem:severalNAME", inMem, 0},
		{"mem:faultsNAME", inMem, 0.02},
		{"mem:v3NAME#mode=nczarr,v3", inMem, 0},
		{"mem:consolidatedNAME#mode=nczarr,consolidated", inMem, 0},
		{"mem:v3consolidatedNAME#mode=nczarr,v3,consolidated", inMem, 0.01},
		{filepath.Join(t.TempDir(), "aNAME.zarr"), local, 0},
		{filepath.Join(t.TempDir(), "fNAME.zarr") + "#mode=nczarr,v3", local, 0.01},
		{"s3://bkt/aNAME.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000", buckets, 0},
		{"s3://bkt/bNAME.zarr#mode=nczarr,v3&aws.endpoint=http://127.0.0.1:9000", buckets, 0.01},
	}
	for i, s := range stores { //nolint:paralleltest // the steps of one store run one after the other, and so do the stores
		t.Run(s.url, func(t *testing.T) {
			const part = 500 // so that the metadata does not become large
			for n := 0; n < total/len(stores); n += part {
				at := strings.Replace(s.url, "NAME", strconv.Itoa(n), 1)
				writers.Run(t, writers.Config{
					URL: at, Options: *s.options, Steps: min(part, total/len(stores)-n), Seed: seed + uint64(i+n), Faults: s.faults, Kill: dataset.Kill,
				})
			}
		})
	}
}
