package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Host is a registry of drivers and filters that run in plugin processes. It
// is safe for concurrent use. Close ends all processes.
type Host struct {
	opts     Options
	ctx      context.Context //nolint:containedctx // ends with the host
	cancel   context.CancelFunc
	spawner  spawner
	self     *program
	programs []*program // third-party, in the order of their names
	dirs     []string

	mu          sync.Mutex
	private     *place.Temp // the private directory, made at the first use
	launches    int
	supervisors map[string]*supervisor
	providers   map[*program]*provider
	warned      []string    // what was warned of
	alerted     bool        // that others' programs run free was among it
	noNotify    atomic.Bool // no process hands over the judgement of its calls,
	noInspect   atomic.Bool // or the host cannot look at what they are about

	closing sync.Mutex // the last to be taken: a slot that is locked starts a process
	closed  bool
	wg      sync.WaitGroup // starts and running processes

	deathMu sync.Mutex
	deaths  []error
}

// New makes a host. It looks for plugins but starts nothing; a directory that
// cannot be read is logged. A nil opts is the zero value.
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
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "make plugin host", string(o.Isolation), "no such isolation")
	}
	if _, err := ParseSandbox(string(o.Sandbox)); err != nil {
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if o.Only != "" {
		h.opts.Builtin = plugin.Builtin{}
	}
	switch {
	case !o.thirdPartyAllowed():
	case o.Only != "":
		only := newProgram(o.Only, o.Lock)
		only.all = true
		h.programs = []*program{only}
	default:
		paths, err := findExecutables(h.dirs)
		if err != nil {
			o.Logger.Warn("cannot look for plugins", "err", err)
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

// dir gives the private directory, made at the first use: only the user may
// look into it.
func (h *Host) dir() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.private == nil {
		parent := h.opts.TempDir
		if parent == "" {
			parent = os.TempDir()
		}
		if runtime.GOOS != "windows" && len(parent) > maxParent {
			parent = "/tmp"
		}
		place.Sweep(parent, dirPrefix, func(f place.Found) { _, _ = place.Clean(f) }) // what cannot be removed stays for the next
		var err error
		if h.private, err = place.NewTemp(parent, dirPrefix, ""); err != nil {
			return "", pluginErrorf("no private directory: %w", err)
		}
	}
	return h.private.Dir, nil
}

// processDir makes the directory of one process in the private one.
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
		return "", pluginErrorf("no private directory: %w", err)
	}
	return dir, nil
}

// maxParent is the longest path that the private directory may lie in: the
// address of a Unix socket has 104 bytes or little more, and 43 come after it.
const maxParent = 60

// dirPrefix begins the names of private directories.
const dirPrefix = "nczarr-run-"

// goOwned runs f in a goroutine that Close waits for.
func (h *Host) goOwned(f func()) error {
	h.closing.Lock()
	defer h.closing.Unlock()
	if h.closed {
		return ncerr.New(ncerr.ErrPlugin, "start plugin", "", errClosed)
	}
	h.wg.Go(f)
	return nil
}

// slot gives the place of a process, made at the first use.
func (h *Host) supervisor(p *program, set *grantSet) *supervisor {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.supervisorLocked(p, set)
}

// hold gives the place of a process for a store, and keeps the process until
// the slot's leave.
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

