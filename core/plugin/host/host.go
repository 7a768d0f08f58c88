package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Host is a registry of drivers and filters that run in plugin processes. It is safe
// for concurrent use. Close ends all processes.
type Host struct {
	opts     Options
	ctx      context.Context //nolint:containedctx // ends with the host
	cancel   context.CancelFunc
	spawner  spawner
	builtin  *registry.Static // of opts.Builtin
	self     *program
	programs []*program // third-party, sorted by name
	dirs     []string

	mu          sync.Mutex
	private     *place.Temp // created on first use
	launches    int
	supervisors map[string]*supervisor
	providers   map[*program]*provider
	warned      []string    // texts of warnings already logged
	alerted     bool        // a record of LevelAlert was logged
	noNotify    atomic.Bool // processes cannot send their seccomp notification descriptors
	noInspect   atomic.Bool // the host cannot inspect the system calls in notifications

	closing sync.Mutex // acquired after mu and the locks of supervisors
	closed  bool
	wg      sync.WaitGroup // starts in progress and running processes

	deathMu sync.Mutex
	deaths  []error
}

var _ registry.Registry = (*Host)(nil)

// New returns a new Host. It searches for plugins, unless the options name them, but
// starts no process. It logs a warning for a directory that it cannot read. A nil opts
// is equivalent to the zero value.
func New(opts *Options) (*Host, error) {
	o := opts.withDefaults()
	h := &Host{
		opts: o, dirs: searchDirs(&o),
		self:        &program{name: "nczarr", builtin: true},
		supervisors: map[string]*supervisor{}, providers: map[*program]*provider{},
	}
	switch o.Isolation {
	case Auto, Process, InProcess, Loopback:
	default:
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "create plugin host", string(o.Isolation), "unknown isolation")
	}
	if _, err := ParseSandbox(string(o.Sandbox)); err != nil {
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if o.OnlyPlugin != "" {
		h.opts.Builtin = plugin.Builtin{}
	}
	h.builtin = h.opts.Builtin.Registry()
	switch {
	case !o.thirdPartyAllowed():
	case o.PluginsOf != nil:
		h.programs = o.PluginsOf.programs
	case o.OnlyPlugin != "":
		only := newProgram(o.OnlyPlugin, o.Lock)
		only.all = true
		h.programs = []*program{only}
	default:
		paths, err := findExecutables(h.dirs)
		if err != nil {
			o.Logger.Warn("cannot search for plugins", "err", err)
		}
		if h.programs, err = attached(o.Getenv(handshake.EnvReattach), o.Sandbox); err != nil {
			return nil, err
		}
		for _, path := range paths {
			h.programs = append(h.programs, newProgram(path, o.Lock))
		}
	}
	return h, nil
}

// dir returns the private directory, which only the user can access. It is created on
// first use.
func (h *Host) dir() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.private == nil {
		parent := cmp.Or(h.opts.TempDir, os.TempDir())
		if runtime.GOOS != "windows" && len(parent) > maxParent {
			parent = "/tmp"
		}
		place.Sweep(parent, dirPrefix, func(f place.Found) { _, _ = place.Clean(f) }) // the next host removes the remaining directories
		var err error
		if h.private, err = place.NewTemp(parent, dirPrefix, ""); err != nil {
			return "", pluginErrorf("cannot create a private directory: %w", err)
		}
	}
	return h.private.Dir, nil
}

// processDir creates the directory of one process inside the private directory.
func (h *Host) processDir() (string, error) {
	parent, err := h.dir()
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	h.launches++
	dir := filepath.Join(parent, strconv.Itoa(h.launches))
	h.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", pluginErrorf("cannot create a private directory: %w", err)
	}
	return dir, nil
}

// maxParent is the maximum length of the path of the private directory's parent. Some
// systems limit the path of a Unix socket to 104 bytes, of which up to 43 follow the
// parent.
const maxParent = 60

// dirPrefix is the prefix of the names of private directories.
const dirPrefix = "nczarr-run-"

// goOwned runs f in a goroutine that Close waits for. It fails if the host is closed.
func (h *Host) goOwned(f func()) error {
	h.closing.Lock()
	defer h.closing.Unlock()
	if h.closed {
		return ncerr.New(ncerr.ErrPlugin, "start plugin", "", errClosed)
	}
	h.wg.Go(f)
	return nil
}

// supervisor returns the supervisor of the process that runs p with the grants in set. It
// creates the supervisor on first use.
func (h *Host) supervisor(p *program, set *grantSet) *supervisor {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.supervisorLocked(p, set)
}

