package checksum

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// jenkins returns the filter "jenkins_lookup3", which starts from a seed.
func jenkins() *filter.Single {
	const id = "jenkins_lookup3"
	desc := description(id, "Jenkins lookup3 checksum as in HDF5")
	desc.Params = []driver.Param{
		{Name: "initval", Type: driver.IntParam, Max: math.MaxUint32, Default: "0", Doc: "seed"},
		{Name: "prefix", Type: driver.TextParam, Doc: "bytes hashed before the data; JSON cannot represent them, so only null is valid"},
	}
	return &filter.Single{
		Desc: desc,
		OpenAs: func(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			seed := uint32(p.Int("initval"))
			if p.Has("prefix") {
				p.Fail("prefix", "JSON cannot represent bytes, so only null is valid")
			}
			sum := func(b []byte) uint32 { return lookup3(b, seed) }
			return &Codec{sum: sum, end: true}, filter.Blob(in, in.MaxBytes+size), nil
		},
	}
}

// lookup3 returns the hash of data.
//
// Source: Bob Jenkins, lookup3.c, hashlittle; HDF5, H5_checksum_lookup3.
func lookup3(data []byte, seed uint32) uint32 {
	a := 0xDEADBEEF + uint32(len(data)) + seed
	b, c := a, a
	if len(data) == 0 {
		return c
	}
	for ; len(data) > 12; data = data[12:] {
		a += binary.LittleEndian.Uint32(data)
		b += binary.LittleEndian.Uint32(data[4:])
		c += binary.LittleEndian.Uint32(data[8:])
		a, b, c = mix(a, b, c)
	}
	var last [12]byte
	copy(last[:], data)
	a += binary.LittleEndian.Uint32(last[:])
	b += binary.LittleEndian.Uint32(last[4:])
	c += binary.LittleEndian.Uint32(last[8:])
	for _, s := range [...]struct{ ca, ab, bc int }{{14, 11, 25}, {16, 4, 14}} {
		c = (c ^ b) - bits.RotateLeft32(b, s.ca)
		a = (a ^ c) - bits.RotateLeft32(c, s.ab)
		b = (b ^ a) - bits.RotateLeft32(a, s.bc)
	}
	return (c ^ b) - bits.RotateLeft32(b, 24)
}

func mix(a, b, c uint32) (x, y, z uint32) {
	a = (a - c) ^ bits.RotateLeft32(c, 4)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 6)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 8)
	b += a
	a = (a - c) ^ bits.RotateLeft32(c, 16)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 19)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}
