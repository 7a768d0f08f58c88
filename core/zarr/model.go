// Package zarr parses and writes the metadata documents of Zarr v2 and v3 and of all
// NCZarr layouts. It does no I/O: documents come in and go out as bytes.
//
// The model in memory is shaped as Zarr v3 is (codec chain, chunk key
// encoding, dimension names); every layout is parsed into it and written from
// it. All functions are safe for concurrent use. Models belong to the caller;
// their texts are parts of the documents that they were read from, which must
// not change any more.
//
//	layout, err := zarr.DetectLayout(root, false)
//	a, err := zarr.ParseArray("/temp", docs, zarr.ParseHint{Layout: layout})
//	docs, err = a.Docs(zarr.WriteOptions{Layout: layout, IsRoot: true})
//
// Below it are core/dtype and core/chunk; above it is core/nczarr.
package zarr

import (
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Layout says where, and under which names, NCZarr keeps its own metadata.
type Layout uint8

// The layouts. LayoutNewest is the default for writing.
const (
	LayoutPure   Layout = iota // pure Zarr v2: no NCZarr metadata at all
	LayoutNewest               // netcdf-c 4.9.3 and later: lowercase keys in .zattrs
	LayoutLower                // netcdf-c 4.9.1, 4.9.2: lowercase keys in .zgroup and .zarray
	LayoutUpper                // netcdf-c 4.8.1, 4.9.0: uppercase keys in .zgroup, .zarray, .zattrs
	LayoutV1                   // netcdf-c 4.8.0: separate .nczarr, .nczgroup, .nczarray, .nczattrs
	LayoutV3                   // pure Zarr v3
)

// Docs are the metadata documents of one node (group or array), by base name
// such as ".zarray". A name that is not in the map was absent in the store.
type Docs map[string][]byte

// Dim is a dimension that an NCZarr group declares.
type Dim struct {
	Name      string
	Len       int64
	Unlimited bool
}

// Group is the metadata of one group.
type Group struct {
	// Layout is where this group's NCZarr metadata was found, LayoutPure when
	// there was none.
	Layout Layout
	// Superblock is the NCZarr version of the dataset ("2.0.0"); only the
	// root group has one.
	Superblock string
	// Listed says that the group block was there with both lists, so that
	// Arrays and Groups are complete; otherwise children must be searched for.
	Listed bool
	Dims   []Dim
	Arrays []string // names of the arrays in this group, in definition order
	Groups []string // names of the subgroups, in definition order
	// NoNames has an error for each name in those lists that can be none, and
	// for each dimension whose length is none.
	NoNames []error
	// DimsLost says that there are such dimensions: Dims is not all.
	DimsLost bool
	// Attrs are the user's attributes in file order, without the reserved
	// ones (_nczarr_*, _ARRAY_DIMENSIONS); _NCProperties is kept apart.
	Attrs        []Attr
	NCProperties string
	// Warnings tell, one sentence each, what was read in another way than it
	// stands in the documents, or left out.
	Warnings []string
}

// CodecSpec is one step of a codec chain as it stands in the metadata.
type CodecSpec struct {
	// ID is the numcodecs id (v2) or the v3 name.
	ID string
	// Params is the JSON object of the parameters, including "id" for v2.
	Params json.RawMessage
}

// Array is the metadata of one array.
type Array struct {
	Layout Layout
	// Shape and Chunks have one entry a stored dimension. An NCZarr scalar
	// has Shape [1] and Scalar set; a pure Zarr scalar has both empty.
	Shape, Chunks []int64
	// Scalar says that the netCDF variable has rank 0 whatever Shape says.
	Scalar bool
	// Transpose, when not nil, is the order in which the dimensions of a
	// chunk are stored: stored dimension i is dimension Transpose[i]. v2
	// order "F" is the reversed order. nil is C order.
	Transpose []int
	DType     dtype.Type
	// Fields are the members of the elements of a structured array, whose DType
	// is dtype.Raw of their size, and the two parts of complex numbers; nil for
	// other types.
	Fields []Field
	// Fill is one element of fill value in DType's size and byte order (for
	// dtype.String the text); nil with HasFill unset means null: missing
	// chunks have no defined value, and read as zeros.
	Fill    []byte
	HasFill bool
	// Codecs is the chain in encode order: v2 filters, then the compressor.
	// For dtype.String the object codec stays the first step.
	Codecs []CodecSpec
	// NoCompressor says that v2 has all of Codecs as filters: the last one only
	// prepares data, checks it or takes elements.
	NoCompressor bool
	// ArrayCodecs is the number of codecs at the start of Codecs that make arrays of
	// arrays. Zarr v3 has the codec bytes after them; v2 does not tell.
	ArrayCodecs int
	// Shards are the shards that chunks are in, the outermost first. They are the
	// objects of the store; nil if each chunk is an object.
	Shards []Shard
	// Keys says how the keys of chunks are made. v2 has no prefix.
	Keys chunk.Keys
	// DimNames are xarray's _ARRAY_DIMENSIONS; nil when absent.
	DimNames []string
	// DimRefs are NCZarr's dimension references: absolute names such as
	// "/g/x", or, from foreign writers, names that are visible in the array's
	// group; nil when the array block is absent, empty for a scalar.
	DimRefs []string
	// Storage is NCZarr's storage word: "chunked", "contiguous", "compact",
	// "scalar" or empty.
	Storage string
	Attrs   []Attr
	// MaxStrLen is NCZarr's _nczarr_maxstrlen, 0 when absent. (It also stays
	// in Attrs: the reference shows it as an ordinary attribute.)
	MaxStrLen int
	// Warnings tell, one sentence each, what was read in another way than it
	// stands in the documents, or left out.
	Warnings []string
}

// Shard is a level of shards: objects, or parts of one, of many chunks.
type Shard struct {
	Shape []int64 // in elements
	// How the index is stored: see manifest.ShardIndex.
	AtStart, Checksum, Big bool
}

// Attr is one attribute.
type Attr struct {
	Name string
	Type dtype.NC
	// Value is a slice of the Go type of Type: []int8, []uint8, []int16,
	// []uint16, []int32, []uint32, []int64, []uint64, []float32, []float64,
	// []string for NCString, and a plain string for NCChar (its bytes; may
	// hold NULs). Slices may be empty, never nil for an existing attribute.
	Value any
	// JSON is the text of the value in the document that the attribute was read
	// from, or "" for a new attribute. netCDF has no null, no booleans and no
	// difference between 1 and [1]; pure Zarr has. Pure Zarr is therefore written
	// with JSON if JSON still reads as Value.
	JSON string
}
