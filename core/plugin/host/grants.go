package host

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// grantSet is what one process is granted: variables and paths are looked up.
// Sets with the same key share a process; nothing is ever added to one.
type grantSet struct {
	serves string   // "filters", "driver:NAME", "driver:NAME/read" or "driver:NAME/write"
	role   string   // of a built-in: see handshake.EnvRole
	texts  []string // sorted: "read:/data/x", "tcp:443", "env:HOME"
	places []string // the same with the identity of what is at the paths
	env    []string // names of variables
	policy sandbox.Policy
	local  bool // it was made for one place: not worth keeping when idle
	others bool // it is for a plugin of others, which is to be confined
}

func (g *grantSet) key() string { return g.serves + "\x00" + strings.Join(g.places, "\x00") }

// filterSet gives what the filters of a plugin are granted: nothing but what
// the configuration says of the names that it owns.
func (h *Host) filterSet(p *program) (*grantSet, error) {
	g := &grantSet{serves: kindFilter + "s", role: kindFilter + "s"}
	var texts []string
	if !p.builtin && p.attachment == nil {
		_, _ = p.open(h) // which pin it has; the start reports the error
		p.mu.Lock()
		names := p.names(kindFilter)
		p.mu.Unlock()
		for _, name := range names {
			texts = append(texts, h.granted(p, kindFilter, name)...)
		}
	}
	g.policy.NoFiles = len(texts) == 0
	err := h.resolve(g, texts, driver.OpenSpec{}, false)
	return g, err
}

// driverSet gives what the process for a store is granted.
func (h *Host) driverSet(p *program, d driver.Description, spec driver.OpenSpec, remove bool) (*grantSet, error) {
	g := &grantSet{serves: kindDriver + ":" + d.Name, role: kindDriver + ":" + d.Name, others: !p.builtin && h.opts.Sandbox != SandboxOff}
	texts := d.Grants
	if o, err := h.opts.Builtin.Driver(d.Name); p.builtin && err == nil {
		if granter, ok := o.(driver.Granter); ok {
			texts = granter.Grants(spec)
		}
	} else {
		// What others' plugins say they need is no grant, but for the places
		// that the user names.
		texts = slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return !placeGrant(t) })
	}
	if slices.ContainsFunc(texts, placeGrant) {
		g.local = true
		if spec.Mode.Writable() || remove {
			g.serves += "/write"
		} else {
			g.serves += "/read"
		}
	}
	err := h.resolve(g, append(slices.Clone(texts), h.granted(p, kindDriver, d.Name)...), spec, remove)
	g.policy.NoFiles = p.builtin && len(g.policy.Write) == 0 // one of others may want to keep something
	return g, err
}

// placeGrant reports whether a grant depends on where the store is.
func placeGrant(text string) bool {
	return strings.HasPrefix(text, string(driver.GrantPath)+":") || strings.HasPrefix(text, string(driver.GrantDir)+":")
}

// resolve looks up what texts mean for a store.
func (h *Host) resolve(g *grantSet, texts []string, spec driver.OpenSpec, remove bool) error {
	for _, text := range texts {
		grant, err := driver.ParseGrant(text)
		if err != nil {
			return err
		}
		switch grant.Kind {
		case driver.GrantPath, driver.GrantDir:
			err = h.place(g, grant, spec, remove)
		case driver.GrantRead, driver.GrantWrite:
			if path := h.lookUp(grant.Arg); path != "" {
				g.addPath(path, grant.Kind == driver.GrantWrite)
			}
		case driver.GrantNetwork:
			g.policy.Network = true
			g.add(text, "")
		case driver.GrantTCP:
			err = h.port(g, grant.Arg, spec)
		case driver.GrantEnv:
			g.variables(grant.Arg, h.opts.Environ())
		}
		if err != nil {
			return err
		}
	}
	if slices.Contains(g.texts, string(driver.GrantNetwork)) {
		g.policy.Ports = nil
	}
	slices.Sort(g.texts)
	slices.Sort(g.places)
	slices.Sort(g.policy.Ports)
	return nil
}

// add notes a grant once; id tells apart what has the same text.
func (g *grantSet) add(text, id string) {
	if !slices.Contains(g.texts, text) {
		g.texts = append(g.texts, text)
		g.places = append(g.places, text+id)
	}
}

// addPath grants a path: what is there now, under whatever name. A file that
// takes its place later is another one.
func (g *grantSet) addPath(path string, write bool) {
	if _, err := os.Stat(path); err != nil { // the driver will say so
		return
	}
	kind, list := driver.GrantRead, &g.policy.Read
	if write {
		kind, list = driver.GrantWrite, &g.policy.Write
	}
	g.add(string(kind)+":"+path, identity(path))
	if !slices.Contains(*list, path) {
		*list = append(*list, path)
	}
}

