package zarr_test

import (
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// TestMerge checks the rules by which the changes of two writers are combined.
func TestMerge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layout                    zarr.Layout
		doc                       string
		base, ours, theirs, tried string
		want                      string
		conflicts                 []string
	}{
		"attributes of both": {zarr.LayoutPure, ".zattrs", `{"a":1}`, `{"a":1,"b":2}`, `{"a":1,"c":3}`, "", `{"a":1,"c":3,"b":2}`, nil},
		"same attribute":     {zarr.LayoutPure, ".zattrs", `{"a":1}`, `{"a":2}`, `{"a":3}`, "", `{"a":3}`, []string{"a"}},
		"equal change":       {zarr.LayoutPure, ".zattrs", `{"a":1}`, `{"a":2}`, `{"a":2,"c":1}`, "", `{"a":2,"c":1}`, nil},
		"removed by us":      {zarr.LayoutPure, ".zattrs", `{"a":1,"b":1}`, `{"b":1}`, `{"a":1,"b":2}`, "", `{"b":2}`, nil},
		"removed and set":    {zarr.LayoutPure, ".zattrs", `{"a":1}`, `{}`, `{"a":2}`, "", `{"a":2}`, []string{"a"}},
		"put that seemed to fail": {
			zarr.LayoutPure, ".zattrs", `{"a":1}`, `{"a":3}`, `{"a":2,"c":1}`, `{"a":2}`, `{"a":3,"c":1}`, nil,
		},
		"shapes": {
			zarr.LayoutPure, ".zarray", `{"shape":[4,4],"chunks":[2,2]}`, `{"shape":[8,4],"chunks":[2,2]}`, `{"shape":[4,6],"chunks":[2,2],"x":1}`, "",
			`{"shape":[8,6],"chunks":[2,2],"x":1}`, nil,
		},
		"another array": {
			zarr.LayoutPure, ".zarray", `{"shape":[4],"chunks":[2]}`, `{"shape":[8],"chunks":[2]}`, `{"shape":[4],"chunks":[3]}`, "",
			`{"shape":[8],"chunks":[3]}`,
			[]string{"chunks"},
		},
		"dimensions and lists": {
			zarr.LayoutNewest, ".zattrs",
			`{"_nczarr_group":{"dimensions":{"t":{"size":4,"unlimited":1}},"arrays":["u"],"groups":[]}}`,
			`{"_nczarr_group":{"dimensions":{"t":{"size":6,"unlimited":1},"x":2},"arrays":["u","v"],"groups":[]}}`,
			`{"_nczarr_group":{"dimensions":{"t":{"size":5,"unlimited":1},"y":3},"arrays":["u","w"],"groups":["g"]}}`, "",
			`{"_nczarr_group":{"dimensions":{"t":{"size":6,"unlimited":1},"y":3,"x":2},"arrays":["u","w","v"],"groups":["g"]}}`, nil,
		},
		"type and value": {
			zarr.LayoutNewest, ".zattrs",
			`{"a":1,"_nczarr_attr":{"types":{"a":"<i4","_nczarr_attr":"|J0"}}}`,
			`{"a":1,"_nczarr_attr":{"types":{"a":"<i8","_nczarr_attr":"|J0"}}}`,
			`{"a":2,"_nczarr_attr":{"types":{"a":"<i4","_nczarr_attr":"|J0"}}}`, "",
			`{"a":2,"_nczarr_attr":{"types":{"a":"<i4","_nczarr_attr":"|J0"}}}`,
			[]string{"a"},
		},
		"same value of another type": {
			zarr.LayoutNewest, ".zattrs",
			`{"_nczarr_attr":{"types":{}}}`,
			`{"a":1,"_nczarr_attr":{"types":{"a":"<i8"}}}`,
			`{"a":1,"_nczarr_attr":{"types":{"a":"<f8"}}}`, "",
			`{"a":1,"_nczarr_attr":{"types":{"a":"<f8"}}}`,
			[]string{"a"},
		},
		"one changes type and value": {
			zarr.LayoutNewest, ".zattrs",
			`{"a":1,"b":1,"_nczarr_attr":{"types":{"a":"<i4","b":"<i4"}}}`,
			`{"a":1.5,"b":1,"_nczarr_attr":{"types":{"a":"<f8","b":"<i4"}}}`,
			`{"a":1,"b":2.5,"_nczarr_attr":{"types":{"a":"<i4","b":"<f8"}}}`, "",
			`{"a":1.5,"b":2.5,"_nczarr_attr":{"types":{"a":"<f8","b":"<f8"}}}`, nil,
		},
		"another spelling of a type": {
			zarr.LayoutNewest, ".zattrs",
			`{"a":1,"_nczarr_attr":{"types":{"a":">i4"}}}`,
			`{"a":1,"b":1,"_nczarr_attr":{"types":{"a":"<i4","b":"<i4"}}}`,
			`{"a":2,"_nczarr_attr":{"types":{"a":">i4"}}}`, "",
			`{"a":2,"b":1,"_nczarr_attr":{"types":{"a":">i4","b":"<i4"}}}`, nil,
		},
		"undone change of type and value": {
			zarr.LayoutNewest, ".zattrs",
			`{"a":1,"_nczarr_attr":{"types":{"a":"<i4"}}}`,
			`{"a":1,"_nczarr_attr":{"types":{"a":"<i4"}}}`,
			`{"a":2,"_nczarr_attr":{"types":{"a":"<i2"}}}`,
			`{"a":2,"_nczarr_attr":{"types":{"a":"<i8"}}}`,
			`{"a":2,"_nczarr_attr":{"types":{"a":"<i2"}}}`, nil,
		},
		"type and value in Zarr v3": {
			zarr.LayoutNCZarr3, "zarr.json",
			`{"node_type":"group","attributes":{"a":1,"_nczarr_attrs":{"attribute_types":[{"name":"a","configuration":{"type":"int32"}}]}}}`,
			`{"node_type":"group","attributes":{"a":1,"_nczarr_attrs":{"attribute_types":[{"name":"a","configuration":{"type":"int64"}}]}}}`,
			`{"node_type":"group","attributes":{"a":2,"_nczarr_attrs":{"attribute_types":[{"name":"a","configuration":{"type":"int32"}}]}}}`, "",
			`{"node_type":"group","attributes":{"a":2,"_nczarr_attrs":{"attribute_types":[{"name":"a","configuration":{"type":"int32"}}]}}}`,
			[]string{"a"},
		},
		"Zarr v3": {
			zarr.LayoutNCZarr3, "zarr.json",
			`{"node_type":"group","attributes":{"_nczarr_group":{"dimensions":[{"name":"t","size":4,"unlimited":1}],"arrays":[],"subgroups":[]}}}`,
			`{"node_type":"group","attributes":{"_nczarr_group":{"dimensions":[{"name":"t","size":6,"unlimited":1}],"arrays":[],"subgroups":[]}}}`,
			`{"node_type":"group","attributes":{"_nczarr_group":{"dimensions":[{"name":"t","size":8,"unlimited":1}],"arrays":["a"],"subgroups":[]},"b":1},"consolidated_metadata":{}}`, "",
			`{"node_type":"group","attributes":{"_nczarr_group":{"dimensions":[{"name":"t","size":8,"unlimited":1}],"arrays":["a"],"subgroups":[]},"b":1}}`, nil,
		},
	} {
		v := zarr.Versions{Base: []byte(c.base), Ours: []byte(c.ours), Theirs: []byte(c.theirs)}
		if c.tried != "" {
			v.Tried = [][]byte{[]byte(c.tried)}
		}
		got, conflicts, err := c.layout.Merge(c.doc, v)
		if err != nil || !zarr.SameJSON(got, []byte(c.want)) || !slices.Equal(conflicts, c.conflicts) {
			t.Errorf("%s: want %s and conflicts %q, got %s, %q, %v", name, c.want, c.conflicts, got, conflicts, err)
		}
	}
}
