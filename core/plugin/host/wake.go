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
