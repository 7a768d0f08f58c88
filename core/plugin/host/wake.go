package host

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Wake starts the process that serves a built-in driver or filter, if it has
// one, so that Plugins can tell about it. That of a driver is granted no
// place. Names that are not built in are left alone; Discover starts plugins.
func (h *Host) Wake(ctx context.Context, name string) error {
	if h.opts.builtinsInProcess() {
		return nil
	}
	if o, err := h.opts.Builtin.Driver(name); err == nil {
		set, err := h.driverSet(h.self, o.Describe(), driver.OpenSpec{}, false)
		if err != nil {
			return err
		}
		_, err = h.slot(h.self, set).acquire(ctx)
		return err
	}
	if _, err := h.opts.Builtin.Filter(name); err == nil {
		set, err := h.filterSet(h.self)
		if err != nil {
			return err
		}
		_, err = h.slot(h.self, set).acquire(ctx)
		return err
	}
	return nil
}

// Warm begins to start the process that serves the built-in filters, if it has
// one, and does not wait for it. Who is about to open a dataset saves the time
// in which the process of the driver starts and the other would only follow.
// What goes wrong is told by the call that needs the process.
func (h *Host) Warm() {
	if h.opts.builtinsInProcess() {
		return
	}
	set, err := h.filterSet(h.self)
	if err != nil {
		return
	}
	s := h.slot(h.self, set)
	_ = h.goOwned(func() { _, _ = s.acquire(h.ctx) })
}
