package codec

import (
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Catalog lists the descriptions of the available codecs. If two codecs have the same
// name or HDF5 number, the first one is used.
type Catalog []driver.Description

// Find returns the codec with the given name and reports whether it exists.
func (c Catalog) Find(name string) (driver.Description, bool) {
	for i := range c {
		if c[i].Has(name) {
			return c[i], true
		}
	}
	return driver.Description{}, false
}

// ByHDF5 returns the codec with the given HDF5 filter number and reports whether it
// exists.
func (c Catalog) ByHDF5(number uint32) (driver.Description, bool) {
	for i := range c {
		if number != 0 && uint32(c[i].HDF5) == number {
			return c[i], true
		}
	}
	return driver.Description{}, false
}

// DidYouMean is like ncerr.DidYouMean for a codec id.
func (c Catalog) DidYouMean(id string) string {
	ids := make([]string, len(c))
	for i := range c {
		ids[i] = c[i].ID
	}
	return ncerr.DidYouMean(id, ids)
}

// foreignHDF5 contains the names of HDF5 filters without a codec, for use in errors.
//
// Source: HDF5, "Registered Filters".
var foreignHDF5 = map[uint32]string{
	5: "nbit", 6: "scaleoffset", 305: "LZO", 32000: "LZF", 32003: "Snappy", 32004: "LZ4 in the frame of HDF5", 32008: "bitshuffle",
	32013: "zfp", 32014: "fpzip", 32017: "SZ", 32018: "FCIDECOMP", 32019: "JPEG", 32024: "SZ3", 32026: "blosc2",
}
