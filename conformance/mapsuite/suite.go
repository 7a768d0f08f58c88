// Package mapsuite is the conformance suite of storage drivers: what
// core/zmap/driver promises, as checks with stable ids. It works on a
// driver.Opener from anywhere, in this process or behind a plugin.
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, mapsuite.Suite(), &mapsuite.Target{
//			Opener: mystore.New(),
//			NewSpec: func() (driver.OpenSpec, func(), error) {
//				return driver.OpenSpec{Path: ...}, func() {}, nil
//			},
//		})
//	}
//
// The checks call the driver itself and keep what core/zmap/driver lists
// under "Callers guarantee": keys are valid, option pointers are not nil,
// conditions are set only when declared (except where a check shows that an
// undeclared one is refused).
//
// Source: netcdf-c libnczarr/zmap.h for the semantics, made exact where its
// drivers differ from each other.
package mapsuite

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Version is the version of the suite.
const Version = "0.7"

// Check is one rule of the driver contract.
type Check = conformance.Check[*Env]

// Suite gives all checks.
func Suite() conformance.Suite[*Env] {
	return conformance.Suite[*Env]{Name: "map", Version: Version, Checks: slices.Concat(
		openChecks(), durableChecks(), keyChecks(), exactChecks(), getChecks(), rangeChecks(), allocChecks(), putChecks(), putManyChecks(), conditionChecks(),
		deleteChecks(), listChecks(), concurrencyChecks(), cancelChecks(), modelChecks(), lastingChecks(),
	)}
}

// Names of capabilities, as checks need them. The first ten are fields of
// driver.Capabilities.
const (
	Ranges          = "ranges"
	List            = "list"
	Write           = "write"
	Delete          = "delete"
	IfAbsent        = "if-absent"
	IfMatch         = "if-match"
	RecursiveList   = "recursive-list"
	OrderedList     = "ordered-list"
	PrefixExclusive = "prefix-exclusive"
	DurableOnPut    = "durable-on-put"
	GetMany         = "get-many" // the Map implements driver.GetManyer
	PutMany         = "put-many" // the Map implements driver.PutManyer
	Content         = "content"  // the suite can put objects there: Write, or Target.Place
	FindsMissing    = "finds-missing"
	Crashes         = "crashes"  // Target.Crash is there
	Breaks          = "breaks"   // Target.Break is there
	Measured        = "measured" // what the driver holds can be measured
	Siblings        = "siblings" // the driver says so of itself
)

// Target is a storage driver under test.
type Target struct {
	// Name names the driver in reports; empty takes the name that it gives
	// itself.
	Name string
	// Opener is the driver.
	Opener driver.Opener
	// NewSpec names a place where no store is yet, another one at each call.
	// cleanup removes whatever is there afterwards; it may be nil. The checks
	// set the Mode.
	NewSpec func() (spec driver.OpenSpec, cleanup func(), err error)
	// Place, for a driver that cannot write, opens an empty store for writing
	// at the place that a spec of NewSpec names: the directory that a web
	// server serves. The checks put their objects there and read them through
	// the driver. nil for a driver that writes.
	Place func(ctx context.Context, spec driver.OpenSpec) (driver.Map, error)
	// Blind says that Open does not look whether a store is there, because
	// that would cost a request: the first read shows it.
	Blind bool
	// Crash, for a driver in a process of its own, ends that process at once
	// and without notice, and returns when it is gone; the next call to the
	// driver is served by a fresh one. nil for a driver in this process.
	Crash func() error
	// Break makes the medium of the store that spec names unreadable, so that
	// reads fail although the objects are still there. It writes no zeros. Only
	// the author of a driver knows how; nil leaves out the check of what
	// failures look like.
	Break func(ctx context.Context, spec driver.OpenSpec) error
	// Usage measures what the driver's processes hold; nil measures this
	// process, as far as that is possible.
	Usage func() (conformance.Usage, error)
}

// ownUsage measures this process, whose memory is not the driver's alone.
func ownUsage() (conformance.Usage, error) {
	open, err := os.ReadDir("/proc/self/fd")
	return conformance.Usage{Descriptors: len(open), Memory: -1}, err
}

var _ conformance.Target[*Env] = (*Target)(nil)

// TargetName implements conformance.Target.
func (g *Target) TargetName() string {
	if g.Name != "" {
		return g.Name
	}
	return g.Opener.Describe().Name
}

// TargetCapabilities implements conformance.Target: it asks a fresh store.
func (g *Target) TargetCapabilities(ctx context.Context) ([]string, error) {
	spec, cleanup, err := g.NewSpec()
	if err != nil {
		return nil, err
	}
	if cleanup != nil {
		defer cleanup()
	}
	spec.Mode = driver.Create
	if g.Place != nil {
		spec.Mode = driver.Read
		w, err := g.Place(ctx, spec)
		if err != nil {
			return nil, err
		}
		defer w.Close(ctx) //nolint:errcheck // nothing was written
	}
	m, err := g.Opener.Open(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("open a first store: %w", err)
	}
	caps := capabilityNames(m)
	if g.Place != nil || m.Capabilities().Write {
		caps = append(caps, Content)
	}
	if g.Opener.Describe().Siblings {
		caps = append(caps, Siblings)
	}
	if !g.Blind {
		caps = append(caps, FindsMissing)
	}
	if g.Crash != nil {
		caps = append(caps, Crashes)
	}
	if g.Break != nil {
		caps = append(caps, Breaks)
	}
	if _, err := g.usage()(); err == nil {
		caps = append(caps, Measured)
	}
	if err := m.Close(ctx); err != nil {
		return nil, fmt.Errorf("close the first store: %w", err)
	}
	return caps, nil
}

func capabilityNames(m driver.Map) []string {
	c := m.Capabilities()
	_, many := m.(driver.GetManyer)
	_, puts := m.(driver.PutManyer)
	var names []string
	for _, x := range []struct {
		name string
		has  bool
	}{
		{Ranges, c.Ranges},
		{List, c.List},
		{Write, c.Write},
		{Delete, c.Delete},
		{IfAbsent, c.IfAbsent},
		{IfMatch, c.IfMatch},
		{RecursiveList, c.RecursiveList},
		{OrderedList, c.OrderedList},
		{PrefixExclusive, c.PrefixExclusive},
		{DurableOnPut, c.Durable == driver.OnPut},
		{GetMany, many},
		{PutMany, puts},
	} {
		if x.has {
			names = append(names, x.name)
		}
	}
	return names
}

// New implements conformance.Target: a place of its own for one check.
func (g *Target) New(t conformance.T) (*Env, error) {
	spec, cleanup, err := g.NewSpec()
	if err != nil {
		return nil, err
	}
	if cleanup != nil {
		t.Cleanup(cleanup)
	}
	return &Env{opener: g.Opener, spec: spec, another: g.NewSpec, place: g.Place, crash: g.Crash, damage: g.Break, usage: g.usage()}, nil
}

func (g *Target) usage() func() (conformance.Usage, error) {
	if g.Usage == nil {
		return ownUsage
	}
	return g.Usage
}

// Env is what a check works on: a driver and a place for one store.
type Env struct {
	opener driver.Opener
	spec   driver.OpenSpec
	// another names one more place.
	another func() (driver.OpenSpec, func(), error)
	place   func(context.Context, driver.OpenSpec) (driver.Map, error) // nil: through opener
	crash   func() error
	damage  func(context.Context, driver.OpenSpec) error
	usage   func() (conformance.Usage, error)
}
