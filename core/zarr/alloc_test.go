package zarr_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// TestParseAllocates pins what parsing costs: a document is scanned once, and
// copied once, and its names and texts are parts of the copy.
func TestParseAllocates(t *testing.T) {
	nodes := thousand()
	doc, err := zarr.WriteConsolidated(nodes)
	if err != nil {
		t.Fatal(err)
	}
	array := testing.AllocsPerRun(100, func() {
		if _, err := zarr.ParseArray("/v000", nodes["v000"], zarr.ParseHint{}); err != nil {
			t.Fatal(err)
		}
	})
	if array > 33 {
		t.Errorf("an array with 8 attributes takes %v allocations, want at most 33", array)
	}
	all := testing.AllocsPerRun(3, func() {
		if _, err := zarr.ParseConsolidated(doc); err != nil {
			t.Fatal(err)
		}
	})
	if all > 2100 {
		t.Errorf("consolidated metadata of 1,000 arrays takes %v allocations, want at most 2,100", all)
	}
}
