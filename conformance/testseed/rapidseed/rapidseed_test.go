package rapidseed_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
)

// drawValues returns the values that one Check draws.
func drawValues(t *testing.T) (values []int64) {
	t.Helper()
	rapidseed.Check(t, func(t *rapid.T) { values = append(values, rapid.Int64().Draw(t, "n")) })
	return values
}

// TestSameValues checks that every Check in a process draws the same values.
func TestSameValues(t *testing.T) {
	t.Parallel()
	if first, second := drawValues(t), drawValues(t); len(first) == 0 || !slices.Equal(first, second) {
		t.Errorf("two checks drew different values: %v and %v", first, second)
	}
}

// TestGivenSeed checks that the seed, or the flag -rapid.seed, determines the values. Each
// combination runs in a separate process.
func TestGivenSeed(t *testing.T) {
	if os.Getenv("RAPIDSEED_DRAW") != "" {
		fmt.Println("drawn", drawValues(t))
		return
	}
	t.Parallel()
	draw := func(seed string, flags ...string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append(flags, "-test.run=^TestGivenSeed$")...)
		cmd.Env = append(os.Environ(), "RAPIDSEED_DRAW=1", testseed.Var+"="+seed)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("seed %q: %v\n%s", seed, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "drawn ") {
				return line
			}
		}
		t.Fatalf("seed %q: no values drawn:\n%s", seed, out)
		return ""
	}
	seven := draw("7")
	for _, tc := range []struct {
		same bool
		got  string
	}{{true, draw("7")}, {true, draw("", "-rapid.seed=7")}, {true, draw("8", "-rapid.seed=7")}, {false, draw("8")}, {false, draw("")}} {
		if (tc.got == seven) != tc.same {
			t.Errorf("equal to the values of seed 7: want %t, got %svalues of seed 7: %s", tc.same, tc.got, seven)
		}
	}
	if draw("") != draw("1") {
		t.Error("the default seed is not 1")
	}
}
