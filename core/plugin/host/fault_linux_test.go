package host_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestRequestFault checks that jobs use level 0 if the system has no memory for pages
// of the request segment.
func TestRequestFault(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	m := open(t, h, "file", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	pl, _ := pipeline(t, h, 100, codecdriver.Step{ID: "zlib"})
	if n, err := host.FaultRequests(h); n != 2 || err != nil {
		t.Fatalf("want 2 segments, got %d, %v", n, err)
	}
	if mem, _ := pl.(codecdriver.InputLender).LendInput(100); mem != nil {
		t.Error("LendInput returned memory that cannot be written")
	}
	path := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(path, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for want, body := range map[string]driver.Body{"from memory": driver.Bytes("from memory"), "from a file": fileBody{f, 11}} {
		if _, err := m.Put(t.Context(), "k", body, &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := get(t.Context(), m, "k"); err != nil || got != want {
			t.Errorf("want %q, got %q, %v", want, got, err)
		}
	}
	putBatch(t, m, []driver.PutRequest{{Key: "a", Body: driver.Bytes("1")}, {Key: "b", Body: fileBody{f, 11}}, {Key: "c", Body: driver.Bytes("3")}}, nil, nil, nil)
	err = pl.EncodeMany(t.Context(), []codecdriver.Job{{Src: []byte("some text"), Limit: 100}}, func(_ int, out []byte, err error) {
		if err != nil || len(out) == 0 {
			t.Errorf("encode: %d bytes, %v", len(out), err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// fileBody is a body in a file.
type fileBody struct {
	*os.File
	size int64
}

func (b fileBody) Size() int64 { return b.size }

// TestFewDescriptors runs TestNoDescriptor in a new process and checks that it passes.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestNoDescriptor$", "-test.v")
	cmd.Env = append(os.Environ(), isolatedVar+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNoDescriptor") {
		t.Errorf("%v\n%s", err, out)
	}
}

// isolatedVar is an environment variable that is set in a process that runs only
// TestNoDescriptor.
const isolatedVar = "NCZARR_TEST_ISOLATED"

// largeFiles creates a store with files that the driver lends, and returns a function
// that reads all files.
func largeFiles(t *testing.T, h *host.Host) func() error {
	t.Helper()
	dir := t.TempDir()
	data := bytes.Repeat([]byte("x"), 256<<10)
	reqs := make([]driver.GetRequest, 40)
	for i := range reqs {
		reqs[i].Key = strings.Repeat("k", i+1)
		if err := os.WriteFile(filepath.Join(dir, reqs[i].Key), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := open(t, h, "file", driver.OpenSpec{Path: dir})
	if _, err := get(t.Context(), m, "k"); err != nil { // so that the host expects large objects
		t.Fatal(err)
	}
	return func() error {
		var own error
		err := m.(driver.GetManyer).GetMany(t.Context(), reqs, func(_ int, got []byte, _ driver.Info, err error) {
			if err == nil && !bytes.Equal(got, data) {
				err = errors.New("wrong data")
			}
			own = errors.Join(own, err)
		})
		return errors.Join(err, own)
	}
}

// TestLendingLimit checks that GetMany can read more files than may be in transit at once.
func TestLendingLimit(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	read := largeFiles(t, h)
	for _, n := range []int64{3, 0} {
		host.LimitLending(h, n)
		if err := read(); err != nil {
			t.Errorf("limit %d: %v", n, err)
		}
	}
}

// TestManyLenders checks that many concurrent calls with lent files do not deadlock
// because the channel is full.
func TestManyLenders(t *testing.T) {
	t.Parallel()
	read := largeFiles(t, newHost(t, host.Options{CallTimeout: 2 * time.Minute}))
	errs := make([]error, 100)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = read() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// TestNoDescriptor checks that files are read at level 0 if the host has no free
// descriptors for lent files, and that the host does not kill the plugin.
func TestNoDescriptor(t *testing.T) { //nolint:paralleltest // the test limits the descriptors of the process
	if os.Getenv(isolatedVar) == "" {
		return
	}
	h := newHost(t, host.Options{})
	read := largeFiles(t, h)
	if err := read(); err != nil {
		t.Fatal(err)
	}
	old := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	err := read()
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); e != nil || err != nil {
		t.Errorf("%v, %v", err, e)
	}
	if i := h.Plugins()[0]; i.Restarts != 0 {
		t.Errorf("the host killed the plugin: %+v", i)
	}
}
