package main

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/session"
)

// TestMain lets the test binary act as nczctl and as the plugin processes that
// nczctl starts from its own executable.
func TestMain(m *testing.M) {
	killpoint.Main()
	serveFaulty()
	session.Main()
	testscript.Main(m, map[string]func(){"nczctl": main})
}

// TestScripts runs testdata/script with drivers and filters in plugin processes.
func TestScripts(t *testing.T) { runScripts(t, "process") } //nolint:paralleltest // runScripts calls t.Parallel

// TestScriptsInProcess runs the same scripts with drivers and filters in the
// process of nczctl.
func TestScriptsInProcess(t *testing.T) { runScripts(t, "inproc") } //nolint:paralleltest // runScripts calls t.Parallel

func runScripts(t *testing.T, isolation string) {
	t.Parallel()
	corpora := findCorpora(t)
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	srv := s3server.Start(&optional{T: t})
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("NCZARR_ISOLATION", isolation)
			env.Setenv("CORPORA", corpora)
			env.Setenv("MODULE", module)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("TMPDIR", t.TempDir())
			bucketEnv(env, srv, isolation)
			web := httptest.NewServer(http.FileServer(http.Dir(env.WorkDir)))
			env.Defer(web.Close)
			env.Setenv("WEB", web.URL)
			env.Defer(func() { checkNoTempFiles(t, env.Getenv("TMPDIR")) })
			return patientHome(env.Getenv("HOME"))
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "corpora":
				return corpora != "", nil
			case "s3":
				return srv != nil, nil
			case "root":
				return os.Geteuid() == 0, nil
			case "process":
				return isolation == "process", nil
			case "full":
				return os.Getenv("NCZARR_FULL") == "1", nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "fails": cmdFails, "flip": cmdFlip, "truncate": cmdTruncate, "subst": cmdSubst,
			"bomb": cmdBomb, "validjson": cmdValidJSON, "buildplugin": cmdBuildPlugin, "same": cmdSame,
			"faultyplugin": cmdFaultyPlugin,
		},
	})
}

// optional is a testing.T whose Skipf only logs, so the test continues if the S3
// server cannot be built.
type optional struct {
	*testing.T
}

func (o *optional) Skipf(format string, args ...any) { o.Logf(format, args...) }

// bucketEnv sets the variables with which the commands of a script find the S3 server.
// The scripts of each isolation mode use a separate prefix.
func bucketEnv(env *testscript.Env, srv *s3server.Server, isolation string) {
	if srv == nil {
		return
	}
	env.Vars = append(env.Vars, srv.Env()...)
	env.Setenv("ENDPOINT", srv.Endpoint)
	env.Setenv("BUCKET", srv.Bucket)
	env.Setenv("PLACE", isolation)
}

// findCorpora returns the directory of the corpora, or "" if it does not exist.
func findCorpora(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NCZARR_CORPORA")
	if dir == "" {
		dir = "../../../shared/corpora"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nczarr")); err != nil {
		return ""
	}
	return dir
}

// checkNoTempFiles fails the test if a command left files in the temporary directory.
func checkNoTempFiles(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range list {
		t.Errorf("a command left %q in the temporary directory", e.Name())
	}
}

// cmdExits implements "exits CODE COMMAND ARG...". The command must exit with CODE.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code: want %d, got %d\n%s", want, got, ts.ReadFile("stderr"))
	}
}

// cmdFails implements "fails CODE ARG...". nczctl must exit with CODE and print exactly
// one line, which begins with "nczctl: ".
func cmdFails(ts *testscript.TestScript, neg bool, args []string) {
	cmdExits(ts, neg, append([]string{args[0], "nczctl"}, args[1:]...))
	text := ts.ReadFile("stderr")
	if !strings.HasPrefix(text, "nczctl: ") || strings.Count(text, "\n") != 1 {
		ts.Fatalf("want one line from nczctl, got:\n%s", text)
	}
}

// cmdFlip implements "flip FILE OFFSET", which inverts one byte of FILE. A negative
// offset counts from the end.
func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	data := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 0xff
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o666))
}

// cmdTruncate implements "truncate FILE SIZE", which sets the size of FILE in bytes.
func cmdTruncate(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// cmdSubst implements "subst FILE OLD NEW", which replaces the first OLD in FILE. It
// fails if FILE does not contain OLD.
func cmdSubst(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("no %q in %s:\n%s", args[1], args[0], text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, args[1], args[2], 1)), 0o666))
}

// cmdBomb implements "bomb FILE MIB", which writes a small zlib stream of MIB mebibytes
// of zeros.
func cmdBomb(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	for range n {
		_, err := w.Write(make([]byte, 1<<20))
		ts.Check(err)
	}
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}

// cmdValidJSON implements "validjson FILE". FILE, which may be stdout, must be one JSON
// value.
func cmdValidJSON(ts *testscript.TestScript, _ bool, args []string) {
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	var v any
	ts.Check(d.Decode(&v))
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("%s has text after its JSON value", args[0])
	}
}

// patientHome creates a home directory with a long start timeout for plugin
// processes, for busy machines.
func patientHome(dir string) error {
	settings := filepath.Join(dir, ".config", "nczarr")
	if err := os.MkdirAll(settings, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(settings, "config.toml"), []byte("[plugins]\nstart_timeout = \"5m\"\n"), 0o666)
}

// cmdFaultyPlugin implements "faultyplugin FILE", which copies the test binary to FILE.
// The name of FILE selects the faulty plugin.
func cmdFaultyPlugin(ts *testscript.TestScript, _ bool, args []string) {
	exe, err := os.Executable()
	ts.Check(err)
	data, err := os.ReadFile(exe)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o700))
}

// cmdBuildPlugin implements "buildplugin EXAMPLE NAME DIR", which builds a plugin of
// docs/examples as its author would.
func cmdBuildPlugin(ts *testscript.TestScript, _ bool, args []string) {
	c := exec.CommandContext(context.Background(), "go", "build", "-o", ts.MkAbs(filepath.Join(args[2], args[1])), "./cmd/"+args[1])
	c.Dir = filepath.Join(ts.Getenv("MODULE"), "docs", "examples", args[0])
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		ts.Fatalf("build %s: %v\n%s", args[1], err, out)
	}
}

// cmdSame implements "same A B". The two datasets must have the same dump.
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	var text [2]string
	for i := range text {
		cmdExits(ts, false, []string{"0", "nczctl", "dump", "-n", "x", args[i]})
		text[i] = ts.ReadFile("stdout")
	}
	if (text[0] == text[1]) == neg {
		ts.Fatalf("unexpected result of comparing the dumps of %s and %s:\n%s\n%s", args[0], args[1], text[0], text[1])
	}
}