// hold is like supervisor, but also keeps the process running until the caller calls
// leave on the supervisor.
func (h *Host) hold(p *program, set *grantSet) *supervisor {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.supervisorLocked(p, set)
	s.enter()
	return s
}

func (h *Host) supervisorLocked(p *program, set *grantSet) *supervisor {
	key := p.name + "\x00" + set.key()
	s := h.supervisors[key]
	if s == nil {
		s = &supervisor{
			host: h, program: p, set: set,
			log: h.opts.Logger.With(slog.String(logPlugin, p.name), slog.String(logServes, set.serves)),
		}
		h.supervisors[key] = s
	}
	return s
}

// Driver returns the built-in or third-party storage driver with the given name. It
// starts a plugin only if the plugin must describe itself first. It fails with
// ncerr.ErrUnsupported if the name is unknown.
func (h *Host) Driver(name string) (driver.Opener, error) {
	if o, err := h.builtin.Driver(name); err == nil {
		if h.opts.builtinsInProcess() {
			if defaults := h.opts.Defaults[name]; len(defaults) > 0 {
				o = &localOpener{Opener: o, defaults: defaults}
			}
			return o, nil
		}
		return &opener{h: h, program: h.self, desc: o.Describe()}, nil
	}
	p, err := h.find(kindDriver, name)
	if err != nil {
		return nil, err
	}
	return &opener{h: h, program: p, desc: p.driver(name)}, nil
}

// Filter returns the provider of the codec with the name id. All codecs of one plugin
// have the same provider. If the name is unknown, Filter fails with ncerr.ErrNoFilter,
// and the message contains the file name of a plugin that would serve it.
func (h *Host) Filter(id string) (codecdriver.Provider, error) {
	if p, err := h.builtin.Filter(id); err == nil {
		if h.opts.builtinsInProcess() {
			return p, nil
		}
		return h.provider(h.self), nil
	}
	p, err := h.find(kindFilter, id)
	if err != nil {
		return nil, err
	}
	return h.provider(p), nil
}

func (h *Host) provider(p *program) *provider {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.providers[p] == nil {
		h.providers[p] = &provider{h: h, program: p}
	}
	return h.providers[p]
}

// ownerOf returns the plugin known to serve a name, or nil. A plugin with the name in
// its file name takes precedence over a plugin with the name in the lock file. Only the
// owner of a name receives the user's grants for it.
func (h *Host) ownerOf(kind, name string) *program {
	var owner *program
	for _, p := range h.programs {
		if yes, _ := p.serves(kind, name); yes && (owner == nil || p.promises(kind, name) && !owner.promises(kind, name)) {
			owner = p
		}
	}
	return owner
}

// granted returns the grants that the user configured for a name that p serves. It
// returns nothing if another plugin owns the name, or if the name occurs only in the
// plugin's own description.
func (h *Host) granted(p *program, kind, name string) []string {
	if !p.builtin {
		p.mu.Lock()
		own := slices.Contains(p.names(kind), name)
		p.mu.Unlock()
		if !own || h.ownerOf(kind, name) != p {
			return nil
		}
	}
	if kind == kindDriver {
		return h.opts.DriverGrants[name]
	}
	return h.opts.FilterGrants[name]
}

// find returns the plugin that serves a name. It starts attached plugins, and the
// plugin of Options.OnlyPlugin, so that they describe themselves.
func (h *Host) find(kind, name string) (*program, error) {
	if p := h.ownerOf(kind, name); p != nil {
		return p, nil
	}
	var failed []error
	for _, p := range h.programs {
		if _, sure := p.serves(kind, name); sure {
			continue
		}
		if err := h.describeProgram(h.ctx, p); err != nil {
			failed = append(failed, err)
		} else if yes, _ := p.serves(kind, name); yes {
			return p, nil
		}
	}
	return nil, h.notFound(kind, name, errors.Join(failed...))
}

// describeProgram starts the plugin so that it describes itself. The process has the
// configured grants, because an interpreter may fail to start without them, and because
// the same process may then serve calls.
func (h *Host) describeProgram(ctx context.Context, p *program) error {
	set, err := h.describeGrants(p)
	if err != nil {
		return err
	}
	running, err := h.supervisor(p, set).acquire(ctx)
	if err == nil && p.kind == kindDriver && pathGrants(p.driver(p.promised)) {
		running.stop(false) // each store will have a process with its own grant set
	}
	return err
}

// describeGrants returns the grants of a plugin that has not described itself yet.
func (h *Host) describeGrants(p *program) (*grantSet, error) {
	if p.kind == kindDriver {
		return h.driverSet(p, driver.Description{Name: p.promised}, driver.OpenSpec{}, false)
	}
	return h.filterSet(p)
}

