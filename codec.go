package nczarr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// Codec is one step of encoding a chunk: one of the types below, such as [Zstd] and
// [Shuffle], or a [RawCodec]. The zero value of a field means the default of the codec.
// Parameters are checked when a variable is defined. The reference page codecs.md lists
// all codecs.
type Codec interface{ id() string }

// Zstd compresses with Zstandard.
type Zstd struct {
	Level    int  `json:"level,omitempty"`    // 1 (fast) to 22 (small), negative for even faster; default 1
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
	Acceleration int `json:"acceleration,omitempty"` // higher is faster and compresses less; default 1
}

// BZ2 compresses with bzip2.
type BZ2 struct {
	Level int `json:"level,omitempty"` // 1 to 9; default 1
}

// Blosc compresses with Blosc, which includes its own shuffle.
type Blosc struct {
	Compressor string `json:"cname,omitempty"`     // "lz4" (default), "lz4hc", "blosclz", "zstd", "zlib" or "snappy"
	Level      int    `json:"clevel,omitempty"`    // 1 to 9; default 5
	Shuffle    int    `json:"shuffle,omitempty"`   // 1 bytes (default), 2 bits, -1 chosen by element size
	BlockSize  int    `json:"blocksize,omitempty"` // bytes; default is automatic
}

// Shuffle groups the first bytes of all elements, then the second bytes, and so on, so
// that a codec after it compresses better.
type Shuffle struct {
	ElementSize int `json:"elementsize,omitempty"` // bytes; default is the size of the type
}

// Fletcher32 adds the checksum of netCDF-4. Every read verifies it.
type Fletcher32 struct{}

// CRC32 adds a CRC-32 checksum. Every read verifies it.
type CRC32 struct{}

// BitRound rounds floating-point numbers so that they compress better.
type BitRound struct {
	KeepBits int `json:"keepbits"` // bits of the mantissa to keep: 0 to 23 for Float32, 0 to 52 for Float64
}

// RawCodec is any codec, named by its id in Zarr v2. Params holds its parameters: nil,
// or a value that encoding/json encodes as an object.
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

func (Zstd) id() string       { return "zstd" }
func (Zlib) id() string       { return "zlib" }
func (Gzip) id() string       { return "gzip" }
func (LZ4) id() string        { return "lz4" }
func (BZ2) id() string        { return "bz2" }
func (Blosc) id() string      { return "blosc" }
func (Shuffle) id() string    { return "shuffle" }
func (Fletcher32) id() string { return "fletcher32" }
func (CRC32) id() string      { return "crc32" }
func (BitRound) id() string   { return "bitround" }
func (c RawCodec) id() string { return c.ID }

// stepOf returns a codec as it appears in metadata documents: an object with the id
// first, then the parameters.
func stepOf(c Codec) (zarr.CodecSpec, error) {
	if c == nil || reflect.ValueOf(c).Kind() == reflect.Pointer && reflect.ValueOf(c).IsNil() {
		return zarr.CodecSpec{}, ncerr.Errorf(ErrInvalid, "", "", "a codec is nil")
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
			return zarr.CodecSpec{}, ncerr.Errorf(ErrInvalid, "", "", "the parameters of codec %q are not a JSON object: %T", c.id(), params)
		}
	}
	set := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &set); err != nil {
		return zarr.CodecSpec{}, ncerr.New(ErrInvalid, "", "", err)
	}
	if _, stated := set["id"]; stated {
		return zarr.CodecSpec{ID: c.id(), Params: text}, nil
	}
	id, err := json.Marshal(c.id())
	if err != nil {
		return zarr.CodecSpec{}, ncerr.New(ErrInvalid, "", "", err)
	}
	out := append([]byte(`{"id":`), id...)
	if len(set) > 0 {
		out = append(out, ',')
	}
	return zarr.CodecSpec{ID: c.id(), Params: append(out, text[1:]...)}, nil
}
