package memmap

import (
	"context"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Opener holds stores in memory by name, which is the Path of an OpenSpec. The stores
// live as long as the Opener. Opener is safe for concurrent use. Use [NewOpener] to
// create one.
type Opener struct {
	mu     sync.Mutex
	stores map[string]*store
}

var _ driver.Opener = (*Opener)(nil)

// NewOpener returns an Opener without stores.
func NewOpener() *Opener { return &Opener{stores: map[string]*store{}} }

// Describe implements driver.Opener.
func (*Opener) Describe() driver.Description {
	return driver.Description{Name: "mem", Summary: "named stores in the memory of this process", Siblings: true, Schemes: []string{"mem"}}
}

// Open implements driver.Opener. Mode Create replaces an existing store immediately; open
// handles keep using the old store.
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

// Remove implements driver.Opener. Open handles keep using the store.
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
	return driver.DecodeOptions(spec.Options, &struct{}{})
}
