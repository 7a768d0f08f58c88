// Package mapsuite is the conformance suite of storage drivers. Its checks, which have
// stable ids, cover what core/zmap/driver requires of an implementation. It tests any
// driver.Opener, in this process or in a plugin.
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
// The checks call the driver directly and obey the rules that core/zmap/driver lists under
// "Callers guarantee": keys are valid, option pointers are not nil, and conditions are set
// only when declared, except where a check tests that an undeclared condition is refused.
//
// The semantics follow netcdf-c libnczarr/zmap.h, made precise where its drivers
// differ from each other.
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
const Version = "0.14"

// Check is one rule of the driver contract.
type Check = conformance.Check[*Env]

// Suite returns all checks.
func Suite() conformance.Suite[*Env] {
	return conformance.Suite[*Env]{Name: "map", Version: Version, Checks: slices.Concat(
		openChecks(), durableChecks(), keyChecks(), exactChecks(), getChecks(), rangeChecks(), allocChecks(), putChecks(), putManyChecks(), conditionChecks(),
		deleteChecks(), listChecks(), concurrencyChecks(), cancelChecks(), modelChecks(), lastingChecks(),
	)}
}

// Names of capabilities that checks require. The first ten correspond to fields of
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
	Content         = "content"  // the suite can store objects: Write, or Target.OpenWriter
	FindsMissing    = "finds-missing"
	Crashes         = "crashes"  // Target.Crash is set
	Breaks          = "breaks"   // Target.Break is set
	Measured        = "measured" // the driver's resources can be measured
	Siblings        = "siblings" // the driver's description declares Siblings
)

// Target is a storage driver under test.
type Target struct {
	// Name is the name of the driver in reports. The default is the name in the
	// driver's description.
	Name string
	// Opener is the driver.
	Opener driver.Opener
	// NewSpec returns the location of a store that does not exist yet, a different one at
	// each call. The checks set the Mode. cleanup removes everything at that
	// location; it may be nil.
	NewSpec func() (spec driver.OpenSpec, cleanup func(), err error)
	// OpenWriter opens an empty store for writing at the location of spec, for a driver
	// that cannot write. For the http driver it opens the directory that a web server
	// serves. The checks store their objects there and read them through the driver. It
	// is nil for a driver that writes.
	OpenWriter func(ctx context.Context, spec driver.OpenSpec) (driver.Map, error)
	// Blind declares that Open does not check whether a store exists, because that
	// would require a request. The first read fails instead.
	Blind bool
	// Crash kills the driver's process and returns when it is gone. The next call to the
	// driver must start a new process. It is nil for a driver in this process.
	Crash func() error
	// Break makes the medium of the store at spec unreadable, so that reads fail although
	// the objects still exist. It must not overwrite the objects with zeros. If it is
	// nil, the check of such failures does not run.
	Break func(ctx context.Context, spec driver.OpenSpec) error
	// Usage measures the resources of the driver's processes. If it is nil, the suite
	// counts the descriptors of this process.
	Usage func() (conformance.Usage, error)
}

// ownUsage counts the descriptors of this process and the bytes that it has read. It does not
// measure memory, because other code of the process uses memory too.
func ownUsage() (conformance.Usage, error) {
	open, err := os.ReadDir("/proc/self/fd")
	return conformance.Usage{Descriptors: len(open), Memory: -1, Read: conformance.BytesRead(os.Getpid())}, err
}

var _ conformance.Target[*Env] = (*Target)(nil)

// TargetName implements conformance.Target.
func (g *Target) TargetName() string {
	if g.Name != "" {
		return g.Name
	}
	return g.Opener.Describe().Name
}

// TargetCapabilities implements conformance.Target. It opens a new store.
func (g *Target) TargetCapabilities(ctx context.Context) ([]string, error) {
	spec, cleanup, err := g.NewSpec()
	if err != nil {
		return nil, err
	}
	if cleanup != nil {
		defer cleanup()
	}
	spec.Mode = driver.Create
	if g.OpenWriter != nil {
		spec.Mode = driver.Read
		w, err := g.OpenWriter(ctx, spec)
		if err != nil {
			return nil, err
		}
		defer w.Close(ctx) //nolint:errcheck // no data was written, so Close cannot lose any
	}
	m, err := g.Opener.Open(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("open the first store: %w", err)
	}
	caps := capabilityNames(m)
	if g.OpenWriter != nil || m.Capabilities().Write {
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

// New implements conformance.Target. Each check uses a separate location.
func (g *Target) New(t conformance.T) (*Env, error) {
	spec, cleanup, err := g.NewSpec()
	if err != nil {
		return nil, err
	}
	if cleanup != nil {
		t.Cleanup(cleanup)
	}
	return &Env{opener: g.Opener, spec: spec, newSpec: g.NewSpec, openWriter: g.OpenWriter, crash: g.Crash, breakStore: g.Break, usage: g.usage(), ownProcess: g.Usage == nil}, nil
}

func (g *Target) usage() func() (conformance.Usage, error) {
	if g.Usage == nil {
		return ownUsage
	}
	return g.Usage
}

// Env is the environment of one check: a driver and the location of one store.
type Env struct {
	opener driver.Opener
	spec   driver.OpenSpec
	// newSpec returns the location of another store.
	newSpec    func() (driver.OpenSpec, func(), error)
	openWriter func(context.Context, driver.OpenSpec) (driver.Map, error) // nil if objects are stored through opener
	crash      func() error
	breakStore func(context.Context, driver.OpenSpec) error
	usage      func() (conformance.Usage, error)
	ownProcess bool // usage measures this process
}
