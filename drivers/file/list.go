package file

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// List implements driver.Map.
func (m *Map) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		l := &lister{m: m, ctx: ctx, opts: o, yield: yield}
		dir := strings.TrimSuffix(prefix, "/")
		if dir == "" {
			dir = "."
		}
		if !l.list(dir, prefix) {
			return
		}
		if err := m.alive(); err != nil { // a removed directory reads as an empty one
			yield(driver.Entry{}, err)
		}
	}
}

// lister is one listing.
type lister struct {
	m     *Map
	ctx   context.Context //nolint:containedctx // lives as long as the listing
	opts  driver.ListOptions
	yield func(driver.Entry, error) bool
}

// list yields what is in a directory, and reports whether to go on.
func (l *lister) list(dir, prefix string) bool {
	entries, err := l.m.readDir(dir)
	if err == nil {
		err = l.ctx.Err()
	}
	switch {
	case missing(err):
		return true
	case err != nil:
		l.yield(driver.Entry{}, ncerr.Wrap("read directory", prefix, classify(err)))
		return false
	}
	for i := range entries {
		if entries[i].dir {
			entries[i].name += "/" // counts in the order
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range entries {
		if !l.entry(prefix+e.name, e.dir) {
			return false
		}
	}
	return true
}

// entry yields one entry, or what is below it.
func (l *lister) entry(key string, dir bool) bool {
	after := l.opts.StartAfter
	out := driver.Entry{Key: key, Prefix: dir, Info: driver.Info{Size: -1}}
	switch {
	case dir && l.opts.Recursive:
		if after > key && !strings.HasPrefix(after, key) {
			return true
		}
		return l.list(key[:len(key)-1], key)
	case key <= after:
		return true
	case dir:
		full, err := l.m.holdsObject(key[:len(key)-1])
		if err != nil {
			l.yield(driver.Entry{}, ncerr.Wrap("read directory", key, classify(err)))
			return false
		}
		if !full {
			return true
		}
	}
	if err := l.ctx.Err(); err != nil {
		l.yield(driver.Entry{}, err)
		return false
	}
	return l.yield(out, nil)
}

// entry is a name in a directory.
type entry struct {
	name string
	dir  bool
}

// readDir gives the names in a directory that count: objects, directories and
// broken links, in no order.
func (m *Map) readDir(dir string) ([]entry, error) {
	d, err := m.openDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var all []entry
	err = eachName(d, func(name string, t fs.FileMode) bool {
		if e, ok := m.entryOf(dir, name, t); ok {
			all = append(all, e)
		}
		return true
	})
	return all, err
}

// entryOf decides what a name in a directory stands for.
func (m *Map) entryOf(dir, name string, t fs.FileMode) (entry, bool) {
	if !visible(name) || systemFlaw(name) != "" {
		return entry{}, false
	}
	switch {
	case t.IsDir():
		return entry{name: name, dir: true}, true
	case t == fs.ModeSymlink:
		return m.linkOf(dir, name)
	}
	return entry{name: name}, t.IsRegular()
}

// linkOf decides what a link stands for. One to a directory that it is in
// itself would never end and is left out; one that cannot be followed counts
// as an object, so that reading it says why.
func (m *Map) linkOf(dir, name string) (entry, bool) {
	path := name
	if dir != "." {
		path = dir + "/" + name
	}
	info, err := m.root.Stat(path)
	switch {
	case err != nil:
		return entry{name: name}, true
	case !info.IsDir():
		return entry{name: name}, info.Mode().IsRegular()
	}
	for up := dir; ; up, _ = split(up) {
		above, err := m.root.Stat(up)
		if err == nil && os.SameFile(above, info) {
			return entry{}, false
		}
		if up == "." {
			return entry{name: name, dir: true}, true
		}
	}
}

// errFound ends a search.
var errFound = errors.New("found")

// holdsObject reports whether there is an object somewhere below a directory.
func (m *Map) holdsObject(dir string) (bool, error) {
	var dirs []string
	err := m.scan(dir, &dirs)
	switch {
	case errors.Is(err, errFound):
		return true, nil
	case missing(err):
		return false, nil
	case err != nil:
		return false, err
	}
	for _, sub := range dirs {
		if full, err := m.holdsObject(dir + "/" + sub); full || err != nil {
			return full, err
		}
	}
	return false, nil
}

// scan reads a directory until it meets an object (errFound), and collects
// the directories in it.
func (m *Map) scan(dir string, dirs *[]string) error {
	d, err := m.openDir(dir)
	if err != nil {
		return err
	}
	defer d.close()
	found := false
	err = eachName(d, func(name string, t fs.FileMode) bool {
		e, ok := m.entryOf(dir, name, t)
		switch {
		case ok && e.dir:
			*dirs = append(*dirs, name)
		case ok:
			found = true
		}
		return !found
	})
	if found {
		return errFound
	}
	return err
}

// openDir opens a directory; anything else is as if it were not there.
func (m *Map) openDir(dir string) (handle, error) { return m.openAs(dir, nonblock|directory) }

// dirNames gives all names in a directory, temporary ones too.
func (m *Map) dirNames(dir string) ([]string, error) {
	d, err := m.openDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var all []string
	err = eachName(d, func(name string, _ fs.FileMode) bool { all = append(all, name); return true })
	return all, err
}
