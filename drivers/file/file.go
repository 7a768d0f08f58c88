package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Opener opens directory trees. It has no state.
type Opener struct{}

var _ driver.Opener = Opener{}

// New returns the driver.
func New() driver.Opener { return Opener{} }

// options are the keys of OpenSpec.Options.
type options struct {
	Durability string `json:"durability"`
}

// Describe implements driver.Opener.
func (Opener) Describe() driver.Description {
	return driver.Description{
		Name:    "file",
		Summary: "a directory tree with one file for each object",
		Options: []driver.Option{{
			Name: "durability", Type: "string", Default: "rename",
			Doc: "rename: a finished put survives the death of the process; fsync: it also survives a power failure",
		}},
		Grants:   []string{"path:read", "path:write"},
		Locality: driver.LocalDirectory, Nested: true, Schemes: []string{"file"},
	}
}

// Open implements driver.Opener. The Path of spec is a path of the operating system.
func (o Opener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := o.open(ctx, spec)
	if err != nil {
		return nil, openError("open", spec.Path, err)
	}
	return m, nil
}

func (Opener) open(ctx context.Context, spec driver.OpenSpec) (*Map, error) {
	path, opts, err := check(ctx, spec)
	if err != nil {
		return nil, err
	}
	switch spec.Mode {
	case driver.CreateExclusive:
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		if err := os.Mkdir(path, 0o777); err != nil {
			if errors.Is(err, fs.ErrExist) {
				return nil, ncerr.ErrExists
			}
			return nil, err
		}
	case driver.Create:
		if err := os.MkdirAll(path, 0o777); err != nil {
			return nil, notDirectory(path, err)
		}
	case driver.Read, driver.Update:
	}
	m, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	if spec.Mode == driver.CreateExclusive {
		if err := m.checkNewRoot(); err != nil {
			_ = m.release() // the first error is more useful
			return nil, err
		}
	}
	m.readOnly = !spec.Mode.Writable()
	m.sync = opts.Durability == "fsync"
	if err := m.prepare(ctx, spec.Mode); err != nil {
		_ = m.release() // the first error is more useful
		return nil, err
	}
	return m, nil
}

// checkNewRoot checks that the root is the directory that open created, and not a link
// that replaced it since.
func (m *Map) checkNewRoot() error {
	if now, err := os.Lstat(m.path); err != nil || !os.SameFile(now, m.identity) {
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "another process replaced the new directory")
	}
	return nil
}

// prepare empties the directory for mode Create and detects the properties of the file
// system for all writable modes.
func (m *Map) prepare(ctx context.Context, mode driver.Mode) error {
	switch mode {
	case driver.Create:
		if err := m.wipe(ctx); err != nil {
			return err
		}
		return m.probe()
	case driver.CreateExclusive:
		return m.probe()
	case driver.Update:
		return m.detectFromNames()
	case driver.Read:
	}
	return nil
}

// notDirectory returns ncerr.ErrExists if path exists and is not a directory, and err
// otherwise.
func notDirectory(path string, err error) error {
	if info, e := os.Stat(path); e == nil && !info.IsDir() {
		return ncerr.Errorf(ncerr.ErrExists, "", "", "the path is a file, not a directory")
	}
	return err
}

// check validates spec and returns its absolute path and its options.
func check(ctx context.Context, spec driver.OpenSpec) (string, options, error) {
	opts := options{Durability: "rename"}
	if err := ctx.Err(); err != nil {
		return "", opts, err
	}
	if spec.Path == "" {
		return "", opts, ncerr.Errorf(ncerr.ErrInvalid, "", "", "the path is empty")
	}
	if err := driver.DecodeOptions(spec.Options, &opts); err != nil {
		return "", opts, err
	}
	if opts.Durability != "rename" && opts.Durability != "fsync" {
		return "", opts, ncerr.Errorf(ncerr.ErrInvalid, "", "", "invalid durability %q: must be rename or fsync", opts.Durability)
	}
	path, err := filepath.Abs(spec.Path)
	return path, opts, err
}

// Remove implements driver.Opener. If the root is a symbolic link, Remove deletes both
// the directory and the link.
func (Opener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	path, _, err := check(ctx, spec)
	if err == nil {
		err = remove(ctx, path)
	}
	if err != nil {
		return openError("remove", spec.Path, err)
	}
	return nil
}

func remove(ctx context.Context, path string) error {
	m, err := openRoot(path)
	if err != nil {
		return err
	}
	err = m.wipe(ctx)
	_ = m.release() // the first error is more useful
	if err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if err := os.Remove(target); err != nil || target == path {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSymlink {
		return os.Remove(path)
	}
	return nil
}

// openRoot opens an existing directory.
func openRoot(path string) (*Map, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil && missing(err) || err == nil && !info.IsDir():
		return nil, ncerr.New(ncerr.ErrNoDataset, "", "", plain(err, "the path is not a directory"))
	case err != nil:
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	m := &Map{root: root, path: path}
	if m.dir, err = root.Open("."); err == nil {
		m.identity, err = m.dir.Stat()
	}
	if err != nil {
		_ = m.release() // the first error is more useful
		return nil, err
	}
	return m, nil
}

// openError returns err with its kind, the operation and the path of the store.
func openError(op, path string, err error) error {
	err = classify(err)
	if ncerr.IsContext(err) {
		return err
	}
	var e *ncerr.Error
	if errors.As(err, &e) {
		c := *e
		c.Op, c.Key = op, path
		return &c
	}
	return ncerr.New(ncerr.KindOf(err), op, path, nil)
}
