package zarr_test

import (
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// TestForeign checks that Foreign separates the objects of a dataset from all other
// objects of the store.
func TestForeign(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has, foreign []string
		dataset      bool
	}{
		"nothing": {},
		"a group with arrays": {
			has: []string{".zgroup", ".zattrs", ".zmetadata", "v/.zarray", "v/.zattrs", "v/0.0", "v/10.2", "g/.zgroup", "g/w/.zarray", "g/w/0/1/2", ".nczgrowing", ".nczgrowing/a1", ".nczprobe-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "v/.nczprobe-234567ABCDEFGHIJKLMNOPQRST"},
			foreign: []string{
				".git/HEAD", "README.md", "v/README", "v/00.1", "v/0.", "v/.0", "v/0..1", "v/-1", "v/+1", "v/0.0.bak", "g/w/0/x", "g/notes/", "notebooks/thesis.ipynb",
				"donn\xe9es.csv", "fifo", "zarr.js", "x/.zattrs", "x/0.0", "v/deep/.zarray", "no/notes", "no/group/.zgroup", "no/array/.zarray", "no/array/0", "sub.zarr/.zgroup", "sub.zarr/.zmetadata", "sub.zarr/v/.zarray", "sub.zarr/v/0", "v1/.zgroup", "v1/.nczarr", "v/c/0", ".nczgrowing/a/b",
				".nczprobe-", ".nczprobe-abcdefghijklmnopqrstuvwxyz", ".nczprobe-ABCDEFGHIJKLMNOPQRSTUVWXYZ/x",
			},
			dataset: true,
		},
		"a lone .zattrs":          {foreign: []string{".zattrs", "important.doc"}},
		"empty directories":       {foreign: []string{"a/b/", "c/"}},
		"an array":                {has: []string{".zarray", "0", "1"}, foreign: []string{"c/0"}, dataset: true},
		"directories in an array": {has: []string{".zarray", "0/", "1/2/"}, foreign: []string{"x/"}, dataset: true},
		"the first layout":        {has: []string{".zgroup", ".nczarr", ".nczgroup", ".nczattr", "v/.zarray", "v/.nczvar", "v/.nczattr"}, dataset: true},
		"version 3": {
			has: []string{"zarr.json", "v/zarr.json", "v/c/0/1", "v/c", "v/c.0.1", "v/0.1", "g/zarr.json", "g/w/zarr.json"}, foreign: []string{"v/cc", "v/c/x", "v/c/.zattrs"}, dataset: true,
		},
		"names that begin with a dot": {
			has: []string{".zgroup", ".cal/.zarray", ".cal/0", ".raw/.zgroup"}, foreign: []string{".git/HEAD", ".zattrs/.zarray", ".nczreplacing/.zarray", ".nczgrowing/a/0"}, dataset: true,
		},
		"version 3 in version 2": {
			has:     []string{".zgroup", "g/.zgroup", "both/.zarray", "both/zarr.json", "both/0"},
			foreign: []string{"v/zarr.json", "v/c/0", "g/w/zarr.json", "g/w/0.0", "h/zarr.json", "h/x/.zarray", "h/x/0", "h/y/zarr.json"},
			dataset: true,
		},
		"version 2 in version 3": {
			has: []string{"zarr.json", "both/zarr.json", "both/.zarray", "both/0"}, foreign: []string{"g/.zgroup", "g/v/zarr.json", "g/v/c/0", "o/.zgroup", "o/d/.zarray", "o/d/0", "w/.zarray", "w/0"}, dataset: true,
		},
		"version 2 and 3": {has: []string{"zarr.json", ".zgroup", "g/.zgroup", "g/v/zarr.json", "g/v/c/0", "h/zarr.json"}, dataset: true},
		"no documents":    {foreign: []string{".nczprobe-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "v/0.0", "v/0.1"}},
	} {
		all := slices.Concat(c.has, c.foreign)
		slices.Sort(all)
		slices.Sort(c.foreign)
		foreign, dataset := zarr.Foreign(all, nil)
		if !slices.Equal(foreign, c.foreign) || dataset != c.dataset {
			t.Errorf("%s: want foreign names %q, dataset %t; got %q, %t", name, c.foreign, c.dataset, foreign, dataset)
		}
	}
}

// TestForeignByDocuments checks that the content of documents determines which objects
// belong to an array or a group.
func TestForeignByDocuments(t *testing.T) {
	t.Parallel()
	const group, shape = `{"zarr_format": 2}`, `{"zarr_format": 2, "fill_value": NaN, "shape": `
	const list = `{"_nczarr_group": {"dimensions": {}, "arrays": ["v"], "groups": ["g"]}`
	for name, c := range map[string]struct {
		docs         zarr.Docs
		has, foreign []string
	}{
		"rank 2":          {zarr.Docs{".zarray": arrayDoc(shape, "[4, 4]", ".")}, []string{"0.0", "99.12"}, []string{"0", "1.2.3.4", "0/0", "0/", "00.1", "0."}},
		"rank 2, slashes": {zarr.Docs{".zarray": arrayDoc(shape, "[4, 4]", "/")}, []string{"0/0", "99/12", "3/"}, []string{"0", "0.0", "1/2/3", "1/2/", "0/00", "x/"}},
		"rank 1":          {zarr.Docs{".zarray": arrayDoc(shape, "[4]", ".")}, []string{"0", "7"}, []string{"0.0", "2020.01", "20200101.5", "0/1", "0/"}},
		"rank 0":          {zarr.Docs{".zarray": arrayDoc(shape, "[]", ".")}, []string{"0"}, []string{"0.0", "c"}},
		"no separator":    {zarr.Docs{".zarray": []byte(shape + `[4, 4]}`)}, []string{"0.0", "1/1", "1/"}, []string{"0", "0.0.0", "0/0/0"}},
		"damaged":         {zarr.Docs{".zarray": []byte(shape)}, []string{"0", "1.2.3.4", "0/0"}, []string{"x"}},
		"version 3": {
			zarr.Docs{"zarr.json": []byte(`{"node_type": "array", "shape": [4, 4], "chunk_key_encoding": {"name": "default"}}`)},
			[]string{"c/0/1", "c/7/", "c/"},
			[]string{"c", "0/1", "c.0.1", "c/0", "c/0/1/2", "0.1"},
		},
		"version 3, keys of version 2": {
			zarr.Docs{"zarr.json": []byte(`{"node_type": "array", "shape": [4, 4], "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}}`)},
			[]string{"0.1"},
			[]string{"c/0/1", "0/1"},
		},
		"version 3, keys with a suffix": {
			zarr.Docs{"zarr.json": []byte(`{"node_type": "array", "shape": [4, 4], "chunk_key_encoding": {"name": "zarrs.default_suffix", "configuration": {"suffix": ".tiff"}}}`)},
			[]string{"c/0/1.tiff", "c/7/"},
			[]string{"c/0/1", "c/0.tiff/1", "0/1.tiff", "c/0.tiff", ".tiff"},
		},
		"version 3, a group": {zarr.Docs{"zarr.json": []byte(`{"node_type": "group"}`)}, nil, []string{"c/0", "0"}},
		"version 3, nodes in an array": {
			zarr.Docs{"zarr.json": []byte(`{"node_type": "group"}`), "a/zarr.json": []byte(`{"node_type": "array", "shape": [4], "chunk_key_encoding": {"name": "default"}}`)},
			[]string{"a/c/0"},
			[]string{"a/hidden/zarr.json", "a/hidden/d/zarr.json", "a/hidden/d/c/0", "a/old/.zgroup"},
		},
		"lists": {
			zarr.Docs{".zgroup": []byte(group), ".zattrs": []byte(list + `}`), "v/.zarray": arrayDoc(shape, "[1]", "."), "g/.zgroup": []byte(group), "g/w/.zarray": arrayDoc(shape, "[1]", ".")},
			[]string{"v/0", "v/.zattrs", "g/.zattrs", "g/w/0"},
			[]string{"other/.zgroup", "other/.zattrs", "other/v/.zarray", "other/v/0", "ocean/.zarray", "ocean/0"},
		},
		"a dataset in a group": {
			zarr.Docs{
				".zgroup": []byte(group), "g/.zgroup": []byte(group), "g/v/.zarray": arrayDoc(shape, "[1]", "."),
			},
			[]string{"g/v/0"},
			[]string{"ocean/.zgroup", "ocean/.zattrs", "ocean/v/.zarray", "ocean/v/0"},
		},
	} {
		var all []string
		for key := range c.docs {
			all = append(all, key)
		}
		docs := c.docs
		if name == "a dataset in a group" {
			docs["ocean/.zgroup"], docs["ocean/.zattrs"] = []byte(group), []byte(`{"_nczarr_superblock": {"version": "2.0.0"}}`)
		}
		all = slices.Concat(all, c.has, c.foreign)
		want := slices.Clone(c.foreign)
		slices.Sort(want)
		foreign, dataset := zarr.Foreign(all, docs)
		slices.Sort(foreign)
		if foreign = slices.Compact(foreign); !slices.Equal(foreign, want) || !dataset {
			t.Errorf("%s: want foreign names %q, got %q, dataset %t", name, want, foreign, dataset)
		}
		read := zarr.MemberDocs(all)
		for key := range docs {
			if !slices.Contains(read, key) {
				t.Errorf("%s: MemberDocs lacks %q", name, key)
			}
		}
	}
}

// arrayDoc returns a .zarray that consists of head, the shape and the separator.
func arrayDoc(head, shape, sep string) []byte {
	return []byte(head + shape + `, "dimension_separator": "` + sep + `"}`)
}
