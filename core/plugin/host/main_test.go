package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/zip"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// self permits hosts to execute this test binary as a plugin.
var self plugin.Self

// zooEnv is the environment variable that selects a test plugin; see zoo.
const zooEnv = "NCZARR_TEST_ZOO"

func builtins() plugin.Builtin {
	return plugin.Builtin{
		Openers:   []driver.Opener{file.New(), zip.New(), trouble{name: "trouble"}, networked{trouble{name: "networked"}}},
		Providers: []codecdriver.Provider{filters{}, builtin.Provider()},
	}
}

func TestMain(m *testing.M) {
	if kind := os.Getenv(zooEnv); kind != "" && os.Getenv(handshake.EnvExec) == "" && os.Getenv(handshake.EnvRole) == "" { // a launcher calls plugin.Main instead
		zoo(kind)
	}
	self = plugin.Main(builtins())
	os.Exit(m.Run())
}

// newHost returns a host and closes it at the end of the test. It then checks that no
// process and no file is left.
func newHost(t *testing.T, opts host.Options) *host.Host {
	t.Helper()
	if !opts.Self.Valid() {
		opts.Self = self
	}
	if opts.Isolation == "" {
		opts.Isolation = host.Process
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = 2 * time.Minute // the machine may be busy
	}
	opts.TempDir = t.TempDir()
	if raceEnabled && opts.MaxMemory == 0 {
		opts.MaxMemory = -1 // the race detector needs shadow memory
	}
	h, err := host.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var pids []int
		for _, p := range h.Plugins() {
			if p.PID != 0 && p.PID != os.Getpid() {
				pids = append(pids, p.PID)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, pid := range pids {
			if running(pid) {
				t.Errorf("process %d still runs after Close", pid)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(opts.TempDir, "*")); len(left) > 0 {
			t.Errorf("the host did not remove %q", left)
		}
	})
	return h
}

// inlineProcess selects processes at level 0; see levelOptions.
const inlineProcess host.Isolation = "process level 0"

// levelOptions returns the options for an isolation or inlineProcess.
func levelOptions(i host.Isolation) host.Options {
	if i == inlineProcess {
		return host.Options{Isolation: host.Process, InlineOnly: true}
	}
	return host.Options{Isolation: i}
}

// levelOf returns the data plane level of plugins with levelOptions.
func levelOf(i host.Isolation) int {
	if i == host.Process {
		return sharedLevel()
	}
	return 0
}

// sharedLevel returns the highest data plane level of this system.
func sharedLevel() int {
	if runtime.GOOS == "linux" {
		return 1
	}
	return 0
}

// running reports whether a process exists and has not exited.
func running(pid int) bool {
	if runtime.GOOS == "windows" {
		return false
	}
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// open opens a store of the named driver and closes the store at the end of the test.
func open(t *testing.T, h *host.Host, name string, spec driver.OpenSpec) driver.Map {
	t.Helper()
	o, err := h.Driver(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return m
}

// get reads a whole object.
func get(ctx context.Context, m driver.Map, key string) (string, error) {
	data, _, err := m.Get(ctx, key, &driver.GetOptions{}, driver.Heap)
	return string(data), err
}

// dirWriter is the trouble driver with write access to the directory that contains the
// store.
type dirWriter struct{ trouble }

func (r dirWriter) Describe() driver.Description {
	d := r.trouble.Describe()
	d.Grants = []string{"path:read", "dir:write"}
	return d
}

// networked is the trouble driver with access to the port of its endpoint.
type networked struct{ trouble }

func (n networked) Describe() driver.Description {
	d := n.trouble.Describe()
	d.Grants = []string{"path:read", "path:write", "network"}
	return d
}

// Grants implements driver.Granter.
func (networked) Grants(driver.OpenSpec) []string {
	return []string{"path:read", "path:write", "tcp:endpoint", "env:ESCAPE_*"}
}

// textLog returns a log that writes to w.
func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// logBuffer is a log buffer that is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// stderr is the original standard error, which go-plugin replaces in os.Stderr.
var stderr = os.Stderr

// say sends a message from a plugin to the test, through the plugin's log.
func say(text string) {
	fmt.Fprintf(stderr, `{"@level":"info","@message":%q}`+"\n", text)
}

// logTrigger is a log writer that calls do when a record contains text.
type logTrigger struct {
	text string
	do   func()
}

func (c logTrigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.text) {
		c.do()
	}
	return len(p), nil
}

// cancelOnLog returns a context that is canceled when a plugin logs text. It sets
// opts.Logger.
func cancelOnLog(t *testing.T, opts *host.Options, text string) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	opts.Logger = textLog(logTrigger{text, cancel})
	return ctx
}

func debugLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
