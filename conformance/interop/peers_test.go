package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
)

// nczctl is the path of the program under test, which is built once.
var nczctl string

func TestMain(m *testing.M) {
	killpoint.Main()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "interop")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Set the credentials of the S3 server for tests, and disable the settings of the
	// user.
	for _, line := range []string{
		"AWS_ACCESS_KEY_ID=test-access", "AWS_SECRET_ACCESS_KEY=test-secret-key", "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_ENDPOINT_URL=",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + filepath.Join(dir, "none"), "AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(dir, "none"),
	} {
		name, value, _ := strings.Cut(line, "=")
		os.Setenv(name, value)
	}
	nczctl = filepath.Join(dir, "nczctl")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", nczctl, "../../cmd/nczctl").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build nczctl: %v\n%s", err, out)
		return 1
	}
	// The processes of nczctl are short and small, and need not collect their garbage early.
	os.Setenv("GOGC", "400")
	for range cap(peers) {
		peers <- nil
	}
	defer stopPeers()
	return m.Run()
}

// need skips the test if a peer is not installed, or fails it if NCZARR_REQUIRE_PEERS
// is set. NCZARR_PEERS_DIR is the directory printed by install.sh.
func need(t *testing.T, names ...string) {
	t.Helper()
	dir := os.Getenv("NCZARR_PEERS_DIR")
	versions := map[string]struct{ Version, Absent string }{}
	why := "NCZARR_PEERS_DIR is not set; peers/install.sh prints it"
	if dir != "" {
		data, err := os.ReadFile(filepath.Join(dir, "versions.json"))
		if err == nil {
			err = json.Unmarshal(data, &versions)
		}
		why = fmt.Sprint(err)
	}
	for _, name := range names {
		v, known := versions[name]
		if known && v.Absent == "" {
			t.Logf("%s %s", name, v.Version)
			continue
		}
		if known {
			why = v.Absent
		}
		if os.Getenv("NCZARR_REQUIRE_PEERS") == "1" {
			t.Fatalf("the peer %s is absent: %s", name, why)
		}
		t.Skipf("the peer %s is absent: %s", name, why)
	}
}

// packages maps the values of a tool's --with to the peers that it needs.
var packages = map[string][]string{
	"zarr": {"zarr", "numcodecs"}, "xarray": {"xarray", "zarr"}, "netcdf4": {"netcdf4", "libnetcdf"}, "tensorstore": {"tensorstore"},
	"gdal": {"gdal"}, "zarrita": {"zarrita"}, "zarrs": {"zarr", "zarrs"},
}

// peers holds two processes that run the peers' tools, or nil for a process that has
// not started yet. Processes are reused because importing the peers takes longer than
// most of their work.
var peers = make(chan *peer, 2)

// peer is a process of serve.py. It runs one tool at a time.
type peer struct {
	cmd      *exec.Cmd
	requests *json.Encoder
	input    io.Closer
	answers  *bufio.Reader
	msg      bytes.Buffer
}

func startPeer() (*peer, error) {
	python := filepath.Join(os.Getenv("NCZARR_PEERS_DIR"), "venv", "bin", "python")
	p := &peer{cmd: exec.Command(python, "-B", filepath.Join("peers", "serve.py"), "numcodecs", "zarr", "xarray", "argparse", "canon", "store", "sample_random")}
	p.cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1")
	p.cmd.Stderr = &p.msg
	input, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.requests, p.input, p.answers = json.NewEncoder(input), input, bufio.NewReader(output)
	return p, p.cmd.Start()
}

// stopPeers ends the processes. No tool may be running.
func stopPeers() {
	for range cap(peers) {
		if p := <-peers; p != nil {
			_ = p.input.Close()
			_ = p.cmd.Wait() // failures were reported by the responses
		}
	}
}

// exitError is a nonzero exit status of a tool.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// tool runs one of the peers' tools and returns the document that it prints.
func tool(t *testing.T, name string, args ...string) ([]byte, error) {
	t.Helper()
	p := <-peers
	defer func() { peers <- p }()
	if p == nil {
		var err error
		if p, err = startPeer(); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	stdout, stderr := filepath.Join(dir, "out"), filepath.Join(dir, "err")
	err := p.requests.Encode(map[string]any{"args": append([]string{name}, args...), "out": stdout, "err": stderr})
	answer := ""
	if err == nil {
		answer, err = p.answers.ReadString('\n')
	}
	code := 0
	if err == nil {
		code, err = strconv.Atoi(strings.TrimSpace(answer))
	}
	if err != nil {
		t.Fatalf("%s %s: serve.py: %v: %s", name, strings.Join(args, " "), err, p.msg.Bytes())
	}
	out, err := os.ReadFile(stdout)
	msg, errMsg := os.ReadFile(stderr)
	if err = errors.Join(err, errMsg); err == nil && code != 0 {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), exitError(code), msg)
	}
	return out, err
}

// must is like tool, but ends the test on an error.
func must(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	out, err := tool(t, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// compare returns one line per difference. It omits lines that start with an element of
// known.
func compare(t *testing.T, want, got []byte, ignore string, known ...string) []string {
	t.Helper()
	dir := t.TempDir()
	w, g := filepath.Join(dir, "want.json"), filepath.Join(dir, "got.json")
	if err := errors.Join(os.WriteFile(w, want, 0o666), os.WriteFile(g, got, 0o666)); err != nil {
		t.Fatal(err)
	}
	out, err := tool(t, "compare.py", w, g, "--ignore", ignore)
	if exit := exitError(0); err != nil && (!errors.As(err, &exit) || len(out) == 0) {
		t.Fatal(err)
	}
	var lines []string
	if err == nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		skip := false
		for _, k := range known {
			skip = skip || strings.HasPrefix(line, k)
		}
		if !skip {
			lines = append(lines, line)
		}
	}
	return lines
}

func same(t *testing.T, want, got []byte, ignore string, known ...string) {
	t.Helper()
	for _, line := range compare(t, want, got, ignore, known...) {
		t.Error(line)
	}
}

func encode(t *testing.T, doc *document) []byte {
	t.Helper()
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ctl runs nczctl, which must succeed, and returns its standard output.
func ctl(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), nczctl, append([]string{"--isolation=inproc", "-q"}, args...)...)
	var msg bytes.Buffer
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("nczctl %s: %v: %s", strings.Join(args, " "), err, msg.Bytes())
	}
	return out
}
