package host

import (
	"encoding/json"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"
)

// Isolation selects where drivers and filters run.
type Isolation string

// Values of Isolation.
const (
	// Auto runs everything in separate processes. On systems other than Linux, which
	// lack shared memory for the data plane, it runs built-ins in process.
	Auto Isolation = "auto"
	// Process runs everything in separate processes.
	Process Isolation = "process"
	// InProcess runs built-ins in process and refuses all other plugins.
	InProcess Isolation = "inproc"
	// Loopback runs built-ins in process, but calls them through the protocol over an
	// in-memory connection. It is for tests.
	Loopback Isolation = "loopback"
)

// ParseIsolation parses "auto", "process" or "inproc". The empty string is Auto.
func ParseIsolation(s string) (Isolation, error) {
	switch i := Isolation(s); i {
	case "":
		return Auto, nil
	case Auto, Process, InProcess:
		return i, nil
	}
	return "", ncerr.Errorf(ncerr.ErrInvalid, "parse isolation", s, "must be auto, process or inproc")
}

// Options configures a Host. The zero value has no built-ins and finds plugins in the
// standard directories, but runs none of them because no plugin is pinned.
type Options struct {
	// Self is the result of plugin.Main. It permits the host to execute the running
	// program, and contains the built-ins.
	Self plugin.Self
	// Builtin replaces the built-ins of Self. It is for programs that run them in
	// process only and do not call plugin.Main.
	Builtin plugin.Builtin
	// Isolation defaults to Auto.
	Isolation Isolation
	// Dirs are searched for plugins in order, before the directories of
	// $NCZARR_PLUGIN_PATH and $XDG_DATA_HOME/nczarr/plugins.
	Dirs []string
	// OnlyPlugin, if not empty, is the path of the only plugin that the host runs, pinned or
	// not. The host then has no built-ins, searches for no other plugins, and accepts
	// every name that the plugin claims to serve.
	OnlyPlugin string
	// PluginsOf, if not nil, is a host whose plugins the new host runs in separate
	// processes. The new host then does not search for plugins, and it reuses the copies
	// of executables, the pins and the descriptions that the other host already has, so
	// Lock does not apply. The other host must be closed last.
	PluginsOf *Host
	// Lock pins plugins. A nil Lock pins no plugins.
	Lock *Lock
	// AllowUnpinned permits plugins that Lock does not pin.
	AllowUnpinned bool
	// Sandbox defaults to SandboxAuto.
	Sandbox Sandbox
	// DriverGrants and FilterGrants list, by driver or filter name, what the user
	// grants to the process in addition to the grants that a built-in declares.
	// driver.Grant describes the syntax.
	DriverGrants, FilterGrants map[string][]string
	// Roots are directories that drivers may access as a whole. The stores of a driver
	// in one root share one process for reading and one for writing. Outside the roots,
	// only stores with the same grants share a process.
	Roots []string
	// MaxMemory limits the private memory of one plugin process, in bytes. The default
	// is 4 GiB; negative means no limit. The limit requires the sandbox.
	MaxMemory int64
	// MaxRestarts limits how often the host restarts one process after it died. 0 means
	// no limit; negative means never. The delay before a restart grows regardless of
	// MaxRestarts.
	MaxRestarts int
	// StopTimeout is how long a process may take to exit on request before it is
	// killed. The default is 2 s.
	StopTimeout time.Duration
	// PassEnv names environment variables that every plugin process receives in
	// addition to TZ, LANG, LC_ALL, GOMAXPROCS, GOMEMLIMIT, GOTRACEBACK, SSL_CERT_FILE,
	// SSL_CERT_DIR and SYSTEMROOT.
	PassEnv []string
	// Defaults holds options (JSON objects) by driver name. The options of an OpenSpec
	// override them key by key.
	Defaults map[string]json.RawMessage
	// Logger receives the host's own records and the plugins' logs. If it is nil, only
	// records of LevelAlert are logged, to slog's default logger.
	Logger *slog.Logger
	// CallTimeout is how long the host waits for the next answer to a call before it
	// kills the process. The default is 2 minutes; negative means no limit. For puts, the
	// timeout is multiplied by the number of puts in the message, and
	// driver.TransferTime of their total size is added. The time of Flush, Remove and
	// Open in mode Create depends on the size of the store, so these calls continue as
	// long as the process answers other calls.
	CallTimeout time.Duration
	// StartTimeout limits the time for starting and configuring a process. The default
	// is 10 s.
	StartTimeout time.Duration
	// MaxObject is the largest object or decoded chunk in bytes. The default and the
	// maximum are 16 GiB.
	MaxObject int64
	// InlineOnly keeps all plugins at level 0 of the data plane, without shared memory.
	// It is for tests and for debugging.
	InlineOnly bool
	// NoLending makes drivers read their files themselves instead of lending them to
	// the host. It is for tests and measurements.
	NoLending bool
	// Poison overwrites the memory for a plugin's answers before each use, with a
	// different byte each time. It is for tests that find plugins that rely on old
	// memory contents.
	Poison bool
	// TempDir is the parent of the host's private directory. The default is os.TempDir.
	TempDir string
	// Getenv reads the environment. The default is os.Getenv.
	Getenv func(string) string
	// Environ lists the environment in the format of os.Environ. It is used for grants
	// of all variables with a common prefix. The default is os.Environ.
	Environ func() []string

	kernel     func() sandbox.Support // what the kernel supports; tests restrict it
	checkEvery time.Duration          // interval of the checks of private directories
	alert      *slog.Logger           // receives records of LevelAlert
	allowList  bool                   // use the allow list even for dynamically linked programs; for tests
}

// defaultMemory is the default memory limit of a process, 4 GiB.
const defaultMemory = 4 << 30

// withDefaults returns a copy of o with the defaults filled in.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if len(c.Builtin.Openers) == 0 && len(c.Builtin.Providers) == 0 {
		c.Builtin = c.Self.Builtin()
	}
	if c.Isolation == "" {
		c.Isolation = Auto
	}
	c.alert = c.Logger
	if c.Logger == nil {
		c.alert = slog.Default()
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = 2 * time.Minute
	}
	if c.Sandbox == "" {
		c.Sandbox = SandboxAuto
	}
	if c.MaxMemory == 0 {
		c.MaxMemory = defaultMemory
	}
	if c.StopTimeout <= 0 {
		c.StopTimeout = shutdownGrace
	}
	if c.Environ == nil {
		c.Environ = os.Environ
	}
	if c.checkEvery == 0 {
		c.checkEvery = 10 * time.Second
	}
	if c.kernel == nil {
		c.kernel = kernel
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = 10 * time.Second
	}
	if c.MaxObject <= 0 || c.MaxObject > handshake.MaxObject {
		c.MaxObject = handshake.MaxObject
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	return c
}

// builtinsInProcess reports whether built-ins run in process, without the protocol.
func (o *Options) builtinsInProcess() bool {
	return o.Isolation == InProcess || o.Isolation == Auto && runtime.GOOS != "linux"
}

// thirdPartyAllowed reports whether plugin executables may be started.
func (o *Options) thirdPartyAllowed() bool { return o.Isolation == Auto || o.Isolation == Process }
