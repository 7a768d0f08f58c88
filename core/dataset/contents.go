package dataset

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
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// contents describes what exists at the location of a new dataset.
type contents struct {
	exists  bool                       // anything exists
	dataset bool                       // a dataset exists at the root
	foreign []string                   // entries that are not part of that dataset
	docs    zarr.Docs                  // documents that identify the dataset's objects
	nodes   map[string]*zarr.ChunkKeys // nodes by path; the values are nil
	mounts  []string                   // mount points, which are never removed
}

// maxShown is the maximum number of foreign entries that an error lists.
const maxShown = 8

// refuse returns the reason why the contents may not be removed, or nil. If force is set,
// it refuses only mount points and, if keep is set as well, a dataset.
func (c *contents) refuse(path string, force, keep bool) error {
	switch {
	case len(c.mounts) > 0:
		return ncerr.Errorf(ncerr.ErrExists, "replace", path, "a file system is mounted at %q in this directory; unmount that file system first", c.mounts[0])
	case force && keep && c.dataset:
		return ncerr.Errorf(ncerr.ErrExists, "create", path, "the location contains a dataset")
	case force || len(c.foreign) == 0:
		return nil
	}
	what := "the location contains something other than a dataset"
	if c.dataset {
		what = "the location contains entries that are not part of the dataset"
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

// classify determines which of the names belong to a dataset. It calls read to read the
// documents of the dataset.
func (c *contents) classify(ctx context.Context, names []string, workers int, l Limits, read func(key string, limit int64) ([]byte, error)) (err error) {
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
	c.exists = c.exists || len(names) > 0
	c.dataset = dataset
	c.foreign = append(c.foreign, foreign...)
	slices.Sort(c.foreign)
	return nil
}

// memberDocs reads the documents that show which objects belong to a dataset. It omits
// documents that are absent, that permanently cannot be read, or that exceed the total
// limit.
func memberDocs(ctx context.Context, names []string, workers int, l Limits, read func(key string, limit int64) ([]byte, error)) (zarr.Docs, error) {
	var mu sync.Mutex
	docs, remaining := make(zarr.Docs), l.MaxDocuments
	err := each(ctx, zarr.MemberDocs(names), workers, func(key string) error {
		body, err := read(key, l.MaxMetadata)
		if ncerr.KindOf(err) == ncerr.ErrNotFound || ncerr.IsPerObject(err) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if remaining -= int64(len(body)); err == nil && remaining >= 0 {
			docs[key] = body
		}
		return err
	})
	return docs, err
}

// readUpTo reads r to its end and closes it. It fails with ncerr.ErrLimit if r has more
// than limit bytes, and with ncerr.ErrCorrupt on any other error. err is the error of
// opening r, if any.
func readUpTo(r io.ReadCloser, err error, limit int64) ([]byte, error) {
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(r, limit+1))
		_ = r.Close() // opened for reading only
	}
	switch {
	case err != nil:
		return nil, ncerr.New(ncerr.ErrCorrupt, "", "", err)
	case int64(len(body)) > limit:
		return nil, ncerr.ErrLimit
	}
	return body, nil
}

// localContents examines a file or directory with system calls, because a driver lists
// only entries that can be objects.
func localContents(locality driver.Locality, path string, l Limits) (*contents, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &contents{}, nil
	case err != nil:
		return nil, systemError("examine", path, err)
	}
	switch {
	case locality == driver.LocalArchive && info.Mode().IsRegular():
		return archiveContents(path, info.Size(), l)
	case locality == driver.LocalDirectory && info.IsDir():
		return treeContents(path, l)
	}
	return &contents{exists: true, foreign: []string{filepath.Base(path)}}, nil
}

func treeContents(path string, l Limits) (*contents, error) {
	e, err := place.List(path, l.MaxKeys)
	if err != nil {
		return nil, systemError("examine", path, err)
	}
	c := &contents{exists: e.All() > 0, foreign: e.Special, mounts: e.Mounts}
	err = c.classify(context.Background(), e.Names, 1, l, func(key string, limit int64) ([]byte, error) {
		f, err := os.Open(filepath.Join(path, filepath.FromSlash(key)))
		return readUpTo(f, err, limit)
	})
	return c, err
}

// archiveContents examines a zip archive. If all members are in one directory, it
// examines that directory as the root.
func archiveContents(path string, size int64, l Limits) (*contents, error) {
	c := &contents{exists: true}
	if size == 0 {
		return c, nil
	}
	if hasStub(path) {
		c.foreign = append(c.foreign, "data before the archive, such as a self-extracting program")
	}
	r, err := zip.OpenReader(path)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		if errors.Is(err, fs.ErrPermission) {
			return nil, systemError("examine", path, err)
		}
		c.foreign = []string{filepath.Base(path)} // not an archive, or a damaged one
		return c, nil
	}
	defer r.Close() //nolint:errcheck // opened for reading only
	var names []string
	files := make(map[string]*zip.File)
	for _, f := range r.File {
		switch {
		case strings.HasSuffix(f.Name, "/"):
		case !f.Mode().IsRegular():
			c.foreign = append(c.foreign, f.Name+" (not a regular file)")
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
	err = c.classify(context.Background(), names, 1, l, func(key string, limit int64) ([]byte, error) {
		f, err := files[top+key].Open()
		return readUpTo(f, err, limit)
	})
	return c, err
}

// hasStub reports whether an archive begins with data other than a member or, if the
// archive is empty, the end record.
func hasStub(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // reading the archive reports the error
	}
	defer f.Close() // opened for reading only
	head := make([]byte, 2)
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) != "PK"
}

// storeContents examines a store through its driver.
func storeContents(ctx context.Context, m *zmap.Map, l Limits) (*contents, error) {
	names, err := listKeys(ctx, m, "")
	if err != nil {
		return nil, err
	}
	c := &contents{}
	return c, c.classify(ctx, names, storeConcurrency, l, storeReader(ctx, m))
}

// storeReader returns a function that reads documents of a store.
func storeReader(ctx context.Context, m *zmap.Map) func(key string, limit int64) ([]byte, error) {
	return func(key string, limit int64) ([]byte, error) {
		body, _, err := m.ReadAll(ctx, key, limit)
		return body, err
	}
}

// warnHardLinks warns if an archive opened for writing has other hard links. Each write
// creates a new file, and the other links keep referring to the old one.
func warnHardLinks(ctx context.Context, loc *ncurl.Location, opts Options) {
	if store.Describe(ctx, opts.Registry, loc).Locality != driver.LocalArchive {
		return
	}
	info, err := os.Stat(filepath.FromSlash(loc.Path))
	if err == nil && info.Mode().IsRegular() && place.LinkCount(info) > 1 {
		opts.Log.Warn("the archive has other hard links, which keep the old content", "path", loc.Path, "names", place.LinkCount(info))
	}
}

// systemError returns err with the error kind that corresponds to it.
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
