package conformance

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Level says how much of the contract a check belongs to.
type Level string

// The levels.
const (
	Core         Level = "core"         // every implementation must pass
	Extended     Level = "extended"     // needed for a declared capability or for robustness
	Experimental Level = "experimental" // may still change
)

// Effort says how much a run tries. Checks ask for it with T.Effort.
type Effort int

// The efforts.
const (
	Brief    Effort = iota + 1 // what a boundary may change in something that is checked in full without it
	Normal                     // every rule, at a cost that suits a test of every change
	Thorough                   // large objects, long listings and many repetitions too: what a certificate needs
)

// Check is one rule of a contract and the code that shows whether it is kept.
// S is what the target makes for each check: an environment to work on.
type Check[S any] struct {
	// ID is stable for ever, lower case, parts separated by dots, such as
	// "map.get.range.past-end".
	ID string
	// Doc is the rule in one sentence.
	Doc string
	// Needs lists the capabilities without which the check makes no sense.
	Needs []string
	// Level is how much of the contract the check belongs to; empty is Core.
	Level Level
	// Effort is the least effort at which the check runs; 0 runs it always.
	Effort Effort
	// Limit is how long the check may go without a call of T.Doing; 0 is the
	// default of [Options.Limit].
	Limit time.Duration
	// Run performs the check. It runs in a goroutine of its own and must not
	// leave goroutines behind.
	Run func(t T, s S)
	// Refuse, when not nil, runs instead of Run when a needed capability is
	// not declared, and shows that the ability is refused cleanly.
	Refuse func(t T, s S)
}

// Suite is a named and versioned list of checks. Checks are independent of
// each other and of their order.
type Suite[S any] struct {
	Name    string
	Version string
	Checks  []Check[S]
}

// Validate reports the first flaw of the suite itself: a check without id,
// rule or code, or two checks with one id.
func (s Suite[S]) Validate() error {
	seen := make(map[string]bool, len(s.Checks))
	for i, c := range s.Checks {
		switch {
		case c.ID == "" || strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "":
			return fmt.Errorf("suite %s: check %d has the bad id %q", s.Name, i, c.ID)
		case seen[c.ID]:
			return fmt.Errorf("suite %s: two checks have the id %q", s.Name, c.ID)
		case c.Doc == "" || c.Run == nil:
			return fmt.Errorf("suite %s: check %q has no rule or no code", s.Name, c.ID)
		case c.Refuse != nil && len(c.Needs) == 0:
			return fmt.Errorf("suite %s: check %q refuses but needs nothing", s.Name, c.ID)
		}
		seen[c.ID] = true
	}
	return nil
}

// Target is the thing under test.
type Target[S any] interface {
	// TargetName names the implementation in reports.
	TargetName() string
	// TargetCapabilities gives what the implementation declares, as the names
	// that the suite's checks use in Needs. It is called once per run.
	TargetCapabilities(ctx context.Context) ([]string, error)
	// New makes a fresh and isolated environment for one check. What must be
	// undone is registered with t.Cleanup. An error here is a fault of the
	// test bed (status error), not of the implementation.
	New(t T) (S, error)
}

// T is what a check reports to. Its methods mean what those of testing.TB
// with the same names mean. All but Fatalf may be called from any goroutine.
type T interface {
	// Name is the id of the check.
	Name() string
	// Context ends when the check hangs, and before cleanups run.
	Context() context.Context
	// Doing says what the check is about to do, in words that a report joins
	// with spaces. The time limit of the check counts anew from here.
	Doing(what ...string)
	// Effort is how much the run tries, at least Brief.
	Effort() Effort
	// Logf adds a line to the check's log, which is shown when it fails.
	Logf(format string, args ...any)
	// Errorf records a failure and goes on.
	Errorf(format string, args ...any)
	// Fatalf records a failure and ends the check; it is called from the
	// check's own goroutine only.
	Fatalf(format string, args ...any)
	// Failed reports whether a failure was recorded.
	Failed() bool
	// Cleanup registers a function to be called after the check, last first.
	Cleanup(f func())
	// Seed is the run's seed for random choices; it is printed in the report.
	Seed() uint64
}

// Options are the options of [Run]; nil means the defaults.
type Options struct {
	// Select lists the checks to run as glob patterns over ids
	// ("map.get.*"); empty runs all. Others are left out of the report.
	Select []string
	// Disable maps ids of checks that are not run to the reason, which the
	// report shows.
	Disable map[string]string
	// Require lists glob patterns of ids that must not end as unsupported or
	// disabled: such a result becomes a failure.
	Require []string
	// Levels lists the levels to run; empty runs all.
	Levels []Level
	// Effort is how much the run tries; 0 is Normal.
	Effort Effort
	// Limit is the time limit of a check that has none of its own: how long it
	// may go without a call of T.Doing. 0 is one minute.
	Limit time.Duration
	// Seed is the seed of all random choices, and of the order in which checks
	// run; 0 takes one from the clock in [Run], and a fixed one in [TestWith].
	Seed uint64
	// Tool and Subject go into the report as they are: the program that runs
	// the checks, and exactly what is checked.
	Tool    string
	Subject Subject
	// Begin, when not nil, is called before the first check with what is known
	// by then: a report without results.
	Begin func(*Report)
	// Progress, when not nil, is called after each check.
	Progress func(Result)
}

func matchAny(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, id)
		return err == nil && ok
	})
}

func (o *Options) wants(id string, level Level, least Effort) bool {
	return (len(o.Select) == 0 || matchAny(o.Select, id)) &&
		(len(o.Levels) == 0 || slices.Contains(o.Levels, level)) && o.Effort >= least
}

// withDefaults gives a copy in which every zero value has been replaced.
func (o *Options) withDefaults() *Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Limit <= 0 {
		c.Limit = time.Minute
	}
	if c.Effort == 0 {
		c.Effort = Normal
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	return &c
}

// Usage is what a process of a driver or filter holds at one moment.
type Usage struct {
	Descriptors int   // open file descriptors; negative when not known
	Memory      int64 // resident bytes; negative when not known, or shared with others
}
