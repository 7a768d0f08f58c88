package nczarr

import (
	"encoding/json"
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
const shuffleID = "shuffle"

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
// size is stated.
func sizeUnknown(chain []zarr.CodecSpec) []zarr.CodecSpec {
	chain = slices.Clone(chain)
	for i, c := range chain {
		if c.ID == shuffleID && (len(c.Params) == 0 || json.Valid(c.Params)) && shuffleSize(c.Params) == 0 {
			chain[i].Params = json.RawMessage(`{"id": "shuffle", "elementsize": 0}`)
		}
	}
	return chain
}

// sizeStated replaces those 0 by the size of the elements that get there.
func sizeStated(chain []zarr.CodecSpec, specs []codecdriver.Spec) []zarr.CodecSpec {
	chain = slices.Clone(chain)
	for i, c := range chain {
		if size := specs[i].DType.Size; c.ID == shuffleID && shuffleSize(c.Params) == 0 && size > 0 {
			chain[i].Params = json.RawMessage(`{"id": "shuffle", "elementsize": ` + strconv.Itoa(size) + `}`)
		}
	}
	return chain
}
