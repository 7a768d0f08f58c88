package zarr

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// writeShardsV3 writes the codecs for the given levels of shards of an array. axes is the
// order of the dimensions in the shard or array that contains the outermost of these levels.
// writeShardsV3 is the reverse of chainV3 and shardV3.
//
// Source: Zarr v3, "Sharding codec"; zarr-python 3.4.2 for the spelling.
func writeShardsV3(w *jsontext.Writer, a *Array, levels []Shard, axes []int) (err error) {
	first := 0 // the first codec that is not yet written
	if outer := len(a.Shards) - len(levels); outer > 0 {
		first = a.Shards[outer-1].Before
	}
	if len(levels) == 0 {
		return writeChainV3(w, a, axes, first)
	}
	inner := a.Chunks
	if len(levels) > 1 {
		inner = levels[1].Shape
	}
	stored := slices.Clone(inner)
	for i, d := range levels[0].Axes {
		stored[i] = inner[d]
	}
	w.Open('[')
	defer w.Close()
	writeTransposeV3(w, axes, levels[0].Axes)
	for _, c := range a.Codecs[first:levels[0].Before] {
		if err := writeCodecV3(w, c, a.DType); err != nil {
			return err
		}
	}
	extensionV3(w, "sharding_indexed", func() {
		w.Key("chunk_shape").Ints(stored)
		w.Key("codecs")
		err = writeShardsV3(w, a, levels[1:], levels[0].Axes)
		w.Key("index_codecs").Open('[')
		endian := map[bool]string{true: "big", false: "little"}[levels[0].Big]
		extensionV3(w, "bytes", func() { w.Key("endian").String(endian) })
		if levels[0].Checksum {
			extensionV3(w, "crc32c", nil)
		}
		w.Close()
		w.Key("index_location").String(map[bool]string{true: "start", false: "end"}[levels[0].AtStart])
	})
	for _, c := range levels[0].Around {
		if err == nil {
			err = writeCodecV3(w, c, dtype.Type{})
		}
	}
	return err
}

// writeTransposeV3 writes the codec that changes the order of dimensions from the first
// order to the second, or nothing if the orders are equal. A nil order is the array's order.
func writeTransposeV3(w *jsontext.Writer, from, to []int) {
	if slices.Equal(from, to) {
		return
	}
	order := make([]int64, max(len(from), len(to)))
	for i := range order {
		d := i
		if to != nil {
			d = to[i]
		}
		if order[i] = int64(d); from != nil {
			order[i] = int64(slices.Index(from, d))
		}
	}
	extensionV3(w, "transpose", func() { w.Key("order").Ints(order) })
}

// writeChainV3 writes the codecs of a chunk in a shard or array whose dimensions have the
// order axes, from the given codec.
func writeChainV3(w *jsontext.Writer, a *Array, axes []int, first int) error {
	w.Open('[')
	defer w.Close()
	writeTransposeV3(w, axes, a.Transpose)
	for i := first; i < len(a.Codecs); i++ {
		c := a.Codecs[i]
		if i == a.ArrayCodecs && c.ID != packbitsV3 {
			writeBytesV3(w, a)
		}
		if err := writeCodecV3(w, c, a.DType); err != nil {
			return err
		}
	}
	if len(a.Codecs) == a.ArrayCodecs {
		writeBytesV3(w, a)
	}
	return nil
}

// writeBytesV3 writes the codec "bytes". Arrays with elements of variable length do not
// have this codec.
func writeBytesV3(w *jsontext.Writer, a *Array) {
	t := a.DType
	if a.isStruct() {
		t.Order, _ = fieldOrder(a.Fields) // checkChainV3 fails if the fields have no common order
	}
	switch {
	case !t.Fixed():
	case t.Order == dtype.Big:
		extensionV3(w, "bytes", func() { w.Key("endian").String("big") })
	case t.Order == dtype.Little || a.ArrayCodecs > 0: // array codecs may produce multi-byte elements
		extensionV3(w, "bytes", func() { w.Key("endian").String("little") })
	default:
		extensionV3(w, "bytes", nil)
	}
}

