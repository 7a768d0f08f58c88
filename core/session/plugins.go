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

// isolationVar is the environment variable that Options.Isolation overrides.
const isolationVar = "NCZARR_ISOLATION"

// Main must be the first call of main or TestMain. It returns the right to run
// the drivers of drivers/builtin and the filters of filters/builtin in other
// processes of the running program. In such a process it serves them and does
// not return; see plugin.Main.
func Main() plugin.Self { return plugin.Main(builtins()) }

func builtins() plugin.Builtin {
	return plugin.Builtin{Openers: builtin.New(), Providers: []driver.Provider{filters.Provider()}}
}

// hostOptions returns what options, environment and configuration say of
// drivers and filters.
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
		Only: o.OnlyPlugin, AllowUnpinned: o.AllowUnpinned || p.AllowUnpinned, Logger: s.log,
		StartTimeout: p.StartTimeout, StopTimeout: max(p.StopTimeout, time.Nanosecond),
		Sandbox: host.Sandbox(p.Sandbox), Roots: p.Roots,
		MaxMemory: orNone(int64(p.MaxMemory)), MaxRestarts: int(orNone(int64(p.MaxRestarts))), CallTimeout: time.Duration(orNone(int64(p.CallTimeout))),
	}
	if o.RequireSandbox {
		h.Sandbox = host.SandboxRequire
	}
	if o.Self.BuildID() == "" { // nobody called Main
		h.Builtin = builtins()
		if mode == host.Auto {
			h.Isolation = host.InProcess
		}
	}
	return h, s.grants(h)
}

// orNone returns the host's way to say none, which is negative, for the
// configuration's, which is zero.
func orNone(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// grants sets what the tables of drivers and filters say: options and grants.
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
			return ncerr.Errorf(ncerr.ErrInvalid, "read configuration", s.cfg.Where("filters."+name+"."+key), "unknown key %q: a filter's table has grants only", key)
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

// readLock reads the lock file of the plugins; one that is not there pins
// nothing.
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

// fileError says what was attempted with a file, instead of the system call.
func fileError(op, path string, err error) error {
	var call *fs.PathError
	if errors.As(err, &call) {
		err = call.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
