// Package packbits implements the filter "packbits", which stores eight bools in a byte.
// A leading byte holds the number of unused bits in the last byte. It imports
// core/codec/driver, core/dtype and filters/internal/filter; core/codec calls it.
package packbits

import (
	"context"
	"encoding/binary"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "packbits"

// Codec packs and unpacks bools. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
//
// Like numcodecs, it also packs integers of one byte. Encode fails with ncerr.ErrConvert
// if one of them is neither 0 nor 1.
type Codec struct{ integers bool }

var _ driver.Codec = Codec{}

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.packbits", Encode: true, Decode: true,
			Summary: "eight bools in a byte", Transform: driver.ArrayToArray,
		},
		OpenAs: func(_ *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			integers := in.Kind == driver.Array && in.DType.Size == 1 && (in.DType.Kind == dtype.Uint || in.DType.Kind == dtype.Int)
			if in.DType.Kind != dtype.Bool && !integers {
				return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be packed; only bool and one-byte integers can", in.DType)
			}
			out := filter.Blob(in, 1+(in.MaxBytes+7)/8)
			out.DType = dtype.Type{Kind: dtype.Uint, Size: 1}
			if in.Kind == driver.Array {
				out.Kind, out.Shape = driver.Array, []int{int(out.MaxBytes)}
			}
			return Codec{integers}, out, nil
		},
	}
}

// gather is a factor that moves the low bits of 8 bytes into the upper byte of the
// product, the first byte in the highest bit.
const gather = 0x8040_2010_0804_0201

// Encode packs src. Every nonzero bool is true.
func (c Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if c.integers {
		for i, v := range src {
			if v > 1 {
				return 0, ncerr.Errorf(ncerr.ErrConvert, "", "", "element %d is neither 0 nor 1", i)
			}
		}
	}
	n := 1 + (len(src)+7)/8
	if len(dst) < n {
		return 0, filter.Short(dst)
	}
	dst = dst[:n]
	dst[0] = byte(-len(src) & 7)
	whole := len(src) / 8
	bits := dst[1:]
	for i := range whole {
		v := binary.LittleEndian.Uint64(src[8*i:])
		if v&^0x0101_0101_0101_0101 != 0 {
			v = toBools(v)
		}
		bits[i] = byte(v * gather >> 56)
	}
	if rest := src[8*whole:]; len(rest) > 0 {
		var e [8]byte
		copy(e[:], rest)
		bits[whole] = byte(toBools(binary.LittleEndian.Uint64(e[:])) * gather >> 56)
	}
	return n, nil
}

// toBools replaces each nonzero byte with 1.
func toBools(v uint64) uint64 {
	const low = 0x7F7F_7F7F_7F7F_7F7F
	return ((v&low + low) | v) >> 7 & 0x0101_0101_0101_0101
}

// Decode unpacks src.
func (Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(src) == 0 {
		return 0, filter.Corrupt("the input is empty")
	}
	unused, bits := int(src[0]), src[1:]
	if unused > 7 || unused > 8*len(bits) {
		return 0, filter.Corrupt("the header states %d unused bits for %d bytes", unused, len(bits))
	}
	n := 8*len(bits) - unused
	if len(dst) < n {
		return 0, filter.Short(dst)
	}
	dst = dst[:n]
	for i := range n / 8 {
		binary.LittleEndian.PutUint64(dst[8*i:], spread(bits[i]))
	}
	if at := n &^ 7; at < n {
		var e [8]byte
		binary.LittleEndian.PutUint64(e[:], spread(bits[len(bits)-1]))
		copy(dst[at:], e[:])
	}
	return n, nil
}

// spread returns a byte for each bit of b, the highest bit first. It masks one bit in
// each of eight copies of b and replaces the bit with 1.
func spread(b byte) uint64 {
	return toBools(uint64(b) * 0x0101_0101_0101_0101 & 0x0102_0408_1020_4080)
}
