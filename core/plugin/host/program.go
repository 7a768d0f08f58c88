package host

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// program describes the program that plugin processes run: a plugin executable, the
// running program itself, or a plugin that its author started.
type program struct {
	name     string
	path     string // empty for built-ins
	builtin  bool
	kind     string // kindDriver or kindFilter, from the file name
	promised string // the driver or filter name, from the file name
	pins     []Pin
	all      bool // accept all names that the plugin claims; see Options.OnlyPlugin

	attachment *handshake.Attachment // set if the author started the plugin

	mu      sync.Mutex
	img     *image // checked copy of the executable, read once
	sum     string
	pin     Pin
	known   bool // the plugin has described itself: version, drivers and codecs are set
	version string
	level   int // data plane level of the last process
	drivers []driver.Description
	codecs  []codecdriver.Description
}

// newProgram returns the program of the plugin executable at path.
func newProgram(path string, lock *Lock) *program {
	base := filepath.Base(path)
	kind, name, _ := parseFileName(base)
	return &program{name: base, path: path, kind: kind, promised: name, pins: lock.pins(base)}
}

// open checks that the program may run and returns the image to execute.
func (p *program) open(h *Host) (image, error) {
	if p.builtin {
		if !h.opts.Self.Valid() {
			return image{}, pluginErrorf("this program cannot execute itself: it did not call plugin.Main first, or it is itself a plugin process; use isolation inproc")
		}
		path, err := handshake.Image()
		return image{path: path, argv0: "nczarr-plugin"}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.img != nil {
		return *p.img, nil
	}
	img, sum, err := readImage(p.path)
	if err != nil {
		return image{}, err
	}
	p.sum = sum
	pin, ok := matching(p.pins, sum)
	if !ok && (len(p.pins) > 0 || !h.opts.AllowUnpinned && !p.all) {
		if img.file != nil {
			_ = img.file.Close()
		}
		return image{}, sumError(p.path, sum, p.pins)
	}
	img.head, img.static = examine(img)
	p.img, p.pin = &img, pin
	return img, nil
}

// close releases the copy of the executable.
func (p *program) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.img != nil && p.img.file != nil {
		_ = p.img.file.Close()
	}
	p.img = nil
}

// env returns the environment variables that select what a built-in plugin serves and
// prevent plugins from starting plugins.
func (p *program) env(s *supervisor) []string {
	env := []string{handshake.EnvDepth + "=1"}
	if p.builtin {
		env = append(env, handshake.EnvRole+"="+s.set.role)
	}
	return env
}

// setDescription stores the plugin's description of itself after checking it against
// the file name and the pin. It ignores claimed names that are neither in the file name
// nor in the pin, and returns them.
func (p *program) setDescription(r *pb.DescribeReply) (ignored []string, err error) {
	if p.builtin {
		return nil, nil
	}
	if n := len(r.GetDrivers()) + len(r.GetCodecs()); n > handshake.MaxBatch {
		return nil, pluginErrorf("the plugin serves %d drivers and filters, more than the limit of %d", n, handshake.MaxBatch)
	}
	var ds []driver.Description
	for _, w := range r.GetDrivers() {
		d := wire.DriverFromWire(w)
		if err := d.CheckSchemes(); err != nil {
			return nil, pluginErrorf("%w", err)
		}
		d.Nested = false // a claim does not allow access to paths above the one that the user specifies
		ds = append(ds, d)
	}
	var cs []codecdriver.Description
	for _, c := range r.GetCodecs() {
		d := wire.CodecFromWire(c)
		if err := d.Check(); err != nil {
			return nil, pluginErrorf("%w", err)
		}
		cs = append(cs, d)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.pin.Name != "" && p.pin.Name != r.GetName():
		return nil, pluginErrorf("the plugin is named %q; the lock file requires %q", r.GetName(), p.pin.Name)
	case p.pin.Version != "" && p.pin.Version != r.GetVersion():
		return nil, pluginErrorf("the plugin has version %q; the lock file requires %q", r.GetVersion(), p.pin.Version)
	case p.kind == kindDriver && !hasDriver(ds, p.promised):
		return nil, pluginErrorf("the plugin serves no driver named %q, which its file name requires", p.promised)
	case p.kind == kindFilter && !hasCodec(cs, p.promised):
		return nil, pluginErrorf("the plugin serves no filter named %q, which its file name requires", p.promised)
	}
	for _, n := range p.pin.Drivers {
		if !hasDriver(ds, n) {
			return nil, pluginErrorf("the plugin serves no driver named %q, which the lock file requires", n)
		}
	}
	for _, n := range p.pin.Filters {
		if !hasCodec(cs, n) {
			return nil, pluginErrorf("the plugin serves no filter named %q, which the lock file requires", n)
		}
	}
	if !p.all && p.attachment == nil {
		ds, cs, ignored = p.ownedNames(ds, cs)
	}
	p.known, p.version, p.drivers, p.codecs = true, r.GetVersion(), ds, cs
	return ignored, nil
}

