package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Level is the part of the contract to which a check belongs.
type Level string

// The levels.
const (
	Core         Level = "core"         // every implementation must pass
	Extended     Level = "extended"     // required for a declared capability or for robustness
	Experimental Level = "experimental" // may still change
)

// Effort is the thoroughness of a run. Checks get it from T.Effort.
type Effort int

// The efforts.
const (
	Brief    Effort = iota + 1 // few cases per rule, for a target that another run checks with more effort, for example without a process boundary
	Normal                     // every rule that can be checked quickly enough to run for every change
	Thorough                   // also large objects, long listings and many repetitions, as required for a certificate
)

// Check is one rule of a contract and the code that verifies it. S is the environment
// that the target creates for each check.
type Check[S any] struct {
	// ID identifies the check and never changes. It is lower case with parts separated
	// by dots, such as "map.get.range.past-end".
	ID string
	// Doc states the rule in one sentence.
	Doc string
	// Needs lists the capabilities that the check requires.
	Needs []string
	// Level is the part of the contract to which the check belongs; empty means Core.
	Level Level
	// Effort is the minimum effort at which the check runs; 0 means that it always
	// runs.
	Effort Effort
	// Limit is the maximum time between two calls to T.Step; 0 means [Options.Limit].
	Limit time.Duration
	// Run performs the check. It runs in its own goroutine and must not leave other
	// goroutines running.
	Run func(t T, s S)
	// Refuse, if not nil, runs instead of Run if a needed capability is not declared.
	// It verifies that the implementation cleanly refuses the operation.
	Refuse func(t T, s S)
}

// Suite is a named and versioned list of checks. Checks are independent of each other
// and of their order.
type Suite[S any] struct {
	Name    string
	Version string
	Checks  []Check[S]
}

// Validate reports the first error in the suite itself: a check with an invalid id,
// without a rule or without code, a check with Refuse but without Needs, or a duplicate
// id.
func (s Suite[S]) Validate() error {
	seen := make(map[string]bool, len(s.Checks))
	for i, c := range s.Checks {
		switch {
		case c.ID == "" || strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "":
			return fmt.Errorf("suite %s: check %d has the invalid id %q", s.Name, i, c.ID)
		case seen[c.ID]:
			return fmt.Errorf("suite %s: two checks have the id %q", s.Name, c.ID)
		case c.Doc == "" || c.Run == nil:
			return fmt.Errorf("suite %s: check %q has no rule or no code", s.Name, c.ID)
		case c.Refuse != nil && len(c.Needs) == 0:
			return fmt.Errorf("suite %s: check %q has Refuse but no Needs", s.Name, c.ID)
		}
		seen[c.ID] = true
	}
	return nil
}

// Target is the implementation under test.
type Target[S any] interface {
	// TargetName returns the name of the implementation for reports.
	TargetName() string
	// TargetCapabilities returns the declared capabilities, with the names that the
	// checks of the suite use in Needs. It is called once per run.
	TargetCapabilities(ctx context.Context) ([]string, error)
	// New creates a new and isolated environment for one check. It registers its
	// cleanup with t.Cleanup. An error is a fault of the test environment (status
	// error), not of the implementation.
	New(t T) (S, error)
}

// T is the interface through which a check reports its result. The methods that
// testing.TB also has behave as they do there. All methods except Fatalf and Skipf may be
// called from any goroutine.
type T interface {
	// Name returns the id of the check.
	Name() string
	// Context returns a context that is canceled if the check hangs, and before the
	// cleanup functions run.
	Context() context.Context
	// Step records the next action of the check as words, which a report joins with
	// spaces. It restarts the time limit of the check.
	Step(what ...string)
	// Effort returns the effort of the run, at least Brief.
	Effort() Effort
	// Logf adds a line to the log of the check, which is shown if the check fails.
	Logf(format string, args ...any)
	// Errorf records a failure and continues.
	Errorf(format string, args ...any)
	// Fatalf records a failure and ends the check. It must be called from the check's
	// own goroutine.
	Fatalf(format string, args ...any)
	// Skipf ends the check because its rule cannot apply to this implementation or to
	// the medium on which it stores data. Unless a failure was recorded, the status is
	// unsupported, with this message. It must be called from the check's own goroutine.
	Skipf(format string, args ...any)
	// Failed reports whether a failure was recorded.
	Failed() bool
	// Cleanup registers a function that is called after the check. The functions are
	// called in reverse order of registration.
	Cleanup(f func())
	// Seed returns the seed for random choices. The report contains it.
	Seed() uint64
}

// Options configures [Run]; nil means the defaults.
type Options struct {
	// Select lists glob patterns of the ids of the checks to run ("map.get.*"); empty
	// means all. The report omits other checks.
	Select []string
	// Disable maps the ids of checks that do not run to the reason, which the report
	// contains.
	Disable map[string]string
	// Require lists glob patterns of ids for which the status unsupported or disabled
	// is a failure.
	Require []string
	// Levels lists the levels to run; empty means all.
	Levels []Level
	// Effort is the effort of the run; 0 means Normal.
	Effort Effort
	// Limit is the default of Check.Limit; 0 means one minute.
	Limit time.Duration
	// Seed determines all random choices and the order in which checks run. If it is 0,
	// [Run] derives a seed from the clock, and [TestWith] uses the seed of [Test].
	Seed uint64
	// Tool and Subject are copied to the report: the program that runs the checks, and
	// exactly what it checks.
	Tool    string
	Subject Subject
	// Begin, if not nil, is called before the first check with a report that has no
	// results yet.
	Begin func(*Report)
	// Progress, if not nil, is called after each check.
	Progress func(Result)
}

func matchAny(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, id)
		return err == nil && ok
	})
}

func (o *Options) wants(id string, level Level, minEffort Effort) bool {
	return (len(o.Select) == 0 || matchAny(o.Select, id)) &&
		(len(o.Levels) == 0 || slices.Contains(o.Levels, level)) && o.Effort >= minEffort
}

// withDefaults returns a copy of o in which a zero Limit, Effort or Seed is replaced by
// its default.
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

// Usage is the resource usage of a driver or filter process.
type Usage struct {
	Descriptors int           // open file descriptors; negative if unknown
	Memory      int64         // resident bytes; negative if unknown, or if other code shares the process
	Read        int64         // bytes read so far with system calls; negative if unknown
	CPU         time.Duration // processor time used so far; 0 if unknown
}

// CPUTime returns the processor time that a process has used. It returns 0 if the system
// does not report it.
func CPUTime(pid int) time.Duration {
	const tick = time.Second / 100 // the unit of /proc on every architecture
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	var sum time.Duration
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // a name may contain spaces
	for i := 11; i <= 12 && i < len(fields); i++ {                            // user and system time
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(n) * tick
	}
	return sum
}

// BytesRead returns the number of bytes that a process has read with system calls, from
// files and from sockets. It returns -1 if the system does not count them.
func BytesRead(pid int) int64 {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "io"))
	if err != nil {
		return -1
	}
	var n int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		return -1
	}
	return n
}
