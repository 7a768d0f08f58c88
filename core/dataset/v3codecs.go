package dataset

import (
	"encoding/json"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// orderCodecs adapts the codecs of a new array to a layout in which a separate codec sets
// the byte order. It counts the codecs before the separate codec, removes the byte order
// from their parameters, and adds the parameters that readers of Zarr v3 require. It
// fails if a codec for arrays follows a codec for bytes.
func (v *Var) orderCodecs(codecs codec.Catalog) error {
	if !v.meta.Layout.ByteOrderInCodec() {
		return nil
	}
	v.meta.ArrayCodecs = 0
	for i := range v.meta.Codecs {
		c := &v.meta.Codecs[i]
		d, _ := codecs.Find(c.ID)
		arrays := d.Transform == codecdriver.ArrayToArray && d.Objects == codecdriver.NoObjects
		if arrays && v.meta.ArrayCodecs < i {
			return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "in Zarr v3 the codec %q, which takes arrays, cannot follow %q", c.ID, v.meta.Codecs[i-1].ID)
		}
		var params map[string]json.RawMessage
		if arrays {
			v.meta.ArrayCodecs++
			v.meta.DType = littleEndian(v.meta.DType)
		}
		if len(c.Params) > 0 && json.Unmarshal(c.Params, &params) != nil {
			continue // the codec refuses the parameters
		}
		if params == nil {
			params = make(map[string]json.RawMessage)
		}
		for _, p := range d.Params {
			text := string(params[p.Name])
			switch {
			case arrays && p.Type == codecdriver.DTypeParam:
				if rest, big := strings.CutPrefix(text, `">`); big {
					params[p.Name] = json.RawMessage(`"<` + rest)
				}
			case text != "" || p.Default == "" || strings.HasPrefix(d.V3, "numcodecs.") || p.Type == codecdriver.BoolParam || p.Input != codecdriver.NoProperty:
			case p.Type == codecdriver.TextParam:
				quoted, _ := json.Marshal(p.Default) // strings always marshal
				params[p.Name] = quoted
			default:
				params[p.Name] = json.RawMessage(p.Default)
			}
		}
		id, _ := json.Marshal(c.ID) // strings always marshal
		params["id"] = id
		text, err := json.Marshal(params)
		if err != nil {
			return ncerr.New(ncerr.ErrInternal, "", "", err)
		}
		c.Params = text
	}
	return nil
}

// littleEndian returns t with little-endian elements if it is big-endian.
func littleEndian(t dtype.Type) dtype.Type {
	if t.Order == dtype.Big {
		t.Order = dtype.Little
	}
	return t
}
