package cdl

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// storage collects the properties set by the special attributes of a variable.
type storage struct {
	converter
	known   codec.Catalog
	spec    *dataset.VarSpec
	shuffle bool
	deflate int64 // -1 if not set
	sum     bool
	filters []zarr.CodecSpec
	codecs  []zarr.CodecSpec // codecs of _Codecs, which override all other fields
	chained bool             // _Codecs is set
	elem    int              // size of an element, for shuffle
}

// special handles an attribute that sets a property of the variable instead of being
// stored. It returns false for other attributes.
//
// Source: netcdf-c ncgen, special attributes.
func (s *storage) special(a *Attr) (taken bool, err error) {
	switch a.Name {
	case "_Storage":
		s.spec.Storage, err = s.word(a, "chunked", "contiguous", "compact")
	case "_ChunkSizes":
		s.spec.Chunks, err = s.integers(a)
	case "_ShardSizes":
		s.spec.Shards, err = s.integers(a)
	case "_ChunkGrid":
		s.spec.Grid, err = s.grid(a)
	case "_ShardGrid":
		s.spec.ShardGrid, err = s.grid(a)
	case "_DeflateLevel":
		s.deflate, err = s.level(a)
	case "_Shuffle":
		s.shuffle, err = s.boolean(a)
	case "_Fletcher32":
		s.sum, err = s.boolean(a)
	case "_NoFill":
		s.spec.NoFill, err = s.boolean(a)
	case "_Endianness":
		var word string
		if word, err = s.word(a, "little", "big"); word == "big" {
			s.spec.Order = dtype.Big
		} else {
			s.spec.Order = dtype.Little
		}
	case "_Filter":
		s.filters, err = s.filter(a)
	case "_Codecs":
		s.chained = true
		s.codecs, err = s.chain(a)
	default:
		return s.quantize(a)
	}
	return true, err
}

// bitRoundDigits is the name that ncgen accepts for the attribute of BitRound, although
// its value is a number of bits.
const bitRoundDigits = "_QuantizeBitRoundNumberOfSignificantDigits"

// quantize handles an attribute that sets a quantization. The attribute is also stored,
// under its standard name.
func (s *storage) quantize(a *Attr) (taken bool, err error) {
	for mode := dtype.BitGroom; mode.Attr() != ""; mode++ {
		if a.Name != mode.Attr() && (mode != dtype.BitRound || a.Name != bitRoundDigits) {
			continue
		}
		list, err := s.integers(a)
		if err != nil || len(list) != 1 {
			return true, s.bad(a, "one integer")
		}
		q := dtype.Quantization{Mode: mode, Digits: int(min(list[0], math.MaxInt32))}
		if err := q.Check(s.spec.Type); err != nil {
			return true, s.fail(ncerr.ErrInvalid, a.Pos, "%s: %w", a.Name, err)
		}
		if s.spec.Quantize.Mode != dtype.QuantizeNone {
			return true, s.fail(ncerr.ErrInvalid, a.Pos, "%s: another attribute already specifies the quantization", a.Name)
		}
		s.spec.Quantize = q
		s.spec.Attrs = append(s.spec.Attrs, dataset.Attr{Name: mode.Attr(), Type: dtype.NCInt, Value: []int32{int32(q.Digits)}}) // Digits is at most 52
		return true, nil
	}
	return false, nil
}

// finish assembles the chain of codecs. The chain is _Codecs if that is set. Otherwise it
// is shuffle, the other filters, deflate and checksum.
func (s *storage) finish() {
	if (s.spec.Chunks != nil || s.spec.Grid != nil) && s.spec.Storage == "" {
		s.spec.Storage = "chunked"
	}
	if s.chained {
		s.spec.Codecs = s.codecs
		return
	}
	var chain []zarr.CodecSpec
	if s.shuffle {
		chain = append(chain, codecSpec("shuffle", map[string]any{"elementsize": max(1, s.elem)}))
	}
	chain = append(chain, s.filters...)
	if s.deflate >= 0 {
		chain = append(chain, codecSpec("zlib", map[string]any{"level": s.deflate}))
	}
	if s.sum {
		chain = append(chain, codecSpec("fletcher32", nil))
	}
	s.spec.Codecs = chain
}

// codecSpec returns a codec with its parameters.
func codecSpec(id string, params map[string]any) zarr.CodecSpec {
	doc := map[string]any{"id": id}
	maps.Copy(doc, params)
	text, _ := json.Marshal(doc) // strings and integers always marshal
	return zarr.CodecSpec{ID: id, Params: text}
}

