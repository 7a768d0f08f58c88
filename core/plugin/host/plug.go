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

// plug is one plugin: an executable, or the running program itself.
type plug struct {
	name     string
	path     string // empty for built-ins
	builtin  bool
	kind     string // what the file name promises: kindDriver or kindFilter,
	promised string // and which
	pins     []Pin

	attachment *handshake.Attachment // it is run by its author, not by us

	mu      sync.Mutex
	img     *image // read once; the copy that was checked is executed ever after
	sum     string
	pin     Pin
	known   bool // what follows came from the plugin itself
	version string
	drivers []driver.Description
	codecs  []codecdriver.Description
}

// newPlug makes the plug of an executable.
func newPlug(path string, lock *Lock) *plug {
	base := filepath.Base(path)
	kind, name, _ := parseFileName(base)
	return &plug{name: base, path: path, kind: kind, promised: name, pins: lock.pins(base)}
}

// open gives what to execute, after the checks.
func (p *plug) open(h *Host) (image, error) {
	if p.builtin {
		if !h.opts.Self.Valid() {
			return image{}, bad("this program cannot execute itself: it did not call plugin.Main first, or it is itself a plugin process; use isolation inproc")
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
	pin, ok := matching(p.pins, sum)
	if !ok && (len(p.pins) > 0 || !h.opts.AllowUnpinned) {
		if img.file != nil {
			_ = img.file.Close()
		}
		return image{}, sumError(p.path, sum, p.pins)
	}
	img.head, img.static = examine(img)
	p.img, p.sum, p.pin = &img, sum, pin
	return img, nil
}

// close gives back the copy of the executable.
func (p *plug) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.img != nil && p.img.file != nil {
		_ = p.img.file.Close()
	}
	p.img = nil
}

// env gives what self-execution needs; no plugin starts plugins.
func (p *plug) env(s *slot) []string {
	env := []string{handshake.EnvDepth + "=1"}
	if p.builtin {
		env = append(env, handshake.EnvRole+"="+s.set.role)
	}
	return env
}

// learn takes over what a plugin says of itself, and compares it with its
// file name and its pin.
func (p *plug) learn(r *pb.DescribeReply) error {
	if p.builtin {
		return nil
	}
	var ds []driver.Description
	for _, d := range r.GetDrivers() {
		ds = append(ds, wire.DriverFromWire(d))
	}
	var cs []codecdriver.Description
	for _, c := range r.GetCodecs() {
		cs = append(cs, wire.CodecFromWire(c))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.pin.Name != "" && p.pin.Name != r.GetName():
		return bad("calls itself %q, the lock file says %q", r.GetName(), p.pin.Name)
	case p.pin.Version != "" && p.pin.Version != r.GetVersion():
		return bad("says it has version %q, the lock file says %q", r.GetVersion(), p.pin.Version)
	case p.kind == kindDriver && !hasDriver(ds, p.promised):
		return bad("serves no driver named %q, as its file name promises", p.promised)
	case p.kind == kindFilter && !hasCodec(cs, p.promised):
		return bad("serves no filter named %q, as its file name promises", p.promised)
	}
	for _, n := range p.pin.Drivers {
		if !hasDriver(ds, n) {
			return bad("serves no driver named %q, which the lock file promises", n)
		}
	}
	for _, n := range p.pin.Filters {
		if !hasCodec(cs, n) {
			return bad("serves no filter named %q, which the lock file promises", n)
		}
	}
	p.known, p.version, p.drivers, p.codecs = true, r.GetVersion(), ds, cs
	return nil
}

func hasDriver(ds []driver.Description, name string) bool {
	return slices.ContainsFunc(ds, func(d driver.Description) bool { return d.Name == name })
}

func hasCodec(cs []codecdriver.Description, id string) bool {
	return slices.ContainsFunc(cs, func(d codecdriver.Description) bool { return d.ID == id || d.V3 != "" && d.V3 == id })
}

// serves reports whether the plugin has that driver or filter, as far as is
// known without starting it; sure is false when starting it might tell more.
func (p *plug) serves(kind, name string) (yes, sure bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.known && kind == kindDriver:
		return hasDriver(p.drivers, name), true
	case p.known:
		return hasCodec(p.codecs, name), true
	case p.kind == kind && p.promised == name:
		return true, true
	}
	for _, pin := range p.pins {
		if kind == kindDriver && slices.Contains(pin.Drivers, name) || kind == kindFilter && slices.Contains(pin.Filters, name) {
			return true, true
		}
	}
	return false, false
}

// describe gives what is known about what the plugin serves.
func (p *plug) describe() ([]driver.Description, []codecdriver.Description) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.drivers, p.codecs
	}
	var names, ids []string
	if p.kind == kindDriver {
		names = append(names, p.promised)
	} else {
		ids = append(ids, p.promised)
	}
	for _, pin := range p.pins {
		names, ids = append(names, pin.Drivers...), append(ids, pin.Filters...)
	}
	var ds []driver.Description
	for _, n := range uniq(names) {
		ds = append(ds, driver.Description{Name: n, Summary: "plugin " + p.name + ", not started yet"})
	}
	var cs []codecdriver.Description
	for _, n := range uniq(ids) {
		cs = append(cs, codecdriver.Description{ID: n, Summary: "plugin " + p.name + ", not started yet", Encode: true, Decode: true})
	}
	return ds, cs
}

func uniq(in []string) []string {
	slices.Sort(in)
	return slices.Compact(in)
}

// pathGrants reports whether the driver works on paths of this machine.
func pathGrants(d driver.Description) bool {
	return slices.ContainsFunc(d.Grants, func(g string) bool { return strings.HasPrefix(g, "path:") })
}

// driver gives the description of one of its drivers; of a plugin that was
// not asked yet, only the name.
func (p *plug) driver(name string) driver.Description {
	ds, _ := p.describe()
	for _, d := range ds {
		if d.Name == name {
			return d
		}
	}
	return driver.Description{Name: name}
}
