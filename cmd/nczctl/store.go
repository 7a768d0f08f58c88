package main

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// openStore opens the store in an argument of the form URL[/key]. The store need not
// contain a dataset. openStore also returns the key, which is the part of the path inside
// the store, or "" for the whole store. Every directory and every prefix of a bucket or
// web server is a store. If object is set, the last segment of a path in a bucket or on a
// web server is a key.
func (a *app) openStore(ctx context.Context, arg string, object bool) (*zmap.Map, string, error) {
	if _, err := a.start(ctx, arg); err != nil {
		return nil, "", err
	}
	if file, key := a.referenceFile(arg); file != "" {
		m, err := open.Store(ctx, file, a.options())
		if err != nil || key == "" {
			return m, key, err
		}
		return requireKey(ctx, m, key)
	}
	loc, err := a.locate(arg, false)
	if errors.Is(err, ncurl.ErrLogin) {
		return nil, "", err
	}
	if err != nil {
		return a.openSplit(ctx, arg) // the key in arg need not be valid in a URL
	}
	switch d := store.Describe(ctx, a.session.Host(), loc); {
	case store.IsLocal(&d):
		return a.openSplit(ctx, arg)
	case d.Locality == driver.OnServer:
		return a.openPrefix(ctx, arg, object)
	}
	m, err := open.Store(ctx, arg, a.options())
	for at, key := arg, ""; err != nil && !ncerr.IsContext(err); {
		up, last, ok := cutLast(at)
		if !ok {
			return nil, "", err
		}
		at, key = up, path.Join(last, key)
		if loc, lerr := a.locate(at, false); lerr != nil || open.Probe(loc.Path) == ncurl.Missing {
			continue
		}
		inner, oerr := open.Store(ctx, at, a.options())
		if oerr != nil {
			continue
		}
		return requireKey(ctx, inner, key)
	}
	return m, "", err
}

// referenceFile splits an argument into a reference file and a key in the store that it
// describes. file is empty if the argument contains no reference file.
func (a *app) referenceFile(arg string) (file, key string) {
	for file = arg; ; {
		loc, err := a.locate(file, false)
		if err == nil && loc.References && (loc.Driver != ncurl.DriverFile || isFile(loc.Path)) {
			return file, key
		}
		up, last, ok := cutLast(file)
		if !ok {
			return "", ""
		}
		file, key = up, path.Join(last, key)
	}
}

// isFile reports whether a path is a file that can be read.
func isFile(name string) bool {
	kind := open.Probe(name)
	return kind != ncurl.Directory && kind != ncurl.Missing && kind != ncurl.NotProbed
}

// openSplit opens the innermost directory or archive in the path arg and returns
// the rest of the path as the key.
func (a *app) openSplit(ctx context.Context, arg string) (*zmap.Map, string, error) {
	url, key := splitStore(arg)
	m, err := open.Store(ctx, url, a.options())
	if err != nil || key == "" {
		return m, key, err
	}
	return requireKey(ctx, m, key)
}

// openPrefix opens a prefix of a bucket or web server. If arg is an object, it opens
// the parent prefix and returns the last segment as the key.
func (a *app) openPrefix(ctx context.Context, arg string, object bool) (*zmap.Map, string, error) {
	o := a.options()
	if !object {
		m, err := open.Store(ctx, arg, o)
		if err == nil && m.Capabilities().List {
			return m, "", nil
		}
		if err == nil {
			var keys []string // for a store that cannot list its keys, such as a web server
			if keys, err = a.documentKeys(ctx, arg, m); err == nil {
				a.warn("the %s store cannot be listed: showing only the documents that its metadata lists, without chunks", m.Name())
				return withListing(m, keys), "", nil
			}
			_ = m.Close(ctx) // the first error is more useful
		}
		if kind := ncerr.KindOf(err); kind != ncerr.ErrNoDataset && kind != ncerr.ErrNotZarr {
			return nil, "", err
		}
		m, key, uerr := a.openPrefix(ctx, arg, true)
		if uerr != nil {
			return nil, "", err
		}
		if !m.Capabilities().List {
			m = withListing(m, []string{key})
		}
		return m, key, nil
	}
	up, key, ok := cutLast(arg)
	if !ok {
		return nil, "", ncerr.Errorf(ncerr.ErrInvalid, "open", ncurl.Masked(arg), "the argument is a store, not a key in a store")
	}
	key, err := url.PathUnescape(key)
	if err != nil {
		return nil, "", ncerr.New(ncerr.ErrBadURL, "open", ncurl.Masked(arg), err)
	}
	o.UseConsolidated = dataset.ConsolidatedIgnore
	m, err := open.Store(ctx, up, o)
	if err != nil {
		return nil, "", err
	}
	return requireKey(ctx, m, key)
}

// requireKey returns m and key if the key exists in m. Otherwise it closes m and
// fails.
func requireKey(ctx context.Context, m *zmap.Map, key string) (*zmap.Map, string, error) {
	there, err := m.Exists(ctx, key)
	if err == nil && !there {
		var names []string
		names, err = m.Search(ctx, key)
		if ncerr.KindOf(err) == ncerr.ErrUnsupported || err == nil && len(names) == 0 {
			err = ncerr.New(ncerr.ErrNotFound, "find", key, nil)
		}
	}
	if err != nil {
		_ = m.Close(ctx) // the first error is more useful
		return nil, "", err
	}
	return m, key, nil
}

