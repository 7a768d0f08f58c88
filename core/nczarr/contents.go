package nczarr

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// contents describes what is at the place of a new dataset.
type contents struct {
	there   bool     // anything
	dataset bool     // a dataset at its root
	foreign []string // what is not part of that dataset
	mounts  []string // mount points, which nothing may remove
}

// maxShown is the number of foreign entries that an error lists.
const maxShown = 8

// refuse returns why the contents may not be removed, or nil. Force permits
// everything but mount points.
func (c *contents) refuse(path string, force bool) error {
	switch {
	case len(c.mounts) > 0:
		return ncerr.Errorf(ncerr.ErrExists, "replace", path, "something is mounted at %q in it: unmount it first", c.mounts[0])
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

// judge sorts out what belongs to a dataset. The error wraps those of refuse.
func (c *contents) judge(names []string) {
	foreign, dataset := zarr.Foreign(names)
	c.there = c.there || len(names) > 0
	c.dataset = dataset
	c.foreign = append(c.foreign, foreign...)
	slices.Sort(c.foreign)
}

// localContents looks at a file or directory as the system shows it: a driver
// shows only what can be an object.
func localContents(driver, path string, limit int) (*contents, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &contents{}, nil
	case err != nil:
		return nil, systemError("look at", path, err)
	}
	switch {
	case driver == ncurl.DriverZip && info.Mode().IsRegular():
		return archiveContents(path, info.Size())
	case driver != ncurl.DriverZip && info.IsDir():
		return treeContents(path, limit)
	}
	return &contents{there: true, foreign: []string{filepath.Base(path)}}, nil
}

func treeContents(path string, limit int) (*contents, error) {
	e, err := place.List(path, limit)
	if err != nil {
		return nil, systemError("look at", path, err)
	}
	c := &contents{there: e.All() > 0, foreign: e.Odd, mounts: e.Mounts}
	c.judge(e.Names)
	return c, nil
}

// archiveContents looks at a zip archive. One whose members all lie in one
// directory is a dataset if that directory is.
func archiveContents(path string, size int64) (*contents, error) {
	c := &contents{there: true}
	if size == 0 {
		return c, nil
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
	for _, f := range r.File {
		switch {
		case strings.HasSuffix(f.Name, "/"):
		case !f.Mode().IsRegular():
			c.foreign = append(c.foreign, f.Name+" (not a file)")
		default:
			names = append(names, f.Name)
		}
	}
	if len(names) > 0 {
		dir, _, _ := strings.Cut(names[0], "/")
		in := func(name string) bool { return strings.HasPrefix(name, dir+"/") }
		if !slices.ContainsFunc(names, func(name string) bool { return !in(name) }) {
			for i, name := range names {
				names[i] = name[len(dir)+1:]
			}
		}
	}
	c.judge(names)
	return c, nil
}

// storeContents looks at a store through its driver.
func storeContents(ctx context.Context, m *zmap.Map, limit int) (*contents, error) {
	var names []string
	for e, err := range m.List(ctx, "", &zmap.ListOptions{Recursive: true}) {
		if err != nil {
			return nil, err
		}
		if len(names) >= limit {
			return nil, ncerr.Errorf(ncerr.ErrLimit, "look at", "", "more than %d objects", limit)
		}
		names = append(names, e.Key)
	}
	c := &contents{}
	c.judge(names)
	return c, nil
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
