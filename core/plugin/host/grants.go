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

// grantSet is the set of grants of one process, with variables and paths resolved.
// Stores whose sets have the same key share a process. A set is immutable.
type grantSet struct {
	serves     string   // "filters", "driver:NAME", "driver:NAME/read" or "driver:NAME/write"
	role       string   // role of a process with built-in plugins; see handshake.EnvRole
	texts      []string // sorted: "read:/data/x", "tcp:443", "env:HOME"
	places     []string // texts, each followed by the identity of the file at its path
	env        []string // names of environment variables
	policy     sandbox.Policy
	local      bool // the set depends on a location: the process is stopped when idle
	thirdParty bool // the process runs a third-party plugin in a sandbox
}

func (g *grantSet) key() string { return g.serves + "\x00" + strings.Join(g.places, "\x00") }

// filterSet returns the grants of a plugin's filters, which are the configured grants
// of the names that the plugin owns.
func (h *Host) filterSet(p *program) (*grantSet, error) {
	g := &grantSet{serves: kindFilter + "s", role: kindFilter + "s"}
	var texts []string
	if !p.builtin && p.attachment == nil {
		_, _ = p.open(h) // selects the pin; starting the plugin reports the error
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

// driverSet returns the grants of the process that opens the store of spec, or of the
// process that removes the store if remove is set.
func (h *Host) driverSet(p *program, d driver.Description, spec driver.OpenSpec, remove bool) (*grantSet, error) {
	g := &grantSet{serves: kindDriver + ":" + d.Name, role: kindDriver + ":" + d.Name, thirdParty: !p.builtin && h.opts.Sandbox != SandboxOff}
	texts := d.Grants
	if o, err := h.builtin.Driver(d.Name); p.builtin && err == nil {
		if granter, ok := o.(driver.Granter); ok {
			texts = granter.Grants(spec)
		}
	} else {
		// A third-party plugin cannot grant itself anything except access to the
		// location that the user opens.
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
	g.policy.NoFiles = p.builtin && len(g.policy.Write) == 0 // a third-party plugin may need to write files
	return g, err
}

// placeGrant reports whether a grant depends on the location of the store.
func placeGrant(text string) bool {
	return strings.HasPrefix(text, string(driver.GrantPath)+":") || strings.HasPrefix(text, string(driver.GrantDir)+":")
}

// resolve parses the grants in texts, resolves them for a store and adds them to g.
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

// add adds a grant unless the set contains it. id distinguishes files with the same
// path.
func (g *grantSet) add(text, id string) {
	if !slices.Contains(g.texts, text) {
		g.texts = append(g.texts, text)
		g.places = append(g.places, text+id)
	}
}

// addPath grants access to the file or directory that is now at path, but not to a file
// created later at the same path.
func (g *grantSet) addPath(path string, write bool) {
	if _, err := os.Stat(path); err != nil { // the driver reports the error
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

// place grants access to the location of the store, or to the directory that contains
// it, as grant specifies.
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
	case err == nil && remove: // the driver also removes the directory entry, which may be a link
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
		if err := os.MkdirAll(path, 0o777); err != nil { // as the driver would do
			return ncerr.New(ncerr.ErrIO, "make directory", path, err)
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	default:
		return nil // the location does not exist, and the driver reports that
	}
	if write && g.thirdParty && h.holdsHome(path) {
		return pluginErrorf("a third-party plugin would be able to write to %q, which contains your home directory: use a separate directory for the store", path)
	}
	g.addRoot(h, path, write)
	return nil
}

// holdsHome reports whether path is the user's home directory or contains it. A plugin
// that can write there controls the user's programs, including this one.
func (h *Host) holdsHome(path string) bool {
	home, err := filepath.EvalSymlinks(h.opts.Getenv("HOME"))
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(path, home)
	return err == nil && filepath.IsLocal(rel)
}

// addRoot grants access to path, or to the configured root that contains it.
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

// lookUp returns the resolved path of a grant, which may start with "~/" or a variable.
// It returns "" if the path does not exist.
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
		abs, err := filepath.Abs(text) // the variable has a relative path
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

// port grants connections to a TCP port. arg is a port number, "endpoint" for the port of
// the store's endpoint, or "$" and the name of an environment variable that contains a URL.
func (h *Host) port(g *grantSet, arg string, spec driver.OpenSpec) error {
	g.policy.Network = true
	text := arg
	if name, ok := strings.CutPrefix(arg, "$"); ok {
		if text = h.opts.Getenv(name); text == "" {
			return nil
		}
		if !strings.Contains(text, "://") { // the URL of a proxy may lack a scheme
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

// portOf returns the port of a URL, or the default port of its scheme.
func portOf(text string) (uint64, error) {
	u, err := url.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("the value is not a valid URL") // omit the text, which may contain a password
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

// variables grants access to the environment variables that match pattern, which is a
// name or a prefix followed by "*".
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
