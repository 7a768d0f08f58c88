package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/codecsuite"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// testBed runs the checks of one driver or filter, the subject. Each check has its own
// host and thus its own processes, so a process that crashes or hangs affects only its
// check. The hosts share the plugins of the session's host.
type testBed struct {
	a        *app
	name     string
	opts     host.Options
	isolated bool // the subject runs in separate processes
	builtin  bool
	subject  conformance.Subject
	timeout  time.Duration
	failed   error // errors from writing the report
}

// newTestBed returns a testBed for the driver or filter name. It starts the subject
// once to identify it.
func (a *app) newTestBed(ctx context.Context, f *conformanceFlags, name string) (*testBed, error) {
	s := a.session
	opts := s.HostOptions()
	opts.MaxRestarts, opts.Poison, opts.PluginsOf = 0, true, s.Host()
	if !opts.Logger.Enabled(ctx, slog.LevelDebug) { // the report describes failures of processes
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &testBed{a: a, name: name, opts: *opts, timeout: f.timeout, builtin: true}
	if err := s.Host().Start(ctx, name); err != nil {
		return nil, err
	}
	for _, p := range s.Host().Plugins() {
		if p.Path != "" && (slices.Contains(p.Drivers, name) || slices.Contains(p.Filters, name)) {
			b.builtin, b.subject = false, conformance.Subject{Path: p.Path, Version: p.Version, SHA256: p.SHA256}
		}
	}
	b.isolated = !b.builtin || opts.Isolation == host.Process || opts.Isolation == host.Auto && runtime.GOOS == "linux"
	var err error
	if b.builtin {
		b.subject, err = ownSubject()
	}
	return b, err
}

// ownSubject describes the running program.
func ownSubject() (conformance.Subject, error) {
	path, err := os.Executable()
	if err != nil {
		return conformance.Subject{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return conformance.Subject{}, err
	}
	defer f.Close() // opened for reading
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return conformance.Subject{}, err
	}
	return conformance.Subject{Path: path, Version: version, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// stop closes a host, which kills processes that hang.
func (b *testBed) stop(ctx context.Context, h *host.Host) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := h.Close(end); err != nil {
		b.a.warn("%v", err)
	}
}

// begin returns a host for a check. The check fails if a process dies during it.
func (b *testBed) begin(t conformance.T) (*host.Host, error) {
	h, err := host.New(&b.opts)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		b.stop(t.Context(), h) // Deaths is complete once the host is closed
		for _, death := range h.Deaths() {
			t.Errorf("a process died during this check: %v", death)
		}
	})
	return h, nil
}

// remove removes the store of a check if it exists.
func (b *testBed) remove(ctx context.Context, o driver.Opener, spec driver.OpenSpec) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
	defer cancel()
	_ = o.Remove(end, spec) // most checks have removed their store
}

// usage returns a function that measures the resources of a host's processes.
func usage(h *host.Host) func() (conformance.Usage, error) {
	return func() (conformance.Usage, error) {
		var u conformance.Usage
		if _, err := os.Stat("/proc/self/statm"); err != nil {
			return u, err
		}
		for _, p := range h.Plugins() {
			if p.PID == 0 {
				continue
			}
			dir := filepath.Join("/proc", strconv.Itoa(p.PID))
			open, err := os.ReadDir(filepath.Join(dir, "fd"))
			statm, e := os.ReadFile(filepath.Join(dir, "statm"))
			if err = errors.Join(err, e); errors.Is(err, os.ErrNotExist) {
				continue // the process has ended
			} else if err != nil {
				return u, err
			}
			u.Descriptors += len(open)
			u.CPU += conformance.CPUTime(p.PID)
			if n := conformance.BytesRead(p.PID); n < 0 || u.Read < 0 {
				u.Read = -1
			} else {
				u.Read += n
			}
			if fields := bytes.Fields(statm); len(fields) > 1 {
				pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
				if err != nil {
					return u, err
				}
				u.Memory += pages * int64(os.Getpagesize())
			}
		}
		return u, nil
	}
}

