package zarr_test

import (
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// Foreign tells the objects of a dataset from everything else that lies beside
// and in it.
func TestForeign(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has, foreign []string
		dataset      bool
	}{
		"nothing": {},
		"a group with arrays": {
			has: []string{".zgroup", ".zattrs", ".zmetadata", "v/.zarray", "v/.zattrs", "v/0.0", "v/10.2", "g/.zgroup", "g/w/.zarray", "g/w/0/1/2", "no/group/.zgroup", "no/array/.zarray", "no/array/0", ".nczgrowing", ".nczgrowing/a1"},
			foreign: []string{
				".git/HEAD", "README.md", "v/README", "v/00.1", "v/0.", "v/.0", "v/0..1", "v/-1", "v/+1", "v/0.0.bak", "g/w/0/x", "g/notes/", "notebooks/thesis.ipynb",
				"donn\xe9es.csv", "fifo", "zarr.js", "x/.zattrs", "x/0.0", "v/deep/.zarray", "no/notes", "v/c/0", ".nczgrowing/a/b",
			},
			dataset: true,
		},
		"a lone .zattrs":     {foreign: []string{".zattrs", "important.doc"}},
		"empty directories":  {foreign: []string{"a/b/", "c/"}},
		"an array":           {has: []string{".zarray", "0", "1"}, foreign: []string{"c/0"}, dataset: true},
		"directories of one": {has: []string{".zarray", "0/", "1/2/"}, foreign: []string{"x/"}, dataset: true},
		"the first layout":   {has: []string{".zgroup", ".nczarr", ".nczgroup", ".nczattr", "v/.zarray", "v/.nczvar", "v/.nczattr"}, dataset: true},
		"version 3": {
			has: []string{"zarr.json", "v/zarr.json", "v/c/0/1", "v/c", "v/c.0.1", "v/0.1", "g/zarr.json", "g/w/zarr.json"}, foreign: []string{"v/cc", "v/c/x", "v/c/.zattrs"}, dataset: true,
		},
		"no documents": {foreign: []string{"v/0.0", "v/0.1"}},
	} {
		all := slices.Concat(c.has, c.foreign)
		slices.Sort(all)
		slices.Sort(c.foreign)
		foreign, dataset := zarr.Foreign(all)
		if !slices.Equal(foreign, c.foreign) || dataset != c.dataset {
			t.Errorf("%s: want %q foreign, a dataset: %t; got %q, %t", name, c.foreign, c.dataset, foreign, dataset)
		}
	}
}