// ownedNames returns the drivers and codecs that have a name in the plugin's file name
// or pin, and the names of the drivers and codecs that it omits. It removes all other
// names from the returned codecs. The caller holds mu.
func (p *program) ownedNames(ds []driver.Description, cs []codecdriver.Description) (drivers []driver.Description, codecs []codecdriver.Description, ignored []string) {
	names := p.names(kindDriver)
	for _, d := range ds {
		if slices.Contains(names, d.Name) {
			drivers = append(drivers, d)
		} else {
			ignored = append(ignored, d.Name)
		}
	}
	names = p.names(kindFilter)
	for _, c := range cs {
		id := c.ID
		c.Aliases = slices.DeleteFunc(c.Aliases, func(name string) bool { return !slices.Contains(names, name) })
		if !slices.Contains(names, c.V3) {
			c.V3 = ""
		}
		if !slices.Contains(names, c.ID) {
			c.ID = c.V3
		}
		if c.ID != "" {
			codecs = append(codecs, c)
		} else {
			ignored = append(ignored, id)
		}
	}
	return drivers, codecs, ignored
}

// names returns the names of the given kind in the plugin's file name and pins. Once
// the executable has been read, names uses only the pin that matches it. The caller
// holds mu.
func (p *program) names(kind string) []string {
	var out []string
	if p.kind == kind {
		out = append(out, p.promised)
	}
	pins := p.pins
	if p.img != nil {
		pins = []Pin{p.pin}
	}
	for _, pin := range pins {
		if kind == kindDriver {
			out = append(out, pin.Drivers...)
		} else {
			out = append(out, pin.Filters...)
		}
	}
	return uniq(out)
}

// recordLevel records the data plane level of a process.
func (p *program) recordLevel(level int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = level
}

func hasDriver(ds []driver.Description, name string) bool {
	return slices.ContainsFunc(ds, func(d driver.Description) bool { return d.Name == name })
}

func hasCodec(cs []codecdriver.Description, id string) bool {
	return slices.ContainsFunc(cs, func(d codecdriver.Description) bool { return d.Has(id) })
}

// serves reports whether the plugin is known to serve a driver or filter. It does not
// start the plugin. sure is false if the plugin's own description may change the
// result.
func (p *program) serves(kind, name string) (yes, sure bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.known && kind == kindDriver:
		return hasDriver(p.drivers, name), true
	case p.known:
		return hasCodec(p.codecs, name), true
	}
	yes = slices.Contains(p.names(kind), name)
	return yes, yes || !p.all && p.attachment == nil
}

// promises reports whether the plugin's file name contains the kind and name of the given
// driver or filter.
func (p *program) promises(kind, name string) bool { return p.kind == kind && p.promised == name }

// describe returns the drivers and codecs that the plugin is known to serve. Before the
// plugin has described itself, it returns the names in the file name and the pins.
func (p *program) describe() ([]driver.Description, []codecdriver.Description) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.drivers, p.codecs
	}
	var ds []driver.Description
	for _, n := range p.names(kindDriver) {
		ds = append(ds, driver.Description{Name: n, Summary: "plugin " + p.name + ", not started yet"})
	}
	var cs []codecdriver.Description
	for _, n := range p.names(kindFilter) {
		cs = append(cs, codecdriver.Description{ID: n, Summary: "plugin " + p.name + ", not started yet", Encode: true, Decode: true})
	}
	return ds, cs
}

// uniq sorts list and returns it without duplicates.
func uniq(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// pathGrants reports whether the driver needs access to the path of its store.
func pathGrants(d driver.Description) bool {
	return slices.ContainsFunc(d.Grants, func(g string) bool { return strings.HasPrefix(g, "path:") })
}

// driver returns the description of one of the plugin's drivers. The description has no
// details until the plugin has described itself.
func (p *program) driver(name string) driver.Description {
	ds, _ := p.describe()
	for _, d := range ds {
		if d.Name == name {
			return d
		}
	}
	return driver.Description{Name: name}
}
