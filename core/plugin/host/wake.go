package host

import (
	"context"
	"slices"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Wake starts the process that serves a driver or filter, if it has one, so
// that Plugins can tell about it. That of a driver is granted no place of a
// store. A name that nobody has is no error.
func (h *Host) Wake(ctx context.Context, name string) error {
	if !h.isBuiltin(name) {
		for _, kind := range []string{kindDriver, kindFilter} {
			if p, err := h.find(kind, name); err == nil {
				return h.ask(ctx, p)
			}
		}
		return nil
	}
	if h.opts.builtinsInProcess() {
		return nil
	}
	if o, err := h.opts.Builtin.Driver(name); err == nil {
		set, err := h.driverSet(h.self, o.Describe(), driver.OpenSpec{}, false)
		if err != nil {
			return err
		}
		_, err = h.supervisor(h.self, set).acquire(ctx)
		return err
	}
	if _, err := h.opts.Builtin.Filter(name); err == nil {
		set, err := h.filterSet(h.self)
		if err != nil {
			return err
		}
		_, err = h.supervisor(h.self, set).acquire(ctx)
		return err
	}
	return nil
}

// isBuiltin reports whether a driver or filter of that name is built in.
func (h *Host) isBuiltin(name string) bool {
	_, noDriver := h.opts.Builtin.Driver(name)
	_, noFilter := h.opts.Builtin.Filter(name)
	return noDriver == nil || noFilter == nil
}

// Kill kills all processes without notice, as a crash would, and returns when
// they are gone or ctx has ended. The next call starts them again. Deaths does
// not report them. It is for checks of drivers.
func (h *Host) Kill(ctx context.Context) error {
	h.mu.Lock()
	var running []*proc
	for _, s := range h.supervisors {
		if p := s.current(); p != nil {
			running = append(running, p)
		}
	}
	h.mu.Unlock()
	for _, p := range running {
		p.stop(true)
	}
	for _, p := range running {
		select {
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Deaths returns an error for every process that died, or had to be killed,
// without the host having asked it to end.
func (h *Host) Deaths() []error {
	h.deathMu.Lock()
	defer h.deathMu.Unlock()
	return slices.Clone(h.deaths)
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
	s := h.supervisor(h.self, set)
	_ = h.goOwned(func() { _, _ = s.acquire(h.ctx) })
}