func (s *storage) bad(a *Attr, want string) error {
	return s.fail(ncerr.ErrInvalid, a.Pos, "%s must be %s", a.Name, want)
}

// text returns the value of an attribute if it is a single string.
func (s *storage) text(a *Attr) (string, bool) {
	if len(a.Values) != 1 || a.Values[0].Kind != Text {
		return "", false
	}
	return a.Values[0].Text, true
}

func (s *storage) word(a *Attr, allowed ...string) (string, error) {
	text, ok := s.text(a)
	for _, word := range allowed {
		if ok && text == word {
			return word, nil
		}
	}
	return "", s.bad(a, `one of "`+strings.Join(allowed, `", "`)+`"`)
}

// boolean parses "true", "false", 1 or 0, as strings or numbers.
func (s *storage) boolean(a *Attr) (bool, error) {
	text, ok := s.text(a)
	if list, err := s.integers(a); err == nil && len(list) == 1 {
		text, ok = strconv.FormatInt(list[0], 10), true
	}
	switch {
	case ok && (text == "true" || text == "1"):
		return true, nil
	case ok && (text == "false" || text == "0"):
		return false, nil
	}
	return false, s.bad(a, `"true" or "false"`)
}

// integers parses a list of non-negative integers.
func (s *storage) integers(a *Attr) ([]int64, error) {
	list := make([]int64, len(a.Values))
	if s.into(list, a.Values, nil) != nil || len(list) == 0 {
		return nil, s.bad(a, "integers")
	}
	for _, n := range list {
		if n < 0 {
			return nil, s.bad(a, "non-negative integers")
		}
	}
	return list, nil
}

// grid parses a rectilinear grid.
func (s *storage) grid(a *Attr) (*chunk.Grid, error) {
	text, _ := s.text(a)
	g, err := zarr.ParseGrid(text)
	if err != nil {
		return nil, s.bad(a, "a JSON list of chunk lengths: "+err.Error())
	}
	return &g, nil
}

func (s *storage) level(a *Attr) (int64, error) {
	list, err := s.integers(a)
	if err != nil || len(list) != 1 || list[0] > 9 {
		return -1, s.bad(a, "an integer from 0 to 9")
	}
	return list[0], nil
}

// chain parses a JSON list of codecs in encoding order.
func (s *storage) chain(a *Attr) ([]zarr.CodecSpec, error) {
	text, _ := s.text(a)
	var docs []json.RawMessage
	if err := json.Unmarshal([]byte(text), &docs); err != nil {
		return nil, s.bad(a, "a JSON list of codecs: "+err.Error())
	}
	var chain []zarr.CodecSpec
	for _, doc := range docs {
		var head struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(doc, &head); err != nil || head.ID == "" {
			return nil, s.bad(a, `a JSON list of codecs, objects with an "id"`)
		}
		chain = append(chain, zarr.CodecSpec{ID: head.ID, Params: doc})
	}
	return chain, nil
}

// filter parses "id,param,...|id,...", where id is an HDF5 filter number or the name of
// a codec.
func (s *storage) filter(a *Attr) ([]zarr.CodecSpec, error) {
	text, ok := s.text(a)
	if !ok {
		return nil, s.bad(a, `a string such as "32015,3"`)
	}
	var chain []zarr.CodecSpec
	for part := range strings.SplitSeq(text, "|") {
		fields := strings.Split(part, ",")
		id := strings.TrimSpace(fields[0])
		params := make([]uint32, 0, len(fields)-1)
		for _, f := range fields[1:] {
			n, err := strconv.ParseUint(strings.TrimRight(strings.TrimSpace(f), "uU"), 10, 32)
			if err != nil {
				return nil, s.bad(a, `a list of filters such as "32015,3": the parameter `+strconv.Quote(f)+" is not an unsigned integer")
			}
			params = append(params, uint32(n))
		}
		number, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			d, _ := s.known.Find(id)
			if number = uint64(d.HDF5); number == 0 {
				return nil, s.fail(ncerr.ErrNoFilter, a.Pos, "filter %q has no HDF5 number: use _Codecs", id)
			}
		}
		step, err := s.known.FromHDF5(uint32(number), params, s.elem)
		var unknown *ncerr.Error
		switch {
		case errors.As(err, &unknown) && unknown.Kind == ncerr.ErrNoFilter:
			return nil, s.fail(ncerr.ErrNoFilter, a.Pos, "%w", unknown.Err)
		case err != nil:
			return nil, s.bad(a, "a list of filters: "+err.Error())
		}
		chain = append(chain, zarr.CodecSpec{ID: step.ID, Params: step.Params})
	}
	return chain, nil
}
