// Package zarr parses and writes the metadata documents of Zarr v2, Zarr v3 and all
// NCZarr layouts. It performs no I/O: documents are byte slices.
//
// The types follow the model of Zarr v3: codec chain, chunk key encoding, dimension
// names. Every layout is parsed into these types and written from them. All functions are
// safe for concurrent use. A parsed Group or Array belongs to the caller. Its strings
// share memory with the documents they were parsed from, so those documents must not be
// modified afterwards.
//
//	layout, err := zarr.DetectLayout(root, false)
//	a, err := zarr.ParseArray("/temp", docs, zarr.ParseHint{Layout: layout})
//	docs, err = a.Docs(zarr.WriteOptions{Layout: layout, IsRoot: true})
//
// The package uses core/dtype and core/chunk, and core/dataset uses it.
package zarr

import (
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Layout identifies where NCZarr stores its own metadata, and under which names.
type Layout uint8

// The layouts. LayoutNewest is the default for writing.
const (
	LayoutPure    Layout = iota // pure Zarr v2: no NCZarr metadata at all
	LayoutNewest                // netcdf-c 4.9.3 and later: lowercase keys in .zattrs
	LayoutLower                 // netcdf-c 4.9.1, 4.9.2: lowercase keys in .zgroup and .zarray
	LayoutUpper                 // netcdf-c 4.8.1, 4.9.0: uppercase keys in .zgroup, .zarray, .zattrs
	LayoutV1                    // netcdf-c 4.8.0: separate .nczarr, .nczgroup, .nczarray, .nczattrs
	LayoutV3                    // pure Zarr v3
	LayoutNCZarr3               // NCZarr on Zarr v3: a draft of netcdf-c, keys in the attributes of zarr.json
)

// Docs holds the metadata documents of one node (group or array) by base name, such as
// ".zarray". A document missing from the map is missing from the store.
type Docs map[string][]byte

// Dim is a dimension that an NCZarr group declares.
type Dim struct {
	Name      string
	Len       int64
	Unlimited bool
}

// Group is the metadata of one group.
type Group struct {
	// Layout is the layout in which this group's NCZarr metadata was found. It is
	// LayoutPure or LayoutV3 if the group has no NCZarr metadata.
	Layout Layout
	// Superblock is the NCZarr version of the dataset, such as "2.0.0". It is set for the
	// root group only.
	Superblock string
	// Listed reports whether the group block lists both arrays and groups. If so, Arrays and
	// Groups are complete; otherwise the caller must list the store to find the children.
	Listed bool
	Dims   []Dim
	Arrays []string // names of the arrays in this group, in definition order
	Groups []string // names of the subgroups, in definition order
	// Invalid holds one error per malformed name in Arrays or Groups and per dimension
	// without a valid length.
	Invalid []error
	// DimsIncomplete reports whether Dims omits a dimension without a valid length.
	DimsIncomplete bool
	// Attrs holds the user's attributes in file order. The reserved attributes
	// (_nczarr_*, _ARRAY_DIMENSIONS) are excluded, and _NCProperties is stored in the
	// field NCProperties.
	Attrs        []Attr
	NCProperties string
	// Warnings holds one sentence per part of the documents that the parser ignored or
	// corrected.
	Warnings []string
}

// CodecSpec is one step of a codec chain, as found in the metadata.
type CodecSpec struct {
	// ID is the numcodecs id (v2) or the v3 name.
	ID string
	// Params is the JSON object of the parameters, including "id" for v2.
	Params json.RawMessage
}

// Array is the metadata of one array.
type Array struct {
	Layout Layout
	// Shape and Chunks have one entry per stored dimension. An NCZarr scalar has Shape
	// [1] and Scalar set; a pure Zarr scalar has both empty.
	Shape, Chunks []int64
	// Grid is the chunk grid if it is not regular. Chunks then has the largest chunk
	// length of each dimension; see ChunkGrid. Grid is nil for an array with Shards.
	Grid *chunk.Grid
	// Scalar reports whether the netCDF variable has rank 0, regardless of Shape.
	Scalar bool
	// Transpose is the order in which the dimensions of a chunk are stored: stored
	// dimension i is dimension Transpose[i]. The v2 order "F" is the reversed order. nil
	// means C order.
	Transpose []int
	DType     dtype.Type
	// Fields describes the members of a structured element, whose DType is dtype.Raw of
	// the structure's size, or the two parts of a complex number. It is nil for other
	// types.
	Fields []Field
	// Fill is one element in DType's size and byte order, or the string for dtype.String.
	// If HasFill is false, Fill is nil and the fill value is null: missing chunks have no
	// defined value and read as zeros.
	Fill    []byte
	HasFill bool
	// Codecs is the chain in encode order: v2 filters, then the compressor. For
	// dtype.String the first codec is the object codec.
	Codecs []CodecSpec
	// NoCompressor reports whether all of Codecs are v2 filters. It is set if the last
	// codec is not a compressor, for example a checksum.
	NoCompressor bool
	// ArrayCodecs is the number of array-to-array codecs at the start of Codecs. Zarr v3
	// puts the codec "bytes" after them; v2 does not record the number.
	ArrayCodecs int
	// Shards holds the levels of shards, outermost first. The outermost shards are the
	// objects of the store. Shards is nil if each chunk is an object.
	Shards []Shard
	// Keys describes how chunk keys are formed. v2 has no prefix.
	Keys chunk.Keys
	// DimNames is xarray's _ARRAY_DIMENSIONS; nil if absent.
	DimNames []string
	// DimRefs holds NCZarr's dimension references: absolute names such as "/g/x", or,
	// from other writers, names visible in the array's group. It is nil if the array
	// block is absent, and empty for a scalar.
	DimRefs []string
	// Storage is NCZarr's storage keyword: "chunked", "contiguous", "compact", "scalar"
	// or empty.
	Storage string
	Attrs   []Attr
	// MaxStrLen is NCZarr's _nczarr_maxstrlen, or 0 if absent. The attribute also stays
	// in Attrs, because netcdf-c shows it as an ordinary attribute.
	MaxStrLen int
	// Warnings holds one sentence per part of the documents that the parser ignored or
	// corrected.
	Warnings []string
}

// Shard is one level of sharding. A shard is an object, or part of one, that holds many
// chunks.
type Shard struct {
	Shape []int64 // shape of a shard in elements
	// Grid is the grid of the outermost shards in elements if it is not regular. Shape then
	// has the largest length of each dimension.
	Grid *chunk.Grid
	// AtStart, Checksum and Big describe how the index is stored; see
	// manifest.ShardIndex.
	AtStart, Checksum, Big bool
	// Axes maps each dimension of the shard to a dimension of the array, for shards after a
	// transpose codec. Nil means that the order is the same.
	Axes []int
	// Before is the number of codecs at the start of the array's Codecs that the document
	// lists before this level, outside of the shard. Each of them changes elements one by
	// one, so that it has the same effect on the chunks in the shard.
	Before int
	// Around is the chain of codecs that encode a shard as a whole, index included.
	Around []CodecSpec
}

// Attr is one attribute.
type Attr struct {
	Name string
	Type dtype.NC
	// Value is a slice of the Go type of Type: []int8, []uint8, []int16, []uint16,
	// []int32, []uint32, []int64, []uint64, []float32, []float64, []string for NCString,
	// and a plain string for NCChar (its bytes, possibly with NULs). A slice may be empty
	// but is never nil for an existing attribute.
	Value any
	// JSON is the text of the value in the document it was read from, or "" for a new
	// attribute. Unlike netCDF, pure Zarr has null and booleans and distinguishes 1 from
	// [1]. Writers of pure Zarr therefore write JSON if it still parses as Value.
	JSON string
}
