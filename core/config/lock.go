package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Lock is the content of a plugins' lock file: which plugins may be launched.
// The zero value pins nothing. It is not safe for concurrent changes.
type Lock struct {
	Plugins []LockedPlugin // sorted by name, each name once
}

// LockedPlugin pins one plugin.
type LockedPlugin struct {
	// Name is that of the executable without ".exe".
	Name string
	// Version is what the plugin says of itself.
	Version string
	// SHA256 maps a platform, "linux/amd64", to the lower-case hexadecimal
	// digest of the executable for it. It has at least one entry.
	SHA256 map[string]string
}

// lockFormat is the version of the file's format.
const lockFormat = 1

// Find gives the pin of a plugin by name.
func (l *Lock) Find(name string) (LockedPlugin, bool) {
	i, ok := l.index(name)
	if !ok {
		return LockedPlugin{}, false
	}
	return l.Plugins[i], true
}

func (l *Lock) index(name string) (int, bool) {
	return slices.BinarySearchFunc(l.Plugins, name, func(p LockedPlugin, n string) int {
		return strings.Compare(p.Name, n)
	})
}

// Set adds the pin of a plugin or replaces the one of that name. It keeps a
// reference to p.SHA256.
func (l *Lock) Set(p LockedPlugin) {
	i, ok := l.index(p.Name)
	if ok {
		l.Plugins[i] = p
		return
	}
	l.Plugins = slices.Insert(l.Plugins, i, p)
}

// Remove takes the pin of a plugin away and reports whether there was one.
func (l *Lock) Remove(name string) bool {
	i, ok := l.index(name)
	if ok {
		l.Plugins = slices.Delete(l.Plugins, i, i+1)
	}
	return ok
}

// Marshal gives the file's content. Equal locks give equal bytes: everything
// is sorted, and there is no time stamp. What [ParseLock] would refuse is
// ncerr.ErrInvalid here, too.
func (l *Lock) Marshal() ([]byte, error) {
	fail := func(name string, cause error) error {
		return ncerr.New(ncerr.ErrInvalid, "write lock file", name, cause)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Plugins that may be launched: version, and SHA-256 of the executable by platform.\nformat = %d\n", lockFormat)
	sorted := slices.SortedFunc(slices.Values(l.Plugins), func(p, q LockedPlugin) int {
		return strings.Compare(p.Name, q.Name)
	})
	for i, p := range sorted {
		if i > 0 && sorted[i-1].Name == p.Name {
			return nil, fail(p.Name, errors.New("the plugin is pinned twice"))
		}
		if err := p.check(); err != nil {
			return nil, fail(p.Name, err)
		}
		fmt.Fprintf(&b, "\n[plugins.%q]\nversion = %q\n", p.Name, p.Version)
		for _, platform := range slices.Sorted(maps.Keys(p.SHA256)) {
			fmt.Fprintf(&b, "sha256.%q = %q\n", platform, p.SHA256[platform])
		}
	}
	return []byte(b.String()), nil
}

// ParseLock reads a lock file strictly; name is used in errors.
//
// Errors by kind: ncerr.ErrInvalid with file:line as the key for anything that
// [Lock.Marshal] would not write, ncerr.ErrLimit as for [Load].
func ParseLock(name string, data []byte) (*Lock, error) {
	d, err := decode(name, data)
	if err != nil {
		return nil, err
	}
	l := &Lock{}
	format := int64(0)
	for _, m := range d.ordered(d.root) {
		switch m.key {
		case "format":
			format, _ = d.plain(m.value).(int64)
			if format != lockFormat {
				return nil, d.fail(m.line, fmt.Errorf("this version reads format %d only", lockFormat))
			}
		case tablePlugins:
			if err := l.parse(d, m); err != nil {
				return nil, err
			}
		default:
			return nil, d.fail(m.line, fmt.Errorf("unknown key %q%s", m.key, didYouMean(m.key, []string{"format", tablePlugins})))
		}
	}
	if format == 0 {
		return nil, d.fail(0, fmt.Errorf("the line %q is missing", fmt.Sprintf("format = %d", lockFormat)))
	}
	return l, nil
}

// parse reads the tables [plugins.NAME].
func (l *Lock) parse(d *document, table member) error {
	if !d.isTable(table.value) {
		return d.fail(table.line, errors.New("plugins must be a table"))
	}
	for _, named := range d.members(table.value) {
		if !d.isTable(named.value) {
			return d.fail(named.line, fmt.Errorf("plugins.%s must be a table", named.key))
		}
		p := LockedPlugin{Name: named.key, SHA256: map[string]string{}}
		for _, m := range d.members(named.value) {
			if err := p.parse(d, m); err != nil {
				return err
			}
		}
		if err := p.check(); err != nil {
			return d.fail(named.line, fmt.Errorf("plugin %q: %w", p.Name, err))
		}
		l.Set(p)
	}
	return nil
}

// parse reads one key of a plugin.
func (p *LockedPlugin) parse(d *document, m member) error {
	value := d.plain(m.value)
	switch m.key {
	case "version":
		text, ok := value.(string)
		if !ok {
			return d.fail(m.line, wrongType("a string", value))
		}
		p.Version = text
		return nil
	case "sha256":
		if !d.isTable(m.value) {
			return d.fail(m.line, wrongType("a table of platforms", value))
		}
		for _, s := range d.members(m.value) {
			text, _ := d.plain(s.value).(string) // anything else is no digest
			if err := checkDigest(s.key, text); err != nil {
				return d.fail(s.line, err)
			}
			p.SHA256[s.key] = text
		}
		return nil
	}
	return d.fail(m.line, fmt.Errorf("unknown key %q%s", m.key, didYouMean(m.key, []string{"version", "sha256"})))
}

// check refuses a pin that could not be written and read back.
func (p *LockedPlugin) check() error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	switch {
	case p.Name == "" || len(p.Name) > 128 || strings.Trim(p.Name, letters+"._-") != "" || strings.ContainsAny(p.Name[:1], "._-"):
		return errors.New("the name may have letters, digits, dot, hyphen and underscore")
	case p.Version == "" || len(p.Version) > 128 || strings.ContainsFunc(p.Version, unprintable):
		return errors.New("a version is needed, in printable characters without space or quotes")
	case len(p.SHA256) == 0:
		return errors.New("at least one sha256 is needed")
	}
	for platform, digest := range p.SHA256 {
		if err := checkDigest(platform, digest); err != nil {
			return err
		}
	}
	return nil
}

// checkDigest checks a platform and its digest.
func checkDigest(platform, digest string) error {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok || !validName(system) || !validName(arch) {
		return fmt.Errorf(`%q is not a platform such as "linux/amd64"`, platform)
	}
	if len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
		return fmt.Errorf("the sha256 for %s is not 64 lower-case hexadecimal digits", platform)
	}
	return nil
}
