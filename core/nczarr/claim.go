package nczarr

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A place where nothing is can be found by two who make a dataset there: their
// chunks would lie among each other, and the last root document would announce
// the mixture. So who makes a dataset claims the place, and looks at it once
// more after that. A local directory is locked, and the lock ends with the
// process. Other stores get the object claimKey, put on condition that it is
// absent; it goes when the first Flush has made the dataset visible. A stage
// has a name that nobody else uses, and an archive appears in one step.

// making is the claim of a new dataset on its place.
type making struct {
	mu   sync.Mutex
	text []byte      // of the object in the store; nil if there is none
	left bool        // the object may be deleted already, though that failed
	hold *place.Hold // of a local directory
}

// errCame reports that a place is not empty any more.
func errCame(loc *ncurl.Location) error {
	return ncerr.Errorf(ncerr.ErrConflict, "create", loc.Path, "somebody else has made something there meanwhile: try again")
}

// holdEmpty locks a directory in which there is nothing.
func holdEmpty(loc *ncurl.Location, l Limits) (*place.Hold, error) {
	at := filepath.FromSlash(loc.Path)
	h, err := place.NewHold(at)
	switch {
	case errors.Is(err, place.ErrHeld):
		return nil, ncerr.Errorf(ncerr.ErrConflict, "create", at, "another process is making a dataset there: wait until it has ended")
	case errors.Is(err, fs.ErrNotExist) && isDangling(at):
		return nil, ncerr.Errorf(ncerr.ErrExists, "create", at, "a link is there that leads to nothing")
	case errors.Is(err, fs.ErrNotExist):
		return nil, errCame(loc)
	case err != nil:
		return nil, systemError("create", at, err)
	}
	c, err := localContents(loc.Driver, at, l)
	if err == nil && c.there {
		err = errCame(loc)
	}
	if err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// isDangling reports whether a link that leads to nothing is at a path.
func isDangling(path string) bool {
	_, err := os.Stat(path)
	_, lerr := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) && lerr == nil
}