// place grants the store's own place or the directory that it is in.
func (h *Host) place(g *grantSet, grant driver.Grant, spec driver.OpenSpec, remove bool) error {
	write := spec.Mode.Writable() || remove
	if spec.Path == "" || write != (grant.Arg == "write") {
		return nil
	}
	path, err := filepath.Abs(spec.Path)
	if err != nil {
		return ncerr.New(ncerr.ErrIO, "find", spec.Path, err)
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err == nil && remove: // the entry in the directory goes too, and so does a link
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			g.addRoot(h, dir, true)
		}
		path = filepath.Dir(real)
	case err == nil && grant.Kind == driver.GrantDir:
		path = filepath.Dir(real)
	case err == nil:
		path = real
	case spec.Mode == driver.Create || spec.Mode == driver.CreateExclusive:
		path = filepath.Dir(path)
		if err := os.MkdirAll(path, 0o777); err != nil { // as the driver would
			return ncerr.New(ncerr.ErrIO, "make directory", path, err)
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	default:
		return nil // nothing is there: the driver will say so
	}
	if write && g.others && h.holdsHome(path) {
		return pluginErrorf("a plugin of others would be granted to write in %s, which holds all that belongs to you: put the store into a directory of its own", path)
	}
	g.addRoot(h, path, write)
	return nil
}

// holdsHome reports whether a directory is the user's home or has it in it. Who
// may write there decides what the user's programs do, this one among them.
func (h *Host) holdsHome(path string) bool {
	home, err := filepath.EvalSymlinks(h.opts.Getenv("HOME"))
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(path, home)
	return err == nil && filepath.IsLocal(rel)
}

// addRoot grants a path, or the configured root that it is in.
func (g *grantSet) addRoot(h *Host, path string, write bool) {
	for _, root := range h.opts.Roots {
		if real, err := filepath.EvalSymlinks(root); err == nil {
			if rel, err := filepath.Rel(real, path); err == nil && filepath.IsLocal(rel) {
				path = real
				break
			}
		}
	}
	g.addPath(path, write)
}

// lookUp gives the path that a grant names, or nothing.
func (h *Host) lookUp(text string) string {
	if rest, ok := strings.CutPrefix(text, "~/"); ok {
		home := h.opts.Getenv("HOME")
		if home == "" {
			return ""
		}
		text = filepath.Join(home, rest)
	}
	if name, ok := strings.CutPrefix(text, "$"); ok {
		name, rest, _ := strings.Cut(name, "/")
		value := h.opts.Getenv(name)
		if value == "" {
			return ""
		}
		text = filepath.Join(value, rest)
	}
	if !filepath.IsAbs(text) {
		abs, err := filepath.Abs(text) // of a variable that a program would take so
		if err != nil {
			return ""
		}
		text = abs
	}
	if real, err := filepath.EvalSymlinks(text); err == nil {
		return real
	}
	return ""
}

// port grants a port.
func (h *Host) port(g *grantSet, arg string, spec driver.OpenSpec) error {
	g.policy.Network = true
	text := arg
	if name, ok := strings.CutPrefix(arg, "$"); ok {
		if text = h.opts.Getenv(name); text == "" {
			return nil
		}
		if !strings.Contains(text, "://") { // a proxy may be named without a scheme
			text = "http://" + text
		}
	} else if arg == "endpoint" {
		text = spec.Endpoint
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		n, err = portOf(text)
	}
	if err != nil {
		return ncerr.New(ncerr.ErrInvalid, "find port", arg, err)
	}
	g.add(fmt.Sprintf("%s:%d", driver.GrantTCP, n), "")
	if !slices.Contains(g.policy.Ports, uint16(n)) {
		g.policy.Ports = append(g.policy.Ports, uint16(n))
	}
	return nil
}

// portOf gives the port of a URL.
func portOf(text string) (uint64, error) {
	u, err := url.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("no URL with a port") // the text may have a password in it
	}
	switch port := u.Port(); {
	case port != "":
		return strconv.ParseUint(port, 10, 16)
	case u.Scheme == "http":
		return 80, nil
	case u.Scheme == "socks5", u.Scheme == "socks5h":
		return 1080, nil
	}
	return 443, nil
}

// variables grants what matches a name or the beginning of names.
func (g *grantSet) variables(pattern string, environ []string) {
	prefix, many := strings.CutSuffix(pattern, "*")
	for _, line := range environ {
		name, _, _ := strings.Cut(line, "=")
		if name == pattern || many && strings.HasPrefix(name, prefix) {
			g.add(string(driver.GrantEnv)+":"+name, "")
			g.env = append(g.env, name)
		}
	}
}
