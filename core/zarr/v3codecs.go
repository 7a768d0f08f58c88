package zarr

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// chainV3 parses a chain of codecs, including the inner chain of sharding_indexed. The
// returned byte order is "<" or ">", or "" if the chain specifies none.
func (n *node) chainV3(a *Array, v jsontext.Value) (order string, err error) {
	if v.Kind() != jsontext.Array || v.Len() == 0 {
		return "", n.bad(V3Doc, "codecs", "expected an array of codecs, found %s", orMissing(v))
	}
	if v.Len() > maxCodecs {
		return "", ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(V3Doc), "codecs: the array has more than the limit of %d codecs", maxCodecs)
	}
	toBytes := false // the chain has an array-to-bytes codec
	level, sharded, reshaped := len(a.Shards), false, false
	err = v.Elems(func(_ int, e jsontext.Value) error {
		name, conf, err := n.extension("codecs", e, false)
		if err != nil {
			return err
		}
		id := strings.TrimPrefix(name, "numcodecs.")
		makesBytes := name == "bytes" || name == "vlen-utf8" || name == "vlen-bytes" || name == "sharding_indexed" || name == "packbits"
		switch {
		case slices.Contains(refusedV3, id):
			return n.unknown("codecs", "codec %q", clip(name))
		case makesBytes && toBytes:
			return n.bad(V3Doc, "codecs", "%q is the second array-to-bytes codec", clip(name))
		case toBytes && name == "transpose":
			return n.bad(V3Doc, "codecs", "codec \"transpose\" must precede the array-to-bytes codec")
		}
		toBytes = toBytes || makesBytes
		switch name {
		case "transpose":
			if c := a.firstInexchangeable(); c != "" {
				return n.unknown("codecs", "codec \"transpose\" after codec %q", clip(c))
			}
			if reshaped {
				return n.unknown("codecs", "codec \"transpose\" after \"reshape\"")
			}
			return n.transpose(a, conf.Get("order"))
		case "reshape", "zarrs.squeeze": // the order of the elements does not change
			reshaped = true
			if toBytes {
				return n.bad(V3Doc, "codecs", "codec %q must precede the array-to-bytes codec", clip(name))
			} else if name == "reshape" {
				return n.reshape(a, conf.Get("shape"))
			}
			return nil
		case "packbits":
			order, id = "<", packbitsV3
		case "bytes":
			if order, err = n.endian(conf); order == ">" && len(a.Codecs) > 0 {
				return n.unknown("codecs", "codec \"bytes\" with big-endian order after an array-to-array codec")
			}
			return err
		case "sharding_indexed":
			if c := a.firstInexchangeable(); c != "" {
				return n.unknown("codecs", "codec \"sharding_indexed\" after codec %q", clip(c))
			}
			if reshaped {
				return n.unknown("codecs", "codec \"sharding_indexed\" after \"reshape\"")
			}
			sharded = true
			order, err = n.shardV3(a, conf)
			return err
		}
		params, err := paramsOf(id, conf)
		if sharded {
			s := &a.Shards[level]
			s.Around = append(s.Around, CodecSpec{ID: id, Params: params})
			return err
		}
		if a.Codecs = append(a.Codecs, CodecSpec{ID: id, Params: params}); !toBytes {
			a.ArrayCodecs++
		}
		return err
	})
	if err == nil && !toBytes {
		after := ""
		if k := len(a.Codecs); k > 0 {
			after = fmt.Sprintf("; %q is not known to be one", clip(a.Codecs[k-1].ID))
		}
		err = n.bad(V3Doc, "codecs", "missing array-to-bytes codec%s", after)
	}
	return order, err
}

// elementwise lists the ids of codecs that change elements one by one. They have the same
// effect before and after a transposition or a division into smaller chunks.
var elementwise = []string{"astype", "bitround", "cast_value", "fixedscaleoffset", "quantize", "scale_offset"}

// firstInexchangeable returns the id of the first codec of a that is not elementwise, or "".
func (a *Array) firstInexchangeable() string {
	for _, c := range a.Codecs {
		if !slices.Contains(elementwise, c.ID) {
			return c.ID
		}
	}
	return ""
}

// reshape checks the codec "reshape". The codec only changes the shape in which later
// codecs see the elements, and no supported codec after it depends on the shape.
//
// Source: zarr-extensions, "reshape".
func (n *node) reshape(a *Array, v jsontext.Value) error {
	if a.Grid != nil {
		return n.unknown("codecs", "codec \"reshape\" in a rectilinear grid")
	}
	in := slices.Clone(a.Chunks)
	for i, d := range a.Transpose {
		in[i] = a.Chunks[d]
	}
	total, known, missing, last := chunk.Product(in), int64(1), false, int64(-1)
	bad := func() error {
		return n.bad(V3Doc, "codecs", "reshape: expected a shape for the elements of a chunk of shape %v, found %s", in, orMissing(v))
	}
	if v.Kind() != jsontext.Array || v.Len() > chunk.MaxRank {
		return bad()
	}
	err := v.Elems(func(_ int, e jsontext.Value) error {
		size, ok := e.Int64()
		switch {
		case e.Kind() == jsontext.Array:
			size, ok = 1, true
			err := e.Elems(func(_ int, d jsontext.Value) error {
				k, is := d.Int64()
				if !is || k <= last || k >= int64(len(in)) {
					return bad()
				}
				size, last = size*in[k], k
				return nil
			})
			if err != nil {
				return err
			}
		case ok && size == -1 && !missing:
			missing, size = true, 1
		}
		if !ok || size < 1 || size > total/known {
			return bad()
		}
		known *= size
		return nil
	})
	if err == nil && (known != total && !missing || total%known != 0) {
		err = bad()
	}
	return err
}

