package dataset

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// In Zarr v3 the document that identifies a dataset changes with each append. If other
// writers have changed it, and all other documents as well, only an object that no other
// writer changes shows that the dataset was not replaced. After a Flush a writer therefore
// keeps its mark in the store until it is closed, and marks it as idle. An idle mark does
// not concern other writers. Because its name is random, only its writer has put it, and
// it exists only in the dataset into which it was put.

// keepsMark reports whether this writer keeps its mark after a Flush.
func (d *Dataset) keepsMark() bool {
	return d.layout.Format() == 3 && d.replaceable() && d.m.Capabilities().IfMatch
}

// markText returns the content of a mark.
func markText(m *GrowthMark) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInternal, "write", zarr.GrowthMark, err)
	}
	return text, nil
}

// reuseMark makes the idle mark of this writer, if it has one, the mark of a growth with the
// content m. It returns nil if the writer has no mark or its mark was removed. The caller
// holds growth.mu.
func (d *Dataset) reuseMark(ctx context.Context, m *GrowthMark) (*ownMark, error) {
	idle := d.growth.trusted.Load()
	if idle == nil {
		return nil, nil
	}
	m.Writer = idle.key[len(zarr.GrowthMark)+1:]
	mark, err := d.replaceMark(ctx, idle, m)
	if err != nil {
		return nil, err
	}
	if mark == nil {
		m.Writer = rand.Text()
	}
	d.growth.trusted.Store(mark)
	return mark, nil
}

// idleMark marks the mark of this writer as idle, if the writer keeps its mark. The caller
// holds growth.mu.
func (d *Dataset) idleMark(ctx context.Context) (bool, error) {
	mark := d.growth.trusted.Load()
	if mark == nil || mark != d.growth.marked.Load() || !d.keepsMark() {
		return false, nil
	}
	m := newGrowthMark("a writer has the dataset open; it is not extending a dimension")
	m.Writer, m.Idle = mark.key[len(zarr.GrowthMark)+1:], true
	idle, err := d.replaceMark(ctx, mark, m)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported { // the server lacks conditional writes although its driver declares them
		return false, nil
	}
	if err == nil {
		d.growth.trusted.Store(idle)
	}
	return err == nil && idle != nil, err
}

// replaceMark replaces the content of a mark of this writer. It returns nil if the mark was
// removed.
func (d *Dataset) replaceMark(ctx context.Context, mark *ownMark, m *GrowthMark) (*ownMark, error) {
	text, err := markText(m)
	if err != nil {
		return nil, err
	}
	version := mark.info.Version
	for range mergeTries {
		info, err := d.m.Put(ctx, mark.key, driver.Bytes(text), &driver.PutOptions{IfMatch: version})
		if kind := ncerr.KindOf(err); kind != ncerr.ErrConflict && kind != ncerr.ErrNotFound {
			return &ownMark{mark.key, info}, err
		}
		now, info, rerr := d.m.ReadAll(ctx, mark.key, maxMark) // an earlier put may have succeeded although it seemed to fail
		switch {
		case ncerr.KindOf(rerr) == ncerr.ErrNotFound:
			return nil, nil
		case rerr != nil:
			return nil, rerr
		case bytes.Equal(now, text):
			return &ownMark{mark.key, info}, nil
		case info.Version == version:
			return nil, err
		}
		version = info.Version
	}
	return nil, ncerr.Errorf(ncerr.ErrConflict, "write", mark.key, "another process keeps changing the mark of this writer")
}

// dropIdleMark removes the mark of this writer if it is idle, when the dataset is closed.
func (d *Dataset) dropIdleMark(ctx context.Context) error {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	mark := g.trusted.Load()
	if mark == nil || g.marked.Load() != nil {
		return nil
	}
	g.trusted.Store(nil)
	return ncerr.Wrap("close", zarr.GrowthMark, d.m.Delete(ctx, mark.key))
}

// withoutIdle returns the marks that are not idle.
func withoutIdle(marks []GrowthMark) []GrowthMark {
	return slices.DeleteFunc(marks, func(m GrowthMark) bool { return m.Idle })
}
