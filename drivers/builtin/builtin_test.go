package builtin_test

import (
	"sort"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
)

// TestNew checks the names of the drivers, and that each of their URL schemes has rules in
// core/ncurl and belongs to one driver.
func TestNew(t *testing.T) {
	t.Parallel()
	var names []string
	owners := make(map[string]string)
	for _, o := range builtin.New() {
		d := o.Describe()
		names = append(names, d.Name)
		if d.Summary == "" {
			t.Errorf("driver %q has no summary", d.Name)
		}
		if err := d.CheckSchemes(); err != nil {
			t.Error(err)
		}
		for _, s := range d.Schemes {
			if owners[s] != "" || !ncurl.HasRules(s) {
				t.Errorf("the scheme %s of the driver %s has no rules or belongs to %q too", s, d.Name, owners[s])
			}
			owners[s] = d.Name
		}
	}
	if len(names) < 2 || !sort.StringsAreSorted(names) {
		t.Errorf("want at least two names in order, got %q", names)
	}
	if len(owners) != 5 {
		t.Errorf("want the schemes file, s3, gs3, http and https, got %v", owners)
	}
}
