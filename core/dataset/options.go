// Package dataset reads and writes netCDF data stored as NCZarr or Zarr. Most programs
// import the package at the root of the module instead, which builds on this one.
//
//	ds, err := open.Open(ctx, "ocean.zarr", &dataset.Options{Registry: reg})
//	temp, err := ds.Root().Var("temp")
//	values, err := dataset.Get[float32](ctx, temp, chunk.All(temp.Shape()))
//
// A [Dataset] is a tree of [Group]s with shared [Dim]s, [Var]s and attributes. Storage
// drivers and filters come from a registry.Registry: drivers/builtin and filters/builtin
// provide the in-process ones, core/plugin/host the out-of-process ones.
//
// All types are safe for concurrent use, with two exceptions: no method may be called
// during or after Dataset.Close, and the result of concurrent writes to overlapping
// regions is undefined.
package dataset

import (
	"log/slog"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// Version is the version of this module. It is written into new datasets.
const Version = "0.1.0"

// Attr is an attribute: a name, a netCDF type and a typed value.
type Attr = zarr.Attr

// Options configures how a dataset is opened or created.
type Options struct {
	// Registry supplies drivers and filters. It is required.
	Registry registry.Registry
	// URLEnv supplies settings from rc files and the AWS configuration to core/open, which
	// infers locations. If nil, no such settings are used; local paths are probed in any
	// case. This package does not use it.
	URLEnv *ncurl.Env
	// DriverOptions maps the name of a driver to its options, a JSON object.
	DriverOptions map[string][]byte
	// Update opens an existing dataset for reading and writing.
	Update bool
	// UseConsolidated selects how consolidated metadata is read.
	UseConsolidated ConsolidatedUse
	// Limits bounds what is read from a store. Zero fields take the values of
	// [DefaultLimits].
	Limits Limits
	// Workers is the number of chunks processed concurrently; 0 means GOMAXPROCS, or more
	// for high-latency stores.
	Workers int
	// Wrap, if not nil, wraps the driver's Map, for example to log or count requests.
	// The wrapper sees every single request. Create may call Wrap concurrently.
	Wrap func(driver.Map) driver.Map
	// Remote configures access to high-latency stores: retries, concurrency and the
	// disk cache. The zero value means the defaults of layer.RemoteOptions.
	// Cache.Identity identifies the reader if the URL, URLEnv.Profiles and
	// DriverOptions do not.
	Remote layer.RemoteOptions
	// MergeGap is the maximum size, in bytes, of a gap between two parts of a chunk that
	// is read along with the parts, so that one request suffices. It applies to chunks
	// without codecs. 0 means [DefaultMergeGap].
	MergeGap int64
	// ChunkCache is the maximum size in bytes of the decoded chunks that the dataset
	// keeps after reads of parts of them, so that later reads of other parts send no
	// requests. 0 means [DefaultChunkCache], and a negative value disables the cache. See
	// [Dataset.Refresh].
	ChunkCache int64
	// WriteBuffer is the maximum size in bytes of the parts of chunks that the dataset
	// keeps in memory before it stores them: see [Var.Write]. 0 means
	// [DefaultWriteBuffer]. With a negative value, every Write stores its data
	// immediately.
	WriteBuffer int64
	// References is the access policy of a dataset whose chunks are references to parts of
	// other files. The zero value allows files below the directory of the reference file.
	References store.Access
	// Budget limits the memory of the dataset, and of all others with the same Budget: the
	// scratch memory of reads and writes, ChunkCache, WriteBuffer, and the metadata
	// documents while the dataset is opened. It does not include results, the metadata in
	// its parsed form, and the memory of plugin processes. A call that needs more than the
	// Budget has fails with ncerr.ErrLimit; otherwise it waits until enough is free. nil
	// means a Budget of the size DefaultMemory.
	Budget *budget.Budget
	// Log receives warnings; nil discards them.
	Log *slog.Logger
	// SingleWriter states that no other process writes this dataset while it is open,
	// so that partial chunks may be read, changed and written back on stores without
	// conditional writes. If it is false, the first such write logs a warning.
	SingleWriter bool

	// migrating allows opening a dataset that has documents of two Zarr versions, and
	// keeps all documents in memory. [Migrate] sets it.
	migrating bool
}

// CreateOptions configures a new dataset.
type CreateOptions struct {
	Options
	// Layout is the metadata layout to write. If nil, the format of the URL selects it:
	// LayoutPure for mode=zarr, LayoutV3 for mode=v3, LayoutNCZarr3 for mode=nczarr,v3,
	// LayoutNewest otherwise. A URL whose mode contradicts Layout is refused with
	// ncerr.ErrInvalid.
	Layout *zarr.Layout
	// NoXarray omits _ARRAY_DIMENSIONS, as mode=noxarray does. The NCZarr layouts store
	// dimension names elsewhere; pure Zarr loses them.
	NoXarray bool
	// Strings selects how strings are stored.
	Strings StringStorage
	// NoClobber makes Create fail with ncerr.ErrExists if a dataset already exists.
	NoClobber bool
	// Force allows creating a dataset inside another one, or over a directory that
	// contains other files. With NoClobber, Create still refuses to delete a dataset.
	Force bool
	// Consolidated makes each Flush write consolidated metadata as well.
	Consolidated bool
}

// Limits bounds sizes that come from untrusted data.
type Limits struct {
	MaxMetadata  int64 // bytes of one metadata document; default 64 MiB
	MaxDocuments int64 // bytes of all documents that Open reads, except consolidated metadata, plus the keys of groups and variables; default 256 MiB
	MaxChunk     int64 // bytes of one decoded chunk, and of the strings that one read collects from several chunks; default 2 GiB
	MaxElements  int64 // elements of one chunk; default 2^30
	MaxChunks    int64 // chunks of a variable to be copied or dumped; default 2^28
	MaxData      int64 // bytes of a variable to be copied or dumped, and of the result of [Get]; default 16 TiB
	MaxNodes     int   // groups and variables of a dataset; default 1,000,000
	MaxDepth     int   // nesting depth of groups; default 256
	MaxKeys      int   // keys that one listing or search keeps in memory; default zmap.DefaultMaxList
	MaxListing   int64 // bytes of all keys in one listing; default zmap.DefaultMaxListBytes
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{MaxMetadata: 64 << 20, MaxDocuments: 256 << 20, MaxChunk: 2 << 30, MaxElements: 1 << 30, MaxChunks: 1 << 28, MaxData: 16 << 40, MaxNodes: 1_000_000, MaxDepth: 256, MaxKeys: zmap.DefaultMaxList, MaxListing: zmap.DefaultMaxListBytes}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.MaxMetadata > 0 {
		d.MaxMetadata = l.MaxMetadata
	}
	if l.MaxDocuments > 0 {
		d.MaxDocuments = l.MaxDocuments
	}
	if l.MaxChunk > 0 {
		d.MaxChunk = l.MaxChunk
	}
	if l.MaxElements > 0 {
		d.MaxElements = l.MaxElements
	}
	if l.MaxKeys > 0 {
		d.MaxKeys = l.MaxKeys
	}
	if l.MaxChunks > 0 {
		d.MaxChunks = l.MaxChunks
	}
	if l.MaxData > 0 {
		d.MaxData = l.MaxData
	}
	if l.MaxListing > 0 {
		d.MaxListing = l.MaxListing
	}
	if l.MaxNodes > 0 {
		d.MaxNodes = l.MaxNodes
	}
	if l.MaxDepth > 0 {
		d.MaxDepth = l.MaxDepth
	}
	return d
}

// Problem describes a part of a dataset that could not be read and was left out. The
// rest of the dataset remains usable.
type Problem struct {
	// Path is the absolute name of the group or variable, such as "/g/temp".
	Path string
	// Err is the reason. It has an error kind of package ncerr.
	Err error
}

// VarSpec describes a variable to define.
type VarSpec struct {
	// Type is the netCDF type.
	Type dtype.NC
	// Dims are the dimensions. Each belongs to this group or to one above it. Empty
	// means a scalar.
	Dims []*Dim
	// Chunks is the chunk shape. nil selects the result of [DefaultChunks], extended
	// along unlimited dimensions up to their current length or a chunk size of 1 MiB.
	Chunks []int64
	// Grid, if not nil, is the chunk grid, and Chunks is ignored. Only Zarr v3 has
	// rectilinear grids.
	Grid *chunk.Grid
	// Shards is the shape, in elements, of the shards that contain the chunks. Its
	// lengths must be multiples of those in Chunks. Each shard is one object of the
	// store. nil makes each chunk an object. Only Zarr v3 has shards.
	Shards []int64
	// ShardGrid, if not nil, is the grid of the shards in elements, and Shards is ignored.
	ShardGrid *chunk.Grid
	// Codecs is the codec chain in encode order (HDF5 order); nil stores raw bytes.
	Codecs []zarr.CodecSpec
	// Order is the byte order of stored elements; OrderNone means little-endian. In a
	// dataset written by netcdf-c 4.9.0, which supports only little-endian, new
	// variables are always little-endian.
	Order dtype.Order
	// Separator is the separator in chunk keys, '.' or '/'; 0 means '/' in Zarr v3 and
	// '.' otherwise.
	Separator byte
	// Fill is the fill value: a slice of one value of Type's Go type, or a one-byte
	// string for NCChar. nil means netCDF's default fill value.
	Fill any
	// NoFill stores null as the fill value, or zero in Zarr v3, which has no null.
	// Missing elements then read as zeros.
	NoFill bool
	// Storage is "", "chunked", "contiguous" or "compact"; the last two store the
	// variable as one chunk of its shape.
	Storage string
	// MaxStrLen is the fixed size in bytes of NCString elements. 0 means the size in
	// the attribute _nczarr_maxstrlen, in the root's _nczarr_default_maxstrlen, or
	// according to [StringStorage]. [VarLen] stores strings of variable length;
	// netcdf-c cannot open a dataset that contains such strings. In pure Zarr a fixed
	// size is at least 2, because an element of one byte is a char there.
	MaxStrLen int
	// DType is the stored element type, if it is not the one that corresponds to Type:
	// float16 for float, bool for ubyte, datetimes for int64, fixed text for string.
	// Type must be the type that DType is read as. The NCZarr layouts support only
	// netCDF's own types. The zero value means the type that corresponds to Type.
	DType dtype.Type
	// Quantize selects how values of type float and double are rounded when they are
	// written; the zero value does not round. The attributes named by
	// [dtype.QuantizeMode.Attr] have the same meaning: Quantize adds its attribute if
	// Attrs does not contain it, and without Quantize such an attribute in Attrs
	// enables the rounding.
	Quantize dtype.Quantization
	// Attrs are the attributes, in order.
	Attrs []Attr

	absent []byte // the stored fill value of a copy if it has the stored type DType; _FillValue may differ from it
}