// checkChainV3 fails if the codec chain of the array is not valid in Zarr v3.
func (a *Array) checkChainV3() error {
	unsupported := func(format string, args ...any) error {
		return ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", format, args...)
	}
	wants := map[dtype.Kind]string{dtype.String: "vlen-utf8", dtype.VlenBytes: "vlen-bytes"}[a.DType.Kind]
	if a.isStruct() {
		if _, err := fieldOrder(a.Fields); err != nil {
			return err
		}
	}
	orders := [][]int{a.Transpose}
	for _, s := range a.Shards {
		orders = append(orders, s.Axes)
	}
	for _, order := range orders {
		sorted := slices.Sorted(slices.Values(order))
		for i, d := range sorted {
			if i != d || len(order) != len(a.Shape) {
				return invalid("storage order %v is not a permutation of the dimensions", order)
			}
		}
	}
	before := 0
	for i, s := range a.Shards {
		if _, ok := a.ShardGrid(i); !ok {
			return invalid("shards of shape %v do not consist of whole chunks of shape %v", s.Shape, a.Chunks)
		}
		if s.Before < before || s.Before > a.ArrayCodecs {
			return invalid("%d codecs precede shards of shape %v, but only %d to %d are possible", s.Before, s.Shape, before, a.ArrayCodecs)
		}
		before = s.Before
	}
	switch {
	case a.ArrayCodecs < 0 || a.ArrayCodecs > len(a.Codecs):
		return invalid("%d array-to-array codecs, but only %d codecs", a.ArrayCodecs, len(a.Codecs))
	case a.ArrayCodecs > 0 && (wants != "" || a.DType.Order == dtype.Big):
		return unsupported("in Zarr v3 the codec %q cannot be an array-to-array codec for elements of type %s", a.Codecs[0].ID, a.DType)
	case wants != "" && (len(a.Codecs) == 0 || a.Codecs[0].ID != wants):
		return unsupported("in Zarr v3 elements of type %s require the codec %q", a.DType, wants)
	case wants == "" && len(a.Codecs) > 0 && strings.HasPrefix(a.Codecs[0].ID, "vlen-"):
		return unsupported("in Zarr v3 the codec %q does not support elements of type %s", a.Codecs[0].ID, a.DType)
	}
	return nil
}

// OnlyV3 reports whether a codec exists only in Zarr v3.
func OnlyV3(id string) bool { return id == "cast_value" || id == "scale_offset" || id == packbitsV3 }

// writeCodecV3 writes a codec whose parameters are in their v2 form; it is the reverse of
// paramsOf.
func writeCodecV3(w *jsontext.Writer, c CodecSpec, t dtype.Type) error {
	params := c.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	v, err := jsontext.Check(string(params))
	if err != nil || v.Kind() != jsontext.Object {
		return invalid("the parameters of codec %q are not a JSON object: %s", c.ID, clip(c.Params))
	}
	name := c.ID
	switch {
	case c.ID == "crc32c" && (v.Get("location") == "" || v.Get("location").Text() == "end"):
		extensionV3(w, name, nil)
		return nil
	case c.ID == packbitsV3:
		name = "packbits"
	case c.ID == "crc32c" || !slices.Contains(coreV3, c.ID):
		name = "numcodecs." + name
	}
	extensionV3(w, name, func() {
		for _, m := range jsontext.Members(nil, v) {
			switch {
			case m.Key == "id", c.ID == "blosc" && m.Key == "typesize":
			case c.ID == "cast_value" && m.Key == "data_type":
				w.Key(m.Key).String(dataTypeV3(m.Val.Text()))
			case c.ID == "blosc" && m.Key == "shuffle":
				w.Key(m.Key).String(shuffleV3(m.Val, t))
			case c.ID == "gzip" && m.Key == "level" && m.Val == "-1": // zlib's default level
				w.Key(m.Key).Int(6)
			default:
				w.Key(m.Key).Value(m.Val)
			}
		}
		if c.ID == "blosc" {
			w.Key("typesize").Int(int64(min(max(t.Size, 1), math.MaxUint8)))
		}
	})
	return nil
}

// shuffleV3 returns the v3 name of a blosc shuffle. In v2 the shuffle may be a number or
// one of GDAL's words.
//
// Source: numcodecs, blosc.pyx, for automatic shuffle.
func shuffleV3(v jsontext.Value, t dtype.Type) string {
	text := v.Text()
	switch words := []string{"noshuffle", "shuffle", "bitshuffle"}; {
	case text == "NONE" || text == "0":
		return words[0]
	case text == "BYTE" || text == "1":
		return words[1]
	case text == "BIT" || text == "2":
		return words[2]
	case slices.Contains(words, text):
		return text
	case max(t.Size, 1) == 1: // the automatic shuffle depends on the element size
		return words[2]
	default:
		return words[1]
	}
}
