package testseed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
)

// fake is a testing.TB that records calls.
type fake struct {
	testing.TB
	failed   bool
	fatal    string
	log      strings.Builder
	cleanups []func()
}

func (f *fake) Helper()                 {}
func (f *fake) Failed() bool            { return f.failed }
func (f *fake) Cleanup(do func())       { f.cleanups = append(f.cleanups, do) }
func (f *fake) Fatal(args ...any)       { f.fatal = fmt.Sprint(args...) }
func (f *fake) Logf(s string, a ...any) { fmt.Fprintf(&f.log, s, a...) }

// seed returns the result of New and the log at the end of the test.
func seed(f *fake) (uint64, string) {
	n := testseed.New(f)
	for _, do := range f.cleanups {
		do()
	}
	return n, f.log.String()
}

func TestNew(t *testing.T) { //nolint:paralleltest // the test sets environment variables
	for value, want := range map[string]uint64{"": 1, "1": 1, "7": 7, "18446744073709551615": 1<<64 - 1} {
		t.Setenv(testseed.Var, value)
		if got, log := seed(&fake{TB: t}); got != want || log != "" {
			t.Errorf("%q: want seed %d and no log, got %d and %q", value, want, got, log)
		}
		_, log := seed(&fake{TB: t, failed: true})
		if want := fmt.Sprint("repeat with NCZARR_SEED=", want); log != want {
			t.Errorf("%q: want the log of a failed test %q, got %q", value, want, log)
		}
	}
	for _, value := range []string{"0", "-1", "x", " 1", "18446744073709551616"} {
		t.Setenv(testseed.Var, value)
		f := &fake{TB: t}
		if seed(f); !strings.Contains(f.fatal, "NCZARR_SEED") {
			t.Errorf("%q: want an error, got %q", value, f.fatal)
		}
	}
}
