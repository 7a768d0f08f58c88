package dataset_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// pausing is a store that, before the first put of a chunk, prints the key of the chunk and
// waits for a line of input.
type pausing struct {
	driver.Map
	paused map[string]bool
	lines  *bufio.Reader
}

func (h pausing) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if strings.HasSuffix(key, "/0") && !h.paused[key] {
		h.paused[key] = true
		if _, err := os.Stdout.WriteString("at " + key + "\n"); err != nil {
			return driver.Info{}, err
		}
		if _, err := h.lines.ReadString('\n'); err != nil {
			return driver.Info{}, err
		}
	}
	return h.Map.Put(ctx, key, body, o)
}

// TestTwoProcessesShareAChunk checks that two processes can write parts of one chunk on
// the local disk. The second process writes after the first has read the chunk and before
// the first puts it. Both parts exist afterwards, whether or not the chunk existed before.
func TestTwoProcessesShareAChunk(t *testing.T) { //nolint:paralleltest // it starts a child
	var log bytes.Buffer
	o := unbuffered(&dataset.Options{Registry: registry.New([]driver.Opener{file.New()}), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if path := os.Getenv("NCZARR_TEST_DATASET"); path != "" {
		lines := bufio.NewReader(os.Stdin)
		o.Wrap = func(m driver.Map) driver.Map { return pausing{m, map[string]bool{}, lines} }
		ds := update(t, path, o)
		for _, name := range []string{"new", "old"} {
			write(t, variable(t, ds, name), slab(0, 1), []int32{1})
		}
		closeDataset(t, ds)
		return
	}
	path := filepath.Join(t.TempDir(), "d.zarr") + "#mode=nczarr"
	ds := create(t, path, o)
	x := dim(t, ds.Root(), "x", 4, false)
	spec := &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Fill: []int32{9}}
	define(t, ds.Root(), "new", spec)
	write(t, define(t, ds.Root(), "old", spec), slab(0, 4), []int32{5, 6, 7, 8})
	closeDataset(t, ds)

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "NCZARR_TEST_DATASET="+path, "NCZARR_TEST_STORE=")
	var errs strings.Builder
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	output := bufio.NewScanner(out)
	for _, name := range []string{"new", "old"} {
		if !output.Scan() || output.Text() != "at "+name+"/0" {
			t.Fatalf("the other process printed %q %s", output.Text(), errs.String())
		}
		ds := update(t, path, o)
		write(t, variable(t, ds, name), slab(3, 1), []int32{4})
		closeDataset(t, ds)
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
	}
	for output.Scan() { // read all output before Wait, which closes the pipe
		errs.WriteString(output.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the other process: %v: %s", err, errs.String())
	}
	ds = open(t, path, o)
	expect(t, ds, "new", []int32{1, 9, 9, 4})
	expect(t, ds, "old", []int32{1, 6, 7, 4})
	if log.Len() > 0 {
		t.Errorf("unexpected warning: %s", log.String())
	}
}