func (h *Host) notFound(kind, name string, failed error) error {
	k, prefix := ncerr.ErrUnsupported, driverPrefix
	if kind == kindFilter {
		k, prefix = ncerr.ErrNoFilter, filterPrefix
	}
	text := "the " + kind + " requires the plugin " + prefix + name
	switch {
	case !h.opts.thirdPartyAllowed():
		text += fmt.Sprintf(", but isolation %q does not run plugins", h.opts.Isolation)
	case len(h.dirs) == 0:
		text += ", but no plugin directory is configured"
	default:
		text += ", which is not installed in " + strings.Join(h.dirs, " or ")
	}
	if kind == kindFilter {
		var ids []string
		for _, d := range h.Filters() {
			ids = append(ids, d.ID)
		}
		text += ncerr.DidYouMean(name, ids)
	}
	if failed != nil {
		return ncerr.Errorf(k, "find "+kind, name, "%s; a plugin failed to describe itself: %w", text, failed)
	}
	return ncerr.Errorf(k, "find "+kind, name, "%s", text)
}

// Drivers describes all drivers that Driver provides, sorted by name. The description
// of a plugin that has not been started lacks details; see Discover.
func (h *Host) Drivers() []driver.Description {
	out := h.builtin.Drivers()
	seen := map[string]bool{}
	for _, d := range out {
		seen[d.Name] = true
	}
	for _, p := range h.programs {
		ds, _ := p.describe()
		for _, d := range ds {
			if !seen[d.Name] {
				seen[d.Name] = true
				out = append(out, d)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Filters describes all codecs that Filter provides, sorted by id. The description of a
// plugin that has not been started lacks details. Built-in codecs and earlier plugins
// take precedence: names and HDF5 numbers that they use are removed from the
// descriptions of later plugins.
func (h *Host) Filters() []codecdriver.Description {
	out := h.builtin.Filters()
	if len(h.programs) > 0 { // Filters is called for each variable, so avoid the maps if possible
		out = h.withPlugins(out)
	}
	slices.SortFunc(out, func(a, b codecdriver.Description) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// withPlugins appends the codecs of plugins to the built-in ones.
func (h *Host) withPlugins(out []codecdriver.Description) []codecdriver.Description {
	seen, numbers := map[string]bool{}, map[int]bool{}
	take := func(d *codecdriver.Description) {
		for _, name := range d.Names() {
			seen[name] = true
		}
		numbers[d.HDF5] = d.HDF5 != 0
	}
	for i := range out {
		take(&out[i])
	}
	for _, p := range h.programs {
		_, cs := p.describe()
		for _, d := range cs {
			if seen[d.ID] {
				continue
			}
			d.Aliases = slices.DeleteFunc(slices.Clone(d.Aliases), func(name string) bool { return seen[name] })
			if seen[d.V3] {
				d.V3 = ""
			}
			if numbers[d.HDF5] {
				d.HDF5 = 0
			}
			take(&d)
			out = append(out, d)
		}
	}
	return out
}

// Discover concurrently starts all permitted plugins, so that they describe themselves.
// The error joins the errors of the plugins that failed.
func (h *Host) Discover(ctx context.Context) error {
	errs := make([]error, len(h.programs))
	var wg sync.WaitGroup
	for i, p := range h.programs {
		wg.Go(func() { errs[i] = h.describeProgram(ctx, p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close stops all processes and removes their files. It kills the processes when ctx
// ends, and returns at most ten seconds later. Calls in progress fail. Close may be
// called again, and then waits again.
func (h *Host) Close(ctx context.Context) error {
	h.closing.Lock()
	h.closed = true
	h.closing.Unlock()
	h.mu.Lock()
	supervisors := slices.Collect(maps.Values(h.supervisors))
	h.mu.Unlock()
	h.cancel()
	for _, s := range supervisors {
		if p := s.current(); p != nil {
			p.stop(false)
		}
	}
	done := make(chan struct{})
	go func() { // ends because every process is killed eventually
		defer close(done)
		h.wg.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		for _, s := range supervisors { // kill the processes
			if p := s.current(); p != nil {
				p.stop(true)
			}
		}
		select {
		case <-done:
		case <-time.After(2 * killGrace):
			return ncerr.New(ncerr.ErrPlugin, "close plugin host", "", ctx.Err())
		}
	}
	return h.cleanup()
}

// cleanup releases the resources that all processes share.
func (h *Host) cleanup() error {
	h.spawner.close()
	if h.opts.PluginsOf == nil {
		for _, p := range h.programs {
			p.close()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.private == nil {
		return nil
	}
	err := h.private.Remove()
	h.private = nil
	return ncerr.Wrap("close plugin host", "", err)
}
