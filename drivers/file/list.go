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
		l := &lister{search: search{m: m, ctx: ctx}, opts: o, yield: yield}
		dir := strings.TrimSuffix(prefix, "/")
		if dir == "" {
			dir = "."
		}
		if !l.list(dir, prefix, false) {
			return
		}
		if err := m.alive(); err != nil { // a removed directory reads as an empty one
			yield(driver.Entry{}, err)
		}
	}
}

// lister is one listing.
type lister struct {
	search
	opts  driver.ListOptions
	yield func(driver.Entry, error) bool
}

// list yields what is in a directory, and reports whether to go on. linked says
// that a link led to it.
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
			entries[i].name += "/" // counts in the order
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

// entry yields one entry, or what is below it.
func (l *lister) entry(key string, e entry) bool {
	after := l.opts.StartAfter
	out := driver.Entry{Key: key, Prefix: e.dir, Info: driver.Info{Size: -1}}
	descend := e.dir && l.opts.Recursive
	switch {
	case descend && after > key && !strings.HasPrefix(after, key), !descend && key <= after:
		return true
	case descend && !e.link: // a plain tree: nothing is met twice
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
	return l.yield(out, nil)
}

// entry is a name in a directory.
type entry struct {
	name string
	dir  bool
	link bool   // to the directory
	loop string // the directory above that a link which is left out leads to
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
			return entry{loop: up}, false
		}
		if up == "." {
			return entry{name: name, dir: true, link: true}, true
		}
	}
}

// errFound ends a search.
var errFound = errors.New("found")

// search looks for objects below directories. It visits a directory once however
// many links lead there: the paths to it may be more than can be counted.
type search struct {
	m    *Map
	ctx  context.Context          //nolint:containedctx // lives as long as the listing
	seen map[uint64][]fs.FileInfo // directories that links led to, with no object below them; by file number
}

// holdsObject reports whether there is an object somewhere below a directory.
// linked says that a link led there.
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
	// looped says that a link to a directory above start was left out. Below
	// another start it counts.
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

// visited reports whether a directory was seen before, and notes that it was.
func (s *search) visited(dir string) bool {
	info, err := s.m.root.Stat(dir)
	if err != nil {
		return false // opening it will say why
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

// scan reads a directory until it meets an object (errFound), and collects
// the directories in it.
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
