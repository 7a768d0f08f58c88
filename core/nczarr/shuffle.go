package nczarr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// New arrays always state the element size of shuffle, and of other codecs that
// have such a parameter: readers disagree about what a missing one or 0 means
// (numcodecs: 4, and no shuffling at all; libnetcdf: the size of the type), and
// read wrong values without an error.
//
// Source: numcodecs shuffle.py; netcdf-c plugins/NCZhdf5filters.c.

// sizeUnknown gives the chain with 0, the size of the type, where no element
// size is stated. Other parameters stay: the codec refuses unknown ones.
func sizeUnknown(codecs codec.Catalog, chain []zarr.CodecSpec) []zarr.CodecSpec {
	chain = slices.Clone(chain)
	for i, c := range chain {
		if key := sizeKey(codecs, c); key != "" {
			chain[i].Params = withSize(c, key, 0)
		}
	}
	return chain
}

// sizeStated replaces those 0 by the size of the elements that get there.
func sizeStated(codecs codec.Catalog, chain []zarr.CodecSpec, specs []codecdriver.Spec) []zarr.CodecSpec {
	chain = slices.Clone(chain)
	for i, c := range chain {
		if key, size := sizeKey(codecs, c), specs[i].DType.Size; key != "" && size > 0 {
			chain[i].Params = withSize(c, key, size)
		}
	}
	return chain
}

// sizeKey returns the parameter of c for the size of elements if c does not
// state it, and "" otherwise.
func sizeKey(codecs codec.Catalog, c zarr.CodecSpec) string {
	d, _ := codecs.Find(c.ID)
	i := slices.IndexFunc(d.Params, func(p codecdriver.Param) bool { return p.Input == codecdriver.InputSize })
	if i < 0 {
		return ""
	}
	var set map[string]json.RawMessage
	if json.Unmarshal(c.Params, &set) == nil {
		if n, err := strconv.Atoi(strings.Trim(string(set[d.Params[i].Name]), `"`)); err == nil && n != 0 {
			return ""
		}
	}
	return d.Params[i].Name
}

// withSize gives the parameters of c with an element size; those that are no
// object, or state something that is no size, stay for the codec to refuse.
func withSize(c zarr.CodecSpec, sizeKey string, size int) json.RawMessage {
	set := map[string]json.RawMessage{}
	if len(c.Params) > 0 && json.Unmarshal(c.Params, &set) != nil {
		return c.Params
	}
	if old, ok := set[sizeKey]; ok && !slices.Contains([]string{"0", `"0"`, "null"}, string(old)) {
		return c.Params
	}
	id, _ := json.Marshal(c.ID) // strings
	own, _ := json.Marshal(sizeKey)
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id": %s, %s: %d`, id, own, size)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if key != "id" && key != sizeKey {
			name, _ := json.Marshal(key)
			fmt.Fprintf(&b, ", %s: %s", name, set[key])
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}
