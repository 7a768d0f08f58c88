// Package rapidseed checks properties with rapid, using the seed of package testseed.
//
// Only tests import this package.
package rapidseed

import (
	"flag"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
)

// seeded sets the seed of rapid once, through its flag, because rapid has no function
// to set it.
var seeded sync.Once // the flag is global too

// Check is [rapid.Check] with random values drawn from the seed of [testseed.New]. The
// flag -rapid.seed, which rapid prints after a failure, takes precedence.
func Check(t *testing.T, prop func(*rapid.T)) {
	t.Helper()
	seed := testseed.New(t)
	seeded.Do(func() {
		f := flag.Lookup("rapid.seed")
		if f.Value.String() != f.DefValue {
			return
		}
		if err := f.Value.Set(strconv.FormatUint(seed, 10)); err != nil {
			t.Fatal(err)
		}
	})
	rapid.Check(t, prop)
}