// cutLast splits the last segment off the path of a URL or a plain path. up keeps
// the query and the fragment.
func cutLast(arg string) (up, last string, ok bool) {
	base, fragment, hasFragment := strings.Cut(arg, "#")
	query, hasQuery := "", false
	scheme, rest, remote := strings.Cut(base, "://")
	if remote {
		rest, query, hasQuery = strings.Cut(rest, "?")
	} else {
		scheme, rest = "", base
	}
	dir, last := path.Split(strings.TrimRight(rest, "/"))
	if dir = strings.TrimRight(dir, "/"); dir == "" || last == "" {
		return "", "", false
	}
	if remote {
		dir = scheme + "://" + dir
	}
	if hasQuery {
		dir += "?" + query
	}
	if hasFragment {
		dir += "#" + fragment
	}
	return dir, last, true
}

// withListing wraps a store so that listings contain exactly keys, which must be
// sorted.
func withListing(m *zmap.Map, keys []string) *zmap.Map {
	return zmap.New(&listedMap{Map: m.Unwrap(), keys: keys}, &zmap.Options{Name: m.Name(), ReadOnly: true})
}

// documentKeys returns the sorted keys of the metadata documents of a dataset. The keys
// come from consolidated metadata, or else from the nodes of the opened dataset.
func (a *app) documentKeys(ctx context.Context, arg string, m *zmap.Map) ([]string, error) {
	const consolidated = zarr.ConsolidatedDoc
	var keys []string
	body, _, err := m.ReadAll(ctx, consolidated, a.options().Limits.MaxMetadata)
	switch {
	case err == nil:
		nodes, err := zarr.ParseConsolidated(body)
		if err != nil {
			return nil, err
		}
		keys = append(keys, consolidated)
		for node, docs := range nodes {
			for name := range docs {
				keys = append(keys, strings.TrimPrefix(node+"/"+name, "/"))
			}
		}
	case ncerr.KindOf(err) != ncerr.ErrNotFound:
		return nil, err
	default:
		if keys, err = a.nodeKeys(ctx, arg, m); err != nil {
			return nil, err
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// nodeKeys returns the keys of the existing documents of all nodes of a dataset.
func (a *app) nodeKeys(ctx context.Context, arg string, m *zmap.Map) ([]string, error) {
	ds, err := a.open(ctx, arg)
	if err != nil {
		return nil, err
	}
	defer ds.Close(ctx) //nolint:errcheck // the store is only read, so Close cannot lose data
	nodes := []string{""}
	var walk func(g *dataset.Group)
	walk = func(g *dataset.Group) {
		for _, v := range g.Vars() {
			nodes = append(nodes, strings.TrimPrefix(v.Path(), "/")+"/")
		}
		for _, sub := range g.Groups() {
			nodes = append(nodes, strings.TrimPrefix(sub.Path(), "/")+"/")
			walk(sub)
		}
	}
	walk(ds.Root())
	var keys []string
	for _, node := range nodes {
		for _, name := range ds.Layout().NodeDocs() {
			there, err := m.Exists(ctx, node+name)
			if err != nil {
				return nil, err
			}
			if there {
				keys = append(keys, node+name)
			}
		}
	}
	return keys, nil
}

// listedMap is a Map that lists exactly the given keys.
type listedMap struct {
	driver.Map
	keys []string // keys in sorted order
}

// Capabilities returns the capabilities of the wrapped Map and adds unordered listing.
func (n *listedMap) Capabilities() driver.Capabilities {
	c := n.Map.Capabilities()
	c.List, c.RecursiveList, c.OrderedList = true, true, false
	return c
}

// List returns the keys below prefix.
func (n *listedMap) List(_ context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		before := ""
		first, _ := slices.BinarySearch(n.keys, prefix)
		for _, key := range n.keys[first:] {
			rest, below := strings.CutPrefix(key, prefix)
			if !below {
				return
			}
			e := driver.Entry{Key: key, Info: driver.Info{Size: -1}}
			if name, _, deeper := strings.Cut(rest, "/"); deeper && !o.Recursive {
				e = driver.Entry{Key: prefix + name + "/", Prefix: true}
			}
			if e.Key <= o.StartAfter || e.Key == before {
				continue
			}
			if before = e.Key; !yield(e, nil) {
				return
			}
		}
	}
}

// splitStore splits a path into the innermost existing directory or archive and the
// key in it. Any other argument is a store without a key.
func splitStore(arg string) (store, key string) {
	if s := ncurl.Scheme(arg); s != "" && s != "file" {
		return arg, ""
	}
	base, fragment, ok := strings.Cut(arg, "#")
	if ok {
		fragment = "#" + fragment
	}
	scheme := ""
	for _, s := range []string{"file://", "file:"} {
		if rest, ok := strings.CutPrefix(base, s); ok && scheme == "" {
			scheme, base = s, rest
		}
	}
	for at := base; at != "" && at != "." && at != "/"; {
		if p := open.Probe(at); p == ncurl.Directory || p == ncurl.ZipArchive {
			return scheme + at + fragment, key
		}
		dir, last := path.Split(strings.TrimRight(at, "/"))
		key = path.Join(last, key)
		if at = strings.TrimRight(dir, "/"); dir == "" {
			return scheme + "." + fragment, key
		}
	}
	return arg, ""
}
