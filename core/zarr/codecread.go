package zarr

import (
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// codecs parses filters and compressor.
func (n *node) codecs(d arrayDoc) ([]CodecSpec, error) {
	var list []CodecSpec
	add := func(member string, v jsontext.Value) error {
		if v.Kind() != jsontext.Object {
			return n.bad(ArrayDoc, member, "expected a codec, found %s", clip(v))
		}
		id := v.Get("id")
		if id.Kind() != jsontext.String || id.Text() == "" {
			return n.bad(ArrayDoc, member, "codec %s has no id", clip(v))
		}
		list = append(list, CodecSpec{ID: id.Text(), Params: strictJSON(v, n.doc(ArrayDoc).Strict)})
		return nil
	}
	switch d.filters.Kind() {
	case jsontext.Invalid, jsontext.Null:
	case jsontext.Array:
		err := d.filters.Elems(func(i int, e jsontext.Value) error {
			if i == maxCodecs {
				return ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "filters: the list exceeds the limit of %d codecs", maxCodecs)
			}
			return add("filters", e)
		})
		if err != nil {
			return nil, err
		}
	default:
		return nil, n.bad(ArrayDoc, "filters", "expected an array of codecs, found %s", clip(d.filters))
	}
	if d.compresses() {
		if err := add("compressor", d.compressor); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// compresses reports whether the array has a compressor.
func (d *arrayDoc) compresses() bool {
	return d.compressor != "" && d.compressor.Kind() != jsontext.Null
}

// maxCodecs is the maximum length of a codec chain, the same as in HDF5.
//
// Source: HDF5, H5Z_MAX_NFILTERS.
const maxCodecs = 32

// strictJSON returns v unchanged if strict is set, and converted to strict JSON
// otherwise.
func strictJSON(v jsontext.Value, strict bool) json.RawMessage {
	if strict {
		return json.RawMessage(v)
	}
	var w jsontext.Writer
	w.Style = jsontext.Spaced
	w.Value(v)
	return w.Bytes()
}