// options returns the options of a run. With these options, the run prints text results
// as they arrive.
func (b *testBed) options(f *conformanceFlags) *conformance.Options {
	o := &conformance.Options{
		Select: f.run, Seed: f.seed, Effort: efforts[f.effort], Limit: f.timeout, Tool: "nczctl " + version, Subject: b.subject,
	}
	if !b.a.asJSON(f) {
		o.Begin = func(r *conformance.Report) { b.note(r.WriteHead(b.a.out), b.a.flush()) }
		o.Progress = func(x conformance.Result) {
			if !strings.HasPrefix(x.Message, "not run") {
				b.note(x.WriteText(b.a.out), b.a.flush())
			}
		}
	}
	return o
}

func (b *testBed) note(errs ...error) { b.failed = errors.Join(append(errs, b.failed)...) }

func (a *app) asJSON(f *conformanceFlags) bool { return f.report == "json" || a.flags.json }

// report writes the end of the report and reports whether the subject passed.
func (b *testBed) report(f *conformanceFlags, r *conformance.Report) (bool, error) {
	if b.a.asJSON(f) {
		return r.OK(), r.WriteJSON(b.a.out)
	}
	return r.OK(), errors.Join(b.failed, r.WriteVerdict(b.a.out))
}

// checkedDriver is a driver under test.
type checkedDriver struct {
	b       *testBed
	damages func(context.Context, driver.OpenSpec) error
	specs   func(driver.Opener) func() (driver.OpenSpec, func(), error)
}

var _ conformance.Target[*mapsuite.Env] = (*checkedDriver)(nil)

// TargetName implements conformance.Target.
func (d *checkedDriver) TargetName() string { return d.b.name }

// TargetCapabilities implements conformance.Target.
func (d *checkedDriver) TargetCapabilities(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.b.timeout)
	defer cancel()
	h, err := host.New(&d.b.opts)
	if err != nil {
		return nil, err
	}
	defer d.b.stop(ctx, h)
	target, err := d.target(ctx, h)
	if err != nil {
		return nil, err
	}
	return target.TargetCapabilities(ctx)
}

// New implements conformance.Target.
func (d *checkedDriver) New(t conformance.T) (*mapsuite.Env, error) {
	h, err := d.b.begin(t)
	if err != nil {
		return nil, err
	}
	target, err := d.target(t.Context(), h)
	if err != nil {
		return nil, err
	}
	return target.New(t)
}

func (d *checkedDriver) target(ctx context.Context, h *host.Host) (*mapsuite.Target, error) {
	o, err := h.Driver(d.b.name)
	if err != nil {
		return nil, err
	}
	target := &mapsuite.Target{Opener: o, NewSpec: d.specs(o), Break: d.damages}
	if d.b.isolated {
		target.Crash = func() error { return h.Kill(ctx) }
		target.Usage = usage(h)
	}
	return target, nil
}

// checkedFilter is a filter under test.
type checkedFilter struct {
	b        *testBed
	template codecsuite.Target
}

var _ conformance.Target[*codecsuite.Env] = (*checkedFilter)(nil)

// TargetName implements conformance.Target.
func (c *checkedFilter) TargetName() string { return c.b.name }

// TargetCapabilities implements conformance.Target.
func (c *checkedFilter) TargetCapabilities(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.b.timeout)
	defer cancel()
	h, err := host.New(&c.b.opts)
	if err != nil {
		return nil, err
	}
	defer c.b.stop(ctx, h)
	target, err := c.target(h)
	if err != nil {
		return nil, err
	}
	caps, err := target.TargetCapabilities(ctx)
	for _, t := range target.Types {
		caps = append(caps, "exact:"+t.String())
	}
	return caps, err
}

// New implements conformance.Target.
func (c *checkedFilter) New(t conformance.T) (*codecsuite.Env, error) {
	h, err := c.b.begin(t)
	if err != nil {
		return nil, err
	}
	target, err := c.target(h)
	if err != nil {
		return nil, err
	}
	return target.New(t)
}

func (c *checkedFilter) target(h *host.Host) (*codecsuite.Target, error) {
	p, err := h.Filter(c.b.name)
	if err != nil {
		return nil, err
	}
	target := c.template
	target.Provider = p
	measure := usage(h)
	if _, err := measure(); err == nil && c.b.isolated {
		target.Usage = func() (conformance.Usage, error) {
			u, err := measure()
			if err == nil && u.Memory == 0 {
				err = ncerr.Errorf(ncerr.ErrPlugin, "measure", c.b.name, "no process is running")
			}
			return u, err
		}
	}
	if c.b.isolated {
		target.Restart = func() error { return h.Kill(context.Background()) }
	}
	return &target, nil
}
