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

// Isolation says where drivers and filters run.
type Isolation string

// The isolations.
const (
	// Auto runs everything out of process, except that built-ins run in
	// process where the platform has no shared memory for the data plane,
	// which is everywhere but on Linux.
	Auto Isolation = "auto"
	// Process runs everything out of process.
	Process Isolation = "process"
	// InProcess runs built-ins in process and refuses all other plugins.
	InProcess Isolation = "inproc"
	// Loopback runs built-ins in process, but behind the whole protocol on an
	// in-memory connection. It is for tests.
	Loopback Isolation = "loopback"
)

// ParseIsolation reads "auto", "process" or "inproc"; empty is Auto.
func ParseIsolation(s string) (Isolation, error) {
	switch i := Isolation(s); i {
	case "":
		return Auto, nil
	case Auto, Process, InProcess:
		return i, nil
	}
	return "", ncerr.Errorf(ncerr.ErrInvalid, "read isolation", s, "want auto, process or inproc")
}

// Options configure a Host. The zero value is usable: no built-ins, plugins
// from the standard directories, none of them allowed because none is pinned.
type Options struct {
	// Self is the right to execute the running program, from plugin.Main. It
	// names the built-ins.
	Self plugin.Self
	// Builtin replaces the built-ins of Self, for programs that run them in
	// process only and never called plugin.Main.
	Builtin plugin.Builtin
	// Isolation defaults to Auto.
	Isolation Isolation
	// Dirs are searched for plugins, in order, before the directories of
	// $NCZARR_PLUGIN_PATH and $XDG_DATA_HOME/nczarr/plugins.
	Dirs []string
	// Only, when not empty, is the path of the only plugin that the host runs,
	// pinned or not. The host then has no built-ins, looks for no other plugins,
	// and accepts every name that the plugin says it serves.
	Only string
	// Lock pins plugins; nil pins none.
	Lock *Lock
	// AllowUnpinned lets plugins run that Lock does not pin.
	AllowUnpinned bool
	// Sandbox defaults to SandboxAuto.
	Sandbox Sandbox
	// DriverGrants and FilterGrants are what the user grants to the process
	// of a driver or a filter, by its name, beyond what a built-in declares;
	// each is written as driver.Grant says.
	DriverGrants, FilterGrants map[string][]string
	// Roots are directories that drivers may see as a whole: the stores in
	// one of them share a process. Others have one for each store.
	Roots []string
	// MaxMemory is the ceiling on the private memory of one plugin process in
	// bytes; default 4 GiB, negative is none. It needs the sandbox.
	MaxMemory int64
	// MaxRestarts is how often one process is started again after it died,
	// in the life of the host; 0 is any number, negative is never. Restarts
	// wait longer and longer whatever this is.
	MaxRestarts int
	// StopTimeout is how long a process may take to end when it is asked to,
	// before it is killed; default 2 s.
	StopTimeout time.Duration
	// PassEnv names environment variables that every plugin process gets
	// besides TZ, LANG, LC_ALL, GOMAXPROCS, GOMEMLIMIT, GOTRACEBACK,
	// SSL_CERT_FILE and SSL_CERT_DIR.
	PassEnv []string
	// Defaults are options (JSON objects) by driver name, which the options
	// of an OpenSpec override key by key.
	Defaults map[string]json.RawMessage
	// Logger gets the host's own records and the plugins' logs. If it is nil,
	// only records of LevelAlert are logged, by slog's default logger.
	Logger *slog.Logger
	// CallTimeout is how long a call may go without any answer before the
	// process counts as hung; default 2 minutes, negative is for ever. Flush,
	// Remove and Open in mode Create may take as long as a store is large:
	// they go on for as long as the process still answers other calls.
	CallTimeout time.Duration
	// StartTimeout is how long a process may take until it serves; default
	// 10 s.
	StartTimeout time.Duration
	// MaxObject is the largest object or decoded chunk in bytes; default and
	// maximum 16 GiB.
	MaxObject int64
	// InlineOnly keeps all plugins at level 0 of the data plane: no memory is
	// shared with them. It is for tests and for finding faults.
	InlineOnly bool
	// KeepFiles has drivers read their files themselves instead of lending
	// them to the host. It is for tests and for measurements.
	KeepFiles bool
	// Poison overwrites the memory for a plugin's answers before each use, with
	// another byte each time, so that no earlier answer passes for part of a later
	// one and none depends on what was there. It is for checks of plugins.
	Poison bool
	// TempDir is where the private directory is made; default os.TempDir.
	TempDir string
	// Getenv reads the environment; default os.Getenv.
	Getenv func(string) string
	// Environ lists the environment as os.Environ does, for grants of all
	// variables that begin alike; default os.Environ.
	Environ func() []string

	kernel     func() sandbox.Support // what the kernel offers; tests say less
	checkEvery time.Duration          // between looks at a private directory
	alert      *slog.Logger           // for LevelAlert
	allowList  bool                   // for filters in programs that are not static, too: for tests
}

// defaultMemory is the ceiling on the memory of a process: 4 GiB.
const defaultMemory = 4 << 30

// withDefaults gives a copy of o with the defaults filled in.
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

// builtinsInProcess reports whether built-ins run without the protocol.
func (o *Options) builtinsInProcess() bool {
	return o.Isolation == InProcess || o.Isolation == Auto && runtime.GOOS != "linux"
}

// thirdPartyAllowed reports whether plugin executables may be started.
func (o *Options) thirdPartyAllowed() bool { return o.Isolation == Auto || o.Isolation == Process }
