package host

import (
	"context"
	"slices"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Start starts the process that serves the named driver or filter, so that Plugins
// describes the process. It does nothing if the name is unknown or served in process.
// It does not grant a driver's process access to any store location.
func (h *Host) Start(ctx context.Context, name string) error {
	if !h.isBuiltin(name) {
		for _, kind := range []string{kindDriver, kindFilter} {
			if p, err := h.find(kind, name); err == nil {
				return h.describeProgram(ctx, p)
			}
		}
		return nil
	}
	if h.opts.builtinsInProcess() {
		return nil
	}
	if o, err := h.builtin.Driver(name); err == nil {
		set, err := h.driverSet(h.self, o.Describe(), driver.OpenSpec{}, false)
		if err != nil {
			return err
		}
		_, err = h.supervisor(h.self, set).acquire(ctx)
		return err
	}
	if _, err := h.builtin.Filter(name); err == nil {
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
	_, noDriver := h.builtin.Driver(name)
	_, noFilter := h.builtin.Filter(name)
	return noDriver == nil || noFilter == nil
}

// Kill kills all processes, as in a crash, and returns when they are dead or ctx has
// ended. A later call starts a process again. Deaths does not report these processes.
// Kill is for tests of drivers.
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

// Deaths returns an error for each process that died on its own, or that the host
// killed because it hung or violated the protocol.
func (h *Host) Deaths() []error {
	h.deathMu.Lock()
	defer h.deathMu.Unlock()
	return slices.Clone(h.deaths)
}

// StartFilters starts the process of the built-in filters in the background, unless
// they run in process. A caller that is about to open a dataset uses it to start the
// processes of the driver and of the filters concurrently. If the start fails, the first
// call that needs the process reports the error.
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
