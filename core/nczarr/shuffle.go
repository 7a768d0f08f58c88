package nczarr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// New arrays always state the element size of shuffle: readers disagree about
// what a missing one or 0 means (numcodecs: 4, and no shuffling at all;
// libnetcdf: the size of the type), and read wrong values without an error.
//
// Source: numcodecs shuffle.py; netcdf-c plugins/NCZhdf5filters.c.
const (
	shuffleID = "shuffle"
	sizeKey   = "elementsize"
)

// shuffleSize gives the element size that the parameters state, 0 when they
// state none.
func shuffleSize(params json.RawMessage) int {
	var p struct {
		ElementSize json.RawMessage `json:"elementsize"`
	}
	if json.Unmarshal(params, &p) != nil {
		return 0 // the codec says what is wrong with them
	}
	n, err := strconv.Atoi(strings.Trim(string(p.ElementSize), `"`))
	if err != nil {
		return 0
	}
	return n
}

// sizeUnknown gives the chain with 0, the size of the type, where no element
// size is stated. Other parameters stay: the codec refuses unknown ones.
func sizeUnknown(chain []zarr.CodecSpec) []zarr.CodecSpec {
	chain = slices.Clone(chain)
	for i, c := range chain {
		if c.ID == shuffleID && shuffleSize(c.Params) == 0 {
			chain[i].Params = withSize(c.Params, 0)
		}
	}
	return chain
}

// withSize gives parameters of shuffle with an element size; those that are no
// object, or state something that is no size, stay for the codec to refuse.
func withSize(params json.RawMessage, size int) json.RawMessage {
	set := map[string]json.RawMessage{}
	if len(params) > 0 && json.Unmarshal(params, &set) != nil {
		return params
	}
	if old, ok := set[sizeKey]; ok && !slices.Contains([]string{"0", `"0"`, "null"}, string(old)) {
		return params
	}
	var b bytes.Buffer
	b.WriteString(`{"id": "shuffle", "elementsize": ` + strconv.Itoa(size))
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if key != "id" && key != sizeKey {
			name, _ := json.Marshal(key) // a string
			fmt.Fprintf(&b, ", %s: %s", name, set[key])
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

// sizeStated replaces those 0 by the size of the elements that get there.
func sizeStated(chain []zarr.CodecSpec, specs []codecdriver.Spec) []zarr.CodecSpec {
	chain = slices.Clone(chain)
	for i, c := range chain {
		if size := specs[i].DType.Size; c.ID == shuffleID && shuffleSize(c.Params) == 0 && size > 0 {
			chain[i].Params = withSize(c.Params, size)
		}
	}
	return chain
}
