package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	mapdriver "github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// isolationVar is the environment variable overridden by Options.Isolation.
const isolationVar = "NCZARR_ISOLATION"

// Main must be called first in main or TestMain. It returns a plugin.Self, which permits
// the drivers of drivers/builtin and the filters of filters/builtin to run in other
// processes of the running program. In such a process, Main serves them and does not
// return; see plugin.Main.
func Main() plugin.Self { return plugin.Main(builtins()) }

func builtins() plugin.Builtin {
	return plugin.Builtin{Openers: builtin.New(), Providers: []driver.Provider{filters.Provider()}}
}

// hostOptions combines options, environment and configuration into the options of the
// plugin host.
func (s *Session) hostOptions(o *Options) (*host.Options, error) {
	p := s.cfg.Plugins
	mode, err := host.ParseIsolation(cmp.Or(o.Isolation, s.env.Vars[isolationVar], string(p.Isolation)))
	if err != nil {
		return nil, err
	}
	lock, err := readLock(s.cfg.LockPath())
	if err != nil {
		return nil, err
	}
	h := &host.Options{
		Self: o.Self, Isolation: mode, Dirs: slices.Concat(o.PluginDirs, p.Dirs), Lock: lock,
		OnlyPlugin: o.OnlyPlugin, AllowUnpinned: o.AllowUnpinned || p.AllowUnpinned, Logger: s.log,
		StartTimeout: p.StartTimeout, StopTimeout: max(p.StopTimeout, time.Nanosecond),
		Sandbox: host.Sandbox(p.Sandbox), Roots: p.Roots,
		MaxMemory: hostLimit(int64(p.MaxMemory)), MaxRestarts: int(hostLimit(int64(p.MaxRestarts))), CallTimeout: time.Duration(hostLimit(int64(p.CallTimeout))),
	}
	if o.RequireSandbox {
		h.Sandbox = host.SandboxRequire
	}
	if o.Self.BuildID() == "" { // Main was not called
		h.Builtin = builtins()
		if mode == host.Auto {
			h.Isolation = host.InProcess
		}
	}
	return h, s.grants(h)
}

// hostLimit converts a limit of the configuration to a limit of the host. In the
// configuration 0 means no limit, and in the host a negative number does.
func hostLimit(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// grants sets the options and grants of h from the configuration tables of drivers and
// filters.
func (s *Session) grants(h *host.Options) error {
	h.Defaults = make(map[string]json.RawMessage)
	h.DriverGrants, h.FilterGrants = make(map[string][]string), make(map[string][]string)
	for name, table := range s.cfg.Drivers {
		grants, rest, err := s.checkedGrants("drivers."+name, table)
		if err != nil {
			return err
		}
		h.Defaults[name], h.DriverGrants[name] = rest.JSON(), grants
	}
	for name, table := range s.cfg.Filters {
		grants, rest, err := s.checkedGrants("filters."+name, table)
		if err != nil {
			return err
		}
		for key := range rest {
			return ncerr.Errorf(ncerr.ErrInvalid, "read configuration", s.cfg.Where("filters."+name+"."+key), "unknown key %q: the table of a filter has only the key grants", key)
		}
		h.FilterGrants[name] = grants
	}
	return nil
}

func (s *Session) checkedGrants(table string, o config.Options) ([]string, config.Options, error) {
	grants, rest, err := o.Grants()
	for _, text := range grants {
		if err == nil {
			_, err = mapdriver.ParseGrant(text)
		}
	}
	if err != nil {
		return nil, nil, ncerr.New(ncerr.ErrInvalid, "read configuration", s.cfg.Where(table+".grants"), err)
	}
	return grants, rest, nil
}

// readLock reads the lock file of the plugins. It returns nil if the file does not
// exist.
func readLock(path string) (*host.Lock, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileError("read", path, err)
	}
	return host.ParseLock(path, data)
}

// fileError returns err as an *fs.PathError with operation op instead of the system
// call.
func fileError(op, path string, err error) error {
	var call *fs.PathError
	if errors.As(err, &call) {
		err = call.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
