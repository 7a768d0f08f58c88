// Package blosc implements the filter "blosc", the container of c-blosc 1.x. It divides a
// chunk into blocks, shuffles each of them and compresses it with one of several inner
// codecs. It imports core/codec/driver, the helpers in filters/internal,
// klauspost/compress and pierrec/lz4; core/codec calls it.
//
// It decodes everything that c-blosc 1.x writes, and encodes with every inner codec of
// c-blosc.
package blosc

import (
	"slices"
	"sync"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/deflate"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/inflate"
	"github.com/seed-695719ce/nczarr/filters/internal/zframe"
)

// ID is the numcodecs id and the Zarr v3 name.
const ID = "blosc"

// The values of Params.Shuffle.
const (
	AutoShuffle = -1 // BitShuffle for elements of one byte, otherwise ByteShuffle
	NoShuffle   = 0
	ByteShuffle = 1
	BitShuffle  = 2
)

// Params are the parameters. Decoding does not use them.
type Params struct {
	// CName is the inner codec: blosclz, lz4 (the default), lz4hc, snappy,
	// zlib or zstd.
	CName string `json:"cname"`
	// CLevel is from 0 (stored) to 9 (smallest output); the default is 5.
	CLevel int `json:"clevel"`
	// Shuffle is AutoShuffle, NoShuffle, ByteShuffle (the default) or BitShuffle. Zarr v3
	// metadata contains a name instead: "noshuffle", "shuffle" or "bitshuffle".
	Shuffle int `json:"shuffle"`
	// BlockSize is the size of blocks in bytes. 0, the default, selects it automatically.
	BlockSize int `json:"blocksize"`
	// TypeSize is the size of an element in bytes, which Zarr v3 metadata states. 0,
	// the default, is the size of the array's elements. Sizes above 255 mean 1.
	TypeSize int `json:"typesize,omitempty"`
}

var names = [...]string{"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}

// Codec encodes and decodes blosc frames. It is safe for concurrent use. Decode fails
// with ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type Codec struct {
	params   Params
	typesize int
	shuffle  int
	pool     sync.Pool // values of type *scratch
	inflate  inflate.Pool
	deflate  *deflate.Encoder
	zstd     zframe.Decoder
	zenc     *zframe.Encoder
}

var (
	_ driver.Codec        = (*Codec)(nil)
	_ driver.DecodedSizer = (*Codec)(nil)
)

// New returns a codec for elements of p.TypeSize bytes.
func New(p Params) (*Codec, error) {
	if !slices.Contains(names[:], p.CName) || p.CLevel < 0 || p.CLevel > 9 || p.Shuffle < AutoShuffle || p.Shuffle > BitShuffle || p.BlockSize < 0 {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "invalid blosc parameters: %+v", p)
	}
	c := &Codec{params: p, typesize: p.TypeSize, shuffle: p.Shuffle}
	if c.typesize < 1 || c.typesize > 255 {
		c.typesize = 1
	}
	if c.shuffle == AutoShuffle {
		c.shuffle = ByteShuffle
		if c.typesize == 1 {
			c.shuffle = BitShuffle
		}
	}
	var err error
	switch p.CName {
	case "zlib":
		c.deflate = deflate.New(deflate.Zlib, p.CLevel)
	case "zstd":
		c.zenc, err = zframe.NewEncoder(zstdLevel(p.CLevel), false, 0)
	}
	return c, err
}

// zstdLevel maps a level of blosc to a level of zstd as c-blosc does.
func zstdLevel(level int) int {
	switch {
	case level == 9:
		return 22
	case level == 8:
		return 20
	}
	return 2*level - 1
}

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: ID, Aliases: []string{"numcodecs.blosc"}, HDF5: 32001, Encode: true, Decode: true,
			Summary:   "blocks, shuffled and compressed with blosclz, lz4, lz4hc, snappy, zlib or zstd",
			Transform: driver.BytesToBytes,
			Params: []driver.Param{
				{Name: "cname", Type: driver.TextParam, Choices: names[:], Default: "lz4", HDF5: 7, Doc: "inner codec"},
				{Name: "clevel", Type: driver.IntParam, Max: 9, Default: "5", HDF5: 5, Doc: "level; 0 stores uncompressed"},
				{Name: "shuffle", Type: driver.IntParam, Min: AutoShuffle, Max: BitShuffle, Default: "1", HDF5: 6, Doc: "-1 by element size, 0 none, 1 bytes, 2 bits; or noshuffle, shuffle, bitshuffle"},
				{Name: "blocksize", Type: driver.IntParam, Max: maxBytes, Default: "0", HDF5: 4, Doc: "block size in bytes; 0 selects it automatically"},
				{Name: "typesize", Type: driver.IntParam, Max: 1 << 24, Default: "0", Doc: "element size in bytes; 0 is the size of the array's elements"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	// Some writers store the automatic shuffle of numcodecs, -1, as an unsigned number.
	const auto = 1<<32 - 1
	prm := Params{
		CName:     p.Text("cname"),
		CLevel:    p.Int("clevel"),
		BlockSize: p.Int("blocksize"),
		TypeSize:  p.Int("typesize"),
	}
	if p.IsText("shuffle") {
		text := p.Text("shuffle")
		// The names of Zarr v3, then those that GDAL writes into v2.
		i := slices.Index([]string{"noshuffle", "shuffle", "bitshuffle", "NONE", "BYTE", "BIT"}, text)
		if prm.Shuffle = i % 3; i < 0 {
			p.Fail("shuffle", "unknown value %q", text)
		}
	} else if prm.Shuffle = p.IntIn("shuffle", AutoShuffle, auto); prm.Shuffle == auto {
		prm.Shuffle = AutoShuffle
	} else if prm.Shuffle > BitShuffle {
		p.Fail("shuffle", "unknown value %d", prm.Shuffle)
	}
	if err := p.Err(); err != nil {
		return nil, driver.Spec{}, err
	}
	if prm.TypeSize == 0 {
		prm.TypeSize = filter.ElementSize(in) // numcodecs uses the size of the NumPy type
	}
	c, err := New(prm)
	if err != nil {
		return nil, driver.Spec{}, err
	}
	return c, filter.Blob(in, in.MaxBytes+headerSize), nil
}
