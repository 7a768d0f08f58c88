package nczarr

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// contents describes what is at the place of a new dataset.
type contents struct {
	there   bool                       // anything
	dataset bool                       // a dataset at its root
	foreign []string                   // what is not part of that dataset
	docs    zarr.Docs                  // that show it
	nodes   map[string]*zarr.ChunkKeys // by their paths; how chunks are named is not looked up
	mounts  []string                   // mount points, which nothing may remove
}

// maxShown is the number of foreign entries that an error lists.
const maxShown = 8

// refuse returns why the contents may not be removed, or nil. Force permits
// everything but mount points, and a dataset if that is to be kept.
func (c *contents) refuse(path string, force, keep bool) error {
	switch {
	case len(c.mounts) > 0:
		return ncerr.Errorf(ncerr.ErrExists, "replace", path, "something is mounted at %q in it: unmount it first", c.mounts[0])
	case force && keep && c.dataset:
		return ncerr.Errorf(ncerr.ErrExists, "create", path, "a dataset is there")
	case force || len(c.foreign) == 0:
		return nil
	}
	what := "something that is not a dataset is there"
	if c.dataset {
		what = "what is there is not all part of the dataset"
	}
	shown := make([]string, 0, maxShown)
	for _, name := range c.foreign[:min(maxShown, len(c.foreign))] {
		shown = append(shown, strconv.Quote(name))
	}
	text := strings.Join(shown, ", ")
	if more := len(c.foreign) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return ncerr.Errorf(ncerr.ErrExists, "create", path, "%s: %s", what, text)
}

// judge sorts out what belongs to a dataset, whose documents it reads.
func (c *contents) judge(ctx context.Context, names []string, workers int, l Limits, read func(key string, limit int64) ([]byte, error)) (err error) {
	if c.docs, err = memberDocs(ctx, names, workers, l, read); err != nil {
		return err
	}
	c.nodes = make(map[string]*zarr.ChunkKeys)
	for _, name := range names {
		if dir, base := splitKey(name); zarr.IsZarrDoc(base) {
			c.nodes[dir] = nil
		}
	}
	foreign, dataset := zarr.Foreign(names, c.docs)
	c.there = c.there || len(names) > 0
	c.dataset = dataset
	c.foreign = append(c.foreign, foreign...)
	slices.Sort(c.foreign)
	return nil
}

// memberDocs reads the documents that show what belongs to a dataset. Those that
// cannot be read for a reason of their own are left out, and so are those beyond
// the limit for all.
func memberDocs(ctx context.Context, names []string, workers int, l Limits, read func(key string, limit int64) ([]byte, error)) (zarr.Docs, error) {
	var mu sync.Mutex
	docs, room := make(zarr.Docs), l.MaxDocuments
	err := each(ctx, zarr.MemberDocs(names), workers, func(key string) error {
		body, err := read(key, l.MaxMetadata)
		if ncerr.KindOf(err) == ncerr.ErrNotFound || ncerr.Lasting(err) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if room -= int64(len(body)); err == nil && room >= 0 {
			docs[key] = body
		}
		return err
	})
	return docs, err
}

// readUpTo reads what r has, and fails with ncerr.ErrLimit if that is more than
// limit bytes. Other errors are those of a damaged document.
func readUpTo(r io.ReadCloser, err error, limit int64) ([]byte, error) {
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(r, limit+1))
		_ = r.Close() // only read
	}
	switch {
	case err != nil:
		return nil, ncerr.New(ncerr.ErrCorrupt, "", "", err)
	case int64(len(body)) > limit:
		return nil, ncerr.ErrLimit
	}
	return body, nil
}

// localContents looks at a file or directory as the system shows it: a driver
// shows only what can be an object.
func localContents(driver, path string, l Limits) (*contents, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &contents{}, nil
	case err != nil:
		return nil, systemError("look at", path, err)
	}
	switch {
	case driver == ncurl.DriverZip && info.Mode().IsRegular():
		return archiveContents(path, info.Size(), l)
	case driver != ncurl.DriverZip && info.IsDir():
		return treeContents(path, l)
	}
	return &contents{there: true, foreign: []string{filepath.Base(path)}}, nil
}

