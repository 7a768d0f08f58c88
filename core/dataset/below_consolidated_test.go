package dataset_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// highLatency is a high-latency store.
type highLatency struct{ driver.Map }

func (m highLatency) Capabilities() driver.Capabilities {
	c := m.Map.Capabilities()
	c.Latency = driver.Remote
	return c
}

// TestGroupBelowConsolidated opens a group by its own URL, below a root with consolidated
// metadata. A group of NCZarr is opened as part of its dataset, whose consolidated
// metadata is read and updated. A group of pure Zarr is opened as a separate dataset. As
// in zarr-python, the consolidated metadata above it is not used, even if requests are
// expensive, and does not change when the group is updated. A reader of the root detects
// that the consolidated metadata is stale.
func TestGroupBelowConsolidated(t *testing.T) {
	t.Parallel()
	for mode, asPart := range map[string]bool{"zarr,v3": false, "nczarr,v3": true, "zarr": false, "nczarr": true} {
		for _, use := range []dataset.ConsolidatedUse{dataset.ConsolidatedAuto, dataset.ConsolidatedTrust, dataset.ConsolidatedVerify} {
			o := fileOptions()
			dir := t.TempDir() + "/s"
			ds := create(t, dir+"#mode="+mode, o)
			g, err := ds.Root().DefineGroup("g")
			if err != nil {
				t.Fatal(err)
			}
			v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, g, "x", 2, false)}})
			write(t, v, v.All(), []int32{1, 2})
			if err := ds.Consolidate(); err != nil {
				t.Fatal(err)
			}
			closeDataset(t, ds)
			sub := update(t, dir+"/g#mode="+mode, o)
			if sub.Consolidated() != asPart {
				t.Errorf("%s: want consolidated metadata %t", mode, asPart)
			}
			if err := variable(t, sub, "v").SetAttr(dataset.Attr{Name: "units", Type: dtype.NCChar, Value: "m"}); err != nil {
				t.Fatal(err)
			}
			closeDataset(t, sub)
			o.UseConsolidated = use
			o.Wrap = func(m driver.Map) driver.Map { return highLatency{m} }
			got := open(t, dir+"/g#mode="+mode, o)
			if got.Consolidated() != asPart || len(got.Problems()) > 0 {
				t.Errorf("%s, %v: want consolidated metadata %t without problems, got %t, %v", mode, use, asPart, got.Consolidated(), got.Problems())
			}
			if units := attr(t, variable(t, got, "v").Attrs(), "units"); units != "m" {
				t.Errorf("%s, %v: want the new attribute, got %v", mode, use, units)
			}
			expect(t, got, "v", []int32{1, 2})
			root := open(t, dir+"#mode="+mode, o)
			if !root.Consolidated() {
				t.Errorf("%s, %v: the root has lost its consolidated metadata", mode, use)
			}
			stale := slices.ContainsFunc(root.StaleDocuments(), func(key string) bool { return strings.HasPrefix(key, "g/v/") })
			if stale != (!asPart && use == dataset.ConsolidatedVerify) {
				t.Errorf("%s, %v: unexpected stale documents %q", mode, use, root.StaleDocuments())
			}
		}
	}
}
