package castvalue

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// scalarMap is the parameter scalar_map.
type scalarMap struct {
	Encode [][2]json.RawMessage `json:"encode"`
	Decode [][2]json.RawMessage `json:"decode"`
}

// table maps single values to the bits of other values.
type table []entry

type entry struct {
	key  number
	bits uint64
}

// newTable parses pairs of values of the types from and to.
func newTable(pairs [][2]json.RawMessage, from, to dtype.Type) (table, error) {
	var t table
	for _, pair := range pairs {
		key, err := scalar(from, pair[0])
		if err != nil {
			return nil, err
		}
		value, err := scalar(to, pair[1])
		if err != nil {
			return nil, err
		}
		t = append(t, entry{numberAt(from, key), to.Bits(value)})
	}
	return t, nil
}

// find returns the bits for v, and whether v has an entry. Of several entries the first
// counts.
func (t table) find(v number) (bits uint64, ok bool) {
	for i := range t {
		if k := &t[i].key; *k == v || v.isFloat && math.IsNaN(k.float) && math.IsNaN(v.float) {
			return t[i].bits, true
		}
	}
	return 0, false
}

// scalar parses a value in the form of a fill value, and returns the element.
//
// Source: Zarr v3, "Fill value representation"; zarr-extensions, "cast_value", for
// "+Infinity".
func scalar(t dtype.Type, raw json.RawMessage) ([]byte, error) {
	e := make([]byte, 8)
	text := string(raw)
	var word string
	bad := ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameter %q: %s is not a value of type %v", "scalar_map", text, t)
	if json.Unmarshal(raw, &word) == nil {
		digits, isHex := strings.CutPrefix(word, "0x")
		bits, err := strconv.ParseUint(digits, 16, 8*t.Size)
		special, isSpecial := map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "+Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}[word]
		switch {
		case t.Kind == dtype.Float && isHex && err == nil:
			t.PutBits(e, bits)
		case t.Kind == dtype.Float && isSpecial:
			t.PutFloat(e, special)
		default:
			return nil, bad
		}
		return e, nil
	}
	switch t.Kind {
	case dtype.Float:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, bad
		}
		t.PutFloat(e, f)
	case dtype.Uint:
		u, err := strconv.ParseUint(text, 10, 8*t.Size)
		if err != nil {
			return nil, bad
		}
		t.PutBits(e, u)
	default:
		i, err := strconv.ParseInt(text, 10, 8*t.Size)
		if err != nil {
			return nil, bad
		}
		t.PutBits(e, uint64(i))
	}
	return e, nil
}
