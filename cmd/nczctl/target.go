package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// target is a dataset in the making. One that replaces a directory or an
// archive is made beside it, in a hidden directory with all that its making
// needs, and takes its place when it is whole; until then what was there
// before stays as it is.
type target struct {
	*nczarr.Dataset
	stageDir, staged, final string // paths; all empty when nothing is replaced
}

// create makes a new dataset.
func (a *app) create(ctx context.Context, f *createFlags, url string) (*target, error) {
	strs, ok := stringStorages[f.strings]
	if !ok {
		return nil, &usageError{fmt.Errorf("--strings %s: want auto, fixed or vlen", f.strings)}
	}
	s, err := a.start(ctx, url)
	if err != nil {
		return nil, err
	}
	t := &target{}
	at := url
	if f.overwrite || f.force {
		if at, err = t.stage(ctx, a, url, f.force); err != nil {
			return nil, f.hint(err)
		}
	}
	t.Dataset, err = nczarr.Create(ctx, at, &nczarr.CreateOptions{
		Options: *s.options(a), NoClobber: !f.overwrite && !f.force, Force: f.force, Consolidated: f.consolidated,
		Layout: f.layout.layout, NoXarray: f.layout.noXarray, Strings: strs,
	})
	if err != nil {
		return nil, t.discard(f.hint(err))
	}
	return t, nil
}

// hint points to the flags that would have helped.
func (f *createFlags) hint(err error) error {
	if ncerr.KindOf(err) != ncerr.ErrExists || f.force {
		return err
	}
	return fmt.Errorf("%w (see --overwrite and --force)", err)
}

// stage finds out whether url names a directory or an archive that is there
// and may be replaced, and gives the URL of the place to make the new one at.
func (t *target) stage(ctx context.Context, a *app, url string, force bool) (string, error) {
	loc, err := a.locate(url, true)
	if err != nil || loc.Driver != ncurl.DriverFile && loc.Driver != ncurl.DriverZip {
		return url, err
	}
	real, err := filepath.EvalSymlinks(loc.Path)
	if err != nil { // nothing is there: nothing can be lost
		return url, nil
	}
	if !force {
		if err := a.mayReplace(ctx, url, real); err != nil {
			return "", err
		}
	}
	sweepStaged(filepath.Dir(real), filepath.Base(real))
	dir := filepath.Join(filepath.Dir(real), stagePrefix+stageOwner()+"."+rand.Text()[:8]+"-"+filepath.Base(real))
	staged := filepath.Join(dir, filepath.Base(real))
	at := staged
	if _, fragment, ok := strings.Cut(url, "#"); ok {
		at += "#" + fragment
	}
	if again, err := a.locate(at, true); err != nil || again.Path != filepath.ToSlash(staged) || again.Driver != loc.Driver {
		return "", ncerr.Errorf(ncerr.ErrUnsupported, "create", loc.Path, "a dataset at a path of this form cannot be replaced in one step: remove it first")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", &inputError{"replace", real, err}
	}
	t.stageDir, t.staged, t.final = dir, staged, real
	return at, nil
}

// mayReplace refuses what is no dataset.
func (a *app) mayReplace(ctx context.Context, url, path string) error {
	m, err := nczarr.OpenStore(ctx, url, a.session.options(a))
	if ncerr.IsContext(err) {
		return err
	}
	if err == nil {
		defer m.Close(ctx) //nolint:errcheck // only read
		var names []string
		if names, err = m.Search(ctx, ""); err == nil {
			for _, n := range names {
				if zarr.IsZarrDoc(n) {
					return nil
				}
			}
			if len(names) == 0 {
				return nil
			}
		}
	}
	if err != nil && ncerr.KindOf(err) != ncerr.ErrCorrupt && ncerr.KindOf(err) != ncerr.ErrNotZarr && ncerr.KindOf(err) != ncerr.ErrNoDataset {
		return err
	}
	return ncerr.Errorf(ncerr.ErrExists, "create", path, "something that is no dataset is there")
}

// locate infers what a URL means.
func (a *app) locate(url string, create bool) (*ncurl.Location, error) {
	env := *a.session.urlEnv
	env.Create, env.Probe = create, nczarr.Probe
	return ncurl.Parse(url, &env)
}

// finish makes the dataset whole and puts it where it belongs; when that
// fails nothing of it stays, and what was there before does.
func (t *target) finish(ctx context.Context) error {
	if err := t.Close(ctx); err != nil {
		return t.discard(err)
	}
	if t.final == "" {
		return nil
	}
	if err := t.replace(); err != nil {
		return t.discard(&inputError{"replace", t.final, err})
	}
	return os.RemoveAll(t.stageDir) // with the old one in it, by now
}

// abort drops the dataset, which could not be finished because of err.
func (t *target) abort(ctx context.Context, err error) error {
	if aerr := t.Abort(context.WithoutCancel(ctx)); aerr != nil {
		return fmt.Errorf("%w (and cleaning up failed: %w)", err, aerr)
	}
	return t.discard(err)
}

// discard removes a staged dataset.
func (t *target) discard(err error) error {
	if t.stageDir == "" {
		return err
	}
	if rerr := os.RemoveAll(t.stageDir); rerr != nil {
		return fmt.Errorf("%w (and cleaning up failed: %w)", err, rerr)
	}
	return err
}

// replace puts what is staged into the place of what is there already, which
// goes to the place of what was staged.
func (t *target) replace() error {
	err := exchange(t.staged, t.final)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	old := t.stageDir + ".old" // nobody sweeps it, if it comes to that
	if err = os.Rename(t.final, old); err != nil {
		return err
	}
	if err = os.Rename(t.staged, t.final); err != nil {
		return errors.Join(err, os.Rename(old, t.final))
	}
	return os.Rename(old, t.staged)
}

// checkApart refuses to copy a local dataset onto itself or into itself.
func (a *app) checkApart(src *nczarr.Dataset, to string) error {
	dst, err := a.locate(to, true)
	if err != nil {
		return err
	}
	local := func(l *ncurl.Location) bool { return l.Driver == ncurl.DriverFile || l.Driver == ncurl.DriverZip }
	from := src.Location()
	if !local(from) || !local(dst) {
		return nil
	}
	root, err := os.Stat(from.Path)
	if err != nil {
		return &inputError{"open", from.Path, err}
	}
	for at := filepath.Clean(dst.Path); ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, root) {
			if at == filepath.Clean(dst.Path) {
				return ncerr.Errorf(ncerr.ErrInvalid, "copy", from.Path, "source and destination are the same")
			}
			return ncerr.Errorf(ncerr.ErrInvalid, "copy", from.Path, "the destination %q is inside the source", dst.Path)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
