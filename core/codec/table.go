package codec

// Entry is one line of the table of codec names.
type Entry struct {
	// ID is the numcodecs (Zarr v2) id.
	ID string
	// V3 is the Zarr v3 name, or empty when v3 has none.
	V3 string
	// HDF5 is the registered HDF5 filter number, or 0 when there is none with
	// the same bytes (HDF5's LZ4, 32004, frames its data in another way than
	// numcodecs' lz4).
	HDF5 uint32
}

// The numbers come from the HDF5 filter registry, the v3 names from the Zarr
// v3 specification and from zarr-python, which spells codecs that v3 does not
// have as "numcodecs." and their v2 id.
var table = [...]Entry{
	{"zlib", "numcodecs.zlib", 1},
	{"shuffle", "numcodecs.shuffle", 2},
	{"fletcher32", "numcodecs.fletcher32", 3},
	{"szip", "", 4},
	{"bz2", "numcodecs.bz2", 307},
	{"blosc", "blosc", 32001},
	{"zstd", "zstd", 32015},
	{"gzip", "gzip", 0},
	{"lz4", "numcodecs.lz4", 0},
	{"lzma", "numcodecs.lzma", 0},
	{"crc32", "numcodecs.crc32", 0},
	{"crc32c", "crc32c", 0},
	{"adler32", "numcodecs.adler32", 0},
	{"delta", "numcodecs.delta", 0},
	{"fixedscaleoffset", "numcodecs.fixedscaleoffset", 0},
	{"quantize", "numcodecs.quantize", 0},
	{"bitround", "numcodecs.bitround", 0},
	{"astype", "numcodecs.astype", 0},
	{"packbits", "numcodecs.packbits", 0},
	{"jenkins_lookup3", "numcodecs.jenkins_lookup3", 0},
	{"vlen-utf8", "vlen-utf8", 0},
	{"vlen-bytes", "vlen-bytes", 0},
	{"vlen-array", "", 0},
	{"json2", "", 0},
	{"msgpack2", "", 0},
	{"categorize", "", 0},
	{"base64", "", 0},
	{"bytes", "bytes", 0},
	{"transpose", "transpose", 0},
}

// Table gives a copy of all entries.
func Table() []Entry { return append([]Entry(nil), table[:]...) }

// ByID finds a codec by its numcodecs id.
func ByID(id string) (Entry, bool) {
	return find(func(e Entry) bool { return e.ID == id })
}

// HDF5 finds a codec by its HDF5 filter number.
func HDF5(number uint32) (Entry, bool) {
	return find(func(e Entry) bool { return number != 0 && e.HDF5 == number })
}

func find(match func(Entry) bool) (Entry, bool) {
	for _, e := range table {
		if match(e) {
			return e, true
		}
	}
	return Entry{}, false
}
