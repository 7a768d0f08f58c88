package zarr_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// TestParseAllocates checks the number of allocations during parsing. A document is
// scanned once and not copied.
func TestParseAllocates(t *testing.T) { //nolint:paralleltest // the test counts allocations and must run alone
	nodes := thousandVariables()
	doc, err := zarr.WriteConsolidated(nodes)
	if err != nil {
		t.Fatal(err)
	}
	var parser zarr.Parser
	array := testing.AllocsPerRun(100, func() {
		if _, err := parser.Array("/v000", nodes["v000"], zarr.ParseHint{}); err != nil {
			t.Fatal(err)
		}
	})
	if array > 25 {
		t.Errorf("want at most 25 allocations for an array with 8 attributes, got %v", array)
	}
	all := testing.AllocsPerRun(3, func() {
		if _, err := zarr.ParseConsolidated(doc); err != nil {
			t.Fatal(err)
		}
	})
	if all > 2100 {
		t.Errorf("want at most 2,100 allocations for consolidated metadata of 1,000 arrays, got %v", all)
	}
}
