package host

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// opener opens stores of one driver in plugin processes.
type opener struct {
	h       *Host
	program *program
	desc    driver.Description
}

var _ driver.Opener = (*opener)(nil)

// Describe implements driver.Opener. It starts the plugin if the plugin has not described
// itself yet. If the start fails, Describe sets only the name, and Open returns the error.
func (o *opener) Describe() driver.Description {
	desc, _ := o.DescribeContext(o.h.ctx) // Open returns the error
	return desc
}

// DescribeContext is like Describe, but returns the error, and stops waiting for the start
// when ctx ends. core/store calls it.
func (o *opener) DescribeContext(ctx context.Context) (driver.Description, error) {
	if o.program.builtin {
		return o.desc, nil
	}
	var err error
	if !o.program.isKnown() {
		err = o.h.describeProgram(ctx, o.program)
	}
	return o.program.driver(o.desc.Name), err
}

func (p *program) isKnown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// supervisor returns the supervisor of the process for a store. The process has only
// the grants that the store needs. The caller must call leave on the supervisor.
func (o *opener) supervisor(ctx context.Context, spec driver.OpenSpec, remove bool) (*supervisor, error) {
	desc, err := o.DescribeContext(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil { // without a description the required grants are unknown
		return nil, err
	}
	set, err := o.h.driverSet(o.program, desc, spec, remove)
	if err != nil {
		return nil, ncerr.Wrap("open", spec.Path, err)
	}
	return o.h.hold(o.program, set), nil
}

// prepare merges the configured default options into a spec.
func (o *opener) prepare(op string, spec driver.OpenSpec) (driver.OpenSpec, error) {
	var err error
	if spec.Options, err = mergeOptions(o.h.opts.Defaults[o.desc.Name], spec.Options); err != nil {
		return spec, ncerr.New(ncerr.ErrInvalid, op, spec.Path, err)
	}
	return spec, nil
}

// mergeOptions merges two JSON objects. Members of over take precedence.
func mergeOptions(under, over []byte) ([]byte, error) {
	switch {
	case len(bytes.TrimSpace(under)) == 0:
		return over, nil
	case len(bytes.TrimSpace(over)) == 0:
		return under, nil
	}
	merged := map[string]json.RawMessage{}
	for _, doc := range [][]byte{under, over} {
		if err := json.Unmarshal(doc, &merged); err != nil {
			return nil, err
		}
	}
	return json.Marshal(merged)
}

// Open implements driver.Opener.
func (o *opener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	spec, err := o.prepare("open", spec)
	if err != nil {
		return nil, err
	}
	s, err := o.supervisor(ctx, spec, false)
	if err != nil {
		return nil, err
	}
	m := &remoteMap{supervisor: s, driver: o.desc.Name, spec: spec, opening: newGate()}
	for attempt := 0; ; attempt++ {
		_, err = m.open(ctx, spec.Mode)
		if err == nil {
			return m, nil
		}
		lost, again := isLost(err)
		if lost && spec.Mode == driver.CreateExclusive {
			s.leave()
			return nil, ncerr.New(ncerr.ErrAmbiguous, "open", spec.Path, err)
		}
		if attempt > 0 || !again {
			s.leave()
			return nil, err
		}
	}
}

// Remove implements driver.Opener. It does not repeat the call if the process dies,
// because the store may be partly removed.
func (o *opener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	spec, err := o.prepare("remove", spec)
	if err != nil {
		return err
	}
	s, err := o.supervisor(ctx, spec, true)
	if err != nil {
		return err
	}
	defer s.leave()
	p, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	w := p.watch(ctx).allowWhileAlive()
	defer w.end()
	_, err = p.driver.Remove(w.ctx, wire.OpenToWire(o.desc.Name, spec))
	err = w.fail(ctx, err)
	if lost, _ := isLost(err); lost {
		return ncerr.New(ncerr.ErrAmbiguous, "remove", spec.Path, err)
	}
	return err
}

// open opens the store in the running process and returns the session. The process may
// die before the session is used.
func (m *remoteMap) open(ctx context.Context, mode driver.Mode) (*session, error) {
	p, err := m.supervisor.acquire(ctx)
	if err != nil {
		return nil, err
	}
	spec := m.spec
	spec.Mode = mode
	w := p.watch(ctx)
	defer w.end()
	if mode == driver.Create {
		w.allowWhileAlive() // the driver may have to delete many objects
	}
	req := wire.OpenToWire(m.driver, spec)
	req.Token = p.tokens.Add(1)
	r, err := p.driver.Open(w.ctx, req)
	if err := w.fail(ctx, err); err != nil {
		if ncerr.IsContext(err) {
			p.closeToken(req.GetToken())
		}
		return nil, err
	}
	caps := wire.CapabilitiesFromWire(r.GetCapabilities())
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opened && caps != m.caps {
		return nil, p.killBroken(ncerr.Errorf(ncerr.ErrPlugin, "", "", "the capabilities of the store changed when it was reopened"))
	}
	if !m.opened {
		m.opened, m.caps = true, caps
		if caps.Durable == driver.OnFlush && (mode == driver.Create || mode == driver.CreateExclusive) {
			m.written = 1 // the effects of Create are not durable until a Flush
		}
	}
	m.sess = &session{p: p, handle: r.GetHandle(), lends: r.GetLends() && m.mayLend(p), putsMany: r.GetPutsMany()}
	return m.sess, m.failed
}

// mayLend reports whether the plugin may lend open files to the host. Only built-in
// drivers may, because reading a file chosen by a third-party plugin may block forever.
func (m *remoteMap) mayLend(p *proc) bool {
	return p.level > 0 && p.supervisor.program.builtin && !m.supervisor.host.opts.NoLending
}
