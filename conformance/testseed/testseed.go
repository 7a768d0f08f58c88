// Package testseed determines the seed of random choices in tests. It is 1 by default,
// so that the outcome of a test depends only on the code. The environment variable
// NCZARR_SEED overrides it.
//
//	r := rand.New(rand.NewPCG(testseed.New(t), 0))
//
// Package rapidseed does the same for properties checked with rapid.
//
// Only tests import this package.
package testseed

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Var is the environment variable for the seed, a positive decimal number below 1<<64.
const Var = "NCZARR_SEED"

// fixed is the default seed.
const fixed = 1

// New returns the seed. If the test fails, New logs the seed. If Var is invalid, New
// ends the test.
func New(t testing.TB) uint64 {
	t.Helper()
	seed, err := parse(os.Getenv(Var))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with %s=%d", Var, seed)
		}
	})
	return seed
}

func parse(text string) (uint64, error) {
	if text == "" {
		return fixed, nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seed == 0 {
		return 0, fmt.Errorf("%s must be a decimal number from 1 to 18446744073709551615, not %q", Var, text)
	}
	return seed, nil
}
