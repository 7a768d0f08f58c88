package zarr

import (
	"encoding/json"
	"slices"

	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
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

// filterOnly are the codecs that never stand as compressor: those that
// prepare data for one, or check it, and those that turn objects into bytes.
//
// Source: numcodecs, "Codecs for filters"; Zarr v2, "filters".
var filterOnly = []string{
	"shuffle", "bitshuffle", "delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits", "categorize",
	"fletcher32", "adler32", "crc32", "crc32c", "jenkins_lookup3",
	"vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2", "pickle",
}

// splitCodecs cuts a chain into v2's filters and compressor.
func splitCodecs(chain []CodecSpec) (filters []CodecSpec, compressor *CodecSpec) {
	n := len(chain)
	if n == 0 || slices.Contains(filterOnly, chain[n-1].ID) {
		return chain, nil
	}
	return chain[:n-1], &chain[n-1]
}

// writeCodec writes a codec with its id, first when the parameters lack it.
func writeCodec(w *jsontext.Writer, c CodecSpec) error {
	params := json.RawMessage("{}")
	if len(c.Params) > 0 {
		params = c.Params
	}
	v, err := jsontext.Check(string(params))
	if err != nil || v.Kind() != jsontext.Object {
		return invalid("parameters of codec %q are no JSON object: %s", c.ID, clip(c.Params))
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
