package nczarr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// Codec is one step of encoding a chunk: one of the types below, such as [Zstd] and
// [Shuffle], or a [RawCodec]. The zero value of a field means the default of the codec.
// Parameters are checked when a variable is defined; a number outside the range of its
// field causes [ErrInvalid]. The reference page codecs.md lists all codecs.
type Codec interface {
	// describe returns the id of the codec in Zarr v2 and its numeric parameters.
	describe() (id string, params []param)
}

// param is a numeric field of a codec and its range. 0 is always valid.
type param struct {
	field            string
	value, low, high int
}

// Zstd compresses with Zstandard.
type Zstd struct {
	Level    int  `json:"level,omitempty"`    // 1 (fast) to 22 (small), -1 to -131072 for even faster; default 1
	Checksum bool `json:"checksum,omitempty"` // append a checksum
}

// Zlib compresses with deflate in the zlib format, as netCDF-4 does.
type Zlib struct {
	Level int `json:"level,omitempty"` // 1 (fast) to 9 (small); default 1
}

// Gzip compresses with deflate in the gzip format.
type Gzip struct {
	Level int `json:"level,omitempty"` // 1 (fast) to 9 (small); default 1
}

// LZ4 compresses with LZ4.
type LZ4 struct {
	Acceleration int `json:"acceleration,omitempty"` // at least 1; higher is faster and compresses less; default 1
}

// BZ2 compresses with bzip2.
type BZ2 struct {
	Level int `json:"level,omitempty"` // 1 to 9; default 1
}

// Blosc compresses with Blosc, which includes its own shuffle.
type Blosc struct {
	Compressor string `json:"cname,omitempty"`     // "lz4" (default), "lz4hc", "blosclz", "zstd", "zlib" or "snappy"
	Level      int    `json:"clevel,omitempty"`    // 1 to 9; default 5
	Shuffle    int    `json:"shuffle,omitempty"`   // 1 for bytes (default), 2 for bits, -1 for a choice by element size
	BlockSize  int    `json:"blocksize,omitempty"` // 1 to 2147483631 bytes; default is automatic
}

// Shuffle groups the first bytes of all elements, then the second bytes, and so on, so
// that a codec after it compresses better.
type Shuffle struct {
	ElementSize int `json:"elementsize,omitempty"` // 1 to 65536 bytes; default is the size of the type
}

// Fletcher32 adds the checksum of netCDF-4. Every read verifies it.
type Fletcher32 struct{}

// CRC32 adds a CRC-32 checksum. Every read verifies it.
type CRC32 struct{}

// BitRound rounds floating-point numbers so that they compress better.
type BitRound struct {
	KeepBits int `json:"keepbits"` // bits of the mantissa to keep: 0 to 23 for Float32, 0 to 52 for Float64
}

// RawCodec is a codec of any kind. ID is its id in Zarr v2. Params holds its
// parameters: nil, or a value that encoding/json encodes as an object. If that object
// has a member "id", its value must be ID.
type RawCodec struct {
	ID     string
	Params any
}

// String returns the codec as a JSON object: its id and parameters.
func (c RawCodec) String() string {
	step, err := stepOf(c)
	if err != nil {
		return fmt.Sprintf("%s (%v)", c.ID, err)
	}
	return string(step.Params)
}

func (c Zstd) describe() (string, []param) {
	return "zstd", []param{{"Level", c.Level, -1 << 17, 22}}
}

func (c Zlib) describe() (string, []param) { return "zlib", []param{{"Level", c.Level, 1, 9}} }

func (c Gzip) describe() (string, []param) { return "gzip", []param{{"Level", c.Level, 1, 9}} }

func (c LZ4) describe() (string, []param) {
	return "lz4", []param{{"Acceleration", c.Acceleration, 1, math.MaxInt32}}
}

func (c BZ2) describe() (string, []param) { return "bz2", []param{{"Level", c.Level, 1, 9}} }

func (c Blosc) describe() (string, []param) {
	return "blosc", []param{{"Level", c.Level, 1, 9}, {"Shuffle", c.Shuffle, -1, 2}, {"BlockSize", c.BlockSize, 1, math.MaxInt32 - 16}}
}

func (c Shuffle) describe() (string, []param) {
	return "shuffle", []param{{"ElementSize", c.ElementSize, 1, 1 << 16}}
}

func (Fletcher32) describe() (string, []param) { return "fletcher32", nil }

func (CRC32) describe() (string, []param) { return "crc32", nil }

func (c BitRound) describe() (string, []param) {
	return "bitround", []param{{"KeepBits", c.KeepBits, 0, 52}}
}

func (c RawCodec) describe() (string, []param) { return c.ID, nil }

// stepOf returns a codec as it appears in metadata documents: an object with the id
// first, then the parameters.
func stepOf(c Codec) (zarr.CodecSpec, error) {
	if c == nil || reflect.ValueOf(c).Kind() == reflect.Pointer && reflect.ValueOf(c).IsNil() {
		return zarr.CodecSpec{}, ncerr.Errorf(ErrInvalid, "", "", "a codec is nil")
	}
	id, fields := c.describe()
	for _, f := range fields {
		if f.value != 0 && (f.value < f.low || f.value > f.high) {
			return zarr.CodecSpec{}, ncerr.Errorf(ErrInvalid, "", "", "codec %q: %s is %d, which is not in the range %d to %d", id, f.field, f.value, f.low, f.high)
		}
	}
	params := any(c)
	switch raw := c.(type) {
	case RawCodec:
		params = raw.Params
	case *RawCodec:
		params = raw.Params
	}
	text := []byte("{}")
	if params != nil {
		var err error
		if text, err = json.Marshal(params); err != nil || !bytes.HasPrefix(text, []byte("{")) {
			return zarr.CodecSpec{}, ncerr.Errorf(ErrInvalid, "", "", "the parameters of codec %q are not a JSON object: %T", id, params)
		}
	}
	set := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &set); err != nil {
		return zarr.CodecSpec{}, ncerr.New(ErrInvalid, "", "", err)
	}
	quoted, err := json.Marshal(id)
	if err != nil {
		return zarr.CodecSpec{}, ncerr.New(ErrInvalid, "", "", err)
	}
	if stated, ok := set["id"]; ok {
		var other string
		if err := json.Unmarshal(stated, &other); err != nil || other != id {
			return zarr.CodecSpec{}, ncerr.Errorf(ErrInvalid, "", "", "codec %q: the parameters specify the id %s instead", id, stated)
		}
		return zarr.CodecSpec{ID: id, Params: text}, nil
	}
	out := append([]byte(`{"id":`), quoted...)
	if len(set) > 0 {
		out = append(out, ',')
	}
	return zarr.CodecSpec{ID: id, Params: append(out, text[1:]...)}, nil
}