// claimPlace claims the place of a new dataset in a store that is open and
// empty. Stores without conditional writes, and those where nothing is there
// before Flush, cannot be claimed.
func (d *Dataset) claimPlace(ctx context.Context) error {
	caps := d.m.Capabilities()
	if local(d.loc) || !caps.IfAbsent || !caps.List || !caps.Delete || caps.Durable == driver.OnFlush {
		return nil
	}
	text, err := claimText(Claim{About: "a dataset is being made here; nczctl clean removes what there is of it if its process died", Makes: true})
	if err != nil {
		return err
	}
	err = putClaim(ctx, d.m, "create", d.loc, text)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported { // the server knows no conditions, whatever its driver says
		d.log.Warn("the place of the new dataset cannot be claimed: another process may make one there at the same time", "path", d.loc.Path, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	d.making.text = text
	for e, lerr := range d.m.List(ctx, "", nil) { // whoever was here before the claim may have finished
		if err = lerr; err == nil && e.Key != claimKey {
			err = errCame(d.loc)
		}
		if err != nil {
			return alsoFailed(err, d.m.Delete(context.WithoutCancel(ctx), claimKey))
		}
	}
	return nil
}

// putClaim puts a claim where there is none. A put of which the outcome is unknown
// is repeated: nobody else has the same text.
func putClaim(ctx context.Context, m *zmap.Map, op string, loc *ncurl.Location, text []byte) (err error) {
	for range 3 {
		_, err = m.Put(ctx, claimKey, driver.Bytes(text), &driver.PutOptions{IfAbsent: true})
		if ncerr.KindOf(err) != ncerr.ErrAmbiguous {
			break
		}
	}
	if ncerr.KindOf(err) != ncerr.ErrObjectExists {
		return err
	}
	if mine := (&making{text: text}).check(ctx, m); mine == nil {
		return nil
	}
	claim, err := readClaim(ctx, m, claimKey)
	return claimed(op, loc, claim, err)
}

// ownPlace makes sure that the claim is still there: whoever took it away may
// have removed chunks, or be making another dataset.
func (d *Dataset) ownPlace(ctx context.Context, m *zmap.Map) error {
	d.making.mu.Lock()
	defer d.making.mu.Unlock()
	return d.making.check(ctx, m)
}

func (k *making) check(ctx context.Context, m *zmap.Map) error {
	if k.text == nil {
		return nil
	}
	text, _, err := m.ReadAll(ctx, claimKey, maxMark)
	if err == nil && bytes.Equal(text, k.text) {
		return nil
	}
	if kind := ncerr.KindOf(err); err != nil && kind != ncerr.ErrNotFound && kind != ncerr.ErrNoDataset {
		return err
	}
	if err != nil && k.left {
		return nil
	}
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "somebody has taken this process for dead, and has taken the place over while the dataset was being made there")
}

// leavePlace gives the claim up, after a Flush. The claim must have been there
// until now: else chunks may be missing from what is visible.
func (d *Dataset) leavePlace(ctx context.Context) error {
	k := &d.making
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold.Release()
	err := k.check(ctx, d.m)
	if err != nil || k.text == nil {
		return err
	}
	k.left = true
	err = d.m.Delete(ctx, claimKey)
	if ncerr.KindOf(err) == ncerr.ErrPermission { // who may not delete replaces nothing either
		d.log.Warn("the claim on the new dataset cannot be deleted; readers do not mind it", "path", d.loc.Path, "key", claimKey, "error", err)
		err = nil
	}
	if err == nil {
		k.text = nil
		err = d.m.Flush(ctx)
	}
	return err
}

// FindClaim returns the claim on the place that url names, on stores without
// rename, or nil if there is none.
func FindClaim(ctx context.Context, url string, o *Options) (*Claim, error) {
	opts, loc, err := resolve(url, o, false)
	if err != nil || local(loc) {
		return nil, err
	}
	return findClaim(ctx, loc, opts)
}

func findClaim(ctx context.Context, loc *ncurl.Location, opts Options) (*Claim, error) {
	opts.Remote.Cache = nil // what is in the store counts
	ds, err := newDataset(ctx, loc, opts, driver.Read)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer ds.m.Close(ctx) //nolint:errcheck // only read
	claim, err := readClaim(ctx, ds.m, claimKey)
	if claim != nil {
		claim.place = shown(loc)
	}
	return claim, err
}

// RemoveUnfinished removes what a process that died has left of the dataset
// that it was making: its claim, and the objects there if it had not finished.
// Objects that are named like nothing in a dataset stay, and are returned. The
// caller must know that the process is dead: if it lives, its Flush fails. The
// error is of kind ncerr.ErrNotFound if nobody was making a dataset there.
func RemoveUnfinished(ctx context.Context, url string, o *Options) (others []string, err error) {
	opts, loc, err := resolve(url, o, false)
	if err != nil {
		return nil, err
	}
	opts.Remote.Cache = nil // what is in the store counts
	ds, err := newDataset(ctx, loc, opts, driver.Update)
	if err != nil {
		return nil, err
	}
	defer ds.m.Close(ctx) //nolint:errcheck // it has been flushed, or an error told
	claim, err := readClaim(ctx, ds.m, claimKey)
	if err == nil && (claim == nil || !claim.Makes) {
		err = ncerr.Errorf(ncerr.ErrNotFound, "clean", loc.Path, "no dataset is being made here")
	}
	if err != nil {
		return nil, err
	}
	text, err := claimText(Claim{About: "what a dead process has left is being removed; nczctl clean goes on if that has died", Makes: true})
	if err == nil { // with which the Flush of the process fails, should it live
		_, err = ds.m.Put(ctx, claimKey, driver.Bytes(text), nil)
	}
	var ours []string
	if err == nil {
		ours, others, err = ds.unfinished(ctx)
	}
	if err == nil {
		err = each(ctx, ours, movers, func(key string) error { return ds.m.Delete(ctx, key) })
	}
	if err == nil {
		err = ds.m.Delete(ctx, claimKey)
	}
	if err == nil {
		err = ds.m.Flush(ctx)
	}
	return others, err
}

// unfinished sorts the objects at a place where a dataset was being made. If
// its root is there, it is finished, and nothing is to be removed.
func (d *Dataset) unfinished(ctx context.Context) (ours, others []string, err error) {
	for e, err := range d.m.List(ctx, "", &zmap.ListOptions{Recursive: true}) {
		switch {
		case err != nil:
			return nil, nil, err
		case e.Key == claimKey:
		case e.Key == rootGroup, e.Key == ".zarray":
			return nil, nil, nil
		case zarr.IsZarrDoc(path.Base(e.Key)), zarr.IsChunkName(path.Base(e.Key)):
			ours = append(ours, e.Key)
		default:
			others = append(others, e.Key)
		}
	}
	return ours, others, nil
}
