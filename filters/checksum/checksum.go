// Package checksum implements the filters "crc32", "crc32c", "adler32", "fletcher32" and
// "jenkins_lookup3", which add four bytes of checksum before or after the data. It
// imports core/codec/driver and the helpers in filters/internal; core/codec calls it.
package checksum

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
	"github.com/seed-695719ce/nczarr/filters/internal/kernel"
)

// size is the length of a checksum in bytes.
const size = 4

// Codec adds and verifies a checksum. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt if the checksum is wrong.
type Codec struct {
	sum func([]byte) uint32
	end bool // the checksum follows the data
	// swapped also accepts a checksum with its bytes swapped within each half, as old
	// HDF5 releases wrote it on big-endian machines.
	swapped bool
}

var _ driver.Codec = (*Codec)(nil)

// Provider returns the five filters.
func Provider() driver.Provider {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	crc32c := func(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
	f := filter.Family{
		single("crc32", "CRC-32 (IEEE) checksum", Codec{sum: crc32.ChecksumIEEE}),
		single("crc32c", "CRC-32C (Castagnoli) checksum", Codec{sum: crc32c, end: true}),
		single("adler32", "Adler-32 checksum", Codec{sum: kernel.Adler32}),
		single("fletcher32", "Fletcher-32 checksum as in HDF5", Codec{sum: fletcher32, end: true, swapped: true}),
		jenkins(),
	}
	f[1].Desc.V3, f[1].Desc.Aliases = "crc32c", []string{"numcodecs.crc32c"}
	f[3].Desc.HDF5 = 3
	return f
}

func single(id, summary string, c Codec) *filter.Single {
	desc := description(id, summary)
	if !c.swapped {
		at := [...]string{"start", "end"}
		desc.Params = []driver.Param{{Name: "location", Type: driver.TextParam, Choices: at[:], Default: at[0], Doc: "position of the checksum"}}
		if c.end {
			desc.Params[0].Default = at[1]
		}
	}
	return &filter.Single{
		Desc: desc,
		OpenAs: func(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			c := c
			if !c.swapped {
				c.end = p.Text("location") == "end"
			}
			return &c, filter.Blob(in, in.MaxBytes+size), nil
		},
	}
}

func description(id, summary string) driver.Description {
	return driver.Description{ID: id, V3: "numcodecs." + id, Summary: summary, Encode: true, Decode: true, Transform: driver.BytesToBytes, Preparation: true}
}

// Encode writes src and its checksum to dst.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n := len(src) + size
	if len(dst) < n {
		return 0, filter.Short(dst)
	}
	if c.end {
		copy(dst, src)
		binary.LittleEndian.PutUint32(dst[len(src):], c.sum(src))
	} else {
		copy(dst[size:], src)
		binary.LittleEndian.PutUint32(dst, c.sum(src))
	}
	return n, nil
}

// Decode verifies the checksum and writes the data to dst.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n := len(src) - size
	if n < 0 {
		return 0, filter.Corrupt("the input has %d bytes, too few for a checksum", len(src))
	}
	if len(dst) < n {
		return 0, filter.Short(dst)
	}
	data, sum := src[size:], src[:size]
	if c.end {
		data, sum = src[:n], src[n:]
	}
	// Verify the copy, because others may write to the memory of src.
	copy(dst, data)
	want, got := binary.LittleEndian.Uint32(sum), c.sum(dst[:n])
	if want != got && !(c.swapped && want == bits.RotateLeft32(bits.ReverseBytes32(got), 16)) {
		return 0, filter.Corrupt("the checksum is %08x, not %08x", got, want)
	}
	return n, nil
}

// fletcher32 sums big-endian 16-bit words and their running sums. An odd last byte is the
// upper half of a word.
//
// Source: HDF5, H5_checksum_fletcher32.
func fletcher32(b []byte) uint32 {
	var s1, s2 uint64
	for len(b) >= 2 {
		k := min(len(b)&^1, 2*360)
		for i := 0; i < k; i += 2 {
			s1 += uint64(b[i])<<8 | uint64(b[i+1])
			s2 += s1
		}
		b = b[k:]
		s1, s2 = fold(s1), fold(s2)
	}
	if len(b) == 1 {
		s1 += uint64(b[0]) << 8
		s2 += s1
	}
	s1, s2 = fold(fold(s1)), fold(fold(s2))
	return uint32(s2)<<16 | uint32(s1)
}

// fold reduces a sum toward 16 bits without changing it modulo 65535.
func fold(s uint64) uint64 {
	s = s&0xFFFF + s>>16
	return s&0xFFFF + s>>16
}
