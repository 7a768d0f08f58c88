package conformance

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
)

// testLimit is the default time limit of a check in a test. A machine that tests many
// packages concurrently may be slow. go test itself ends a package after ten minutes,
// and a check that hangs must be reported before that.
const testLimit = 5 * time.Minute

// Test runs every check of the suite as a sub-test named by its id. A sub-test with
// status unsupported is skipped. The seed is 1 unless the environment variable
// NCZARR_SEED is set; it is logged after a failure.
func Test[S any](t *testing.T, suite Suite[S], target Target[S]) {
	t.Helper()
	TestWith(t, suite, target, nil)
}

// TestWith is [Test] with options. It calls Progress like [Run], and runs the checks in
// suite order. Limit defaults to five minutes; a check that sets its own limit has at
// least Limit. Seed defaults to the seed of Test.
func TestWith[S any](t *testing.T, suite Suite[S], target Target[S], opts *Options) {
	t.Helper()
	if err := suite.Validate(); err != nil {
		t.Fatal(err)
	}
	caps, err := target.TargetCapabilities(t.Context())
	if err != nil {
		t.Fatalf("capabilities of %s: %v", target.TargetName(), err)
	}
	slices.Sort(caps)
	o := opts.withDefaults()
	if opts == nil || opts.Limit <= 0 {
		o.Limit = testLimit
	}
	if opts == nil || opts.Seed == 0 {
		o.Seed = testseed.New(t)
	}
	for _, c := range suite.Checks {
		if c.Level == "" {
			c.Level = Core
		}
		if !o.wants(c.ID, c.Level, c.Effort) {
			continue
		}
		if c.Limit > 0 {
			c.Limit = max(c.Limit, o.Limit)
		}
		t.Run(c.ID, func(t *testing.T) {
			res := runOne(t.Context(), c, target, caps, o)
			if o.Progress != nil {
				o.Progress(res)
			}
			switch res.Status {
			case StatusPass:
			case StatusUnsupported, StatusDisabled:
				t.Skipf("%s: %s", res.Status, res.Message)
			default:
				t.Errorf("%s: %s\nrule: %s\nseed: %d", res.Status, res.Message, c.Doc, o.Seed)
			}
		})
	}
}
