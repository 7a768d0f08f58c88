package zarr

import (
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

func writeFilters(w *jsontext.Writer, filters []CodecSpec) error {
	if len(filters) == 0 {
		w.Raw("null")
		return nil
	}
	w.Open('[')
	defer w.Close()
	for _, c := range filters {
		if err := writeCodec(w, c); err != nil {
			return err
		}
	}
	return nil
}

// splitCodecs splits the chain into v2's filters and compressor.
func (a *Array) splitCodecs() (filters []CodecSpec, compressor *CodecSpec) {
	n := len(a.Codecs)
	if n == 0 || a.NoCompressor {
		return a.Codecs, nil
	}
	return a.Codecs[:n-1], &a.Codecs[n-1]
}

// writeCodec writes a codec with its id. The id comes first if the parameters lack it.
func writeCodec(w *jsontext.Writer, c CodecSpec) error {
	params := json.RawMessage("{}")
	if len(c.Params) > 0 {
		params = c.Params
	}
	v, err := jsontext.Check(string(params))
	if err != nil || v.Kind() != jsontext.Object {
		return invalid("the parameters of codec %q are not a JSON object: %s", c.ID, clip(c.Params))
	}
	w.Open('{')
	if v.Get("id") == "" {
		w.Key("id").String(c.ID)
	}
	for _, m := range jsontext.Members(nil, v) {
		w.Key(m.Key)
		if m.Key == "id" {
			w.String(c.ID)
			continue
		}
		w.Value(m.Val)
	}
	w.Close()
	return nil
}