// endian returns the byte order of the codec "bytes": "<", ">", or "" if not specified.
func (n *node) endian(conf jsontext.Value) (order string, err error) {
	switch v := conf.Get("endian"); v {
	case "", "null":
		return "", nil
	case `"little"`:
		return "<", nil
	case `"big"`:
		return ">", nil
	default:
		return "", n.bad(V3Doc, "codecs", `endian: expected "little" or "big", found %s`, clip(v))
	}
}

// paramsOf returns the parameters of a codec in their v2 form, which includes the id.
func paramsOf(id string, conf jsontext.Value) (json.RawMessage, error) {
	w := jsontext.Writer{Style: jsontext.Spaced}
	w.Open('{')
	w.Key("id").String(id)
	if conf != "" {
		for _, m := range jsontext.Members(nil, conf) {
			text, isType := typesV3[m.Val.Text()]
			shuffle, isShuffle := shuffles[m.Val.Text()]
			switch {
			case m.Key == "id", id == "blosc" && m.Key == "typesize": // v2 derives the value from the dtype
			case id == "blosc" && m.Key == "shuffle" && isShuffle:
				w.Key(m.Key).Int(shuffle)
			case isType && strings.HasSuffix(m.Key, "type"): // v2 spells the value like a dtype
				w.Key(m.Key).String(strings.Replace(text, "*", "<", 1))
			default:
				w.Key(m.Key).Value(m.Val)
			}
		}
	}
	w.Close()
	return w.Bytes(), nil
}

// transpose applies a permutation of the dimensions to a.Transpose.
func (n *node) transpose(a *Array, v jsontext.Value) error {
	order, err := n.lengths("codecs: transpose: order", v)
	if err != nil {
		return err
	}
	rank := len(a.Shape)
	out, seen := make([]int, rank), make([]bool, rank)
	if len(order) != rank {
		return n.bad(V3Doc, "codecs", "transpose: order has %d dimensions, but shape has %d", len(order), rank)
	}
	for i, d := range order {
		if d >= int64(rank) || seen[d] {
			return n.bad(V3Doc, "codecs", "transpose: order %v is not a permutation", order)
		}
		seen[d] = true
		if out[i] = int(d); a.Transpose != nil {
			out[i] = a.Transpose[d]
		}
	}
	if a.Transpose = out; slices.IsSorted(out) {
		a.Transpose = nil
	}
	return nil
}

// shardV3 parses the configuration of sharding_indexed, and sets a.Chunks to the shape of
// the inner chunks.
func (n *node) shardV3(a *Array, conf jsontext.Value) (order string, err error) {
	if len(a.Shards) == maxShards {
		return "", ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(V3Doc), "codecs: shards are nested deeper than the limit of %d levels", maxShards)
	}
	stored, err := n.chunkShape("codecs: sharding_indexed", conf, len(a.Shape))
	if err != nil {
		return "", err
	}
	inner := slices.Clone(stored)
	for i, d := range a.Transpose {
		inner[d] = stored[i]
	}
	if _, ok := a.ChunkGrid().Over(inner); !ok {
		return "", ncerr.Errorf(ncerr.ErrBadChunk, "parse", n.key(V3Doc), "codecs: inner chunk shape %v does not divide shard shape %v", inner, ShownGrid(a.ChunkGrid()))
	}
	s := Shard{Shape: a.Chunks, Grid: a.Grid, Axes: slices.Clone(a.Transpose), Before: len(a.Codecs)}
	switch where := conf.Get("index_location"); where.Text() {
	case "", "end":
	case "start":
		s.AtStart = true
	default:
		return "", n.bad(V3Doc, "codecs", `index_location: expected "start" or "end", found %s`, clip(where))
	}
	list := conf.Get("index_codecs")
	if list.Kind() != jsontext.Array {
		return "", n.bad(V3Doc, "codecs", "index_codecs: expected an array of codecs, found %s", orMissing(list))
	}
	err = list.Elems(func(i int, e jsontext.Value) error {
		name, conf, err := n.extension("index_codecs", e, false)
		switch {
		case err != nil:
			return err
		case i == 0 && name == "bytes":
			order, err := n.endian(conf)
			s.Big = order == ">"
			return err
		case i == 1 && name == "crc32c":
			s.Checksum = true
			return nil
		}
		return n.unknown("codecs", "codec %q for the index of a shard", clip(name))
	})
	if err == nil && list.Len() == 0 {
		err = n.bad(V3Doc, "codecs", "index_codecs: missing array-to-bytes codec")
	}
	if err != nil {
		return "", err
	}
	a.Shards, a.Chunks, a.Grid = append(a.Shards, s), inner, nil
	return n.chainV3(a, conf.Get("codecs"))
}