func treeContents(path string, l Limits) (*contents, error) {
	e, err := place.List(path, l.MaxKeys)
	if err != nil {
		return nil, systemError("look at", path, err)
	}
	c := &contents{there: e.All() > 0, foreign: e.Odd, mounts: e.Mounts}
	err = c.judge(context.Background(), e.Names, 1, l, func(key string, limit int64) ([]byte, error) {
		f, err := os.Open(filepath.Join(path, filepath.FromSlash(key)))
		return readUpTo(f, err, limit)
	})
	return c, err
}

// archiveContents looks at a zip archive. One whose members all lie in one
// directory is a dataset if that directory is.
func archiveContents(path string, size int64, l Limits) (*contents, error) {
	c := &contents{there: true}
	if size == 0 {
		return c, nil
	}
	if hasStub(path) {
		c.foreign = append(c.foreign, "data in front of the archive, such as a program that extracts it")
	}
	r, err := zip.OpenReader(path)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		if errors.Is(err, fs.ErrPermission) {
			return nil, systemError("look at", path, err)
		}
		c.foreign = []string{filepath.Base(path)} // it is no archive, or a damaged one
		return c, nil
	}
	defer r.Close() //nolint:errcheck // only read
	var names []string
	files := make(map[string]*zip.File)
	for _, f := range r.File {
		switch {
		case strings.HasSuffix(f.Name, "/"):
		case !f.Mode().IsRegular():
			c.foreign = append(c.foreign, f.Name+" (not a file)")
		default:
			names = append(names, f.Name)
			files[f.Name] = f
		}
	}
	top := ""
	if len(names) > 0 {
		dir, _, _ := strings.Cut(names[0], "/")
		in := func(name string) bool { return strings.HasPrefix(name, dir+"/") }
		if !slices.ContainsFunc(names, func(name string) bool { return !in(name) }) {
			for i, name := range names {
				names[i] = name[len(dir)+1:]
			}
			top = dir + "/"
		}
	}
	err = c.judge(context.Background(), names, 1, l, func(key string, limit int64) ([]byte, error) {
		f, err := files[top+key].Open()
		return readUpTo(f, err, limit)
	})
	return c, err
}

// hasStub reports whether an archive does not begin with a member, or with its end
// if it has none.
func hasStub(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // reading the archive tells
	}
	defer f.Close() // only read
	head := make([]byte, 2)
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) != "PK"
}

// storeContents looks at a store through its driver.
func storeContents(ctx context.Context, m *zmap.Map, l Limits) (*contents, error) {
	names, err := listKeys(ctx, m, "")
	if err != nil {
		return nil, err
	}
	c := &contents{}
	return c, c.judge(ctx, names, movers, l, inStore(ctx, m))
}

// inStore reads documents of a store.
func inStore(ctx context.Context, m *zmap.Map) func(key string, limit int64) ([]byte, error) {
	return func(key string, limit int64) ([]byte, error) {
		body, _, err := m.ReadAll(ctx, key, limit)
		return body, err
	}
}

// warnOfNames tells that an archive which is to be written has other names: each
// writing makes a new file, and they keep the old one.
func warnOfNames(loc *ncurl.Location, opts Options) {
	if loc.Driver != ncurl.DriverZip {
		return
	}
	info, err := os.Stat(filepath.FromSlash(loc.Path))
	if err == nil && info.Mode().IsRegular() && place.Names(info) > 1 {
		opts.Log.Warn("the archive has other names (hard links), which keep the old content", "path", loc.Path, "names", place.Names(info))
	}
}

// systemError gives an error of the system its kind.
func systemError(op, path string, err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) && perr.Path == path {
		err = perr.Err
	}
	switch {
	case ncerr.KindOf(err) != ncerr.ErrIO:
		return err
	case errors.Is(err, place.ErrChanged):
		return ncerr.New(ncerr.ErrConflict, op, path, err)
	case errors.Is(err, fs.ErrPermission):
		return ncerr.New(ncerr.ErrPermission, op, path, err)
	}
	return ncerr.New(ncerr.ErrIO, op, path, err)
}
