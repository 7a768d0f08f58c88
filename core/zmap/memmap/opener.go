package memmap

import (
	"context"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Opener holds stores in memory by name, the Path of an OpenSpec. They live as
// long as the Opener. It is safe for concurrent use; [NewOpener] makes one.
type Opener struct {
	mu     sync.Mutex
	stores map[string]*store
}

var _ driver.Opener = (*Opener)(nil)

// NewOpener makes an Opener without stores.
func NewOpener() *Opener { return &Opener{stores: map[string]*store{}} }

// Describe implements driver.Opener.
func (*Opener) Describe() driver.Description {
	return driver.Description{Name: "mem", Summary: "stores in the memory of this process, by name", Siblings: true}
}

// Open implements driver.Opener. Mode Create puts a new store in place of the
// old one at once; handles on the old one keep it.
func (o *Opener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	if err := o.check(ctx, "open", spec); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stores[spec.Path]
	switch {
	case spec.Mode == driver.CreateExclusive && s != nil:
		return nil, ncerr.New(ncerr.ErrExists, "open", spec.Path, nil)
	case spec.Mode == driver.Create || spec.Mode == driver.CreateExclusive:
		s = newStore()
		o.stores[spec.Path] = s
	case s == nil:
		return nil, ncerr.New(ncerr.ErrNoDataset, "open", spec.Path, nil)
	}
	return &Map{s: s, readOnly: !spec.Mode.Writable()}, nil
}

// Remove implements driver.Opener. Handles on the store keep it.
func (o *Opener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	if err := o.check(ctx, "remove", spec); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stores[spec.Path] == nil {
		return ncerr.New(ncerr.ErrNoDataset, "remove", spec.Path, nil)
	}
	delete(o.stores, spec.Path)
	return nil
}

func (*Opener) check(ctx context.Context, op string, spec driver.OpenSpec) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if spec.Env.Inner != nil {
		return ncerr.Errorf(ncerr.ErrUnsupported, op, spec.Path, "a store in memory has no inner map")
	}
	return driver.DecodeOptions(spec.Options, &struct{}{})
}
