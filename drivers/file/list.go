package file

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// List implements driver.Map.
func (m *Map) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		l := &lister{search: search{m: m, ctx: ctx}, opts: o, yield: yield}
		if !l.list(cmp.Or(strings.TrimSuffix(prefix, "/"), "."), prefix, false) {
			return
		}
		if err := m.alive(); err != nil { // a removed directory reads as an empty one
			yield(driver.Entry{}, err)
		}
	}
}

// lister holds the state of one listing.
type lister struct {
	search
	opts  driver.ListOptions
	yield func(driver.Entry, error) bool
}

// list yields the contents of a directory and reports whether to continue. linked is
// true if a link led to the directory.
func (l *lister) list(dir, prefix string, linked bool) bool {
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
			entries[i].name += "/" // the slash is part of the sort order
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range entries {
		e.link = e.link || linked
		if !l.entry(prefix+e.name, e) {
			return false
		}
	}
	return true
}

// entry yields one entry, or the entries below it, and reports whether to continue.
func (l *lister) entry(key string, e entry) bool {
	after := l.opts.StartAfter
	out := driver.Entry{Key: key, Prefix: e.dir, Info: driver.Info{Size: -1}}
	descend := e.dir && l.opts.Recursive
	switch {
	case descend && after > key && !strings.HasPrefix(after, key), !descend && key <= after:
		return true
	case descend && !e.link: // a tree without links contains no object twice
		return l.list(key[:len(key)-1], key, false)
	case e.dir:
		full, err := l.holdsObject(key[:len(key)-1], e.link)
		if err != nil {
			l.yield(driver.Entry{}, ncerr.Wrap("read directory", key, classify(err)))
			return false
		}
		if !full {
			return true
		}
		if descend {
			return l.list(key[:len(key)-1], key, true)
		}
	}
	if err := l.ctx.Err(); err != nil {
		l.yield(driver.Entry{}, err)
		return false
	}
	if l.opts.Info && !e.dir {
		if x, err := l.m.stat(key); err == nil && x.object() == nil {
			out.Info = x.info()
		}
	}
	return l.yield(out, nil)
}

// entry describes a name in a directory.
type entry struct {
	name string
	dir  bool
	link bool   // whether the name is a link to a directory
	loop string // for an omitted link: the parent directory that it leads to
}

// readDir returns the objects, directories and broken links in a directory, unsorted.
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

// entryOf returns the entry for a name in a directory, and whether listings include it.
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

// linkOf returns the entry for a symbolic link, and whether listings include it. A link
// to one of its own parent directories would recurse forever and is omitted. A link
// that cannot be followed is listed as an object, so that reading it reports the cause.
func (m *Map) linkOf(dir, name string) (entry, bool) {
	info, err := m.root.Stat(path.Join(dir, name))
	switch {
	case err != nil:
		return entry{name: name}, true
	case !info.IsDir():
		return entry{name: name}, info.Mode().IsRegular()
	}
	for up := dir; ; up, _ = split(up) {
		above, err := m.root.Stat(up)
		if err == nil && os.SameFile(above, info) {
			return entry{loop: up}, false
		}
		if up == "." {
			return entry{name: name, dir: true, link: true}, true
		}
	}
}

// errFound ends a search at the first object.
var errFound = errors.New("found")

// search looks for objects below directories. It visits each directory that is reached
// through a link only once, because the number of paths through links may be
// exponential.
type search struct {
	m    *Map
	ctx  context.Context          //nolint:containedctx // the context has the lifetime of the listing
	seen map[uint64][]fs.FileInfo // directories without objects that were reached through links, by file number
}

// holdsObject reports whether the tree below dir contains an object. linked is true if
// a link led to dir.
func (s *search) holdsObject(dir string, linked bool) (bool, error) {
	start := finder{search: s, start: dir}
	full, err := start.below(dir, linked)
	if full || err != nil || start.looped {
		s.seen = nil
	}
	return full, err
}

// finder is one search below a directory.
type finder struct {
	*search
	start string
	// looped is true if a link to a parent of start was omitted. A search from another
	// start may have to follow that link.
	looped bool
}

func (f *finder) below(dir string, linked bool) (bool, error) {
	if err := f.ctx.Err(); err != nil {
		return false, err
	}
	if linked && f.visited(dir) {
		return false, nil
	}
	var dirs []entry
	err := f.scan(dir, &dirs)
	switch {
	case errors.Is(err, errFound):
		return true, nil
	case missing(err):
		return false, nil
	case err != nil:
		return false, err
	}
	for _, sub := range dirs {
		if full, err := f.below(dir+"/"+sub.name, linked || sub.link); full || err != nil {
			return full, err
		}
	}
	return false, nil
}

// visited reports whether dir was visited before, and records the visit.
func (s *search) visited(dir string) bool {
	info, err := s.m.root.Stat(dir)
	if err != nil {
		return false // a later open reports the cause
	}
	n := fileNumber(info)
	if slices.ContainsFunc(s.seen[n], func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
		return true
	}
	if s.seen == nil {
		s.seen = make(map[uint64][]fs.FileInfo)
	}
	s.seen[n] = append(s.seen[n], info)
	return false
}

// scan appends the subdirectories of dir to dirs. It stops and returns errFound at the
// first object.
func (f *finder) scan(dir string, dirs *[]entry) error {
	d, err := f.m.openDir(dir)
	if err != nil {
		return err
	}
	defer d.close()
	found := false
	err = eachName(d, func(name string, t fs.FileMode) bool {
		e, ok := f.m.entryOf(dir, name, t)
		switch {
		case ok && e.dir:
			*dirs = append(*dirs, e)
		case ok:
			found = true
		case e.loop != "" && len(e.loop) < len(f.start):
			f.looped = true
		}
		return !found
	})
	if found {
		return errFound
	}
	return err
}

// openDir opens a directory. For anything else it returns the error for a missing
// directory.
func (m *Map) openDir(dir string) (handle, error) { return m.openAs(dir, nonblock|directory) }

// dirNames returns all names in a directory, including those of temporary files.
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
