package zip_test

import (
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
	"pgregory.net/rapid"
)

// TestNamesAgainstSimpleRule compares the fast implementation of the rule for names
// with a simple one.
func TestNamesAgainstSimpleRule(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"/", ".", "..", "a", "0.0.0", "chunk", "\\", "\x00", "\x1f", " ", "~", "\x7f", "\x01", "0", "é", "\u0080", "\xff", "-", "0123456", "!"})
	rapidseed.Check(t, func(r *rapid.T) {
		name := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(r, "pieces"), "")
		if got := zipdriver.NameFlaw(name); (got == "") != legalKey(name) {
			r.Errorf("the implementations disagree about the name %q: %q", name, got)
		}
	})
}
