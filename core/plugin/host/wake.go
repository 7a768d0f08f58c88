package host

import (
	"context"
	"slices"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Start starts the process that serves the named driver or filter, so that Plugins has
// details of it. It does nothing if the name is unknown or served in process. The
// process of a driver is granted no store location.
func (h *Host) Start(ctx context.Context, name string) error {
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

// Kill kills all processes, as in a crash, and returns when they are gone or ctx has
// ended. The next call starts them again. Deaths does not report them. Tests of drivers
// use it.
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

// Deaths returns an error for each process that died or had to be killed although the
// host had not stopped it.
func (h *Host) Deaths() []error {
	h.deathMu.Lock()
	defer h.deathMu.Unlock()
	return slices.Clone(h.deaths)
}

// StartFilters starts the process of the built-in filters in the background, if they run in
// one. Calling it before opening a dataset lets that process start at the same time as
// the driver's. Errors are reported by the first call that needs the process.
func (h *Host) StartFilters() {
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
