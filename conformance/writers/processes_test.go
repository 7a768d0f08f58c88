package writers_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/conformance/writers"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// childVar is set in the process of a writer.
const childVar = "NCZARR_WRITER_PROCESS"

// stepsVar is the environment variable for the number of steps for each store.
const stepsVar = "NCZARR_WRITER_STEPS"

func options() dataset.Options {
	return dataset.Options{Registry: registry.New([]driver.Opener{file.New(), s3.New()})}
}

func TestMain(m *testing.M) {
	if os.Getenv(childVar) == "" {
		os.Exit(m.Run())
	}
	if err := writers.Serve(context.Background(), os.Stdin, os.Stdout, options()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run makes the steps with writers in processes of their own.
func run(t *testing.T, url func(n int) string, faults float64) {
	t.Helper()
	steps := 100
	if text := os.Getenv(stepsVar); text != "" {
		var err error
		if steps, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const part = 500 // so that the metadata does not become large
	for n := 0; n < steps; n += part {
		writers.Run(t, writers.Config{
			URL: url(n), Options: options(), Steps: min(part, steps-n), Seed: testseed.New(t) + uint64(n), Faults: faults, //nolint:gosec // n is not negative
			Command: func() *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), self)
				cmd.Env = append(os.Environ(), childVar+"=1")
				cmd.Stderr = os.Stderr
				return cmd
			},
		})
	}
}

// Three processes that write to a directory and are killed lose no acknowledged element, store no
// wrong value and show no leftover without a warning.
func TestProcessesOfDirectories(t *testing.T) { //nolint:paralleltest // the processes need the cores
	for _, mode := range []string{"nczarr", "nczarr,v3"} {
		dir := t.TempDir()
		run(t, func(n int) string { return filepath.Join(dir, strconv.Itoa(n)+".zarr") + "#mode=" + mode }, 0.005)
	}
}

// The same in a bucket.
func TestProcessesOfS3(t *testing.T) { //nolint:paralleltest // the processes need the cores
	srv := s3server.Start(t)
	env := map[string]string{
		"AWS_ACCESS_KEY_ID": srv.AccessKey, "AWS_SECRET_ACCESS_KEY": srv.SecretKey, "AWS_CONFIG_FILE": "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	for _, mode := range []string{"nczarr,s3", "nczarr,v3,s3"} {
		run(t, func(n int) string {
			return srv.Endpoint + "/" + srv.Bucket + "/" + mode[:len(mode)-3] + strconv.Itoa(n) + "#mode=" + mode
		}, 0.005)
	}
}
