package dataset

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

// New arrays always specify the element size of shuffle, and of other codecs with such
// a parameter. Readers disagree about a missing size or a size of 0 and silently read
// wrong values: numcodecs uses 4 for a missing size and does not shuffle with 0, while
// libnetcdf uses the size of the type.
//
// Source: numcodecs shuffle.py; netcdf-c plugins/NCZhdf5filters.c.

// clearElementSize returns the chain with 0, which means the size of the type, for each
// unspecified element size. It preserves other parameters; the codec refuses unknown
// ones.
func clearElementSize(codecs codec.Catalog, chain []zarr.CodecSpec) []zarr.CodecSpec {
	chain = slices.Clone(chain)
	for i, c := range chain {
		if key := sizeKey(codecs, c); key != "" {
			chain[i].Params = withSize(c, key, 0)
		}
	}
	return chain
}

// setElementSize replaces the 0 set by clearElementSize with the size of the codec's
// input elements.
func setElementSize(codecs codec.Catalog, chain []zarr.CodecSpec, specs []codecdriver.Spec) []zarr.CodecSpec {
	chain = slices.Clone(chain)
	for i, c := range chain {
		if key, size := sizeKey(codecs, c), specs[i].DType.Size; key != "" && size > 0 {
			chain[i].Params = withSize(c, key, size)
		}
	}
	return chain
}

// sizeKey returns the name of c's element size parameter if c does not specify its
// value, and "" otherwise.
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

// withSize returns the parameters of c with an element size. It returns invalid
// parameters unchanged, so that the codec refuses them.
func withSize(c zarr.CodecSpec, sizeKey string, size int) json.RawMessage {
	set := map[string]json.RawMessage{}
	if len(c.Params) > 0 && json.Unmarshal(c.Params, &set) != nil {
		return c.Params
	}
	if old, ok := set[sizeKey]; ok && !slices.Contains([]string{"0", `"0"`, "null"}, string(old)) {
		return c.Params
	}
	id, _ := json.Marshal(c.ID) // strings always marshal
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