// Driver gives the storage driver of that name: a built-in one, else that of
// a plugin. It starts no process unless the plugin has to be asked what it
// serves. A name that nobody has is ncerr.ErrUnsupported.
func (h *Host) Driver(name string) (driver.Opener, error) {
	if o, err := h.opts.Builtin.Driver(name); err == nil {
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

// Filter gives the provider of the codec with that name. The same
// provider is given for all codecs of one plugin. An id that nobody has is
// ncerr.ErrNoFilter, which says what would supply it.
func (h *Host) Filter(id string) (codecdriver.Provider, error) {
	if p, err := h.opts.Builtin.Filter(id); err == nil {
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

// ownerOf returns the plugin that serves something, as far as is known: first the
// one whose file name says so, then one that the lock file gives the name. Only
// the owner of a name gets what the user grants to it.
func (h *Host) ownerOf(kind, name string) *program {
	var owner *program
	for _, p := range h.programs {
		if yes, _ := p.serves(kind, name); yes && (owner == nil || p.promises(kind, name) && !owner.promises(kind, name)) {
			owner = p
		}
	}
	return owner
}

// granted returns what the user grants to a plugin under a name: nothing when
// the name is another's, or only the plugin itself says that it has it.
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

// find looks for the plugin that serves something. Those that are attached to,
// and the only plugin of a host for one, are started and asked.
func (h *Host) find(kind, name string) (*program, error) {
	if p := h.ownerOf(kind, name); p != nil {
		return p, nil
	}
	var failed []error
	for _, p := range h.programs {
		if _, sure := p.serves(kind, name); sure {
			continue
		}
		if err := h.ask(h.ctx, p); err != nil {
			failed = append(failed, err)
		} else if yes, _ := p.serves(kind, name); yes {
			return p, nil
		}
	}
	return nil, h.notFound(kind, name, errors.Join(failed...))
}

// ask starts the plugin so that it says what it serves. It is granted what the
// configuration grants, without which an interpreter may not even start: the
// process may go on to serve what the plugin describes.
func (h *Host) ask(ctx context.Context, p *program) error {
	set, err := h.askSet(p)
	if err != nil {
		return err
	}
	running, err := h.supervisor(p, set).acquire(ctx)
	if err == nil && p.kind == kindDriver && pathGrants(p.driver(p.promised)) {
		running.stop(false) // its stores go to processes with a grant set each
	}
	return err
}

// askSet returns what a plugin is granted before it has said what it serves.
func (h *Host) askSet(p *program) (*grantSet, error) {
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
	text := "a plugin named " + prefix + name + " would supply it"
	switch {
	case !h.opts.thirdPartyAllowed():
		text += fmt.Sprintf(", but isolation %q runs no plugins", h.opts.Isolation)
	case len(h.dirs) == 0:
		text += ", but no plugin directory is configured"
	default:
		text += " in " + strings.Join(h.dirs, " or ")
	}
	if kind == kindFilter {
		var ids []string
		for _, d := range h.Filters() {
			ids = append(ids, d.ID)
		}
		text += ncerr.DidYouMean(name, ids)
	}
	if failed != nil {
		return ncerr.Errorf(k, "find "+kind, name, "%s; a plugin could not be asked: %w", text, failed)
	}
	return ncerr.Errorf(k, "find "+kind, name, "%s", text)
}

// Drivers describes the drivers that Driver gives, by name. Of a plugin that
// has not been started only the name is known; Discover asks them all.
func (h *Host) Drivers() []driver.Description {
	out := h.opts.Builtin.Drivers()
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

// Filters is Drivers for codecs, by id. A name or an HDF5 number that a
// built-in codec has, or that of an earlier plugin, is not another's.
func (h *Host) Filters() []codecdriver.Description {
	out := h.opts.Builtin.Filters()
	if len(h.programs) > 0 { // the question is asked for each variable
		out = h.withPlugins(out)
	}
	slices.SortFunc(out, func(a, b codecdriver.Description) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// withPlugins appends to the built-in codecs those of plugins.
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

// Discover starts every plugin that may run and has not said yet what it
// serves, several at once. The error joins those of plugins that failed.
func (h *Host) Discover(ctx context.Context) error {
	errs := make([]error, len(h.programs))
	var wg sync.WaitGroup
	for i, p := range h.programs {
		wg.Go(func() { errs[i] = h.ask(ctx, p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close ends all processes, gently first, and removes what they left. It
// waits until that is done or ctx ends, at most some ten seconds. Calls that
// are under way fail. It may be called again, and then waits again.
func (h *Host) Close(ctx context.Context) error {
	h.closing.Lock()
	h.closed = true
	h.closing.Unlock()
	h.mu.Lock()
	supervisors := make([]*supervisor, 0, len(h.supervisors))
	for _, s := range h.supervisors {
		supervisors = append(supervisors, s)
	}
	h.mu.Unlock()
	h.cancel()
	for _, s := range supervisors {
		if p := s.current(); p != nil {
			p.stop(false)
		}
	}
	done := make(chan struct{})
	go func() { // bounded: every process is killed in the end
		defer close(done)
		h.wg.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		for _, s := range supervisors { // no more time: no more patience
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

// cleanup gives back what outlives the processes.
func (h *Host) cleanup() error {
	h.spawner.close()
	for _, p := range h.programs {
		p.close()
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
