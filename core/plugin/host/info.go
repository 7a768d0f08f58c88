package host

import (
	"maps"
	"slices"
	"sort"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// PluginInfo describes one plugin process, or a plugin that has no process yet.
type PluginInfo struct {
	Name string `json:"name"`
	// Serves is "filters", or "driver:NAME", followed by "/read" or "/write" for
	// drivers of local paths. It is empty if no process was started.
	Serves string `json:"serves,omitempty"`
	// Grants lists what the process may access, in the syntax of driver.Grant, with
	// paths and variables resolved.
	Grants  []string `json:"grants,omitempty"`
	Path    string   `json:"path,omitempty"` // empty for the running program
	SHA256  string   `json:"sha256,omitempty"`
	Version string   `json:"version,omitempty"`
	Pinned  bool     `json:"pinned"`
	// PID is 0 if no process runs.
	PID int `json:"pid,omitempty"`
	// Isolation is "process", "inproc" or "loopback".
	Isolation Isolation `json:"isolation"`
	// Described reports whether the plugin has described itself. Otherwise its drivers
	// and filters are those in its file name and in the lock file.
	Described bool `json:"described"`
	// Level is the data plane level of the last process.
	Level    int           `json:"level"`
	Uptime   time.Duration `json:"uptime,omitempty"`
	Calls    int64         `json:"calls"`
	Jobs     int64         `json:"jobs"`  // chunks encoded or decoded, objects read or written
	Bytes    int64         `json:"bytes"` // payload in both directions
	Restarts int           `json:"restarts"`
	// Failed is the reason why no process runs: the last death or failed start.
	Failed string `json:"failed,omitempty"`
	// Limits contains the limits of the process. It is zero for plugins that run in
	// process.
	Limits Limits `json:"limits"`
	// Sandbox describes the sandbox of the process.
	Sandbox SandboxInfo `json:"sandbox"`
	Drivers []string    `json:"drivers,omitempty"`
	Filters []string    `json:"filters,omitempty"`
}

// Limits contains the limits of a process. The host stops a process that exceeds one,
// or refuses its request.
type Limits struct {
	MaxObject    int64         `json:"max_object"`   // bytes
	CallTimeout  time.Duration `json:"call_timeout"` // negative: no limit
	StartTimeout time.Duration `json:"start_timeout"`
	StopTimeout  time.Duration `json:"stop_timeout"`
	MaxRestarts  int           `json:"max_restarts"` // 0: any number; negative: never
}

// Plugins returns information about all processes, running or not, and about the
// plugins that have never been started. One entry describes all built-ins that run in
// process.
func (h *Host) Plugins() []PluginInfo {
	h.mu.Lock()
	supervisors := slices.Collect(maps.Values(h.supervisors))
	h.mu.Unlock()
	var out []PluginInfo
	started, failed := map[*program]bool{}, map[*program]string{}
	for _, s := range supervisors {
		i := s.info()
		if i.PID != 0 || i.Calls > 0 {
			started[s.program] = true
			out = append(out, i)
		} else if i.Failed != "" {
			failed[s.program] = i.Failed
		}
	}
	for _, p := range h.programs {
		if !started[p] {
			i := p.info()
			i.Sandbox, i.Limits, i.Failed, i.Grants = h.plan(&supervisor{program: p, set: &grantSet{}}).info, h.limits(), failed[p], h.configured(p)
			out = append(out, i)
		}
	}
	if h.opts.builtinsInProcess() {
		i := PluginInfo{Name: "nczarr", Isolation: InProcess, Pinned: true, Sandbox: SandboxInfo{Missing: []string{"the plugin runs in process"}}}
		i.list(h.builtin.Drivers(), h.builtin.Filters())
		out = append(out, i)
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Name < out[j].Name || out[i].Name == out[j].Name && out[i].Serves < out[j].Serves
	})
	return out
}

// limits returns the limits of every process.
func (h *Host) limits() Limits {
	o := &h.opts
	return Limits{o.MaxObject, o.CallTimeout, o.StartTimeout, o.StopTimeout, o.MaxRestarts}
}

func (p *program) info() PluginInfo {
	ds, cs := p.describe()
	p.mu.Lock()
	i := PluginInfo{Name: p.name, Path: p.path, SHA256: p.sum, Version: p.version, Described: p.known || p.builtin, Level: p.level, Pinned: p.builtin || len(p.pins) > 0, Isolation: Process}
	p.mu.Unlock()
	if !p.builtin {
		i.list(ds, cs)
	}
	return i
}

func (s *supervisor) info() PluginInfo {
	i := s.program.info()
	i.Serves, i.Grants, i.Sandbox = s.set.serves, s.set.texts, s.host.plan(s).info
	i.Limits = s.host.limits()
	i.Calls, i.Jobs, i.Bytes = s.calls.Load(), s.jobs.Load(), s.bytes.Load()
	if s.host.opts.Isolation == Loopback {
		i.Isolation = Loopback
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i.Restarts = max(0, s.starts-1)
	if s.cur == nil && s.last != nil {
		i.Failed = s.last.Error()
	}
	if s.cur != nil && s.cur.alive() {
		i.PID, i.Uptime = s.cur.child.pid(), time.Since(s.cur.started)
		i.Level = s.cur.level
		if s.program.builtin {
			i.Version = s.cur.desc.GetVersion()
		}
	}
	return i
}

// configured returns the grants of a plugin's process that do not depend on a store,
// followed by the location grants that its drivers declare, unresolved.
func (h *Host) configured(p *program) []string {
	var texts []string
	if set, err := h.describeGrants(p); err == nil { // starting the plugin reports the error
		texts = set.texts
	}
	ds, _ := p.describe()
	for _, d := range ds {
		texts = append(texts, slices.DeleteFunc(slices.Clone(d.Grants), func(t string) bool { return !placeGrant(t) })...)
	}
	return uniq(texts)
}

// list sets the names of the drivers and filters.
func (i *PluginInfo) list(ds []driver.Description, cs []codecdriver.Description) {
	for _, d := range ds {
		i.Drivers = append(i.Drivers, d.Name)
	}
	for _, c := range cs {
		i.Filters = append(i.Filters, c.ID)
	}
}
