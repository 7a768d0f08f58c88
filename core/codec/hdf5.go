package codec

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// bloscNames are the inner codecs of blosc in the order of their numbers.
var bloscNames = [...]string{"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}

// FromHDF5 makes the step for an HDF5 filter with its parameters, as they
// stand in a netCDF attribute (visible) or in an HDF5 file (working: with what
// the library filled in). elem is the size of an element in bytes, which
// shuffle needs when the parameters do not say it.
//
//	filter          parameters                                  codec
//	1 deflate       level                                       zlib
//	2 shuffle       [elementsize]                               shuffle
//	3 fletcher32    none                                        fletcher32
//	4 szip          mask, pixels per block, [bits per pixel,    szip
//	                pixels per scanline]
//	307 bzip2       level                                       bz2
//	32001 blosc     3 values that are filled in, block size,    blosc
//	                level, shuffle, inner codec
//	32015 zstd      level                                       zstd
//
// Parameters that are missing have the filter's default; blosc's fourth is the
// size of the chunk, not of a block, where the first is filled in. A number
// without a codec is ncerr.ErrNoFilter, parameters that cannot be ErrInvalid.
//
// Source: netCDF-C, the filter hooks of NCZarr; HDF5, "Registered Filters".
func FromHDF5(number uint32, params []uint32, elem int) (driver.Step, error) {
	e, ok := HDF5(number)
	if !ok {
		return driver.Step{}, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "HDF5 filter %d has no codec", number)
	}
	at := func(i int, missing int64) int64 {
		if i < len(params) {
			return int64(params[i])
		}
		return missing
	}
	list := []member{{"id", e.ID}}
	switch e.ID {
	case "zlib", "bz2":
		list = append(list, member{"level", at(0, 1)})
	case "zstd":
		list = append(list, member{"level", int64(int32(at(0, 3)))}) // levels may be negative
	case "shuffle":
		list = append(list, member{"elementsize", at(0, int64(max(elem, 1)))})
	case "szip":
		list = append(list, member{"mask", at(0, 0)}, member{"pixels-per-block", at(1, 0)})
		if len(params) > 3 {
			list = append(list, member{"bits-per-pixel", at(2, 0)}, member{"pixels-per-scanline", at(3, 0)})
		}
	case "blosc":
		code, block := at(6, 1), at(3, 0)
		if code >= int64(len(bloscNames)) {
			return driver.Step{}, ncerr.Errorf(ncerr.ErrInvalid, "", "", "blosc has inner codecs 0 to %d, not %d", len(bloscNames)-1, code)
		}
		if at(0, 0) != 0 {
			block = 0
		}
		list = append(list, member{"cname", bloscNames[code]}, member{"clevel", at(4, 5)}, member{"shuffle", at(5, 1)}, member{"blocksize", block})
	}
	return driver.Step{ID: e.ID, Params: object(list)}, nil
}

// member is one of a JSON object.
type member struct {
	name  string
	value any
}

// object writes members in their order; values are numbers and plain text.
func object(list []member) json.RawMessage {
	var b strings.Builder
	for i, m := range list {
		b.WriteString([]string{"{", ","}[min(i, 1)] + strconv.Quote(m.name) + ":")
		if n, ok := m.value.(int64); ok {
			b.WriteString(strconv.FormatInt(n, 10))
		} else if s, ok := m.value.(string); ok {
			b.WriteString(strconv.Quote(s))
		}
	}
	b.WriteString("}")
	return json.RawMessage(b.String())
}

// ToHDF5 is the reverse: the number and the visible parameters of the codec id
// with the parameters of doc, a JSON object or nothing. For shuffle that is the
// element size, when it is stated.
// Numbers written as text, as netCDF-C before 4.10 wrote them, are read; what
// is missing has numcodecs' default. A codec without an HDF5 number is
// ncerr.ErrNoFilter, parameters that cannot be read are ErrInvalid.
func ToHDF5(id string, doc json.RawMessage) (number uint32, params []uint32, err error) {
	e, ok := ByID(id)
	if !ok || e.HDF5 == 0 {
		return 0, nil, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "codec %q has no HDF5 number", id)
	}
	var have map[string]json.RawMessage
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, &have); err != nil {
			return 0, nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameters of %q are not a JSON object: %w", id, err)
		}
	}
	num := func(name string, missing int64) {
		n, bad := whole(have[name], missing)
		if bad && err == nil {
			err = ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameter %q of %q: %s is no 32-bit integer", name, id, have[name])
		}
		params = append(params, uint32(n)) // in range, and two's complement for negative ones
	}
	switch e.ID {
	case "zlib", "bz2":
		num("level", 1)
	case "zstd":
		num("level", 0)
	case "shuffle":
		if num("elementsize", 0); params[0] == 0 {
			params = nil
		}
	case "szip":
		num("mask", 0)
		num("pixels-per-block", 0)
	case "blosc":
		params = []uint32{0, 0, 0}
		num("blocksize", 0)
		num("clevel", 5)
		num("shuffle", 1)
		code, ok := innerCodec(have["cname"])
		if !ok && err == nil {
			err = ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameter \"cname\" of \"blosc\": %s is not known", have["cname"])
		}
		params = append(params, code)
	}
	if err != nil {
		return 0, nil, err
	}
	return e.HDF5, params, nil
}

// whole reads an integer of 32 bits, signed or not, or the text of one.
func whole(raw json.RawMessage, missing int64) (n int64, bad bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return missing, false
	}
	f, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || f != math.Trunc(f) || f < math.MinInt32 || f > math.MaxUint32 {
		return 0, true
	}
	return int64(f), false
}

func innerCodec(raw json.RawMessage) (uint32, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return 1, true
	}
	for i, name := range bloscNames {
		if string(raw) == strconv.Quote(name) {
			return uint32(i), true
		}
	}
	return 0, false
}
